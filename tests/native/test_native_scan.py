"""What Spark leaves to Lance in a registered session, seen in its plans and in the jobs that it starts."""

import os
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal

import lance
import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812

from lance_spark import LanceTable, register
from lance_spark.jvm.switches import SWITCH
from lance_spark.native import scan

OFF = os.environ.get(SWITCH) == "0"
pytestmark = [
    pytest.mark.spark,
    pytest.mark.when(oldest=0.25),
    pytest.mark.skipif(OFF, reason="the native way is switched off"),
]


@pytest.fixture
def in_tasks(monkeypatch):
    """Every read as one of a large table."""
    monkeypatch.setattr(scan, "LOCAL_ROWS", 0)
    monkeypatch.setattr(scan, "SMALL_ROWS", 0)


@pytest.fixture
def table(spark, uri):
    register(spark)
    values = {
        "id": list(range(100)),
        "g": [at % 4 for at in range(100)],
        "v": [at / 2 for at in range(100)],
        "st": [{"a": at, "b": str(at)} for at in range(100)],
    }
    lance.write_dataset(pa.table(values), uri, max_rows_per_file=25).create_scalar_index("id", "BTREE")
    return uri


@pytest.fixture
def frame(spark, table):
    return spark.read.format("lance").load(table)


def plan(frame):
    return frame._sc._jvm.PythonSQLUtils.explainString(frame._jdf.queryExecution(), "simple")


def jobs(spark, action):
    """How many jobs an action starts."""
    group = f"jobs of {id(action)}"
    spark.sparkContext.setJobGroup(group, group)
    try:
        action()
        return len(spark.sparkContext.statusTracker().getJobIdsForGroup(group))
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)


def test_explain_tells_what_is_read(frame, table, in_tasks):
    text = plan(frame.where("id > 40 AND v < 30").select("id", "st.a"))
    assert f"lance {table}@main@2" in text
    assert "columns: [id, st]" in text
    assert "partitions: " in text
    assert "Filter" not in text.replace("RuntimeFilters", "")


def test_explain_tells_of_aggregates(frame, in_tasks):
    text = plan(frame.where("id > 40").groupBy("g").agg(F.avg("v"), F.max("id")))
    assert "aggregate: [sum(v), count(v), max(id)], group by: [g]" in text
    assert "`id` > 40" in text


def test_aggregates_of_tasks_are_merged(frame, in_tasks):
    found = frame.groupBy("g").agg(F.count("*"), F.sum("id"), F.avg("v"), F.min("id"), F.max("v")).orderBy("g")
    assert [tuple(row) for row in found.collect()][:2] == [
        (0, 25, 1200, 24.0, 0, 48.0),
        (1, 25, 1225, 24.5, 1, 48.5),
    ]


