"""Column changes and deletions that are killed, and ones that race: all or nothing, and a second try ends well."""

import signal
import threading
from contextlib import suppress
from functools import partial

import lance
import pyarrow as pa
import pytest
from support.killed import die, run_apart

from lance_spark.columns import columns
from lance_spark.columns.columns import alter_columns
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import RefSpec
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import Conflict
from lance_spark.format.evolution import AddColumn, AlterColumn, RenameColumn
from lance_spark.refs.refs import create_branch
from lance_spark.rows import rows
from lance_spark.rows.rows import delete_where

LOCAL = LocalRunner(2)
WIDEN = (AlterColumn(("id",), type=pa.int64()), RenameColumn(("id",), "key"))


def some(first, count):
    return pa.table({"id": pa.array(range(first, first + count), pa.int32())})


@pytest.fixture
def location(uri):
    for first in (0, 10, 20):
        lance.write_dataset(some(first, 10), uri, mode="append" if first else "create")
    found = DatasetLocation.at(uri)
    create_branch(found, "exp", RefSpec())
    return found


def dying(one_fragment, one_commit, moment):
    """Both functions, but the process dies at that moment, or at last after the commit."""
    done = []

    def fragment(item):
        results = list(one_fragment(item))
        done.append(item.fragment)
        if moment == "half way" and len(done) == 2:
            die()
        return iter(results)

    def commit(*arguments):
        if moment == "before the commit":
            die()
        one_commit(*arguments)
        die()

    return fragment, commit


def widen_and_die(uri, branch, moment):
    work = columns.column_files
    work.cast_fragment, work.commit_columns = dying(work.cast_fragment, work.commit_columns, moment)
    alter_columns(DatasetLocation.at(uri), branch, WIDEN, LOCAL)


def delete_and_die(uri, branch, moment):
    work = rows
    work.delete_in_fragment, work.commit_deletions = dying(work.delete_in_fragment, work.commit_deletions, moment)
    delete_where(DatasetLocation.at(uri), branch, "id % 2 = 0", LOCAL)


def read(location, branch):
    dataset = lance.dataset(location.branch_uri(branch))
    dataset.validate()
    return dataset.schema.names, dataset.schema.field(0).type, dataset.to_table().column(0).to_pylist()


@pytest.mark.parametrize("moment", ["half way", "before the commit", "after the commit"])
def test_a_wider_type_is_there_whole_or_not_at_all(location, branch, moment):
    before = read(location, branch)
    assert run_apart(widen_and_die, location.uri, branch, moment) == -signal.SIGKILL
    after = (["key"], pa.int64(), [*range(30)])
    assert read(location, branch) == (after if moment == "after the commit" else before)
    if moment != "after the commit":
        alter_columns(location, branch, WIDEN, LOCAL)
        assert read(location, branch) == after


@pytest.mark.parametrize("moment", ["half way", "before the commit", "after the commit"])
def test_a_deletion_is_there_whole_or_not_at_all(location, branch, moment):
    assert run_apart(delete_and_die, location.uri, branch, moment) == -signal.SIGKILL
    odd = [number for number in range(30) if number % 2]
    assert read(location, branch)[2] == (odd if moment == "after the commit" else [*range(30)])
    assert delete_where(location, branch, "id % 2 = 0", LOCAL).rows == (0 if moment == "after the commit" else 15)
    assert read(location, branch)[2] == odd


def append_each(place, ids):
    """By pylance, again and again until it is not told of a conflict."""
    for number in ids:
        for _ in range(50):
            with suppress(OSError):
                lance.write_dataset(some(number, 1), place, mode="append")
                break


def test_columns_are_added_while_others_append_and_delete(location, branch):
    """Every one of them is told "done", and the outcome is that of all of them."""
    problems = []

    def run(work):
        try:
            work()
        except Exception as problem:  # noqa: BLE001 - said at the end
            problems.append(problem)

    def alter(*changes):
        for change in changes:
            alter_columns(location, branch, [change], LOCAL)

    place = location.branch_uri(branch)
    works = [
        partial(append_each, place, range(100, 105)),
        partial(append_each, place, range(200, 205)),
        partial(alter, *(AddColumn((f"a{number}",), pa.string()) for number in range(3))),
        partial(alter, *(AddColumn((f"b{number}",), pa.string()) for number in range(3))),
        partial(alter, AlterColumn(("id",), comment="the key")),
        partial(delete_where, location, branch, "id < 5", LOCAL),
    ]
    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    names, _, ids = read(location, branch)
    assert sorted(names) == ["a0", "a1", "a2", "b0", "b1", "b2", "id"]
    assert sorted(ids) == [*range(5, 30), *range(100, 105), *range(200, 205)]
    assert lance.dataset(place).schema.field("id").metadata == {b"comment": b"the key"}


def test_of_two_that_add_one_column_one_does(location, branch):
    outcomes = []
    barrier = threading.Barrier(4)

    def add():
        barrier.wait()
        try:
            outcomes.append(alter_columns(location, branch, [AddColumn(("n",), pa.int64())], LOCAL).version.version)
        except Exception as problem:  # noqa: BLE001 - looked at below
            outcomes.append(type(problem).__name__)

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Conflict.__name__ not in outcomes
    assert sorted(map(str, outcomes))[1:] == ["AlreadyExists"] * 3
    assert read(location, branch)[0] == ["id", "n"]
