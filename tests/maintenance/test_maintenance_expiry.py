"""Which refs go, as a table; in which order; and plans as documents."""

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from lance_spark.core.lifetimes import Lifetime, Warned
from lance_spark.core.records.reflog import DELETED, DONE, FORGOTTEN, RESTORED, RefChange
from lance_spark.core.refs import Branch, PinnedVersion, RefTable, Tag
from lance_spark.errors import CorruptData
from lance_spark.maintenance.expiry_rules import (
    BRANCH,
    EXPIRED,
    KEPT,
    NEEDED,
    PROTECTED,
    TAG,
    UNKNOWN,
    UNMERGED,
    WARN,
    WARNED,
    ExpiryEntry,
    ExpiryOptions,
    ExpiryPlan,
    RefRecord,
    decide,
    decide_deleted,
    from_document,
)

pytestmark = pytest.mark.pure

NOW = datetime(2026, 6, 1, tzinfo=timezone.utc)
LONG_AGO = datetime(1971, 1, 1, tzinfo=timezone.utc)
WEEK, MONTH = timedelta(days=7), timedelta(days=30)


def ago(days, hours=0):
    return NOW - timedelta(days=days, hours=hours)


def lived(days, warned=None, expire_after=MONTH, of=None, **more):
    """A lifetime of a ref that was changed so many days ago, and warned of so many days ago."""
    end = ago(days) + expire_after
    return Lifetime(expire_after, warned=None if warned is None else Warned(ago(warned), of or end), **more)


def state(record, options=None, table=None, unmerged=None):
    table = table or RefTable({record.name: Branch(record.name, None, 1, LONG_AGO)}, {})
    (entry,) = decide([record], table, unmerged or {}, NOW, options or ExpiryOptions())
    return entry.state


@pytest.mark.parametrize("kind", [BRANCH, TAG])
@pytest.mark.parametrize(
    ("days", "lifetime", "expected"),
    [
        (1000, Lifetime(), KEPT),  # no end
        (1, lived(1), KEPT),
        (22, lived(22), KEPT),  # warned of from the 23rd day on
        (23, lived(23), WARN),
        (29, lived(29), WARN),
        (29, lived(29, warned=6), WARNED),
        (29, lived(29, warned=100), WARNED),  # the warning is over, its life is not
        (31, lived(31), WARN),  # nobody was warned
        (1000, lived(1000), WARN),
        (31, lived(31, warned=6), WARNED),
        (31, lived(31, warned=7), EXPIRED),
        (30, lived(30, warned=7), EXPIRED),
        (31, lived(31, warned=8, of=ago(2)), WARN),  # warned of another end
        (31, lived(31, warned=-3), WARNED),  # the clock of the one who warned was ahead
    ],
)
def test_a_ref_is_warned_of_before_it_goes(kind, days, lifetime, expected):
    table = RefTable({"r": Branch("r", None, 1, LONG_AGO)}, {"r": Tag("r", None, 1)})
    if kind == BRANCH:
        table = replace(table, tags={})
    assert state(RefRecord(kind, "r", "main@1", ago(days), lifetime), table=table) == expected


@pytest.mark.parametrize(
    ("days", "lifetime", "expected"), [(29, lived(29), KEPT), (30, lived(30), EXPIRED), (31, lived(31, 1), EXPIRED)]
)
def test_without_a_warning_period_nobody_is_warned(days, lifetime, expected):
    record = RefRecord(BRANCH, "r", "r@2", ago(days), lifetime)
    assert state(record, ExpiryOptions(warn=timedelta(0))) == expected


OLD = RefRecord(BRANCH, "r", "r@2", ago(99), lived(99, warned=9))


@pytest.mark.parametrize(
    ("record", "unmerged", "force", "expected"),
    [
        (OLD, {}, False, EXPIRED),
        (OLD, {"r": "2 of its versions are not in main"}, False, UNMERGED),
        (OLD, {"r": "2 of its versions are not in main"}, True, EXPIRED),
        (OLD, {"other": "x"}, False, EXPIRED),
        (replace(OLD, moment=None), {}, True, UNKNOWN),
        (replace(OLD, lifetime=Lifetime(unreadable=("expire_after",))), {}, True, UNKNOWN),
        (replace(OLD, lifetime=replace(OLD.lifetime, protected=True)), {}, True, PROTECTED),
        (replace(OLD, follows="main of origin"), {}, True, NEEDED),
        (replace(OLD, moment=ago(-400)), {}, True, KEPT),  # the clock of a writer was ahead
        (replace(OLD, lifetime=Lifetime(timedelta.max)), {}, True, UNKNOWN),
    ],
)
def test_what_is_missing_or_in_the_way_keeps_a_branch(record, unmerged, force, expected):
    assert state(record, ExpiryOptions(force=force), unmerged=unmerged) == expected


