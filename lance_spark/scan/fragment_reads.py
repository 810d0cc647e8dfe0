"""Reads through pylance: rows, schemas, sizes, deletion files, and an index's answer to a filter."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.errors import CorruptData, InvalidOption, LanceSparkError, LanceSparkWarning, NotFound
from lance_spark.format.blobs import holds_blobs, marked
from lance_spark.format.contents import Fragment
from lance_spark.format.manifest import RecordedSize, recorded_sizes
from lance_spark.format.row_values import ADDRESS
from lance_spark.format.schema import ROW_ADDRESS, unknown_column
from lance_spark.format.versions import Deletions, Snapshot
from lance_spark.scan import partition_rules
from lance_spark.scan.blob_reads import elsewhere, with_bytes
from lance_spark.scan.partition_rules import FragmentSize, IndexMatches, ScanPartition
from lance_spark.storage import files
from lance_spark.storage.datasets import open_pinned
from lance_spark.storage.failures import translated
from lance_spark.storage.mem_wal import waiting_rows

if TYPE_CHECKING:
    import lance


@dataclass(frozen=True)
class ScanColumns:
    """The columns of a scan: whole top-level columns, in order, as requested from pylance."""

    names: tuple[str, ...]
    with_row_id: bool = False
    with_row_address: bool = False
    blobs: Literal["blobs_descriptions", "all_binary"] = "blobs_descriptions"


@dataclass(frozen=True)
class Scan:
    """One version and the part of it to read: an executor's input besides its partition."""

    location: DatasetLocation
    pin: PinnedVersion
    columns: ScanColumns
    filter: str | None = None
    batch_size: int = 65_536


def schema_of(location: DatasetLocation, pin: PinnedVersion, columns: ScanColumns | None = None) -> pa.Schema:
    """Arrow schema of a version in a scan's form: blobs as descriptions or bytes, not in their stored form."""
    return (_schema_of if pin.stamp is None else _kept_schema_of)(location, pin, columns)


def _schema_of(location: DatasetLocation, pin: PinnedVersion, columns: ScanColumns | None) -> pa.Schema:
    dataset = open_pinned(location, pin)
    with translated(location, "reading the schema"):
        names = dataset.schema.names if columns is None else list(columns.names)
        blobs = "blobs_descriptions" if columns is None else columns.blobs
        projected: pa.Schema = dataset.scanner(columns=names, blob_handling=blobs).projected_schema
        if blobs == "blobs_descriptions":
            return projected
        stored = {field.name: field for field in dataset.schema}
        return pa.schema([marked(each, stored[each.name]) if each.name in stored else each for each in projected])


_kept_schema_of = lru_cache(maxsize=64)(_schema_of)
"""A plan needs the schema several times, each time with a scanner of its own."""


def stored_schema(location: DatasetLocation, pin: PinnedVersion) -> pa.Schema:
    """Arrow schema of a version in its stored form, which filters refer to."""
    stored: pa.Schema = open_pinned(location, pin).schema
    return stored


def reads_empty_structs(location: DatasetLocation, pin: PinnedVersion) -> bool:
    """Whether pylance reads structs without fields back: only in the second format."""
    return bool(open_pinned(location, pin).data_storage_version == "2.0")


def column_names(location: DatasetLocation, pin: PinnedVersion) -> tuple[str, ...]:
    return tuple(open_pinned(location, pin).schema.names)


def blob_columns(location: DatasetLocation, pin: PinnedVersion) -> frozenset[str]:
    """Names of the top-level columns that are blobs, or have some inside."""
    schema = open_pinned(location, pin).schema
    return frozenset(field.name for field in schema if holds_blobs(field))


def count_rows(location: DatasetLocation, pin: PinnedVersion, filter: str | None = None) -> int:
    """Number of live rows; without a filter from metadata alone. Raises InvalidOption for an unparsable filter."""
    dataset = open_pinned(location, pin)
    _refuse_quotes(filter, dataset)
    with translated(location, "counting rows" if filter is None else f"reading the filter {filter!r}"):
        return int(dataset.count_rows(filter))


