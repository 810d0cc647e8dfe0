"""What a maintenance does first, what it must not do, and what it remembers."""

import itertools
from datetime import timedelta

import pytest

from lance_spark.errors import CorruptData
from lance_spark.maintenance import policy_rules
from lance_spark.maintenance.policy_rules import (
    DONE,
    FAILED,
    LEFT,
    NOTHING,
    STEPS,
    STOPPED,
    WOULD,
    FsckRule,
    Memory,
    Remembered,
    StepRecord,
    TableRecord,
    check_due,
    in_safe_order,
    left_first,
    most_valuable_first,
    obstacle,
    read_memory,
    remember,
    table_value,
    value_of,
    worth_again,
)

pytestmark = pytest.mark.pure

MIB = 1024**2
S = 10**9
FSCK = StepRecord("fsck")
CLEANUP = StepRecord("cleanup", freed=100 * MIB)


def table(name="t", *steps, left=0, uri=""):
    return TableRecord(name, uri or f"/lake/{name}", steps, left_before=left)


@pytest.mark.parametrize(
    ("less", "more"),
    [
        (StepRecord("cleanup", freed=1), StepRecord("cleanup", freed=2)),
        (StepRecord("compaction", "main", fragments=9), StepRecord("compaction", "main", fragments=10)),
        (StepRecord("indexes", "main", rows=9), StepRecord("indexes", "main", rows=10)),
        (StepRecord("expiry", refs=1), StepRecord("expiry", refs=2)),
        (StepRecord("compaction", "main", fragments=100), StepRecord("cleanup", freed=1024 * MIB)),
        (StepRecord("cleanup", freed=1024 * MIB), StepRecord("compaction", "main", fragments=1000)),
        (StepRecord("compaction", "main", NOTHING, fragments=3), FSCK),
        (StepRecord("cleanup", None, STOPPED, freed=9), StepRecord("cleanup", freed=1)),
        (StepRecord("cleanup", None, FAILED, freed=9), StepRecord("expiry", refs=1)),
    ],
)
def test_a_step_is_worth_what_it_frees_and_what_it_spares_readers(less, more):
    assert value_of(less) < value_of(more)


def test_bytes_that_are_written_are_no_value():
    assert value_of(StepRecord("compaction", "main", fragments=2, written=10**15)) == value_of(
        StepRecord("compaction", "main", fragments=2)
    )


def test_the_most_valuable_table_is_first_whatever_the_order_of_tables():
    tables = [table("a", CLEANUP), table("b", CLEANUP, FSCK), table("c"), table("d", CLEANUP)]
    for order in itertools.permutations(tables):
        assert [each.name for each in most_valuable_first(order)] == ["b", "a", "d", "c"]


def test_what_is_left_again_and_again_comes_up_and_what_is_worth_nothing_does_not():
    large, small = table("large", CLEANUP), table("small", StepRecord("cleanup", freed=MIB), left=7)
    assert [each.name for each in most_valuable_first([large, small])] == ["small", "large"]
    assert table_value(table("idle", left=100)) == 0
    assert table_value(table("old", CLEANUP, left=10**6)) > table_value(large)


def test_what_was_left_most_often_is_looked_at_first():
    memory = Memory({"/a": Remembered(left=1), "/b": Remembered(left=3)})
    assert left_first({"d": "/d", "c": "/c", "a": "/a", "b": "/b"}, memory) == ["b", "a", "c", "d"]


def test_steps_are_done_in_the_safe_order_and_branches_as_they_come():
    steps = [StepRecord("cleanup"), *(StepRecord("compaction", name) for name in ("main", "b", "a")), FSCK]
    assert [(each.step, each.branch) for each in in_safe_order(steps)] == [
        ("fsck", None),
        ("compaction", "main"),
        ("compaction", "b"),
        ("compaction", "a"),
        ("cleanup", None),
    ]


SOUND, DAMAGED, NEVER = Remembered(1), Remembered(1, sound=False), Remembered()
CHECKED = StepRecord("fsck", state=DONE)
FOUND = StepRecord("fsck", state=STOPPED, why="data/x: missing")
BROKE = StepRecord("fsck", state=FAILED, error="no answer")
NOT_DUE = StepRecord("fsck", state=NOTHING)
FAILED_BEFORE = StepRecord("compaction", "main", FAILED, error="conflict")


