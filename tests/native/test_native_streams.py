"""``readStream.table`` and ``toTable``: streams out of and into tables of a catalog, by their names."""

import lance
import pytest
from pyspark.errors import StreamingQueryException
from support.local_datasets import numbers

pytestmark = [pytest.mark.spark, pytest.mark.on_connect]


def ids(uri, branch=None):
    dataset = lance.dataset(uri).checkout_version((branch, None))
    return sorted(dataset.to_table(columns=["id"])["id"].to_pylist())


def copy(spark, source, target, checkpoint):
    stream = spark.readStream.option("checkpointLocation", checkpoint).table(source)
    writer = stream.writeStream.option("checkpointLocation", checkpoint).trigger(availableNow=True)
    writer.toTable(target).awaitTermination()


@pytest.mark.when(oldest=0)
def test_a_branch_is_copied_into_a_new_table(spark, lake_flights, lake, tmp_path):
    copy(spark, "lake.ns1.`flights@exp/delays`", "lake.ns1.copy", str(tmp_path / "checkpoint"))
    into = lake.describe_table("ns1.copy").location.uri
    assert ids(into) == [*range(11)]
    assert [name.partition("-")[0] for name in lance.dataset(into).tags.list()] == ["stream"]
    tags = lance.dataset(lake_flights.location.uri).tags.list()
    assert [tags[name]["branch"] for name in tags if name.startswith("reader-")] == ["exp/delays"]


@pytest.mark.when(day=0)
def test_a_copy_goes_on_from_its_checkpoint(spark, lake_flights, lake, tmp_path):
    names = "lake.ns1.`flights@exp/delays`", "lake.ns1.copy", str(tmp_path / "checkpoint")
    copy(spark, *names)
    branch = lance.dataset(lake_flights.location.uri).checkout_version(("exp/delays", None))
    lance.write_dataset(numbers(2, 50), branch, mode="append")
    copy(spark, *names)
    assert ids(lake.describe_table("ns1.copy").location.uri) == [*range(11), 50, 51]


@pytest.mark.when(day=0)
def test_a_branch_of_a_table_takes_a_stream_and_complete_mode_replaces_it(spark, lake_flights, tmp_path):
    stream = spark.readStream.table("lake.ns1.flights")
    for number, (frame, mode, name) in enumerate(
        [
            (stream, "append", "lake.ns1.`flights@exp/delays`"),
            (stream.groupBy().count().selectExpr("count AS id"), "complete", "lake.ns1.counted"),
        ]
    ):
        writer = frame.writeStream.outputMode(mode).option("checkpointLocation", str(tmp_path / str(number)))
        writer.trigger(availableNow=True).toTable(name).awaitTermination()
    assert ids(lake_flights.location.uri, "exp/delays") == sorted([*range(11), *range(10)])
    assert [row.id for row in spark.table("lake.ns1.counted").collect()] == [10]


@pytest.mark.when(day=0)
@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("lake.ns1.`flights@v2013`", {}, "a tag never changes"),
        ("lake.ns1.flights", {"changes": "true"}, "option('catalog'"),
        ("lake.ns1.flights", {"filter": "id > 1"}, "takes no option 'filter'"),
        ("lake.ns1.flights", {"starting_version": "x"}, "no branch or tag 'x'"),
    ],
)
def test_what_a_stream_by_name_cannot_be(name, options, said, spark, lake_flights, tmp_path):
    writer = spark.readStream.options(**options).table(name).writeStream.trigger(availableNow=True)
    with pytest.raises(StreamingQueryException) as caught:
        writer.option("checkpointLocation", str(tmp_path / "c")).toTable("lake.ns1.x").awaitTermination()
    assert said in str(caught.value)
