"""Columnar writes: the same rows and errors as Spark's own writes, and nothing is left behind."""

import os
import signal
import threading
import time
from pathlib import Path

import lance
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812
from support.frames import save

from lance_spark import capabilities, register, unregister
from lance_spark.core.catalog_options import OWN_NAME
from lance_spark.jvm import detection, switches
from lance_spark.jvm.java import compiled
from lance_spark.native import hooks, writes
from lance_spark.native.session import current

OFF = "0" in (os.environ.get(switches.SWITCH), os.environ.get(switches.BY_ROWS))
pytestmark = [
    pytest.mark.on_services,
    pytest.mark.spark,
    pytest.mark.when(newest=0.75, oldest=0.25),
    pytest.mark.skipif(OFF, reason="columnar writes are switched off"),
]

TYPES = {
    "flag": "id % 3 = 0",
    "tiny": "cast(id % 256 - 128 as tinyint)",
    "small": "cast(id - 3000 as smallint)",
    "whole": "cast(-id * 70000 as int)",
    "long": "id * 1234567890123 - 5",
    "single": "cast(id / 3 as float)",
    "double": "if(id % 11 = 0, double('NaN'), -id / 7)",
    "day": "date_add(date'1960-01-01', cast(id as int))",
    "instant": "timestamp_micros(id * 987654321 - 1000000000000)",
    "wall": "cast(timestamp_micros(id * 987654321) as timestamp_ntz)",
    "text": "repeat(concat('ä€', id), cast(id % 7 as int))",
    "bytes": "unhex(repeat('00ff', cast(id % 5 as int)))",
    "short_decimal": "cast(-id / 3 as decimal(9,2))",
    "long_decimal": "cast(id / 7 as decimal(18,9))",
    "wide_decimal": "cast(concat('-', repeat('9', 10), id) as decimal(38,10)) * 1000000000",
}


