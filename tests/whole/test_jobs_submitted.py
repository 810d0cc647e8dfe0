"""Jobs as people call them, through spark-submit: what docs/operations/cleanup.md shows, and what the terminal gets."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import lance
import pyarrow as pa
import pytest

ROOT = Path(__file__).parents[2]
SUBMIT = Path(sys.executable).parent / "spark-submit"
NAMED = "s3://bucket/flights.lance"
EVERYTHING_OLD = ("--older-than", "0s", "--commit-window", "0s")
pytestmark = [
    pytest.mark.spark,
    pytest.mark.when(spark="newest"),
    pytest.mark.slow,
    pytest.mark.skipif(not SUBMIT.exists(), reason="this PySpark has no spark-submit"),
]


@pytest.fixture
def flights(tmp_path):
    """Six versions, of which five go."""
    uri = str(tmp_path / "flights.lance")
    for number in range(6):
        lance.write_dataset(pa.table({"id": [number]}), uri, mode="append" if number else "create")
    return uri


def shown(*beginning):
    """The command lines of the page that begin so, without their remarks."""
    text = (ROOT / "docs" / "operations" / "cleanup.md").read_text()
    lines = (line.strip() for line in text.splitlines())
    return [shlex.split(line, comments=True) for line in lines if line.startswith(" ".join(beginning))]


def submit(command, uri):
    """Run a command line of the page on a dataset; everything it says, in the order in which it says it."""
    arguments = [uri if argument == NAMED else argument for argument in command[1:]]
    # The better compiler of Java would not have paid off when the job is done.
    java = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    environment = {**os.environ, **java, "PYTHONPATH": str(ROOT), "PYSPARK_DRIVER_PYTHON": sys.executable}
    done = subprocess.run(
        [str(SUBMIT), *arguments],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout.splitlines()


def test_the_page_shows_a_cleanup_for_one_dataset_and_for_a_catalog():
    commands = shown("spark-submit jobs/cleanup.py")
    assert any(NAMED in command and "--execute" not in command for command in commands)
    assert any("--catalog" in command for command in commands)


def test_a_cleanup_as_the_page_has_it_starts_no_session_and_ends_with_its_report(flights):
    command = next(command for command in shown("spark-submit jobs/cleanup.py") if NAMED in command)
    said = submit([*command, *EVERYTHING_OLD], flights)
    assert re.fullmatch(r"dry run: 10 files, .* would be deleted \(plan .*, ran on local\)", said[-1])
    assert not [line for line in said if " INFO " in line or "Running Spark" in line or line.startswith("start Spark")]
    assert len(lance.dataset(flights).versions()) == 6


@pytest.mark.when(day=0)  # by day test_every_session.py submits a cleanup
def test_on_spark_the_report_is_the_last_word_as_well(flights):
    command = shown("spark-submit --properties-file conf/spark-defaults.conf jobs/cleanup.py")[0]
    said = submit([*command, *EVERYTHING_OLD, "--run-on", "spark", "--execute"], flights)
    assert re.fullmatch(r"10 deleted; .* freed \(plan .*, ran on spark\)", said[-1])
    assert [line for line in said if line.startswith("start Spark")]
    assert not [line for line in said if " INFO " in line or " WARN " in line]
    assert len(lance.dataset(flights).versions()) == 1
