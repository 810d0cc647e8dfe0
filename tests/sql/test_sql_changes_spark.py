"""SQL's ``CHANGES FROM VERSION``, where Spark has it: the rows of ``LanceTable.changes``, in batches and streams."""

from collections import Counter
from datetime import timedelta, timezone

import lance
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrameReader
from support.local_datasets import numbers
from support.service_lakes import place

from lance_spark import errors

pytestmark = [
    pytest.mark.on_services,
    pytest.mark.spark,
    pytest.mark.on_connect,
    pytest.mark.when(spark="newest"),
    pytest.mark.skipif(not hasattr(DataFrameReader, "changes"), reason="this Spark has no CHANGES FROM"),
]
night = pytest.mark.when(day=0)


@pytest.fixture
def changed(lake_flights):
    """ns1.flights as in the fixture; on main, an update is version 3, a deletion 4 and an append 5."""
    dataset = lance.dataset(lake_flights.location.uri)
    dataset.update({"id": "id + 100"}, where="id = 3")
    dataset.delete("id = 1")
    lance.write_dataset(numbers(2, 50), dataset, mode="append")
    return lake_flights.checkout(branch="main")


def rows(frame):
    return Counter(str(row) for row in frame.collect())


RANGES = [
    ("FROM VERSION 3 TO VERSION 5", 2, 5),
    ("FROM VERSION 0", 0, None),
    ("FROM VERSION 1", 0, None),
    ("FROM VERSION 1 TO VERSION 1", 0, 1),
    ("FROM VERSION 1 EXCLUSIVE TO VERSION 4 EXCLUSIVE", 1, 3),
    ("FROM VERSION 2 INCLUSIVE TO VERSION 4 INCLUSIVE", 1, 4),
    ("FROM VERSION '3'", 2, None),
    ("FROM VERSION 'v2013' EXCLUSIVE", "v2013", None),
    ("FROM VERSION 'v2013' TO VERSION 'main@4'", 1, 4),
    ("FROM VERSION 6", 5, 5),
    ("FROM VERSION 5 EXCLUSIVE", 5, 5),
]


@pytest.mark.when(day={"asked": ["FROM VERSION 1"]})
@pytest.mark.parametrize(("asked", "since", "until"), RANGES)
def test_a_range_has_the_rows_of_the_feed(spark, changed, asked, since, until):
    found = spark.sql(f"SELECT * FROM lake.ns1.flights CHANGES {asked}")
    wanted = changed.changes(since, until, images="none")
    assert found.schema == wanted.schema
    assert rows(found) == rows(wanted)


@night
@pytest.mark.parametrize(
    ("given", "options"),
    [
        ("deduplicationMode = 'netChanges'", {"images": "none", "net": True}),
        ("deduplicationMode = 'none'", {"images": "none"}),
        ("computeUpdates = 'true', key = 'id'", {"images": "update", "key": "id"}),
        ("deduplicationMode = 'netChanges', computeUpdates = 'true', key = 'id'", {"net": True, "key": "id"}),
    ],
)
def test_options_are_those_of_the_feed(spark, changed, given, options):
    found = spark.sql(f"SELECT * FROM lake.ns1.flights CHANGES FROM VERSION 2 WITH ({given})")
    assert rows(found) == rows(changed.changes(1, **options))


@night
def test_moments_are_the_times_of_commits(spark, changed):
    times = {each.version: each.timestamp for each in changed.log()}
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    for asked, since, until in [
        (f"FROM TIMESTAMP '{shown(times[3])}' TO TIMESTAMP '{shown(times[4])}'", 2, 4),
        (f"FROM TIMESTAMP '{shown(times[3])}' EXCLUSIVE TO TIMESTAMP '{shown(times[4])}' EXCLUSIVE", 3, 3),
        ("FROM TIMESTAMP '2020-01-01'", 0, 5),
    ]:
        found = spark.sql(f"SELECT * FROM lake.ns1.flights CHANGES {asked}")
        assert rows(found) == rows(changed.changes(since, until, images="none")), asked


def shown(moment):
    return moment.astimezone(timezone.utc).strftime("%Y-%m-%d %H:%M:%S.%f")


@night
def test_a_branch_has_the_changes_that_led_to_it(spark, changed):
    found = spark.sql("SELECT * FROM lake.ns1.`flights@exp/delays` CHANGES FROM VERSION 1")
    branch = changed.checkout(branch="exp/delays")
    assert rows(found) == rows(branch.changes(0, images="none"))
    assert {row["_commit_branch"] for row in found.collect()} == {"main", "exp/delays"}
    newest = spark.sql("SELECT id FROM lake.ns1.`flights@exp/delays` CHANGES FROM VERSION 2 EXCLUSIVE")
    assert [row.id for row in newest.collect()] == [10]


@night
def test_queries_use_it_as_any_table(spark, changed):
    table = "lake.ns1.flights CHANGES FROM VERSION 1"
    assert spark.sql(f"SELECT count(*) FROM {table}").first()[0] == 15
    grouped = f"SELECT _change_type, count(*) FROM {table} WHERE id > 2 GROUP BY _change_type"
    assert {tuple(row) for row in spark.sql(grouped).collect()} == {("insert", 10), ("delete", 1)}
    joined = spark.sql(f"WITH c AS (SELECT * FROM {table}) SELECT a.id FROM c a JOIN lake.ns1.flights b ON a.id = b.id")
    assert joined.count() == 12 - 1
    both = "SELECT id FROM lake.ns1.flights CHANGES FROM VERSION {} TO VERSION {}"
    apart = spark.sql(f"{both.format(1, 1)} EXCEPT {both.format(2, 2)}")
    assert apart.count() == 5
    spark.sql(f"CREATE TABLE lake.ns1.kept AS SELECT id, _change_type AS kind FROM {table}")
    assert spark.table("lake.ns1.kept").count() == 15


