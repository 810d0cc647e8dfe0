"""Rewrites fragments in another order, so that ranges of some columns are cheap. No row changes.

The keys of all fragments are read, and a sample of them decides which fragments to rewrite and where parts of about the
same size begin. Tasks read the rows and divide them among the parts; others sort a part and write it. One version takes
all of it: it removes the old fragments and adds the new ones. To other tools it looks like an update of these rows, so
that none of them, following rows by their order, takes one row for another.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate

import pyarrow as pa

from lance_spark import hints
from lance_spark.actions.change_rows import Finish, finish, new_terms
from lance_spark.actions.optimize_plan import OPERATION, candidates, work_of
from lance_spark.compaction.clustering import (
    ClusterPlan,
    FragmentKeys,
    depth_of,
    plan_clusters,
    rows_of_part,
    step_of,
)
from lance_spark.compaction.model import OptimizeOptions, OptimizePlan, OptimizeProgress, OptimizeResult, RewriteTask
from lance_spark.compaction.ordering import Ordering, check_columns
from lance_spark.errors import Conflict, CorruptData, Refused, StorageFailure
from lance_spark.indexing.coverage import lost_coverage
from lance_spark.location import DatasetLocation
from lance_spark.manifest.contents import Fragment
from lance_spark.manifest.indexes import decode_indexes
from lance_spark.refs.model import PinnedVersion
from lance_spark.rows.messages import Prepared
from lance_spark.runner.interface import Engine, Runner
from lance_spark.runner.local import LOCAL
from lance_spark.scan.plan import FRAGMENT_COST
from lance_spark.schema.blobs import is_blob
from lance_spark.schema.width import row_width
from lance_spark.show.words import counted, readable
from lance_spark.store import version_reader
from lance_spark.store.clustering import (
    KEYS,
    PIECES,
    WRITTEN,
    KeysItem,
    PartJob,
    ReadItem,
    ends_from,
    fragment_keys,
    read_keys,
    read_rows,
    write_part,
)
from lance_spark.store.datasets import pin_latest
from lance_spark.store.row_commit import discard
from lance_spark.store.writing import read_target
from lance_spark.write.plan import WriteTarget

_LOG = logging.getLogger("lance_spark.optimize")
_MOST_LOCAL = 4 * 2**30
"""Bytes of data files that threads of this process sort: all rows are in its memory."""
_READ_AT_ONCE = 128 * 2**20
"""Bytes of data files that one task reads."""
_KEYS_AT_ONCE = 32 * 2**20
"""Bytes of data files of which one task reads some columns."""


@dataclass(frozen=True)
class _Planned:
    """A plan, with what carries it out."""

    plan: OptimizePlan
    clusters: ClusterPlan
    keys: tuple[FragmentKeys, ...]
    target: WriteTarget


def cluster(
    location: DatasetLocation, branch: str | None, options: OptimizeOptions, ordering: Ordering, engine: Engine
) -> OptimizeResult:
    """Rewrite a branch in that order, as ``LanceTable.optimize`` says.

    Where other commits change rows that are being rewritten, everything is computed again once, and then left as it is.
    Raises Refused, NotFound, InvalidOption for columns that cannot be, StorageFailure.
    """
    tried: tuple[int, ...] = ()
    result = None
    for _ in range(1 if options.dry_run else 2):
        planned = _plan(location, branch, options, ordering, engine)
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
    location: DatasetLocation, branch: str | None, options: OptimizeOptions, ordering: Ordering, engine: Engine
) -> _Planned:
    found = candidates(location, branch, options, engine)
    pin, contents = found.pin, found.snapshot.contents
    target = read_target(location, pin)
    check_columns(ordering, target.schema)
    _check_supported(contents.counts_rows, target.schema)
    chosen = [found.fragments[key] for key in sorted(found.wanted) if found.fragments[key].rows]
    rows, size = sum(each.rows for each in chosen), sum(each.size for each in chosen)
    part_rows = rows_of_part(options.target_rows, max(row_width(target.schema), size / max(1, rows)))
    keys = _keys(location, pin, ordering, chosen, step_of(rows, part_rows), engine)
    clusters = plan_clusters(ordering, keys, part_rows)
    sources = tuple(each for each in chosen if each.id in clusters.fragments)
    options.tell(OptimizeProgress("keys read", 0, len(sources)))
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
        raise Refused(
            "The table is in the oldest file format, whose rows cannot be sorted.", hint="Write it to a new table."
        )
    blobs = [field.name for field in schema if is_blob(field)]
    if blobs:
        raise Refused(
            f"Column '{blobs[0]}' holds blobs: they do not fit into the memory of the tasks that sort.",
            hint=hints.of(hints.optimize(), ", without an order, joins small fragments."),
        )


def _keys(
    location: DatasetLocation,
    pin: PinnedVersion,
    ordering: Ordering,
    fragments: Sequence[Fragment],
    step: int,
    engine: Engine,
) -> list[FragmentKeys]:
    firsts = dict(
        zip([each.id for each in fragments], accumulate([0, *(each.rows for each in fragments)]), strict=False)
    )
    packs = _packs(fragments, _KEYS_AT_ONCE)
    items = [KeysItem(location, pin, ordering, tuple((key, firsts[key]) for key in ids), step) for ids in packs]
    runner = engine.for_work(OPERATION, work_of([RewriteTask(tuple(fragments), "")]))
    stage = f"read the keys of {counted(len(fragments), 'fragment')}"
    return fragment_keys(runner.collect(stage, runner.flat_map(stage, items, read_keys, KEYS)))


def _carry_out(
    location: DatasetLocation, options: OptimizeOptions, planned: _Planned, engine: Engine
) -> OptimizeResult:
    plan = planned.plan
    runner = engine.for_work(OPERATION, work_of(plan.tasks))
    _check_fits(runner, plan)
    written = _write(location, planned, runner)
    fragments = tuple(entry for entries in written["fragments"].to_pylist() for entry in entries)
    change = Prepared(dict.fromkeys(plan.tasks[0].ids), fragments, 0, plan.rows, 0)
    if sum(written["rows"].to_pylist()) != plan.rows:
        with suppress(StorageFailure):
            discard(location, plan.pin.branch, [Prepared({}, fragments, 0, 0, 0)])
        raise CorruptData(
            f"Sorting {location.uri} wrote {sum(written['rows'].to_pylist())} rows in place of {plan.rows}. Nothing "
            "was changed.",
            hint="Run it again.",
        )
    options.tell(OptimizeProgress("rows sorted and written", 0, plan.sources))
    terms = new_terms(OPERATION, False, "", f"Optimize: {plan.order}")._replace(reordered=True)
    done = finish(Finish(location, plan.pin, change, terms, None, False))
    return _result(location, options, planned, _Done(done.version, fragments, ends_from(written)))


@dataclass(frozen=True)
class _Done:
    version: PinnedVersion
    fragments: tuple[str, ...]
    ends: pa.Table


def _result(location: DatasetLocation, options: OptimizeOptions, planned: _Planned, done: _Done) -> OptimizeResult:
    plan = planned.plan
    sample = pa.concat_tables(entry.sample for entry in planned.keys)
    files = [file for entry in done.fragments for file in json.loads(entry)["files"]]
    paths = {file["path"] for file in files}
    size = sum(file["file_size_bytes"] or 0 for file in files)
    options.tell(OptimizeProgress("committed", plan.sources, plan.sources, plan.rows, size))
    manifest = version_reader.read_manifest(location, done.version)
    new = version_reader.contents_of(location, done.version, manifest).fragments_with(paths)
    before = decode_indexes(version_reader.read_manifest(location, plan.pin))
    order = planned.clusters.scale.ordering
    return OptimizeResult(
        done.version,
        plan,
        fragments_removed=plan.sources,
        fragments_added=len(done.fragments),
        rows=plan.rows,
        bytes=size,
        commits=1,
        depth=depth_of(order, done.ends, sample),
        uncovered=lost_coverage(before, plan.tasks[0].ids, decode_indexes(manifest), [each.id for each in new]),
    )


def _check_fits(runner: Runner, plan: OptimizePlan) -> None:
    if runner.name == LOCAL and plan.bytes > _MOST_LOCAL:
        raise Refused(
            f"{readable(plan.bytes)} are too much to be sorted in the memory of one process.",
            hint="Give a Spark session, LanceTable.for_path(spark, ...), or take a part with where=.",
        )


def _write(location: DatasetLocation, planned: _Planned, runner: Runner) -> pa.Table:
    plan, scale = planned.plan, planned.clusters.scale
    packs = _packs(plan.tasks[0].sources, _READ_AT_ONCE)
    items = [ReadItem(location, plan.pin, ids, scale, planned.clusters.bounds) for ids in packs]
    stage = f"sort {counted(plan.rows, 'row')}"
    pieces = runner.flat_map(stage, items, read_rows, PIECES)
    writer = partial(write_part, PartJob(location, plan.pin, planned.target, scale))
    return runner.collect(stage, runner.gather(stage, pieces, writer, WRITTEN, planned.clusters.parts))


def _packs(fragments: Iterable[Fragment], most: int) -> list[tuple[int, ...]]:
    """Ids of fragments that one task reads."""
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
