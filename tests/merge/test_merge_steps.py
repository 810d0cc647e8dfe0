"""What the operations between two versions tell, and what they do not."""

import pytest
from support.merge_values import steps

from lance_spark.format.operations import Step, Steps
from lance_spark.format.row_ids import Rewrite

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    ("operation", "moves_rows", "changes_rows", "may_add_columns"),
    [
        ("Append", False, False, False),
        ("Clone", False, False, True),
        ("CreateIndex", False, False, False),
        ("DataReplacement", True, True, True),
        ("Delete", False, True, False),
        ("Merge", False, True, True),
        ("Overwrite", True, True, True),
        ("Project", False, True, False),
        ("ReserveFragments", False, False, False),
        ("Restore", True, True, True),
        ("Rewrite", False, True, False),
        ("Update", True, True, False),
        ("UpdateBases", False, False, False),
        ("UpdateConfig", False, False, False),
        ("Unknown", True, True, True),
    ],
)
def test_what_an_operation_may_have_done(operation, moves_rows, changes_rows, may_add_columns):
    step, side = Step(2, operation), steps(None, operation)
    assert (step.moves_rows, step.changes_rows) == (moves_rows, changes_rows)
    assert side.moves_no_rows != moves_rows
    assert side.may_add_columns == may_add_columns
    assert side.replaces_all == (operation == "Overwrite")
    incomplete = steps(None, operation, complete=False)
    assert incomplete.may_add_columns
    assert not incomplete.moves_no_rows


def test_what_a_commit_says_of_itself_goes_before_the_operation():
    assert not Step(2, "Update", moved=False).moves_rows
    assert Step(2, "Merge", moved=True).moves_rows
    assert Step(2, "Update", replaced=True).replaces_all
    assert not Step(2, "Overwrite", replaced=False).replaces_all
    assert not Step(2, "Update", adds_only=True).changes_rows


@pytest.mark.parametrize(
    ("step", "renames"),
    [
        (Step(2, "Append"), False),
        (Step(2, "Delete"), False),
        (Step(2, "Update"), True),
        (Step(2, "Update", moved=False), False),
        (Step(2, "Update", moved=False, brings=True), True),
        (Step(2, "Rewrite"), True),
        (Step(2, "Update", moved=False, rewrites=(Rewrite((), ()),)), True),
        (Step(2, "Update", moved=False, reordered=True), True),
    ],
    ids=["append", "delete", "update", "no rows moved", "rows brought", "rewrite", "a rewrite taken over", "sorted"],
)
def test_which_versions_may_have_put_rows_into_other_files(step, renames):
    assert (step.renames_rows, steps(None, step).renames_rows) == (renames, renames)
    assert steps(None, complete=False).renames_rows
    assert not steps(None).renames_rows


def test_versions_of_which_some_are_gone_may_have_changed_rows():
    assert [steps(None, *each).changes_rows for each in (["Append"], ["Append", "Delete"])] == [False, True]
    assert steps(None, complete=False).changes_rows


BRINGS, QUIET, UPDATE = Step(2, "Update", brings=True), Step(3, "CreateIndex"), Step(3, "Update")


@pytest.mark.parametrize(
    ("here", "there", "complete", "hidden"),
    [
        ([UPDATE], [UPDATE], True, False),
        ([UPDATE], [UPDATE], False, False),
        ([BRINGS], [], True, False),
        ([BRINGS, QUIET], [QUIET], True, False),
        ([BRINGS, UPDATE], [], True, True),
        ([UPDATE, BRINGS], [], True, False),
        ([BRINGS], [UPDATE], True, True),
        ([BRINGS], [], False, True),
    ],
)
def test_rows_that_came_by_a_pick_are_hidden_once_rows_change(here, there, complete, hidden):
    assert steps(None, *here).may_hide(steps("exp", *there, complete=complete)) == hidden
    assert steps(None, *here).brings == (BRINGS in here)


def test_only_later_versions_change_a_version():
    side = steps(None, "Append", "Update", "Append")
    assert [side.changed_after(number) for number in (1, 2, 3, 4)] == [True, True, False, False]
    assert steps(None, complete=False).changed_after(9)


@pytest.mark.parametrize(
    ("operations", "words"),
    [
        ([], ""),
        (["Append"], "main@2 (Append)"),
        (["Append", "Delete", "UpdateConfig"], "main@3 (Delete), main@4 (UpdateConfig)"),
        (["Delete"] * 6, "main@2 (Delete), main@3 (Delete), main@4 (Delete), main@5 (Delete), 2 more"),
    ],
)
def test_a_conflict_names_the_versions_that_may_have_made_it(operations, words):
    assert steps(None, *operations).described() == words


@pytest.mark.parametrize(
    ("operations", "same"),
    [(("Rewrite",), True), (("CreateIndex", "Rewrite"), True), (("Rewrite", "Append"), False), ((), False)],
    ids=str,
)
def test_versions_that_keep_all_rows(operations, same):
    assert steps(None, *operations).keep_all_rows == same
    assert not steps(None, *operations, complete=False).keep_all_rows


def test_rows_in_another_order_are_all_kept():
    assert Steps(None, (Step(2, "Update", moved=True, reordered=True),)).keep_all_rows
    assert not Steps(None, (Step(2, "Update", moved=True),)).keep_all_rows


def test_columns_that_were_missing_for_a_while():
    several = [Step(2, "Project", fields=frozenset({0, 2})), "Append", Step(4, "Merge", fields=frozenset({0, 1}))]
    assert steps(None, *several).dropped([0, 1, 2]) == {1, 2}
    assert steps(None, *several).dropped([0]) == frozenset()
    assert steps(None, "Append", "Rewrite").dropped([0, 1]) == frozenset()
