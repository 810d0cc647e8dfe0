"""Frozen sets on Spark's executors: the same bytes as on threads, and DataFrames in the set's order."""

from contextlib import contextmanager

import lance
import pyarrow as pa
import pytest
from support.local_datasets import make_dataset

from lance_spark import LanceTable
from lance_spark.engine.session_spark import engine_for
from lance_spark.errors import Refused
from lance_spark.frozen.draw_rules import make_spec
from lance_spark.frozen.frozen import diff_frozen, freeze

pytestmark = [pytest.mark.spark, pytest.mark.when(oldest=0)]  # there at night: the code is ours alone

SPLIT = {"train": 0.8, "val": 0.2}
SETTINGS = {  # of Spark, and in how many parts the table is read
    "fixed": ({"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "3"}, 2),
    "adaptive": ({"spark.sql.adaptive.enabled": "true", "spark.sql.shuffle.partitions": "7"}, 5),
    "one partition": ({"spark.sql.adaptive.enabled": "true", "spark.sql.shuffle.partitions": "1"}, 1),
}
by_night = {"marks": pytest.mark.when(day=0)}


@contextmanager
def settings(spark, given):
    before = {key: spark.conf.get(key) for key in given}
    try:
        for key, value in given.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)


@pytest.fixture(params=["fixed", pytest.param("adaptive", **by_night), pytest.param("one partition", **by_night)])
def frozen(spark, tmp_path, request):
    """A table with one call frozen on executors, in slices, and on threads."""
    given, parallelism = SETTINGS[request.param]
    uri = str(tmp_path / "visits.lance")
    ids = list(range(200))
    rows = pa.table(
        {
            "id": ids,
            "patient": [f"p{n // 5}" if n < 190 else None for n in ids],
            "vector": pa.array([[n, 1] for n in ids], pa.list_(pa.float32(), 2)),
        }
    )
    make_dataset(uri, rows, max_rows_per_file=40).delete("id % 7 = 0")
    table = LanceTable.for_path(uri, spark=spark)
    call = {"filter": "id < 190", "split": SPLIT, "by": "patient", "seed": 7}
    on_spark = engine_for("spark", lambda: spark, parallelism=parallelism)
    with settings(spark, given):
        freeze(table.location, table._pin(), make_spec("spark", **call), on_spark, at_once=30)
    table.frozen.create("threads", **call)
    with pytest.raises(Refused, match="9 rows have no 'patient'"):
        freeze(table.location, table._pin(), make_spec("no", by="patient"), on_spark)
    return table


def test_executors_make_the_plan_that_threads_make(frozen):
    uri = frozen.location.uri
    plans = [lance.dataset(f"{uri}/tree/frozen/{name}").to_table() for name in ("spark", "threads")]
    assert plans[0].combine_chunks() == plans[1].combine_chunks()
    found = frozen.frozen.read("spark", "train", with_position=True)
    rows = found.collect()
    assert [row["_position"] for row in rows] == list(range(len(rows)))
    expected = pa.Table.from_batches(frozen.frozen.batches("spark", "train"))
    assert [row["id"] for row in rows] == expected["id"].to_pylist()
    assert [row["vector"] for row in rows] == expected["vector"].to_pylist()
    assert found.schema["vector"].metadata
    assert frozen.frozen.read("spark", "val", columns=["patient"]).distinct().count() > 1
    assert frozen.frozen.read("spark").count() == len(plans[0])
    frozen.frozen.create("one", filter="id = 1", split={"val": 0.5, "train": 0.5}, by="patient")
    assert sorted(frozen.frozen.read("one", split).count() for split in SPLIT) == [0, 1]


def test_differences_are_found_on_executors(spark, frozen):
    frozen.frozen.create("other", filter="id < 150", split=SPLIT, seed=7)
    engine = engine_for("spark", lambda: spark, parallelism=2)
    here = frozen.frozen.diff("spark", "other")
    there = diff_frozen(frozen.location, ("spark", "other"), ("id",), engine)
    assert there.counts == here.counts
    assert sorted(map(tuple, there.frame.collect()), key=str) == sorted(map(tuple, here.frame.collect()), key=str)
    assert here.frame.count() == here.added + here.removed + here.moved > 0
