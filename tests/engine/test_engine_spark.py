"""Both sides of the border between threads and Spark, on real tables; what reports and job tags say of it."""

import json
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from support.engines import everything_on_spark

from lance_spark import CleanupPolicy, LanceTable
from lance_spark.engine.local import LITTLE
from lance_spark.engine.session_spark import SparkRunner

pytestmark = [pytest.mark.spark, pytest.mark.when(spark="newest")]

EVERYTHING_OLD = CleanupPolicy(older_than=timedelta(0), commit_window=timedelta(0))


def rows(first, last):
    return pa.table({"id": pa.array(range(first, last), pa.int64())})


@pytest.fixture
def table(spark, uri):
    for first in (0, 10):
        lance.write_dataset(rows(first, first + 10), uri, mode="append" if first else "create")
    lance.dataset(uri).create_branch("exp")
    return LanceTable.for_path(uri, spark=spark)


def append(table, branch, first, files):
    """As many rows, each in a file of its own."""
    uri = table.location.branch_uri(branch)
    lance.write_dataset(rows(first, first + files), uri, mode="append", max_rows_per_file=1, max_rows_per_group=1)


@pytest.fixture
def tags(monkeypatch):
    """Tags of the jobs that were run."""
    found = []
    add = SparkSession.addTag
    monkeypatch.setattr(SparkSession, "addTag", lambda session, tag: (found.append(tag), add(session, tag)))
    return found


@pytest.fixture
def jobs(spark):
    """Counts Spark's jobs since the test began."""
    tracker = spark.sparkContext.statusTracker()
    before = set(tracker.getJobIdsForGroup(None))
    return lambda: len(set(tracker.getJobIdsForGroup(None)) - before)


@pytest.fixture
def nothing_is_little():
    with everything_on_spark():
        yield


@pytest.mark.parametrize(
    ("files", "where"),
    [(LITTLE.copies, "local"), pytest.param(LITTLE.copies + 1, "spark", marks=pytest.mark.when(day=0))],
)
def test_a_merge_goes_to_spark_with_its_first_file_too_many(table, tags, jobs, files, where):
    append(table, "exp", 100, files)
    result = table.branches.merge("exp")
    assert (result.summary.files, result.ran_on) == (files, where)
    assert tags == {"local": [], "spark": ["lance merge: copy"]}[where]
    assert bool(jobs()) == (where == "spark")
    ids = lance.dataset(table.location.uri).to_table()["id"].to_pylist()
    assert sorted(ids) == [*range(20), *range(100, 100 + files)]


def test_a_small_cleanup_starts_no_job(table, jobs):
    plan = table.cleanup(EVERYTHING_OLD)
    report = plan.apply()
    assert (jobs(), report.ran_on, json.loads(report.to_json())["ran_on"]) == (0, "local", "local")
    assert "ran on local" in report.summary()


@pytest.mark.usefixtures("nothing_is_little")
def test_a_cleanup_beyond_the_border_runs_on_spark(table, tags, tmp_path):
    report = table.cleanup(EVERYTHING_OLD).report()
    assert (report.ran_on, json.loads(report.to_json())["ran_on"]) == ("spark", "spark")
    assert report.summary().endswith("ran on spark)")
    table.cleanup(EVERYTHING_OLD).store(str(tmp_path / "plan"))
    done = table.open_cleanup_plan(str(tmp_path / "plan")).apply()
    assert (done.ran_on, done.to_delete) == ("spark", report.to_delete)
    assert {tag.partition(":")[0] for tag in tags} == {"lance cleanup"}


@pytest.mark.parametrize("place", [nullcontext, everything_on_spark], ids=["local", "spark"])
def test_candidates_are_a_data_frame_however_many_there_are(table, place):
    with place():
        frame = table.cleanup(EVERYTHING_OLD).candidates()
    assert isinstance(frame, DataFrame)
    found = {(row.path.rpartition(".")[2], row.kind, row.last_modified is None) for row in frame.collect()}
    assert found == {("manifest", "manifest", False), ("txn", "transaction", False)}
    assert isinstance(table.cleanup(EVERYTHING_OLD, run_on="local").candidates(), pa.Table)


@pytest.mark.usefixtures("nothing_is_little")
def test_everything_that_copies_uses_the_engine_and_names_its_jobs(table, tags, tmp_path):
    append(table, "exp", 100, 2)
    newest = table.checkout(branch="exp").version
    assert table.cherry_pick("exp", newest).ran_on == "spark"
    with table.transaction() as step:
        append(table, step.ref.branch, 200, 2)
    mine = table.clone(str(tmp_path / "mine.lance"))
    append(mine, None, 300, 1)
    assert mine.remotes.push().replayed.ran_on == "spark"
    assert tags == ["lance cherry-pick: copy", "lance merge: copy", "lance push: copy"]
    assert table.count_rows() == 25


@pytest.mark.parametrize(("more", "job"), [(0, []), (1, ["lance optimize: rewrite 1001 fragments"])])
def test_a_compaction_goes_to_spark_with_its_first_fragment_too_many(table, tags, more, job):
    files = LITTLE.rewrites + more - 2  # beside those that the table has
    append(table, None, 100, files)
    assert table.optimize().fragments_removed == files + 2
    assert tags == job
    assert table.count_rows() == 20 + files


@pytest.mark.parametrize("items", [1, 16, 17, 100])
def test_many_items_share_tasks_and_stay_in_order(spark, items):
    def numbered(item):
        yield pa.record_batch([pa.array([item]), pa.array([TaskContext.get().partitionId()])], ["item", "task"])

    runner, schema = SparkRunner(spark, "test"), pa.schema([("item", pa.int64()), ("task", pa.int64())])
    found = runner.collect("count", runner.flat_map("count", range(items), numbered, schema))
    assert found["item"].to_pylist() == [*range(items)]
    assert len(found["task"].unique()) == min(items, 16)  # eight for each of two cores


def test_nothing_runs_before_there_is_work(spark, jobs):
    """Not even to find out how many cores there are."""
    runner = SparkRunner(spark, "merge")
    assert jobs() == 0
    assert runner.parallelism == 2
    counted = jobs()
    assert counted > 0
    assert (runner.parallelism, SparkRunner(spark, "merge", 7).parallelism, jobs()) == (2, 7, counted)


@pytest.mark.parametrize(("where", "there"), [("auto", "local"), ("local", "local"), ("spark", "spark")])
def test_an_inventory_as_an_arrow_table_works_everywhere(table, where, there):
    whole = table.cleanup(EVERYTHING_OLD, run_on="local").candidates()
    inventory = whole.select(["path", "size", "last_modified"])
    plan = table.cleanup(
        CleanupPolicy(older_than=timedelta(0), commit_window=timedelta(0)), run_on=where, inventory=everything(table)
    )
    assert plan.runner.name == there
    assert plan.report().to_delete[0] == inventory.num_rows


def everything(table):
    """The inventory of a local dataset."""
    files = [path for path in Path(table.location.uri).rglob("*") if path.is_file()]
    stats = [path.stat() for path in files]
    return pa.table(
        {
            "path": [str(path) for path in files],
            "size": pa.array([stat.st_size for stat in stats], pa.int64()),
            "last_modified": pa.array([stat.st_mtime_ns // 1000 for stat in stats], pa.timestamp("us", "UTC")),
        }
    )
