"""Frozen sets as they are read: rows in their order, and what differs between two of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from lance_spark.actions.freeze import FrozenPlan, find_plan
from lance_spark.errors import Conflict, InvalidOption, NotFound, Refused
from lance_spark.freezing.difference import COUNTS, DIFFERENCES, ENTRIES, FrozenDiff, changed, compare, count
from lance_spark.freezing.keys import canonical_bytes, check_key_type
from lance_spark.freezing.spec import Lineage
from lance_spark.history.columns import key_columns
from lance_spark.location import DatasetLocation
from lance_spark.options.text import names_of
from lance_spark.refs.model import PinnedVersion
from lance_spark.refs.names import plan_branch, plan_tag
from lance_spark.refs.parse import BRANCHES, TAGS
from lance_spark.runner.interface import Engine, Frame, Runner
from lance_spark.runner.work import Work
from lance_spark.scan.plan import BATCH_ROWS, batch_rows
from lance_spark.schema.blobs import BLOB_BYTES
from lance_spark.schema.conform import conform
from lance_spark.schema.projection import unknown_column
from lance_spark.schema.width import row_width
from lance_spark.store import refs, scanning
from lance_spark.store.datasets import pin_latest, pin_version
from lance_spark.store.frozen_plan import read_places, read_range
from lance_spark.store.frozen_rows import take_frozen
from lance_spark.store.version_reader import read_contents

PLACE = (pa.field("_split", pa.string(), nullable=False), pa.field("_position", pa.int64(), nullable=False))
"""What ``with_position`` adds."""
_TASK_BYTES = 32 * 2**20
_TAKEN = 8_192
"""Rows that are looked up at once at most: more gain nothing."""
_PLAN_ROWS = 250_000
"""Rows of a plan that one task compares."""


@dataclass(frozen=True)
class FrozenReading:
    """What tasks need to read rows of a set. ``schema`` is what comes out, ``_split`` and ``_position`` last."""

    location: DatasetLocation
    plan: PinnedVersion
    source: PinnedVersion
    names: tuple[str, ...]
    schema: pa.Schema
    batch_size: int

    @property
    def with_position(self) -> bool:
        """Whether each row has its split and its position."""
        return len(self.schema) > len(self.names)


def list_frozen(location: DatasetLocation) -> list[Lineage]:
    """All frozen sets of a dataset, by name; none whose plan is lost, which ``needed_plan`` and fsck tell."""
    prefix = plan_tag("")
    found = []
    for tag in refs.list_ref_names(location, TAGS):
        with suppress(NotFound):
            plan = find_plan(location, tag.removeprefix(prefix)) if tag.startswith(prefix) else None
            if plan is not None and plan.lineage.name == tag.removeprefix(prefix):
                found.append(plan.lineage)
    return found


def needed_plan(location: DatasetLocation, name: str) -> FrozenPlan:
    """The plan of a set, whose source is there as it was. Raises NotFound, Conflict if the source was replaced."""
    plan = find_plan(location, name)
    if plan is None:
        pin_latest(location, None)  # a wrong path is another error
        raise NotFound(f"There is no frozen set '{name}' in {location.uri}.", hint=_others(location, name))
    source = plan.lineage.source
    if pin_version(location, source.branch, source.version) != source:
        raise Conflict(
            f"Version {source}, which the rows of the frozen set '{name}' are of, is not the one that was frozen.",
            hint="Its branch or the dataset was deleted and made again: t.unfreeze(...) it, and freeze it again.",
        )
    return plan


def _others(location: DatasetLocation, name: str) -> str:
    """What there is in place of a set: in a clone the plan of the remote's, else the sets of the dataset."""
    fetched = [branch for branch in refs.list_ref_names(location, BRANCHES) if branch.endswith(f"/{plan_branch(name)}")]
    if fetched:
        return f"'{fetched[0]}' is the plan of a remote's set: the same call of t.freeze(...) as there makes it here."
    known = ", ".join(f"'{lineage.name}'" for lineage in list_frozen(location)) or "none"
    return f"There is: {known}."


def plan_reading(
    location: DatasetLocation, plan: FrozenPlan, columns: str | Sequence[str] | None = None, with_position: bool = False
) -> FrozenReading:
    """How to read rows of a set: whole columns, all by default. Blobs come as bytes.

    Raises NotFound, and InvalidOption for columns that cannot stand side by side.
    """
    source = plan.lineage.source
    stored = scanning.schema_of(location, source)
    blobs = scanning.blob_columns(location, source)
    names = tuple(stored.names) if columns is None else names_of(columns)
    if not names or len({*names}) < len(names):
        raise InvalidOption(f"columns={list(names)!r} names no columns, or one twice.")
    for name in names:
        if name not in stored.names:
            raise unknown_column(name, stored.names)
    if with_position and (taken := [field.name for field in PLACE if field.name in names]):
        raise InvalidOption(f"The table has a column '{taken[0]}'.", hint="Leave it out with columns=[...].")
    fields = [pa.field(name, pa.large_binary()) if name in blobs else stored.field(name) for name in names]
    width = row_width(fields) + BLOB_BYTES * len(blobs.intersection(names))
    schema = pa.schema([*fields, *(PLACE if with_position else ())])
    return FrozenReading(location, plan.pin, source, names, schema, min(_TAKEN, batch_rows(width)))


