"""Output that cannot be printed, and text that is not UTF-8: one line of error, and what was done is told."""

import json
import os
import subprocess
import sys

import lance
import pyarrow as pa
import pytest
from support.local_datasets import make_dataset, numbers

RUN = (sys.executable, "-c", "import sys; from lance_spark.cli.main import main; sys.exit(main())")


def shell(uri, words, **how):
    """``lance-git`` in a process of its own."""
    return subprocess.run([*RUN, *words], cwd=uri, stderr=subprocess.PIPE, text=True, errors="surrogateescape", **how)


@pytest.fixture
def flights(uri):
    make_dataset(uri, numbers(3))
    return uri


def test_a_full_disk_below_the_output_does_not_hide_what_was_done(flights):
    with open("/dev/full", "w") as full:
        done = shell(flights, ["tag", "v1"], stdout=full)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "No space left on device" in done.stderr
    assert "Tag 'v1' was put on main@1" in done.stderr
    assert list(lance.dataset(flights).tags.list()) == ["v1"]


def test_values_cannot_steer_the_terminal(uri):
    make_dataset(uri, pa.table({"s": ["plain"]}))
    lance.write_dataset(pa.table({"s": ["a\x1b[2Jb\u202ec\nd\x9b"]}), uri, mode="append")
    done = shell(uri, ["diff", "--rows", "main@1..main@2"], stdout=subprocess.PIPE)
    assert done.stdout.splitlines()[1] == r"+ s: a\u001b[2Jb\u202ec\nd\u009b"
    done = shell(uri, ["branch", "x\x1b[2J"], stdout=subprocess.PIPE)
    assert "\x1b" not in done.stderr
    assert r"\u001b[2J" in done.stderr


@pytest.mark.when(day=0)
def test_a_closed_output_and_a_reader_that_stops(flights):
    done = subprocess.run(["bash", "-c", '"$@" >&-', "-", *RUN, "log"], cwd=flights, capture_output=True, text=True)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "stdout is closed" in done.stderr
    reader, writer = os.pipe()
    os.close(reader)
    done = shell(flights, ["log"], stdout=writer)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.when(day=0)
def test_text_that_is_not_utf8_is_refused_before_anything_is_done(flights, tmp_path):
    done = shell(flights, ["cherry-pick", "main@1", "-m", b"\xff"], stdout=subprocess.PIPE)
    assert done.returncode == 2
    assert "'\\udcff' is not UTF-8. Nothing was done." in done.stderr
    strange = os.fsencode(tmp_path) + b"/x\xff"
    os.mkdir(strange)
    os.rename(flights, strange + b"/t.lance")
    done = shell(strange + b"/t.lance", ["log"], stdout=subprocess.PIPE)
    assert done.returncode == 2
    assert "is not UTF-8, and Lance keeps paths as UTF-8" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.when(day=0)
def test_another_encoding_of_the_terminal_shows_escapes(flights):
    around = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = shell(flights, ["branch", "日"], stdout=subprocess.PIPE, env=around)
    assert (done.returncode, done.stdout, done.stderr) == (0, "Branch '\\u65e5' created at main@1.\n", "")


@pytest.mark.when(day=0)
def test_a_question_that_nobody_can_answer_is_json_for_a_program(flights):
    lance.write_dataset(numbers(1), flights, mode="overwrite")
    words = ["gc", "--retain-versions", "1", "--commit-window", "0s", "--execute", "--json"]
    done = shell(flights, words, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout) == (3, "")
    assert json.loads(done.stderr)["exit_code"] == 3
    assert len(os.listdir(f"{flights}/data")) == 2
