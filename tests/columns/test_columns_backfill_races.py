"""Columns with values beside other writers, at the worst moments: right before the commit, and right after it."""

import sys

import lance
import pyarrow as pa
import pytest
from lance.optimize import Compaction
from support.backfills import LocalValues, negated
from support.local_datasets import write

from lance_spark.columns import column_files
from lance_spark.columns.columns import add_filled_columns, fill_columns_by_groups, update_filled_columns
from lance_spark.columns.fill_rules import BackfillOptions
from lance_spark.core.location import DatasetLocation
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import Conflict
from lance_spark.merge.merge import MergeOptions, merge
from lance_spark.storage.datasets import pin_latest

LOCAL = LocalRunner(2)
Operation = lance.LanceOperation


def some(first, count=10):
    ids = range(first, first + count)
    return pa.table({"id": pa.array(ids, pa.int64()), "y": pa.array(ids, pa.int32())})


@pytest.fixture(params=[False, True], ids=["plain", "stable row ids"])
def location(request, uri):
    for first in (0, 10, 20):
        lance.write_dataset(some(first), uri, mode="append" if first else "create", enable_stable_row_ids=request.param)
    return DatasetLocation.at(uri)


def add(location):
    add_filled_columns(location, None, LocalValues(location, negated("n"), n=pa.int32()), BackfillOptions())
    return "n"


def fill(location):
    options = BackfillOptions(incremental=True)
    fill_columns_by_groups(location, None, LocalValues(location, negated("n"), n=pa.int32()), options, LOCAL)
    return "n"


def update(location):
    update_filled_columns(location, None, LocalValues(location, negated("y"), y=pa.int32()), BackfillOptions())
    return "y"


def found(location):
    dataset = lance.dataset(location.uri)
    dataset.validate()
    return {row["id"]: row for row in dataset.to_table().to_pylist()}


def an_append(uri):
    lance.write_dataset(some(100), uri, mode="append")


def a_deletion(uri):
    lance.dataset(uri).delete("id = 3")


def an_update(uri):
    lance.dataset(uri).update({"id": "333"}, where="id = 3")


def a_compaction(uri):
    lance.dataset(uri).optimize.compact_files()


def an_index(uri):
    lance.dataset(uri).create_scalar_index("y", "BTREE")


def another_column(uri):
    lance.dataset(uri).add_columns({"other": "id + 1"})


def a_restored_version(uri):
    lance.dataset(uri, version=2).restore()


OTHERS = [an_append, a_deletion, an_update, a_compaction, an_index, another_column, a_restored_version]


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("verb", [add, fill, update])
def test_what_others_commit_right_before_is_kept_and_has_values(location, monkeypatch, verb, other):
    commit, pending = column_files.commit_on, [other]

    def late(*arguments):
        while pending and sys._getframe(1).f_code.co_name != "commit_columns":  # which adds the column, without values
            pending.pop()(location.uri)
        return commit(*arguments)

    monkeypatch.setattr(column_files, "commit_on", late)
    if (verb, other) == (fill, a_restored_version):
        with pytest.raises(Conflict, match="'n' was altered or dropped"):
            verb(location)
        return
    name = verb(location)
    rows = found(location)
    later = {key for key in rows if key >= 100 and (verb, other) == (update, an_append)}  # as if appended afterwards
    assert all(row[name] == (key if key in later else -key) for key, row in rows.items())
    assert len(rows) == {an_append: 40, a_deletion: 29, a_restored_version: 20}.get(other, 30)
    assert (333 in rows) == (other is an_update)
    assert all(row.get("other", key + 1) == key + 1 for key, row in rows.items())
    assert lance.dataset(location.uri).count_rows("y = 8") == (verb is not update)
    assert lance.dataset(location.uri).count_rows("y = -8") == (verb is update)