def tasks_of(reading: FrozenReading, first: int, rows: int) -> list[tuple[int, int]]:
    """Ranges of the plan, in its order, for one task each; some bytes each, whole batches."""
    size = max(1, int(_TASK_BYTES / max(1.0, row_width(reading.schema)) / reading.batch_size)) * reading.batch_size
    return [(start, min(size, first + rows - start)) for start in range(first, first + rows, size)]


def read_task(reading: FrozenReading, task: tuple[int, int]) -> Iterator[pa.RecordBatch]:
    """The rows of a range of the plan, in order."""
    for planned in read_range(reading.location, reading.plan, *task, reading.batch_size):
        yield from _rows(reading, pa.Table.from_batches([planned])).to_batches()


def read_rows(reading: FrozenReading, places: Sequence[int]) -> pa.Table:
    """The rows at some places of the plan, in the order of these."""
    return _rows(reading, read_places(reading.location, reading.plan, places))


def _rows(reading: FrozenReading, planned: pa.Table) -> pa.Table:
    rows = take_frozen(reading.location, reading.source, list(reading.names), planned["row_id"].to_pylist())
    if reading.with_position:
        for field, name in zip(PLACE, ("split", "position"), strict=True):
            rows = rows.append_column(field, planned[name])
    batches = [conform(batch, reading.schema) for batch in rows.combine_chunks().to_batches()]
    return pa.Table.from_batches(batches, reading.schema)


@dataclass(frozen=True)
class _ComparedSet:
    """One set of a comparison, and how its rows are told: by these columns, else by their ids."""

    location: DatasetLocation
    plan: FrozenPlan
    key: tuple[str, ...]

    @property
    def schema(self) -> pa.Schema:
        local = pa.field("local", pa.binary() if self.key else pa.int64())
        return pa.schema([local, *ENTRIES])

    def frame(self, runner: Runner) -> Frame:
        rows = self.plan.lineage.rows
        tasks = [(first, min(_PLAN_ROWS, rows - first)) for first in range(0, rows, _PLAN_ROWS)]
        return runner.flat_map(f"read '{self.plan.lineage.name}'", tasks, partial(_entries, self), self.schema)


def _entries(side: _ComparedSet, task: tuple[int, int]) -> Iterator[pa.RecordBatch]:
    for planned in read_range(side.location, side.plan.pin, *task, _TAKEN if side.key else BATCH_ROWS):
        ids = planned["row_id"]
        local = pa.array(_keys(side, ids.to_pylist()), pa.binary()) if side.key else ids
        yield pa.record_batch([local, planned["split"], ids], schema=side.schema)


def _keys(side: _ComparedSet, row_ids: list[int]) -> list[bytes]:
    rows = take_frozen(side.location, side.plan.lineage.source, list(side.key), row_ids).combine_chunks()
    columns = []
    for name in side.key:
        if rows[name].null_count:
            raise Refused(
                f"Rows of the frozen set '{side.plan.lineage.name}' have no '{name}', which is to tell them.",
                hint="Give columns that every row has a value of, as in key=['id'].",
            )
        columns.append(canonical_bytes(rows[name]))
    return [b"".join(parts) for parts in zip(*columns, strict=True)]


def diff_frozen(location: DatasetLocation, names: tuple[str, str], key: tuple[str, ...], engine: Engine) -> FrozenDiff:
    """What differs between two sets; its frame is one of the runner, which computes it when it is used.

    Raises NotFound, InvalidOption for columns that cannot be a key, Refused if nothing tells rows of both.
    """
    before, after = (needed_plan(location, name) for name in names)
    key = _key(location, before, after, key)
    rows = before.lineage.rows + after.lineage.rows
    runner = engine.for_work("frozen diff", Work(copies=-(-rows // _PLAN_ROWS), copied_bytes=rows * 48))
    first, second = (_ComparedSet(location, plan, key).frame(runner) for plan in (before, after))
    matched = runner.match("compare rows", (first, second), compare, DIFFERENCES, rows)
    counted = runner.collect("count differences", runner.map("count differences", matched, count, COUNTS))
    keys = ["change", "split_before", "split_after"]
    sums = counted.group_by(keys).aggregate([("rows", "sum")]).to_pylist()
    counts = {(row["change"], row["split_before"], row["split_after"]): row["rows_sum"] for row in sums}
    return FrozenDiff(*names, counts, runner.map("list differences", matched, changed, DIFFERENCES))


def _key(location: DatasetLocation, before: FrozenPlan, after: FrozenPlan, given: tuple[str, ...]) -> tuple[str, ...]:
    """The columns that tell rows; none where row ids do."""
    one, other = before.lineage, after.lineage
    line = (one.source.branch, one.identity) == (other.source.branch, other.identity)
    ids_tell = line and (one.source == other.source or (one.stable_row_ids and other.stable_row_ids))
    key = given or (() if ids_tell else key_columns(read_contents(location, other.source).fields))
    if not key and not ids_tell:
        raise Refused(
            f"Nothing tells which rows of {one.source} and {other.source} are the same: there are no stable row ids "
            "on one branch, and the table has no key.",
            hint="Name the columns that do, as in key=['id'].",
        )
    for side in (one, other):
        stored = scanning.stored_schema(location, side.source)
        for name in key:
            if name not in stored.names:
                raise unknown_column(name, stored.names)
            check_key_type(name, stored.field(name).type)
    return key
