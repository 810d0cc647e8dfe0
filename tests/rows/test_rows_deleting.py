"""Rows deleted by a predicate, and all of them, on main and on branches; pylance reads what is left."""

import os
import threading
from functools import partial

import lance
import pyarrow as pa
import pytest
from support.local_datasets import contents, make_dataset, numbers, written_since
from support.meanwhile import meanwhile

from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import RefSpec
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import Conflict, InvalidOption, NotFound
from lance_spark.merge.merge import MergeOptions, merge
from lance_spark.refs.refs import create_branch, create_tag
from lance_spark.rows import rows
from lance_spark.rows.rows import delete_where, truncate
from lance_spark.storage.datasets import pin_latest

LOCAL = LocalRunner(2)


@pytest.fixture(params=[False, True], ids=["plain", "stable row ids"])
def location(request, uri):
    """Three fragments of ten, one row deleted, an index, and a branch with ten rows of its own."""
    make_dataset(uri, numbers(10), numbers(10, 10), numbers(10, 20), enable_stable_row_ids=request.param)
    lance.dataset(uri).create_scalar_index("id", "BTREE")
    lance.dataset(uri).delete("id = 3")
    found = DatasetLocation.at(uri)
    create_branch(found, "exp", RefSpec())
    lance.write_dataset(numbers(10, 30), found.branch_uri("exp"), mode="append")
    return found


def ids(location, branch, filter=None):
    dataset = lance.dataset(location.branch_uri(branch))
    dataset.validate()
    return dataset.to_table(filter=filter)["id"].to_pylist()


def delete(location, branch, predicate, **arguments):
    return delete_where(location, branch, predicate, LOCAL, **arguments)


@pytest.mark.parametrize(
    "predicate", ["id = 5", "id % 2 = 0", "id >= 10 and id < 20", "id < 12 or id > 33", "id in (1, 3, 99)", "true"]
)
def test_rows_that_match_go_in_one_version(location, branch, predicate):
    before, files = ids(location, branch), contents(location.uri)
    gone, version = set(ids(location, branch, predicate)), pin_latest(location, branch).version
    done = delete(location, branch, predicate, message="late corrections")
    assert (done.rows, done.version.version) == (len(gone), version + 1)
    assert ids(location, branch) == [number for number in before if number not in gone]
    assert ids(location, branch, "id = 5") == list({5} - gone)
    new = written_since(files, location.uri)
    assert not [path for path in new if "/data/" in f"/{path}"]
    if branch:
        assert all(path.startswith("tree/exp/") for path in new)


def test_no_row_that_matches_makes_no_version(location, branch):
    head = pin_latest(location, branch)
    done = delete(location, branch, "id = 3")
    assert (done.version, done.rows) == (head, 0)
    assert pin_latest(location, branch) == head


def test_rows_with_nulls_stay(uri):
    make_dataset(uri, pa.table({"id": [1, None, 3]}))
    assert delete(DatasetLocation.at(uri), None, "id != 1").rows == 1
    assert ids(DatasetLocation.at(uri), None) == [1, None]


@pytest.mark.parametrize("predicate", ["", " ", "nope = 1", "id >", "id = ", "count(id) > 1"])
def test_an_invalid_predicate_is_refused_and_nothing_is_written(location, branch, predicate):
    files = contents(location.uri)
    with pytest.raises(InvalidOption):
        delete(location, branch, predicate)
    assert written_since(files, location.uri) == set()


def test_a_missing_branch_is_named_in_the_error(location):
    with pytest.raises(NotFound, match="no branch 'nothing'"):
        delete(location, "nothing", "id = 1")


@pytest.fixture
def between(monkeypatch):
    return partial(meanwhile, monkeypatch, rows, "commit_deletions")


@pytest.fixture
def looked(monkeypatch):
    """The fragments that are looked into, one after the other."""
    found = []
    real = rows.delete_in_fragment

    def look(item):
        found.append(item.fragment)
        return real(item)

    monkeypatch.setattr(rows, "delete_in_fragment", look)
    return found


def test_an_index_tells_which_fragments_have_such_rows(location, branch, looked):
    """The one that the branch wrote is not in the index."""
    own = [3] if branch else []
    assert delete(location, branch, "id = 5 or id = 25").rows == 2
    assert looked == [0, 2, *own]
    looked.clear()
    assert delete(location, branch, "id = 5").rows == 0
    assert looked == own


def test_without_an_index_only_what_changed_is_looked_into_again(location, branch, between, looked):
    before = ids(location, branch)
    between(lambda: lance.dataset(location.branch_uri(branch)).delete("id = 4"))
    assert delete(location, branch, "id % 10 = 5").rows == (4 if branch else 3)
    assert {4, 5, 15, 25, 35}.isdisjoint(ids(location, branch))
    assert len(before) - len(ids(location, branch)) == (5 if branch else 4)
    assert sorted(looked) == sorted([*range(4 if branch else 3), 0])


def test_two_deletions_in_one_fragment_both_count(location, branch, between):
    before = ids(location, branch)
    between(lambda: lance.dataset(location.branch_uri(branch)).delete("id = 4"))
    done = delete(location, branch, "id = 5 or id = 15")
    assert done.rows == 2
    assert ids(location, branch) == [number for number in before if number not in (4, 5, 15)]


