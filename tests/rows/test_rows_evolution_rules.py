"""Which columns a merge with schema evolution adds: a table of data."""

import pyarrow as pa
import pytest

from lance_spark.errors import Refused
from lance_spark.rows.evolution_rules import added_columns

pytestmark = pytest.mark.pure

INNER = pa.struct([("x", pa.int32()), ("deep", pa.struct([("p", pa.string())]))])
TABLE = pa.schema([("id", pa.int64()), ("s", INNER), ("list", pa.list_(pa.struct([("x", pa.int32())])))])


def struct(*fields):
    return pa.struct([*INNER, *fields])


@pytest.mark.parametrize(
    ("source", "paths"),
    [
        ([("id", pa.int64())], []),
        ([("ID", pa.int64()), ("S", INNER)], []),
        ([("id", pa.int32())], []),
        ([("n", pa.int32()), ("id", pa.int64()), ("m", pa.string())], [("n",), ("m",)]),
        ([("nothing", pa.null())], []),
        ([("s", struct(("y", pa.string())))], [("s", "y")]),
        ([("S", pa.struct([("deep", pa.struct([("q", pa.int8())]))]))], [("s", "deep", "q")]),
        ([("s", pa.struct([("x", pa.int32())]))], []),
        ([("t", struct(("y", pa.string())))], [("t",)]),
        ([("list", pa.list_(pa.struct([("x", pa.int32())])))], []),
    ],
)
def test_columns_and_fields_that_only_the_source_has(source, paths):
    source = pa.schema(source)
    added = added_columns(TABLE, source)
    assert [change.path for change in added] == paths
    assert all(change.nullable for change in added)
    for change in added:
        if len(change.path) == 1:
            assert change.type == source.field(change.path[0]).type


@pytest.mark.parametrize(
    "kind",
    [pa.list_(pa.struct([("x", pa.int32()), ("y", pa.int32())])), pa.list_(pa.struct([("y", pa.int32())]))],
)
def test_fields_inside_of_lists_are_refused(kind):
    with pytest.raises(Refused, match="field 'y' inside of column 'list'"):
        added_columns(TABLE, [pa.field("list", kind)])
