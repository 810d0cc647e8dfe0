"""Columns that are filled in part: which fragments lack values, and values that stay where there are some."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.location import DatasetLocation
from lance_spark.refs.model import PinnedVersion
from lance_spark.scan.plan import ScanPartition
from lance_spark.store.datasets import open_pinned
from lance_spark.store.failures import translated
from lance_spark.store.row_queue import RowQueue
from lance_spark.store.scanning import Scan, ScanColumns, read_batches


def with_nulls(
    location: DatasetLocation, pin: PinnedVersion, fragments: Sequence[int], names: Sequence[str]
) -> frozenset[int]:
    """The fragments in which a row has a null in one of the columns."""
    dataset = open_pinned(location, pin)
    predicate = " OR ".join(f"`{name}` IS NULL" for name in names)
    with translated(location, "looking for rows without values"):
        return frozenset(number for number in fragments if dataset.get_fragment(number).count_rows(predicate))


def keeping(
    location: DatasetLocation, pin: PinnedVersion, fragment: int, batches: Iterable[pa.RecordBatch], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Computed values of a fragment, in the place of nulls only; the columns of ``batches`` are those of the schema."""
    stored = RowQueue(read_batches(Scan(location, pin, ScanColumns(tuple(schema.names))), ScanPartition((fragment,))))
    for batch in batches:
        there = stored.take(batch.num_rows)
        if there.num_rows < batch.num_rows:
            yield batch  # more values than rows, which is told where they are counted
            continue
        columns = []
        for place, field in enumerate(schema):
            known = there.column(place).combine_chunks().cast(field.type)
            columns.append(pc.if_else(known.is_null(), batch.column(place).cast(field.type), known))
        yield pa.RecordBatch.from_arrays(columns, schema.names)
