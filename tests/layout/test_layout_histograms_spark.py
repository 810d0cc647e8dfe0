"""Histograms of columns: measured when they are asked for, handed on, and what Spark's optimizer makes of them."""

import re
from pathlib import Path

import lance
import pytest
from support.spark_settings import settings_of
from support.told_statistics import bins_told, told

from lance_spark.layout import statistic_rules
from lance_spark.native import scan

pytestmark = [pytest.mark.spark, pytest.mark.when(newest=0.6, oldest=0.3)]
SKEWED = (
    "SELECT id, CAST(IF(id % 100 < 95, id % 10, id) AS INT) AS k, CAST(id AS DOUBLE) / 7 AS f, "
    "CAST(id % 97 AS DECIMAL(12, 2)) AS x, DATE'2026-01-01' + CAST(IF(id % 4 = 0, 300, id % 30) AS INT) AS d, "
    "timestamp_seconds(id * id) AS ts, IF(id % 3 = 0, NULL, id % 5) AS n, concat('n', id % 7) AS c, id % 2 = 0 AS o, "
    "CAST(timestamp_seconds(id) AS TIMESTAMP_NTZ) AS local, CAST(id % 50 AS FLOAT) / 3 AS g FROM range(20000)"
)
MEASURED = {"id", "k", "f", "x", "d", "ts", "n", "g"}
HISTOGRAMS = "spark.sql.statistics.histogram.enabled"
BINS = "spark.sql.statistics.histogram.numBins"
RANGES = {
    "k < 10": 0.95,
    "k >= 10": 0.05,
    "k < 10000": 0.975,
    "d = DATE'2026-10-28'": 0.25,
    "d > DATE'2026-01-10' AND d < DATE'2026-06-01'": 0.5,
    "ts < timestamp_seconds(10000 * 10000)": 0.5,
    "f < 1000": 0.35,
    "n = 3": 2 / 15,
    "x <= 48": 0.505,
}


@pytest.fixture
def costs(spark, lake, monkeypatch):
    """The session with an optimizer that weighs costs, and tables read by tasks."""
    monkeypatch.setattr(scan, "LOCAL_ROWS", 0)
    with settings_of(spark, {"spark.sql.cbo.enabled": "true"}, (HISTOGRAMS, BINS)):
        yield spark


def with_histogram(found):
    return {row.col_name for row in found if row.histogram}


def test_ranges_of_skewed_columns(costs, lake, monkeypatch):
    """As many rows as there are, within some percent, whether Spark estimates a filter, or the scan that applies it."""
    spark = costs
    spark.sql(f"CREATE TABLE lake.ns1.t AS {SKEWED}")
    found = spark.sql("ANALYZE TABLE lake.ns1.t COMPUTE STATISTICS FOR ALL COLUMNS").collect()
    assert with_histogram(found) == set()
    before = told(spark, "SELECT * FROM lake.ns1.t WHERE k < 10")[0]
    assert before < 100
    spark.conf.set(HISTOGRAMS, "true")
    found = spark.sql("ANALYZE TABLE lake.ns1.t COMPUTE STATISTICS FOR ALL COLUMNS").collect()
    assert with_histogram(found) == MEASURED
    for small in (scan.SMALL_ROWS, 0):
        monkeypatch.setattr(scan, "SMALL_ROWS", small)
        for condition, part in RANGES.items():
            estimated = told(spark, f"SELECT * FROM lake.ns1.t WHERE {condition}")[0]
            assert abs(estimated / 20000 - part) <= 0.02, (small, condition, estimated)


@pytest.mark.when(day=0.2)
@pytest.mark.parametrize("bins", [254, 7])
def test_spark_gets_as_many_bins_as_it_asks_for(costs, lake, bins):
    """Which end where the column does, in the numbers of its type; its DESCRIBE shows none of any table's."""
    spark = costs
    spark.sql(f"CREATE TABLE lake.ns1.t AS {SKEWED}")
    spark.conf.set(BINS, str(bins))
    assert with_histogram(lake.table("ns1.t").analyze("k", "d", "ts", histograms=True).columns) == {"k", "d", "ts"}
    for column, low, high in (("k", 0, 19999), ("d", 20454, 20754), ("ts", 0, 19999**2 * 1e6)):
        found = bins_told(spark, "SELECT * FROM lake.ns1.t", column)
        assert (len(found), found[0][0], found[-1][1]) == (bins, low, high)
    assert bins_told(spark, "SELECT * FROM lake.ns1.t", "id") == []
    shown = {row.info_name for row in spark.sql("DESCRIBE EXTENDED lake.ns1.t k").collect()}
    assert {"min", "max", "distinct_count"} <= shown


