"""The table of versions is what was found, and has the bounds that pyproject.toml allows."""

import json
import re
from pathlib import Path

import pytest
from support.scripts import script

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.pure


@pytest.fixture(scope="module")
def versions():
    return script(".ci/versions.py")


def test_the_page_has_the_results(versions):
    shown = versions.PAGE.read_text().split(versions.BEGIN)[1].split(versions.END)[0]
    assert shown.strip() == versions.table(versions.records().read()).strip()


def test_what_has_run_has_passed(versions):
    """The table tells what has not run."""
    assert {name: result["said"] for name, result in versions.records().read().items() if not result["passed"]} == {}


def test_the_rows_have_the_bounds_of_the_project(versions):
    """The oldest version of each requirement, and each Spark and Python that the project promises."""
    assert [row.name for row in versions.ROWS if row.resolution == "lowest-direct"] == ["oldest-of-all"]
    assert {"pylance", "pyarrow"} <= versions.bounds().keys()
    pins = [pin for row in versions.ROWS for pin in row.pins]
    assert all(any(f"pyspark[connect]=={spark}." in pin for pin in pins) for spark in ("4.0", "4.1", "4.2", "4.3"))
    promised = re.search(r'requires-python = ">=([\d.]+)"', (ROOT / "pyproject.toml").read_text())[1]
    assert {row.python for row in versions.ROWS} >= {promised, "3.12", "3.13"}


def test_a_row_that_failed_is_told_in_the_table(versions):
    failed = {"passed": False, "said": "2 failed, 300 passed in 9 s", "versions": {"pyspark": "4.0.0"}, "day": "x"}
    lines = versions.table({"spark-4.0": failed}).splitlines()
    assert "**2 failed, 300 passed in 9 s**" in lines[2]
    assert lines[3].endswith("| **not run** |")


def test_results_are_stored_in_the_order_of_the_rows(versions, tmp_path, monkeypatch):
    monkeypatch.setattr(versions, "RESULTS", tmp_path / "results.json")
    for name in ("pandas-3", "spark-4.0"):
        versions.records().store(name, {"passed": True, "said": "", "state": "a"})
    assert list(json.loads((tmp_path / "results.json").read_text())) == ["spark-4.0", "pandas-3"]


def test_an_unknown_row_is_refused(versions, monkeypatch, capsys):
    monkeypatch.setattr(versions.sys, "argv", ["versions.py", "spark-9"])
    assert versions.main() == 2
    assert "No row is called spark-9" in capsys.readouterr().err
