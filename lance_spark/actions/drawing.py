"""The rows of a frozen set on their way into a plan: hashed, counted, sorted and written where the engine runs.

Of a plan of any size the process that calls sees counts and the names of files, nothing that grows with the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import accumulate

import pyarrow as pa

from lance_spark.actions.read import PinnedRead, plan_read, read_schema
from lance_spark.errors import CorruptData, InvalidOption, Refused
from lance_spark.freezing.keys import check_key_type
from lance_spark.freezing.planning import (
    COUNTS,
    DRAWN,
    NO_GROUP,
    PIECES,
    SLICE_COUNTS,
    Layout,
    count_slices,
    count_splits,
    divide,
    slices,
)
from lance_spark.freezing.spec import FreezeSpec, SplitSize
from lance_spark.location import DatasetLocation
from lance_spark.options.read import ReadOptions
from lance_spark.refs.model import PinnedVersion
from lance_spark.runner.interface import Engine, Frame, Runner
from lance_spark.runner.work import Work
from lance_spark.schema.projection import ROW_ADDRESS, ROW_ID, unknown_column
from lance_spark.schema.width import row_width
from lance_spark.store import scanning
from lance_spark.store.fragment_sizes import fragment_sizes
from lance_spark.store.frozen_plan import WRITTEN, PlanJob, write_slice
from lance_spark.store.frozen_rows import DrawTask, draw_rows
from lance_spark.store.version_reader import read_snapshot

OPERATION = "freeze"
AT_ONCE = 1_000_000
"""Rows of a plan that one task sorts and writes: some 100 MB."""

_Counting = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class DrawnRows:
    """All rows that pass the filter, with their hashes."""

    def __init__(self, read: PinnedRead, spec: FreezeSpec, runner: Runner, at_once: int) -> None:
        """``read`` is what :func:`drawn_rows` has checked. Raises Refused for rows without a group, or without rows."""
        self._location, self._runner, self._at_once = read.location, runner, at_once
        self._frame = runner.keep(_draw(read, spec, runner))
        self.sizes = self._count(spec)

    def _count(self, spec: FreezeSpec) -> tuple[SplitSize, ...]:
        rows = self._sums("count rows", count_splits, COUNTS)
        if NO_GROUP in rows:
            columns = " or ".join(f"'{name}'" for name in spec.by)
            known = " AND ".join(f"{name if name.isidentifier() else f'`{name}`'} IS NOT NULL" for name in spec.by)
            raise Refused(
                f"{rows[NO_GROUP]:,} rows have no {columns}: whether they belong to one group is not known.",
                hint=f"Leave them out with filter={known!r}, or give each a value.",
            )
        if not rows:
            raise Refused("There are no rows to freeze.", hint="Look at the filter with t.count_rows(filter).")
        return tuple(SplitSize(name, share, rows.get(number, 0)) for number, (name, share) in enumerate(spec.splits))

    def write(self, branch: str) -> list[str]:
        """Write the plan to files of the branch; returns the fragments in its order, as JSON. Raises CorruptData."""
        layout = self._layout()
        runner = self._runner
        pieces = runner.map("divide rows", self._frame, partial(divide, layout), PIECES)
        writer = partial(write_slice, PlanJob(self._location, branch, layout))
        written = runner.gather("sort and write the plan", pieces, writer, WRITTEN, len(layout.slices))
        found = runner.collect("sort and write the plan", written).sort_by("slice")
        rows = dict(zip(found["slice"].to_pylist(), found["rows"].to_pylist(), strict=True))
        if tuple(rows.get(number, 0) for number in range(len(layout.slices))) != layout.rows:
            raise CorruptData("Other rows were written than were counted. There is no set.", hint="Run it again.")
        return [fragment for fragments in found["fragments"].to_pylist() for fragment in fragments]

    def _layout(self) -> Layout:
        sizes = [size.rows for size in self.sizes]
        layout = Layout(tuple(size.name for size in self.sizes), tuple(slices(sizes, self._at_once)))
        if len(layout.slices) == sum(rows > 0 for rows in sizes):
            return Layout(layout.splits, layout.slices, tuple(rows for rows in sizes if rows))
        rows = self._sums("count slices", partial(count_slices, layout), SLICE_COUNTS)
        return Layout(layout.splits, layout.slices, tuple(rows.get(number, 0) for number in range(len(layout.slices))))

    def _sums(self, stage: str, count: _Counting, schema: pa.Schema) -> dict[int, int]:
        """Rows by the first column of what ``count`` finds in a partition."""
        key = schema.names[0]
        found = self._runner.collect(stage, self._runner.map(stage, self._frame, count, schema))
        sums = found.group_by(key).aggregate([("rows", "sum")])
        return dict(zip(sums[key].to_pylist(), sums["rows_sum"].to_pylist(), strict=True))


@contextmanager
def drawn_rows(
    location: DatasetLocation, pin: PinnedVersion, spec: FreezeSpec, engine: Engine, at_once: int
) -> Iterator[DrawnRows]:
    """The rows of a set. Raises NotFound and InvalidOption for what cannot be read or grouped, Refused as above."""
    read = _checked_read(location, pin, spec)
    fragments = fragment_sizes(location, pin)
    width = row_width(_wanted(read, spec))
    work = Work(copies=len(fragments), copied_bytes=int(sum(each.live_rows for each in fragments) * width))
    runner = engine.for_work(OPERATION, work)
    try:
        yield DrawnRows(read, spec, runner, at_once)
    finally:
        runner.release()


def _checked_read(location: DatasetLocation, pin: PinnedVersion, spec: FreezeSpec) -> PinnedRead:
    """The read of the rows. Raises NotFound and InvalidOption for the columns to group by."""
    stored = scanning.stored_schema(location, pin)
    blobs = scanning.blob_columns(location, pin)
    for name in spec.by:
        if name not in stored.names:
            raise unknown_column(name, stored.names)
        if name in blobs:
            raise InvalidOption(f"Column '{name}' holds blobs, by which rows cannot be grouped.")
        check_key_type(name, stored.field(name).type)
    return PinnedRead(location, pin, ReadOptions(filter=spec.filter, with_row_id=True, with_row_address=True))


def _wanted(read: PinnedRead, spec: FreezeSpec) -> pa.Schema:
    columns = read_schema(read)
    return pa.schema([columns.field(name) for name in (*spec.by, ROW_ID, ROW_ADDRESS)])


def _draw(read: PinnedRead, spec: FreezeSpec, runner: Runner) -> Frame:
    plan = plan_read(read, _wanted(read, spec), runner.parallelism)
    scan = plan.scan
    fragments = fragment_sizes(scan.location, scan.pin)
    counts = accumulate((each.live_rows for each in fragments), initial=0)
    firsts = {each.fragment_id: first for each, first in zip(fragments, counts, strict=False)}
    snapshot = read_snapshot(scan.location, scan.pin)
    deletions = {fragment.id: snapshot.deletions_of(fragment) for fragment in snapshot.contents.fragments()}
    tasks = [
        DrawTask(part, {key: firsts[key] for key in part.fragment_ids},
                 {key: deletions[key] for key in part.fragment_ids})
        for part in plan.partitions
    ]  # fmt: skip
    return runner.flat_map("hash rows", tasks, partial(draw_rows, scan, spec), DRAWN)