def test_joins_and_groups_by_each_type(costs, lake):
    """No type of column makes the optimizer fail, or expect nothing of a join."""
    spark = costs
    spark.sql(f"CREATE TABLE lake.ns1.t AS {SKEWED}")
    spark.sql("CREATE TABLE lake.ns1.u AS SELECT * FROM lake.ns1.t WHERE id % 5 = 0")
    for asked in (False, True):
        for name in ("t", "u"):
            lake.table(f"ns1.{name}").analyze(histograms=asked)
        for column in ("id", "k", "f", "x", "d", "ts", "n", "c", "o", "local", "g"):
            join = f"SELECT t.id, u.id AS other FROM lake.ns1.t t JOIN lake.ns1.u u ON t.{column} = u.{column}"
            rows, known = told(spark, join)
            assert rows is None or rows >= 1000, (asked, column, known)
            rows, _ = told(spark, f"SELECT {column}, count(*) FROM lake.ns1.t GROUP BY {column}")
            assert rows is None or rows >= 1, (asked, column)


def test_a_join_of_columns_of_which_a_part_is_known(costs, lake):
    """Files that nobody has measured may have any values: Spark must not take the columns for empty ones."""
    spark = costs
    for name in ("t", "u"):
        spark.sql(f"CREATE TABLE lake.ns1.{name} AS {SKEWED}")
        lake.table(f"ns1.{name}").analyze(histograms=name == "u")
        spark.sql(f"INSERT INTO lake.ns1.{name} {SKEWED.replace('(20000)', '(20000, 30000)')}")
    for column in ("id", "k", "f", "x", "d", "ts", "n", "g"):
        rows, known = told(spark, f"SELECT t.{column} FROM lake.ns1.t t JOIN lake.ns1.u u ON t.{column} = u.{column}")
        assert rows >= 10000, (column, known)
    for name in ("t", "u"):
        assert 2000 <= told(spark, f"SELECT * FROM lake.ns1.{name} WHERE id >= 20000")[0] <= 15000
    assert spark.sql("SELECT t.id FROM lake.ns1.t t JOIN lake.ns1.u u ON t.id = u.id").count() == 30000


@pytest.mark.when(day=0)
def test_values_without_an_order_of_numbers(costs, lake):
    """NaN, infinite numbers, and the ends of types."""
    spark = costs
    spark.sql(
        "CREATE TABLE lake.ns1.t AS SELECT id, IF(id % 9 = 0, double('NaN'), id) AS a, "
        "IF(id % 9 = 0, double('Infinity'), id) AS b, "
        "IF(id % 2 = 0, 9223372036854775807L, -9223372036854775807L) AS m, "
        "IF(id % 3 = 0, 1.7e308D, -1.7e308D) AS h, CAST(NULL AS INT) AS z, CAST(id AS DECIMAL(38, 0)) AS w, "
        "IF(id < 5, DATE'0001-01-01', DATE'9999-12-31') AS d, "
        "CAST(IF(id % 2 = 0, 3.4e38D, id / 3) AS FLOAT) AS g FROM range(900)"
    )
    lake.table("ns1.t").analyze(histograms=True)
    for files in ("measured", "others, too"):
        for column in ("id", "a", "b", "m", "h", "z", "w", "d", "g"):
            rows, known = told(
                spark,
                f"SELECT t.id FROM lake.ns1.t t JOIN lake.ns1.t u ON t.{column} = u.{column} AND t.{column} <> 5"
                if column != "d"
                else "SELECT t.id FROM lake.ns1.t t JOIN lake.ns1.t u ON t.d = u.d",
            )
            assert rows is None or rows > 0 or column == "z", (files, column, known)
        spark.sql("INSERT INTO lake.ns1.t SELECT * FROM lake.ns1.t LIMIT 3")