QUESTIONS = {
    "look-up": (0, lambda frame: frame.where("id = 7")),
    "range": (0, lambda frame: frame.where("id BETWEEN 7 AND 20").select("v")),
    "limit": (0, lambda frame: frame.limit(10)),
    "limit and offset": (0, lambda frame: frame.limit(20).offset(10)),
    # Spark renames the column of an answer in a job of one task.
    "count": (1, lambda frame: frame.groupBy().count()),
    "aggregate of few": (1, lambda frame: frame.where("id = 7").agg(F.max("v"), F.count("*"))),
    "nested": (1, lambda frame: frame.select("st.a").where("id < 3")),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_small_answers_come_from_the_driver(spark, frame, monkeypatch, question):
    monkeypatch.setattr(scan, "SMALL_ROWS", 0)
    expected, ask = QUESTIONS[question]
    text = plan(ask(frame))
    assert "LocalTableScan" in text
    assert "Exchange" not in text
    assert jobs(spark, lambda: ask(frame).collect()) == expected


def test_an_index_counts_what_the_driver_would_not_read(frame, uri, in_tasks):
    """Of rows that were written after the index the driver knows nothing: tasks count them."""
    assert "LocalTableScan" in plan(frame.where("id > 40").groupBy().count())
    assert frame.where("id > 40").count() == 59
    assert "BatchScan" in plan(frame.where("v > 40").groupBy().count())
    assert frame.where("v > 40").count() == 19
    lance.write_dataset(lance.dataset(uri).to_table(), uri, mode="append")
    later = frame.sparkSession.read.format("lance").load(uri)
    assert "BatchScan" in plan(later.where("id > 40").groupBy().count())
    assert later.where("id > 40").count() == 118


def test_minima_and_maxima_come_from_the_ends_of_an_index(frame, uri, monkeypatch):
    monkeypatch.setattr(scan, "LOCAL_ROWS", 10)
    monkeypatch.setattr(scan, "SMALL_ROWS", 0)
    ends = frame.agg(F.min("id"), F.max("id"), F.count("*"))
    assert "LocalTableScan" in plan(ends)
    assert tuple(ends.collect()[0]) == (0, 99, 100)
    assert "BatchScan" in plan(frame.agg(F.max("v")))
    assert tuple(frame.agg(F.max("v")).collect()[0]) == (49.5,)
    lance.dataset(uri).delete("id IN (0, 99)")
    later = frame.sparkSession.read.format("lance").load(uri).agg(F.min("id"), F.max("id"), F.count("*"))
    assert "BatchScan" in plan(later)
    assert tuple(later.collect()[0]) == (1, 98, 98)


def test_rows_larger_than_their_types_tell_are_left_to_tasks(spark, uri, monkeypatch):
    register(spark)
    lance.write_dataset(pa.table({"text": ["x" * 10_000] * 50}), uri)
    monkeypatch.setattr(scan, "LOCAL_BYTES", 20_000)
    frame = spark.read.format("lance").load(uri)
    assert "BatchScan" in plan(frame)
    assert len(frame.collect()) == 50


def test_the_same_frame_answers_different_questions(frame, in_tasks):
    assert frame.where("id > 95").count() == 4
    assert frame.count() == 100
    assert len(frame.where("id < 3").collect()) == 3
    assert frame.where("id > 95").count() == 4


def test_a_frame_stays_at_its_version(spark, table, in_tasks):
    by_path, by_name = spark.read.format("lance").load(table), spark.table(f"lance.`{table}`")
    lance.write_dataset(lance.dataset(table).to_table(), table, mode="append")
    assert (by_path.count(), by_name.count(), len(by_name.collect())) == (100, 100, 100)
    assert spark.table(f"lance.`{table}`").count() == 200


def test_what_is_cached_is_for_its_version_only(spark, table):
    def load():
        return spark.read.format("lance").load(table)

    old = load().cache()
    assert old.count() == 100
    assert "InMemoryTableScan" in plan(load().select("id"))
    lance.write_dataset(lance.dataset(table).to_table(), table, mode="append")
    assert (load().count(), old.count()) == (200, 100)
    old.unpersist()


def test_row_columns_are_there_when_asked_for(frame, in_tasks):
    assert "_rowid" not in frame.columns
    found = frame.select("id", "_rowid", "_rowaddr", "_row_created_at_version", "_row_last_updated_at_version")
    assert tuple(found.where("id = 30").first()) == (30, (1 << 32) + 5, (1 << 32) + 5, 1, 1)
    assert frame.where("_rowaddr < 5").count() == 5


def test_the_first_rows_of_an_order_come_from_tasks(frame, in_tasks):
    first = frame.orderBy(F.desc("g"), "id").limit(3)
    assert "order by: g desc, id asc, limit: 3" in plan(first)
    assert [row.id for row in first.collect()] == [3, 7, 11]


@pytest.mark.parametrize("stable", [False, True])
def test_whole_rows_of_an_order_are_read_once_they_are_known(spark, uri, in_tasks, stable, monkeypatch):
    register(spark)
    rows = {"n": [5, 3, None, 9, 1, 7], "text": list("abcdef"), "st": [{"x": at} for at in range(6)]}
    lance.write_dataset(pa.table(rows), uri, max_rows_per_file=2, enable_stable_row_ids=stable)
    lance.dataset(uri).delete("n = 1")
    lance.dataset(uri).update({"text": "'new'"}, where="n = 3")
    frame = spark.read.format("lance").load(uri)
    for taken in (1000, 0):
        monkeypatch.setattr(scan, "TAKEN_ROWS", taken)
        found = frame.orderBy("n").limit(3).collect()
        assert [(row.n, row.text, row.st.x) for row in found] == [(None, "c", 2), (3, "new", 1), (5, "a", 0)]
        found = frame.where("text <> 'a'").orderBy(F.desc("n")).limit(2).select("text", "_rowid").collect()
        assert [row.text for row in found] == ["d", "f"]


def test_nulls_are_where_an_order_wants_them(spark, uri, in_tasks):
    register(spark)
    lance.write_dataset(pa.table({"n": [3, None, 1, None, 2]}), uri)
    frame = spark.read.format("lance").load(uri)
    orders = [(F.asc_nulls_first("n"), [None, None, 1]), (F.desc_nulls_last("n"), [3, 2, 1])]
    for order, expected in orders:
        assert [row.n for row in frame.orderBy(order).limit(3).collect()] == expected


def test_an_offset_leaves_out_the_first_rows(frame, in_tasks):
    assert [row.id for row in frame.offset(97).collect()] == [97, 98, 99]
    assert [row.id for row in frame.limit(30).offset(26).collect()] == [26, 27, 28, 29]
    assert [row.id for row in frame.offset(24).limit(3).collect()] == [24, 25, 26]
    assert frame.offset(100).count() == 0
    assert frame.where("v >= 0").offset(97).count() == 3


def test_a_limit_with_a_filter_is_kept_by_all_tasks_together(frame, in_tasks):
    assert len(frame.where("v > 10").limit(7).collect()) == 7
    assert len(frame.where("v > 48").limit(7).collect()) == 3
    assert frame.limit(60).count() == 60
    assert frame.limit(60).where("id >= 0").count() == 60


def test_a_sample_is_the_same_each_time(frame, in_tasks):
    sample = frame.sample(0.3, seed=7)
    assert "sample: 0.3" in plan(sample)
    first = {row.id for row in sample.collect()}
    assert 10 < len(first) < 50
    assert {row.id for row in sample.select("id").collect()} == first
    assert {row.id for row in frame.sample(0.3, seed=8).collect()} != first
    assert sample.where("id < 50").count() == len([one for one in first if one < 50])
    assert sample.count() == len(first)
    assert sample.limit(5).count() == 5


def test_rows_are_counted_without_a_column(frame, in_tasks):
    assert len(frame.select(F.lit(1)).collect()) == 100
    assert frame.where("id >= 90").select(F.lit(1)).crossJoin(frame.where("id < 3").select(F.lit(2))).count() == 30


def test_a_join_leaves_out_rows_before_they_are_read(spark, frame, uri, in_tasks, monkeypatch):
    """Spark sees that the other side is filtered, as it got the filter back, and tells the scan which keys are left."""
    other = f"{uri}.other"
    lance.write_dataset(pa.table({"id": list(range(50)), "name": [f"n{at}" for at in range(50)]}), other)
    monkeypatch.setattr(scan, "SMALL_ROWS", 60)
    joined = frame.join(spark.read.format("lance").load(other).where("name LIKE 'n1%'"), "id").select("id", "v")
    seen = []
    narrowed = scan.narrowed
    monkeypatch.setattr("lance_spark.native.scan.narrowed", lambda *given: seen.append(given[1]) or narrowed(*given))
    assert "dynamicpruning" in plan(joined)
    assert sorted(row.id for row in joined.collect()) == [1, *range(10, 20)]
    assert seen
    assert all("`id` IN (1, 10," in each.sql for each in seen[0])


def test_a_join_by_many_values_hands_python_none_of_them(spark, uri, in_tasks, monkeypatch):
    """They took seconds to translate, and the filter was too long for the tasks in the end."""
    register(spark)
    rows = pa.table({"id": range(30_000), "name": [f"n{at % 10}" for at in range(30_000)]})
    for name in (uri, f"{uri}.other"):
        lance.write_dataset(rows, name).create_scalar_index("id", "BTREE")
    one, two = (spark.read.format("lance").load(name) for name in (uri, f"{uri}.other"))
    monkeypatch.setattr(scan, "SMALL_ROWS", 60_000)
    given = []
    plainly = scan.NativeScan.filter
    monkeypatch.setattr(scan.NativeScan, "filter", lambda self, found: given.append(found) or plainly(self, found))
    joined = one.join(F.broadcast(two.where("name LIKE 'n%' AND name <> 'n3'")), "id")
    assert joined.count() == 27_000
    assert given
    assert all(predicates == [["other"]] for predicates in given)


def test_only_columns_that_leave_out_rows_early_are_offered_to_joins(spark, lake, uri, in_tasks, monkeypatch):
    """Spark puts the whole other side into the plan of each scan that could use its values."""
    lance.write_dataset(pa.table({"k": list(range(50)), "name": [f"n{at}" for at in range(50)]}), uri)
    few = F.broadcast(spark.read.format("lance").load(uri).where("name LIKE 'n1%'"))
    rows = "SELECT id, id AS plain, CAST(id AS STRING) AS c, id % 7 AS day, id AS near FROM range(100)"
    spark.sql(f"CREATE TABLE lake.ns1.t PARTITIONED BY (bucket(2, id), day, cluster_by(near)) AS {rows}")
    lake.table("ns1.t").indexes.create("c", "bitmap")
    table = spark.table("lake.ns1.t")
    monkeypatch.setattr(scan, "SMALL_ROWS", 60)
    pruned = set()
    for name in table.columns:
        joined = table.join(few, F.col(name) == (F.col("k") if name != "c" else F.col("k").cast("string")))
        assert joined.count() == (15 if name == "day" else 11)
        if "dynamicpruning" in plan(joined):
            pruned.add(name)
    assert pruned >= {"day", "near"}
    assert pruned.isdisjoint({"id", "plain"})


FIRST, NOON = date(1500, 1, 1), datetime(2013, 7, 4, 12, tzinfo=timezone.utc)
LISTS = {
    "id": [*range(0, 90, 3), 1000],
    "v": [at / 4 for at in range(40)],
    "name": ["it's 7", "8, 9", "' ", "", "]", ")", *(str(at) for at in range(30))],
    "price": [Decimal(at) / 100 for at in range(0, 60, 2)],
    "day": [FIRST + timedelta(at) for at in range(40)],
    "at": [NOON + timedelta(minutes=at, microseconds=at) for at in range(30)],
}


@pytest.mark.when(day=0.3)
@pytest.mark.parametrize("column", LISTS)
def test_a_long_list_of_constants_finds_its_rows(spark, uri, in_tasks, column):
    register(spark)
    names = ["it's 7", "8, 9", "' ", "", "]", ")", "no", "12", None, "29"] * 5
    rows = [
        (at, at / 2, name, Decimal(at) / 100, FIRST + timedelta(at), NOON + timedelta(minutes=at, microseconds=at))
        for at, name in enumerate(names)
    ]
    frame = spark.createDataFrame(rows, "id long, v double, name string, price decimal(10,2), day date, at timestamp")
    frame.coalesce(1).write.format("lance").mode("append").save(uri)
    condition = F.col(column).isin(LISTS[column])
    native = spark.read.format("lance").load(uri).where(condition)
    assert " IN " in plan(native).upper()
    assert sorted(row.id for row in native.collect()) == sorted(row.id for row in frame.where(condition).collect())


def test_small_tables_are_broadcast(spark, frame, uri, in_tasks):
    other = f"{uri}.other"
    lance.write_dataset(pa.table({"id": [1, 2]}), other)
    text = plan(frame.join(spark.read.format("lance").load(other), "id"))
    assert "BroadcastHashJoin" in text


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_two_reads_of_the_same_share_an_exchange(spark, frame, in_tasks, adaptive):
    spark.conf.set("spark.sql.adaptive.enabled", adaptive)
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    try:
        counts = frame.distinct().groupBy("g").agg(F.sum("v").alias("s"))
        joined = counts.alias("a").join(counts.alias("b"), "g")
        found = joined.collect()
        assert len(found) == 4
        assert all(row[1] == row[2] for row in found)
        assert "ReusedExchange" in plan(joined) or "ReusedQueryStage" in plan(joined)
    finally:
        spark.conf.unset("spark.sql.adaptive.enabled")
        spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")


def test_handles_read_natively(spark, table, in_tasks):
    frame = LanceTable.for_path(table, spark=spark).to_df(filter="id > 10")
    assert "aggregate: [max(id)], filter: id > 10" in plan(frame.agg(F.max("id")))
    assert frame.where("id < 20").count() == 9


@pytest.mark.parametrize(
    ("narrowed", "expected"),
    [
        pytest.param(lambda groups: groups.limit(3), 3, id="limit"),
        pytest.param(lambda groups: groups.orderBy("g").limit(3), 3, id="top rows"),
        pytest.param(lambda groups: groups.orderBy("g").limit(3).offset(1), 2, id="top rows and offset"),
        pytest.param(lambda groups: groups.orderBy(F.desc("g")), 4, id="order"),
    ],
)
def test_a_limit_of_groups_leaves_every_row_in_its_group(frame, narrowed, expected):
    """show() asks for such a limit: the groups of a small table, which the driver answers alone, were cut short."""
    groups = narrowed(frame.groupBy("g").agg(F.count("*").alias("rows"), F.max("id").alias("last"))).collect()
    assert len(groups) == expected
    assert [tuple(row) for row in groups] == [(row["g"], 25, 96 + row["g"]) for row in groups]
    assert narrowed(frame.select("g").distinct()).count() == expected


def test_a_limit_of_the_read_comes_before_everything_else(spark, table, in_tasks):
    frame = spark.read.format("lance").option("limit", 10).load(table)
    assert frame.where("id >= 0").count() == 10
    assert frame.where("id >= 50").count() == 0
    assert frame.agg(F.max("id")).first()[0] == 9
    assert frame.limit(3).count() == 3


def test_a_schema_of_the_users_own_is_read_as_it_says(spark, table, in_tasks):
    frame = spark.read.format("lance").schema("v double, id decimal(20,0)").load(table)
    assert frame.dtypes == [("v", "double"), ("id", "decimal(20,0)")]
    assert frame.where("id = 7").first().v == 3.5
    assert frame.agg(F.max("id")).first()[0] == 99
