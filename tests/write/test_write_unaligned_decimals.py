"""Decimals that arrive 8-byte aligned, as in Spark's Arrow stream, are written and read back unchanged."""

from decimal import Decimal

import lance
import pyarrow as pa
import pytest

from lance_spark.tables.write import begin, finish, plan_write
from lance_spark.write.data_files import write_rows

pytestmark = pytest.mark.pure

VALUES = [Decimal("1.25"), None, Decimal("-3.00")]
NARROW = pa.array(VALUES, pa.decimal128(12, 2))


def at_8_bytes(array):
    """The same values in memory that is 8-byte aligned but not 16-byte aligned."""
    buffers = []
    for buffer in array.buffers():
        if buffer is not None:
            room = pa.allocate_buffer(buffer.size + 8)
            memoryview(room)[8:] = memoryview(buffer)
            buffer = room.slice(8)
        buffers.append(buffer)
    return pa.Array.from_buffers(array.type, len(array), buffers)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda column: column,
        lambda column: pa.StructArray.from_arrays([column], ["inner"]),
        lambda column: pa.ListArray.from_arrays(pa.array([0, 1, 1, 3], pa.int32()), column),
        lambda column: pa.MapArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), pa.array(["a", "b", "c"]), column),
    ],
    ids=["top level", "struct", "list", "map"],
)
def test_unaligned_decimals_are_written(uri, wrap):
    batch = pa.record_batch({"d": wrap(at_8_bytes(NARROW))})
    job = begin(plan_write({"path": uri}, batch.schema, overwrite=False))
    finish(job, write_rows(job, [batch]))
    assert lance.dataset(uri).to_table()["d"].to_pylist() == wrap(NARROW).to_pylist()


def test_unaligned_wide_decimals_are_written(uri):
    wide = pa.array(VALUES, pa.decimal256(50, 2))
    batch = pa.record_batch({"d": at_8_bytes(wide)})
    job = begin(plan_write({"path": uri}, batch.schema, overwrite=False))
    finish(job, write_rows(job, [batch]))
    assert lance.dataset(uri).to_table()["d"].to_pylist() == VALUES
