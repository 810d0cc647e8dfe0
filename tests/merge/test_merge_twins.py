"""Rows that ours has already under another name, where a pick or a revert would bring them a second time."""

import lance
import pytest
from support.merge_datasets import add, head, ids, rows, run, table

from lance_spark.core.refs import PinnedVersion
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import Conflict, Refused
from lance_spark.merge.merge import cherry_pick, revert
from lance_spark.merge.restore import restore
from lance_spark.refs.refs import create_branch_at
from lance_spark.storage.datasets import locate

TWINS = "under other names"


@pytest.fixture(params=[False, True], ids=["", "stable"])
def dataset(uri, request):
    """Main with five rows, and branch a from it with two more fragments of two rows (a@2 and a@3)."""
    lance.write_dataset(table(0, 5), uri, enable_stable_row_ids=request.param)
    branch(uri, "a", None, 1)
    add(uri, 10, 12, "a")
    add(uri, 12, 14, "a")
    return uri


def branch(uri, name, source, version):
    create_branch_at(locate(uri), name, PinnedVersion(source, version))


def pick(uri, source, version, into=None):
    return cherry_pick(locate(uri), PinnedVersion(source, version), into, LocalRunner())


def undo(uri, source, version, into=None):
    return revert(locate(uri), PinnedVersion(source, version), into, LocalRunner())


def compact(uri, branch=None, rows=100):
    """Fragments of fewer rows become one."""
    assert head(uri, branch).optimize.compact_files(target_rows_per_fragment=rows).fragments_removed


def assert_clash(uri, action, *arguments, into=None):
    """The action changes nothing, and says why."""
    before = rows(head(uri, into))
    with pytest.raises(Conflict, match=TWINS):
        action(uri, *arguments, into)
    assert rows(head(uri, into)) == before


def test_a_version_that_was_merged_and_compacted_is_not_picked_again(dataset):
    run(dataset, "a")
    compact(dataset)
    assert_clash(dataset, pick, "a", 3)


@pytest.mark.when(day=0)
@pytest.mark.parametrize("there", [True, False], ids=["already there", "not there"])
def test_what_the_hint_about_rows_under_other_names_says_leads_out(dataset, there):
    """Nothing is to do, or the rows are written again, once."""
    run(dataset, "a")
    if not there:
        head(dataset).delete("id > 11")
    compact(dataset)
    with pytest.raises(Conflict, match=TWINS) as refused:
        pick(dataset, "a", 3)
    assert "Take nothing if the rows are already there." in refused.value.hint
    assert "or write them again" in refused.value.hint
    if not there:
        add(dataset, 12, 14)
    assert ids(head(dataset)) == [*range(5), *range(10, 14)]
    assert run(dataset, "a").up_to_date


def test_a_version_that_was_merged_is_known_by_its_files(dataset):
    run(dataset, "a")
    assert pick(dataset, "a", 3).up_to_date
    assert ids(head(dataset)) == [*range(5), *range(10, 14)]


def test_a_version_that_came_compacted_is_not_picked_again(dataset):
    compact(dataset, "a")
    run(dataset, "a")
    assert_clash(dataset, pick, "a", 2)


def test_rows_that_a_branch_merged_are_not_picked_where_they_were_merged_and_compacted(dataset):
    branch(dataset, "c", None, 1)
    add(dataset, 20, 22, "c")
    run(dataset, "c", "a")
    run(dataset, "c")
    compact(dataset)
    assert_clash(dataset, pick, "a", 4)


def test_rows_that_a_branch_picked_are_not_merged_where_they_came_compacted(dataset):
    branch(dataset, "c", None, 1)
    pick(dataset, "a", 2, "c")
    compact(dataset, "a", 4)
    run(dataset, "a")
    assert_clash(dataset, run, "c")


@pytest.mark.parametrize("where", ["a", None], ids=["there", "here"])
def test_a_deletion_of_rows_that_are_here_is_not_reverted_here(dataset, where):
    """They were compacted on one of the two branches."""
    run(dataset, "a")
    compact(dataset, where)
    head(dataset, "a").delete("id >= 0")
    assert_clash(dataset, undo, "a", head(dataset, "a").version)


def test_a_deletion_of_rows_that_are_here_as_they_were_before_an_update_is_not_reverted_here(dataset):
    head(dataset, "a").update({"v": "7"}, where="id < 5")
    head(dataset, "a").delete("id < 5")
    assert_clash(dataset, undo, "a", 5)


@pytest.mark.parametrize("changed", ["id < 5", "id = 1"], ids=["whole fragment", "one row"])
def test_rows_that_came_back_as_they_were_are_not_picked_where_they_are_updated(dataset, changed):
    head(dataset, "a").update({"v": "7"}, where=changed)
    branch(dataset, "b", "a", 4)
    head(dataset, "a").delete(changed)
    restore(locate(dataset), PinnedVersion("a", 3), LocalRunner())
    assert_clash(dataset, pick, "a", 6, into="b")


def test_a_revert_of_a_deletion_is_picked_where_the_rows_were_deleted(dataset):
    head(dataset, "a").delete("id >= 12")
    branch(dataset, "b", "a", 4)
    add(dataset, 30, 31, "b")
    undo(dataset, "a", 4, "a")
    pick(dataset, "a", 5, "b")
    assert ids(head(dataset, "b")) == [*range(5), *range(10, 14), 30]


def test_a_deletion_is_reverted_by_its_own_number_where_it_was_merged(dataset):
    head(dataset, "a").delete("id >= 12")
    run(dataset, "a")
    add(dataset, 30, 31)
    undo(dataset, "a", 4)
    assert ids(head(dataset)) == [*range(5), *range(10, 14), 30]


def test_a_deletion_of_all_rows_is_reverted_or_refused_with_a_way_on(dataset):
    head(dataset).delete("id >= 0")
    if not head(dataset).has_stable_row_ids:
        undo(dataset, None, 2)
    else:
        with pytest.raises(Refused, match="restore"):
            undo(dataset, None, 2)
        restore(locate(dataset), PinnedVersion(None, 1), LocalRunner())
    assert ids(head(dataset)) == [*range(5)]
