"""Whose value is taken where both sides changed a row: decided as values, and said in every language."""

import numpy as np
import pyarrow as pa
import pytest

from lance_spark import hints
from lance_spark.errors import InvalidOption
from lance_spark.merge.cell_rules import TWIN, CellColumn, CellRule, Cells, Form, clashing, decide_cells, settled_rows
from lance_spark.merge.change_rules import GONE_OURS, OTHER_ROWS, ContestedRow, MergeConflict
from lance_spark.merge.conflict_rules import AMBIGUOUS, BOTH_CHANGED, SAME_KEY, TAKEN_BEFORE, with_contested
from lance_spark.merge.hint_rules import hint_for
from lance_spark.merge.option_rules import OURS, THEIRS, MergeOptions, Prefer

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    ("given", "text", "price", "other"),
    [
        (None, "", None, None),
        ("theirs", "theirs", "theirs", "theirs"),
        ("OURS", "ours", "ours", "ours"),
        ("price=theirs", "price=theirs", "theirs", None),
        ("price = theirs, *=ours", "price=theirs, *=ours", "theirs", "ours"),
        ({"price": "ours", "*": "theirs"}, "price=ours, *=theirs", "ours", "theirs"),
        ({"a=b": "ours"}, "a=b=ours", None, None),
    ],
)
def test_a_preference_is_read_from_texts_and_mappings(given, text, price, other):
    prefer = Prefer.of(given)
    assert (prefer.text, prefer.side("price"), prefer.side("other"), bool(prefer)) == (text, price, other, bool(text))
    assert Prefer.of(prefer.text) == prefer


@pytest.mark.parametrize("given", ["mine", "price=yours", {"price": None}, 7, "price=ours, price=theirs"])
def test_a_preference_that_means_nothing_is_refused(given):
    with pytest.raises(InvalidOption):
        MergeOptions(prefer=given)


@pytest.mark.parametrize("given", [{"ours": True, "theirs": True}, {"prefer": "ours", "theirs": True}])
def test_only_one_side_can_be_preferred(given):
    with pytest.raises(InvalidOption, match="Only one of"):
        MergeOptions(**given)


COLUMNS = [CellColumn(name, name, name, name, True, Form.VALUES, frozenset({at})) for at, name in enumerate("xy")]


def decided(base, ours, theirs, new=None, **rule):
    sides = [{at: pa.array([row[at] for row in side], pa.int64()) for at in (0, 1)} for side in (base, ours, theirs)]
    cells = Cells(*sides, len(base), None if new is None else np.array(new))
    cell_rule = CellRule({}, {}, **rule)
    outcome = decide_cells(COLUMNS, (0, 1), cells, cell_rule)
    values = [tuple(row) for row in zip(*(outcome.values[at].to_pylist() for at in (0, 1)), strict=True)]
    clashes = {at: mask.tolist() for at, mask in clashing(outcome, cells, cell_rule).items()}
    return values, clashes, settled_rows(outcome, len(base))


BASE, MINE, OTHER = [(1, 1), (1, 1), (1, 1)], [(2, 1), (2, 2), (1, 2)], [(3, 1), (1, 3), (3, 1)]
"""Both changed x; both changed y and ours x; ours changed y and theirs x."""


@pytest.mark.parametrize(
    ("rule", "values", "clashes", "settled"),
    [
        ({}, None, {0: [True, False, False], 1: [False, True, False]}, 0),
        ({"wins": {0: THEIRS, 1: THEIRS}}, [(3, 1), (2, 3), (3, 2)], {}, 2),
        ({"wins": {0: OURS, 1: OURS}}, [(2, 1), (2, 2), (3, 2)], {}, 2),
        ({"wins": {0: THEIRS, 1: OURS}}, [(3, 1), (2, 2), (3, 2)], {}, 2),
        ({"wins": {0: THEIRS}}, None, {1: [False, True, False]}, 1),
        ({"is_whole": True}, None, {-1: [True, True, True]}, 0),
        ({"is_whole": True, "rest": THEIRS}, OTHER, {}, 3),
        ({"is_whole": True, "rest": OURS}, MINE, {}, 3),
    ],
)
def test_only_what_clashes_goes_to_the_preferred_side(rule, values, clashes, settled):
    found, clash, count = decided(BASE, MINE, OTHER, **rule)
    assert (found if values else None, clash, count) == (values, clashes, settled)


def test_of_two_new_rows_with_one_key_the_preferred_one_stays():
    none, mine, other = [(None, None)], [(1, None)], [(2, 5)]
    assert decided(none, mine, other, [True])[1] == {TWIN: [True]}
    assert decided(none, mine, other, [True], wins={0: OURS, 1: OURS})[0] == mine
    assert decided(none, mine, other, [True], wins={0: THEIRS, 1: THEIRS})[0] == other