def lose_the_answer(monkeypatch, module):
    commit, lost = module.commit_on, [True]

    def late(*arguments):
        made = commit(*arguments)
        if lost:
            lost.pop()
            raise Conflict("This number is taken.")
        return made

    monkeypatch.setattr(module, "commit_on", late)


@pytest.mark.parametrize("verb", [add, update])
def test_a_commit_that_seems_to_have_failed_loses_nothing(location, monkeypatch, verb):
    """Its answer was lost, it was sent again, and it is in conflict with itself."""
    lose_the_answer(monkeypatch, column_files)
    name = "n" if verb is add else "y"
    computed = LocalValues(location, negated(name), **{name: pa.int32()})
    computed.identity, computed.inputs = None, ("id", "y")
    verbs = {add: add_filled_columns, update: update_filled_columns}
    result = verbs[verb](location, None, computed, BackfillOptions(message="again"))
    dataset = lance.dataset(location.uri)
    assert dataset.version == result.version.version == 4
    assert dataset.to_table()[name].to_pylist() == [-key for key in range(30)]
    assert dataset.read_transaction(4).transaction_properties["__lance_commit_message"] == "again"


def test_an_append_that_seems_to_have_failed_is_not_made_twice(location, monkeypatch):
    lose_the_answer(monkeypatch, column_files)
    rows = some(100).append_column("word", pa.array(["a"] * 10))
    assert write(location.uri, rows, merge_schema="true") == 4
    assert lance.dataset(location.uri).version == 4
    assert len(found(location)) == 40


def under_way_deletion(dataset):
    return Operation.Delete([dataset.get_fragment(0).delete("id = 3")], [], "id = 3")


def under_way_update(dataset):
    left = dataset.get_fragment(0).delete("id = 3")
    return Operation.Update(updated_fragments=[left], new_fragments=lance.fragment.write_fragments(some(3, 1), dataset))


def under_way_compaction(dataset):
    results = [task.execute(dataset) for task in Compaction.plan(dataset, {"target_rows_per_fragment": 1000}).tasks]
    return lambda: Compaction.commit(lance.dataset(dataset.uri), results)


def under_way_index(dataset):
    return Operation.CreateIndex(
        [dataset.create_index_uncommitted("y", "BTREE", name="y_idx", fragment_ids=[0, 1, 2])], []
    )


def under_way_append(dataset):
    return Operation.Append(lance.fragment.write_fragments(some(100), dataset, mode="append"))


@pytest.mark.parametrize(
    ("prepare", "combines"),
    [
        (under_way_deletion, False),
        (under_way_update, False),
        (under_way_compaction, False),
        (under_way_index, True),
        (under_way_append, True),
    ],
)
@pytest.mark.parametrize("verb", [add, fill, update])
def test_what_others_began_before_undoes_nothing(location, verb, prepare, combines):
    start = lance.dataset(location.uri)
    operation = prepare(start)
    name = verb(location)

    def commit():
        if callable(operation):
            operation()
        else:
            lance.LanceDataset.commit(location.uri, operation, read_version=start.version, max_retries=0)

    if combines:
        commit()
    else:
        with pytest.raises(OSError, match="conflict"):
            commit()
    rows = found(location)
    expected = {key: row[name] for key, row in rows.items() if key < 100}
    assert expected == {key: -key for key in range(30)}
    assert lance.dataset(location.uri).count_rows("y = 8") == (verb is not update)
    assert lance.dataset(location.uri).count_rows("y = -8") == (verb is update)


def test_values_of_one_column_that_changed_on_both_sides_are_a_conflict(location):
    lance.dataset(location.uri).create_branch("exp")
    for branch, function in ((None, negated("y")), ("exp", lambda batch: {"y": [1] * batch.num_rows})):
        computed = LocalValues(location, function, y=pa.int32())
        update_filled_columns(location, branch, computed, BackfillOptions())
    with pytest.raises(Conflict, match="both sides changed column 'y'"):
        merge(location, pin_latest(location, "exp"), None, MergeOptions(), LOCAL)
