"""CREATE, ALTER, SHOW, DESCRIBE, RENAME and DROP of namespaces and tables; pylance reads what is there."""

import lance
import pytest
from pyspark.errors import AnalysisException
from support.service_lakes import place

from lance_spark import errors

pytestmark = [pytest.mark.on_services, pytest.mark.spark, pytest.mark.on_connect, pytest.mark.when(oldest=0.3)]


def ask(spark, text):
    return [tuple(row) for row in spark.sql(text).collect()]


def refused(spark, text, condition):
    with pytest.raises(AnalysisException) as caught:
        spark.sql(text)
    assert caught.value.getCondition() == condition, caught.value


def dataset(lake, name):
    return lance.dataset(lake.describe_table(name).location.uri)


@pytest.mark.on_services(False)
def test_namespaces(spark, lake):
    spark.sql("CREATE NAMESPACE lake.air COMMENT 'flights' WITH DBPROPERTIES (team = 'ops')")
    spark.sql("CREATE NAMESPACE lake.air.raw")
    assert lake.describe_namespace("air").properties == {"comment": "flights", "team": "ops"}
    refused(spark, "CREATE NAMESPACE lake.air", "SCHEMA_ALREADY_EXISTS")
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.air")
    assert ask(spark, "SHOW NAMESPACES IN lake") == [("air",), ("ns1",)]
    assert ask(spark, "SHOW NAMESPACES IN lake.air") == [("air.raw",)]
    spark.sql("ALTER NAMESPACE lake.air SET PROPERTIES (team = 'ml')")
    assert ("Comment", "flights") in ask(spark, "DESCRIBE NAMESPACE EXTENDED lake.air")
    assert lake.describe_namespace("air").properties == {"comment": "flights", "team": "ml"}
    spark.sql("USE lake.air.raw")
    spark.sql("CREATE TABLE t (id BIGINT)")
    assert ask(spark, "SHOW TABLES") == [("air.raw", "t", False)]
    assert lake.list_tables("air.raw") == ["air.raw.t"]
    refused(spark, "USE lake.nowhere", "SCHEMA_NOT_FOUND")
    refused(spark, "DROP NAMESPACE lake.air", "SCHEMA_NOT_EMPTY")
    refused(spark, "DROP NAMESPACE lake.nowhere", "SCHEMA_NOT_FOUND")
    spark.sql("DROP NAMESPACE lake.air CASCADE")
    assert lake.list_namespaces() == ["ns1"]


@pytest.mark.on_services("rest")  # Glue drops no tables
def test_a_table_is_created_described_and_dropped(spark, lake):
    spark.sql(
        "CREATE TABLE lake.ns1.t (id BIGINT NOT NULL COMMENT 'the key', place STRUCT<x: INT, y: STRING>) USING lance "
        "OPTIONS (data_storage_version '2.0', enable_stable_row_ids true) COMMENT 'places' TBLPROPERTIES (team = 'ops')"
    )
    made = dataset(lake, "ns1.t")
    assert (made.data_storage_version, made.has_stable_row_ids, made.count_rows()) == ("2.0", True, 0)
    assert [(field.name, field.nullable) for field in made.schema] == [("id", False), ("place", True)]
    assert made.schema.field("id").metadata[b"comment"] == b"the key"
    assert lake.describe_table("ns1.t").properties == {"comment": "places", "team": "ops"}
    described = ask(spark, "DESCRIBE TABLE EXTENDED lake.ns1.t")
    assert ("id", "bigint", "the key") in described
    assert {("Comment", "places", ""), ("Provider", "lance", "")} <= set(described)
    assert ask(spark, "SHOW TBLPROPERTIES lake.ns1.t") == [("team", "ops")]
    shown = ask(spark, "SHOW CREATE TABLE lake.ns1.t")[0][0]
    refused(spark, "CREATE TABLE lake.ns1.t (id INT)", "TABLE_OR_VIEW_ALREADY_EXISTS")
    spark.sql("CREATE TABLE IF NOT EXISTS lake.ns1.t (id INT)")
    spark.sql("DROP TABLE lake.ns1.t")
    assert lake.list_tables("ns1") == []
    refused(spark, "DROP TABLE lake.ns1.t", "TABLE_OR_VIEW_NOT_FOUND")
    spark.sql("DROP TABLE IF EXISTS lake.ns1.t")
    spark.sql(shown)
    assert dataset(lake, "ns1.t").schema.names == ["id", "place"]
    assert lake.describe_table("ns1.t").properties == {"comment": "places", "team": "ops"}
    if spark.version >= "4.2":
        spark.sql("CREATE TABLE lake.ns1.u LIKE lake.ns1.t")
        assert dataset(lake, "ns1.u").schema.field("id").metadata[b"comment"] == b"the key"
        spark.sql("DROP TABLE lake.ns1.u")
    spark.sql("DROP TABLE lake.ns1.t PURGE")
    refused(spark, "CREATE TABLE lake.nowhere.t (id INT)", "SCHEMA_NOT_FOUND")
    for text, hint in (
        ("lake.ns1.t (id INT) PARTITIONED BY (days(id))", "cannot be partitioned by days"),
        ("lake.ns1.t (id INT) LOCATION '/somewhere'", "catalog of paths"),
        ("lake.ns1.t (id INT) USING csv", "USING"),
        ("lake.ns1.t (id INT) OPTIONS (branch 'exp')", "create_branch"),
        ("lake.ns1.`t$u` (id INT)", "t\\$u"),
        ("lake.ns1.t (a INT, `b.c` INT)", "b.c"),
    ):
        with pytest.raises(errors.LanceSparkError, match=hint):
            spark.sql(f"CREATE TABLE {text}")
    assert lake.list_tables("ns1") == []