def head(
    location: DatasetLocation,
    pin: PinnedVersion,
    count: int,
    columns: Sequence[str] | None = None,
    filter: str | None = None,
) -> pa.Table:
    """The first rows, or the first ones that match. Raises InvalidOption, NotFound for a column."""
    dataset = open_pinned(location, pin)
    try:
        with translated(location, "reading rows"):
            return dataset.to_table(columns=None if columns is None else list(columns), limit=count, filter=filter)
    except InvalidOption:
        for name in columns or ():
            if name not in dataset.schema.names and "." not in name and not name.startswith("_"):
                raise unknown_column(name, dataset.schema.names) from None
        raise


def takes_row_addresses(location: DatasetLocation, pin: PinnedVersion) -> bool:
    """Whether a filtered scan can be limited to row addresses: not with stable row ids or in the oldest format."""
    dataset = open_pinned(location, pin)
    return not dataset.has_stable_row_ids and dataset.data_storage_version != OLDEST_FORMAT


def index_matches(scan: Scan) -> IndexMatches | None:
    """The matching rows, if indexes alone answer the filter.

    None if they do not, or if more than PROBE_LIMIT rows match: planning then falls back to bytes.
    """
    dataset = open_pinned(scan.location, scan.pin)
    probe: dict[str, Any] = {
        "columns": [],
        "with_row_address": True,
        "filter": scan.filter,
        "limit": partition_rules.PROBE_LIMIT + 1,
    }
    with translated(scan.location, "planning the filter"):
        names = partition_rules.answering_indexes(dataset.scanner(**probe).explain_plan(True))
        covered = (_covered if scan.pin.stamp is None else _kept_covered)(scan.location, scan.pin, names)
        if not covered:
            return None
        fragments = _fragments(dataset, sorted(covered))
        addresses = dataset.scanner(fragments=fragments, **probe).to_table()["_rowaddr"]
    if len(addresses) > partition_rules.PROBE_LIMIT:
        return None
    keys, counts = np.unique(addresses.to_numpy() >> 32, return_counts=True)
    return IndexMatches(covered, dict(zip(keys.tolist(), counts.tolist(), strict=True)))


_OF_VALUES = frozenset({"BTree", "Bitmap", "ZoneMap", "BloomFilter"})
"""Kinds of index that find the rows with given values."""


def indexed_columns(location: DatasetLocation, pin: PinnedVersion) -> frozenset[str]:
    """The columns whose values an index finds."""
    return (_indexed if pin.stamp is None else _kept_indexed)(location, pin)


def _indexed(location: DatasetLocation, pin: PinnedVersion) -> frozenset[str]:
    dataset = open_pinned(location, pin)
    with suppress(LanceSparkError), translated(location, "describing the indexes"):
        found = dataset.describe_indices()
        return frozenset(name for index in found if index.index_type in _OF_VALUES for name in index.field_names)
    return frozenset()  # an unreadable index must not fail a query that does not depend on it


_kept_indexed = lru_cache(maxsize=64)(_indexed)


def _covered(location: DatasetLocation, pin: PinnedVersion, names: frozenset[str]) -> frozenset[int]:
    """Fragments of this version that all of the named indexes cover."""
    dataset = open_pinned(location, pin)
    per_index = [
        frozenset(fragment for segment in index.segments for fragment in segment.fragment_ids)
        for index in dataset.describe_indices()
        if index.name in names
    ]
    if not per_index or len(per_index) != len(names):
        return frozenset()
    return reduce(frozenset.intersection, per_index, frozenset(dataset.fragment_ids()))


_kept_covered = lru_cache(maxsize=16)(_covered)
"""Look-ups of the same key are consecutive; with 100,000 fragments these are large sets."""


def check_filter(scan: Scan) -> None:
    """Raise InvalidOption, with pylance's message, for a predicate that it cannot parse or bind.

    So it does for a column in double quotes, with which the predicate would find nothing.
    """
    dataset = open_pinned(scan.location, scan.pin)
    _refuse_quotes(scan.filter, dataset)
    with translated(scan.location, f"reading the filter {scan.filter!r}"):
        dataset.scanner(columns=[], with_row_address=True, filter=scan.filter).explain_plan()


def _refuse_quotes(filter: str | None, dataset: Any) -> None:
    name = None if filter is None or '"' not in filter else partition_rules.quoted_column(filter, dataset.schema.names)
    if name is not None:
        raise InvalidOption(
            f'The filter {filter!r} has the column "{name}" in double quotes, which Lance takes for a text.',
            hint=f"Write `{name}` for the column, and '{name}' for the text.",
        )


