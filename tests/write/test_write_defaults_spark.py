"""Defaults of columns in Spark: every way to write rows without a column gives them its default."""

import lance
import pyspark
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.types import StructField, StructType

from lance_spark.errors import LanceSparkError
from lance_spark.native.tables import NativeTable, StoredTable

pytestmark = [pytest.mark.spark, pytest.mark.on_connect, pytest.mark.when(day=0)]
FEWER = "SELECT 9L AS id"


@pytest.fixture
def table(spark, lake):
    spark.sql("CREATE TABLE lake.ns1.t (id BIGINT, state STRING DEFAULT 'it\\'s new', n INT DEFAULT -1)")
    spark.sql("INSERT INTO lake.ns1.t VALUES (1, 'old', 7)")
    return lake.table("ns1.t")


def streamed(spark, table, tmp_path):
    spark.sql(FEWER).write.parquet(str(tmp_path / "in"))
    rows = spark.readStream.schema("id bigint").parquet(str(tmp_path / "in"))
    options = {"path": table.location.uri, "checkpointLocation": str(tmp_path / "checkpoint")}
    rows.writeStream.format("lance").options(**options).trigger(availableNow=True).start().awaitTermination()


def streamed_by_name(spark, _table, tmp_path):
    spark.sql(FEWER).write.parquet(str(tmp_path / "in"))
    rows = spark.readStream.schema("id bigint").parquet(str(tmp_path / "in"))
    made = rows.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
    made.toTable("lake.ns1.t").awaitTermination()


MERGED = f"MERGE INTO lake.ns1.t t USING ({FEWER}) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT"
WAYS = {
    "insert": lambda spark, _t, _: spark.sql(f"INSERT INTO lake.ns1.t (id) {FEWER}"),
    "insert by name": lambda spark, _t, _: spark.sql(f"INSERT INTO lake.ns1.t BY NAME {FEWER}"),
    "values": lambda spark, _t, _: spark.sql("INSERT INTO lake.ns1.t VALUES (9, DEFAULT, DEFAULT)"),
    "merge": lambda spark, _t, _: spark.sql(f"{MERGED} (id) VALUES (s.id)"),
    "merge default": lambda spark, _t, _: spark.sql(f"{MERGED} (id, state) VALUES (s.id, DEFAULT)"),
    "update": lambda spark, _t, _: spark.sql("UPDATE lake.ns1.t SET id = 9, state = DEFAULT, n = DEFAULT"),
    "writeTo": lambda spark, _t, _: spark.sql(FEWER).writeTo("lake.ns1.t").append(),
    "saveAsTable": lambda spark, _t, _: spark.sql(FEWER).write.mode("append").saveAsTable("lake.ns1.t"),
    "a path": lambda spark, t, _: spark.sql(FEWER).write.format("lance").mode("append").save(t.location.uri),
    "t.write": lambda spark, t, _: t.write(spark.sql(FEWER), mode="append"),
    "t.overwrite": lambda spark, t, _: t.overwrite(spark.sql(FEWER), where="id IN (1, 9)"),
    "t.merge": lambda spark, t, _: t.merge(spark.sql(FEWER), on="id").when_not_matched_insert_all().execute(),
    "t.merge values": lambda spark, t, _: (
        t.merge(spark.sql(FEWER), on="id").when_not_matched_insert({"id": "source.id"}).execute()
    ),
    "a stream": streamed,
    "a stream by name": streamed_by_name,
}


NEWER = ("insert", "insert by name", "writeTo", "saveAsTable", "a stream by name")
"""Spark 4.0 wants all columns there."""


@pytest.mark.parametrize(
    "way", [pytest.param(way, marks=pytest.mark.when(spark="newest") if way in NEWER else ()) for way in WAYS]
)
def test_every_way_to_write_fills_in_defaults(spark, table, tmp_path, way):
    WAYS[way](spark, table, tmp_path)
    rows = lance.dataset(table.location.uri).to_table().to_pylist()
    assert {"id": 9, "state": "it's new", "n": -1} in rows
    assert len(rows) == (1 if way in ("update", "t.overwrite") else 2)


def test_defaults_are_declared_shown_changed_and_dropped(spark, lake):
    spark.sql("CREATE TABLE lake.ns1.t (id BIGINT)")
    spark.sql("INSERT INTO lake.ns1.t VALUES (1), (2)")
    spark.sql(
        "ALTER TABLE lake.ns1.t ADD COLUMN (c INT DEFAULT 5, at TIMESTAMP DEFAULT current_timestamp(), plain INT)"
    )
    uri = lake.table("ns1.t").location.uri
    now = lance.dataset(uri).to_table().to_pydict()
    assert (now["c"], now["plain"], len({*now["at"]})) == ([5, 5], [None, None], 1)
    assert "DEFAULT 5" in spark.sql("SHOW CREATE TABLE lake.ns1.t").first()[0]
    spark.sql("ALTER TABLE lake.ns1.t ALTER COLUMN c SET DEFAULT 6")
    spark.sql("INSERT INTO lake.ns1.t VALUES (3, DEFAULT, DEFAULT, DEFAULT)")
    spark.sql("ALTER TABLE lake.ns1.t ALTER COLUMN c DROP DEFAULT")
    spark.sql("INSERT INTO lake.ns1.t VALUES (4, DEFAULT, DEFAULT, DEFAULT)")
    after = lance.dataset(uri).to_table().sort_by("id").to_pydict()
    assert after["c"] == [5, 5, 6, None]
    assert None not in after["at"]
    assert after["at"][3] > after["at"][0]
    spark.sql("CREATE TABLE lake.ns1.copied AS SELECT * FROM lake.ns1.t")
    assert "DEFAULT" not in spark.sql("SHOW CREATE TABLE lake.ns1.copied").first()[0]


