"""Tags of a whole lake in Spark: handles, options of a read, a registered catalog; nothing in them can be changed."""

import pytest

from lance_spark import LanceCatalog, LanceTable, register
from lance_spark.errors import InvalidOption, NotFound, Refused

pytestmark = [pytest.mark.spark, pytest.mark.on_connect, pytest.mark.when(newest=0.6, oldest=0)]


def ids(frame):
    return sorted(row[0] for row in frame.collect())


@pytest.fixture
def tagged(spark, lake, lake_flights):
    """Tag v1, with flights before its last rows; and flights, changed since."""
    assert lake.tags.create("v1").tables == 1
    lake_flights.delete("id < 8")
    lake.write_table(spark.range(3), "ns1.new")
    return lake.checkout(tag="v1")


def test_a_join_of_two_moments_of_the_lake(spark, lake, tagged):
    register(spark, catalog="before", root=lake.catalog.uri, tag="v1")
    query = "SELECT b.id FROM before.ns1.flights b ANTI JOIN lake.ns1.flights l ON b.id = l.id"
    assert ids(spark.sql(query)) == list(range(8))
    assert [row.tableName for row in spark.sql("SHOW TABLES IN before.ns1").collect()] == ["flights"]
    with pytest.raises(NotFound, match="no tag of the lake 'v2'"):
        register(spark, catalog="other", root=lake.catalog.uri, tag="v2")
    with pytest.raises(InvalidOption, match="root"):
        register(spark, catalog="other", tag="v1")


@pytest.mark.when(day=0.4)
@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO before.ns1.flights VALUES (1)",
        "DELETE FROM before.ns1.flights WHERE id = 1",
        "TRUNCATE TABLE before.ns1.flights",
        "MERGE INTO before.ns1.flights t USING (SELECT 1L id) s ON t.id = s.id WHEN MATCHED THEN DELETE",
        "ALTER TABLE before.ns1.flights ADD COLUMN x INT",
        "ALTER TABLE before.ns1.flights SET TBLPROPERTIES (a = 'b')",
        "DROP TABLE before.ns1.flights",
        "ALTER TABLE before.ns1.flights RENAME TO ns1.f",
        "CREATE TABLE before.ns1.t (id BIGINT)",
        "CREATE OR REPLACE TABLE before.ns1.flights AS SELECT 1L AS id",
        "CREATE NAMESPACE before.ns2",
        "CALL before.system.create_branch('ns1.flights', 'x')",
        "SELECT * FROM before.ns1.flights VERSION AS OF 1",
        "SELECT * FROM before.ns1.`flights@exp/delays`",
    ],
)
def test_statements_that_would_leave_the_tag_are_refused(spark, lake, tagged, statement):
    register(spark, catalog="before", root=lake.catalog.uri, tag="v1")
    with pytest.raises(Refused, match="read at tag 'v1'"):
        spark.sql(statement).collect()
    assert ids(spark.sql("SELECT id FROM before.ns1.flights")) == list(range(10))
    assert ids(spark.sql("SELECT id FROM lake.ns1.flights")) == [8, 9]


def test_handles_options_and_views(spark, lake, tagged):
    assert (tagged.table("ns1.flights").count_rows(), lake.table("ns1.flights").count_rows()) == (10, 2)
    assert repr(tagged).splitlines()[0].endswith("tag='v1')")
    options = {"catalog": lake.catalog.uri, "catalog_tag": "v1"}
    assert ids(spark.read.format("lance").options(**options).load("ns1.flights")) == list(range(10))
    with pytest.raises(Exception, match="read at tag 'v1', which never changes"):
        spark.range(1).write.format("lance").options(**options).mode("append").save("ns1.flights")
    with pytest.raises(Exception, match="'catalog_tag' says how to read a catalog, but no catalog is named"):
        spark.read.format("lance").option("catalog_tag", "v1").load(lake.table("ns1.flights").location.uri)
    assert tagged.register_views(prefix="at_v1_") == ["at_v1_ns1_flights"]
    assert ids(spark.table("at_v1_ns1_flights")) == list(range(10))


@pytest.mark.when(day=0.5)
@pytest.mark.parametrize(
    "change",
    [
        lambda at, spark: at.write_table(spark.range(1), "ns1.flights", mode="append"),
        lambda at, _: at.table("ns1.flights").delete("id = 1"),
        lambda at, _: at.table("ns1.flights", branch="exp/delays"),
        lambda at, _: at.maintain(),
        lambda at, _: at.storage(),
        lambda at, _: at.migrate(),
        lambda at, _: at.tags.create("v2"),
    ],
)
def test_handles_change_nothing(spark, tagged, change):
    with pytest.raises(Refused):
        change(tagged, spark)
    assert tagged.table("ns1.flights").count_rows() == 10


def test_tags_are_a_collection(lake, tagged):
    assert ([tag.name for tag in lake.tags], len(lake.tags), "v1" in lake.tags, "v2" in lake.tags) == (
        ["v1"],
        1,
        True,
        False,
    )
    assert lake.tags["v1"].tables == 1
    assert "v1   1" in str(lake.tags)
    lake.tags.delete("v1")
    assert not list(lake.tags)
    with pytest.raises(NotFound, match="deleted"):
        tagged.table("ns1.flights")


def test_without_a_session(lake, tagged):
    """Commands and executors have none."""
    at = LanceCatalog(lake.catalog.uri).checkout(tag="v1")
    assert isinstance(at.table("ns1.flights"), LanceTable)
    assert at.describe_table("ns1.flights").declared is False