def read_batches(scan: Scan, partition: ScanPartition) -> Iterator[pa.RecordBatch]:
    """The rows of one partition, as pylance returns them."""
    columns = scan.columns
    apart = elsewhere(scan.location, scan.pin, columns.names) if columns.blobs == "all_binary" else ()
    if apart:
        yield from _with_objects(scan, partition, apart)
        return
    dataset = open_pinned(scan.location, scan.pin)
    with translated(scan.location, "scanning"):
        yield from dataset.scanner(**_arguments(dataset, scan, partition)).to_batches()


def _with_objects(scan: Scan, partition: ScanPartition, apart: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The same, with the bytes of objects elsewhere that pylance cannot reach."""
    columns = scan.columns
    described = replace(scan, columns=replace(columns, blobs="blobs_descriptions", with_row_address=True))
    for batch in read_batches(described, partition):
        rows = with_bytes(scan.location, scan.pin, batch, apart)
        yield rows if columns.with_row_address else rows.drop_columns([ROW_ADDRESS])


def take_rows(scan: Scan, row_ids: Sequence[int]) -> list[pa.RecordBatch]:
    """The rows with these ids, in order; all ids must exist. Not for blobs."""
    dataset = open_pinned(scan.location, scan.pin)
    with translated(scan.location, "reading rows"):
        # The public take() takes positions, not ids, and must find the deleted rows before each position.
        found: pa.Table = dataset._take_rows(list(row_ids), columns=list(scan.columns.names))
        return list(found.to_batches())


def _arguments(dataset: lance.LanceDataset, scan: Scan, partition: ScanPartition) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "columns": list(scan.columns.names),
        "fragments": _fragments(dataset, partition.fragment_ids),
        "filter": scan.filter,
        "limit": partition.limit,
        "with_row_id": scan.columns.with_row_id,
        "with_row_address": scan.columns.with_row_address,
        "blob_handling": scan.columns.blobs,
        "batch_size": scan.batch_size,
    }
    if partition.row_count is None:
        return arguments
    if scan.filter is None:
        rows = partition.row_count if partition.limit is None else min(partition.limit, partition.row_count)
        return {**arguments, "offset": partition.first_row, "limit": rows}
    # Offset and limit count rows that passed the filter, so addresses limit the range of a filtered fragment.
    allowed = partition_rules.row_address_set(partition.fragment_ids[0], partition.first_row, partition.row_count)
    return {**arguments, "row_addr_allowlist": allowed, "prefilter": True}


def _fragments(dataset: lance.LanceDataset, ids: Sequence[int]) -> list[lance.LanceFragment] | None:
    if len(ids) == dataset._ds.count_fragments():
        return None
    return [fragment for fragment in map(dataset.get_fragment, ids) if fragment is not None]


# --- Deletion files: the deleted rows of a fragment

_OFFSETS = "row_id"
"""Column with the deleted offsets in a deletion file."""


def deleted_offsets(location: DatasetLocation, snapshot: Snapshot, fragment: Fragment) -> pa.Array:
    """Offsets of the deleted rows of a fragment (uint32, ascending). Raises NotFound, CorruptData."""
    return read_deletions(location, snapshot.pin, snapshot.deletions_of(fragment))


def read_deletions(location: DatasetLocation, pin: PinnedVersion, deletions: Deletions | None) -> pa.Array:
    """The offsets in a deletion file of a version, in the same way; none if there is no file."""
    if deletions is None:
        return pa.array([], pa.uint32())
    root, path = deletions
    content = files.read(DatasetLocation(root, location.options), path)
    if content is None:
        raise NotFound(
            f"The deletion file {path} of {pin} is gone: {root} does not have it.",
            hint="Without it no reader can read the version.",
        )
    return parse_deletions(path, content)


def parse_deletions(path: str, content: bytes) -> pa.Array:
    """The offsets in a deletion file (uint32, ascending). Raises CorruptData."""
    try:
        if path.endswith(".bin"):
            from pyroaring import BitMap

            return pa.array(BitMap.deserialize(content), pa.uint32())
        table = pa.ipc.open_file(pa.BufferReader(content)).read_all()
        return table[_OFFSETS].combine_chunks().sort()
    except (pa.ArrowException, ValueError, KeyError) as problem:
        raise CorruptData(f"The deletion file {path} is damaged: {problem}.") from None


# --- Rows and bytes of all fragments of a version, from its manifest

OLDEST_FORMAT = "0.1"
"""File format whose writers recorded wrong numbers of rows."""


def fragment_sizes(location: DatasetLocation, pin: PinnedVersion) -> tuple[FragmentSize, ...]:
    """One entry per fragment, in the order of the returned rows. Reads only the manifest, once."""
    return _list_fragments(location, pin) if pin.stamp is None else _kept_fragments(location, pin)


def _list_fragments(location: DatasetLocation, pin: PinnedVersion) -> tuple[FragmentSize, ...]:
    dataset = open_pinned(location, pin)
    with translated(location, "listing fragments"):
        if dataset.mem_wal_index_details() is not None:
            _warn_of_waiting(location, pin)
        # The public get_fragments() creates objects for every file: with 100,000 fragments that takes a second.
        message = dataset._ds.serialized_manifest()
        recorded = dataset.data_storage_version != OLDEST_FORMAT
        return tuple([_size(dataset, size, recorded) for size in recorded_sizes(message)])


def _warn_of_waiting(location: DatasetLocation, pin: PinnedVersion) -> None:
    found = waiting_rows(location, pin)
    if found:
        warnings.warn(
            f"{found.beside(location.uri)} and not read: t.compact_wal() brings them into the table.",
            LanceSparkWarning,
            stacklevel=2,
        )


_kept_fragments = lru_cache(maxsize=8)(_list_fragments)
"""A plan needs the sizes several times, and queries of a session repeat: 100,000 fragments take 0.3 seconds."""


def _size(dataset: lance.LanceDataset, size: RecordedSize, recorded: bool) -> FragmentSize:
    """``recorded`` says whether the manifest's row counts are reliable."""
    key, physical, deleted, stored = size
    if recorded and physical is not None and deleted is not None:
        return FragmentSize(key, physical, physical - deleted, stored)
    fragment = dataset.get_fragment(key)
    return FragmentSize(
        key, physical if recorded and physical else fragment.physical_rows, fragment.count_rows(), stored
    )


# --- Rows of single fragments

ROW_ID, UPDATED = "_rowid", "_row_last_updated_at_version"


class FragmentRows(NamedTuple):
    fragment: int
    offsets: pa.Array | None = None
    """Physical offsets (uint32); None for all live rows."""


@dataclass(frozen=True)
class RowSource:
    location: DatasetLocation
    pin: PinnedVersion
    rows: tuple[FragmentRows, ...]


def read_rows(source: RowSource, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows, with ``_rowaddr``; with ``_rowid`` if requested. Blobs come as descriptions."""
    dataset = open_pinned(source.location, source.pin)
    arguments = {
        "columns": [name for name in columns if name != ROW_ID],
        "with_row_address": True,
        "with_row_id": ROW_ID in columns,
        "blob_handling": "blobs_descriptions",
    }
    with translated(source.location, f"reading rows of {source.pin}"):
        for part in source.rows:
            if part.offsets is not None and not len(part.offsets):
                continue
            fragment = dataset.get_fragment(part.fragment)
            for batch in dataset.scanner(fragments=[fragment], **arguments).to_batches():
                chosen = batch if part.offsets is None else _chosen(batch, part.fragment, part.offsets)
                if chosen.num_rows:
                    yield chosen


def _chosen(batch: pa.RecordBatch, fragment: int, offsets: pa.Array) -> pa.RecordBatch:
    addresses = pc.add(offsets.cast(pa.uint64()), pa.scalar(fragment << 32, pa.uint64()))
    return batch.filter(pc.is_in(batch.column(ADDRESS).cast(pa.uint64()), value_set=addresses))


def live_rows(location: DatasetLocation, pin: PinnedVersion, fragments: Sequence[int]) -> dict[int, int]:
    """Number of live rows of fragments, if the manifest does not record it."""
    dataset = open_pinned(location, pin)
    with translated(location, f"counting rows of {pin}"):
        return {number: int(dataset.get_fragment(number).count_rows()) for number in fragments}
