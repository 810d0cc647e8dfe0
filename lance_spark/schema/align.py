"""Memory alignment that pylance relies on and Spark's Arrow stream does not give."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt

_ALIGNMENT = 16
"""Bytes a decimal's values must be aligned to in Rust; Arrow's IPC streams, as Spark writes them, align to 8."""


def align(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with its decimals where pylance can use them; without a copy when they are there already.

    An unaligned decimal makes pylance panic, and whether one is unaligned depends on the columns before it.
    """
    columns = [_aligned(column) if _holds_decimal(column.type) else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _aligned(column: pa.Array) -> pa.Array:
    if all(buffer is None or buffer.address % _ALIGNMENT == 0 for buffer in column.buffers()):
        return column
    return column.copy_to(pa.default_cpu_memory_manager())


def _holds_decimal(kind: pa.DataType) -> bool:
    return bool(pt.is_decimal(kind)) or any(_holds_decimal(kind.field(i).type) for i in range(kind.num_fields))
