"""What is told about a cleanup adds up to what was planned and done."""

import json

import pytest

from lance_spark.cleanup.report import CleanupReport, FleetReport, LakeReport, Upkeep, empty, failed, why_nothing

pytestmark = pytest.mark.pure


def planned(action, files, size, reason="why", example=None):
    row = {"kind": "data", "branch": "main", "action": action, "reason": reason, "verified": None}
    return {**row, "files": files, "bytes": size, "example": example}


def ended(outcome, files, size, example="data/x", reason="why"):
    row = {"kind": "index", "branch": "exp/a", "reason": reason, "outcome": outcome}
    return {**row, "files": files, "bytes": size, "example": example}


PLANNED = (
    planned("delete", 1200, 3 * 2**20, example="data/gone.lance"),
    planned("delete", 1, 2**10, "no version names it"),
    planned("keep", 5, 50, "a kept version names it"),
    planned("keep", 2, 20, "unknown kind of file", "notes.txt"),
)
OUTCOME_ROWS = (
    ended("deleted", 1000, 2**20),
    ended("already gone", 100, 2**10),
    ended("failed", 1, 10, "data/f: AccessDenied"),
    ended("kept", 99, 5, "data/live", "became live"),
)
VERSIONS = {"main": {"removed": 1200, "latest": 1, "by the policy": 9}, "exp/a": {"removed": 0, "latest": 1}}


def report(executed, outcomes=OUTCOME_ROWS, **more):
    return CleanupReport("p1", "/t", executed, PLANNED, outcomes if executed else (), VERSIONS, **more)


def test_counts_are_files_and_bytes():
    done = report(executed=True)
    assert done.to_delete == (1201, 3 * 2**20 + 2**10)
    assert [done.count(end) for end in ("deleted", "already gone", "failed", "kept")] == [
        (1000, 2**20),
        (100, 2**10),
        (1, 10),
        (99, 5),
    ]
    assert not done.complete
    assert report(True, OUTCOME_ROWS[:2]).complete
    assert report(False).complete
    assert report(False).count("deleted") == (0, 0)


DENIED = "s3:DeleteObject on s3://b/t/data/ is missing"


@pytest.mark.parametrize(
    ("denied", "code", "said"),
    [
        ([""], 6, "5 files could not be deleted; the next run finishes"),
        ([DENIED], 21, f"5 files could not be deleted: {DENIED}"),
        ([DENIED, "also"], 21, "10 files could not be deleted: also, and 1 more"),
        (["", DENIED], 6, f"10 files could not be deleted: {DENIED}"),
    ],
)
def test_a_missing_permission_is_named_and_ends_with_its_code(denied, code, said):
    outcomes = [*OUTCOME_ROWS[:2], *({**ended("failed", 5, 10), "denied": each} for each in denied)]
    done = report(True, outcomes)
    assert (done.exit_code, said in str(done)) == (code, True)
    assert said in done._repr_html_()
    assert report(True, OUTCOME_ROWS[:2]).exit_code == 0


@pytest.mark.parametrize(
    ("codes", "upkeep", "code"),
    [
        ([21, 0], [], 21),
        ([21, 21], [21], 21),
        ([0, 0], [21], 21),
        ([21, 6], [], 6),
        ([21, 0], [20], None),
        ([0], [], None),
    ],
)
def test_a_catalog_ends_with_21_if_permissions_are_all_that_lacks(codes, upkeep, code):
    rows = [
        failed(name, "", "denied", each) if each else {**empty(name, ""), "state": "done"}
        for name, each in zip("abc", codes, strict=False)
    ]
    others = [Upkeep("orphan", "x", "failed", error="denied", exit_code=each) for each in upkeep]
    assert LakeReport("/lake", FleetReport(rows, True), others).exit_code == code


def test_a_dry_run_shows_what_would_go_and_what_is_unknown_but_not_what_stays():
    text = str(report(executed=False, warnings=["a branch is broken"]))
    assert "dry run: 1,201 files, 3.0 MiB would be deleted (plan p1)" in text
    assert "warning: a branch is broken" in text
    assert "notes.txt" in text
    assert "a kept version names it" not in text
    lines = [line.split() for line in text.splitlines()]
    assert ["main", "1,200", "9", "by", "the", "policy,", "1", "latest"] in lines
    assert ["exp/a", "0", "1", "latest"] in lines
    assert ["main", "data", "delete", "why", "1,200", "3.0", "MiB"] in lines


def test_a_run_shows_how_everything_ended_with_the_reason_where_it_failed():
    text = str(report(executed=True))
    assert "1,000 deleted, 100 already gone, 1 failed, 99 kept; 1.0 MiB freed (plan p1)" in text
    assert "data/f: AccessDenied" in text
    assert "became live" in text
    assert "dry run" not in text


def test_a_run_that_had_nothing_to_do_says_so():
    text = str(CleanupReport("p1", "/t", True, ()))
    assert text.splitlines() == ["Nothing to delete.", "", "0 deleted; 0 B freed (plan p1)"]


def test_json_has_everything_and_totals_only_of_what_was_done():
    done = json.loads(report(executed=True, warnings=["w"]).to_json())
    assert done["to_delete"] == {"files": 1201, "bytes": 3 * 2**20 + 2**10}
    assert done["totals"] == {
        "deleted": {"files": 1000, "bytes": 2**20},
        "already gone": {"files": 100, "bytes": 2**10},
        "failed": {"files": 1, "bytes": 10},
        "kept": {"files": 99, "bytes": 5},
    }
    assert (done["plan"], done["dataset"], done["executed"], done["warnings"]) == ("p1", "/t", True, ["w"])
    assert (done["versions"], done["planned"], done["outcomes"]) == (VERSIONS, [*PLANNED], [*OUTCOME_ROWS])
    dry = json.loads(report(executed=False).to_json())
    assert (dry["totals"], dry["outcomes"], dry["executed"]) == ({}, [], False)


def test_a_catalog_of_which_nothing_goes_says_how_many_versions_stay_and_why():
    def row(name, **more):
        return {**empty(name, ""), "state": "would", "report": report(False).to_json(), **more}

    assert why_nothing(FleetReport([row("a"), row("b")], False)) == [
        "nothing to delete: of all tables, 22 versions stay: 18 by the policy, 4 latest"
    ]
    assert not why_nothing(FleetReport([row("a"), row("b", versions=1)], False))
    assert not why_nothing(FleetReport([empty("a", "")], False))
