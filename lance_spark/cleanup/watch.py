"""What changed since the mark: which manifests have to be read again before anything is deleted. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lance_spark.cleanup.keep import Verdict
from lance_spark.cleanup.survey import Chain, Survey


@dataclass(frozen=True)
class News:
    """Manifests whose files became live since the mark."""

    chain: Chain
    """As it is now."""
    positions: tuple[int, ...]
    """In the chain as it is now."""


def news(before: Survey, after: Survey, verdicts: Sequence[Verdict]) -> list[News]:
    """Per chain, the manifests that were not there at the mark, and removed ones that something holds on to now.

    That is a tag, a branch made from them, or that they are the latest. A restore, a commit of old fragments and a
    branch in the making all show as a new manifest.
    """
    seen = {
        (chain.repository, chain.root, manifest): verdicts[index].kept[position]
        for index, chain in enumerate(before.chains)
        for position, manifest in enumerate(chain.files)
    }
    found = []
    for chain in after.chains:
        held = _held(after, chain)
        positions = tuple(
            position
            for position, manifest in enumerate(chain.files)
            if not seen.get((chain.repository, chain.root, manifest), False)
            and ((chain.repository, chain.root, manifest) not in seen or position in held)
        )
        if positions:
            found.append(News(chain, positions))
    return found


def _held(survey: Survey, chain: Chain) -> set[int]:
    """Positions that refs point at, and the latest one."""
    if chain.repository or not chain.versions:
        return set()
    named = {tag.version for tag in survey.refs.tags.values() if tag.branch == chain.branch}
    named |= {branch.parent_version for branch in survey.refs.branches.values() if branch.parent_branch == chain.branch}
    latest = len(chain.versions) - 1
    return {position for position, manifest in enumerate(chain.versions) if manifest.version in named} | {latest}