@pytest.mark.parametrize(
    "column", ["c INT DEFAULT 1 + 2", "c ARRAY<INT> DEFAULT array(1)", "c DATE DEFAULT current_date()"]
)
def test_defaults_that_only_spark_can_evaluate_are_refused(spark, lake, column):
    with pytest.raises((PySparkException, LanceSparkError), match="cannot have the default"):
        spark.sql(f"CREATE TABLE lake.ns1.t (id BIGINT, {column})")
    assert not spark.catalog.tableExists("lake.ns1.t")
    spark.sql("CREATE TABLE lake.ns1.t (id BIGINT)")
    with pytest.raises((PySparkException, LanceSparkError), match="cannot have the default"):
        spark.sql(f"ALTER TABLE lake.ns1.t ADD COLUMN {column}")


@pytest.mark.parametrize("made", ["CREATE", "REPLACE", "CREATE OR REPLACE"])
@pytest.mark.parametrize(
    ("column", "why", "instead"),
    [
        ("day DATE GENERATED ALWAYS AS (CAST(ts AS DATE))", "writes without Spark", "PARTITIONED BY"),
        ("n BIGINT GENERATED ALWAYS AS IDENTITY", "two branches", "uuid"),
        ("n BIGINT GENERATED BY DEFAULT AS IDENTITY (START WITH 5)", "two branches", "_rowid"),
    ],
)
def test_generated_and_identity_columns_are_refused_with_what_to_do(spark, lake, made, column, why, instead):
    if made.startswith("REPLACE"):
        spark.sql("CREATE TABLE lake.ns1.t (id BIGINT)")
    with pytest.raises((PySparkException, LanceSparkError), match=f"Cannot create column.*{why}") as refused:
        spark.sql(f"{made} TABLE lake.ns1.t (id BIGINT, ts TIMESTAMP, {column})")
    assert instead in str(refused.value)
    if made.startswith("REPLACE"):
        assert spark.table("lake.ns1.t").columns == ["id"]
    else:
        assert not spark.catalog.tableExists("lake.ns1.t")


def subclasses(kind):
    return [kind, *(each for sub in kind.__subclasses__() for each in subclasses(sub))]


@pytest.mark.on_connect(False)  # whose statements another process plans, in which nothing can be replaced
@pytest.mark.skipif(pyspark.__version__ < "4.3", reason="older Sparks compute no generated columns in writes by name")
@pytest.mark.when(spark="newest")
def test_why_generated_columns_are_refused_spark_itself_computes_them_only_in_inserts(
    spark, lake, monkeypatch, tmp_path
):
    """A Spark that passes these statements on no longer gives a reason to refuse the columns."""
    spark.sql("CREATE TABLE lake.ns1.t (id BIGINT, d BIGINT)")
    plain = NativeTable._columns

    def generated(table):
        fields = {field.name: field for field in plain(table)}
        fields["d"] = StructField("d", fields["d"].dataType, True, {"GENERATION_EXPRESSION": "id + 1"})
        return StructType([*fields.values()])

    monkeypatch.setattr(NativeTable, "_columns", generated)
    for kind in subclasses(StoredTable):
        monkeypatch.setattr(kind, "supported", (*kind.supported, "GENERATE_COLUMN_VALUES_ON_WRITE"))
    spark.sql("INSERT INTO lake.ns1.t (id) VALUES (1)")
    spark.sql("SELECT 2L AS id").writeTo("lake.ns1.t").append()
    with pytest.raises(PySparkException, match="Generated Column d <=> id"):
        spark.sql("INSERT INTO lake.ns1.t VALUES (3, 5)")
    merge = MERGED.replace("INSERT", "INSERT (id) VALUES (s.id)")
    for statement, name in (("UPDATE lake.ns1.t SET id = 9 WHERE id = 1", "UPDATE"), (merge, "MERGE")):
        with pytest.raises(PySparkException, match=f"{name} with generated columns"):
            spark.sql(statement)
    with pytest.raises(PySparkException, match="streaming write with generated columns"):
        streamed_by_name(spark, lake, tmp_path)
    assert sorted(map(tuple, spark.table("lake.ns1.t").collect())) == [(1, 2), (2, 3)]
