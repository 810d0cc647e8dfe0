"""``pip install lance-spark`` brings no second Spark to a cluster: what works without one, and what the rest says."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lance_spark.engine.lazy_spark import pyspark_module
from lance_spark.errors import NotInstalled

ROOT = Path(__file__).parents[2]
INSTALLS = "pip install 'lance-spark[spark]'"


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    command = [sys.executable, str(ROOT / "tests" / "support" / "without_spark.py")]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    place = tmp_path_factory.mktemp("without_spark")
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_the_commands_and_jobs_work(story):
    assert story["log"] == [2, 1]
    assert "exp" in story["branches"]
    assert story["new"] == ["id"]
    assert story["tables"] == ["flights"]
    assert "dry run" in story["cleanup"]
    assert "sound" in story["fsck"]


def test_handles_without_a_session_work(story):
    assert (story["rows"], story["tables"]) == (3, ["flights"])
    assert "4 rows" in story["shown"]
    assert story["loaded"] == []


def test_what_needs_spark_says_which_line_installs_it(story):
    for name, raised in story["errors"].items():
        assert raised[:2] == ["NotInstalled", NotInstalled.exit_code], name
        assert "pyspark" in raised[2]
        assert raised[3].startswith(INSTALLS)
    code, said = story["job"]
    assert code == NotInstalled.exit_code
    assert INSTALLS in said
    assert "--local" in said


def test_the_module_that_is_missing_is_named():
    with pytest.raises(NotInstalled, match=r"'pyspark\.nosuch'") as raised:
        pyspark_module("pyspark.nosuch")
    assert raised.value.hint.startswith(INSTALLS)
