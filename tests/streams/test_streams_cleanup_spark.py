"""Each way to clean up, while a streaming query is down: it goes on, and so does one that upserts."""

from collections.abc import Callable
from datetime import timedelta

import lance
import pytest
from support.command_line import call
from support.killed import Killed, kill
from support.local_datasets import make_dataset, numbers
from support.scripts import script
from support.stream_queries import KILLED, Query, die, on, others

from lance_spark import CleanupPolicy, LanceTable

pytestmark = [pytest.mark.spark, pytest.mark.on_connect, pytest.mark.when(spark="newest", sample=0.1)]
NOW = timedelta(0)
POLICY = CleanupPolicy(retain_versions=2, commit_window=NOW)
BRANCH = "ingest"
AT_ONCE = ("--commit-window", "0s", "--execute")


def job(name, *arguments):
    assert script(f"jobs/{name}.py").main(list(arguments)) == 0


def table(spark, lake):
    return lake.table("ns1.t")


def stored(spark, lake, directory):
    made = table(spark, lake).cleanup(POLICY)
    made.store(str(directory / "plan"))
    assert table(spark, lake).open_cleanup_plan(str(directory / "plan")).apply().complete


def maintained(given: Callable[..., object]) -> None:
    report = given({"cleanup": {"retain_versions": 2, "commit_window": "0s"}}, run_on="local").apply()
    assert {step.state for table in report.tables for step in table.steps if step.name == "cleanup"} == {"done"}


WAYS = {
    "t.cleanup": lambda s, lake, _: table(s, lake).cleanup(POLICY).apply(),
    "t.cleanup on executors": lambda s, lake, _: table(s, lake).cleanup(POLICY, run_on="spark").apply(),
    "a stored plan": stored,
    "t.maintain": lambda s, lake, _: maintained(table(s, lake).maintain),
    "lake.maintain": lambda _, lake, __: maintained(lake.maintain),
    "SQL": lambda s, *_: s.sql(
        "CALL lake.system.cleanup(table => 'ns1.t', retain_versions => 2, commit_window => '0s', dry_run => false)"
    ).collect(),
    "the job": lambda s, lake, _: job(
        "cleanup", table(s, lake).location.uri, "--retain-versions", "2", *AT_ONCE, "--local"
    ),
    "the job of a catalog": lambda _, lake, __: job(
        "cleanup", "--catalog", lake.catalog.uri, "--retain-versions", "2", *AT_ONCE, "--local"
    ),
    "lance-git gc": lambda s, lake, _: call(
        table(s, lake).location.uri, "gc", "--retain-versions", "2", *AT_ONCE, "--undo-window", "0s", "--yes"
    ),
}


@pytest.fixture
def uri(lake):
    uri = lake.catalog.at("t").uri
    make_dataset(uri, numbers(1, 500))
    lance.dataset(uri).create_branch(BRANCH)
    lake.register_table("ns1.t", "t")
    return uri


@pytest.mark.when(night={"way": ["t.cleanup on executors", "a stored plan"]})
@pytest.mark.parametrize("way", WAYS)
def test_a_query_goes_on_after_a_cleanup(way, spark, lake, uri, tmp_path):
    query = Query(uri, tmp_path / "c", branch=BRANCH)
    query.batch(0)
    die(query, 1, "between commit and tag")
    rows = others(uri, 6, BRANCH)
    WAYS[way](spark, lake, tmp_path)
    assert len(on(uri, BRANCH).versions()) <= 4
    for number in (1, 2):
        query.batch(number)
    found = on(uri, BRANCH).to_table()["id"].to_pylist()
    assert sorted(found) == sorted([*range(30), 500, *rows])


class Upserts:
    """A query that upserts ten keys of its own with each batch."""

    def __init__(self, spark, uri):
        self.spark = spark
        self.upsert = LanceTable.for_path(uri, branch=BRANCH).streams.upsert("id", query_id="q")

    def batch(self, number):
        self.upsert(self.spark.range(10 * number, 10 * number + 10), number)


@pytest.mark.when(day={"moment": ["between commit and tag"], "count": [10]})
@pytest.mark.parametrize("moment", KILLED)
@pytest.mark.parametrize("count", [10, 130])
def test_upserts_go_on_after_a_cleanup(count, moment, spark, uri):
    query, number = Upserts(spark, uri), 0 if moment == "at the first tag" else 1
    if number:
        query.batch(0)
    if moment == "before the commit":
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("lance_spark.rows.spark.change_rows", kill)
            with pytest.raises(Killed):
                query.batch(number)
    else:
        die(query, number, moment)
    rows = others(uri, count, BRANCH)
    LanceTable.for_path(uri, spark=spark).cleanup(POLICY, run_on="local").apply()
    on(uri, BRANCH).delete("id = 10")  # a batch that is upserted again brings it back
    for again in (number, number, number + 1):
        query.batch(again)
    is_in = moment in ("between commit and tag", "between the tag and Spark's note")
    kept = {*range(10 * number + 20), 500, *rows} - ({10} if is_in else set())
    assert sorted(on(uri, BRANCH).to_table()["id"].to_pylist()) == sorted(kept)
