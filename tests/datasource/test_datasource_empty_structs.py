"""Structs without fields, null or not, alone and inside other types: kept by each write, and so are other columns."""

import lance
import pyarrow as pa
import pytest
from support.frames import load, refused, rows, save

from lance_spark.errors import SchemaMismatch
from lance_spark.format.schema import PLACEHOLDER
from lance_spark.spark.table import LanceTable

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("both_ways")]

EMPTY = pa.struct([])


def values(spark, first, end):
    """Rows with a struct<>, null in every second row; in a struct, an array and a map; and between other columns."""
    inner = f"SELECT id, IF(id % 2 = 0, struct(), NULL) AS e FROM range({first}, {end})"
    columns = "named_struct('x', e, 'n', id) AS s, array(e, CAST(NULL AS STRUCT<>)) AS a, map('k', e) AS m, 'z' AS z"
    return spark.sql(f"SELECT id, e, {columns} FROM ({inner})")


@pytest.mark.when(spark="newest")
def test_they_come_back(spark, tmp_path):
    uri = str(tmp_path / "t.lance")
    save(values(spark, 0, 4), uri)
    save(values(spark, 4, 6), uri)
    expected = values(spark, 0, 6)
    found = load(spark, uri)
    assert found.schema.simpleString() == expected.schema.simpleString()
    assert rows(found) == rows(expected)
    assert [row.id for row in found.where("e IS NULL").orderBy("id").collect()] == [1, 3, 5]
    assert found.where("s.x IS NOT NULL").count() == 3
    stored = lance.dataset(uri).to_table().sort_by("id")
    assert stored.schema.field("e").type == pa.struct([PLACEHOLDER])
    assert stored["e"].to_pylist() == [{PLACEHOLDER.name: None}, None] * 3


@pytest.mark.when(day=0)
def test_they_stay(spark, tmp_path):
    uri = str(tmp_path / "t.lance")
    expected = values(spark, 0, 6)
    save(expected, uri)
    table = LanceTable.for_path(uri)
    table.update({"z": "'z'"}, where="id = 2")
    table.overwrite(values(spark, 3, 5), where="id IN (3, 4)")
    table.optimize(sort_by="id")
    assert rows(load(spark, uri)) == rows(expected)


@pytest.mark.when(spark="newest")
def test_those_that_pylance_wrote_are_not_misread(spark, tmp_path):
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"m": pa.array([{}, {}], EMPTY), "v": [41, 42]}), uri)
    with refused(SchemaMismatch, "'m'", "drop_columns"):
        load(spark, uri).collect()
    assert rows(load(spark, uri, columns="v")) == [(41,), (42,)]
    LanceTable.for_path(uri).drop_columns("m")
    assert rows(load(spark, uri)) == [(41,), (42,)]
