"""Tables that Spark's own catalog cannot keep, and other formats in ours: refused before anything is made."""

import pytest
from pyspark.errors import AnalysisException

from lance_spark import errors, unregister

pytestmark = [pytest.mark.spark, pytest.mark.on_connect, pytest.mark.when(spark="newest", sample=0.1)]
REFUSED = "Spark's own catalog cannot keep Lance tables"


@pytest.mark.parametrize(
    ("statement", "hint"),
    [
        ("CREATE TABLE own (a INT) USING lance", "Type CREATE TABLE lake.own (...)."),
        ("/* new */ create table if not exists default.own (a INT) USING `LANCE`", "Type CREATE TABLE lake.own (...)."),
        ("CREATE TABLE spark_catalog.default.own USING lance AS SELECT 1 AS a", "lake.own AS SELECT ...."),
        ("CREATE OR REPLACE TABLE own USING lance AS SELECT 1 AS a", "lake.own AS SELECT ...."),
        (
            "CREATE TABLE own USING lance LOCATION '/data/t.lance'",
            "CREATE TABLE, SELECT and INSERT: lance.`/data/t.lance`.",
        ),
        (
            "CREATE TABLE own (a INT) USING lance OPTIONS (path '/t', branch 'exp')",
            "lance.`/t@exp`. For a name of its own",
        ),
    ],
)
def test_a_lance_table_in_sparks_own_catalog_is_refused_and_not_made(spark, lake, statement, hint):
    with pytest.raises(errors.Refused, match=REFUSED) as caught:
        spark.sql(statement)
    assert hint in caught.value.hint
    assert isinstance(caught.value, AnalysisException)
    assert not spark.catalog.tableExists("spark_catalog.default.own")


def test_the_hint_works(spark, lake, tmp_path):
    path = tmp_path / "t.lance"
    spark.sql(f"CREATE TABLE lance.`{path}` (a INT)")
    spark.sql(f"INSERT INTO lance.`{path}` VALUES (1)")
    spark.range(3).write.saveAsTable("lake.own")
    assert spark.sql(f"SELECT a FROM lance.`{path}`").first()[0] == 1
    assert spark.table("lake.own").count() == 3


@pytest.mark.on_connect(day=True)
def test_save_as_table_into_sparks_own_catalog_is_refused(spark, lake, tmp_path):
    rows = spark.range(3)
    for write in (
        lambda: rows.write.format("lance").saveAsTable("own"),
        lambda: rows.write.saveAsTable("default.own", format="lance"),
        lambda: rows.write.format("lance").mode("append").option("path", f"{tmp_path}/t").saveAsTable("own"),
    ):
        with pytest.raises(errors.Refused, match=REFUSED) as caught:
            write()
        assert caught.value.hint == "Type df.write.saveAsTable('lake.own')."
    assert not spark.catalog.tableExists("spark_catalog.default.own")
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE {} (a INT) USING parquet",
        "CREATE TABLE {} USING Parquet AS SELECT 1 AS a",
        "CREATE OR REPLACE TABLE {} (a INT) USING parquet",
        "CREATE TABLE {} (a INT) USING delta",
    ],
)
@pytest.mark.parametrize("name", ["lake.ns1.own", "own"])
def test_another_format_in_a_catalog_of_ours_is_refused(spark, lake, statement, name):
    spark.sql("USE lake.ns1")
    with pytest.raises(errors.Refused, match="Tables of this catalog are of format 'lance', not '") as caught:
        spark.sql(statement.format(name))
    assert caught.value.hint == "Leave out USING."
    assert lake.list_tables("ns1") == []


def test_what_is_not_ours_is_as_it_was(spark, lake):
    try:
        spark.sql("CREATE TABLE own (a INT) USING parquet")
        spark.range(1).write.format("parquet").mode("overwrite").saveAsTable("own")
        assert spark.table("own").count() == 1
        spark.sql("CREATE TABLE lake.ns1.a (a INT) USING lance")
        spark.sql("CREATE TABLE lake.ns1.b AS SELECT 1 AS a")
        spark.range(1).write.format("lance").saveAsTable("lake.ns1.c")
        assert lake.list_tables("ns1") == ["ns1.a", "ns1.b", "ns1.c"]
        with pytest.raises(AnalysisException, match="PARSE_SYNTAX_ERROR"):
            spark.sql("CREATE TABLE own own USING lance")
    finally:
        spark.sql("DROP TABLE IF EXISTS spark_catalog.default.own")


def test_afterwards_spark_is_as_it_was(spark, lake):
    writer = type(spark.range(1).write)
    assert hasattr(writer.saveAsTable, "__wrapped__")
    unregister(spark)
    assert not hasattr(writer.saveAsTable, "__wrapped__")


def test_a_native_read_takes_a_ref_behind_the_path(spark, lake_flights):
    read = spark.read.format("lance")
    path = lake_flights.location.uri
    assert (read.load(f"{path}@exp/delays").count(), read.load(f"{path}@1").count()) == (11, 5)
    with pytest.raises(errors.InvalidOption, match="names a ref behind its '@'"):
        spark.read.format("lance").option("branch", "exp/delays").load(f"{path}@v2013")
    with pytest.raises(errors.InvalidOption, match="'readChangeFeed' does not apply to a read"):
        spark.read.format("lance").option("readChangeFeed", "true").load(path)
