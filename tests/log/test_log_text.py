"""Logs and diffs as text."""

from datetime import datetime, timedelta, timezone

import pytest

from lance_spark.changes.diff_rules import ColumnValues, Diff, FragmentCounts, RowCounts, RowExample
from lance_spark.core.refs import PinnedVersion
from lance_spark.core.show import plain_text
from lance_spark.format.operations import ColumnChange, LogEntry, Stat
from lance_spark.log.print_rules import diff_lines, graph_lines, log_lines

pytestmark = pytest.mark.pure

WHEN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
MAIN_7 = PinnedVersion(None, 7)


def entry(**arguments):
    return LogEntry(**{"branch": None, "version": 7, "timestamp": WHEN, "operation": "Append", **arguments})


def test_an_entry():
    given = entry(total_rows=1200, tags=("v1",), heads=("main",), forks=("exp",), action="merge", source="exp@3")
    assert plain_text(log_lines([given])) == (
        "main@7 (main, tag: v1, fork: exp)  merge (append) of exp@3  1,200 rows  2026-01-02 03:04:05"
    )
    styles = {text: style for line in log_lines([given]) for style, text in line}
    assert (styles["main@7"], styles["main"], styles["tag: v1"]) == ("version", "branch", "tag")


def test_a_stat_without_row_counts():
    line = plain_text(log_lines([entry(stat=Stat(None, None, 1, 0, 2048, 0))])).splitlines()[1]
    assert line == "    +1 -0 files, +2.0 KiB -0 B"


def test_a_message_stands_beside_the_lanes():
    entries = [
        entry(version=9, parents=(MAIN_7,)),
        entry(branch="b", version=8, parents=(MAIN_7,), message="one\ntwo"),
        entry(total_rows=1),
    ]
    assert plain_text(graph_lines(entries)) == "\n".join(
        [
            "*   main@9  append  2026-01-02 03:04:05",
            "| * b@8  append  2026-01-02 03:04:05",
            "| |     one",
            "| |     two",
            "|/",
            "*   main@7  append  1 row  2026-01-02 03:04:05",
        ]
    )
    assert plain_text(graph_lines([])) == plain_text(log_lines([])) == ""


def difference(**arguments):
    given = {
        "before": MAIN_7,
        "after": PinnedVersion("exp", 9),
        "columns": (),
        "rows": RowCounts(5, 2, None, 10, 13, compared=False),
        "stat": Stat(5, 2, 1, 0, 100, 0),
        "fragments": FragmentCounts(3, 1, 0, 1),
    }
    return Diff(**{**given, **arguments})


def test_a_diff():
    found = difference(
        columns=(
            ColumnChange("added", "new", None, "int64"),
            ColumnChange("dropped", "old", "string", None),
            ColumnChange("type changed", "id", "int64", "int32"),
        ),
        values=(ColumnValues("name", 1, 10),),
        rows=RowCounts(5, 2, 1, 10, 13, compared=True),
        examples=(
            RowExample("added", after={"id": 1, "blob": b"abc"}),
            RowExample("deleted", before={"id": 2, "when": WHEN}),
            RowExample("changed", {"id": 3, "name": None}, {"id": 3, "name": "x" * 99}),
        ),
        notes=("Mind the gap.",),
    )
    assert plain_text(diff_lines(found)).splitlines() == [
        "main@7 .. exp@9",
        "+ column new  int64",
        "- column old  string",
        "~ column id  type changed: int64 -> int32",
        "~ values of name  written again in 1 fragment, 10 rows",
        "+ id: 1, blob: <3 bytes>",
        "- id: 2, when: 2026-01-02T03:04:05+00:00",
        f"~ name: null -> {'x' * 57}..., id: 3",
        "+5 -2 ~1 rows (10 -> 13)",
        "+1 -0 files, +100 B -0 B, 3 fragments in common, 1 new, 0 gone, 1 changed",
        "note: Mind the gap.",
    ]
    assert len(list(diff_lines(found, stat_only=True))) == 3


def test_values_that_json_does_not_have_become_text():
    row = {"f": float("inf"), "list": [{"t": timedelta(seconds=2)}], "date": WHEN.date()}
    (record,) = difference(examples=(RowExample("added", after=row),)).as_record()["examples"]
    assert record["after"] == {"f": "inf", "list": [{"t": "2.0"}], "date": "2026-01-02"}
