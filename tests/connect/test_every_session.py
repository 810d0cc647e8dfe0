"""The same story on Spark Connect, and through spark-submit on a standalone cluster of real processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import lance
import pytest
from cluster import HOME, environment, standalone_cluster

pytestmark = pytest.mark.spark
STORY = Path(__file__).with_name("story.py")


def told(command: list[str], cwd: Path) -> dict:
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), cwd=cwd, timeout=900)
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
    assert sorted(lance.dataset(uri).to_table(columns=["id"])["id"].to_pylist()) == list(range(1000))
    assert lance.dataset(f"{uri}/tree/exp/a").count_rows() == 5


def test_spark_connect(uri, tmp_path):
    check(told([sys.executable, str(STORY), uri, "connect"], tmp_path), uri)


def test_standalone_cluster_with_two_workers(uri, tmp_path):
    with standalone_cluster(tmp_path / "cluster") as master:
        submit = [str(HOME / "bin" / "spark-submit"), "--master", master, "--conf", "spark.ui.enabled=false"]
        options = ["--conf", "spark.executor.memory=512m", "--conf", "spark.scheduler.minRegisteredResourcesRatio=1"]
        story = told([*submit, *options, str(STORY), uri], tmp_path)
    check(story, uri)
    assert story["workers"] == 2