@pytest.mark.on_services(False)
def test_properties_of_a_table_are_altered(spark, lake, lake_flights):
    spark.sql("ALTER TABLE lake.ns1.flights SET TBLPROPERTIES (team = 'ops', size = 'small')")
    spark.sql("ALTER TABLE lake.ns1.flights UNSET TBLPROPERTIES (size)")
    assert lake.describe_table("ns1.flights").properties == {"team": "ops"}


def test_columns_of_a_branch_are_altered(spark, lake, lake_flights):
    branch = "lake.ns1.`flights@exp/delays`"
    spark.sql(f"ALTER TABLE {branch} ADD COLUMNS (carrier STRING COMMENT 'two letters', delay INT)")
    spark.sql(f"ALTER TABLE {branch} RENAME COLUMN delay TO late")
    spark.sql(f"ALTER TABLE {branch} ALTER COLUMN late TYPE BIGINT")
    spark.sql(f"ALTER TABLE {branch} ALTER COLUMN late COMMENT 'minutes'")
    spark.sql(f"ALTER TABLE {branch} DROP COLUMN carrier")
    there = lance.dataset(lake_flights.location.uri).checkout_version(("exp/delays", None))
    assert [(field.name, str(field.type)) for field in there.schema] == [("id", "int64"), ("late", "int64")]
    assert spark.table("lake.ns1.flights").columns == ["id"]
    assert ask(spark, f"SELECT late, count(*) FROM {branch} GROUP BY 1") == [(None, 11)]
    refused(spark, "ALTER TABLE lake.ns1.flights DROP COLUMN nothing", "UNRESOLVED_COLUMN.WITH_SUGGESTION")
    for text, hint in (
        ("lake.ns1.`flights@v2013` ADD COLUMN x INT", "a tag never changes"),
        ("lake.ns1.flights ADD COLUMN x INT FIRST", "Leave FIRST or AFTER out"),
    ):
        with pytest.raises(errors.Refused, match=hint):
            spark.sql(f"ALTER TABLE {text}")
    assert spark.table("lake.ns1.flights").columns == ["id"]


def test_a_table_at_a_path(spark, lake):
    path, _ = place(lake, "elsewhere.lance")
    spark.sql(f"CREATE TABLE lance.`{path}` (id BIGINT) TBLPROPERTIES (team = 'ops')")
    spark.sql(f"ALTER TABLE lance.`{path}` SET TBLPROPERTIES (size = 'small')")
    assert ask(spark, f"SHOW TBLPROPERTIES lance.`{path}`") == [("size", "small"), ("team", "ops")]
    spark.sql(f"ALTER TABLE lance.`{path}` ADD COLUMN s STRING")
    spark.sql(f"CREATE OR REPLACE TABLE lance.`{path}` AS SELECT 5L AS id")
    assert lance.dataset(path).to_table().to_pydict() == {"id": [5]}
    with pytest.raises(errors.NotFound, match="new"):
        spark.sql(f"CREATE TABLE lance.`{path}@new` AS SELECT 1L AS id")
    refused(spark, f"CREATE TABLE lance.`{path}` (id INT)", "TABLE_OR_VIEW_ALREADY_EXISTS")


@pytest.mark.on_services(False)
def test_a_table_gets_another_name_and_refs_are_no_tables_to_drop(spark, lake, lake_flights):
    spark.sql("CREATE NAMESPACE lake.air")
    spark.sql("ALTER TABLE lake.ns1.flights RENAME TO trips")
    assert lake.list_tables("ns1") == ["ns1.trips"]
    spark.sql("ALTER TABLE lake.ns1.trips RENAME TO air.trips")
    spark.sql("ALTER TABLE lake.air.trips RENAME TO lake.ns1.flights")
    assert ask(spark, "SELECT count(*) FROM lake.ns1.`flights@exp/delays`") == [(11,)]
    spark.sql("CREATE TABLE lake.ns1.other (id INT)")
    refused(spark, "ALTER TABLE lake.ns1.other RENAME TO flights", "TABLE_OR_VIEW_ALREADY_EXISTS")
    for text in ("DROP TABLE lake.ns1.`flights@exp/delays`", "DROP TABLE lake.ns1.flights.tags"):
        with pytest.raises(errors.Refused, match=r"ns1\.flights"):
            spark.sql(text)
    with pytest.raises(errors.Refused, match="no catalog has it"):
        spark.sql(f"DROP TABLE lance.`{lake_flights.location.uri}`")
    with pytest.raises(errors.NotFound, match="exp/delays"):
        spark.sql("CREATE TABLE lake.ns1.`flights@exp/delay` (id INT)")
    assert lake.list_tables("ns1") == ["ns1.flights", "ns1.other"]
