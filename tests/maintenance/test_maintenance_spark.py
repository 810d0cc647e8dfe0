"""jobs/maintain.py in one Spark application, and maintenance and storage from Python and SQL."""

import json
from pathlib import Path

import lance
import pytest
from support.catalogs import make_table
from support.cleanup_datasets import append
from support.local_datasets import numbers
from support.scripts import script

from lance_spark import LanceCatalog
from lance_spark.catalog.lookup import create_namespace

pytestmark = [pytest.mark.spark, pytest.mark.when(spark="newest")]
ROOT = Path(__file__).parents[2]
POLICY = {"compaction": {"small_fragments": 2}, "cleanup": {"older_than": "0s", "commit_window": "0s"}}


@pytest.fixture
def lake(spark, tmp_path):
    """Three tables of three fragments, each with a branch."""
    lake = LanceCatalog(str(tmp_path / "lake"), spark=spark)
    create_namespace(lake.catalog, "ns1")
    for name in ("ns1.a", "ns1.b", "c"):
        uri = make_table(lake.catalog, name, numbers(5)).location.uri
        for start in (10, 20):
            append(uri, start)
        lance.dataset(uri).create_branch("exp")
        append(uri, 100, branch="exp")
    return lake


def states(report):
    return {(table.name, step.name): step.state for table in report.tables for step in table.steps}


@pytest.fixture(scope="module")
def job():
    return script("jobs/maintain.py")


def test_threads_share_the_session_and_leave_it_as_it_is(spark, lake, job, tmp_path):
    report = tmp_path / "report.json"
    command = [lake.catalog.uri, "--run-on", "spark", "--parallelism", "2", "--report", str(report)]
    assert job.main([*command, "--execute", "--only", "fsck", "--table", "ns1.*"]) == 0
    assert spark.range(3).count() == 3  # the session of somebody else goes on
    assert {table["state"] for table in json.loads(report.read_text())["tables"]} == {"done"}


@pytest.mark.when(day=0)
def test_threads_that_share_the_session_do_what_threads_alone_do(spark, lake, job, tmp_path):
    sorted(Path(lake.table("ns1.b").location.uri, "data").iterdir())[0].unlink()
    policy, report = tmp_path / "policy.toml", tmp_path / "report.json"
    policy.write_text('[compaction]\nsmall_fragments = 2\n[cleanup]\nolder_than = "0s"\ncommit_window = "0s"\n')
    command = [
        lake.catalog.uri,
        "--policy",
        str(policy),
        "--run-on",
        "spark",
        "--parallelism",
        "2",
        "--report",
        str(report),
    ]
    assert job.main([*command, "--execute", "--skip", "indexes", "--tables-at-once", "3"]) == 6
    assert spark.range(3).count() == 3  # the session of somebody else goes on
    told = {table["table"]: table for table in json.loads(report.read_text())["tables"]}
    assert {name: table["state"] for name, table in told.items()} == {"c": "done", "ns1.a": "done", "ns1.b": "failed"}
    stopped = {step["step"] for step in told["ns1.b"]["steps"] if step["state"] == "stopped"}
    assert stopped == {"fsck", "cleanup"}
    for name in ("c", "ns1.a"):
        dataset = lance.dataset(lake.table(name).location.uri)
        assert len(dataset.get_fragments()) == 1
        assert dataset.count_rows() == 11
        assert lance.dataset(f"{dataset.uri}/tree/exp").count_rows() == 14


def test_a_catalog_and_a_table_are_maintained_from_python(lake):
    planned = lake.maintain(POLICY, run_on="local").report()
    assert (planned.executed, states(planned)["c", "compaction of main"]) == (False, "would")
    done = lake.maintain(POLICY, limit="1h", run_on="local").apply()
    assert (done.exit_code, states(done)["ns1.a", "cleanup"]) == (0, "done")
    (again,) = lake.table("ns1.a").maintain(POLICY).report().tables
    assert {step.name: step.state for step in again.steps}["compaction of main"] == "nothing"


def test_storage_of_a_catalog_is_the_same_on_executors_and_has_a_data_frame(lake):
    here, there = lake.storage(run_on="local"), lake.storage(run_on="spark")
    assert (here.ran_on, there.ran_on) == ("local", "spark")
    rows = [{key: row[key] for key in ("table", "files", "bytes", "unneeded_bytes", "branches")} for row in here.tables]
    assert rows == [{key: row[key] for key in rows[0]} for row in there.tables]
    assert [row["branches"] for row in rows] == [1, 1, 1]
    assert here.bytes == sum(lake.table(row["table"]).storage(run_on="local").bytes for row in rows)
    assert there.to_df().where("table = 'c'").select("error").collect() == [("",)]
    assert {row["table"] for row in lake.storage("ns1", run_on="local").tables} == {"ns1.a", "ns1.b"}
