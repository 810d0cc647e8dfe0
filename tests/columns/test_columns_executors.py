"""Columns in wider types and deletions on Spark's executors: what they write, pylance reads."""

import lance
import pyarrow as pa
import pytest

from lance_spark.columns.columns import alter_columns
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import RefSpec
from lance_spark.engine.session_spark import engine_of
from lance_spark.format.evolution import AlterColumn, RenameColumn
from lance_spark.refs.refs import create_branch
from lance_spark.rows.rows import delete_where

pytestmark = [pytest.mark.spark, pytest.mark.when(spark="newest")]


@pytest.mark.parametrize("branch", [None, "exp"])
def test_on_executors(spark, uri, branch):
    for first in (0, 10, 20):
        table = pa.table({"id": pa.array(range(first, first + 10), pa.int32()), "x": pa.nulls(10, pa.float32())})
        lance.write_dataset(table, uri, mode="append" if first else "create")
    location, engine = DatasetLocation.at(uri), engine_of(spark, "spark")
    create_branch(location, "exp", RefSpec())
    assert delete_where(location, branch, "id % 7 = 0", engine).rows == 5
    changes = (
        AlterColumn(("id",), type=pa.int64()),
        AlterColumn(("x",), type=pa.float64()),
        RenameColumn(("id",), "key"),
    )
    alter_columns(location, branch, changes, engine)
    dataset = lance.dataset(location.branch_uri(branch))
    dataset.validate()
    assert dataset.schema == pa.schema([("key", pa.int64()), ("x", pa.float64())])
    assert dataset.to_table()["key"].to_pylist() == [number for number in range(30) if number % 7]
