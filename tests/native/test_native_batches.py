"""Scans that hand Arrow batches to Spark: the rows they would hand over otherwise, and no memory left behind."""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path
from tempfile import gettempdir

import lance
import pyarrow as pa
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812
from support import odd_tasks
from support.frames import load, refused
from support.type_table import READABLE

from lance_spark import capabilities, register, unregister
from lance_spark.errors import CorruptData
from lance_spark.jvm import detection, switches
from lance_spark.jvm.java import compiled
from lance_spark.native import scan, tasks
from lance_spark.native.tasks import bounded

OFF = os.environ.get(switches.SWITCH) == "0"
pytestmark = [
    pytest.mark.spark,
    pytest.mark.when(newest=0.75, oldest=0.25),
    pytest.mark.skipif(OFF, reason="the native way is switched off"),
]


@pytest.fixture(autouse=True)
def in_tasks(spark, monkeypatch):
    """Every read as one of a large table; at the end Arrow and the file system have everything back.

    Arrow's memory is the whole JVM's: what other tests of the session left in Spark's own allocators is not ours.
    """
    monkeypatch.setattr(scan, "LOCAL_ROWS", 0)
    monkeypatch.setattr(scan, "SMALL_ROWS", 0)
    register(spark)
    assert capabilities(spark).no_batches is None
    before, held = sockets(), allocator(spark).getAllocatedMemory()
    yield
    spark.catalog.clearCache()
    lent, doors = [], set()
    for _ in range(100):  # tasks that are cancelled, or that nobody wants more of, end by themselves
        lent = ours(spark)
        doors = sockets() - before
        if not lent and not doors and allocator(spark).getAllocatedMemory() <= held:
            return
        time.sleep(0.1)
    pytest.fail(f"left behind: {lent} {doors}")


def sockets():
    return set(Path(gettempdir()).glob("lance-????????-????-*"))


def ours(spark):
    """Of a query that was cancelled Spark leaves an allocator of its own open, which has lent nothing."""
    named = [str(each.getName()) for each in allocator(spark).getChildAllocators()]
    return [name for name in named if name == "batches of Lance"]


def allocator(spark):
    return spark._jvm.org.apache.spark.sql.util.ArrowUtils.rootAllocator()


@pytest.fixture
def table(uri):
    """Two fragments of 20 batches each."""
    rows = {"id": list(range(4000)), "text": [f"row {at}" if at % 5 else None for at in range(4000)]}
    lance.write_dataset(pa.table(rows), uri, max_rows_per_file=2000)
    return uri


@pytest.fixture
def frame(spark, table):
    return load(spark, table, batch_size=100)


def plan(frame):
    return frame._sc._jvm.PythonSQLUtils.explainString(frame._jdf.queryExecution(), "simple")


def by_rows(spark, monkeypatch):
    monkeypatch.setattr(detection.connected[spark], "batches", False)


@pytest.fixture(scope="module")
def typed(tmp_path_factory):
    """One column for each row of the type table, three rows; and batches of other layouts."""
    uri = str(tmp_path_factory.mktemp("batches") / "typed.lance")
    lance.write_dataset(pa.table({row.name: row.stored for row in READABLE}), uri)
    return uri


@pytest.mark.parametrize("generated", ["true", "false"])
def test_every_type_is_what_it_is_in_rows(spark, typed, generated):
    spark.conf.set("spark.sql.codegen.wholeStage", generated)
    try:
        frame = load(spark, typed, batch_size=1)
        assert ("ColumnarToRow" in plan(frame)) or generated == "false"
        found = [list(column) for column in zip(*frame.collect(), strict=True)]
        assert dict(zip(frame.columns, found, strict=True)) == {row.name: row.shown for row in READABLE}
    finally:
        spark.conf.unset("spark.sql.codegen.wholeStage")


def test_every_type_goes_through_sorts_joins_and_caches(spark, typed):
    frame = load(spark, typed)
    expected = sorted(frame.collect(), key=repr)
    assert sorted(frame.repartition(2).collect(), key=repr) == expected
    assert sorted(frame.cache().collect(), key=repr) == expected
    assert (
        sorted(frame.crossJoin(load(spark, typed).limit(1).select(F.lit(1))).drop("1").collect(), key=repr) == expected
    )


