"""How often Python and the JVM ask each other while Spark plans a query: each time takes a tenth of a millisecond."""

import os
import threading
import time
from contextlib import contextmanager

import lance
import pyarrow as pa
import pytest
from py4j.clientserver import ClientServerConnection

from lance_spark import LanceTable, capabilities, register
from lance_spark.jvm import callers, proxies
from lance_spark.jvm.detection import connected
from lance_spark.jvm.switches import SWITCH
from lance_spark.native import scan

pytestmark = [
    pytest.mark.spark,
    pytest.mark.when(oldest=0.2),
    pytest.mark.skipif(os.environ.get(SWITCH) == "0", reason="the native way is switched off"),
]
MOST = {"in tasks": 19, "by the driver": 21}
"""Calls for one table by who reads it, from the text of a query to its rows, beside those that PySpark itself makes."""


@pytest.fixture
def calls(monkeypatch):
    """Counts calls into the JVM, without those that only let go of objects, and calls back from there."""
    made = []
    send, answer, tell = ClientServerConnection.send_command, proxies._Handler._call, proxies._Handler.apply

    def sent(connection, command):
        if not command.startswith("m\n"):
            made.append(command[:60])
        return send(connection, command)

    def called(handler, name, *arguments):
        made.append(name)
        return answer(handler, name, *arguments)

    def told(handler, name, arguments):
        made.append(name)
        return tell(handler, name, arguments)

    monkeypatch.setattr(ClientServerConnection, "send_command", sent)
    monkeypatch.setattr(proxies._Handler, "_call", called)
    monkeypatch.setattr(proxies._Handler, "apply", told)

    @contextmanager
    def counted():
        made.clear()
        yield made

    return counted


@pytest.fixture
def names(spark, uri, tmp_path):
    """The same rows by the names of a table and of a Parquet file."""
    register(spark)
    assert capabilities(spark).no_batches is None
    rows = pa.table(
        {"id": list(range(4000)), "b": [at % 50 for at in range(4000)], "c": [at / 10 for at in range(4000)]}
    )
    lance.write_dataset(rows, uri, max_rows_per_file=100).create_scalar_index("id", "BTREE")
    spark.read.format("lance").load(uri).write.parquet(str(tmp_path / "parquet"))
    return f"lance.`{uri}`", f"parquet.`{tmp_path / 'parquet'}`"


QUESTIONS = {
    "aggregate": ("SELECT sum(id) FROM {t} WHERE b < 24 AND c > 0.05", 1),
    "look-up": ("SELECT * FROM {t} WHERE id = 77", 1),
    "expression": ("SELECT b, sum(id + 1) FROM {t} WHERE c > 3 GROUP BY b", 1),
    "first rows": ("SELECT id, c FROM {t} ORDER BY c DESC LIMIT 5", 1),
    "all": ("SELECT * FROM {t} WHERE b IN (1, 2, 3) LIMIT 10", 1),
    "join": ("SELECT count(x.c) FROM {t} x JOIN {t} y ON x.id = y.b WHERE y.id < 90", 2),
}


@pytest.mark.parametrize("place", MOST)
@pytest.mark.parametrize("question", QUESTIONS)
def test_a_table_is_planned_in_a_few_calls(spark, names, calls, monkeypatch, question, place):
    if place == "in tasks":
        monkeypatch.setattr(scan, "LOCAL_ROWS", 0)
        monkeypatch.setattr(scan, "SMALL_ROWS", 0)
    text, tables = QUESTIONS[question]
    found = {}
    for name in names:
        spark.sql(text.format(t=name)).collect()  # what a session learns once
        with calls() as made:
            rows = spark.sql(text.format(t=name)).collect()
            found[name] = [*made]
        assert rows
    ours, parquet = (found[name] for name in names)
    assert len(ours) - len(parquet) <= MOST[place] * tables, ours


def test_without_classes_there_are_the_same_answers_and_more_calls(spark, names, calls, monkeypatch):
    monkeypatch.setattr(scan, "LOCAL_ROWS", 0)
    text = QUESTIONS["aggregate"][0].format(t=names[0])
    expected = spark.sql(text).collect()
    monkeypatch.setattr(connected[spark], "maker", None)
    monkeypatch.setattr(connected[spark], "batches", False)
    with calls() as made:
        assert spark.sql(text).collect() == expected
    assert len(made) > 2 * MOST["in tasks"]


COLUMN = {"statement": 6, "handle": 30}
"""Most calls that each column of a table adds to a MERGE of whole rows: a table of 1,000 has 1,000 times as many."""


@pytest.mark.parametrize("way", COLUMN)
def test_a_merge_makes_few_calls_for_each_column(spark, tmp_path, calls, way):
    def merged(width):
        uri = str(tmp_path / f"{width}")
        rows = pa.table({"id": [1, 2, 3], **{f"c{at}": [1, 2, 3] for at in range(width)}})
        lance.write_dataset(rows, uri)
        spark.createDataFrame(rows.slice(2).to_pandas()).createOrReplaceTempView("changed")
        with calls() as made:
            if way == "statement":
                clauses = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
                spark.sql(f"MERGE INTO lance.`{uri}` t USING changed s ON t.id = s.id {clauses}").collect()
            else:
                merge = LanceTable.for_path(uri, spark=spark).merge(spark.table("changed"), on="id")
                merge.when_matched_update_all().when_not_matched_insert_all().execute()
            return len(made)

    register(spark)
    merged(2)
    assert (merged(60) - merged(20)) / 40 <= COLUMN[way]


def test_what_is_equal_stays_equal(spark, names):
    frames = [spark.table(names[0]) for _ in range(2)]
    tables = [frame._jdf.queryExecution().analyzed().collectLeaves().apply(0).table() for frame in frames]
    assert tables[0].equals(tables[1])
    assert tables[0].hashCode() == tables[1].hashCode()
    assert not tables[0].equals(None)
    assert not tables[0].equals("another")
    assert tables[0].toString().startswith("NativeTable ")


class Run(proxies.Implementation):
    interfaces = ("java.lang.Runnable",)

    def __init__(self, bridge):
        super().__init__(bridge)
        self.runs = 0

    def run(self):
        self.runs += 1
        assert self.bridge.thread() != 0  # a call from inside of the call


def test_threads_of_java_that_have_ended_leave_no_connection_behind(spark):
    """A server runs each statement in threads of its own: some thousand took all its files."""
    register(spark)
    bridge = connected[spark]
    run, before = Run(bridge), threading.active_count()
    runnable = run.java()
    for _ in range(150):
        thread = bridge.new("java.lang.Thread", runnable)
        thread.start()
        thread.join()
    assert run.runs == 150
    assert threading.active_count() < before + 75
    callers.close_ended()
    end = time.monotonic() + 60
    while threading.active_count() > before + 10:
        assert time.monotonic() < end
        time.sleep(0.05)
