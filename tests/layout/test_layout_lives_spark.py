"""Partitioned and clustered tables whose columns, layout, place and history change have the answers of Parquet."""

import random

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from support.evolving_tables import ZONES, Evolving
from support.grouped_tables import SETTINGS, as_texts
from support.kinds import NIGHT
from support.random_conditions import condition
from support.spark_settings import settings_of

from lance_spark.layout.layout_rules import parse
from lance_spark.native import scan

pytestmark = [pytest.mark.spark, pytest.mark.when(spark="newest", day=0)]
ANSI, ZONE, CASE = "spark.sql.ansi.enabled", "spark.sql.session.timeZone", "spark.sql.caseSensitive"
UNPLANNED = "V2ExpressionBuilder"
"""In the trace of an assertion of Spark's own, which some conditions fail before any source of data sees them."""
AT_ONCE = 8
"""Filters that one query has, each with a read of its own."""


@pytest.fixture
def session(spark, lake):
    given = {
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.parquet.filterPushdown": "false",  # it moves moments of days that the Julian calendar lacks
    }
    with settings_of(spark, given, (*SETTINGS, ANSI, ZONE, CASE)):
        yield spark


def answers(spark, frame, conditions, of):
    """What each condition keeps of a frame, or what Spark says."""
    frame.createOrReplaceTempView("a")
    try:
        return as_texts(spark.sql(" UNION ALL ".join(of.format(at, each) for at, each in enumerate(conditions))))
    except PySparkException as failed:
        return str(failed)[:60] if len(conditions) == 1 else None
    except Py4JJavaError as failed:
        if UNPLANNED not in str(failed):
            raise
        return UNPLANNED if len(conditions) == 1 else None


def understood(spark, text):
    try:
        spark.sql(f"SELECT * FROM a WHERE {text}")
    except PySparkException:
        return False
    return True


def compare(spark, copy, frame, conditions, of, told):
    expected = answers(spark, copy, conditions, of)
    found = answers(spark, frame, conditions, of)
    if len(conditions) > 1 and (expected is None or found != expected):
        for each in conditions:
            compare(spark, copy, frame, [each], of, told)
    elif not isinstance(expected, str) and found != UNPLANNED:  # a row that fails may be one that nobody reads
        assert found == expected, (conditions, told)


def check(spark, table, choose):
    spark.conf.set(ZONE, choose.choice(ZONES))
    frame, copy = spark.table(f"lake.ns1.{table.name}"), table.copy()
    copy.createOrReplaceTempView("a")
    now, columns = table.table.layout.describe(), table.columns()
    named = [each for each in columns if each[0] in parse(now.partition_by, now.cluster_by).columns] or columns
    made = [condition(choose, named if choose.random() < 0.7 else columns) for _ in range(3 * AT_ONCE)]
    conditions = [each for each in made if understood(spark, each)]
    key = choose.choice([name for name, _ in named])
    told = (table.layout, now, table.done)
    whole = "SELECT {} AS at, count(*), sum(v), count(DISTINCT v), min(v), max(v) FROM a WHERE {}"
    groups = f"SELECT {{}} AS at, {key}, count(*), max(v), min(v), sum(v) FROM a WHERE {{}} GROUP BY {key}"
    for first in range(0, len(conditions), AT_ONCE):
        compare(spark, copy, frame, conditions[first : first + AT_ONCE], choose.choice([whole, whole, groups]), told)
    ends = f"SELECT {{}} AS at, min({key}), max({key}), count({key}), count(DISTINCT {key}) FROM a WHERE {{}}"
    joined = (
        f"SELECT {{}} AS at, count(*), sum(x.v), sum(y.v) FROM a x JOIN a y ON x.{key} = y.{key} WHERE x.v % 3 = {{}}"
    )
    compare(spark, copy, frame, ["true"], ends, told)
    compare(spark, copy, frame, ["1"], joined, told)


@pytest.mark.parametrize("seed", range(100) if NIGHT else range(2))
def test_random_lives_have_the_answers_of_parquet(session, lake, tmp_path, monkeypatch, seed):
    spark, choose = session, random.Random(seed)
    monkeypatch.setattr(scan, "LOCAL_ROWS", choose.choice([0, scan.LOCAL_ROWS]))
    monkeypatch.setattr(scan, "SMALL_ROWS", choose.choice([0, scan.SMALL_ROWS]))
    spark.conf.set(ANSI, choose.choice(["true", "false"]))
    spark.conf.set(CASE, choose.choice(["true", "false"]))
    for name, values in SETTINGS.items():
        spark.conf.set(name, choose.choice(values))
    table = Evolving(spark, lake, "t", choose, str(tmp_path))
    check(spark, table, choose)
    for _ in range(5):
        table.step()
        table.step()
        check(spark, table, choose)
