"""Columns whose names differ only in case, in a session that ignores case and in one that does not."""

import lance
import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812 - the usual name for it

from lance_spark.errors import Refused

pytestmark = [pytest.mark.spark, pytest.mark.when(spark="newest")]

SENSITIVE = "spark.sql.caseSensitive"
ROWS = [(1, 10, {"b": 5, "B": 6}, 7), (2, 20, {"b": 8, "B": 9}, 8)]


@pytest.fixture
def pair(spark, lake):
    """Of the same type: values that go to the wrong column raise no error."""
    columns = ("a", "A", "s", "k")
    table = pa.table({name: [row[at] for row in ROWS] for at, name in enumerate(columns)})
    lance.write_dataset(table, lake.catalog.at("t").uri)
    lake.register_table("ns1.t", "t")
    yield spark.table("lake.ns1.t")
    spark.conf.unset(SENSITIVE)


QUERIES = {
    "all": lambda t: t,
    "renamed": lambda t: t.toDF("x", "y", "s", "k").select("y", "x"),
    "filtered": lambda t: t.toDF("x", "y", "s", "k").where("y = 20").select("x"),
    "grouped": lambda t: t.toDF("x", "y", "s", "k").groupBy("y").agg(F.max("x")).orderBy("y"),
    "first": lambda t: t.toDF("x", "y", "s", "k").orderBy(F.desc("y")).limit(1),
    "another column": lambda t: t.select("k"),
    "a struct with a pair": lambda t: t.select("s"),
    "counted": lambda t: t.groupBy().count(),
}


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_a_session_that_ignores_case_reads_what_one_that_does_not_reads(spark, pair, query):
    found = [tuple(row) for row in query(pair).collect()]
    spark.conf.set(SENSITIVE, "true")
    assert found == [tuple(row) for row in query(spark.table("lake.ns1.t")).collect()]
    assert found


def test_rows_are_changed_only_if_it_is_clear_which_column_is_meant(spark, pair):
    for statement in ("DELETE FROM lake.ns1.t WHERE k = 7", "UPDATE lake.ns1.t SET k = 3 WHERE k = 7"):
        with pytest.raises(Refused, match="'a' and 'A' differ only in case"):
            spark.sql(statement)
    spark.sql("INSERT INTO lake.ns1.t SELECT * FROM lake.ns1.t WHERE k = 8")
    spark.conf.set(SENSITIVE, "true")
    spark.sql("UPDATE lake.ns1.t SET A = 0 WHERE a = 1")
    spark.sql("DELETE FROM lake.ns1.t WHERE A = 20")
    assert [tuple(row)[:2] for row in spark.table("lake.ns1.t").collect()] == [(1, 0)]
