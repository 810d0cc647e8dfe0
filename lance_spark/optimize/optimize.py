"""Optimizing: compaction of small fragments into large ones, and rewriting in another order, on any branch.

In: a branch and options. Out: new fragments with the same rows. Tasks are planned here, run on the engine and committed
group by group. A crash loses at most one group; the same call continues with the rest. Files that are never committed
are left to the cleanup.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate

import pyarrow as pa

from lance_spark import hints
from lance_spark.clones.base_commits import read_version
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.core.texts import counted, readable
from lance_spark.engine.local import LOCAL, Engine, Runner, Work, rewriting
from lance_spark.errors import Conflict, CorruptData, Refused, StorageFailure
from lance_spark.format.blobs import holds_blobs
from lance_spark.format.contents import Fragment, IndexRecord, decode_indexes
from lance_spark.format.schema import row_width
from lance_spark.format.versions import Copy, Root, Snapshot
from lance_spark.indexes.index_rules import lost_coverage
from lance_spark.indexes.index_segments import commit_indexes
from lance_spark.layout.declaring import read_layout
from lance_spark.layout.facts import layout_bounds
from lance_spark.layout.layout_rules import IDENTITY, NO_LAYOUT, TableLayout
from lance_spark.merge.replay_commits import copy_each
from lance_spark.optimize import by_layout, compaction_rules, order_rules, rewrites
from lance_spark.optimize.analyzing import carry_statistics
from lance_spark.optimize.compaction_rules import (
    OptimizeOptions,
    OptimizePlan,
    OptimizeResult,
    RewriteTask,
    RewrittenTask,
)
from lance_spark.optimize.order_rules import Ordering
from lance_spark.rows.action_rules import Prepared
from lance_spark.rows.rows import Finish, discard, finish, new_terms
from lance_spark.scan.partition_rules import FRAGMENT_COST
from lance_spark.storage import copying, versions
from lance_spark.storage.commits import attempts, overtaken, unchanged
from lance_spark.storage.datasets import pin_latest
from lance_spark.storage.followers import check_mergeable
from lance_spark.write.data_files import read_target
from lance_spark.write.plan_rules import WriteTarget

_LOG = logging.getLogger("lance_spark.optimize")


def optimize(
    location: DatasetLocation,
    branch: str | None,
    options: OptimizeOptions,
    engine: Engine,
    only: frozenset[int] | None = None,
) -> OptimizeResult:
    """Compact a branch (None for main), see ``LanceTable.optimize``; with ``only``, just these fragments.

    Concurrent commits are kept. Where they changed fragments that are being rewritten, these are planned again once,
    then reported in the result. Raises Refused, NotFound, InvalidOption for a bad condition, and Conflict if indexes
    cannot be re-homed because other processes keep committing.
    """
    check_mergeable(location, branch)
    layout = read_layout(location, pin_latest(location, branch))
    if options.order is not None:
        return cluster(location, branch, options, within_partitions(options.order, layout), engine)
    divided = None
    if layout.partition and not options.dry_run:
        divided = _divide(location, branch, options, layout, engine, only)
    plan, rehomed = _ready_plan(location, branch, options, engine, only)
    work = _Rewriting(
        location, engine, options, OptimizeResult(plan.pin, plan, options.dry_run, rehomed=rehomed), layout
    )
    if options.dry_run:
        return work.result
    overtaken_tasks = work.carry_out(plan)
    if overtaken_tasks:
        only = frozenset(key for task in overtaken_tasks for key in task.ids)
        again, rehomed = _ready_plan(location, branch, options, engine, only)
        work.result = replace(work.result, rehomed=(*work.result.rehomed, *rehomed))
        left = work.carry_out(again)
        work.result = replace(work.result, conflicts=tuple(task.ids for task in left))
    return work.result if divided is None else _both(divided, work.result)


def within_partitions(order: Ordering, layout: TableLayout) -> Ordering:
    """The order that a table with partitions gets: by partition first, where columns themselves are its key."""
    columns = tuple(each.column for each in layout.partition if each.name == IDENTITY)
    if order.curve or not columns or len(columns) < len(layout.partition):
        return order
    return replace(order, columns=tuple(dict.fromkeys((*columns, *order.columns))))


def _divide(
    location: DatasetLocation,
    branch: str | None,
    options: OptimizeOptions,
    layout: TableLayout,
    engine: Engine,
    only: frozenset[int] | None,
) -> OptimizeResult | None:
    """Divide the rows of fragments that hold several partitions, such as those of other writers; None without any."""
    found = candidates(location, branch, options, engine, only)
    blobs = any(holds_blobs(field) for field in read_target(location, found.pin).schema)
    if blobs or not found.snapshot.contents.counts_rows:
        return None  # they cannot be sorted, and stay as they are
    keys = by_layout.keys_of(
        location, found.pin, layout, by_layout.complete_facts(location, found.pin, layout, found.fragments, engine)
    )
    mixed = frozenset(key for key in found.wanted if keys.get(key) is None and found.fragments[key].rows)
    if not mixed:
        return None
    columns = dict.fromkeys([*(each.column for each in layout.partition), *layout.cluster])
    return cluster(location, branch, options, Ordering(tuple(columns)), engine, mixed)


def _both(divided: OptimizeResult, compacted: OptimizeResult) -> OptimizeResult:
    """The result of a division and the compaction after it."""
    return replace(
        compacted,
        fragments_removed=divided.fragments_removed + compacted.fragments_removed,
        fragments_added=divided.fragments_added + compacted.fragments_added,
        rows=divided.rows + compacted.rows,
        bytes=divided.bytes + compacted.bytes,
        commits=divided.commits + compacted.commits,
        conflicts=(*divided.conflicts, *compacted.conflicts),
        uncovered=tuple(dict.fromkeys((*divided.uncovered, *compacted.uncovered))),
    )


def _ready_plan(
    location: DatasetLocation,
    branch: str | None,
    options: OptimizeOptions,
    engine: Engine,
    only: frozenset[int] | None = None,
) -> tuple[OptimizePlan, tuple[str, ...]]:
    """A plan that can be carried out, and the names of the indexes that were re-homed for it."""
    done: set[str] = set()
    for _ in attempts():
        plan = plan_optimize(location, branch, options, engine, only)
        if options.dry_run or not plan.rehome:
            return plan, tuple(sorted(done))
        try:
            rehome(location, plan, engine)
        except Conflict:
            continue
        done.update(plan.rehome)
    raise overtaken(branch)


@dataclass
class _Rewriting:
    location: DatasetLocation
    engine: Engine
    options: OptimizeOptions
    result: OptimizeResult
    layout: TableLayout = NO_LAYOUT

    def carry_out(self, plan: OptimizePlan) -> list[RewriteTask]:
        """Rewrite and commit, group by group; returns the tasks that other commits overtook."""
        left: list[RewriteTask] = []
        for number, group in enumerate(plan.groups, 1):
            _, now = self._look(plan)
            # A task that was overtaken before it began need not be written.
            standing = [task for task in group if compaction_rules.same_sources(task, now)]
            left += [task for task in group if not compaction_rules.same_sources(task, now)]
            if standing:
                is_first = not self.result.commits and not self.result.rehomed
                with unchanged() if is_first else nullcontext():
                    rewritten = self._rewrite(plan, standing)
                left += self._commit(plan, rewritten)
            progress = compaction_rules.OptimizeProgress(
                f"commit {number} of {len(plan.groups)}",
                self.result.fragments_removed,
                self.result.plan.sources,
                self.result.rows,
                self.result.bytes,
            )
            _LOG.info("%s: %s", plan.pin, progress)
            self.options.tell(progress)
        return left

    def _look(self, plan: OptimizePlan) -> tuple[PinnedVersion, dict[int, Fragment]]:
        head = pin_latest(self.location, plan.pin.branch)
        contents = versions.read_contents(self.location, head)
        return head, {fragment.id: fragment for fragment in contents.fragments()}

    def _rewrite(self, plan: OptimizePlan, tasks: Sequence[RewriteTask]) -> list[RewrittenTask]:
        items = [
            rewrites.RewriteItem(self.location, plan.pin, number, task.job, task.rows if plan.counts_rows else None)
            for number, task in enumerate(tasks)
        ]
        work = work_of(tasks)
        runner = self.engine.for_work(OPERATION, work)
        stage = f"rewrite {counted(work.rewrites, 'fragment')}"
        frame = runner.flat_map(stage, items, rewrites.rewrite, rewrites.REWRITTEN)
        rows = runner.collect(stage, frame).to_pylist()
        rewritten = [rewrites.rewritten_task(tasks[row["task"]], row["result"]) for row in rows]
        if self.layout:
            known = layout_bounds(self.location, plan.pin, self.layout)
            by_layout.keep_facts(self.location, plan.pin, self.layout, known, rewritten)
        carry_statistics(self.location, plan.pin, rewritten)
        return rewritten

    def _commit(self, plan: OptimizePlan, rewritten: Sequence[RewrittenTask]) -> list[RewriteTask]:
        """Commit the tasks of a group that other commits left valid; returns the rest."""
        left: list[RewriteTask] = []
        pending = list(rewritten)
        for last in (False, False, True):
            head, now = self._look(plan)
            # If an answer was lost, the commit exists and looks like a conflict with itself.
            paths = {file.path for fragment in now.values() for file in fragment.files}
            self._note(head, [entry for entry in pending if compaction_rules.landed(entry, paths)])
            pending = [entry for entry in pending if not compaction_rules.landed(entry, paths)]
            left += [entry.task for entry in pending if not compaction_rules.same_sources(entry.task, now)]
            pending = [entry for entry in pending if compaction_rules.same_sources(entry.task, now)]
            if not pending or last:
                break
            try:
                made = rewrites.commit_rewrites(self.location, plan.pin, pending)
            except Conflict as conflict:
                _LOG.info("%s", conflict.message)
                continue
            self._note(made, pending)
            return left
        return left + [entry.task for entry in pending]

    def _note(self, made: PinnedVersion, committed: Sequence[RewrittenTask]) -> None:
        if not committed:
            return
        before = self.result
        self.result = replace(
            before,
            version=made,
            fragments_removed=before.fragments_removed + sum(len(entry.task.sources) for entry in committed),
            fragments_added=before.fragments_added + sum(entry.fragments for entry in committed),
            rows=before.rows + sum(entry.task.rows for entry in committed),
            bytes=before.bytes + sum(entry.bytes for entry in committed),
            commits=before.commits + 1,
        )


# --- Planning a compaction

OPERATION = "optimize"
_AT_ONCE = 64
"""Number of fragments that one task searches for rows."""


@dataclass(frozen=True)
class Candidates:
    """A version and its fragments that may be rewritten."""

    pin: PinnedVersion
    manifest: bytes
    snapshot: Snapshot
    fragments: dict[int, Fragment]
    """All fragments of the version, by id."""
    inherited: frozenset[int]
    """Fragments that are left alone because their files are in another place."""
    wanted: set[int]


def candidates(
    location: DatasetLocation,
    branch: str | None,
    options: OptimizeOptions,
    engine: Engine,
    only: frozenset[int] | None = None,
) -> Candidates:
    """The fragments of the newest version that the options allow, limited to ``only`` if given."""
    pin = pin_latest(location, branch)
    manifest = versions.read_manifest(location, pin)
    contents = versions.contents_of(location, pin, manifest)
    snapshot = versions.snapshot_of(location, pin, contents)
    fragments = {fragment.id: fragment for fragment in contents.fragments()}
    inherited = (
        frozenset() if options.own_only is False else compaction_rules.inherited_fragments(snapshot, location.uri)
    )
    wanted = fragments.keys() - inherited
    if only is not None:
        wanted &= only
    if options.where is not None and wanted:
        wanted &= _matching(location, pin, [fragments[key] for key in sorted(wanted)], options.where, engine)
    return Candidates(pin, manifest, snapshot, fragments, inherited, wanted)


def plan_optimize(
    location: DatasetLocation,
    branch: str | None,
    options: OptimizeOptions,
    engine: Engine,
    only: frozenset[int] | None = None,
) -> OptimizePlan:
    """What a compaction of the newest version would rewrite, limited to the fragments in ``only`` if given.

    Raises InvalidOption for a bad condition, and Refused for indexes that it could lose.
    """
    found = candidates(location, branch, options, engine, only)
    pin, fragments = found.pin, found.fragments
    layout = read_layout(location, pin)
    if layout.partition:
        # A compaction of neighbors would put the rows of several partitions into one file.
        keys = by_layout.keys_of(location, pin, layout, layout_bounds(location, pin, layout))
        indexes = decode_indexes(found.manifest)
        single = [key for key in sorted(found.wanted) if keys.get(key) is not None]
        belongs = {key: (keys[key], compaction_rules.coverage(indexes, key)) for key in single}
        together = compaction_rules.partition_groups([*fragments.values()], belongs, options.target_rows)
        tasks = rewrites.plan_groups(location, pin, fragments, together, options.target_rows)
    else:
        tasks = rewrites.plan_rewrites(location, pin, fragments, options.target_rows, {*fragments} - found.wanted)
    covered = {key for task in tasks for key in task.ids}
    needed = compaction_rules.indexes_to_rehome(decode_indexes(found.manifest), covered)
    names = tuple(sorted({index.name for index in needed}))
    groups = compaction_rules.grouped(tasks, min(options.partial_progress, _commits(tasks, engine)))
    return OptimizePlan(pin, groups, len(fragments), len(found.inherited), names, found.snapshot.contents.counts_rows)


def work_of(tasks: Sequence[RewriteTask]) -> Work:
    return rewriting(fragment.size for task in tasks for fragment in task.sources)


def _sorting(fragments: Sequence[Fragment]) -> Work:
    """The work of sorting: threads of this process have all rows in memory at once, and share Python's lock."""
    work = rewriting(fragment.size for fragment in fragments)
    return replace(work, read_bytes=_SORTING * work.rewritten_bytes)


