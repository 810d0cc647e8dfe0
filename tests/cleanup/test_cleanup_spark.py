"""Cleanup as Spark jobs: the same decisions as without Spark, plans as DataFrames, errors as what they are."""

import json
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from support.frames import all_files, numbers, save

from lance_spark import CleanupPolicy, LanceTable
from lance_spark.errors import CorruptData, InvalidOption, Refused

pytestmark = [pytest.mark.spark, pytest.mark.when(newest=0.5, oldest=0.1)]

ONE_SPARK = pytest.mark.when(spark="newest")
NOW = timedelta(0)
EVERYTHING_OLD = CleanupPolicy(older_than=NOW, commit_window=NOW, error_if_tagged_old_versions=False)


def rows(first, last):
    return pa.table({"id": pa.array(range(first, last), pa.int64())})


@pytest.fixture
def history(uri):
    """main with 7 versions, an index, deletions; tag ``two``; branch ``exp/a`` from 3, ``exp/a/b`` from that."""
    dataset = lance.write_dataset(rows(0, 10), uri)
    for first in (10, 20, 30):
        dataset = lance.write_dataset(rows(first, first + 10), uri, mode="append")
    dataset.tags.create("two", 2)
    branch = dataset.create_branch("exp/a", 3)
    for first in (100, 200):
        branch = lance.write_dataset(rows(first, first + 10), branch, mode="append")
    below = branch.create_branch("exp/a/b", ("exp/a", branch.version))
    lance.write_dataset(rows(300, 305), below, mode="overwrite")
    dataset.create_scalar_index("id", "BTREE")
    dataset.delete("id % 3 = 0")
    lance.write_dataset(rows(0, 7), uri, mode="overwrite")
    return uri


def contents(uri, *names):
    dataset = lance.dataset(uri)
    found = {"main": dataset.to_table()["id"].to_pylist(), "two": dataset.checkout_version("two").count_rows()}
    for name in names:
        found[name] = dataset.checkout_version((name, None)).to_table()["id"].to_pylist()
    return found


def paths(plan):
    frame = plan.candidates()
    table = frame if isinstance(frame, pa.Table) else frame.toArrow()
    return sorted(table.select(["path", "kind", "size", "branch", "reason", "verified"]).to_pylist(), key=str)


@pytest.mark.when(spark="newest")
@pytest.mark.when(day=0.5)
@pytest.mark.parametrize(
    "policy",
    [
        EVERYTHING_OLD,
        pytest.param(
            CleanupPolicy(retain_versions=2, commit_window=NOW, error_if_tagged_old_versions=False), marks=ONE_SPARK
        ),
        pytest.param(
            CleanupPolicy(versions=frozenset({3, 4}), commit_window=NOW, keep_fork_versions=False), marks=ONE_SPARK
        ),
        pytest.param(CleanupPolicy(), marks=ONE_SPARK),
    ],
    ids=["older than now", "retain 2", "exact versions", "default"],
)
def test_spark_and_the_local_runner_decide_the_same(spark, history, policy):
    table = LanceTable.for_path(history, spark=spark)
    on_spark, local = (table.cleanup(policy, run_on=run_on) for run_on in ("spark", "local"))
    assert paths(on_spark) == paths(local)
    planned = [report.planned for report in (on_spark.report(), local.report())]
    assert planned[0] == planned[1]
    assert (on_spark.report().to_delete[0] > 0) == (policy != CleanupPolicy())


@pytest.mark.parametrize("run_on", ["spark", pytest.param("local", marks=ONE_SPARK)])
def test_a_cleanup_leaves_what_is_kept_and_nothing_else(spark, history, run_on):
    table = LanceTable.for_path(history, spark=spark)
    before, names = contents(history, "exp/a", "exp/a/b"), all_files(history)
    dry = table.cleanup(EVERYTHING_OLD, run_on=run_on).report()
    assert all_files(history) == names
    report = table.cleanup(EVERYTHING_OLD, run_on=run_on).apply()
    assert contents(history, "exp/a", "exp/a/b") == before
    assert report.count("deleted") == dry.to_delete
    assert report.complete
    left = [name for name in all_files(history) if not name.endswith(".columns.json")]
    assert len(names) - len(left) == report.count("deleted")[0]
    assert {name: counts["removed"] for name, counts in report.versions.items()} == {
        "main": 4,
        "exp/a": 2,
        "exp/a/b": 1,
    }
    again = table.cleanup(EVERYTHING_OLD, run_on=run_on).apply()
    assert again.count("deleted") == (0, 0)
    assert json.loads(report.to_json())["totals"]["deleted"]["files"] == dry.to_delete[0]


@pytest.mark.when(spark="newest")
def test_candidates_are_a_data_frame_with_absolute_paths(spark, history):
    plan = LanceTable.for_path(history, spark=spark).cleanup(EVERYTHING_OLD, run_on="spark")
    frame = plan.candidates()
    assert frame.columns[:7] == ["path", "kind", "size", "last_modified", "branch", "reason", "verified"]
    for row in frame.collect():
        assert Path(row.path).stat().st_size == row.size
        assert abs(Path(row.path).stat().st_mtime - row.last_modified.timestamp()) < 0.001
    found = LanceTable.for_path(history).cleanup(EVERYTHING_OLD).candidates()  # the active session is the handle's
    assert sorted(found.collect()) == sorted(frame.collect())


