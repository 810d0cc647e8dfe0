"""Reading: from one pinned version to a schema, partitions and rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from lance_spark import hints
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.core.table_options import ReadOptions
from lance_spark.errors import SchemaMismatch
from lance_spark.format.blobs import BLOB_BYTES
from lance_spark.format.schema import (
    ROW_ADDRESS,
    ROW_COLUMNS,
    ROW_ID,
    add_row_columns,
    project,
    row_width,
    unknown_column,
    why_not,
)
from lance_spark.format.storable import struct_without_fields
from lance_spark.layout.declaring import read_layout
from lance_spark.layout.layout_rules import BUCKET
from lance_spark.layout.pruning import excluded
from lance_spark.scan import fragment_reads
from lance_spark.scan.fragment_reads import Scan, ScanColumns, fragment_sizes
from lance_spark.scan.partition_rules import (
    FragmentSize,
    ScanPartition,
    ScanRequest,
    batch_rows,
    only_matching,
    plan_scan,
)


@dataclass(frozen=True)
class ReadPlan:
    """A planned read: one scan, divided among tasks."""

    scan: Scan
    partitions: tuple[ScanPartition, ...]


@dataclass(frozen=True)
class PinnedRead:
    """A read with its ref resolved: later moves of a branch do not affect it."""

    location: DatasetLocation
    pin: PinnedVersion
    options: ReadOptions


def read_schema(read: PinnedRead) -> pa.Schema:
    """Arrow schema of this read's rows, in the dataset's own types.

    Raises SchemaMismatch for structs without fields, even in files, among them: other columns would read as null.
    """
    options = read.options
    names = tuple(fragment_reads.schema_of(read.location, read.pin).names)
    everything = fragment_reads.schema_of(read.location, read.pin, _columns(read, names))
    paths = options.columns
    named = {ROW_ID, ROW_ADDRESS}.intersection(paths or ())
    if paths is not None and named:
        paths = tuple(path for path in paths if path not in named)
    chosen = project(everything, paths)
    if (empty := struct_without_fields(chosen)) and not fragment_reads.reads_empty_structs(read.location, read.pin):
        raise SchemaMismatch(
            f"Column '{empty}' has a struct without fields even in its files; pylance misreads columns beside it.",
            hint=hints.of(
                "List the columns to read in option columns, or drop it: ",
                hints.python_only(f"t.drop_columns('{empty}')"),
                ".",
            ),
        )
    return add_row_columns(
        chosen, options.with_row_id or ROW_ID in named, options.with_row_address or ROW_ADDRESS in named
    )


def read_for_spark(read: PinnedRead, wire: pa.Schema) -> pa.Schema:
    """The dataset's columns for Spark's schema, which can come from the user's own ``.schema(...)``.

    Raises NotFound for an unknown column, and SchemaMismatch for an impossible conversion.
    """
    available = {field.name: field for field in read_schema(read)}
    for name in ROW_COLUMNS:
        available.setdefault(name, pa.field(name, pa.int64()))
    fields = []
    for field in wire:
        if field.name not in available:
            raise unknown_column(field.name, list(available))
        source = available[field.name]
        if reason := why_not(source.type, field.type, drop_fields=True):
            raise SchemaMismatch(
                f"Column '{field.name}' is {source.type} and cannot be read as {field.type}: {reason}.",
                hint="Leave the column's type to the dataset, or cast it in Spark.",
            )
        fields.append(source)
    return pa.schema(fields)


@dataclass(frozen=True)
class MeasuredRead:
    """A read before its division among tasks."""

    scan: Scan
    fragments: Sequence[FragmentSize]
    """Fragments that can hold rows, after an index has answered the filter."""
    row_width: float
    """Estimated bytes of one returned row."""
    options: ReadOptions
    exact: bool
    """Whether the fragments' row counts are those of the result, rather than of the rows looked at."""
    left_out: int = 0
    """Fragments that hold no row of the result, by the facts of their files."""

    @property
    def rows(self) -> int:
        found = sum(fragment.live_rows for fragment in self.fragments)
        return found if self.options.limit is None else min(found, self.options.limit)


def plan_read(read: PinnedRead, schema: pa.Schema, cores: int) -> ReadPlan:
    """The scan and its partitions. ``schema`` is the required result, in the dataset's types.

    Raises InvalidOption for a filter that pylance cannot parse or bind, before any task starts.
    """
    measured = measure_read(read, schema)
    return ReadPlan(measured.scan, divide_read(measured, cores))


def measure_read(read: PinnedRead, schema: pa.Schema) -> MeasuredRead:
    """The fragments and sizes that a read involves. Raises as :func:`plan_read`."""
    options = read.options
    columns = _columns(read, tuple(name for name in schema.names if name not in (ROW_ID, ROW_ADDRESS)), schema)
    width = row_width(schema)
    if columns.blobs == "all_binary":  # beyond the types' estimate: blobs that are read whole
        width += BLOB_BYTES * len(blob_names(read).intersection(columns.names))
    scan = Scan(read.location, read.pin, columns, options.filter, options.batch_size or batch_rows(width))
    fragments: Sequence[FragmentSize] = fragment_sizes(read.location, read.pin)
    exact, left_out = options.filter is None, 0
    if options.filter is not None:
        fragment_reads.check_filter(scan)
        ruled_out = excluded(read.location, read.pin, options.filter)
        left_out = len(ruled_out)
        if ruled_out:
            fragments = [each for each in fragments if each.fragment_id not in ruled_out]
        matches = fragment_reads.index_matches(scan)
        if matches is not None:
            exact = all(fragment.fragment_id in matches.covered for fragment in fragments)
            fragments = only_matching(fragments, matches)
    return MeasuredRead(scan, fragments, width, options, exact, left_out)


def divide_read(measured: MeasuredRead, cores: int) -> tuple[ScanPartition, ...]:
    return plan_scan(measured.fragments, request_of(measured, cores))


def request_of(measured: MeasuredRead, cores: int) -> ScanRequest:
    """What the division of a read depends on, beside its fragments."""
    scan, options = measured.scan, measured.options
    whole = row_width(fragment_reads.schema_of(scan.location, scan.pin))
    return ScanRequest(
        row_width=measured.row_width,
        column_share=min(1.0, measured.row_width / whole) if whole else 1.0,
        split_size=options.split_size,
        cores=cores,
        filtered=options.filter is not None,
        splittable=fragment_reads.takes_row_addresses(scan.location, scan.pin),
        limit=options.limit,
    )


def blob_names(read: PinnedRead) -> frozenset[str]:
    """Names of the columns that are blobs, or have some inside."""
    return fragment_reads.blob_columns(read.location, read.pin)


def quick_columns(read: PinnedRead) -> frozenset[str]:
    """Columns by whose values a read leaves out fragments, pages or rows before it reads them.

    They have an index, or fragments have ranges of them by the layout. Many values are in all buckets.
    """
    layout = read_layout(read.location, read.pin)
    ranges = {each.column for each in layout.partition if each.name != BUCKET}
    return fragment_reads.indexed_columns(read.location, read.pin).union(ranges, layout.cluster)


def _columns(read: PinnedRead, names: tuple[str, ...], schema: pa.Schema | None = None) -> ScanColumns:
    produced = set() if schema is None else set(schema.names)
    return ScanColumns(
        names=names,
        with_row_id=ROW_ID in produced,
        with_row_address=ROW_ADDRESS in produced,
        blobs="all_binary" if read.options.blob_handling == "bytes" else "blobs_descriptions",
    )
