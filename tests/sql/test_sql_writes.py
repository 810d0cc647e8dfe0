"""INSERT, DELETE, TRUNCATE, CREATE and REPLACE TABLE AS, DataFrames written to names; pylance reads what is there."""

import os
import threading

import lance
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql.functions import col, lit
from support.connect_clients import another_session
from support.frames import failing, numbers
from support.service_lakes import of, place

from lance_spark import errors, unregister

pytestmark = [
    pytest.mark.on_services,
    pytest.mark.spark,
    pytest.mark.on_connect,
    pytest.mark.when(newest=0.7, oldest=0.08),
]


def ids(lake, name="ns1.flights", branch=None):
    """Sorted ids, as pylance reads them at the place that the catalog tells."""
    found = lance.dataset(lake.describe_table(name).location.uri)
    if branch is not None:
        found = found.checkout_version((branch, None))
    return sorted(found.to_table()["id"].to_pylist())


def test_rows_are_inserted_overwritten_and_deleted(spark, lake, lake_flights):
    spark.sql("INSERT INTO lake.ns1.flights VALUES (100), (101)")
    spark.sql("INSERT INTO lake.ns1.`flights@exp/delays` SELECT id + 50 FROM lake.ns1.flights VERSION AS OF 1")
    assert ids(lake) == [*range(10), 100, 101]
    assert ids(lake, branch="exp/delays") == [*range(11), *range(50, 55)]
    spark.sql("DELETE FROM lake.ns1.flights WHERE id >= 100 OR id IN (1, 2)")
    spark.sql("DELETE FROM lake.ns1.`flights@exp/delays` WHERE id > 2 AND NOT id = 4")
    assert ids(lake) == [0, *range(3, 10)]
    assert ids(lake, branch="exp/delays") == [0, 1, 2, 4]
    spark.sql("INSERT OVERWRITE lake.ns1.flights SELECT id FROM lake.ns1.flights WHERE id % 2 = 1")
    assert ids(lake) == [3, 5, 7, 9]
    spark.sql("TRUNCATE TABLE lake.ns1.`flights@exp/delays`")
    spark.sql("DELETE FROM lake.ns1.flights")
    assert (ids(lake), ids(lake, branch="exp/delays")) == ([], [])
    for text in ("INSERT INTO lake.ns1.`flights@v2013` VALUES (1)", "TRUNCATE TABLE lake.ns1.`flights@v2013`"):
        with pytest.raises(errors.Refused, match="a tag never changes"):
            spark.sql(text)
    assert ids(lake) == []


def test_an_overwrite_keeps_the_columns_as_they_are(spark, lake):
    uri, where = place(lake, "t")
    vector = pa.list_(pa.float32(), 2)
    schema = pa.schema(
        [
            pa.field("id", pa.uint8(), False, {"comment": "the key"}),
            pa.field("v", vector),
            pa.field("s", pa.large_string()),
        ]
    )
    lance.write_dataset(pa.table([[1], [[1.0, 2.0]], ["a"]], schema=schema), uri)
    lake.register_table("ns1.t", where)
    spark.sql("INSERT OVERWRITE lake.ns1.t VALUES (2, array(1f, 3f), 'b')")
    spark.sql("INSERT INTO lake.ns1.t VALUES (3, NULL, 'c')")
    found = lance.dataset(uri)
    assert found.schema.equals(schema, check_metadata=True)
    assert found.to_table()["v"].to_pylist() == [[1.0, 3.0], None]


def test_a_table_is_created_and_replaced_with_its_rows(spark, lake):
    spark.sql("CREATE TABLE lake.ns1.t TBLPROPERTIES (team = 'ops') AS SELECT id, 'x' AS s FROM range(3)")
    assert ids(lake, "ns1.t") == [0, 1, 2]
    assert lake.describe_table("ns1.t").properties == {"team": "ops"}
    with pytest.raises(AnalysisException) as caught:
        spark.sql("CREATE TABLE lake.ns1.t AS SELECT 1 AS id")
    assert caught.value.getCondition() == "TABLE_OR_VIEW_ALREADY_EXISTS"
    lake.table("ns1.t").tags.create("before")
    spark.sql("REPLACE TABLE lake.ns1.t AS SELECT id + 10 AS id FROM lake.ns1.t")
    assert ids(lake, "ns1.t") == [10, 11, 12]
    assert lake.describe_table("ns1.t").properties == ({} if of(lake).impl == "dir" else {"team": "ops"})
    assert spark.table("lake.ns1.`t@before`").columns == ["id", "s"]
    spark.sql("CREATE OR REPLACE TABLE lake.ns1.t (a INT)")
    assert spark.table("lake.ns1.t").columns == ["a"]
    spark.sql("CREATE OR REPLACE TABLE lake.ns1.u (a INT)")
    assert lake.list_tables("ns1") == ["ns1.t", "ns1.u"]
    with pytest.raises(AnalysisException) as caught:
        spark.sql("REPLACE TABLE lake.ns1.v AS SELECT 1 AS id")
    assert caught.value.getCondition() == "TABLE_OR_VIEW_NOT_FOUND"