def test_the_same_rows_are_counted_once(location, branch, between):
    between(lambda: lance.dataset(location.branch_uri(branch)).delete("id = 5"))
    assert delete(location, branch, "id = 5").rows == 0


def test_rows_that_are_updated_meanwhile_are_judged_as_they_are_now(location, branch, between):
    """The update moves row 5 out of the predicate, and row 6 into it."""
    place = location.branch_uri(branch)
    between(lambda: lance.dataset(place).update({"id": "105 - id"}, where="id = 5 or id = 100 or id = 6"))
    delete(location, branch, "id < 8")
    assert {99, 100} < set(ids(location, branch))


def test_appends_and_compactions_meanwhile_are_kept(location, between):
    before = ids(location, None)
    between(lambda: lance.write_dataset(numbers(1, 50), location.uri, mode="append"))
    delete(location, None, "id = 5")
    between(lambda: lance.dataset(location.uri).optimize.compact_files())
    delete(location, None, "id = 6")
    assert sorted(ids(location, None)) == sorted({*before, 50} - {5, 6})


def test_a_version_that_was_committed_and_cleaned_up_meanwhile_is_seen(location, branch, between):
    """pylance passes over a missing version: the row that it deleted would come back."""
    place = location.branch_uri(branch)

    def events():
        lance.dataset(place).delete("id = 4")
        lance.write_dataset(numbers(1, 60), place, mode="append")
        os.remove(f"{place}/_versions/{sorted(os.listdir(f'{place}/_versions'))[1]}")

    between(events)
    delete(location, branch, "id = 5")
    assert {4, 5}.isdisjoint(ids(location, branch))


def test_if_others_commit_again_and_again_it_is_a_conflict(location, branch, between, monkeypatch):
    monkeypatch.setattr(rows.commits, "attempts", lambda: iter([1, 0]))
    place = location.branch_uri(branch)
    between(*(lambda key=key: lance.dataset(place).delete(f"id = {key}") for key in (6, 7)))
    with pytest.raises(Conflict):
        delete(location, branch, "id = 5")
    assert 5 in ids(location, branch)


def test_many_at_once(location, branch):
    """Each deletes a row of its own, all in the same fragments: every one is gone, and each was counted once."""
    done, failed = [], []

    def run(number):
        try:
            done.append(delete(location, branch, f"id = {number} or id = {number + 10}").rows)
        except Conflict as conflict:  # pragma: no cover - says what went wrong
            failed.append(conflict)

    before = set(ids(location, branch))
    threads = [threading.Thread(target=run, args=(number,)) for number in range(4, 10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (done, failed) == ([2] * 6, [])
    assert set(ids(location, branch)) == before - {*range(4, 10), *range(14, 20)}


def test_a_deletion_on_a_branch_is_merged(location):
    delete(location, "exp", "id in (5, 15, 35)")
    lance.write_dataset(numbers(1, 70), location.uri, mode="append")
    merge(location, pin_latest(location, "exp"), None, MergeOptions(), LOCAL)
    assert set(ids(location, None)) == {*range(40), 70} - {3, 5, 15, 35}


# truncate


def test_all_rows_go_and_columns_comments_and_settings_stay(uri, branch):
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False, metadata={"comment": "the key"})])
    make_dataset(uri, numbers(5).cast(schema), enable_stable_row_ids=True)
    lance.dataset(uri).update_config({"k": "v"})
    lance.dataset(uri).update_metadata({"owner": "ops"})
    location = DatasetLocation.at(uri)
    create_branch(location, "exp", RefSpec())
    create_tag(location, "before", RefSpec(branch=branch))
    version = pin_latest(location, branch).version
    done = truncate(location, branch, "away")
    assert (done.rows, done.version.branch, done.version.version) == (5, branch, version + 1)
    dataset = lance.dataset(location.branch_uri(branch))
    assert dataset.count_rows() == 0
    assert dataset.schema.equals(schema, check_metadata=True)
    assert dataset.config()["k"] == "v"
    assert dataset.metadata["owner"] == "ops"
    assert dataset.has_stable_row_ids
    assert lance.dataset(uri, version="before").count_rows() == 5
    assert len(ids(location, "exp" if branch is None else None)) == 5
    assert truncate(location, branch).version.version == done.version.version
    lance.write_dataset(numbers(2).cast(schema), location.branch_uri(branch), mode="append")
    assert ids(location, branch) == [0, 1]


def test_a_table_with_blobs_is_emptied(uri):
    schema = pa.schema([pa.field("id", pa.int64()), lance.blob_field("blob")])
    values = pa.table({"id": [1], "blob": lance.blob_array([b"x" * 100_000])}, schema=schema)
    lance.write_dataset(values, uri, data_storage_version="2.2")
    truncate(DatasetLocation.at(uri), None)
    assert lance.dataset(uri).schema == schema
    lance.write_dataset(values, uri, mode="append")
    assert lance.dataset(uri).count_rows() == 1
