"""A catalog of complete publishes in SQL: each statement reads one publish, the next statement the newest one."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from support.frames import numbers

from lance_spark import register
from lance_spark.native import published as native
from lance_spark.native.catalog import NativeCatalog

pytestmark = [pytest.mark.spark, pytest.mark.on_connect, pytest.mark.when(newest=0.5, oldest=0.07)]

JOINED = "SELECT count(*) AS n FROM last.ns1.a JOIN last.ns1.c USING (id)"


@pytest.fixture
def etl(spark, lake):
    """Two tables, which every publish gives the same row."""
    for name in ("ns1.a", "ns1.c"):
        lake.write_table(numbers(spark, 0, 3), name)
    lake.branches.create("etl")
    register(spark, catalog="last", root=lake.catalog.uri, published=True)
    return lake.checkout(branch="etl")


def publish(spark, lake, etl, number):
    for name in ("ns1.a", "ns1.c"):
        etl.write_table(numbers(spark, number, number + 1), name, mode="append")
    lake.branches.merge("etl")


def test_a_statement_reads_the_last_publish(spark, lake, etl):
    assert spark.sql(JOINED).first().n == 3
    publish(spark, lake, etl, 10)
    assert spark.sql(JOINED).first().n == 4
    assert [row.tableName for row in spark.sql("SHOW TABLES IN last.ns1").collect()] == ["a", "c"]
    assert spark.catalog.tableExists("last.ns1.a")
    assert spark.table("last.ns1.a").count() == 4


QUERIES = {
    "join": JOINED,
    "subquery": "SELECT count(*) AS n FROM last.ns1.a WHERE id IN (SELECT id FROM last.ns1.c)",
    "with": "WITH x AS (SELECT * FROM last.ns1.a) SELECT count(*) AS n FROM x JOIN last.ns1.c USING (id)",
    "view": "SELECT count(*) AS n FROM seen JOIN last.ns1.c USING (id)",
}


@pytest.mark.on_connect(False)  # whose statements another process plans, in which nothing can be replaced
@pytest.mark.parametrize("query", QUERIES)
def test_a_publish_in_the_middle_of_a_statement_is_not_seen(spark, lake, etl, monkeypatch, query):
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW seen AS SELECT id FROM last.ns1.a")
    real, calls = NativeCatalog.load_table, []

    def load(self, *arguments):
        found = real(self, *arguments)
        if isinstance(self, native.PublishedCatalog):
            calls.append(found)
            if len(calls) == 1:
                publish(spark, lake, etl, 10)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(NativeCatalog, "load_table", load)
        frame = spark.sql(QUERIES[query])
    assert len(calls) == 2
    assert frame.first().n == 3
    publish(spark, lake, etl, 20)
    assert frame.first().n == 3
    assert spark.sql(QUERIES[query]).first().n == 5


@pytest.mark.when(day=0)
def test_each_statement_beside_a_publisher_reads_one_publish(spark, lake, etl):
    query = "SELECT (SELECT count(*) FROM last.ns1.a) AS a, (SELECT count(*) FROM last.ns1.c) AS c"
    seen = []
    with ThreadPoolExecutor(1) as others:
        publisher = others.submit(lambda: [publish(spark, lake, etl, number) for number in range(10, 25)])
        while not publisher.done():
            seen.append(tuple(spark.sql(query).first()))
    publisher.result()
    assert [a for a, _ in seen] == [c for _, c in seen] == sorted(a for a, _ in seen)
    assert tuple(spark.sql(query).first()) == (18, 18)


def test_a_table_elsewhere_gets_the_rows_of_one_publish(spark, lake, etl):
    publish(spark, lake, etl, 10)
    spark.sql("CREATE TABLE lake.ns1.copy AS SELECT id FROM last.ns1.a JOIN last.ns1.c USING (id)")
    spark.sql("MERGE INTO lake.ns1.copy t USING last.ns1.a s ON t.id = s.id WHEN MATCHED THEN DELETE")
    assert spark.table("lake.ns1.copy").count() == 0


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO last.ns1.a SELECT * FROM last.ns1.c",
        "DELETE FROM last.ns1.a WHERE id = 1",
        "DROP TABLE last.ns1.a",
        "CREATE TABLE last.ns1.new (id BIGINT)",
        "ALTER TABLE last.ns1.a DROP COLUMN id",
        "CREATE NAMESPACE last.ns9",
        "CALL last.system.create_branch('ns1.a', 'exp')",
    ],
)
def test_nothing_can_be_changed(spark, etl, statement):
    with pytest.raises(Exception, match="last complete publish"):
        spark.sql(statement).collect()
    assert spark.sql(JOINED).first().n == 3


def test_reads_by_options(spark, lake, etl):
    options = {"catalog": lake.catalog.uri, "catalog_published": "true"}
    publish(spark, lake, etl, 10)
    assert spark.read.format("lance").options(**options).load("ns1.a").count() == 4
    assert lake.checkout(published=True).table("ns1.a").to_df().count() == 4
    with pytest.raises(Exception, match="last complete publish"):
        numbers(spark, 0, 1).write.format("lance").options(**options).mode("append").save("ns1.a")
    with pytest.raises(Exception, match="exclude each other"):
        spark.read.format("lance").options(**options, catalog_tag="v1").load("ns1.a")


def test_what_register_accepts(spark, lake, etl):
    with pytest.raises(Exception, match="exclude each other"):
        register(spark, catalog="other", root=lake.catalog.uri, tag="v2", published=True)
    with pytest.raises(Exception, match="belongs to the catalog of a root"):
        register(spark, catalog="other", published=True)
