"""Random queries: the native way, the plain data source and a copy in Parquet give the same rows."""

import math

import pytest
from support.kinds import NIGHT
from support.native_queries import query
from support.native_tables import write_adversarial

from lance_spark import register
from lance_spark.datasource import datasource
from lance_spark.jvm.detection import connected
from lance_spark.native import scan

pytestmark = [pytest.mark.spark, pytest.mark.when(oldest=0.1)]

SEEDS = range(3000) if NIGHT else range(12)
PLAIN = "lance_plain"


@pytest.fixture(scope="module")
def views(spark, tmp_path_factory):
    """Names of views of the same rows, by how these are read."""
    root = tmp_path_factory.mktemp("native")
    register(spark)
    datasource.register(spark, PLAIN)
    # By the statistics of a Parquet file, which do not count NaN, Spark skips files where only NaN is looked for.
    spark.conf.set("spark.sql.parquet.filterPushdown", "false")
    made = {}
    for indexed in (False, True):
        uri, parquet = str(root / f"{indexed}.lance"), str(root / f"{indexed}.parquet")
        write_adversarial(uri, parquet, indexed)
        frames = {
            "native": spark.read.format("lance").load(uri),
            "plain": spark.read.format(PLAIN).load(uri),
            "parquet": spark.read.parquet(parquet),
        }
        for way, frame in frames.items():
            made[way, indexed] = f"{way}_{indexed}"
            frame.createOrReplaceTempView(made[way, indexed])
    yield made
    spark.conf.unset("spark.sql.parquet.filterPushdown")


@pytest.fixture(
    params=["by the driver", "in tasks", "in tasks, by rows", "in tasks, without classes", "as a dimension"]
)
def way(request, spark, monkeypatch):
    """Which of the ways a native read takes: small tables take only one of them."""
    monkeypatch.setattr(scan, "LOCAL_ROWS", 0 if request.param.startswith("in tasks") else 10_000)
    if spark in connected and request.param in ("in tasks, by rows", "in tasks, without classes"):
        monkeypatch.setattr(connected[spark], "batches", False)
        if request.param == "in tasks, without classes":
            monkeypatch.setattr(connected[spark], "maker", None)
    monkeypatch.setattr(scan, "SMALL_ROWS", 100_000 if request.param == "as a dimension" else 0)
    return request.param


def rows(spark, sql, view):
    found = spark.sql(sql.format(t=view)).collect()
    return sorted([tuple(_plain(value) for value in row) for row in found], key=repr)


def _plain(value):
    """Floats by their digits: sums differ in the last ones with the order of addition."""
    if isinstance(value, float):
        return repr(value) if math.isnan(value) or math.isinf(value) else f"{value:.9g}"
    if isinstance(value, tuple):
        return tuple(_plain(each) for each in value)
    if isinstance(value, bytearray):
        return bytes(value)
    return value


@pytest.fixture(scope="module")
def expected(spark, views):
    """What Spark says of the copy in Parquet and through the plain data source."""
    kept = {}

    def ask(seed, indexed):
        if (seed, indexed) not in kept:
            answers = [rows(spark, query(seed), views[each, indexed]) for each in ("parquet", "plain")]
            assert answers[0] == answers[1], query(seed)
            kept[seed, indexed] = answers[0]
        return kept[seed, indexed]

    return ask


@pytest.mark.when(day=0.12)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_query_has_the_rows_that_spark_finds(spark, views, way, expected, seed):
    indexed = seed % 2 == 0
    assert rows(spark, query(seed), views["native", indexed]) == expected(seed, indexed), query(seed)


@pytest.mark.when(oldest=1.0)
@pytest.mark.parametrize(
    "where", ["raw IN (NULL, X'61', X'')", "k > 3 OR raw IN (X'FF', NULL)", "raw <=> NULL OR k = 1"]
)
def test_a_null_among_bytes_is_no_error(spark, views, way, where):
    """Spark 4.0 fails to print one, which it did with what it had been told was pushed down."""
    sql = f"SELECT k, raw FROM {{t}} WHERE {where}"
    assert rows(spark, sql, views["native", False]) == rows(spark, sql, views["parquet", False])


@pytest.mark.parametrize(
    "asked", ["min(k), max(k)", "max(dt), count(*)", "min(dt)", "max(k), min(dt), max(d), count(*)"]
)
@pytest.mark.parametrize("local_rows", [0, 60])
def test_minima_and_maxima_with_and_without_the_ends_of_indexes(spark, views, monkeypatch, asked, local_rows):
    """The driver reads 60 rows: those that came after the indexes, and those at their ends, but not the table."""
    monkeypatch.setattr(scan, "LOCAL_ROWS", local_rows)
    monkeypatch.setattr(scan, "SMALL_ROWS", 0)
    sql = f"SELECT {asked} FROM {{t}}"
    assert rows(spark, sql, views["native", True]) == rows(spark, sql, views["parquet", True])
