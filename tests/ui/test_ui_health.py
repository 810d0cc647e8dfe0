"""Stored reports: what they say of tables, also when they are no reports."""

import json

import pytest

from lance_spark.core.show import Grid
from lance_spark.ui.health_rules import Health, StoredReport, health_of, read_report

pytestmark = pytest.mark.pure
NOTE = {"severity": "note", "path": "data/x", "says": "left over"}
ERROR = {"severity": "error", "path": "data/y", "says": "is missing"}
WARNING = {"severity": "warning", "path": "refs/z", "says": "dangles"}


def lake_check(**table):
    filled = {"table": "a.b", "uri": "/l/a", "findings": [], "error": "", **table}
    return {"catalog": "/l", "tables": [filled], "findings": []}


def maintenance(**table):
    filled = {"table": "a.b", "uri": "/l/a", "findings": {}, "error": "", "steps": [], **table}
    made = {"root": "/l", "problems": [], "started": "2026-01-02T03:04:05+00:00", "executed": True, "finished": True}
    return {**made, "freed_bytes": 2048, "tables": [filled]}


@pytest.mark.parametrize(
    ("document", "state"),
    [
        ({"dataset": "a.b", "findings": [], "sound": True, "versions": 3}, "sound"),
        ({"dataset": "a.b", "findings": [NOTE], "sound": True, "versions": 3}, "sound"),
        ({"dataset": "a.b", "findings": [WARNING, NOTE], "sound": True, "versions": 3}, "attention"),
        ({"dataset": "a.b", "findings": [ERROR], "sound": False, "versions": 3}, "damaged"),
        (lake_check(), "sound"),
        (lake_check(findings=[ERROR]), "damaged"),
        (lake_check(error="The store did not answer."), "damaged"),
        (maintenance(), "sound"),
        (maintenance(findings={"error": 2}), "damaged"),
        (maintenance(error="denied"), "attention"),
        (maintenance(steps=[{"step": "compact", "state": "failed"}]), "attention"),
        (
            {"executed": False, "totals": {"files": 0, "bytes": 0}, "tables": [{"table": "a.b", "error": "x"}]},
            "attention",
        ),
    ],
)
def test_a_report_says_how_a_table_is(document, state):
    report = read_report("/r.json", json.dumps(document))
    assert report.what != "unreadable"
    assert health_of([report], "a.b").state == state


def test_the_worst_report_counts_and_a_missing_one_says_nothing():
    reports = [
        StoredReport("", "check", "", Grid((), ()), {"t": Health("sound", "s")}),
        StoredReport("", "check", "", Grid((), ()), {"t": Health("damaged", "d"), "u": Health("attention", "a")}),
    ]
    assert health_of(reports, "t").said == "d"
    assert health_of(reports, "u", "uri").state == "attention"
    assert health_of(reports, "other").state == "unknown"


@pytest.mark.parametrize("text", [None, "", "no JSON", "[]", "3", "{}", '{"dataset": 1, "findings": 3, "sound": 1}'])
def test_what_is_no_report_says_so(text):
    assert read_report("/r.json", text).what == "unreadable"
    assert "cannot be shown" in read_report("/r.json", text).summary
