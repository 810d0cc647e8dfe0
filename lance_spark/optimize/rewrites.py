"""pylance's part of optimizing: plans, runs and commits compactions, and reads and writes rows in another order.

Tasks run on executors; ``lance`` is imported there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.core.table_options import FileOptions, WriteOptions
from lance_spark.errors import Conflict, CorruptData
from lance_spark.format.contents import Fragment
from lance_spark.format.schema import ROW_ADDRESS, ROW_ID, row_width, with_wide_offsets
from lance_spark.format.storable import is_fragile
from lance_spark.layout.declaring import read_layout
from lance_spark.layout.key_rules import by_key
from lance_spark.optimize.compaction_rules import RewriteTask, RewrittenTask
from lance_spark.optimize.order_rules import FragmentKeys, Ordering, Scale, divided, ends_of, positions, ranks, together
from lance_spark.scan.fragment_reads import fragment_sizes
from lance_spark.scan.partition_rules import batch_rows, batch_rows_of
from lance_spark.storage.commits import check_nothing_missing, check_still_there, check_written
from lance_spark.storage.datasets import open_latest, open_pinned
from lance_spark.storage.failures import translated
from lance_spark.write.data_files import with_row_ids, write_rows
from lance_spark.write.plan_rules import WriteJob, WritePlan, WriteTarget

REWRITTEN = pa.schema([("task", pa.int64()), ("result", pa.string())])
"""Number of a task, and pylance's result as JSON."""
MATCHING = pa.schema([("fragment", pa.int64())])


class RewriteItem(NamedTuple):
    """A task to carry out; runs on executors."""

    location: DatasetLocation
    pin: PinnedVersion
    """The version that the task was planned on: only that version surely has its fragments."""
    number: int
    job: str
    rows: int | None
    """Number of rows to expect; None if the version does not know it."""


class MatchItem(NamedTuple):
    """Fragments to search for rows; runs on executors."""

    location: DatasetLocation
    pin: PinnedVersion
    fragments: tuple[int, ...]
    where: str


def plan_rewrites(
    location: DatasetLocation, pin: PinnedVersion, fragments: dict[int, Fragment], target_rows: int, leave: set[int]
) -> list[RewriteTask]:
    """The tasks of a compaction of a version, without the fragments in ``leave``."""
    from lance.optimize import Compaction

    dataset = open_pinned(location, pin)
    options = {"target_rows_per_fragment": target_rows, "excluded_fragment_ids": sorted(leave)}
    with translated(location, "planning a compaction"):
        jobs = [task.json() for task in Compaction.plan(dataset, options).tasks]
    found = []
    for job in jobs:
        ids = [source["id"] for source in json.loads(job)["task"]["fragments"]]
        found.append(RewriteTask(tuple(fragments[key] for key in ids), job))
    return found


_ALL_ROWS = 2**40
"""More rows than a fragment has: a plan for so many takes every fragment."""


def plan_groups(
    location: DatasetLocation,
    pin: PinnedVersion,
    fragments: dict[int, Fragment],
    groups: Sequence[tuple[int, ...]],
    target_rows: int,
) -> list[RewriteTask]:
    """The tasks that rewrite each group of fragments, whether or not these are neighbors.

    A fragment that pylance does not tell in its own plan is left alone.
    """
    from lance.optimize import Compaction

    dataset = open_pinned(location, pin)
    with translated(location, "planning a compaction"):
        jobs = [
            json.loads(task.json()) for task in Compaction.plan(dataset, {"target_rows_per_fragment": _ALL_ROWS}).tasks
        ]
    told = {source["id"]: source for job in jobs for source in job["task"]["fragments"]}
    found = []
    for group in groups:
        ids = [key for key in group if key in told]
        if not ids or (len(ids) == 1 and len(group) > 1):
            continue
        job = json.loads(json.dumps(jobs[0]))
        job["task"]["fragments"] = [told[key] for key in ids]
        job["options"]["target_rows_per_fragment"] = target_rows
        found.append(RewriteTask(tuple(fragments[key] for key in ids), json.dumps(job)))
    return found


def rewrite(item: RewriteItem) -> Iterator[pa.RecordBatch]:
    """REWRITTEN of one task. Raises CorruptData unless the new files have all rows."""
    from lance.optimize import CompactionTask

    dataset = open_pinned(item.location, item.pin)
    job = item.job
    if any(is_fragile(field.type) for field in dataset.schema):
        job = _into_one_file(job)
    with translated(item.location, "rewriting fragments"):
        result = CompactionTask.from_json(job).execute(dataset).json()
    written = sum(fragment["physical_rows"] for fragment in _new_fragments(result))
    if item.rows is not None and written != item.rows:
        raise CorruptData(
            f"A compaction of {item.location.uri} wrote {written} rows instead of {item.rows}. Nothing was changed.",
            hint="Run it again.",
        )
    yield pa.record_batch([pa.array([item.number]), pa.array([result])], schema=REWRITTEN)