@pytest.mark.when(day=0)
def test_histograms_are_handed_on(costs, lake):
    """By compactions and maintenance, to branches and versions, and by later measurements of other files."""
    spark = costs
    spark.sql(f"CREATE TABLE lake.ns1.t AS {SKEWED}")
    t = lake.table("ns1.t")
    t.analyze()
    first = t.version
    assert t.analyze("k", histograms=True).measured == len(lance.dataset(t.location.uri).get_fragments())
    assert t.analyze("k", histograms=True).measured == 0
    assert t.analyze(histograms=False).measured == 0
    spark.sql(f"INSERT INTO lake.ns1.t {SKEWED.replace('(20000)', '(20000, 22000)')}")
    assert t.analyze("k").measured >= 1  # a column that has one keeps it
    t.optimize()
    found = t.analyze("k")
    assert (found.measured, with_histogram(found.columns)) == (0, {"k"})
    assert abs(told(spark, "SELECT * FROM lake.ns1.t WHERE k < 10")[0] - 20900) <= 500
    t.branches.create("exp")
    assert abs(told(spark, "SELECT * FROM lake.ns1.`t@exp` WHERE k < 10")[0] - 20900) <= 500
    assert abs(told(spark, f"SELECT * FROM lake.ns1.t VERSION AS OF {first} WHERE k < 10")[0] - 19000) <= 500
    spark.sql(f"INSERT INTO lake.ns1.t {SKEWED.replace('(20000)', '(22000, 42000)')}")
    spark.sql(f"INSERT INTO lake.ns1.t {SKEWED.replace('(20000)', '(42000, 43000)')}")
    t.maintain().apply()
    found = t.analyze("k")
    assert with_histogram(found.columns) == {"k"}
    called = spark.sql(
        "CALL lake.system.analyze(table => 'ns1.t', columns => array('x'), histograms => true)"
    ).collect()
    assert with_histogram(called) == {"x"}
    files = [*Path(t.location.uri, "_facts").glob("*.statistics")]
    assert all(statistic_rules.decoded_groups(file.read_bytes()) for file in files)


@pytest.mark.on_connect
def test_explain_tells_the_estimate(costs, lake):
    spark = costs
    spark.sql(f"CREATE TABLE lake.ns1.t AS {SKEWED}")
    explain = "EXPLAIN COST SELECT * FROM lake.ns1.t WHERE k < 10"
    spark.sql("ANALYZE TABLE lake.ns1.t COMPUTE STATISTICS FOR COLUMNS k").collect()
    before = shown_rows(spark, explain)
    spark.conf.set(HISTOGRAMS, "true")
    found = spark.sql("ANALYZE TABLE lake.ns1.t COMPUTE STATISTICS FOR COLUMNS k").collect()
    assert with_histogram(found) == {"k"}
    after = shown_rows(spark, explain)
    assert (before < 100, abs(after - 19000) <= 400) == (True, True), (before, after)


def shown_rows(spark, explain):
    """The rows that the first line of a plan is estimated to have."""
    return float(re.search(r"rowCount=([\d.]+(?:E[+-]?\d+)?)", spark.sql(explain).first()[0])[1])


@pytest.mark.on_connect
def test_the_order_of_joins(costs, lake):
    """The optimizer begins with the join that leaves the fewest rows, which a histogram tells."""
    spark = costs
    spark.sql("CREATE TABLE lake.ns1.f AS SELECT id, id % 1000 AS a, id % 1000 AS b FROM range(50000)")
    # Of a, nearly all rows are below 10; of b, nearly none.
    skewed = "SELECT id AS key, IF(id % 100 < {0}, id % 10, id * 1000) AS v FROM range(1000)"
    spark.sql(f"CREATE TABLE lake.ns1.a AS {skewed.format(98)}")
    spark.sql(f"CREATE TABLE lake.ns1.b AS {skewed.format(2)}")
    query = (
        "SELECT f.id FROM lake.ns1.f f JOIN lake.ns1.a a ON f.a = a.key JOIN lake.ns1.b b ON f.b = b.key "
        "WHERE a.v < 10 AND b.v < 5000"
    )
    with settings_of(spark, {"spark.sql.cbo.joinReorder.enabled": "true"}):
        for name in ("f", "a", "b"):
            lake.table(f"ns1.{name}").analyze()
        before = joined_first(spark, query)
        for name in ("a", "b"):
            lake.table(f"ns1.{name}").analyze(histograms=True)
        after = joined_first(spark, query)
        assert (before, after) == ("a", "b")
        exact = spark.sql(query).count()
    assert spark.sql(query).count() == exact


def joined_first(spark, query):
    """Which of two tables the innermost join takes."""
    plan = spark.sql(f"EXPLAIN COST {query}").first()[0]
    return min("ab", key=lambda name: plan.index(f"] lake.ns1.{name},"))
