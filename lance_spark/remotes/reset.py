"""Reset: a local branch becomes what the remote's branch is, whatever prevents a merge.

Before that, its own rows that the remote lacks are put on a new branch, which begins at the remote's version: it can be
looked at, changed, merged and pushed like any other. No rows are copied. Which of them the remote lacks, their values
tell: history may be what is missing. Only rows in files that the two do not share are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.core.location import DatasetLocation
from lance_spark.core.records.tracking import Edge, following_name
from lance_spark.core.refs import MAIN, PinnedVersion
from lance_spark.engine.local import Engine
from lance_spark.errors import Conflict, InvalidOption, NotCommittable, NotFound, Refused
from lance_spark.format.contents import DeletionFile, Fragment
from lance_spark.format.operations import Steps, key_columns
from lance_spark.format.row_ids import Offsets
from lance_spark.format.row_values import compare_hashed
from lance_spark.format.versions import MERGE, MOVED, Snapshot, delta
from lance_spark.merge import change_rules, replay_commits
from lance_spark.merge.ancestry import Graph, trace_of
from lance_spark.merge.assembly_rules import InPlacePolicy, ReplayPlan, place
from lance_spark.merge.following_rules import BITMAP
from lance_spark.merge.merge import (
    PreparedReplay,
    Request,
    commit_prepared,
    open_root,
    plan_replay,
    remember,
)
from lance_spark.merge.replay_commits import copy_each, copy_files
from lance_spark.merge.report import MergeResult, Summary
from lance_spark.merge.row_conflicts import HashRows
from lance_spark.refs.refs import create_branch_at, delete_branch
from lance_spark.remotes.fetch import FetchOptions, Remote, fetch, followed, node_of, write_down
from lance_spark.remotes.report import PullResult
from lance_spark.scan.fragment_reads import blob_columns
from lance_spark.storage import refs, versions
from lance_spark.storage.commits import attempts, check_unprotected, overtaken
from lance_spark.storage.datasets import pin_latest
from lance_spark.storage.followers import check_mergeable
from lance_spark.storage.mem_wal import check_nothing_waits


def check_reset(ff_only: bool, message: str | None) -> None:
    """Raise InvalidOption for options that a reset does not have."""
    if ff_only or message is not None:
        raise InvalidOption("A pull with a reset merges nothing: it takes no message and no fast-forward.")


def reset(
    local: DatasetLocation,
    remote: Remote,
    branch: str | None,
    into: str | None,
    engine: Engine,
    dry_run: bool = False,
) -> PullResult:
    """Fetch one branch of a remote and let a local one (None is main for both) become the same.

    Its own rows that the remote lacks are put on a branch, which the result names. Raises Refused for a protected
    branch, and like fetch; then the local branch is unchanged.
    """
    check_mergeable(local, into)
    check_unprotected(local, into)
    check_nothing_waits(local, pin_latest(local, into), "the remote's state may not know of them")
    fetched = fetch(local, remote, engine, FetchOptions(branches=[branch]))
    head = pin_latest(local, following_name(remote.name, branch))
    for _ in attempts():
        resetting = _Resetting(local, head, pin_latest(local, into), engine)
        plan = resetting.plan
        if plan is not None and plan.placed.new_bases and not dry_run:
            replay_commits.add_bases(local, into, plan.placed.new_bases)
            continue
        lacking = _Lacking.of(resetting)
        if dry_run or (plan is not None and plan.is_up_to_date):
            if not dry_run:
                _note(local, remote, branch, head, resetting.ours)
            return PullResult(fetched, resetting.result(None, lacking.rows, dry_run))
        kept = _put_aside(resetting, lacking) if lacking.rows else None
        try:
            version = resetting.commit()
        except Conflict:  # another process committed: its rows are not on the new branch
            if kept is not None:
                delete_branch(local, kept)
            continue
        _note(local, remote, branch, head, PinnedVersion(into, version))
        return PullResult(fetched, resetting.result(version, lacking.rows), kept)
    raise overtaken(into)


@dataclass(frozen=True)
class _Resetting:
    """The remote's version, as the following branch has it, and the version of the local branch that it replaces."""

    local: DatasetLocation
    head: PinnedVersion
    ours: PinnedVersion
    engine: Engine

    @property
    def request(self) -> Request:
        """Everything in the local branch is undone: the base is its newest version."""
        return Request(
            location=self.local,
            ours=self.ours,
            theirs=self.head,
            base_ours=self.ours,
            base_theirs=self.ours,
            our_path=(),
            their_path=(),
            trace=trace_of(Graph(self.local), MERGE, self.head),
            message=f"Reset {self.ours.branch or MAIN} to {self.head}",
            numbering=self.head,
            reference=InPlacePolicy(outside=self.local.uri),
            with_indexes=False,
            alone=True,
        )

    @property
    def plan(self) -> ReplayPlan | None:
        """None if pylance cannot commit the difference at once."""
        try:
            plan = plan_replay(self.request)
        except NotCommittable:
            return None
        return None if plan.conflicts else plan

    def commit(self) -> int:
        """The version that was made. Raises Conflict if the local branch went on."""
        plan, request = self.plan, self.request
        if plan is not None:
            copy_files(plan, partial(open_root, request), self.engine)
            try:
                return commit_prepared(PreparedReplay(request, plan), self.engine).version or self.ours.version
            except NotCommittable:
                pass
        theirs = versions.read_snapshot(self.local, self.head)
        copy = partial(copy_each, "pull", engine=self.engine)
        properties = {**request.trace.properties(request.message), MOVED: "true"}
        return replay_commits.replace_all(self.local, self.ours, theirs, properties, copy)

    def result(self, version: int | None, lacking: int, dry_run: bool = False) -> MergeResult:
        """In numbers: what the remote has and the local branch lacks, and the other way round."""
        rows = [self._count(pin) for pin in (self.ours, self.head)]
        summary = Summary(
            versions=0,
            rows_added=max(0, rows[1] - rows[0] + lacking),
            rows_deleted=lacking,
            fragments_changed=0,
            columns_added=(),
            columns_dropped=(),
            files=0,
            bytes=0,
        )
        return MergeResult(
            action="reset",
            into=self.ours.branch or MAIN,
            source=str(self.head),
            base=str(self.head),
            version=version,
            fast_forward=False,
            up_to_date=version is None and not dry_run,
            summary=summary,
            dry_run=dry_run,
        )

    def _count(self, pin: PinnedVersion) -> int:
        return sum(fragment.rows for fragment in versions.read_contents(self.local, pin).fragments())


