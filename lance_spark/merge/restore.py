"""Restoring: an older version of a branch becomes its newest one.

In: a pinned version. Out: a new version with its rows, columns and indexes. A replay makes it where possible, which
notices concurrent commits; pylance's own restore does the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from lance_spark.clones import base_commits as clone_commits
from lance_spark.clones.relocate import BasePathResolver
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import MAIN, PinnedVersion
from lance_spark.engine.local import Engine
from lance_spark.errors import Conflict, NotCommittable, Refused
from lance_spark.format.operations import VersionSpan
from lance_spark.format.versions import MOVED, RESTORE, Root
from lance_spark.indexes.index_segments import commit_indexes
from lance_spark.merge import replay_commits
from lance_spark.merge.ancestry import Graph, trace_of
from lance_spark.merge.assembly_rules import ReplayPlan
from lance_spark.merge.merge import Request, plan_replay
from lance_spark.merge.replay_commits import copy_files
from lance_spark.merge.restore_rules import HARMLESS, given_up, index_change, moved, needs_pylance, with_own_ids
from lance_spark.storage import commits, datasets, files, versions
from lance_spark.storage.brought import recorded
from lance_spark.storage.followers import check_writable
from lance_spark.storage.mem_wal import check_nothing_waits


@dataclass(frozen=True)
class Restored:
    version: PinnedVersion
    indexes_lacking: tuple[str, ...] = ()
    """Indexes that no longer cover all rows they covered in the restored version. Optimizing them adds the rest."""


def restore(location: DatasetLocation, pin: PinnedVersion, engine: Engine) -> PinnedVersion:
    """Commit a new version equal to the pinned one, on its branch; returns it. See :func:`restore_version`."""
    return restore_version(location, pin, engine).version


def restore_version(location: DatasetLocation, pin: PinnedVersion, engine: Engine) -> Restored:
    """Commit a new version with the rows, columns and indexes of the pinned one, on its branch.

    The order of rows may change: pylance sorts fragments by id and does not reuse id 0. Rows that another process
    appends meanwhile are kept. Any other concurrent row change raises Conflict, as the user has not seen it; then
    nothing was changed. If columns or settings differ, or the table is now empty, only pylance's own restore can do it.
    That restore covers a commit that comes in between: Conflict names that commit, and it is not lost. Raises Refused
    for the newest version, NotFound for a missing one.
    """
    check_writable(location, pin.branch)
    first = datasets.pin_latest(location, pin.branch)
    if pin.version == first.version:
        raise Refused(f"Version {first.version} is already the newest of branch '{pin.branch or MAIN}'.")
    check_nothing_waits(location, first, "a version from before may not know of them")
    head: PinnedVersion | None = None
    for _ in commits.attempts():
        head = first if head is None else _newest(location, pin, first)
        plan = _plan(location, head, pin)
        if plan is None:
            return Restored(_by_pylance(location, pin, head))
        made = _commit(location, pin, plan, engine)
        if made is not None:
            return _with_indexes(location, pin, plan, made)
    raise commits.overtaken(pin.branch)


def _plan(location: DatasetLocation, head: PinnedVersion, pin: PinnedVersion) -> ReplayPlan | None:
    """The plan from the newest version to the older one; None if only pylance can restore it."""
    request = Request(
        location=location,
        ours=head,
        theirs=pin,
        base_ours=head,
        base_theirs=head,
        our_path=(),
        their_path=(VersionSpan(pin.branch, pin.version, head.version),),
        trace=trace_of(Graph(location), RESTORE, pin),
        message=f"Restore {pin}",
    )
    try:
        plan = plan_replay(request)
    except NotCommittable:
        return None  # pylance's own restore can do more
    located = _located(location, pin, plan)
    return None if needs_pylance(plan) else with_own_ids(located)


def _located(location: DatasetLocation, pin: PinnedVersion, plan: ReplayPlan) -> ReplayPlan:
    """The plan with files where a relocation moved them. Raises Refused for files that are in neither place.

    If pylance has to restore the version, files are read from their former place.
    """
    strange = given_up(plan, location.uri)
    if not strange:
        return plan
    version = clone_commits.read_version(location, pin)
    looked = () if needs_pylance(plan) else BasePathResolver(location, None).look(version)
    targets: dict[int | None, Root] = {state.key: state.target for state in looked if state.moves and state.target}
    used = {plan.sides.theirs.bases[key] for key, use in version.uses.items() if use.files and key not in targets}
    for root in sorted(strange & used):
        if not files.exists(DatasetLocation(root.uri, location.options)):
            raise Refused(
                f"{pin} has files in {root.uri}, which does not exist.",
                hint="If the dataset was moved, versions from before the move need the old place.",
            )
    return moved(plan, targets)


def _commit(location: DatasetLocation, pin: PinnedVersion, plan: ReplayPlan, engine: Engine) -> PinnedVersion | None:
    """Carry the plan out. None if it must be planned again: a place is new, or another process committed first."""
    copy_files(plan, lambda uri: DatasetLocation(uri, location.options), engine)
    try:
        if not plan.copies and not plan.placed.new_bases:
            with commits.unchanged():
                return PinnedVersion(pin.branch, replay_commits.commit(location, location, plan))
        if plan.placed.new_bases:
            clone_commits.register(location, pin.branch, plan.placed.new_bases, plan.trace.properties(plan.message))
            return None
        return PinnedVersion(pin.branch, replay_commits.commit(location, location, plan))
    except Conflict:
        return None


def _newest(location: DatasetLocation, pin: PinnedVersion, first: PinnedVersion) -> PinnedVersion:
    """The newest version. Raises Conflict if a version after the first changed rows: it would be undone unseen."""
    head = datasets.pin_latest(location, pin.branch)
    since = range(first.version + 1, head.version + 1)
    transactions = versions.read_transactions(location, pin.branch, since)
    seen = [
        version for version in since if (made := transactions.get(version)) is None or made.operation not in HARMLESS
    ]
    if seen:
        raise Conflict(
            f"Version {', '.join(map(str, seen))} of '{pin.branch or MAIN}' was committed while {pin} was being "
            "restored; nothing was changed.",
            hint="Check it, and run this again if it should also be undone.",
        )
    return head


def _with_indexes(location: DatasetLocation, pin: PinnedVersion, plan: ReplayPlan, made: PinnedVersion) -> Restored:
    """Register the indexes of the restored version again. Until then, its rows are read without an index."""
    then = plan.sides.theirs
    if not then.contents.indexes:
        return Restored(made)
    old, gone = clone_commits.read_version(location, pin).indexes, given_up(plan, location.uri)
    properties = {**plan.trace.properties(plan.message), MOVED: "false"}
    for _ in commits.attempts():
        head = clone_commits.read_head(location, pin.branch)
        there = [
            index._replace(base_id=head.known[then.bases[index.base_id]])
            for index in old
            if then.bases[index.base_id] in head.known.keys() - gone
        ]
        change = index_change(then.contents, there, head.contents, head.indexes)
        if not change.new:
            return Restored(made, change.lacking)
        try:
            done = commit_indexes(location, head.pin, change.new, change.removed, properties)
        except Conflict:
            continue
        return Restored(done if done.version == made.version + 1 else made, change.lacking)
    return Restored(made, tuple(sorted({index.name for index in then.contents.indexes})))


def _by_pylance(location: DatasetLocation, pin: PinnedVersion, head: PinnedVersion) -> PinnedVersion:
    """Restore with pylance. It conflicts with nothing, so version numbers are compared afterwards.

    A concurrent commit that was cleaned up meanwhile could neither be checked nor restored.
    """
    commits.check_nothing_missing(location, head)
    commits.check_unprotected(location, pin.branch)
    with commits.unchanged():
        restored = recorded(location, head, RESTORE, partial(datasets.restore, location, pin))
    if restored != head.version + 1:
        between = ", ".join(str(version) for version in range(head.version + 1, restored))
        raise Conflict(
            f"Version {pin} was restored as {restored}, but version {between} was committed first and is covered.",
            hint=f"Nothing is lost: check version {between} and restore it if it should win.",
        )
    return PinnedVersion(pin.branch, restored)
