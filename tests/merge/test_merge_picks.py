"""Rows that were picked, reverted or restored lie in two chains although neither has everything of the other."""

from contextlib import suppress

import lance
import pytest
from support.merge_datasets import add, head, rows, table

from lance_spark.core.refs import PinnedVersion
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import Conflict
from lance_spark.merge.merge import MergeOptions, cherry_pick, merge, revert
from lance_spark.merge.restore import restore
from lance_spark.refs.refs import create_branch_at
from lance_spark.storage.datasets import locate, pin_latest


@pytest.fixture(params=[False, True], ids=["", "stable"])
def dataset(uri, request):
    """Main with five rows, and branch a from it with two more (a@2)."""
    lance.write_dataset(table(0, 5), uri, enable_stable_row_ids=request.param)
    create_branch_at(locate(uri), "a", pin_latest(locate(uri), None))
    add(uri, 10, 12, "a")
    return uri


def merge_into(uri, source, into):
    return merge(locate(uri), pin_latest(locate(uri), source), into, MergeOptions(), LocalRunner())


def picked(uri):
    return cherry_pick(locate(uri), PinnedVersion("a", 2), None, LocalRunner())


def ids(uri, branch=None):
    return [row["id"] for row in rows(head(uri, branch))]


def updated(uri, branch):
    head(uri, branch).update({"v": "v + 1"}, where="id = 10")


def removed(uri, branch):
    head(uri, branch).delete("id >= 10")


def compacted(uri, branch):
    add(uri, 20, 22, branch)
    head(uri, branch).optimize.compact_files()


@pytest.mark.when(day=0.3)
@pytest.mark.parametrize("change", [updated, removed, compacted])
@pytest.mark.parametrize("changed", ["a", None], ids=["original", "picked"])
@pytest.mark.parametrize("into", ["a", None], ids=["main into a", "a into main"])
def test_rows_that_changed_after_they_were_picked_are_never_doubled_nor_back(dataset, change, changed, into):
    picked(dataset)
    change(dataset, changed)
    add(dataset, 40, 41)
    add(dataset, 50, 51, "a")
    before = {branch: rows(head(dataset, branch)) for branch in ("a", None)}
    with pytest.raises(Conflict, match="picked"):
        merge_into(dataset, None if into else "a", into)
    assert {branch: rows(head(dataset, branch)) for branch in ("a", None)} == before


@pytest.mark.parametrize("into", ["a", None], ids=["main into a", "a into main"])
def test_picked_rows_that_nobody_changed_are_known_as_the_same(dataset, into):
    picked(dataset)
    add(dataset, 40, 41)
    add(dataset, 50, 51, "a")
    merge_into(dataset, None if into else "a", into)
    assert ids(dataset, into) == [*range(5), 10, 11, 40, 50]


def test_a_pick_is_remembered_by_what_takes_it_in(dataset):
    create_branch_at(locate(dataset), "b", PinnedVersion(None, 1))
    picked(dataset)
    merge_into(dataset, None, "b")
    updated(dataset, "a")
    add(dataset, 50, 51, "b")
    with pytest.raises(Conflict, match="picked"):
        merge_into(dataset, "b", "a")


def test_a_branch_that_was_not_touched_by_the_pick_goes_on(dataset):
    create_branch_at(locate(dataset), "b", PinnedVersion(None, 1))
    add(dataset, 60, 61, "b")
    picked(dataset)
    merge_into(dataset, "b", None)
    assert ids(dataset) == [*range(5), 10, 11, 60]


def test_a_restore_then_a_change_then_a_merge_doubles_nothing(dataset):
    merge_into(dataset, "a", None)
    head(dataset).delete("id = 10")
    restore(locate(dataset), PinnedVersion(None, 2), LocalRunner())
    updated(dataset, None)
    add(dataset, 50, 51, "a")
    with suppress(Conflict):
        merge_into(dataset, "a", None)
    assert len(set(ids(dataset))) == len(ids(dataset))


def test_a_revert_of_a_delete_then_an_update_then_a_merge_doubles_nothing(dataset):
    head(dataset).delete("id = 3")
    create_branch_at(locate(dataset), "c", pin_latest(locate(dataset), None))
    revert(locate(dataset), PinnedVersion(None, 2), None, LocalRunner())
    revert(locate(dataset), PinnedVersion(None, 2), "c", LocalRunner())
    head(dataset).update({"v": "7"}, where="id = 3")
    add(dataset, 50, 51, "c")
    with pytest.raises(Conflict):
        merge_into(dataset, "c", None)
    assert ids(dataset) == [*range(5)]