def _commits(tasks: Sequence[RewriteTask], engine: Engine) -> int:
    """The largest number of commits that keeps all executors busy: a group has as many tasks as run side by side."""
    return -(-len(tasks) // engine.for_work(OPERATION, work_of(tasks)).parallelism) if len(tasks) > 1 else 1


def _matching(
    location: DatasetLocation, pin: PinnedVersion, fragments: list[Fragment], where: str, engine: Engine
) -> set[int]:
    work = rewriting(fragment.size for fragment in fragments)
    runner = engine.for_work(OPERATION, work)
    ids = [fragment.id for fragment in fragments]
    items = [
        rewrites.MatchItem(location, pin, tuple(ids[first : first + _AT_ONCE]), where)
        for first in range(0, len(ids), _AT_ONCE)
    ]
    frame = runner.flat_map("look for rows", items, rewrites.matching_fragments, rewrites.MATCHING)
    return set(runner.collect("look for rows", frame)["fragment"].to_pylist())


# --- Copying inherited indexes before a compaction
# pylance writes the new files of an index into the branch, but registers them in the parent, where the old ones are.
# Then the branch can no longer be read.


def rehome(location: DatasetLocation, plan: OptimizePlan, engine: Engine) -> PinnedVersion:
    """Copy the inherited indexes that cover a plan's fragments, and register the copies: one version.

    Raises Conflict if another commit came in between, CorruptData if an index has no files.
    """
    head = read_version(location, plan.pin)
    bases = versions.snapshot_of(location, plan.pin, head.contents).bases
    found = compaction_rules.indexes_to_rehome(head.indexes, {key for task in plan.tasks for key in task.ids})
    target = DatasetLocation(location.branch_uri(plan.pin.branch), location.options)
    items = [
        (DatasetLocation(bases[index.base_id].uri, location.options), copy, target)
        for index in found
        for copy in index_copies(location, index, bases[index.base_id])
    ]
    copy_each("optimize", items, engine)
    own = [index._replace(base_id=None) for index in found]
    return commit_indexes(location, head.pin, own, found, {})


def index_copies(location: DatasetLocation, index: IndexRecord, root: Root) -> list[Copy]:
    """The files of an index in that place. Raises CorruptData if they are missing."""
    directory = f"_indices/{index.uuid}"
    source = DatasetLocation(root.uri, location.options)
    paths = [*copying.files_below(source, directory)]
    missing = [name for name, _ in index.needed if name and f"{directory}/{name}" not in paths]
    if missing or not paths:
        raise CorruptData(
            f"The index '{index.name}' has lost files: {root.uri}/{directory}.",
            hint="Drop it and create it again.",
        )
    return [Copy(root, path, path) for path in paths]


# --- Rewriting in another order
# No row changes.
#
# The keys of all fragments are read. A sample of them decides which fragments to rewrite, and where parts of about
# equal size begin. Tasks read the rows and divide them among the parts; other tasks sort a part and write it. A single
# version removes the old fragments and adds the new ones. To other tools it looks like an update of these rows, so a
# tool that follows rows by their order does not confuse them.

_MOST_LOCAL = 4 * 2**30
"""Bytes of data files that threads of this process sort: all rows are in its memory."""
_READ_AT_ONCE = 128 * 2**20
"""Bytes of data files that one task reads."""
_KEYS_AT_ONCE = 32 * 2**20
"""Bytes of data files that one task reads keys from."""
_SORTING = 4
"""How much longer sorting takes than other processing: measured, two cores of Spark are faster from 120 MB on."""


@dataclass(frozen=True)
class _Planned:
    plan: OptimizePlan
    clusters: order_rules.ClusterPlan
    keys: tuple[order_rules.FragmentKeys, ...]
    target: WriteTarget


def cluster(
    location: DatasetLocation,
    branch: str | None,
    options: OptimizeOptions,
    ordering: Ordering,
    engine: Engine,
    every: frozenset[int] | None = None,
) -> OptimizeResult:
    """Rewrite a branch in that order, see ``LanceTable.optimize``; with ``every``, these fragments, and no others.

    If other commits change rows that are being rewritten, everything is computed again once, then left as it is.
    Raises Refused, NotFound, InvalidOption for unsuitable columns, StorageFailure.
    """
    tried: tuple[int, ...] = ()
    result = None
    for _ in range(1 if options.dry_run else 2):
        planned = _plan(location, branch, options, ordering, engine, every)
        result = OptimizeResult(planned.plan.pin, planned.plan, options.dry_run)
        if options.dry_run or not planned.clusters.fragments:
            return result
        try:
            return _carry_out(location, options, planned, engine)
        except Conflict as conflict:
            _LOG.info("%s", conflict.message)
            tried = planned.plan.tasks[0].ids
    assert result is not None
    return replace(result, version=pin_latest(location, branch), conflicts=(tried,))


def _plan(
    location: DatasetLocation,
    branch: str | None,
    options: OptimizeOptions,
    ordering: Ordering,
    engine: Engine,
    every: frozenset[int] | None = None,
) -> _Planned:
    found = candidates(location, branch, options, engine, every)
    pin, contents = found.pin, found.snapshot.contents
    target = read_target(location, pin)
    order_rules.check_columns(ordering, target.schema)
    _check_supported(contents.counts_rows, target.schema)
    chosen = [found.fragments[key] for key in sorted(found.wanted) if found.fragments[key].rows]
    rows, size = sum(each.rows for each in chosen), sum(each.size for each in chosen)
    part_rows = order_rules.rows_of_part(options.target_rows, max(row_width(target.schema), size / max(1, rows)))
    keys = _keys(location, pin, ordering, chosen, order_rules.step_of(rows, part_rows), engine)
    clusters = order_rules.plan_clusters(ordering, keys, part_rows, every is not None)
    sources = tuple(each for each in chosen if each.id in clusters.fragments)
    options.tell(compaction_rules.OptimizeProgress("keys read", 0, len(sources)))
    plan = OptimizePlan(
        pin,
        ((RewriteTask(sources, ""),),) if sources else (),
        len(found.fragments),
        len(found.inherited),
        counts_rows=contents.counts_rows,
        order=ordering,
        parts=clusters.parts,
        depth=clusters.depth,
    )
    return _Planned(plan, clusters, tuple(each for each in keys if each.id in clusters.fragments), target)


def _check_supported(counts_rows: bool, schema: pa.Schema) -> None:
    if not counts_rows:
        raise Refused("Tables in the oldest file format cannot be sorted.", hint="Write it to a new table.")
    blobs = [field.name for field in schema if holds_blobs(field)]
    if blobs:
        raise Refused(
            f"Column '{blobs[0]}' holds blobs, which do not fit into the memory of the tasks that sort.",
            hint=hints.of(hints.optimize(), ", without an order, joins small fragments."),
        )


def _keys(
    location: DatasetLocation,
    pin: PinnedVersion,
    ordering: Ordering,
    fragments: Sequence[Fragment],
    step: int,
    engine: Engine,
) -> list[order_rules.FragmentKeys]:
    firsts = dict(
        zip([each.id for each in fragments], accumulate([0, *(each.rows for each in fragments)]), strict=False)
    )
    packs = _packs(fragments, _KEYS_AT_ONCE)
    items = [
        rewrites.KeysItem(location, pin, ordering, tuple((key, firsts[key]) for key in ids), step) for ids in packs
    ]
    runner = engine.for_work(OPERATION, _sorting(fragments))
    stage = f"read the keys of {counted(len(fragments), 'fragment')}"
    return rewrites.fragment_keys(
        runner.collect(stage, runner.flat_map(stage, items, rewrites.read_keys, rewrites.KEYS))
    )


def _carry_out(
    location: DatasetLocation, options: OptimizeOptions, planned: _Planned, engine: Engine
) -> OptimizeResult:
    plan = planned.plan
    runner = engine.for_work(OPERATION, _sorting(plan.tasks[0].sources))
    _check_fits(runner, plan)
    written = _write(location, planned, runner)
    fragments = tuple(entry for entries in written["fragments"].to_pylist() for entry in entries)
    change = Prepared(dict.fromkeys(plan.tasks[0].ids), fragments, 0, plan.rows, 0)
    if sum(written["rows"].to_pylist()) != plan.rows:
        with suppress(StorageFailure):
            discard(location, plan.pin.branch, [Prepared({}, fragments, 0, 0, 0)])
        raise CorruptData(
            f"Sorting {location.uri} wrote {sum(written['rows'].to_pylist())} rows instead of {plan.rows}. Nothing "
            "was changed.",
            hint="Run it again.",
        )
    options.tell(compaction_rules.OptimizeProgress("rows sorted and written", 0, plan.sources))
    terms = new_terms(OPERATION, False, "", f"Optimize: {plan.order}")._replace(reordered=True)
    done = finish(Finish(location, plan.pin, change, terms, None, False))
    return _result(location, options, planned, done.version, fragments, rewrites.ends_from(written))


def _result(
    location: DatasetLocation,
    options: OptimizeOptions,
    planned: _Planned,
    version: PinnedVersion,
    fragments: Sequence[str],
    ends: pa.Table,
) -> OptimizeResult:
    plan = planned.plan
    sample = order_rules.together(entry.sample for entry in planned.keys)
    files = [file for entry in fragments for file in json.loads(entry)["files"]]
    paths = {file["path"] for file in files}
    size = sum(file["file_size_bytes"] or 0 for file in files)
    options.tell(compaction_rules.OptimizeProgress("committed", plan.sources, plan.sources, plan.rows, size))
    manifest = versions.read_manifest(location, version)
    new = versions.contents_of(location, version, manifest).fragments_with(paths)
    before = decode_indexes(versions.read_manifest(location, plan.pin))
    order = planned.clusters.scale.ordering
    return OptimizeResult(
        version,
        plan,
        fragments_removed=plan.sources,
        fragments_added=len(fragments),
        rows=plan.rows,
        bytes=size,
        commits=1,
        depth=order_rules.depth_of(order, ends, sample),
        uncovered=lost_coverage(before, plan.tasks[0].ids, decode_indexes(manifest), [each.id for each in new]),
    )


def _check_fits(runner: Runner, plan: OptimizePlan) -> None:
    if runner.name == LOCAL and plan.bytes > _MOST_LOCAL:
        raise Refused(
            f"{readable(plan.bytes)} cannot be sorted in the memory of one process.",
            hint="Start a Spark session, SparkSession.builder.getOrCreate(), or sort a part with where=.",
        )


def _write(location: DatasetLocation, planned: _Planned, runner: Runner) -> pa.Table:
    plan, scale = planned.plan, planned.clusters.scale
    packs = _packs(plan.tasks[0].sources, _READ_AT_ONCE)
    items = [rewrites.ReadItem(location, plan.pin, ids, scale, planned.clusters.bounds) for ids in packs]
    stage = f"sort {counted(plan.rows, 'row')}"
    pieces = runner.flat_map(stage, items, rewrites.read_rows, rewrites.PIECES)
    writer = partial(rewrites.write_part, rewrites.PartJob(location, plan.pin, planned.target, scale))
    return runner.collect(stage, runner.gather(stage, pieces, writer, rewrites.WRITTEN, planned.clusters.parts))


def _packs(fragments: Iterable[Fragment], most: int) -> list[tuple[int, ...]]:
    packs: list[tuple[int, ...]] = []
    own: list[int] = []
    size = 0
    for fragment in fragments:
        cost = fragment.size + FRAGMENT_COST
        if own and size + cost > most:
            packs.append(tuple(own))
            own, size = [], 0
        own.append(fragment.id)
        size += cost
    return [*packs, tuple(own)] if own else packs
