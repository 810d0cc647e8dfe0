"""The jobs from an installed package, where there is no directory ``jobs/``: ``python -m lance_spark.jobs.NAME``."""

import os
import runpy
import sys

import lance
import pytest
from support.local_datasets import make_dataset, numbers

JOBS = ("cleanup", "fsck", "maintain", "migrate_catalog")


def run(monkeypatch, name, *arguments):
    """The exit code of a job that is started as a module."""
    module = f"lance_spark.jobs.{name}"
    monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module(module, run_name="__main__")
    return ended.value.code


@pytest.mark.parametrize("name", JOBS)
def test_a_job_says_what_it_takes(name, monkeypatch, capsys):
    assert run(monkeypatch, name, "--help") == 0
    said = capsys.readouterr().out
    assert "Exit codes: 0 " in said
    assert f"python -m lance_spark.jobs.{name}" in said


def test_jobs_do_their_work(uri, monkeypatch, capsys):
    make_dataset(uri, numbers(3))
    lance.write_dataset(numbers(2), uri, mode="overwrite")
    assert run(monkeypatch, "fsck", uri, "--local") == 0
    assert "sound" in capsys.readouterr().out
    cleanup = (uri, "--retain-versions", "1", "--commit-window", "0s", "--execute", "--local")
    assert run(monkeypatch, "cleanup", *cleanup) == 0
    assert [each["version"] for each in lance.dataset(uri).versions()] == [2]
    assert run(monkeypatch, "maintain", uri, "--execute", "--local") == 0
    assert run(monkeypatch, "migrate_catalog", os.path.dirname(uri), "--dry-run") == 0
    assert run(monkeypatch, "fsck", f"{uri}/nothing", "--local") == 10