NESTED = {
    "list": pa.array([[{"x": 1, "y": ["a", None]}], [], None, [None]]),
    "deep": pa.array(
        [
            {"in": {"s": "x", "t": datetime(2020, 1, 1, tzinfo=timezone.utc).replace(tzinfo=None)}},
            {"in": None},
            None,
            {"in": {"s": None, "t": None}},
        ]
    ),
    "map": pa.array([[("k", [1.5])], [], None, [("m", None)]], pa.map_(pa.string(), pa.list_(pa.float64()))),
    "dictionary": pa.array(["a", None, "b", "a"]).dictionary_encode(),
    "large": pa.array(["a", "ß", None, ""], pa.large_string()),
    "instant": pa.array([datetime(1901, 1, 1, tzinfo=timezone.utc), None] * 2, pa.timestamp("us", "Europe/Berlin")),
    "nanos": pa.array([1_000, None, -1_000, 0], pa.timestamp("ns")),
    "wide": pa.array([10**30, -1, None, 0], pa.decimal128(38, 0)),
    "vector": pa.array([[1.0, 2.0], None, [3.0, 4.0], [5.0, 6.0]], pa.list_(pa.float32(), 2)),
    "void": pa.nulls(4),
}


def test_nested_and_converted_types_are_what_they_are_in_rows(spark, uri, monkeypatch):
    lance.write_dataset(pa.table({"k": [0, 1, 2, 3], **NESTED}), uri)
    questions = [
        lambda frame: frame,
        lambda frame: frame.select("deep.in.s", "list.y", F.col("map")["k"], F.size("list"), F.explode_outer("list")),
        lambda frame: frame.groupBy("dictionary").agg(
            F.max("large"), F.max("instant"), F.sum("wide"), F.first("vector")
        ),
    ]
    frame = load(spark, uri, batch_size=2)
    found = [sorted(map(repr, question(frame).collect())) for question in questions]
    by_rows(spark, monkeypatch)
    assert found == [sorted(map(repr, question(frame).collect())) for question in questions]
    assert len(found[0]) == 4


def test_a_hundred_columns_and_more(spark, uri):
    lance.write_dataset(pa.table({f"c{at}": [at, None] for at in range(130)}), uri)
    assert [tuple(row) for row in load(spark, uri).collect()] == [tuple(range(130)), (None,) * 130]


@pytest.mark.parametrize("unix", [True, False])
def test_all_rows_arrive_by_either_kind_of_socket(frame, monkeypatch, unix):
    monkeypatch.setattr(tasks, "UNIX_SOCKETS", unix)
    assert frame.agg(F.sum(F.col("id") + 1), F.count(F.upper("text"))).first()[:] == (8002000, 3200)
    assert [row.id for row in frame.collect()] == list(range(4000))


def test_rows_are_counted_without_a_column(frame):
    assert len(frame.select(F.lit(1)).collect()) == 4000
    assert frame.where(F.length("text") > 0).count() == 3200


def test_partial_aggregates_are_batches_too(frame):
    assert "aggregate: [max(id), min(text)]" in plan(frame.agg(F.max("id"), F.min("text")))
    assert frame.agg(F.max("id"), F.min("text")).first()[:] == (3999, "row 1")


KEPT = [
    "max(coalesce(text, ''))",
    "min(coalesce(text, '~'))",
    "max_by(text, id + 0)",
    "first(coalesce(text, 'no'))",
    "last(coalesce(text, 'no'))",
    "max(struct(coalesce(text, ''), id))",
    "sort_array(collect_set(left(coalesce(text, ''), 5)))",
    "max(binary(coalesce(text, '')))",
    "mode(id % 7 + 0)",
]


@pytest.mark.parametrize("generated", ["true", "false"])
def test_what_is_remembered_of_a_batch_outlives_it(spark, frame, monkeypatch, generated):
    """Texts are where the batch is, which is gone when the next one comes."""
    spark.conf.set("spark.sql.codegen.wholeStage", generated)
    try:
        whole = frame.selectExpr(*KEPT).first()
        groups = frame.groupBy((F.col("id") % 3).alias("g")).agg(*map(F.expr, KEPT)).orderBy("g").collect()
        windows = "id", "lag(text, 150) OVER (ORDER BY id) AS old", "max(text) OVER (ORDER BY id) AS most"
        moved = frame.selectExpr(*windows).collect()
        by_rows(spark, monkeypatch)
        assert whole == frame.selectExpr(*KEPT).first()
        assert groups == frame.groupBy((F.col("id") % 3).alias("g")).agg(*map(F.expr, KEPT)).orderBy("g").collect()
        assert moved == frame.selectExpr(*windows).collect()
    finally:
        spark.conf.unset("spark.sql.codegen.wholeStage")


