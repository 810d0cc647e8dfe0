"""A publish as values: what a branch of the lake changed, how main takes it in, and what is written down."""

import json
from dataclasses import replace

import pyarrow as pa
import pytest

from lance_spark.catalog import publish_rules as rules
from lance_spark.catalog.entry_rules import SCHEMA, Entry, Rows, new_rows
from lance_spark.catalog.lake_rules import KEY, Pin
from lance_spark.errors import Conflict, CorruptData
from lance_spark.lake import manifest_rules
from lance_spark.lake.manifest_rules import PublishRows, decide, row_changes

pytestmark = pytest.mark.pure


def table(name, location=None, **properties):
    return Entry(name, "table", location or f"0000_{name}", json.dumps(properties) if properties else None)


def pinned(name, location=None, **properties):
    return table(name, location, **properties, **{KEY: '{"version":1}'})


def space(name, **properties):
    return Entry(name, "namespace", None, json.dumps(properties) if properties else None)


def rows_of(entries, schema=SCHEMA):
    return Rows(new_rows(schema, entries))


def after(edit, main):
    """The rows once an edit is made: name, directory, metadata."""
    kept = [row for row in main if row.object_id not in edit.remove]
    added = [] if edit.add is None else list(Rows(edit.add).entries)
    return sorted((row.object_id, row.location, json.loads(row.metadata or "{}")) for row in (*kept, *added))


def plain(entries):
    return sorted((row.object_id, row.location, json.loads(row.metadata or "{}")) for row in entries)


A, B, NS = table("a"), table("b", owner="me"), space("ns")
BASE = [A, B, NS, table("ns$c")]
DONE = [
    # what the branch has, what main has, what main has afterwards
    ("nothing", BASE, BASE, BASE),
    ("only main changed", BASE, [A, NS, table("z")], [A, NS, table("z")]),
    ("new", [*BASE, table("n")], [*BASE, table("z")], [*BASE, table("z"), table("n")]),
    ("new, marked", [*BASE, table("n", **{KEY: '{"new":true}'})], BASE, [*BASE, table("n")]),
    ("new in a new namespace", [*BASE, space("s"), table("s$n")], BASE, [*BASE, space("s"), table("s$n")]),
    ("dropped", BASE[1:], BASE, BASE[1:]),
    ("dropped on both", BASE[1:], BASE[1:], BASE[1:]),
    ("namespace with its tables dropped", [A, B], BASE, [A, B]),
    ("renamed", [table("x", "0000_a"), *BASE[1:]], BASE, [table("x", "0000_a"), *BASE[1:]]),
    (
        "renamed to a name that is free since",
        [table("b", "0000_a"), NS, BASE[3]],
        BASE,
        [table("b", "0000_a"), *BASE[2:]],
    ),
    (
        "two that swap names",
        [table("b", "0000_a"), table("a", "0000_b", owner="me"), *BASE[2:]],
        BASE,
        [table("b", "0000_a"), table("a", "0000_b", owner="me"), *BASE[2:]],
    ),
    (
        "renamed on main",
        [table("a", p="1"), *BASE[1:]],
        [table("x", "0000_a"), *BASE[1:]],
        [table("x", "0000_a", p="1"), *BASE[1:]],
    ),
    (
        "other properties on both",
        [A, table("b", owner="me", p="1"), *BASE[2:]],
        [A, table("b", q="2", owner="me"), *BASE[2:]],
        [A, table("b", owner="me", p="1", q="2"), *BASE[2:]],
    ),
    ("property unset", [A, table("b"), *BASE[2:]], BASE, [A, table("b"), *BASE[2:]]),
    (
        "the same on both",
        [A, table("b", owner="you"), *BASE[2:]],
        [A, table("b", owner="you"), *BASE[2:]],
        [A, table("b", owner="you"), *BASE[2:]],
    ),
    ("property of a namespace", [A, B, space("ns", k="v"), BASE[3]], BASE, [A, B, space("ns", k="v"), BASE[3]]),
]


