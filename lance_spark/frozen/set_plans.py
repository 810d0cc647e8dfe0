"""The plan of a frozen set, a version of a branch of its own: writes and reads it, and reads the rows it names."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.errors import CorruptData, NotFound, StorageFailure
from lance_spark.format.blobs import holds_blobs, is_blob
from lance_spark.format.schema import ROW_ADDRESS, ROW_ID
from lance_spark.format.transactions import MESSAGE
from lance_spark.format.versions import Deletions
from lance_spark.frozen.draw_rules import LINEAGE, PLAN_SCHEMA, FreezeSpec, Layout, Lineage, draw, live_offsets, unpack
from lance_spark.scan.blob_reads import read_blobs, references
from lance_spark.scan.fragment_reads import Scan, read_batches, read_deletions
from lance_spark.scan.partition_rules import ScanPartition
from lance_spark.storage.commits import check_written, commit_on, data_paths
from lance_spark.storage.credentials import for_pylance
from lance_spark.storage.datasets import open_pinned, pin_latest
from lance_spark.storage.failures import translated
from lance_spark.storage.objects import StoredObject, look_many

OBJECTS = pa.field(
    "objects", pa.list_(pa.struct([("column", pa.string()), ("size", pa.int64()), ("tag", pa.string())]))
)
"""Column of the plan of a table whose blobs may refer to objects elsewhere: their sizes and ETags at that time."""
_LOOKED_UP = 8_192
"""Rows whose objects are looked at together."""
WRITTEN = pa.schema([("slice", pa.int64()), ("rows", pa.int64()), ("fragments", pa.list_(pa.string()))])
"""A slice of a plan that was written, with its fragments as pylance's JSON."""


@dataclass(frozen=True)
class PlanJob:
    """Everything tasks need to write the plan of a set."""

    location: DatasetLocation
    branch: str
    layout: Layout
    source: PinnedVersion
    blobs: tuple[str, ...] = ()
    """Columns whose blobs may refer to objects elsewhere: the plan has what these were like."""


def plan_schema(blobs: Sequence[str]) -> pa.Schema:
    return PLAN_SCHEMA.append(OBJECTS) if blobs else PLAN_SCHEMA


def write_slice(job: PlanJob, pieces: Iterable[bytes]) -> Iterator[pa.RecordBatch]:
    """WRITTEN of one slice, whose rows are all in memory: files of the branch that no version references yet."""
    from lance.fragment import write_fragments

    number, drawn = unpack(pieces, job.layout)
    with translated(job.location, "writing the plan"):
        # With "append" the rows would have to fit the columns of the source.
        ordered = job.layout.ordered(number, drawn)
        written: list[Any] = write_fragments(
            _with_objects(job, ordered) if job.blobs else ordered,
            job.location.branch_uri(job.branch),
            schema=plan_schema(job.blobs),
            mode="overwrite",
            **for_pylance(job.location),
        )
    found = {"slice": number, "rows": drawn.num_rows, "fragments": [json.dumps(each.to_json()) for each in written]}
    yield pa.RecordBatch.from_pylist([found], schema=WRITTEN)


def _with_objects(job: PlanJob, ordered: pa.Table) -> pa.Table:
    """The rows, with what the objects elsewhere are like that their blobs refer to; an empty list if there is none.

    Raises NotFound for an object that is gone.
    """
    found: list[list[dict[str, Any]]] = [[] for _ in range(ordered.num_rows)]
    for start in range(0, ordered.num_rows, _LOOKED_UP):
        row_ids = ordered["row_id"].slice(start, _LOOKED_UP).to_pylist()
        for column in job.blobs:
            for place, seen in enumerate(_seen(job, column, row_ids), start):
                if seen is not None:
                    found[place].append({"column": column, "size": seen.size, "tag": seen.tag})
    return ordered.append_column(OBJECTS, pa.array(found, OBJECTS.type))