def _into_one_file(job: str) -> str:
    """The task, with room in one file for all of its rows: fewer than twice the target, or those of one fragment.

    pylance cuts a batch of rows where a file is full, and its encoder does not survive a cut struct in every type.
    """
    task = json.loads(job)
    rows = sum(source["physical_rows"] or 0 for source in task["task"]["fragments"])
    options = task["options"]
    options["target_rows_per_fragment"] = max(rows, options["target_rows_per_fragment"])
    return json.dumps(task)


def matching_fragments(item: MatchItem) -> Iterator[pa.RecordBatch]:
    """MATCHING: the fragments with a row that matches the condition. Raises InvalidOption for a bad condition."""
    dataset = open_pinned(item.location, item.pin)
    found = []
    with translated(item.location, "looking for rows"):
        for key in item.fragments:
            fragment = dataset.get_fragment(key)
            scanner = fragment.scanner(columns=[], with_row_address=True, filter=item.where, limit=1)
            if scanner.to_table().num_rows:
                found.append(key)
    yield pa.record_batch([pa.array(found, pa.int64())], schema=MATCHING)


def rewritten_task(task: RewriteTask, result: str) -> RewrittenTask:
    new = _new_fragments(result)
    files = [file for fragment in new for file in fragment["files"]]
    size = sum(file.get("file_size_bytes") or 0 for file in files)
    return RewrittenTask(task, result, tuple(file["path"] for file in files), len(new), size)


def commit_rewrites(
    location: DatasetLocation, planned: PinnedVersion, rewritten: Sequence[RewrittenTask]
) -> PinnedVersion:
    """Replace old fragments by new ones in one step: all of them, or none. Returns the version.

    Raises Conflict if a version committed since the plan cannot be combined with it or is missing, or a new file is.
    """
    from lance.optimize import Compaction, RewriteResult

    check_still_there(location, planned)
    check_written(location, planned.branch, [f"data/{path}" for entry in rewritten for path in entry.files])
    check_nothing_missing(location, planned)
    # Not a handle of the planned version: pylance would take its indexes and lose those that an earlier commit of the
    # same plan rewrote. Not a shared handle either: the commit moves it.
    dataset = open_latest(location, planned.branch)
    results = [RewriteResult.from_json(entry.result) for entry in rewritten]
    try:
        with translated(location, "committing a compaction"):
            Compaction.commit(dataset, results)
    except CorruptData as problem:
        if "defer_index_remap" not in problem.message:
            raise
        # With stable row ids, pylance 14 takes a result that was made for indexes, where there is none by now, for one
        # that asks for an index of its own.
        raise Conflict(
            f"An index of {location.uri} was dropped while fragments were rewritten.", hint="Run it again."
        ) from None
    return PinnedVersion(planned.branch, int(dataset.version))


