"""Rows to Arrow batches, a few thousand at a time: a table of files may have millions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa

_ROWS = 8_192
TEXTS = pa.map_(pa.string(), pa.string())
MOMENT = pa.timestamp("us", "UTC")


def in_batches(rows: Iterable[Sequence[Any]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows, whose values stand in the order of the schema; no rows, no batch."""
    left = iter(rows)
    while block := list(islice(left, _ROWS)):
        columns = zip(*block, strict=True)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
        yield pa.record_batch(arrays, schema)


def pairs(values: Mapping[str, str]) -> list[tuple[str, str]]:
    """A mapping as the value of a column of :data:`TEXTS`, by key."""
    return sorted(values.items())