@pytest.mark.parametrize(("branch", "main", "expected"), [case[1:] for case in DONE], ids=[case[0] for case in DONE])
def test_main_takes_the_changes_in(branch, main, expected):
    changes = row_changes(BASE, branch)
    decision = decide(changes, rows_of(main))
    assert decision.conflicts == ()
    assert after(decision.edit, main) == plain(expected)
    again = decide(changes, rows_of(expected))
    assert again.conflicts == ()
    assert again.edit.is_empty, "a second helper changes nothing"


def test_pins_are_no_change():
    assert row_changes([pinned("a"), B], [table("a"), pinned("b", owner="me")]) == ()


@pytest.mark.parametrize("branch", [case[1] for case in DONE], ids=[case[0] for case in DONE])
def test_the_inverse_takes_a_change_back(branch):
    changes = row_changes(BASE, branch)
    edit = decide(changes, rows_of(BASE)).edit
    now = [
        Entry(name, "namespace" if place is None else "table", place, json.dumps(values) if values else None)
        for name, place, values in after(edit, BASE)
    ]
    back = decide([change.inverse for change in changes], rows_of(now))
    assert back.conflicts == ()
    assert after(back.edit, now) == plain(BASE)


CLASHES = [
    ("same new name", [*BASE, table("n", "1_n")], [*BASE, table("n", "2_n")], "n", "name was taken"),
    ("same new name, as a namespace", [*BASE, table("n")], [*BASE, space("n")], "n", "name was taken"),
    (
        "renamed differently",
        [table("x", "0000_a"), *BASE[1:]],
        [table("y", "0000_a"), *BASE[1:]],
        "a",
        "renamed to 'x'",
    ),
    ("renamed to a taken name", [table("x", "0000_a"), *BASE[1:]], [*BASE, table("x")], "x", "name was taken"),
    ("property", [A, table("b", owner="x"), *BASE[2:]], [A, table("b", owner="y"), *BASE[2:]], "b", "'owner'"),
    ("property unset and changed", [A, table("b"), *BASE[2:]], [A, table("b", owner="y"), *BASE[2:]], "b", "'owner'"),
    ("dropped, and changed on main", [A, *BASE[2:]], [A, table("b", owner="y"), *BASE[2:]], "b", "changed on main"),
    ("changed, and dropped on main", [A, table("b", p="1"), *BASE[2:]], [A, *BASE[2:]], "b", "dropped on main"),
    ("namespace dropped, and new tables in it", [A, B], [*BASE, table("ns$new")], "ns", "'ns.new'"),
    ("new in a namespace that main dropped", [*BASE, table("ns$n")], [A, B], "ns.n", "was dropped on main"),
    ("registered twice", [*BASE, table("n", "1_n")], [*BASE, table("m", "1_n")], "n", "as 'm' on main"),
]


@pytest.mark.parametrize(
    ("branch", "main", "name", "reason"), [case[1:] for case in CLASHES], ids=[case[0] for case in CLASHES]
)
def test_what_both_changed_is_a_conflict_and_changes_nothing(branch, main, name, reason):
    decision = decide(row_changes(BASE, branch), rows_of(main))
    assert decision.edit.is_empty
    assert [conflict.name for conflict in decision.conflicts] == [name]
    assert reason in decision.conflicts[0].reason
    with pytest.raises(Conflict, match=f"{name}: "):
        PublishRows("publish", row_changes(BASE, branch)).edit(rows_of(main))


def test_data_counts_as_a_change():
    dropped = row_changes(BASE, BASE[1:])
    (clash,) = decide(dropped, rows_of(BASE), moved=["0000_a"]).conflicts
    assert clash.name == "a"
    assert "written on main" in clash.reason
    (clash,) = decide((), rows_of(BASE[1:]), written={"0000_a": "a"}).conflicts
    assert clash == rules.LakeConflict("a", "changed on the branch, and dropped on main")
    assert not decide(dropped, rows_of(BASE), written={"0000_a": "a"}).conflicts
    assert not decide((), rows_of([]), unlisted=["a.lance"], written={"a.lance": "a"}).conflicts


def test_a_directory_without_a_row_gets_one_but_keeps_its_name():
    base = [table("a", "a.lance")]
    edit = decide(row_changes(base, [table("a", "a.lance", p="1")]), rows_of([]), unlisted=["a.lance"]).edit
    assert after(edit, []) == [("a", "a.lance", {"p": "1"})]
    for branch in ([], [table("x", "a.lance")]):
        (clash,) = decide(row_changes(base, branch), rows_of([]), unlisted=["a.lance"]).conflicts
        assert "migrate" in clash.reason
    (clash,) = decide(row_changes(base, []), rows_of(base)).conflicts
    assert "drop it on main" in clash.reason