def _seen(job: PlanJob, column: str, row_ids: list[int]) -> list[StoredObject | None]:
    wanted = references(job.location, job.source, column, row_ids)
    there = look_many(job.location, sorted({one.address for one in wanted if one is not None}))
    for address, found in there.items():
        if not isinstance(found, StoredObject):
            kind = NotFound if found is None else StorageFailure
            raise kind(
                f"The object {address}, to which a blob of column '{column}' refers, cannot be frozen: "
                f"{found or 'it is gone'}.",
                hint="No set was created. A deep check lists all that are gone.",
            )
    return [None if one is None else there[one.address] for one in wanted]  # type: ignore[misc]


def commit_plan(
    location: DatasetLocation,
    branch: str,
    fragments: Sequence[str],
    lineage: Lineage,
    schema: pa.Schema = PLAN_SCHEMA,
) -> PinnedVersion:
    """Commit the plan as the newest version of its branch, replacing the rows there. Raises Conflict.

    ``fragments`` are those of WRITTEN, in the order of the plan.
    """
    import lance

    known = [lance.FragmentMetadata.from_json(each) for each in fragments]
    schema = schema.with_metadata({LINEAGE: lineage.to_json()})
    operation = lance.LanceOperation.Overwrite(schema, known)
    message = {MESSAGE: f"Freeze '{lineage.name}': {lineage.rows:,} rows of {lineage.source}"}
    check_written(location, branch, data_paths(fragments))
    return commit_on(location, pin_latest(location, branch), operation, message)


def read_lineage(location: DatasetLocation, plan: PinnedVersion) -> Lineage | None:
    """The lineage in a version; None if the version is not a plan. Raises NotFound, CorruptData."""
    text = (open_pinned(location, plan).schema.metadata or {}).get(LINEAGE.encode())
    return None if text is None else Lineage.from_json(text.decode())


def has_stable_row_ids(location: DatasetLocation, pin: PinnedVersion) -> bool:
    """Whether ``_rowid`` stays with a row when it is updated or compacted."""
    return bool(open_pinned(location, pin).has_stable_row_ids)


def read_range(
    location: DatasetLocation, plan: PinnedVersion, first: int, count: int, batch_size: int
) -> Iterator[pa.RecordBatch]:
    """Rows of a plan in its order, in batches of at most that size."""
    dataset = open_pinned(location, plan)
    with translated(location, "reading the plan"):
        # Slice by slice: a scanner's batches end where its pages do.
        for start in range(first, first + count, batch_size):
            rows = dataset.to_table(offset=start, limit=min(batch_size, first + count - start))
            yield from rows.combine_chunks().to_batches()


def read_places(location: DatasetLocation, plan: PinnedVersion, places: Sequence[int]) -> pa.Table:
    """Rows of a plan by their numbers in it, in the order of the numbers."""
    dataset = open_pinned(location, plan)
    with translated(location, "reading the plan"):
        rows: pa.Table = dataset.take(list(places))
        return rows


# --- Rows of a version for frozen sets: scanned to make a plan, and read by id


@dataclass(frozen=True)
class DrawTask:
    """The work of one task: a part of a scan and, for its fragments, the first row's number and the deleted rows."""

    part: ScanPartition
    firsts: Mapping[int, int]
    deletions: Mapping[int, Deletions | None]


def draw_rows(scan: Scan, spec: FreezeSpec, task: DrawTask) -> Iterator[pa.RecordBatch]:
    """The rows of a part that pass the filter, with the hashes that decide their split and order."""
    deleted = {
        key: read_deletions(scan.location, scan.pin, at).to_numpy(zero_copy_only=False).astype(np.int64)
        for key, at in task.deletions.items()
    }
    for batch in read_batches(scan, task.part):
        addresses = batch[ROW_ADDRESS].to_numpy(zero_copy_only=False).astype(np.uint64)
        fragments = (addresses >> np.uint64(32)).astype(np.int64)
        physical = (addresses & np.uint64(0xFFFFFFFF)).astype(np.int64)
        offsets = np.empty(len(addresses), np.int64)
        for key in np.unique(fragments).tolist():
            own = fragments == key
            offsets[own] = live_offsets(physical[own], deleted[key], task.firsts[key])
        row_ids = batch[ROW_ID].to_numpy(zero_copy_only=False).astype(np.uint64)
        yield from draw([batch[name] for name in spec.by], row_ids, offsets, spec).to_batches()