@pytest.mark.on_services("rest")  # Glue drops no tables
def test_a_table_that_is_only_declared(spark, lake):
    for name in ("d", "e", "f"):
        lake.declare_table(f"ns1.{name}")
    assert [table.name for table in spark.catalog.listTables("lake.ns1")] == ["d", "e", "f"]
    with pytest.raises(errors.NotFound, match="no data yet"):
        spark.sql("SELECT * FROM lake.ns1.d").collect()
    spark.sql("INSERT INTO lake.ns1.d SELECT 1L AS id")
    spark.sql("CREATE OR REPLACE TABLE lake.ns1.e AS SELECT 2L AS id")
    spark.sql("DROP TABLE lake.ns1.f")
    assert [ids(lake, name) for name in lake.list_tables("ns1")] == [[1], [2]]


@pytest.mark.on_services("rest")  # Glue drops no tables
def test_what_fails_leaves_nothing(spark, lake, lake_flights, tmp_path):
    failing(spark, tmp_path / "marker").createOrReplaceTempView("failing")
    before = (ids(lake), lance.dataset(lake_flights.location.uri).version, os.listdir(of(lake).directory))
    for text in (
        "CREATE TABLE lake.ns1.t AS SELECT * FROM failing",
        "REPLACE TABLE lake.ns1.flights AS SELECT * FROM failing",
        "INSERT INTO lake.ns1.flights SELECT * FROM failing",
    ):
        with pytest.raises(PySparkException, match="own fault"):
            spark.sql(text)
    assert (ids(lake), lance.dataset(lake_flights.location.uri).version, os.listdir(of(lake).directory)) == before
    assert lake.list_tables("ns1") == ["ns1.flights"]
    spark.sql("CREATE TABLE lake.ns1.t AS SELECT 1L AS id")
    assert ids(lake, "ns1.t") == [1]


def test_of_several_that_create_a_table_one_wins(spark, lake):
    sessions = [spark, spark, another_session(spark)]
    of(lake).register(sessions[2], "lake")
    outcomes = {}

    def create(number):
        try:
            sessions[number].sql(f"CREATE TABLE lake.ns1.t AS SELECT {number}L AS id")
            outcomes[number] = "created"
        except AnalysisException as error:
            outcomes[number] = error.getCondition()

    threads = [threading.Thread(target=create, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    unregister(sessions[2])
    assert sorted(outcomes.values()) == ["TABLE_OR_VIEW_ALREADY_EXISTS"] * 2 + ["created"]
    assert [outcomes[number] for number in ids(lake, "ns1.t")] == ["created"]


def test_frames_are_written_to_names(spark, lake):
    numbers(spark, 0, 3).writeTo("lake.ns1.t").tableProperty("team", "ops").create()
    numbers(spark, 3, 5).writeTo("lake.ns1.t").option("commit_message", "more").append()
    assert ids(lake, "ns1.t") == [0, 1, 2, 3, 4]
    numbers(spark, 7, 9).writeTo("lake.ns1.t").overwrite(lit(True))
    assert ids(lake, "ns1.t") == [7, 8]
    numbers(spark, 1, 2).writeTo("lake.ns1.t").overwrite(col("id") == 7)
    assert ids(lake, "ns1.t") == [1, 8]
    numbers(spark, 0, 2).writeTo("lake.ns1.t").createOrReplace()
    assert ids(lake, "ns1.t") == [0, 1]
    with pytest.raises(errors.LanceSparkError, match="hint: "):
        numbers(spark, 0, 2).writeTo("lake.ns1.t").option("branch", "exp").append()
    with pytest.raises(PySparkException, match=r"`(key|id)`"):
        numbers(spark, 0, 2).withColumnRenamed("id", "key").writeTo("lake.ns1.t").append()
    assert ids(lake, "ns1.t") == [0, 1]


@pytest.mark.parametrize("where", ["table", "branch", "path"])
def test_frames_are_saved_as_tables(spark, lake, lake_flights, where):
    name = {
        "table": "lake.ns1.t",
        "branch": "lake.ns1.`flights@exp/delays`",
        "path": f"lance.`{place(lake, 'elsewhere')[0]}`",
    }[where]
    save = lambda mode, *frame: numbers(spark, *frame).write.mode(mode).saveAsTable(name)  # noqa: E731
    read = lambda: sorted(row.id for row in spark.table(name).collect())  # noqa: E731
    if where != "branch":
        save("error", 0, 2)
        assert read() == [0, 1]
    with pytest.raises(AnalysisException) as caught:
        save("error", 0, 2)
    assert caught.value.getCondition() == "TABLE_OR_VIEW_ALREADY_EXISTS"
    save("ignore", 5, 9)
    save("overwrite", 5, 6)
    assert read() == [5]
    save("append", 7, 8)
    assert read() == [5, 7]
    assert ids(lake) == [*range(10)]