# --- The rows that the remote lacks, by their values


@dataclass(frozen=True)
class _Lacking:
    """What the local branch has and the remote lacks."""

    ours: Mapping[int, Offsets]
    """Offsets of rows, by fragment of the local branch."""
    replaced: Mapping[int, Offsets]
    """Rows of the remote's version that these replace, under the same key."""
    same_columns: bool = True

    @property
    def rows(self) -> int:
        return sum(map(len, self.ours.values()))

    @staticmethod
    def of(resetting: _Resetting) -> _Lacking:
        """Compare the fragments that the two do not share. If columns differ or have blobs, all their rows count."""
        local, engine = resetting.local, resetting.engine
        now, then = (versions.read_snapshot(local, pin) for pin in (resetting.head, resetting.ours))
        change = delta(then, now)
        before = [*change.removed, *(old for old, _ in change.changed)]
        after = [*change.added, *(new for _, new in change.changed)]
        if _named(now) != _named(then) or blob_columns(local, resetting.ours):
            whole = {entry.id: np.zeros(entry.rows, np.int64) for entry in before}
            return _Lacking(whole, {}, same_columns=False)
        columns = tuple(entry.name for entry in now.contents.fields if entry.parent_id < 0)
        hashing = HashRows(local, columns, tuple(key_columns(now.contents.fields)))
        mine = hashing.table(engine, resetting.ours, before)
        changes = compare_hashed(mine, hashing.table(engine, resetting.head, after))
        own = np.concatenate([np.asarray(changes.deleted), np.asarray(changes.changed_before)])
        base = _base(resetting)
        if len(own) and base is not None and _named(base) == _named(then):
            own = _since(base, then, mine.filter(pc.is_in(mine["address"], pa.array(own))), hashing, engine)
        replaced = np.asarray(changes.changed_after)[np.isin(np.asarray(changes.changed_before), own)]
        return _Lacking(_by_fragment(own), _by_fragment(replaced))