@pytest.fixture(autouse=True)
def nothing_is_left(spark, tmp_path_factory):
    """Sockets and threads of writes are gone at the end, of failed writes as well."""
    register(spark)
    assert current(spark).bridge.writes_columns
    system = spark._jvm.java.lang.System
    before = system.getProperty("java.io.tmpdir")
    place = tmp_path_factory.mktemp("s")  # of its own: other tests run at the same time
    system.setProperty("java.io.tmpdir", str(place))
    yield
    system.setProperty("java.io.tmpdir", before)
    unregister(spark)
    deadline = time.monotonic() + 15
    while (writers(spark) or sockets(place)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert (writers(spark), sockets(place)) == ([], [])


def sockets(place):
    return [*place.glob("lance-*")]


def writers(spark):
    names = [str(each.getName()) for each in spark._jvm.java.lang.Thread.getAllStackTraces().keySet()]
    return [name for name in names if name.endswith("writer of Lance")]


@pytest.fixture
def shapes(monkeypatch):
    """Whether each write took the way of columns."""
    found = []

    def seen(*given, real=writes.shape_of):
        made = real(*given)
        found.append(made is not None)
        return made

    monkeypatch.setattr(hooks, "shape_of", seen)
    monkeypatch.setattr(writes, "shape_of", seen)
    return found


def every_type(spark, rows, partitions=2):
    names = [f"if(id % 10 = {at % 10}, NULL, {text}) AS {name}" for at, (name, text) in enumerate(TYPES.items())]
    return spark.range(0, rows, 1, partitions).selectExpr("id", *names)


def stored(uri):
    found = lance.dataset(str(uri)).to_table()
    return found.sort_by(found.column_names[0]) if found.num_rows else found


def by_rows(spark, frame, uri):
    bridge = current(spark).bridge
    bridge.writes_columns = False
    try:
        save(frame, uri, "overwrite")
    finally:
        bridge.writes_columns = True
    return stored(uri)


def test_all_types_arrive_as_by_rows(spark, tmp_path, shapes):
    frame = every_type(spark, 6000)
    save(frame, tmp_path / "new", "overwrite")
    assert shapes == [True]
    found, expected = stored(tmp_path / "new"), by_rows(spark, frame, tmp_path / "old")
    assert shapes == [True, False]
    assert found.schema.equals(expected.schema, check_metadata=True)
    assert found.drop(["double"]).equals(expected.drop(["double"]))
    assert repr(found["double"].to_pylist()) == repr(expected["double"].to_pylist())  # NaN is not itself
    assert all(0 < column.null_count < 6000 for column in found.columns[1:])


def test_rows_that_are_not_unsafe(spark, tmp_path, shapes):
    """Spark passes rows of other classes where it has generated no code."""
    frame = every_type(spark, 500, 1).drop("double")
    frame.write.parquet(str(tmp_path / "parquet"))
    read = spark.read.schema(frame.schema).parquet(str(tmp_path / "parquet"))
    before = spark.conf.get("spark.sql.codegen.wholeStage")
    spark.conf.set("spark.sql.codegen.wholeStage", "false")
    try:
        save(read, tmp_path / "new", "overwrite")
        local = spark.createDataFrame(frame.collect(), frame.schema)
        save(local, tmp_path / "local", "overwrite")
    finally:
        spark.conf.set("spark.sql.codegen.wholeStage", before)
    assert shapes == [True, True]
    expected = by_rows(spark, frame, tmp_path / "old").to_pylist()
    assert stored(tmp_path / "new").to_pylist() == expected
    assert stored(tmp_path / "local").to_pylist() == expected


def test_other_time_zones(spark, tmp_path):
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        frame = every_type(spark, 100).select("id", "instant", "wall", "day")
        save(frame, tmp_path / "new", "overwrite")
        assert stored(tmp_path / "new").equals(by_rows(spark, frame, tmp_path / "old"))
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_batches_of_many_rows_and_of_large_ones(spark, tmp_path):
    save(spark.range(0, 150_001, 1, 1).withColumn("text", F.expr("if(id % 2 = 0, NULL, 'x')")), tmp_path / "many")
    found = stored(tmp_path / "many")
    assert found["id"].to_pylist() == list(range(150_001))
    assert found["text"].null_count == 75_001
    large = "repeat(cast(id % 10 as string), cast(if(id = 3, 40000000, id * 300000) as int))"
    save(spark.range(0, 30, 1, 2).selectExpr("id", f"{large} AS text"), tmp_path / "large", "overwrite")
    for row in stored(tmp_path / "large").to_pylist():
        size = 40_000_000 if row["id"] == 3 else row["id"] * 300_000
        assert row["text"] == str(row["id"] % 10) * size


def test_wide_rows(spark, tmp_path):
    frame = spark.range(0, 5000, 1, 1).selectExpr("id", *(f"id + {at} AS c{at}" for at in range(500)))
    save(frame, tmp_path / "t")
    found = stored(tmp_path / "t")
    assert (found.num_rows, found["c499"].to_pylist()[-1]) == (5000, 5498)


def test_empty_frames_and_partitions(spark, tmp_path, shapes):
    save(spark.range(0), tmp_path / "none", "overwrite")
    assert (stored(tmp_path / "none").num_rows, stored(tmp_path / "none").column_names) == (0, ["id"])
    save(spark.range(5).repartition(12), tmp_path / "few")
    save(spark.range(5, 40, 1, 30).where("id < 38"), tmp_path / "few")
    assert stored(tmp_path / "few")["id"].to_pylist() == list(range(38))
    assert all(shapes)


def test_other_types_go_as_before(spark, tmp_path, shapes):
    nested = spark.range(3).selectExpr("id", "array(id) AS list", "struct(id) AS struct")
    save(nested, tmp_path / "t", "overwrite")
    assert shapes == [False]
    assert stored(tmp_path / "t")["list"].to_pylist() == [[0], [1], [2]]


@pytest.mark.parametrize(
    ("kind", "known"),
    [("string", True), ("decimal(20,0)", True), ("array<int>", False), ("interval day", False)],
)
def test_which_schemas_are_sent(spark, kind, known):
    schema = spark.sql(f"SELECT CAST(NULL AS {kind}) AS c").schema
    assert (writes.columns_of(schema, "UTC") is not None) == known


def test_errors_of_python_are_the_same(spark, tmp_path):
    uri = tmp_path / "t"
    save(spark.range(3), uri, "overwrite")
    nulls = spark.range(3, 9, 1, 2).selectExpr("nullif(id, 8) AS id", "'x' AS text")
    with pytest.raises(PySparkException, match=r"SchemaMismatch.*has no column 'text'"):
        save(nulls, uri)
    strict = tmp_path / "strict"
    lance.write_dataset(
        stored(uri).cast(stored(uri).schema.set(0, stored(uri).schema.field(0).with_nullable(False))), strict
    )
    told = []
    for columns in (True, False):
        current(spark).bridge.writes_columns = columns
        with pytest.raises(PySparkException, match=r"(?s)Column 'id' holds a null.*hint: ") as caught:
            save(nulls.select("id"), strict)
        told.append(str(caught.value).split("lance_spark.errors.")[1].splitlines()[:2])
    current(spark).bridge.writes_columns = True
    assert told[0] == told[1]
    assert lance.dataset(strict).version == 1


def test_modes_that_do_not_exist(spark, tmp_path):
    told = []
    for columns in (True, False):
        current(spark).bridge.writes_columns = columns
        with pytest.raises(PySparkException) as caught:
            save(spark.range(3), tmp_path / "t", "ignore")
        told.append(str(caught.value).splitlines()[0])
    current(spark).bridge.writes_columns = True
    assert told[0] == told[1]
    writer = spark.range(2).write.format("lance").mode("append")
    writer.save(str(tmp_path / "t"))
    writer.format("parquet").save(str(tmp_path / "p"))
    assert spark.read.parquet(str(tmp_path / "p")).count() == 2


def test_a_failing_task_commits_nothing(spark, tmp_path):
    uri = tmp_path / "t"
    save(spark.range(3), uri, "overwrite")
    files = set((uri / "data").iterdir())
    bad = spark.range(0, 400_000, 1, 1).selectExpr("if(id = 399000, raise_error('no more'), id) AS id")
    with pytest.raises(PySparkException, match="no more"):
        save(bad, uri)
    assert lance.dataset(str(uri)).version == 1
    deadline = time.monotonic() + 10
    while set((uri / "data").iterdir()) != files and time.monotonic() < deadline:
        time.sleep(0.1)
    assert set((uri / "data").iterdir()) == files


def endless(spark, uri):
    """A write of hours in a thread, once its tasks are sending; and what it raised, later."""
    save(spark.range(3), uri, "overwrite")
    failures = []

    def run():
        spark.sparkContext.setJobGroup("endless", "endless")
        try:
            save(spark.range(0, 4_000_000_000_000, 1, 2), uri)
        except (PySparkException, Py4JError) as problem:
            failures.append(problem)

    thread = threading.Thread(target=run)
    thread.start()
    deadline = time.monotonic() + 60
    while not writers(spark) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(1)
    return thread, failures


def python_workers():
    """Processes that the daemon of this process's JVM has forked."""
    parents, daemons = {}, set()
    for each in Path("/proc").glob("[0-9]*"):
        try:
            number = int(each.name)
            parents[number] = int((each / "stat").read_text().rpartition(")")[2].split()[1])
            if b"pyspark.daemon" in (each / "cmdline").read_bytes():
                daemons.add(number)
        except OSError:
            continue

    def ours(number):
        while number in parents and number != os.getpid():
            number = parents[number]
        return number == os.getpid()

    return [number for number in daemons if parents[number] in daemons and ours(number)]


@pytest.mark.skipif(not Path("/proc").exists(), reason="only Linux says which processes are Spark's")
def test_workers_that_die(spark, tmp_path):
    thread, failures = endless(spark, tmp_path / "t")
    for worker in python_workers():
        os.kill(worker, signal.SIGKILL)
    thread.join(30)
    assert not thread.is_alive()
    assert "Python worker exited unexpectedly" in str(failures[0])
    assert lance.dataset(str(tmp_path / "t")).version == 1


def test_a_cancelled_job_ends(spark, tmp_path):
    thread, failures = endless(spark, tmp_path / "t")
    spark.sparkContext.cancelJobGroup("endless")
    thread.join(30)
    assert not thread.is_alive()
    assert "cancelled" in str(failures[0])
    assert lance.dataset(str(tmp_path / "t")).version == 1
    assert spark.range(10).count() == 10


def test_a_catalog_appends_and_overwrites(spark, lake, shapes):
    spark.sql("CREATE TABLE lake.ns1.t AS SELECT id, concat('a', id) AS text FROM range(5)")
    spark.sql("INSERT INTO lake.ns1.t VALUES (5, NULL)")
    spark.range(6, 8).selectExpr("id", "'z' AS text").writeTo("lake.ns1.t").append()
    table = spark.table("lake.ns1.t")
    assert [row.text for row in table.orderBy("id").collect()] == ["a0", "a1", "a2", "a3", "a4", None, "z", "z"]
    spark.sql("INSERT OVERWRITE lake.ns1.t SELECT id, 'new' FROM range(3)")
    spark.range(3).writeTo("lake.ns1.t").createOrReplace()
    assert (spark.table("lake.ns1.t").count(), spark.table("lake.ns1.t").columns) == (3, ["id"])
    assert len(shapes) == 5
    assert all(shapes)


def test_many_sessions_and_the_name_of_handles(spark, tmp_path, shapes):
    uri = str(tmp_path / "t")
    save(spark.range(3), uri, "overwrite")
    spark.range(3, 5).write.format(OWN_NAME).mode("append").save(uri)
    other = spark.newSession()
    register(other)
    try:
        save(other.range(5, 7), uri)
    finally:
        unregister(other)
    assert stored(uri)["id"].to_pylist() == list(range(7))
    assert shapes == [True, True, True]


def test_tcp(spark, tmp_path, monkeypatch, shapes):
    monkeypatch.setattr(writes, "UNIX_SOCKETS", False)
    save(spark.range(100_000), tmp_path / "t")
    assert (stored(tmp_path / "t").num_rows, shapes) == (100_000, [True])


def test_rows_of_python_functions(spark, tmp_path, shapes):
    """Two workers for each task: one computes the rows, the other writes them."""
    frame = spark.range(0, 60_000, 1, 4).mapInArrow(lambda batches: batches, "id long")
    save(frame.withColumn("next", F.udf(lambda number: number + 1, "long")("id")), tmp_path / "t")
    found = stored(tmp_path / "t").to_pydict()
    assert (found["id"], found["next"]) == ([*range(60_000)], [*range(1, 60_001)])
    assert shapes == [True]


def test_a_spark_without_what_writes_need(spark, tmp_path, monkeypatch, shapes):
    """It reads columns like every other Spark, and writes rows."""
    broken = {**compiled.sources(), "Writes": "public class Writes extends NotThere {}"}
    with monkeypatch.context() as patched:
        patched.setattr(compiled, "sources", lambda: broken)
        made = compiled.compiled(current(spark).bridge)
    assert "lance_spark.Batches" in made
    assert not [name for name in made if name.startswith("lance_spark.Writes")]
    unregister(spark)
    with monkeypatch.context() as patched:
        patched.setattr(detection, "can_write", lambda _: False)
        register(spark)
    found = capabilities(spark)
    assert found.no_batches is None
    assert found.no_columns in str(found)
    assert found.no_columns.startswith("this Spark lacks")
    save(spark.range(10), tmp_path / "t")
    assert (stored(tmp_path / "t").num_rows, shapes) == (10, [False])


def test_it_can_be_switched_off(spark, tmp_path, monkeypatch, shapes):
    unregister(spark)
    monkeypatch.setenv(switches.BY_ROWS, "0")
    register(spark)
    assert capabilities(spark).no_columns == "LANCE_SPARK_COLUMNAR is '0'."
    save(spark.range(10), tmp_path / "t")
    assert (stored(tmp_path / "t").num_rows, shapes) == (10, [False])
