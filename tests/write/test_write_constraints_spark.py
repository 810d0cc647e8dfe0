"""CHECK constraints in Spark: every way to write a row obeys them, and SQL declares them."""

import lance
import pytest
from pyspark.errors import PySparkException

from lance_spark.errors import LanceSparkError

pytestmark = [pytest.mark.spark, pytest.mark.on_connect, pytest.mark.when(day=0)]
ROW = "SELECT 9L AS id, -1 AS x"


@pytest.fixture
def table(spark, lake):
    spark.sql("CREATE TABLE lake.ns1.t AS SELECT id, CAST(id + 1 AS INT) AS x FROM range(3)")
    found = lake.table("ns1.t")
    found.constraints.add("positive", "x > 0")
    return found


def streamed(spark, table, tmp_path):
    spark.sql(ROW).write.parquet(str(tmp_path / "in"))
    rows = spark.readStream.schema("id bigint, x int").parquet(str(tmp_path / "in"))
    options = {"path": table.location.uri, "checkpointLocation": str(tmp_path / "checkpoint")}
    rows.writeStream.format("lance").options(**options).trigger(availableNow=True).start().awaitTermination()


WAYS = {
    "insert": lambda spark, _t, _: spark.sql(f"INSERT INTO lake.ns1.t {ROW}"),
    "insert overwrite": lambda spark, _t, _: spark.sql(f"INSERT OVERWRITE lake.ns1.t {ROW}"),
    "replace": lambda spark, _t, _: spark.sql(f"CREATE OR REPLACE TABLE lake.ns1.t AS {ROW}"),
    "update": lambda spark, _t, _: spark.sql("UPDATE lake.ns1.t SET x = -x WHERE id = 1"),
    "merge": lambda spark, _t, _: spark.sql(
        f"MERGE INTO lake.ns1.t t USING ({ROW}) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *"
    ),
    "merge update": lambda spark, _t, _: spark.sql(
        f"MERGE INTO lake.ns1.t t USING ({ROW}) s ON t.id = s.id - 8 WHEN MATCHED THEN UPDATE SET x = s.x"
    ),
    "writeTo": lambda spark, _t, _: spark.sql(ROW).writeTo("lake.ns1.t").append(),
    "a path": lambda spark, t, _: spark.sql(ROW).write.format("lance").mode("append").save(t.location.uri),
    "t.write": lambda spark, t, _: t.write(spark.sql(ROW), mode="append"),
    "t.update": lambda _spark, t, _: t.update({"x": "-x"}, where="id = 1"),
    "t.merge": lambda spark, t, _: (
        t.merge(spark.sql("SELECT 1L AS id, -1 AS x"), on="id").when_matched_update_all().execute()
    ),
    "a stream": streamed,
    "columns": lambda _spark, t, _: t.update_columns({"x": "-x"}),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_write_obeys(spark, table, tmp_path, way):
    before = lance.dataset(table.location.uri)
    with pytest.raises((PySparkException, LanceSparkError), match="CHECK positive"):
        WAYS[way](spark, table, tmp_path)
    after = lance.dataset(table.location.uri)
    assert after.version == before.version
    assert after.to_table().sort_by("id").to_pydict() == {"id": [0, 1, 2], "x": [1, 2, 3]}


@pytest.mark.when(spark="newest")
def test_sql_declares_constraints(spark, lake):
    spark.sql("CREATE TABLE lake.ns1.t (id BIGINT, x INT, CONSTRAINT positive CHECK (x > 0))")
    spark.sql("INSERT INTO lake.ns1.t VALUES (1, 2)")
    table = lake.table("ns1.t")
    spark.sql("ALTER TABLE lake.ns1.t ADD CONSTRAINT small CHECK (x < 10)")
    assert table.constraints.list() == {"positive": "x > 0", "small": "x < 10"}
    for condition, why in (("x > 5", "violated"), ("x % 2 = 0", "cannot be checked")):
        with pytest.raises((PySparkException, LanceSparkError), match=why):
            spark.sql(f"ALTER TABLE lake.ns1.t ADD CONSTRAINT other CHECK ({condition})")
    spark.sql("ALTER TABLE lake.ns1.t DROP CONSTRAINT IF EXISTS other")
    spark.sql("ALTER TABLE lake.ns1.t DROP CONSTRAINT small")
    assert table.constraints.list() == {"positive": "x > 0"}
    with pytest.raises((PySparkException, LanceSparkError), match="cannot be checked"):
        spark.sql("CREATE TABLE lake.ns1.made (x INT, CHECK (abs(x) > 0))")
    assert not spark.catalog.tableExists("lake.ns1.made")
    with pytest.raises((PySparkException, LanceSparkError), match="take two versions"):
        spark.sql("CREATE OR REPLACE TABLE lake.ns1.t (x INT, CHECK (x > 0))")