@pytest.mark.when(spark="newest")
def test_a_stored_plan_is_carried_out_later_and_what_became_live_stays(spark, history, tmp_path):
    table = LanceTable.for_path(history, spark=spark)
    table.cleanup(EVERYTHING_OLD, run_on="spark").store(str(tmp_path / "plan"))
    table.tags.create("rescued", version=4)
    lance.dataset(history, version=5).restore()
    report = table.open_cleanup_plan(str(tmp_path / "plan"), run_on="spark").apply()
    assert report.count("kept")[0] > 0
    assert lance.dataset(history).checkout_version("rescued").count_rows() == 40
    assert lance.dataset(history).to_table()["id"].to_pylist() == [*range(40)]
    assert spark.read.parquet(str(tmp_path / "plan")).count() == report.to_delete[0]


@pytest.mark.when(spark="newest")
def test_a_plan_of_another_dataset_is_refused(spark, history, tmp_path):
    table = LanceTable.for_path(history, spark=spark)
    table.cleanup(EVERYTHING_OLD).store(str(tmp_path / "plan"))
    lance.write_dataset(rows(0, 3), str(tmp_path / "other.lance"))
    with pytest.raises(InvalidOption, match=r"is for .*t.*lance, not for .*other.lance"):
        LanceTable.for_path(str(tmp_path / "other.lance"), spark=spark).open_cleanup_plan(str(tmp_path / "plan"))


@pytest.mark.when(spark="newest")
def test_tags_on_versions_that_would_go_are_an_error_by_default(spark, history):
    before = all_files(history)
    with pytest.raises(Refused, match="'two'"):
        LanceTable.for_path(history, spark=spark).cleanup(CleanupPolicy(older_than=NOW, commit_window=NOW)).apply()
    assert all_files(history) == before


@pytest.mark.when(spark="newest")
def test_a_manifest_that_cannot_be_read_stops_the_job_with_its_name(spark, history):
    manifest = sorted(Path(history, "_versions").glob("*.manifest"))[2]
    manifest.write_bytes(manifest.read_bytes()[:-20])
    before = all_files(history)
    with pytest.raises(CorruptData, match=manifest.name):
        LanceTable.for_path(history, spark=spark).cleanup(EVERYTHING_OLD, run_on="spark").apply()
    assert all_files(history) == before


@pytest.mark.when(spark="newest")
def test_an_inventory_is_used_instead_of_listing(spark, history):
    table = LanceTable.for_path(history, spark=spark)
    whole = paths(table.cleanup(EVERYTHING_OLD))
    listed = [(f"{history}/{name}", Path(history, name).stat()) for name in all_files(history)]
    inventory = spark.createDataFrame(
        [(path, entry.st_size, entry.st_mtime) for path, entry in listed if not path.endswith(".txn")],
        "path string, size bigint, seconds double",
    ).selectExpr("path", "size", "timestamp_micros(cast(seconds * 1000000 as bigint)) as last_modified")
    found = paths(table.cleanup(EVERYTHING_OLD, inventory=inventory))
    assert [row["path"] for row in found] == [row["path"] for row in whole if row["kind"] != "transaction"]


@pytest.mark.when(spark="newest")
def test_a_clone_made_here_is_found_by_later_cleanups(spark, history, tmp_path):
    table = LanceTable.for_path(history, spark=spark)
    clone = table.checkout(version=4).clone(str(tmp_path / "clone.lance"), follow=False)
    save(numbers(spark, 500, 503), clone.location.uri)
    table.cleanup(CleanupPolicy(older_than=NOW, commit_window=NOW, tags={"two": "keep"})).apply()
    found = sorted(lance.dataset(clone.location.uri).to_table()["id"].to_pylist())
    assert found == [*range(40), 500, 501, 502]
    assert lance.dataset(history).checkout_version(4).count_rows() == 40


@pytest.mark.when(spark="newest")
def test_automatic_cleanup_is_switched_on_and_off(spark, uri):
    save(numbers(spark, 0, 3), uri)
    table = LanceTable.for_path(uri, spark=spark)
    table.enable_auto_cleanup(interval=1, retain_versions=2, commit_window=NOW)
    for first in (10, 20, 30):
        save(numbers(spark, first, first + 1), uri)
    assert len(lance.dataset(uri).versions()) < 5
    table.disable_auto_cleanup()
    kept = len(lance.dataset(uri).versions())
    save(numbers(spark, 40, 41), uri)
    assert len(lance.dataset(uri).versions()) == kept + 1


@pytest.mark.when(spark="newest")
def test_automatic_cleanup_is_refused_where_it_would_lose_data(spark, uri, tmp_path):
    dataset = lance.write_dataset(rows(0, 3), uri)
    table = LanceTable.for_path(uri, spark=spark)
    with pytest.raises(InvalidOption, match="retain_versions"):
        table.enable_auto_cleanup(interval=1)
    lance.dataset(f"file://{uri}").create_branch("odd", dataset.version)
    with pytest.raises(Refused, match="'odd'"):
        table.enable_auto_cleanup(interval=1, older_than=timedelta(days=1))
    table.branches.delete("odd")
    table.clone(str(tmp_path / "clone.lance"), follow=False)
    with pytest.raises(Refused, match=r"clone\.lance"):
        table.enable_auto_cleanup(interval=1, older_than=timedelta(days=1))