def _new_fragments(result: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(result)["new_fragments"]
    return found


# --- Reading and writing in another order; runs on executors
# Rows travel from reading to writing tasks in Arrow's stream format, as cells of bytes. So no engine changes a type on
# the way.

KEYS = pa.schema(
    [
        ("fragment", pa.int64()),
        ("rows", pa.int64()),
        ("sorted", pa.bool_()),
        ("ends", pa.binary()),
        ("sample", pa.binary()),
    ]
)
PIECES = pa.schema([("part", pa.int64()), ("rows", pa.binary())])
"""Rows of one part, read by one task."""
WRITTEN = pa.schema(
    [
        ("fragments", pa.list_(pa.string())),
        ("rows", pa.int64()),
        ("ends", pa.binary()),
    ]
)
"""New fragments as pylance's JSON."""
_HELD = 64 * 2**20
"""Bytes of rows that a task reads before it passes them on, and about as many for a batch that it writes."""
_NARROW = 2**31 - 1
"""Bytes up to which Arrow can address a column of texts with 32 bits."""


class KeysItem(NamedTuple):
    location: DatasetLocation
    pin: PinnedVersion
    ordering: Ordering
    fragments: tuple[tuple[int, int], ...]
    """Each with the number of rows in the fragments before it."""
    step: int
    """One row in this many goes into the sample."""


class ReadItem(NamedTuple):
    """Fragments whose rows are divided among the parts."""

    location: DatasetLocation
    pin: PinnedVersion
    fragments: tuple[int, ...]
    scale: Scale
    bounds: pa.Table


class PartJob(NamedTuple):
    """What a task needs to write the fragments of a part."""

    location: DatasetLocation
    pin: PinnedVersion
    target: WriteTarget
    scale: Scale


def read_keys(item: KeysItem) -> Iterator[pa.RecordBatch]:
    dataset = open_pinned(item.location, item.pin)
    for key, first in item.fragments:
        with translated(item.location, "reading keys"):
            fragment = dataset.get_fragment(key)
            rows = dataset.scanner(
                columns=list(item.ordering.columns), fragments=[fragment], with_row_address=True
            ).to_table()
        in_order, ends = ends_of(item.ordering, rows) if rows.num_rows else (True, rows)
        at = np.arange(-first % item.step, rows.num_rows, item.step)
        found = {
            "fragment": key,
            "rows": rows.num_rows,
            "sorted": in_order,
            "ends": _packed(ends),
            "sample": _packed(rows.take(pa.array(at, pa.int64()))),
        }
        yield pa.RecordBatch.from_pylist([found], schema=KEYS)


def fragment_keys(table: pa.Table) -> list[FragmentKeys]:
    return [
        FragmentKeys(row["fragment"], row["rows"], row["sorted"], _unpacked(row["ends"]), _unpacked(row["sample"]))
        for row in table.to_pylist()
    ]


def write_part(job: PartJob, pieces: Iterable[bytes]) -> Iterator[pa.RecordBatch]:
    """WRITTEN of one part, whose rows are all in memory."""
    rows = _together([*pieces], job.scale.ordering)
    # By key first: each of the new files holds one, and with stable row ids each row gets its own back, by its place.
    rows = by_key(read_layout(job.location, job.pin), rows.take(pa.array(positions(job.scale.line(rows)))))
    schema = job.target.schema
    options = WriteOptions(branch=job.pin.branch, files=FileOptions(max_rows_per_file=rows.num_rows))
    plan = WritePlan(job.location, options, "append", schema, job.pin)
    most = min(batch_rows(row_width(schema)), max(1, _HELD * rows.num_rows // max(1, rows.nbytes)))
    batches = rows.select(schema.names).to_batches(max_chunksize=most)
    written = [json.loads(entry) for entry in write_rows(WriteJob(plan, job.pin), batches, order="by key")]
    if job.target.stable_row_ids:
        with_row_ids(job.location, written, rows[ROW_ID].to_numpy())
    ordering = job.scale.ordering
    found = {
        "fragments": [json.dumps(entry) for entry in written],
        "rows": rows.num_rows,
        "ends": _packed(ends_of(ordering, rows.select([*ordering.columns, ROW_ADDRESS]))[1]),
    }
    yield pa.RecordBatch.from_pylist([found], schema=WRITTEN)


def _together(pieces: Sequence[bytes], ordering: Ordering) -> pa.Table:
    """All rows of a part, whose texts may be longer together than an array of text can be."""
    tables = [_unpacked(piece) for piece in pieces]
    if sum(map(len, pieces)) > _NARROW:
        fields = [field if field.name in ordering.columns else with_wide_offsets(field) for field in tables[0].schema]
        tables = [table.cast(pa.schema(fields)) for table in tables]
    return pa.concat_tables(tables).combine_chunks()


def ends_from(table: pa.Table) -> pa.Table:
    return together(_unpacked(ends) for ends in table["ends"].to_pylist())


def read_rows(item: ReadItem) -> Iterator[pa.RecordBatch]:
    """PIECES: the rows of fragments, divided among the parts."""
    dataset = open_pinned(item.location, item.pin)
    held: list[pa.RecordBatch] = []
    size = 0
    with translated(item.location, "reading rows"):
        for batch in dataset.scanner(
            columns=dataset.schema.names,
            fragments=[dataset.get_fragment(key) for key in item.fragments],
            with_row_address=True,
            with_row_id=bool(dataset.has_stable_row_ids),
            batch_size=batch_rows_of(row_width(dataset.schema), fragment_sizes(item.location, item.pin)),
        ).to_batches():
            held.append(batch)
            size += batch.nbytes
            if size > _HELD:
                yield from _divided(item, pa.Table.from_batches(held))
                held, size = [], 0
    if held:
        yield from _divided(item, pa.Table.from_batches(held))


def _divided(item: ReadItem, rows: pa.Table) -> Iterator[pa.RecordBatch]:
    rows = rows.combine_chunks()
    parts = ranks(item.bounds, item.scale.line(rows))
    for part, own in divided(parts):
        piece = _packed(rows.take(pa.array(own)))
        yield pa.record_batch([pa.array([part], pa.int64()), pa.array([piece], pa.binary())], schema=PIECES)


def _packed(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows.combine_chunks())
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def _unpacked(piece: bytes) -> pa.Table:
    return pa.ipc.open_stream(piece).read_all()