def take_frozen(
    location: DatasetLocation, pin: PinnedVersion, names: list[str], row_ids: list[int], seen: Seen | None = None
) -> pa.Table:
    """The rows with these ids, in order; blobs as bytes.

    ``seen`` is what their objects elsewhere were like when the set was frozen, by column. Raises CorruptData if a row
    does not exist, or if an object is another one now.
    """
    dataset = open_pinned(location, pin)
    blobs = {field.name for field in dataset.schema if holds_blobs(field)}
    with translated(location, "reading rows"):
        # pylance's public take() uses the numbers of live rows, and must find those deleted before each of them.
        # At least one column: without any, it returns no rows.
        rows: pa.Table = dataset._take_rows(row_ids, columns=names or dataset.schema.names[:1])
        if rows.num_rows != len(row_ids):
            raise CorruptData(f"Only {rows.num_rows} of {len(row_ids)} frozen rows are in version {pin}.")
        for name in blobs.intersection(names):
            rows = rows.set_column(rows.schema.get_field_index(name), name, _blobs(location, pin, name, row_ids))
            # After their bytes were read: whatever is written in between is noticed.
            _check_unchanged(location, pin, name, row_ids, (seen or {}).get(name, {}))
    return rows.select(names)


def _blobs(location: DatasetLocation, pin: PinnedVersion, name: str, row_ids: list[int]) -> pa.Array | pa.ChunkedArray:
    """A column with the bytes of blobs; null if a row has none."""
    dataset = open_pinned(location, pin)
    if is_blob(dataset.schema.field(name)):
        return pa.array(read_blobs(location, pin, name, row_ids), pa.large_binary())
    # read_blobs() of pylance knows no blobs inside lists.
    wanted = f"{ROW_ID} IN ({', '.join(map(str, row_ids))})"
    inside = dataset.scanner(columns=[name], filter=wanted, with_row_id=True, blob_handling="all_binary").to_table()
    return inside[name].take(pc.index_in(pa.array(row_ids, pa.uint64()), inside[ROW_ID].combine_chunks()))


Seen = Mapping[str, Mapping[int, StoredObject]]
"""By column and row id."""


def seen_objects(planned: pa.Table) -> Seen:
    """What the objects of rows of a plan were like."""
    found: dict[str, dict[int, StoredObject]] = {}
    if OBJECTS.name in planned.schema.names:
        for row_id, objects in zip(planned["row_id"].to_pylist(), planned[OBJECTS.name].to_pylist(), strict=True):
            for one in objects or ():
                found.setdefault(one["column"], {})[row_id] = StoredObject(one["size"], one["tag"])
    return found


def _check_unchanged(
    location: DatasetLocation,
    pin: PinnedVersion,
    column: str,
    row_ids: list[int],
    seen: Mapping[int, StoredObject],
) -> None:
    rows = [row for row in row_ids if row in seen]
    wanted = dict(zip(rows, references(location, pin, column, rows), strict=True)) if rows else {}
    there = look_many(location, sorted({one.address for one in wanted.values() if one is not None}))
    for row, one in wanted.items():
        now, before = None if one is None else there[one.address], seen[row]
        if one is None or now == before:
            continue
        if isinstance(now, str):
            raise StorageFailure(f"Whether the object {one.address} is as it was frozen cannot be told: {now}")
        said = "is gone" if now is None else f"has {now.size:,} bytes (ETag {now.tag})"
        raise CorruptData(
            f"The object {one.address}, to which a blob of column '{column}' refers, changed since the set was frozen: "
            f"it had {before.size:,} bytes (ETag {before.tag}) and {said} now.",
            hint="Restore the object; or freeze a set of another name, which has it as it is now.",
        )
