"""The same story on Spark Connect, and through spark-submit, on a standalone cluster of real processes."""

import json
import re
import subprocess
import sys
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from support.connect_clients import connect_server
from support.spark_cluster import HOME, environment, standalone_cluster
from whole.story import FROZEN

from lance_spark import LanceTable

pytestmark = [pytest.mark.spark, pytest.mark.when(spark="newest")]
STORY = Path(__file__).with_name("story.py")
NATIVE_STORY = STORY.with_name("native_story.py")
JOB = Path(__file__).parents[2] / "jobs" / "cleanup.py"


def changed(found):
    *results, twice, wide = found
    assert results == [[[141, 0, 0], [0, 3, 0], [0, 2, 2], [4, 0, 4], [0, 2, 0]], 7, 861, 2489]
    # Which of the rows is named depends on the task that comes first.
    assert re.match(r"Refused: Several rows of the source match the row with id = \d+: the result would depend", twice)
    assert wide == "SchemaMismatch: Column 'day' of type bigint cannot hold many."


def catalogued(found):
    taken = "AlreadyExists: Cannot create table 'ns1.t': a table of that name already exists."
    assert found == [10, 10, ["ns1_t"], 9, taken]


def streamed(found):
    assert found == [10, 10, 20, 20]


def upserted(found):
    assert found == [10, 5]


def changed_columns(found):
    wrong = "SchemaMismatch: The function returned 1 values of 'w' for 25 rows"
    assert found == [[5, -1, [5, 1], "five", None], 101, wrong]


def searched(found):
    short = "SchemaMismatch: vector= has 1 numbers, but those of column 'v' have 2."
    assert found == [[7, 8], [7, 8], [31, 81], [9], [["a", 5], ["b", 98]], 50, short]


def looked_after(found):
    assert found == [[4, 5], "spark", 48, [0, 6, 9], True]


def retried(found):
    rows, distinct, files, fragments = found
    assert (rows, distinct) == (100, 100)
    assert files == fragments


CHAPTERS = {
    check.__name__: check
    for check in (changed, catalogued, streamed, upserted, changed_columns, searched, looked_after, retried)
}


