"""A remote rewrites rows that its clones have: pulls and pushes go on, in any order, and double nothing."""

import lance
import pyarrow as pa
import pytest
from support.merge_datasets import add, assert_sound, head, ids, row_ids, table
from support.merge_datasets import rows as rows_of
from support.remote_datasets import made_clone, pulled, pushed

from lance_spark.engine.local import LocalRunner
from lance_spark.errors import NotCommittable
from lance_spark.optimize.compaction_rules import OptimizeOptions
from lance_spark.optimize.optimize import optimize
from lance_spark.storage.datasets import locate


def compacted(uri):
    head(uri).optimize.compact_files(target_rows_per_fragment=1000)


def sorted_by_id(uri):
    optimize(locate(uri), None, OptimizeOptions(sort_by=["id"]), LocalRunner())


def updated(uri):
    head(uri).update({"v": "v + 1"})


def merged_rows(uri):
    rows = head(uri).to_table()
    head(uri).merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows)


@pytest.mark.when(day=0.3)
@pytest.mark.parametrize("again", [False, True], ids=["once", "and by the clone"])
@pytest.mark.parametrize("rewrite", [compacted, sorted_by_id, updated, merged_rows])
@pytest.mark.parametrize("stable", [False, True], ids=["", "stable"])
def test_the_other_clone_pulls_what_one_pushed_after_the_source_was_rewritten(tmp_path, stable, rewrite, again):
    source, one, other = (str(tmp_path / f"{name}.lance") for name in ("source", "one", "other"))
    lance.write_dataset(table(0, 3), source, enable_stable_row_ids=stable)
    for clone in (one, other):
        made_clone(source, clone)
    for number, uri in ((100, one), (110, source), (120, other)):
        add(uri, number, number + 1)
    rewrite(source)
    pulled(other, source)
    pulled(one, source)
    if again:
        rewrite(one)
    pushed(one, source)
    pulled(other, source)
    pushed(other, source)
    pulled(one, source)
    for uri in (source, one, other):
        assert ids(head(uri)) == [0, 1, 2, 100, 110, 120]


@pytest.fixture(params=[False, True], ids=["", "stable"])
def places(tmp_path, request):
    """A source with three rows, and two clones."""
    found = [str(tmp_path / f"{name}.lance") for name in ("source", "one", "other")]
    lance.write_dataset(table(0, 3), found[0], enable_stable_row_ids=request.param)
    for clone in found[1:]:
        made_clone(found[0], clone)
    return found


def test_rows_that_both_sides_compacted_are_found_by_the_pull_after_the_next(places):
    """The first pull has nothing to take: it only learns how the source compacted."""
    source, one, _ = places
    add(one, 100, 103)
    pushed(one, source)
    compacted(source)
    compacted(one)
    assert pulled(one, source).merged.up_to_date
    add(one, 110, 111)
    head(one).update({"v": "7"}, where="id = 101")
    head(source).update({"v": "8"}, where="id = 1")
    pulled(one, source)
    pushed(one, source)
    for uri in (source, one):
        found = {row["id"]: row["v"] for row in head(uri).to_table().to_pylist()}
        assert (found[1], found[101], sorted(found)) == (8, 7, [0, 1, 2, 100, 101, 102, 110])


def test_rows_of_the_base_that_a_push_compacted_with_new_ones(places):
    source, one, other = places
    add(source, 10, 12)
    pulled(other, source)
    add(one, 100, 103)
    compacted(one)
    compacted(source)
    pulled(one, source)
    pushed(one, source)
    add(other, 120, 122)
    pulled(other, source)
    pushed(other, source)
    pulled(one, source)
    for uri in places:
        assert ids(head(uri)) == [0, 1, 2, 10, 11, 100, 101, 102, 120, 121]


def test_new_rows_that_were_updated_with_old_ones_are_taken_version_by_version(places):
    """With stable ids, no fragment can mix rows that keep their ids with rows that get new ones."""
    source, one, _ = places
    add(one, 100, 101)
    add(source, 10, 12)
    updated(source)
    compacted(source)
    pulled(one, source)
    updated(one)
    pushed(one, source)
    assert ids(head(source)) == ids(head(one)) == [0, 1, 2, 10, 11, 100]


@pytest.mark.parametrize("rows", [1000, 2], ids=["one fragment", "small fragments"])
@pytest.mark.parametrize("where", ["id in (0, 4)", "id < 3", "id > 3"])
def test_rows_that_the_source_sorted_and_the_clone_updated_keep_their_stable_ids(tmp_path, where, rows):
    """The pull leaves out what it has in newer fragments; the push knows these rows all the same."""
    source, one = (str(tmp_path / f"{name}.lance") for name in ("source", "one"))
    lance.write_dataset(table(0, 5).take([4, 3, 2, 1, 0]), source, enable_stable_row_ids=True)
    made_clone(source, one)
    known = row_ids(head(source))
    options = OptimizeOptions(sort_by=["id"], own_only=False, target_rows=rows)
    optimize(locate(source), None, options, LocalRunner())
    head(one).update({"v": "70"}, where=where)
    pulled(one, source)
    pushed(one, source)
    assert row_ids(head(source)) == row_ids(head(one)) == known
    assert rows_of(head(source)) == rows_of(head(one))
    assert_sound(head(source))


def hint_of_push(local, source):
    """How a push that is refused leads out; None if it works."""
    try:
        pushed(local, source)
    except NotCommittable as problem:
        return problem.hint
    return None


@pytest.mark.when(day=0.1)
@pytest.mark.parametrize("stable", [False, True], ids=["", "stable"])
@pytest.mark.parametrize("rewrite", [compacted, sorted_by_id])
@pytest.mark.parametrize("order", ["column, rows", "rows, column", "column"])
def test_a_clone_that_changed_columns_and_rows_that_the_source_rewrote_is_pushed(tmp_path, stable, rewrite, order):
    """pylance commits such rows only with new ids, or once the clone is compacted: that is said, and no dead end."""
    source, one, other = (str(tmp_path / f"{name}.lance") for name in ("source", "one", "other"))
    for start in (0, 3):
        mode = "append" if start else "create"
        rows = table(start, start + 3).take([2, 1, 0])
        lance.write_dataset(rows, source, mode=mode, enable_stable_row_ids=stable)
    for clone in (one, other):
        made_clone(source, clone)
    for change in order.split(", "):
        if change == "rows":
            head(one).update({"v": "70"}, where="id in (1, 4)")
        else:
            head(one).add_columns(pa.field("w", pa.int64()))
    rewrite(source)
    pulled(one, source)
    hint = hint_of_push(one, source)
    if hint:
        assert "t.optimize(own_only=False), then push again" in hint
        optimize(locate(one), None, OptimizeOptions(own_only=False), LocalRunner())
        pushed(one, source)
    for uri in (source, one):
        found = {row["id"]: row["v"] for row in head(uri).to_table().to_pylist()}
        assert (sorted(found), "w" in head(uri).schema.names) == ([*range(6)], True)
        assert "rows" not in order or (found[1], found[4]) == (70, 70)
        assert_sound(head(uri))
    pulled(other, source)
    assert rows_of(head(other)) == rows_of(head(source))
