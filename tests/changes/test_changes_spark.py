"""``LanceTable.changes``: the same rows as in this process, as DataFrames, with and without a shuffle.

What each operation gives is in tests/changes/test_changes_between.py, without Spark.
"""

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, TimestampType
from support.feeds import TOLD, brief, feed
from support.merge_datasets import exp, forked, head, table

from lance_spark import LanceTable
from lance_spark.errors import NotFound, Refused

pytestmark = [pytest.mark.spark, pytest.mark.when(oldest=0.15)]

ROOT = Path(__file__).parents[2]


def collected(frame):
    return [row.asDict(recursive=True) for row in frame.collect()]


def changed(uri):
    """A branch with every way to read rows: whole fragments, single rows, columns in place, and rows to pair."""
    forked(uri, stable=True)
    head(uri).delete("id = 5")
    exp(uri).update({"v": "-1"}, "id IN (3, 4)")
    exp(uri).add_columns({"w": "nullif(id % 2, 1)"})
    lance.write_dataset(table(30, 33), exp(uri).uri, mode="append")
    exp(uri).delete("id IN (4, 31)")
    return uri


@pytest.mark.when(day=0.3)
@pytest.mark.parametrize(
    "options",
    [{}, {"net": True}, {"key": "id", "images": "post"}, {"columns": "v", "images": "none", "net": True}],
    ids=["all", "net", "post", "one column"],
)
def test_spark_gives_what_this_process_gives(spark, uri, options):
    changed(uri)
    frame = LanceTable.for_path(uri, spark=spark).checkout(branch="exp").changes("main", **options)
    assert [field.dataType for field in frame.schema.fields[-4:]] == [
        StringType(), LongType(), TimestampType(), StringType(),
    ]  # fmt: skip
    assert tuple(frame.columns[-4:]) == TOLD
    local = {**options, "key": ("id",) if "key" in options else ()}
    local |= {"columns": ("v",)} if "columns" in options else {}
    expected = feed(uri, "main", branch="exp", **local)
    assert len(expected) > 4
    found = collected(frame)
    assert brief(found) == brief(expected)
    times = {row["_commit_version"]: row["_commit_timestamp"].replace(tzinfo=None) for row in expected}
    assert {row["_commit_version"]: row["_commit_timestamp"] for row in found} == times


def test_a_feed_stays_what_it_was_and_an_empty_one_has_its_columns(spark, uri):
    lance.write_dataset(table(0, 3), uri)
    handle = LanceTable.for_path(uri, spark=spark)
    empty = handle.changes(1)
    lance.dataset(uri).delete("id = 1")
    first = handle.changes(1)
    lance.dataset(uri).delete("id = 2")
    assert empty.columns == ["id", "v", *TOLD]
    assert (empty.count(), first.count()) == (0, 1)
    assert handle.changes(1).where("_change_type = 'delete'").select("id").orderBy("id").collect() == [(1,), (2,)]


def test_types_of_every_kind_cross_to_spark(spark, uri):
    rows = pa.table(
        {
            "id": pa.array([1, 2], pa.uint64()),
            "vec": pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float32(), 2)),
            "half": pa.array([1.5, None], pa.float16()),
            "local": pa.array([{"a.b": [1]}, None], pa.struct([("a.b", pa.list_(pa.int8()))])),
            "word": pa.array(["x", "y"]).dictionary_encode(),
        }
    )
    lance.write_dataset(rows, uri)
    lance.dataset(uri).update({"half": "2"}, "id = 2")
    handle = LanceTable.for_path(uri, spark=spark)
    frame = handle.changes(1, key="id")
    before, after = sorted(collected(frame), key=lambda row: row["_change_type"], reverse=True)
    assert (before["half"], after["half"], after["vec"], after["word"]) == (None, 2.0, [3.0, 4.0], "y")
    assert frame.schema["vec"].metadata == handle.schema["vec"].metadata != {}


@pytest.mark.when(spark="newest")
def test_what_cannot_be_told_is_refused_when_it_is_asked_for(spark, uri):
    changed(uri)
    Path(uri, "tree", "exp", "_versions", f"{2**64 - 1 - 6:020}.manifest").unlink()
    handle = LanceTable.for_path(uri, spark=spark).checkout(branch="exp")
    with pytest.raises(NotFound, match="Version 6 of 'exp' is gone"):
        handle.changes("main")
    assert handle.changes(7).count() == 2


@pytest.mark.when(spark="newest")
def test_without_a_session_it_says_what_to_do_instead(uri, monkeypatch):
    lance.write_dataset(table(0, 3), uri)
    monkeypatch.setattr("lance_spark.spark.rows.needed_session", refuse)
    with pytest.raises(Refused, match="lance-git diff --rows"):
        LanceTable.for_path(uri).changes(1)


def refuse(spark, hint):
    raise Refused(hint)