def test_refs_go_in_the_order_in_which_they_can_and_never_below_another_one():
    branches = {
        "a": Branch("a", None, 1, LONG_AGO),
        "a/b": Branch("a/b", None, 1, LONG_AGO),
        "child": Branch("child", "a", 1, LONG_AGO),
        "kept-child": Branch("kept-child", "used", 1, LONG_AGO),
        "used": Branch("used", None, 1, LONG_AGO),
        "tagged": Branch("tagged", None, 1, LONG_AGO),
    }
    tags = {
        "old": Tag("old", "a", 1),
        "clone-0123456789abcdef": Tag("clone-0123456789abcdef", None, 1),
        "stream-q": Tag("stream-q", None, 1),
        "stays": Tag("stays", "tagged", 1),
    }
    table = RefTable(branches, tags)
    records = [replace(OLD, name=name) for name in branches if name != "kept-child"]
    records += [replace(OLD, kind=TAG, name=name) for name in ("old", "clone-0123456789abcdef", "stream-q")]
    entries = decide(records, table, {}, NOW, ExpiryOptions())
    states = {entry.record.name: entry.state for entry in entries}
    assert [entry.record.name for entry in entries if entry.state == EXPIRED] == ["old", "a/b", "child", "a"]
    assert {name for name, said in states.items() if said == NEEDED} == {
        "used",
        "tagged",
        "clone-0123456789abcdef",
        "stream-q",
    }
    assert all(entry.why for entry in entries if entry.state == NEEDED)


def deleted(name, days, parent=None, state=DONE, action=DELETED, number=0):
    parent_text = "null" if parent is None else f'"{parent}"'
    ref = f'{{"parentBranch": {parent_text}, "parentVersion": 1, "createAt": 1, "metadata": {{}}}}'
    head = PinnedVersion(name, 3, 5)
    return RefChange(f"{number}-{name}", ago(days), BRANCH, name, action, head=head, ref_file=ref, state=state)


def test_files_of_deleted_branches_stay_for_their_window_and_those_others_were_made_from_longer():
    changes = [
        deleted("young", 6),
        deleted("old", 8),
        deleted("parent", 9),
        deleted("child", 2, parent="parent"),
        deleted("gone", 9, state=FORGOTTEN),
        deleted("back", 9),
        deleted("back", 8, action=RESTORED),
        deleted("never-finished", 9, state="begun"),
    ]
    found = {entry.record.name: entry.state for entry in decide_deleted(changes, RefTable({}, {}), NOW, WEEK)}
    assert found == {"young": KEPT, "old": EXPIRED, "parent": NEEDED, "child": KEPT, "never-finished": EXPIRED}


def test_a_plan_can_be_stored_and_printed():
    entries = decide(
        [OLD, replace(OLD, kind=TAG, name="t")],
        RefTable({"r": Branch("r", None, 1, LONG_AGO)}, {}),
        {"r": "1 of its versions is not in main"},
        NOW,
        ExpiryOptions(),
    )
    entries += decide_deleted([deleted("x", 9)], RefTable({}, {}), NOW, WEEK)
    plan = ExpiryPlan("/t.lance", NOW, entries, ExpiryOptions(timedelta(days=3), timedelta(days=2), True))
    assert from_document(plan.as_document()) == plan
    assert [entry.record.name for entry in plan.expired] == ["t", "x"]
    for text in ("branch r", "unmerged", "1 of its versions is not in main", "tag t", "deleted branch x"):
        assert text in str(plan)
    for broken in ({}, {**plan.as_document(), "format": 9}, {**plan.as_document(), "refs": [1]}):
        with pytest.raises(CorruptData):
            from_document(broken)


def test_a_ref_without_an_end_is_not_in_the_table_of_a_plan():
    plan = ExpiryPlan("/t", NOW, (ExpiryEntry(RefRecord(TAG, "v1", "main@1", NOW), KEPT),))
    assert plan.grid().rows == ()
    assert len(plan.grid(everything=True).rows) == 1