def test_row_columns_runtime_filters_and_orders(spark, frame, uri):
    found = frame.select("id", "_rowaddr").where("id = 2001").first()
    assert found[:] == (2001, (1 << 32) + 1)
    assert [row.id for row in frame.orderBy(F.desc("id")).limit(3).collect()] == [3999, 3998, 3997]
    other = f"{uri}.other"
    lance.write_dataset(pa.table({"id": list(range(0, 4000, 100)), "name": [f"n{at}" for at in range(40)]}), other)
    joined = frame.join(load(spark, other).where(F.upper("name").like("N1%")), "id")
    assert sorted(row.id for row in joined.collect()) == [100, *range(1000, 2000, 100)]


def test_batches_without_rows_between_others(spark, table, monkeypatch):
    monkeypatch.setattr(scan, "ScanTask", odd_tasks.EmptyTask)
    frame = load(spark, table, batch_size=100)
    assert frame.agg(F.sum(F.col("id") + 0)).first()[0] == 7998000
    assert len(frame.collect()) == 4000


def test_nothing_matches(frame):
    assert frame.where("id > 5000").collect() == []
    assert frame.where("length(text) > 50").collect() == []
    assert frame.where("id > 5000").agg(F.sum("id"), F.count("*")).first()[:] == (None, 0)


def test_large_rows_cross_in_pieces(spark, uri):
    lance.write_dataset(pa.table({"id": list(range(12)), "text": ["x" * 3_000_000] * 12}), uri)
    assert load(spark, uri).agg(F.sum(F.length("text"))).first()[0] == 36_000_000


def test_a_batch_is_divided_by_its_bytes():
    batch = pa.RecordBatch.from_pydict({"text": ["x" * 100] * 10 + ["y" * 5000]})
    pieces = list(bounded(batch, 600))
    assert pa.Table.from_batches(pieces).to_pylist() == batch.to_pylist()
    assert all(piece.nbytes <= 600 or piece.num_rows == 1 for piece in pieces)
    assert list(bounded(batch.slice(0, 5), 600)) == [batch.slice(0, 5)]


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_limits_stop_early(spark, table, monkeypatch, adaptive):
    monkeypatch.setattr(scan, "ScanTask", odd_tasks.SlowTask)
    spark.conf.set("spark.sql.adaptive.enabled", adaptive)
    try:
        frame = load(spark, table, batch_size=100).where("length(text) > 0")
        assert len(frame.limit(70).collect()) == 70
        assert len(frame.take(90)) == 90
        assert frame.first().id == 1
    finally:
        spark.conf.unset("spark.sql.adaptive.enabled")


@pytest.mark.parametrize("interrupted", [True, False])
def test_a_cancelled_query_gives_everything_back(spark, table, monkeypatch, interrupted):
    monkeypatch.setattr(scan, "ScanTask", odd_tasks.SlowTask)
    frame = load(spark, table, batch_size=100)
    with ThreadPoolExecutor(1) as pool:

        def ask():
            spark.sparkContext.setJobGroup("slow", "slow", interruptOnCancel=interrupted)
            return frame.selectExpr("sum(id + 1)").collect()

        running = pool.submit(ask)
        while not ours(spark) and not running.done():
            time.sleep(0.05)
        spark.sparkContext.cancelJobGroup("slow")
        with pytest.raises(Exception, match=r"(?i)cancel"):
            running.result(60)


@pytest.mark.parametrize("task", [odd_tasks.FailingTask, odd_tasks.UnreachableTask])
def test_an_error_of_a_task_is_the_users_to_read(spark, table, monkeypatch, task):
    monkeypatch.setattr(scan, "ScanTask", task)
    with refused(CorruptData, "batch cannot be read", "Take another one"):
        load(spark, table, batch_size=100).selectExpr("sum(id + 1)").collect()


