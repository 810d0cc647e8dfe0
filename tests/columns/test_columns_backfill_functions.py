"""What a function over batches may return."""

import numpy as np
import pyarrow as pa
import pytest

from lance_spark.columns.column_files import callable_of, returned_columns
from lance_spark.errors import SchemaMismatch

Y = pa.schema([("y", pa.int32())])
V = pa.schema([("v", pa.list_(pa.float32(), 2))])
L = pa.schema([("v", pa.list_(pa.float32()))])


@pytest.mark.parametrize(
    ("returned", "schema", "values"),
    [
        ({"y": [1, None]}, Y, [1, None]),
        ({"y": np.array([1, 2])}, Y, [1, 2]),
        ({"y": pa.array([1, 2])}, Y, [1, 2]),
        ({"y": pa.chunked_array([[1], [2]])}, Y, [1, 2]),
        (pa.table({"y": [1, 2]}), Y, [1, 2]),
        (pa.record_batch({"y": [1, 2]}), Y, [1, 2]),
        ({"v": np.ones((2, 2))}, V, [[1, 1], [1, 1]]),
        ({"v": [[1, 1], None]}, V, [[1, 1], None]),
        ({"v": np.ones((2, 3))}, L, [[1, 1, 1], [1, 1, 1]]),
    ],
)
def test_returned(returned, schema, values):
    assert [column.to_pylist() for column in returned_columns(returned, schema)] == [values]


def test_a_class_is_made_once_and_a_function_is_itself():
    class Model:
        def __call__(self, batch):
            return batch

    assert callable_of(Model) is callable_of(Model)
    assert isinstance(callable_of(Model), Model)
    assert callable_of(len) is len


@pytest.mark.parametrize(
    ("returned", "schema", "words"),
    [
        ([1, 2], Y, "returned list"),
        (None, Y, "returned NoneType"),
        ({"z": [1]}, Y, "columns 'z', but the schema has 'y'"),
        ({"y": [1], "z": [1]}, Y, "columns 'y', 'z'"),
        ({"y": ["a"]}, Y, "not int32"),
        ({"v": np.ones((2, 3))}, V, "3 elements for 'v', which has 2"),
    ],
)
def test_not_returned(returned, schema, words):
    with pytest.raises(SchemaMismatch, match=words):
        returned_columns(returned, schema)