def tell(uri: str, kind: str, master: str, home: Path, chapters: tuple[str, ...]) -> dict:
    program = [str(STORY), uri, kind, master, ",".join(chapters)]
    done = run([*([sys.executable] if kind == "connect" else submit(master)), *program], home)
    assert done.returncode == 0, done.stderr[-5000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


def submit(master: str) -> list[str]:
    options = ["--conf", "spark.executor.memory=512m", "--conf", "spark.scheduler.minRegisteredResourcesRatio=1"]
    return [str(HOME / "bin" / "spark-submit"), "--master", master, "--conf", "spark.ui.enabled=false", *options]


def run(command: list[str], cwd: Path) -> subprocess.CompletedProcess:
    return subprocess.run(command, capture_output=True, text=True, env=environment(), cwd=cwd, timeout=900)


def check(story: dict, uri: str, chapters: tuple[str, ...]) -> None:
    assert story["main"] == 1000
    assert story["pinned"] == [1010, 1010, 2020]
    assert story["branch"] == 5
    assert story["older"] == 1010
    assert story["filtered"] == ["n5"]
    assert story["queried"] == [["n5"], ["id", "name"]]
    assert story["feed"][0] == ["delete", 0, "exp/a"]
    assert len(story["feed"]) == 1005
    check_frozen(story["frozen"], uri)
    check_relative(story["relative"])
    assert story["counted"] == 143
    assert story["versions"] == [1]
    assert story["branches"] == ["exp/a"]
    assert story["view"] == 7
    assert story["schema"] == "struct<id:bigint,day:bigint,name:string>"
    assert "lance_spark.errors.NotFound: There is no branch 'exp/b'." in story["missing"]
    assert story["taken"] == "AlreadyExists: Tag 'v1' already exists, at version 1."
    assert "lance_spark.errors.SchemaMismatch: Column 'id' is string" in story["bad type"]
    assert story["cleaned"]["removed"] == {"main": 0, "exp/a": 2}
    assert story["cleaned"]["said"] == story["cleaned"]["deleted"] > 4
    assert sorted(lance.dataset(uri).to_table(columns=["id"])["id"].to_pylist()) == list(range(1000))
    assert lance.dataset(f"{uri}/tree/exp/a").count_rows() == 5
    for chapter in chapters:
        CHAPTERS[chapter](story[chapter])


def check_relative(said: list[str]) -> None:
    """A classic session takes relative paths, also with a cluster; Spark Connect refuses each, and makes nothing."""
    if "no error" in said:
        assert said == ["no error"] * 3 + ["rel.lance"]
        return
    assert len(said) == 18
    assert [line for line in said if "is a relative path, and on Spark Connect" not in line] == []


def check_frozen(frozen: dict, uri: str) -> None:
    """The same call in this process, without Spark, gives the same rows in the same splits and the same order."""
    table = LanceTable.for_path(uri)
    table.frozen.create("here", **FROZEN)
    splits = {
        split: [row["id"] for batch in table.frozen.batches("here", split, "id") for row in batch.to_pylist()]
        for split in ("train", "val")
    }
    assert frozen["splits"] == splits
    assert sorted(splits["train"] + splits["val"]) == list(range(500))
    assert frozen["found"] == [True, [0, 4], 500, 0]
    table.frozen.delete("here")


@pytest.mark.when(day=0)
def test_spark_connect_on_a_cluster_with_two_workers(uri, tmp_path):
    chapters = tuple(CHAPTERS)
    with standalone_cluster(tmp_path / "cluster") as master:
        story = tell(uri, "connect", master, tmp_path, chapters)
    check(story, uri, chapters)
    assert story["workers"] == 2


@pytest.mark.when(day=0)
def test_spark_connect_in_one_process(uri, tmp_path):
    """Its tasks are tried again as on a cluster. At night the clusters show what executors of their own change."""
    chapters = tuple(CHAPTERS)
    check(tell(uri, "connect", "local[2,4]", tmp_path, chapters), uri, chapters)


@pytest.mark.when(day=0)
def test_a_client_of_spark_connect(spark, uri, tmp_path):
    """The story without its chapters, in a process of its own; the server is in the JVM that runs anyway."""
    with connect_server(spark) as address:
        check(tell(uri, "connect", address, tmp_path, ()), uri, ())


@pytest.mark.when(day=0)
def test_native_reads_on_a_cluster_whose_executor_dies_in_the_middle_of_a_batch(uri, tmp_path):
    texts = [f"row {at % 100}" for at in range(16_000)]
    lance.write_dataset(pa.table({"id": range(16_000), "text": texts}), uri, max_rows_per_file=2_000)
    expected = [16_000, sum(range(16_000)) + sum(map(len, texts)), 100]
    with standalone_cluster(tmp_path / "cluster") as master:
        done = run([*submit(master), str(NATIVE_STORY), uri, master], tmp_path)
    assert done.returncode == 0, done.stderr[-5000:]
    story = json.loads(done.stdout.strip().splitlines()[-1])
    assert story == {
        "rows by": None,
        "before": expected,
        "executors": 2,
        "while one dies": expected,
        "after": expected,
        "new": 1,
    }


@pytest.mark.when(day=0)
def test_a_classic_session_on_a_cluster_with_two_workers(uri, tmp_path):
    chapters = tuple(CHAPTERS)
    with standalone_cluster(tmp_path / "cluster") as master:
        story = tell(uri, "classic", master, tmp_path, chapters)
        check(story, uri, chapters)
        assert story["workers"] == 2
        check_job([*submit(master), "--total-executor-cores", "1", str(JOB)], uri, tmp_path)


def check_job(job: list[str], uri: str, home: Path) -> None:
    """The cleanup job as people schedule it: a plan first, then the plan carried out, then a refusal."""
    for number in range(3):
        lance.write_dataset(pa.table({"id": pa.array([number], pa.int64())}), uri, mode="overwrite")
    arguments = ["--older-than", "0s", "--commit-window", "0s", "--on-tagged", "keep"]
    plan_here = [sys.executable, str(JOB), uri, *arguments, "--local"]  # without Spark, which then carries it out
    planned = run([*plan_here, "--plan-dir", str(home / "plan"), "--report", str(home / "dry.json")], home)
    assert planned.returncode == 0, planned.stderr[-3000:]
    assert "dry run: " in planned.stdout
    assert len(lance.dataset(uri).versions()) == 4
    applied = run([*job, uri, "--apply-plan", str(home / "plan"), "--report", str(home / "done.json")], home)
    assert applied.returncode == 0, applied.stderr[-3000:]
    assert [entry["version"] for entry in lance.dataset(uri).versions()] == [1, 4]
    dry, done = (json.loads((home / name).read_text()) for name in ("dry.json", "done.json"))
    assert dry["to_delete"] == done["totals"]["deleted"]
    assert dry["to_delete"]["files"] > 4
    refused = run([sys.executable, str(JOB), uri, "--older-than", "0s", "--commit-window", "0s", "--local"], home)
    assert refused.returncode == 3
    assert "error: 1 tagged version matches the cleanup policy: 'v1' (main@1)" in refused.stderr
