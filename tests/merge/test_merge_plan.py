"""A plan as a value: what it costs and brings, what later merges have to know of it, and pylance's operation for it."""

from dataclasses import replace

import pytest
from support.merge_values import FIELDS, data_file, deletion, fragment, sides, steps, version

from lance_spark.core.refs import PinnedVersion
from lance_spark.errors import NotCommittable
from lance_spark.format.contents import Field
from lance_spark.format.versions import MERGE, Copy, Root, Trace
from lance_spark.merge.assembly_rules import Placed, ReplayPlan
from lance_spark.merge.change_rules import ColumnChanges, MergeChange, Replacement, operation_for
from lance_spark.merge.report import Summary

pytestmark = pytest.mark.pure

ONE, TWO, NEW = fragment(0), fragment(1), fragment(2, deleted=deletion(3))
BASE = version([ONE, TWO])
W = Field(2, -1, "w", "int64", True, ())
THEIRS = version([ONE, TWO], 4, "exp", fields=(*FIELDS, W))
COPIES = (Copy(Root("s3://b/x"), "a", "a", 7), Copy(Root("s3://b/x"), "b", "b"))
DELETED = Replacement(ONE, ONE, fragment(0, deleted=deletion(4)), False, True)
RETURNED = Replacement(fragment(0, deleted=deletion(4)), ONE, ONE, False, True)
WRITTEN = Replacement(ONE, ONE, fragment(0, data_file("w.lance", 2)), True, False)


def planned(change, operations=("Append", "Delete"), complete=True, ours=BASE):
    compared = sides(BASE, ours, THEIRS, steps(None), steps("exp", *operations, complete=complete))
    placed = Placed({}, copies=COPIES)
    return ReplayPlan(compared, change, placed, Trace(MERGE, PinnedVersion("exp", 4)))


NOTHING = Summary(2, 0, 0, 0, (), (), 2, 7)


@pytest.mark.parametrize(
    ("change", "summary"),
    [
        (MergeChange(), NOTHING),
        (MergeChange(added=(NEW,)), replace(NOTHING, rows_added=7)),
        (MergeChange(removed=((ONE, ONE),)), replace(NOTHING, rows_deleted=10)),
        (MergeChange(replaced=(DELETED,)), replace(NOTHING, rows_deleted=4, fragments_changed=1)),
        (MergeChange(replaced=(RETURNED,)), replace(NOTHING, rows_added=4, fragments_changed=1)),
        (MergeChange(replaced=(WRITTEN,)), replace(NOTHING, fragments_changed=1)),
        (
            MergeChange(columns=ColumnChanges(drop=("v",), add=("w",))),
            replace(NOTHING, columns_added=("w",), columns_dropped=("v",)),
        ),
        (MergeChange(columns_of_theirs=True), replace(NOTHING, columns_added=("w",))),
    ],
    ids=["nothing", "new", "gone", "deleted", "back", "written", "columns", "columns of theirs"],
)
def test_a_plan_in_numbers(change, summary):
    plan = planned(change)
    assert plan.summary() == summary
    assert plan.is_up_to_date == (summary == NOTHING)
    assert replace(plan, conflicts=(plan.sides.conflict("both"),)).is_up_to_date is False


@pytest.mark.parametrize(
    ("change", "moves"),
    [
        (MergeChange(added=(NEW,)), False),
        (MergeChange(replaced=(DELETED,)), False),
        (MergeChange(added=(NEW,), replaced=(WRITTEN,)), False),
        (MergeChange(added=(NEW,), replaced=(DELETED,)), True),
        (MergeChange(added=(NEW,), removed=((ONE, ONE),)), True),
    ],
)
def test_rows_may_have_moved_where_some_left_and_some_came(change, moves):
    assert planned(change).moves_rows == moves


BOTH_GONE = MergeChange(removed=((ONE, ONE), (TWO, TWO)))


@pytest.mark.parametrize(
    ("change", "operations", "complete", "replaces"),
    [
        (BOTH_GONE, ["Overwrite"], True, "true"),
        (BOTH_GONE, ["Rewrite"], True, "false"),
        (BOTH_GONE, ["Rewrite"], False, "perhaps"),
        (MergeChange(removed=((ONE, ONE),)), ["Rewrite"], False, "false"),
    ],
)
def test_whether_the_table_is_replaced(change, operations, complete, replaces):
    assert planned(change, operations, complete).replaces_all == replaces


DROP = ColumnChanges(drop=("v",))
REFUSED = None


@pytest.mark.parametrize(
    ("change", "emptied", "operation"),
    [
        (MergeChange(added=(NEW,)), False, "Update"),
        (BOTH_GONE, True, "Update"),
        (MergeChange(columns=DROP), False, "Merge"),
        (MergeChange(columns_of_theirs=True, added=(ONE,)), False, "Merge"),
        (MergeChange(columns=DROP, replaced=(DELETED,)), False, "Merge"),
        (MergeChange(columns=DROP, replaced=(DELETED,)), True, REFUSED),
        (MergeChange(columns=DROP, removed=((ONE, ONE),)), False, REFUSED),
        (replace(BOTH_GONE, columns=DROP), False, REFUSED),
        (replace(BOTH_GONE, columns_of_theirs=True, added=(fragment(2),)), False, "Overwrite"),
        (replace(BOTH_GONE, columns_of_theirs=True, added=(NEW,)), False, REFUSED),
        (MergeChange(columns_of_theirs=True, removed=((ONE, ONE),)), False, REFUSED),
    ],
)
def test_the_operation_that_pylance_can_commit_a_change_with(change, emptied, operation):
    if operation is not REFUSED:
        assert operation_for(change, BASE, emptied) == operation
        return
    with pytest.raises(NotCommittable, match="compacted or removed") as refused:
        operation_for(change, BASE, emptied, lambda: "Merge in steps.")
    assert refused.value.hint == "Merge in steps."


def test_the_steps_of_a_refusal_are_worded_only_where_it_refuses():
    """A merge of a long history walked all of it for a hint that nobody saw."""
    operation_for(MergeChange(), BASE, hint=lambda: pytest.fail("nothing is refused"))
    operation_for(MergeChange(columns_of_theirs=True), BASE, hint=lambda: pytest.fail("nothing is refused"))