def test_a_side_that_only_moved_a_row_loses_nothing_to_the_other_one():
    assert decided([(1, 1)], [(1, 1)], [(1, 2)], is_whole=True, rest=OURS) == ([(1, 2)], {}, 0)


CELL = MergeConflict(BOTH_CHANGED.format("price"), count=2)
LOST = MergeConflict(GONE_OURS.reason)


@pytest.mark.parametrize(
    ("conflicts", "prefer", "words"),
    [
        ([CELL], "", "t.branches.merge('exp', prefer='theirs')"),
        ([CELL], "", "t.branches.merge('exp', prefer='ours')"),
        ([CELL], "name=ours", "t.branches.merge('exp', prefer='name=ours, *=theirs')"),
        ([MergeConflict(OTHER_ROWS.reason, on=("id",))], "", "t.branches.merge('exp', on='id', prefer='theirs')"),
        ([LOST], "", "no column tells them apart"),
        ([MergeConflict(AMBIGUOUS), MergeConflict(SAME_KEY)], "", "t.branches.merge('exp', prefer='theirs')"),
        ([MergeConflict(SAME_KEY)], "", "give it another key"),
        ([CELL, MergeConflict(TAKEN_BEFORE)], "", "Take nothing if the rows are already there"),
        ([CELL, MergeConflict("'exp' replaced the whole table")], "", "Make the same change on both sides"),
    ],
)
def test_a_hint_names_the_call_that_settles_it(conflicts, prefer, words):
    def again(side, on):
        return hints.merge("exp", None, side, on)

    assert words in hint_for(conflicts, again, Prefer.of(prefer))


@pytest.mark.parametrize("prefer", ["", "name=ours", "name=ours, *=theirs"])
def test_a_hint_keeps_what_the_caller_said(prefer):
    """Without the column that matched rows the call failed in another way; a rest that stood twice was refused."""
    said = []

    def again(side, on):
        said.append((Prefer.of(side).columns, tuple(on)))
        return hints.merge("exp", None, side, on)

    assert "on='id'" in hint_for([CELL], again, Prefer.of(prefer), ("id",))
    assert said == [(Prefer.of(prefer).columns, ("id",))] * 2


@pytest.mark.parametrize(
    ("verb", "python", "sql", "shell"),
    [
        (
            hints.merge("exp", "dev", "theirs", ["id"]),
            "t.branches.merge('exp', into='dev', on='id', prefer='theirs')",
            "merge_branch(table => '<table>', branch => 'exp', into => 'dev', on => 'id', prefer => 'theirs')",
            "lance-git merge --on id --theirs exp",
        ),
        (
            hints.cherry_pick("exp", 7, None, "price=ours, *=theirs"),
            "t.cherry_pick('exp', 7, prefer='price=ours, *=theirs')",
            "cherry_pick(table => '<table>', ref => 'exp@7', prefer => 'price=ours, *=theirs')",
            "lance-git cherry-pick -X 'price=ours, *=theirs' exp@7",
        ),
        (
            hints.revert(7, None, "ours"),
            "t.revert(7, prefer='ours')",
            "revert(table => '<table>', version => 7, prefer => 'ours')",
            "lance-git revert --ours main@7",
        ),
        (
            hints.pull("origin", "main", prefer="theirs"),
            "t.checkout(branch='main').remotes.pull('origin', prefer='theirs')",
            "in Python",
            "lance-git pull --theirs origin main",
        ),
    ],
)
def test_verbs_are_typed_with_a_preference_in_each_language(verb, python, sql, shell):
    assert str(verb) == python
    assert sql in verb.sql
    assert verb.shell == shell


def test_conflicts_about_rows_name_them_once_these_were_compared():
    other = MergeConflict("'exp' replaced the whole table")
    assert with_contested([LOST, other], [CELL]) == (CELL, other)
    assert with_contested([LOST, other], [LOST]) == (LOST, other)


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (ContestedRow("id=3", {"x": 1}, {"x": 2}, {"x": 3}), "id=3: x is 2 in ours, 3 in theirs"),
        (ContestedRow("id=3", {"x": 1}, None, {"x": 3}), "id=3: deleted in ours; in theirs x is 3"),
        (ContestedRow("id=3", {}, {"x": 2}, None), "id=3: deleted in theirs; in ours x is 2"),
    ],
)
def test_a_contested_row_is_one_line(row, text):
    assert str(row) == text
