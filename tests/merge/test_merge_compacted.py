"""Merges of real datasets of which one side, or both, were compacted since the base: rows are what they should be.

Each case says what both sides did; which of them compacted, and when, is a parameter.
"""

from itertools import chain

import lance
import pyarrow as pa
import pytest
from support.merge_datasets import assert_sound, clean_all, error_of, every_version, exp, forked, head, rows, run, table

from lance_spark.errors import Conflict
from lance_spark.refs.refs import delete_branch
from lance_spark.storage.datasets import locate


def delete(condition):
    return lambda dataset: dataset.delete(condition)


def update(condition, value="-1"):
    return lambda dataset: dataset.update({"v": value}, condition)


def append(start, stop):
    rows_in = pa.table({"id": pa.array(range(start, stop), pa.int64()), "v": [10 * n for n in range(start, stop)]})
    return lambda dataset: lance.write_dataset(rows_in, dataset.uri, mode="append")


def upsert(*keys):
    rows_in = pa.table({"id": pa.array(keys, pa.int64()), "v": pa.array([0] * len(keys), pa.int64())})
    return lambda dataset: (
        dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows_in)
    )


def expand(name):
    return lambda dataset: dataset.add_columns({name: "id + 1"})


def compact(dataset):
    """As a user of pylance does it: everything into one fragment."""
    dataset.optimize.compact_files()


def result_of(*ranges, without=(), values=None):
    found = {n: 10 * n for n in chain(*ranges) if n not in without}
    found.update(values or {})
    return [{"id": n, "v": found[n]} for n in sorted(found)]


ALL = range(30)
CASES = {
    # theirs, ours, the rows; None for a conflict
    "nothing, nothing": ([], [], result_of(ALL)),
    "append, append": ([append(30, 33)], [append(50, 53)], result_of(range(33), range(50, 53))),
    "delete, append": (
        [delete("id in (3, 14, 15)")],
        [append(50, 53)],
        result_of(ALL, range(50, 53), without=(3, 14, 15)),
    ),
    "append, delete": ([append(30, 33)], [delete("id in (3, 14, 15)")], result_of(range(33), without=(3, 14, 15))),
    "delete, delete of others": (
        [delete("id in (3, 14)")],
        [delete("id in (4, 15)")],
        result_of(ALL, without=(3, 4, 14, 15)),
    ),
    "delete, delete of the same": ([delete("id in (3, 14)")], [delete("id in (4, 14)")], None),
    "delete a fragment, append": ([delete("id < 10")], [append(50, 53)], result_of(range(10, 30), range(50, 53))),
    "append, delete a fragment": (
        [append(30, 33)],
        [delete("id >= 10 and id < 20")],
        result_of(range(10), range(20, 33)),
    ),
    "delete a fragment, delete in another": (
        [delete("id < 10")],
        [delete("id = 15")],
        result_of(range(10, 30), without=(15,)),
    ),
    "update, delete of others": (
        [update("id in (5, 25)")],
        [delete("id = 6")],
        result_of(ALL, without=(6,), values={5: -1, 25: -1}),
    ),
    "update, delete of the same": ([update("id in (5, 25)")], [delete("id = 5")], None),
    "update, update of others": ([update("id = 5")], [update("id = 6", "-2")], result_of(ALL, values={5: -1, 6: -2})),
    "update, update of the same": ([update("id = 5")], [update("id = 5", "-2")], None),
    "upsert, upsert": ([upsert(5, 300)], [upsert(6, 301)], result_of(ALL, values=dict.fromkeys((5, 6, 300, 301), 0))),
    "append and delete, append and update": (
        [append(30, 34), delete("id in (1, 2, 32)")],
        [append(50, 54), update("id in (4, 53)"), delete("id = 21")],
        result_of(range(34), range(50, 54), without=(1, 2, 32, 21), values={4: -1, 53: -1}),
    ),
}
BY_DAY = {
    "delete, delete of others",
    "delete, delete of the same",
    "delete a fragment, append",
    "update, delete of others",
    "append and delete, append and update",
}
WHO = {
    "ours, after": ((), (1,)),
    "theirs, after": ((1,), ()),
    "both, after": ((1,), (1,)),
    "ours, before": ((), (0,)),
    "theirs, before": ((0,), ()),
    "both, before": ((0,), (0,)),
    "both, before and after": ((0, 1), (0, 1)),
}


