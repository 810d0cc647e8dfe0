"""What changed since the mark: which manifests have to be read again before anything is deleted. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from lance_spark.cleanup.references import ChainSpan
from lance_spark.cleanup.retention import Verdict, retained_by_ref
from lance_spark.cleanup.stream_tags import first_unread
from lance_spark.cleanup.survey import Chain, Survey
from lance_spark.refs.model import Branch
from lance_spark.refs.reflog import FORGOTTEN, RefChange


def newly_live(
    before: Survey,
    after: Survey,
    verdicts: Sequence[Verdict],
    manifests_are_done: bool = False,
    window_ns: int | None = None,
) -> list[ChainSpan]:
    """Manifests whose files became live since the mark: by chain of ``after``, with positions in that chain.

    These are the manifests that were not there at the mark, and removed ones that something needs now: a tag, a branch
    that was made from them since, or that they are the newest. A restore, a commit of old fragments and a branch in the
    making all show as a new manifest.

    ``manifests_are_done`` says that all manifests that go were deleted. A removed manifest that is still listed could
    not be deleted, or was spared for a tag that is gone again. It would be listed and unreadable without its files.
    ``window_ns`` is when the commit window begins, by the clock of now. A removed manifest within it is needed as well,
    even if it seemed older by the clock at the mark.
    """
    # By URI: if another clone was recorded in between, repositories have other numbers.
    kept_before = {
        (before.repositories[chain.repository].uri, chain.root, manifest): verdicts[index].kept[position]
        for index, chain in enumerate(before.chains)
        for position, manifest in enumerate(chain.files)
    }
    spans = []
    for index, chain in enumerate(after.chains):
        uri, needed = after.repositories[chain.repository].uri, _needed(before, after, chain, window_ns)
        kept = [kept_before.get((uri, chain.root, manifest)) for manifest in chain.files]
        positions = tuple(
            position
            for position, stays in enumerate(kept)
            if stays is None or (not stays and (manifests_are_done or position in needed))
        )
        if positions:
            spans.append(ChainSpan(index, positions))
    return spans


def _needed(before: Survey, after: Survey, chain: Chain, window_ns: int | None) -> set[int]:
    """Positions that tags and new branches point at, the newest one, and those within the commit window."""
    if chain.repository or not chain.versions:
        return set()
    # What an older branch was made from was judged already: the policy may let it go.
    known = {_origin(branch) for branch in before.refs.branches.values()}
    new = [branch for branch in after.refs.branches.values() if _origin(branch) not in known]
    named = {tag.version for tag in after.refs.tags.values() if tag.branch == chain.branch}
    known_changes = {change.id for change in before.changes}
    undoable = [change for change in after.changes if change.id not in known_changes and change.state != FORGOTTEN]
    named |= {change.before.target.version for change in undoable if change.before and _on(change, chain)}
    named |= {branch.parent_version for branch in new if branch.parent_branch == chain.branch}
    reader = first_unread(after.refs, chain.branch)
    if reader is not None:  # one that began since may read the history from its first version on
        named |= {manifest.version for manifest in chain.versions if manifest.version >= reader}
    needed = {position for position, manifest in enumerate(chain.versions) if manifest.version in named}
    if window_ns is not None:
        needed |= {position for position, manifest in enumerate(chain.versions) if manifest.modified_ns >= window_ns}
    retained = retained_by_ref(after, chain)  # as the ref says by now: it may ask for more than it did at the mark
    needed |= set(range(max(0, len(chain.versions) - retained), len(chain.versions)))
    return needed | {len(chain.versions) - 1}


def _on(change: RefChange, chain: Chain) -> bool:
    return change.before is not None and change.before.target.branch == chain.branch


def _origin(branch: Branch) -> tuple[object, ...]:
    return branch.name, branch.parent_branch, branch.parent_version, branch.created_at
