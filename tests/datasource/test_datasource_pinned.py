"""A DataFrame stays at the version it was loaded at, and can be used again in any query."""

import re
import shutil

import lance
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from support.frames import ids, load, save
from support.spark_settings import settings_of

from lance_spark import LanceTable
from lance_spark.errors import Conflict, CorruptData, NotFound

pytestmark = [
    pytest.mark.spark,
    pytest.mark.when(oldest=0.15, newest=0.4),
    pytest.mark.usefixtures("both_ways"),
]

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def batch(first, last):
    return pa.table({"id": pa.array(range(first, last), pa.int64()), "x": pa.array([1.5] * (last - first))})


@pytest.fixture(params=["true", "false"])
def pushdown(spark, request):
    """Spark's setting for filter push-down into Python sources, which exists from 4.1 on."""
    with settings_of(spark, {PUSHDOWN: request.param}):
        yield request.param


@pytest.mark.when(spark="newest")
@pytest.mark.parametrize("schema", [None, "id bigint"], ids=["its schema", "given schema"])
@pytest.mark.parametrize("branch", ["main", "exp"])
def test_later_commits_never_change_a_data_frame(spark, uri, schema, branch):
    lance.write_dataset(batch(0, 10), uri).create_branch("exp", 1)
    frame = load(spark, uri, schema, branch=branch)
    if schema is not None:
        frame.isEmpty()  # Spark asks no source that was given its schema before the first query
    target = uri if branch == "main" else f"{uri}/tree/exp"
    lance.write_dataset(batch(10, 20), target, mode="append")
    assert frame.count() == 10
    lance.dataset(target).delete("id < 5")
    assert ids(frame.select("id")) == list(range(10))
    lance.write_dataset(pa.table({"other": ["a"]}), target, mode="overwrite")
    assert frame.where("id >= 7").count() == 3
    assert frame.union(frame).count() == 20


@pytest.mark.when(spark="newest")
def test_a_moved_tag_does_not_move_a_data_frame(spark, uri):
    lance.write_dataset(batch(0, 10), uri).tags.create("release", 1)
    frame = load(spark, uri, tag="release")
    lance.write_dataset(batch(10, 20), uri, mode="append").tags.update("release", 2)
    assert frame.count() == 10
    assert load(spark, uri, tag="release").count() == 20


def test_a_data_frame_can_be_filtered_again_and_again(spark, uri, pushdown):
    lance.write_dataset(batch(0, 100), uri)
    frame = load(spark, uri)
    assert frame.count() == 100
    assert frame.where("id >= 90").count() == 10
    assert frame.count() == 100
    assert frame.where("id >= 90").union(frame.where("id >= 50")).count() == 60
    assert frame.where("id < 3").join(frame, "id").count() == 3
    assert frame.where("id < 5").join(frame.where("id > 2"), "id").select("id").count() == 2
    assert frame.where("x is null").count() == 0
    assert frame.select("x").distinct().count() == 1


@pytest.mark.when(spark="newest")
def test_the_filter_option_belongs_to_its_own_data_frame(spark, uri, pushdown):
    lance.write_dataset(batch(0, 100), uri)
    few, all_rows = load(spark, uri, filter="id < 10"), load(spark, uri)
    assert few.union(all_rows).count() == 110
    assert few.where("id >= 5").count() == 5
    assert few.count() == 10
    assert all_rows.exceptAll(few).count() == 90


@pytest.mark.when(spark="newest")
def test_two_versions_can_be_compared_in_one_query(spark, uri):
    lance.write_dataset(batch(0, 10), uri)
    lance.write_dataset(batch(5, 15), uri, mode="overwrite")
    old, new = load(spark, uri, version=1), load(spark, uri, version=2)
    assert ids(old.join(new, "id", "left_anti")) == list(range(5))
    assert ids(new.join(old, "id", "left_anti")) == list(range(10, 15))


def test_a_data_frame_can_be_appended_to_the_dataset_it_was_read_from(spark, uri):
    lance.write_dataset(batch(0, 10), uri)
    frame = load(spark, uri, version=1)  # without it, an overwrite that did not see the appends is a conflict
    save(frame, uri)
    save(frame, uri)
    assert lance.dataset(uri).count_rows() == 30
    save(frame.where("id = 3"), uri, mode="overwrite")
    assert lance.dataset(uri).to_table()["id"].to_pylist() == [3]
    assert frame.count() == 10


@pytest.mark.when(spark="newest")
def test_a_dataset_replaced_by_another_one_is_not_mixed_with_it(spark, uri):
    lance.write_dataset(batch(0, 10), uri)
    frame = load(spark, uri)
    assert frame.count() == 10
    shutil.rmtree(uri)
    lance.write_dataset(batch(50, 60), uri)
    assert ids(load(spark, uri).select("id")) == list(range(50, 60))
    ours = (Conflict, NotFound, CorruptData)
    with pytest.raises((*ours, PySparkException)) as caught:
        frame.collect()
    assert isinstance(caught.value, ours) or re.search(
        r"lance_spark\.errors\.(Conflict|NotFound|CorruptData)", str(caught.value)
    )


def test_a_new_read_sees_a_change_although_an_older_one_is_cached(spark, uri):
    lance.write_dataset(batch(0, 5), uri)
    table = LanceTable.for_path(uri, spark=spark)
    reads = {
        "format": lambda: spark.read.format("lance").load(uri),
        "option": lambda: spark.read.format("lance").option("path", uri).load(),
        "handle": table.to_df,
    }
    old = {name: read().cache() for name, read in reads.items()}
    assert all(ids(frame) == [0, 1, 2, 3, 4] for frame in old.values())
    table.delete("id = 1")
    table.update({"id": "id + 10"}, where="id = 4")
    for name, read in reads.items():
        assert ids(read()) == [0, 2, 3, 14], name
        assert ids(old[name]) == [0, 1, 2, 3, 4], name
    spark.catalog.clearCache()
