"""What a maintenance does first, what it must not do, and what it remembers."""

import itertools
from datetime import timedelta

import pytest

from lance_spark.errors import CorruptData
from lance_spark.maintenance import policy_rules
from lance_spark.maintenance import policy_rules as rules

pytestmark = pytest.mark.pure

MIB = 1024**2
S = 10**9
FSCK = rules.StepRecord("fsck")
CLEANUP = rules.StepRecord("cleanup", freed=100 * MIB)


def table(name="t", *steps, left=0, uri=""):
    return rules.TableRecord(name, uri or f"/lake/{name}", steps, left_before=left)


@pytest.mark.parametrize(
    ("less", "more"),
    [
        (rules.StepRecord("cleanup", freed=1), rules.StepRecord("cleanup", freed=2)),
        (rules.StepRecord("compaction", "main", fragments=9), rules.StepRecord("compaction", "main", fragments=10)),
        (rules.StepRecord("indexes", "main", rows=9), rules.StepRecord("indexes", "main", rows=10)),
        (rules.StepRecord("expiry", refs=1), rules.StepRecord("expiry", refs=2)),
        (rules.StepRecord("compaction", "main", fragments=100), rules.StepRecord("cleanup", freed=1024 * MIB)),
        (rules.StepRecord("cleanup", freed=1024 * MIB), rules.StepRecord("compaction", "main", fragments=1000)),
        (rules.StepRecord("compaction", "main", rules.NOTHING, fragments=3), FSCK),
        (rules.StepRecord("cleanup", None, rules.STOPPED, freed=9), rules.StepRecord("cleanup", freed=1)),
        (rules.StepRecord("cleanup", None, rules.FAILED, freed=9), rules.StepRecord("expiry", refs=1)),
    ],
)
def test_a_step_is_worth_what_it_frees_and_what_it_spares_readers(less, more):
    assert rules.value_of(less) < rules.value_of(more)


def test_bytes_that_are_written_are_no_value():
    assert rules.value_of(rules.StepRecord("compaction", "main", fragments=2, written=10**15)) == rules.value_of(
        rules.StepRecord("compaction", "main", fragments=2)
    )


def test_the_most_valuable_table_is_first_whatever_the_order_of_tables():
    tables = [table("a", CLEANUP), table("b", CLEANUP, FSCK), table("c"), table("d", CLEANUP)]
    for order in itertools.permutations(tables):
        assert [each.name for each in rules.most_valuable_first(order)] == ["b", "a", "d", "c"]


def test_what_is_left_again_and_again_comes_up_and_what_is_worth_nothing_does_not():
    large, small = table("large", CLEANUP), table("small", rules.StepRecord("cleanup", freed=MIB), left=7)
    assert [each.name for each in rules.most_valuable_first([large, small])] == ["small", "large"]
    assert rules.table_value(table("idle", left=100)) == 0
    assert rules.table_value(table("old", CLEANUP, left=10**6)) > rules.table_value(large)


def test_what_was_left_most_often_is_looked_at_first():
    memory = rules.Memory({"/a": rules.Remembered(left=1), "/b": rules.Remembered(left=3)})
    assert rules.left_first({"d": "/d", "c": "/c", "a": "/a", "b": "/b"}, memory) == ["b", "a", "c", "d"]


def test_steps_are_done_in_the_safe_order_and_branches_as_they_come():
    steps = [rules.StepRecord("cleanup"), *(rules.StepRecord("compaction", name) for name in ("main", "b", "a")), FSCK]
    assert [(each.step, each.branch) for each in rules.in_safe_order(steps)] == [
        ("fsck", None),
        ("compaction", "main"),
        ("compaction", "b"),
        ("compaction", "a"),
        ("cleanup", None),
    ]


SOUND, DAMAGED, NEVER = rules.Remembered(1), rules.Remembered(1, sound=False), rules.Remembered()
CHECKED = rules.StepRecord("fsck", state=rules.DONE)
FOUND = rules.StepRecord("fsck", state=rules.STOPPED, why="data/x: missing")
BROKE = rules.StepRecord("fsck", state=rules.FAILED, error="no answer")
NOT_DUE = rules.StepRecord("fsck", state=rules.NOTHING)
FAILED_BEFORE = rules.StepRecord("compaction", "main", rules.FAILED, error="conflict")


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
    why = rules.obstacle(rules.StepRecord(step), before, remembered, held_back)
    assert said in why
    assert bool(why) == bool(said)