def test_columns_of_others_stay():
    schema = SCHEMA.append(pa.field("theirs", pa.int64()))
    own = rows_of([A, NS], schema).table.set_column(5, schema.field(5), pa.array([7, 8]))
    edit = decide(row_changes(BASE, [table("x", "0000_a", p="1"), *BASE[1:], table("n")]), Rows(own)).edit
    assert dict(zip(edit.add["object_id"].to_pylist(), edit.add["theirs"].to_pylist(), strict=True)) == {
        "x": 7,
        "n": None,
    }


# --- What is written down

JOURNAL = rules.Journal(
    sequence=7,
    id="a1b2c3d4",
    branch="etl/nightly",
    made="2026-11-24T02:00:00+00:00",
    tables=(rules.JournalTable("ns$c", "0000_c", "lake/etl/nightly-1a2b3c4d", 4, 17),),
    rows=(rules.EntryChange(None, table("ü")), rules.EntryChange(A, None), rules.EntryChange(B, table("b"))),
    dropped={"0000_a": 4},
    manifest_since=3,
    message="nightly",
)
OUTCOME = rules.PublishOutcome(
    7,
    "a1b2c3d4",
    rules.TAKEN_BACK,
    (rules.TableOutcome("0000_c", 17, 18),),
    rules.TableOutcome("__manifest", 3, 4),
    (rules.LakeConflict("a", "b"),),
)


def test_what_is_written_is_read():
    assert rules.decode(rules.Journal, JOURNAL.encode(), "x") == JOURNAL
    assert rules.decode(rules.PublishOutcome, OUTCOME.encode(), "x") == OUTCOME
    plain = replace(OUTCOME, manifest=None, conflicts=(), outcome=rules.PUBLISHED)
    assert rules.decode(rules.PublishOutcome, plain.encode(), "x") == plain
    assert plain.is_published
    assert not OUTCOME.is_published
    verdict = rules.PublishVerdict("a1", rules.TAKEN_BACK, (rules.LakeConflict("a", "b"),))
    assert rules.decode(rules.PublishVerdict, verdict.encode(), "x") == verdict
    assert JOURNAL.tables[0].name == "ns.c"


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"null", b"{}", b'{"outcome": "maybe", "id": "", "conflicts": []}', b"\xff"]
)
def test_what_cannot_be_read_is_damage(content):
    for kind in (rules.Journal, rules.PublishOutcome, rules.PublishVerdict):
        with pytest.raises(CorruptData, match=r"0017\.json"):
            rules.decode(kind, content, "0017.json")


def test_what_was_taken_back_is_an_error():
    manifest_rules.check_published(JOURNAL, replace(OUTCOME, outcome=rules.PUBLISHED))
    with pytest.raises(Conflict, match=r"was taken back: another process.*\n  - a: b") as told:
        manifest_rules.check_published(JOURNAL, OUTCOME)
    assert told.value.hint.startswith("Publish again")
    many = [rules.LakeConflict(f"t{number}", "x") for number in range(12)]
    with pytest.raises(Conflict, match="2 more"):
        manifest_rules.check(many)


def test_names_sort_newest_first():
    names = [rules.journal_name(number) for number in (1, 2, 10, 1000)]
    assert names == sorted(names, reverse=True)
    assert [rules.sequence_of(name) for name in names] == [1, 2, 10, 1000]
    for other in (rules.verdict_name(1), rules.outcome_name(1), "x.json", "1.json", ".tmp"):
        assert rules.sequence_of(other) is None


def test_a_row_names_the_branch_of_its_table():
    text = json.dumps({KEY: json.dumps({"version": 3, "branch": "lake/x-1"})})
    assert Entry("a", "table", "d", text).pin == Pin(3, "lake/x-1")
    assert A.pin is None
    for broken in ("{", "[]", "7", '{"version":"x"}', '{"branch":1}'):
        with pytest.raises(CorruptData, match="'a'"):
            assert table("a", **{KEY: broken}).pin