@pytest.mark.parametrize("step", ["expiry", "cleanup"])
@pytest.mark.parametrize(
    ("before", "remembered", "held_back", "said"),
    [
        ([CHECKED], NEVER, "", ""),
        ([CHECKED], DAMAGED, "", ""),
        ([NOT_DUE], SOUND, "", ""),
        ([], NEVER, "", ""),
        ([CHECKED, FAILED_BEFORE], SOUND, "", ""),
        ([FOUND], SOUND, "", "found damage"),
        ([FOUND], DAMAGED, "", "found damage"),
        ([BROKE], SOUND, "", "could not be checked"),
        ([], DAMAGED, "", "the last check"),
        ([NOT_DUE], DAMAGED, "", "the last check"),
        ([CHECKED], SOUND, "a clone may need it", "a clone"),
        ([], SOUND, "a clone may need it", "a clone"),
    ],
)
def test_only_a_sound_table_loses_anything(step, before, remembered, held_back, said):
    why = obstacle(StepRecord(step), before, remembered, held_back)
    assert said in why
    assert bool(why) == bool(said)


@pytest.mark.parametrize("step", [step for step in STEPS if step not in ("expiry", "cleanup")])
def test_what_deletes_nothing_is_never_held_back(step):
    assert obstacle(StepRecord(step), [FOUND], DAMAGED, "a clone may need it") == ""


def test_a_cleanup_looks_again_after_refs_went():
    assert worth_again(CLEANUP, [StepRecord("expiry", state=DONE)])
    assert not worth_again(CLEANUP, [StepRecord("expiry", state=NOTHING)])
    assert not worth_again(StepRecord("compaction", "main"), [StepRecord("expiry", state=DONE)])


def test_indexes_are_looked_at_again_after_a_compaction_of_their_branch():
    compacted = [StepRecord("compaction", "main", DONE)]
    assert worth_again(StepRecord("indexes", "main", NOTHING), compacted)
    assert not worth_again(StepRecord("indexes", "dev", NOTHING), compacted)
    assert not worth_again(CLEANUP, compacted)


@pytest.mark.parametrize(
    ("remembered", "every", "now", "due"),
    [
        (NEVER, "7", 0, True),
        (Remembered(100), "7", 100, False),
        (Remembered(100), "7", 100 + 7 * 86_400 - 1, False),
        (Remembered(100), "7", 100 + 7 * 86_400, True),
        (Remembered(100, sound=False), "7", 101, True),
        (Remembered(100), "0", 100, True),
        (Remembered(500), "7", 100, False),
    ],
)
def test_a_check_is_due_now_and_then_and_until_the_table_is_sound(remembered, every, now, due):
    assert bool(check_due(remembered, FsckRule(timedelta(days=int(every))), now * S)) == due


def test_runs_remember_checks_and_what_was_left():
    before = Memory({"/a": Remembered(5, True, 2), "/b": Remembered(6), "/gone": Remembered(7)})
    after = remember(
        before,
        [
            table("a", NOT_DUE, StepRecord("cleanup", state=LEFT), uri="/a"),
            table("b", FOUND, uri="/b"),
            table("c", CHECKED, uri="/c"),
            table("d", BROKE, uri="/d"),
        ],
        99 * S,
    )
    assert after.tables == {
        "/a": Remembered(5, True, 3),
        "/b": Remembered(99, False, 0),
        "/c": Remembered(99, True, 0),
        "/d": Remembered(None, True, 0),
        "/gone": Remembered(7),
    }
    assert read_memory(after.to_json()) == after


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": 2, "tables": {}}', '{"format": 1, "tables": {"a": {}}}'])
def test_a_state_that_cannot_be_understood_says_what_to_do(text):
    with pytest.raises(CorruptData) as error:
        read_memory(text)
    assert "Delete the file" in str(error.value)


@pytest.mark.parametrize(
    ("sources", "least", "state"), [(0, 1, NOTHING), (7, 8, NOTHING), (8, 8, WOULD), (2, 1, WOULD)]
)
def test_few_small_fragments_are_left_alone(sources, least, state):
    assert policy_rules.compaction(None, sources, 1, 10, least).state == state


@pytest.mark.parametrize(
    ("stale", "least", "percent", "rows"),
    [
        ({}, 1, 0, 0),
        ({"i": 0}, 1, 0, 0),
        ({"i": 5}, 1, 0, 5),
        ({"i": 5}, 6, 0, 0),
        ({"i": 5}, 1, 6, 0),
        ({"i": 6}, 1, 6, 6),
        ({"i": 50, "j": 5}, 10, 0, 50),
    ],
)
def test_indexes_that_lack_little_are_left_alone(stale, least, percent, rows):
    record = policy_rules.indexes("dev", stale, 100, least, percent)
    assert (record.rows, record.state) == (rows, WOULD if rows else NOTHING)


def test_a_step_that_was_not_done_did_nothing():
    planned = StepRecord("cleanup", why="3 files", files=3, freed=10, written=4)
    assert planned.undone(LEFT) == StepRecord("cleanup", None, LEFT, "3 files")