def _since(base: Snapshot, ours: Snapshot, rows: pa.Table, hashing: HashRows, engine: Engine) -> Offsets:
    """The addresses of those of some rows that the base did not have: others were deleted at the remote."""
    change = delta(base, ours)
    moved = [*change.removed, *(old for old, _ in change.changed)]
    new = pa.array([entry.id for entry in (*change.added, *(now for _, now in change.changed))], pa.uint64())
    rows = rows.filter(pc.is_in(pc.shift_right(rows["address"], pa.scalar(32, pa.uint64())), new))
    changes = compare_hashed(rows, hashing.table(engine, base.pin, moved))
    return np.concatenate([np.asarray(changes.deleted), np.asarray(changes.changed_before)])


def _base(resetting: _Resetting) -> Snapshot | None:
    """The last common version; None if it is unknown, or gone."""
    graph = Graph(resetting.local)
    bases = graph.bases(resetting.ours, resetting.head)
    try:
        return versions.read_snapshot(resetting.local, graph.pin(bases[0])) if len(bases) == 1 else None
    except (NotFound, Refused):
        return None


def _named(snapshot: Snapshot) -> list[tuple[str, str]]:
    return [(entry.name, entry.type) for entry in snapshot.contents.fields]


def _by_fragment(addresses: Offsets) -> dict[int, Offsets]:
    places = addresses.astype(np.uint64)
    owners = (places >> np.uint64(32)).astype(np.int64)
    offsets = (places & np.uint64(0xFFFF_FFFF)).astype(np.int64)
    return {int(key): np.sort(offsets[owners == key]) for key in np.unique(owners)}


def _put_aside(resetting: _Resetting, lacking: _Lacking) -> str:
    """Put rows that the remote lacks on a new branch; returns its name.

    With other columns than the remote's, or with blobs, the branch is the local one as it was.
    """
    local, ours = resetting.local, resetting.ours
    taken = refs.read_branches(local).branches
    first = f"reset/{(ours.branch or MAIN)}-{ours.version}"
    name = next(name for name in (first, *(f"{first}-{count}" for count in range(2, 10_000))) if name not in taken)
    if not lacking.same_columns:
        create_branch_at(local, name, ours)
        return name
    create_branch_at(local, name, resetting.head)
    theirs = versions.read_snapshot(local, ours)
    for _ in attempts():
        target = pin_latest(local, name)
        plan = _aside(resetting, versions.read_snapshot(local, target), theirs, lacking)
        if plan.placed.new_bases:
            replay_commits.add_bases(local, name, plan.placed.new_bases)
            continue
        copy_files(plan, lambda uri: DatasetLocation(uri, local.options), resetting.engine)
        replay_commits.commit(local, local, plan)
        return name
    raise overtaken(name)


def _aside(resetting: _Resetting, target: Snapshot, theirs: Snapshot, lacking: _Lacking) -> ReplayPlan:
    """The plan that adds the fragments with such rows to a version; deletion files mask all other rows."""
    added: list[Fragment] = []
    masks: dict[int, tuple[int, ...]] = {}
    for fragment in theirs.contents.fragments():
        rows = lacking.ours.get(fragment.id)
        if rows is None:
            continue
        mask = np.setdiff1d(np.arange(fragment.physical_rows), rows)
        masks |= {fragment.id: tuple(mask.tolist())} if len(mask) else {}
        deletion = DeletionFile(BITMAP, 0, 0, len(mask), None) if len(mask) else None
        added.append(fragment._replace(deletion=deletion))
    replaced = {key: tuple(rows.tolist()) for key, rows in lacking.replaced.items()}
    change = change_rules.MergeChange(
        added=tuple(added), followed=change_rules.Followed(deletions=replaced, masks=masks)
    )
    blobs = bool(blob_columns(resetting.local, theirs.pin))
    sides = change_rules.Sides(target, target, target, theirs, Steps(None), Steps(None), numbering=theirs)
    return ReplayPlan(
        sides=sides,
        change=change,
        placed=place(change, target, theirs, InPlacePolicy(everything=True), sidecars=blobs),
        trace=trace_of(Graph(resetting.local), MERGE, resetting.ours),
        message=f"Rows of {resetting.ours} that {resetting.head} lacks",
    )


def _note(local: DatasetLocation, remote: Remote, branch: str | None, head: PinnedVersion, made: PinnedVersion) -> None:
    """Record that the branch and the remote's version are the same from here on: what led to it no longer matters."""
    remember(local, made.branch, [head], made.version)
    table = refs.read_branches(local)
    follows = followed(table, remote.name)[branch]
    if follows.newest is not None:
        graph = Graph(local, table)
        into = node_of(graph, follows, follows.newest)
        write_down(local, follows.with_edges([Edge(into.chain, into.version, graph.node(made))]))
