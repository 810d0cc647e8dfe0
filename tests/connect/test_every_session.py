"""The same story on Spark Connect, and through spark-submit: local, and on a cluster of real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import lance
import pytest
from cluster import HOME, environment, standalone_cluster

pytestmark = pytest.mark.spark
STORY = Path(__file__).with_name("story.py")
ATTEMPTS = Path(__file__).with_name("attempts.py")
SUBMIT = [str(HOME / "bin" / "spark-submit"), "--conf", "spark.ui.enabled=false"]
ON_CLUSTER = ["--conf", "spark.executor.memory=512m", "--conf", "spark.scheduler.minRegisteredResourcesRatio=1"]
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "100ms",
    "spark.speculation.multiplier": "1.1",
}


def told(command: list[str], cwd: Path) -> dict:
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), cwd=cwd, timeout=300)
    assert done.returncode == 0, done.stderr[-5000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


def check(story: dict, uri: str) -> None:
    assert story["main"] == 1000
    assert story["pinned"] == [1010, 1010, 2020]
    assert story["branch"] == 5
    assert story["older"] == 1010
    assert story["filtered"] == ["n5"]
    assert story["counted"] == 143
    assert story["versions"] == [1]
    assert story["branches"] == ["exp/a"]
    assert story["view"] == 7
    assert story["schema"] == "struct<id:bigint,day:bigint,name:string>"
    assert "lance_spark.errors.NotFound: There is no branch 'exp/b'." in story["missing"]
    assert story["taken"] == "AlreadyExists: Tag 'v1' already exists, at version 1."
    assert "lance_spark.errors.SchemaMismatch: Column 'id' is string" in story["bad type"]
    assert story["failed job"] == [True, 1000]
    assert story["vectors"] == [True, [-2.0, -2.0, -1.0, -1.0, 0.0, 0.0]]
    assert story["handle"] == {
        "at tag": ["verbs", 1],
        "restored": [4, 1010],
        "clones": [1000, 1000],
        "limited": ["id", "day", "name", "_rowid"],
        "refused": "Refused: Branch 'verbs' cannot be deleted: tag 'moved' points at it.",
        "left": [["v1"], ["exp/a"]],
    }
    assert sorted(lance.dataset(uri).to_table(columns=["id"])["id"].to_pylist()) == list(range(1000))
    assert lance.dataset(f"{uri}/tree/exp/a").count_rows() == 1010
    assert set(lance.dataset(uri).branches.list()) == {"exp/a"}


def check_attempts(found: dict, uri: str, rows: int) -> None:
    dataset = lance.dataset(uri)
    assert found["rows"] == rows
    assert sorted(dataset.to_table()["id"].to_pylist()) == list(range(rows))
    assert dataset.version == rows // 1000
    assert len(dataset.get_fragments()) == rows // 250


def test_spark_connect(uri, tmp_path):
    check(told([sys.executable, str(STORY), uri, "connect"], tmp_path), uri)


def test_tasks_that_are_tried_again_in_a_local_job_write_each_row_once(uri, tmp_path):
    (tmp_path / "marks").mkdir()
    found = told([*SUBMIT, "--master", "local[2,3]", str(ATTEMPTS), uri, str(tmp_path / "marks")], tmp_path)
    assert sorted(os.listdir(tmp_path / "marks")) == [f"again-{task}-1" for task in range(4)]
    check_attempts(found, uri, 1000)
    assert len(os.listdir(f"{uri}/data")) == 4


@pytest.fixture(scope="module")
def master(tmp_path_factory):
    with standalone_cluster(tmp_path_factory.mktemp("cluster") / "home") as url:
        yield url


def test_standalone_cluster_with_two_workers(master, uri, tmp_path):
    story = told([*SUBMIT, "--master", master, *ON_CLUSTER, str(STORY), uri], tmp_path)
    check(story, uri)
    assert story["workers"] == 2


def test_tasks_that_run_twice_at_a_time_write_each_row_once(master, uri, tmp_path):
    marks = tmp_path / "marks"
    marks.mkdir()
    settings = [word for key, value in SPECULATION.items() for word in ("--conf", f"{key}={value}")]
    found = told([*SUBMIT, "--master", master, *ON_CLUSTER, *settings, str(ATTEMPTS), uri, str(marks)], tmp_path)
    assert any(name.startswith("twice-1-") and name != "twice-1-0" for name in os.listdir(marks))
    check_attempts(found, uri, 2000)