@pytest.mark.parametrize(
    ("task", "words"), [(odd_tasks.DyingTask, "crashed|exited unexpectedly"), (odd_tasks.BrokenTask, "gone away")]
)
def test_no_row_is_lost_without_a_word(spark, table, monkeypatch, task, words):
    monkeypatch.setattr(scan, "ScanTask", task)
    with pytest.raises((PySparkException, Py4JError), match=words):
        load(spark, table, batch_size=100).selectExpr("sum(id + 1)").collect()


def test_metrics_tell_what_came(frame):
    asked = frame.where("length(text) >= 0")
    asked._jdf.collect()
    leaves = asked._jdf.queryExecution().executedPlan().collectLeaves()
    told = leaves.apply(0).metrics()
    assert told.apply("numOutputRows").value() == 3200
    assert told.apply("pythonDataReceived").value() > 8 * 4000


def test_sessions_and_threads(spark, table):
    other = spark.newSession()
    register(other)
    assert capabilities(other).no_batches is None
    frames = [load(each, table, batch_size=100) for each in (spark, other)]

    def ask(at):
        return frames[at % 2].where(f"id >= {at} AND length(text) >= 0").count()

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(ask, range(0, 120, 10))) == [3200 - at // 10 * 8 for at in range(0, 120, 10)]
    unregister(other)


def test_what_is_cached_and_refreshed(spark, table):
    name = f"lance.`{table}`"
    spark.sql(f"CACHE TABLE ten AS SELECT * FROM {name} WHERE length(text) > 0")
    assert spark.table("ten").count() == 3200
    lance.dataset(table).delete("id >= 100")
    spark.sql(f"REFRESH TABLE {name}")
    assert (spark.table(name).where("length(text) > 0").count(), spark.table("ten").count()) == (80, 80)
    spark.sql("UNCACHE TABLE ten")
    spark.catalog.dropTempView("ten")


def test_python_functions_read_what_the_scan_hands_over(frame):
    doubled = F.pandas_udf(lambda ids: ids * 2, "long")
    assert frame.select(doubled("id").alias("id")).agg(F.sum("id")).first()[0] == 15996000

    def first(batches):
        yield next(iter(batches)).slice(0, 3)

    assert frame.mapInArrow(first, frame.schema).count() in (3, 6)


def test_rows_can_be_asked_for(spark, table, monkeypatch):
    unregister(spark)
    monkeypatch.setenv(switches.BY_ROWS, "0")
    register(spark)
    found = capabilities(spark)
    assert (found.native, found.no_batches) == (True, "LANCE_SPARK_COLUMNAR is '0'.")
    assert "scans hand over rows: LANCE_SPARK_COLUMNAR" in str(found)
    frame = load(spark, table)
    assert "ColumnarToRow" not in plan(frame)
    assert frame.agg(F.sum(F.col("id") + 1)).first()[0] == 8002000
    unregister(spark)
    monkeypatch.delenv(switches.BY_ROWS)


@pytest.mark.parametrize("broken", ["no compiler", "source", "no class"])
def test_without_its_classes_a_session_has_rows(spark, table, monkeypatch, broken):
    unregister(spark)
    if broken == "no compiler":
        monkeypatch.setattr(compiled, "_COMPILER", "org.codehaus.nothing.SimpleCompiler")
        monkeypatch.setattr(compiled, "_digest", lambda: "other")
    elif broken == "source":
        monkeypatch.setattr(compiled, "sources", lambda: {"Answers": "package lance_spark; public class Answers {"})
        monkeypatch.setattr(compiled, "_digest", lambda: "other")
    else:
        monkeypatch.setattr(compiled, "_PACKAGE", "not_ours")
        monkeypatch.setattr(compiled, "_add", lambda *_: None)
    register(spark)
    found = capabilities(spark)
    assert found.native
    assert "Java classes are unavailable" in found.no_batches
    assert load(spark, table).agg(F.sum(F.col("id") + 1)).first()[0] == 8002000
    unregister(spark)
    monkeypatch.undo()
    monkeypatch.setattr(scan, "LOCAL_ROWS", 0)
    register(spark)


@pytest.mark.when(oldest=1.0)
def test_the_java_source_compiles_here(spark):
    bridge = detection.connected[spark]
    made = compiled.compiled(bridge)
    assert set(made) >= {f"lance_spark.{name}" for name in compiled.sources()}
    assert all(code[:4] == b"\xca\xfe\xba\xbe" for code in made.values())