def story(changes, when):
    before, after = ([compact] if 0 in when else []), ([compact] if 1 in when else [])
    return [*before, *changes, *after]


def carry_out(uri, name, who, index=True):
    """Both sides' changes; theirs first. pylance cannot compact a branch whose index is the parent's."""
    theirs, ours, _ = CASES[name]
    for change in story(theirs, WHO[who][0]):
        change(exp(uri))
    for change in story(ours, WHO[who][1]):
        change(head(uri))


@pytest.mark.when(day=0.2, night={"name": set(CASES) - BY_DAY})
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable ids"])
@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("name", CASES)
def test_rows_are_followed_through_compactions(tmp_path, name, who, stable):
    uri = forked(str(tmp_path / "t.lance"), stable, index=not WHO[who][0])
    carry_out(uri, name, who)
    before, ours = every_version(uri), rows(head(uri))
    expected = CASES[name][2]
    if expected is None:
        assert isinstance(error_of(uri), Conflict)
        assert rows(head(uri)) == ours
        return
    run(uri)
    assert rows(head(uri)) == expected
    assert_sound(head(uri))
    assert every_version(uri).items() >= before.items()
    assert run(uri).up_to_date
    delete_branch(locate(uri), "exp")
    clean_all(uri)
    assert rows(head(uri)) == expected
    compact(head(uri))
    assert rows(head(uri)) == expected
    assert_sound(head(uri))


@pytest.mark.parametrize("order", [("id", "v"), ("v", "id")], ids=str)
def test_no_two_segments_of_an_index_cover_one_fragment(tmp_path, order):
    """The branch built one of two indexes anew, over all fragments: main has a segment for most of them."""
    uri = forked(str(tmp_path / "t.lance"), index=False)
    for column in order:
        head(uri).create_scalar_index(column, "BTREE")
    lance.dataset(uri).create_branch("late")
    append(30, 40)(head(uri, "late"))
    head(uri, "late").create_scalar_index(order[0], "BTREE", replace=True)
    result = run(uri, "late")
    assert (result.indexes_carried, result.indexes_missing) == ((), (f"{order[0]}_idx",))
    for index in head(uri).describe_indices():
        covered = [key for segment in index.segments for key in segment.fragment_ids]
        assert len(covered) == len(set(covered))
    assert rows(head(uri)) == result_of(range(40))
    assert_sound(head(uri))


KEY = {"lance-schema:unenforced-primary-key": "true"}


@pytest.mark.parametrize("key", [50, 60], ids=["the same key", "another key"])
def test_keys_of_rows_that_were_only_compacted_are_no_new_ones(tmp_path, key):
    """Both sides compacted old rows and new ones together: of the new fragments only new rows are compared."""
    uri = str(tmp_path / "t.lance")
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False, metadata=KEY), ("v", pa.int64())])
    for start in (0, 10, 20):
        lance.write_dataset(table(start, start + 10).cast(schema), uri, mode="append" if start else "create")
    head(uri).delete("id = 7")
    lance.dataset(uri).create_branch("late")
    for branch, new in (("late", key), (None, 50)):
        lance.write_dataset(table(new, new + 3).cast(schema), head(uri, branch).uri, mode="append")
        head(uri, branch).delete(f"id = {8 if branch else 9}")
        compact(head(uri, branch))
    if key == 50:
        assert "new rows with the same key" in str(error_of(uri, "late"))
        assert rows(head(uri)) == result_of(ALL, range(50, 53), without=(7, 9))
        return
    run(uri, "late")
    assert rows(head(uri)) == result_of(ALL, range(50, 53), range(60, 63), without=(7, 8, 9))
    assert_sound(head(uri))
