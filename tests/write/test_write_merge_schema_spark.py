"""Appends that bring columns along: one version with rows and columns, which pylance reads."""

import lance
import pyarrow as pa
import pytest
from support.frames import refused, save

from lance_spark import LanceCatalog, LanceTable, register
from lance_spark.errors import InvalidOption, SchemaMismatch

pytestmark = [pytest.mark.spark, pytest.mark.when(spark="newest")]


@pytest.fixture
def made(uri):
    for first in (0, 10):
        rows = pa.table({"id": pa.array(range(first, first + 10), pa.int32()), "x": pa.array([0.5] * 10, pa.float32())})
        lance.write_dataset(rows, uri, mode="append" if first else "create", enable_stable_row_ids=True)
    lance.dataset(uri).delete("id = 3")
    lance.dataset(uri).create_branch("exp")
    return uri


def read(uri, branch="main"):
    dataset = lance.dataset(uri if branch == "main" else f"{uri}/tree/{branch}")
    dataset.validate()
    return dataset


@pytest.mark.parametrize("branch", ["main", "exp"])
def test_new_columns_and_wider_types_come_with_the_rows(spark, made, branch):
    version = read(made, branch).version
    frame = spark.sql(
        "SELECT 'a' AS word, 5000000000 AS id, double(0.1) AS x, named_struct('a', 1, 'b', array(2)) AS s"
    )
    save(frame, made, merge_schema=True, branch=branch, commit_message="evolve")
    dataset = read(made, branch)
    assert dataset.version == version + 1
    assert dataset.schema.names == ["id", "x", "word", "s"]
    assert dataset.schema.types[:3] == [pa.int64(), pa.float64(), pa.string()]
    assert dataset.to_table(filter="id >= 19").to_pylist() == [
        {"id": 19, "x": 0.5, "word": None, "s": None},
        {"id": 5000000000, "x": 0.1, "word": "a", "s": {"a": 1, "b": [2]}},
    ]
    assert dataset.count_rows() == 20
    ids = dataset.to_table(with_row_id=True)["_rowid"].to_pylist()
    assert len(set(ids)) == 20
    save(spark.sql("SELECT 6 AS id"), made, merge_schema=True, branch=branch)  # nothing to change
    assert read(made, branch).count_rows() == 21


def test_what_would_lose_is_refused_by_its_name_and_nothing_is_changed(spark, made):
    version = read(made).version
    for query, word in (
        ("SELECT 1 AS id, 'a' AS x, 2 AS new", "Column 'x'"),
        ("SELECT 1.5D AS id, 2 AS new", "Column 'id'"),
    ):
        with refused(SchemaMismatch, word):
            save(spark.sql(query), made, merge_schema=True)
    with refused(SchemaMismatch, "'new'", "merge_schema"):
        save(spark.sql("SELECT 1 AS id, 2 AS new"), made)
    with refused(InvalidOption, "for appends"):
        save(spark.sql("SELECT 1 AS id"), made, mode="overwrite", merge_schema=True)
    assert read(made).version == version


def test_a_table_of_a_catalog(spark, tmp_path):
    lake = LanceCatalog(str(tmp_path / "lake"), spark=spark)
    lake.write_table(spark.sql("SELECT 1 AS id"), "flights")
    lake.write_table(spark.sql("SELECT 2L AS id, 'a' AS word"), "flights", mode="append", merge_schema=True)
    found = read(lake.table("flights").location.uri).to_table().to_pylist()
    assert found == [{"id": 1, "word": None}, {"id": 2, "word": "a"}]


def test_a_new_branch_and_a_new_dataset(spark, made, tmp_path):
    frame = spark.sql("SELECT 100 AS id, 'a' AS word")
    save(frame, made, merge_schema=True, branch="new", create_branch=True)
    assert read(made, "new").schema.names == ["id", "x", "word"]
    assert read(made).schema.names == ["id", "x"]
    save(frame, tmp_path / "other.lance", merge_schema=True)
    assert read(str(tmp_path / "other.lance")).schema.names == ["id", "word"]


def test_through_a_handle_and_then_merged_into_main(spark, made):
    register(spark)
    table = LanceTable.for_path(made, spark=spark)
    table.checkout(branch="exp").write(spark.sql("SELECT 100 AS id, 'a' AS word"), merge_schema=True)
    table.write(spark.sql("SELECT 200 AS id"))
    table.branches.merge("exp")
    found = read(made).to_table(filter="id >= 100").sort_by("id").to_pylist()
    assert found == [{"id": 100, "x": None, "word": "a"}, {"id": 200, "x": None, "word": None}]
    assert table.to_df().where("word = 'a'").count() == 1
