"""What changed since the mark: which manifests have to be read again before anything is deleted. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lance_spark.cleanup.retention import Verdict
from lance_spark.cleanup.survey import Chain, Survey
from lance_spark.refs.model import Branch


@dataclass(frozen=True)
class News:
    """Manifests whose files became live since the mark."""

    chain: Chain
    """As it is now."""
    positions: tuple[int, ...]
    """In the chain as it is now."""


def news(
    before: Survey,
    after: Survey,
    verdicts: Sequence[Verdict],
    listed_is_live: bool = False,
    window_ns: int | None = None,
) -> list[News]:
    """Per chain, the manifests that were not there at the mark, and removed ones that something holds on to now.

    That is a tag, a branch made from them since, or that they are the latest. A restore, a commit of old fragments
    and a branch in the making all show as a new manifest.

    ``listed_is_live`` says that manifests have had their turn: a removed one that is still listed could not be
    deleted, or was spared for a tag that is gone again. It would be listed and unreadable without its files.
    ``window_ns`` is when the commit window begins, by the clock of now: a removed one that is younger than the clock at
    the mark let it seem is held on to as well.
    """
    # By URI: with another clone that was recorded in between, the numbers of repositories are others.
    seen = {
        (before.repositories[chain.repository].uri, chain.root, manifest): verdicts[index].kept[position]
        for index, chain in enumerate(before.chains)
        for position, manifest in enumerate(chain.files)
    }
    found = []
    for chain in after.chains:
        uri, held = after.repositories[chain.repository].uri, _held(before, after, chain, window_ns)
        kept = [seen.get((uri, chain.root, manifest)) for manifest in chain.files]
        positions = tuple(
            position
            for position, stays in enumerate(kept)
            if stays is None or (not stays and (listed_is_live or position in held))
        )
        if positions:
            found.append(News(chain, positions))
    return found


def _held(before: Survey, after: Survey, chain: Chain, window_ns: int | None) -> set[int]:
    """Positions that tags and new branches point at, the latest one, and those within the commit window."""
    if chain.repository or not chain.versions:
        return set()
    # What an older branch was made from was judged already: the policy may let it go.
    known = {_origin(branch) for branch in before.refs.branches.values()}
    new = [branch for branch in after.refs.branches.values() if _origin(branch) not in known]
    named = {tag.version for tag in after.refs.tags.values() if tag.branch == chain.branch}
    named |= {branch.parent_version for branch in new if branch.parent_branch == chain.branch}
    held = {position for position, manifest in enumerate(chain.versions) if manifest.version in named}
    if window_ns is not None:
        held |= {position for position, manifest in enumerate(chain.versions) if manifest.modified_ns >= window_ns}
    return held | {len(chain.versions) - 1}


def _origin(branch: Branch) -> tuple[object, ...]:
    return branch.name, branch.parent_branch, branch.parent_version, branch.created_at