@night
@pytest.mark.on_connect(False)  # whose frames are queries, analyzed by each action
def test_a_plan_runs_no_job_and_a_frame_keeps_its_end(spark, changed):
    frame = spark.sql("SELECT * FROM lake.ns1.flights CHANGES FROM VERSION 3")
    tracker = spark.sparkContext.statusTracker()
    before = set(tracker.getJobIdsForGroup())
    frame._jdf.queryExecution().executedPlan()
    assert set(tracker.getJobIdsForGroup()) == before
    spark.sql("INSERT INTO lake.ns1.flights VALUES (90)")
    assert 90 in {row.id for row in spark.sql("SELECT id FROM lake.ns1.flights CHANGES FROM VERSION 3").collect()}
    assert 90 not in {row.id for row in frame.collect()}


@night
def test_readers_ask_for_the_same(spark, changed):
    reader = spark.read.option("startingVersion", "3").option("endingVersion", "4")
    assert rows(reader.changes("lake.ns1.flights")) == rows(changed.changes(2, 4, images="none"))
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        reader.changes("lake.ns1.trips").collect()


@night
@pytest.mark.parametrize(
    ("asked", "error", "words"),
    [
        ("lake.ns1.flights CHANGES FROM VERSION 4 TO VERSION 2", errors.Refused, "cannot end with main@2"),
        ("lake.ns1.flights CHANGES FROM VERSION 9", errors.Refused, "cannot end with main@5"),
        ("lake.ns1.flights CHANGES FROM VERSION 2 TO VERSION 9", errors.NotFound, "no version 9"),
        ("lake.ns1.flights CHANGES FROM VERSION 'exp/delays'", errors.Refused, "did not lead"),
        ("lake.ns1.flights CHANGES FROM VERSION 'gone'", errors.NotFound, "gone"),
        ("lake.ns1.flights CHANGES FROM VERSION 1 TO VERSION 1 EXCLUSIVE", errors.Refused, "cannot end with nothing"),
        ("lake.ns1.flights CHANGES FROM VERSION 1 WITH (filter = 'id = 1')", errors.InvalidOption, "filter"),
        ("lake.ns1.flights.branches CHANGES FROM VERSION 1", errors.Refused, "cannot be read by SQL"),
    ],
)
def test_what_has_no_changes_is_refused(spark, changed, asked, error, words):
    with pytest.raises(error, match=words):
        spark.sql(f"SELECT * FROM {asked}").collect()


@night
def test_missing_history_is_told(spark, changed):
    changed.tags.delete("v2013")
    lance.dataset(changed.location.uri).cleanup_old_versions(timedelta(0), delete_unverified=True)
    with pytest.raises(errors.NotFound, match="its changes cannot be read"):
        spark.sql("SELECT * FROM lake.ns1.flights CHANGES FROM VERSION 3").collect()
    assert spark.sql("SELECT * FROM lake.ns1.flights CHANGES FROM VERSION 6").count() == 0


@night
@pytest.mark.parametrize("asked", ["CHANGES FROM VERSION 3", "CHANGES FROM VERSION 2 EXCLUSIVE", "moment"])
def test_a_stream_follows_the_changes(spark, changed, tmp_path, asked):
    if asked == "moment":
        moment = next(each.timestamp for each in changed.log() if each.version == 3)
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        asked = f"CHANGES FROM TIMESTAMP '{shown(moment)}'"
    frame = spark.sql(f"SELECT * FROM STREAM lake.ns1.flights {asked}")
    assert frame.isStreaming
    assert followed(frame, tmp_path) == rows(changed.changes(2, images="none"))


def followed(frame, tmp_path):
    out, checkpoint = str(tmp_path / "out"), str(tmp_path / "checkpoint")
    spark = frame.sparkSession
    spark.createDataFrame([], frame.schema).write.parquet(out)
    query = frame.writeStream.trigger(availableNow=True).option("checkpointLocation", checkpoint)
    query.format("parquet").start(out).awaitTermination()
    return rows(spark.read.parquet(out).select(*frame.columns))


@night
def test_a_stream_with_images_begins_with_all_rows(spark, changed, tmp_path):
    reader = spark.readStream.option("computeUpdates", "true")
    assert followed(reader.changes("lake.ns1.flights"), tmp_path).total() == 11
    net = spark.readStream.option("deduplicationMode", "netChanges").option("startingVersion", "2")
    with pytest.raises(StreamingQueryException, match="it goes on"):
        followed(net.changes("lake.ns1.flights"), tmp_path / "other")


@night
def test_columns_keep_their_types(spark, lake):
    made = pa.table(
        {
            "v": pa.array([[1.0, 2.0, 3.0]], pa.list_(pa.float32(), 3)),
            "s": pa.array([{"a": None}], pa.struct([("a", pa.int8())])),
            "t": pa.array([0], pa.timestamp("us")),
        }
    )
    uri, where = place(lake, "kinds")
    lance.write_dataset(made, uri)
    lake.register_table("ns1.kinds", where)
    found = spark.sql("SELECT * FROM lake.ns1.kinds CHANGES FROM VERSION 1")
    wanted = lake.table("ns1.kinds").changes(0)
    assert (found.schema, found.collect()) == (wanted.schema, wanted.collect())