@pytest.mark.parametrize("step", [step for step in rules.STEPS if step not in ("expiry", "cleanup")])
def test_what_deletes_nothing_is_never_held_back(step):
    assert rules.obstacle(rules.StepRecord(step), [FOUND], DAMAGED, "a clone may need it") == ""


def test_a_cleanup_looks_again_after_refs_went():
    assert rules.worth_again(CLEANUP, [rules.StepRecord("expiry", state=rules.DONE)])
    assert not rules.worth_again(CLEANUP, [rules.StepRecord("expiry", state=rules.NOTHING)])
    assert not rules.worth_again(rules.StepRecord("compaction", "main"), [rules.StepRecord("expiry", state=rules.DONE)])


def test_indexes_are_looked_at_again_after_a_compaction_of_their_branch():
    compacted = [rules.StepRecord("compaction", "main", rules.DONE)]
    assert rules.worth_again(rules.StepRecord("indexes", "main", rules.NOTHING), compacted)
    assert not rules.worth_again(rules.StepRecord("indexes", "dev", rules.NOTHING), compacted)
    assert not rules.worth_again(CLEANUP, compacted)


@pytest.mark.parametrize(
    ("remembered", "every", "now", "due"),
    [
        (NEVER, "7", 0, True),
        (rules.Remembered(100), "7", 100, False),
        (rules.Remembered(100), "7", 100 + 7 * 86_400 - 1, False),
        (rules.Remembered(100), "7", 100 + 7 * 86_400, True),
        (rules.Remembered(100, sound=False), "7", 101, True),
        (rules.Remembered(100), "0", 100, True),
        (rules.Remembered(500), "7", 100, False),
    ],
)
def test_a_check_is_due_now_and_then_and_until_the_table_is_sound(remembered, every, now, due):
    assert bool(rules.check_due(remembered, rules.FsckRule(timedelta(days=int(every))), now * S)) == due


def test_runs_remember_checks_and_what_was_left():
    before = rules.Memory({"/a": rules.Remembered(5, True, 2), "/b": rules.Remembered(6), "/gone": rules.Remembered(7)})
    after = rules.remember(
        before,
        [
            table("a", NOT_DUE, rules.StepRecord("cleanup", state=rules.LEFT), uri="/a"),
            table("b", FOUND, uri="/b"),
            table("c", CHECKED, uri="/c"),
            table("d", BROKE, uri="/d"),
        ],
        99 * S,
    )
    assert after.tables == {
        "/a": rules.Remembered(5, True, 3),
        "/b": rules.Remembered(99, False, 0),
        "/c": rules.Remembered(99, True, 0),
        "/d": rules.Remembered(None, True, 0),
        "/gone": rules.Remembered(7),
    }
    assert rules.read_memory(after.to_json()) == after


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": 2, "tables": {}}', '{"format": 1, "tables": {"a": {}}}'])
def test_a_state_that_cannot_be_understood_says_what_to_do(text):
    with pytest.raises(CorruptData) as error:
        rules.read_memory(text)
    assert "Delete the file" in str(error.value)


@pytest.mark.parametrize(
    ("sources", "least", "state"),
    [(0, 1, rules.NOTHING), (7, 8, rules.NOTHING), (8, 8, rules.WOULD), (2, 1, rules.WOULD)],
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
    assert (record.rows, record.state) == (rows, rules.WOULD if rows else rules.NOTHING)


def test_a_step_that_was_not_done_did_nothing():
    planned = rules.StepRecord("cleanup", why="3 files", files=3, freed=10, written=4)
    assert planned.undone(rules.LEFT) == rules.StepRecord("cleanup", None, rules.LEFT, "3 files")


@pytest.mark.parametrize(("code", "handed_on"), [(21, 21), (22, 0), (20, 0), (0, 0)])
def test_a_step_that_waits_for_a_permission_ends_with_the_code_of_the_permission(code, handed_on):
    """A run that lacked only a permission for one table ended with 6, as the cleanups of others had waited for it."""
    step = rules.stopped(rules.StepRecord("cleanup"), "left alone, because a cannot be read", code)
    assert (step.state, step.exit_code, step.bad) == (rules.STOPPED, handed_on, True)
