"""A protected branch takes merges and upkeep; every other door is shut, at planning and right before the commit."""

import os
from datetime import timedelta

import lance
import pyarrow as pa
import pytest
from support.local_datasets import contents, ids, make_dataset, numbers, prepare, write

from lance_spark import LanceTable
from lance_spark.catalog.staging import alter_properties
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import Refused
from lance_spark.merge.merge import cherry_pick, revert
from lance_spark.refs.refs import delete_branch, rename_branch, set_aside_branch
from lance_spark.remotes.fetch import Remote
from lance_spark.remotes.push import push
from lance_spark.rows.rows import delete_where
from lance_spark.storage.commits import change_table_metadata, commit_on
from lance_spark.storage.datasets import locate, pin_latest
from lance_spark.tables.write import finish

BRANCHES = [None, "exp"]


@pytest.fixture
def table(uri):
    make_dataset(uri, numbers(3), numbers(2, 3))
    table = LanceTable.for_path(uri)
    table.branches.create("exp")
    write(uri, numbers(1, 50), branch="exp")
    table.branches.create("work")
    write(uri, numbers(1, 60), branch="work")
    return table


def protect(table, branch, protected=True):
    table.branches.alter(branch or "main", protected=protected)


def on(table, branch):
    return table if branch is None else table.checkout(branch=branch)


def options(branch):
    return {} if branch is None else {"branch": branch}


DOORS = {
    "append": lambda table, branch: write(table.location.uri, numbers(1, 9), **options(branch)),
    "overwrite": lambda table, branch: write(table.location.uri, numbers(1, 9), overwrite=True, **options(branch)),
    "restore": lambda table, branch: table.checkout(branch=branch or "main", version=2).restore(),
    "drop columns": lambda table, branch: on(table, branch).drop_columns(["id"]),
    "rename columns": lambda table, branch: on(table, branch).rename_columns({"id": "key"}),
    "properties": lambda table, branch: alter_properties(table.location, branch, {"a": "b"}),
    "cherry-pick": lambda table, branch: cherry_pick(
        table.location, pin_latest(table.location, "work"), branch, LocalRunner()
    ),
    "revert": lambda table, branch: revert(table.location, pin_latest(table.location, branch), branch, LocalRunner()),
    "cleanups after commits": lambda table, branch: on(table, branch).enable_auto_cleanup(9, timedelta(days=9)),
    "delete rows": lambda table, branch: delete_where(table.location, branch, "id = 0", LocalRunner()),
}


@pytest.mark.parametrize("branch", BRANCHES)
@pytest.mark.parametrize("door", DOORS)
def test_a_protected_branch_refuses_every_way_to_write(table, uri, branch, door):
    protect(table, branch)
    before = contents(uri)
    with pytest.raises(Refused, match=f"Branch '{branch or 'main'}' is protected") as refused:
        DOORS[door](table, branch)
    assert "protected=False" in refused.value.hint
    assert contents(uri) == before


@pytest.mark.parametrize("branch", BRANCHES)
def test_a_job_that_began_before_the_protection_does_not_commit(table, uri, branch):
    job, fragments = prepare(uri, numbers(1, 9), **options(branch))
    protect(table, branch)
    before = ids(uri, **options(branch))
    with pytest.raises(Refused, match="is protected"):
        finish(job, fragments)
    assert ids(uri, **options(branch)) == before
    protect(table, branch, protected=False)
    finish(job, fragments)
    assert sorted(ids(uri, **options(branch))) == sorted([*before, 9])


@pytest.mark.parametrize("branch", BRANCHES)
def test_the_one_door_looks_right_before_a_commit(table, branch):
    """Row changes, columns, fills and the rest of a verb all end there."""
    protect(table, branch)
    pin = pin_latest(table.location, branch)
    fields = pa.schema([("id", pa.int64())])
    with pytest.raises(Refused, match="is protected"):
        commit_on(table.location, pin, lance.LanceOperation.Overwrite(fields, []))
    with pytest.raises(Refused, match="is protected"):
        change_table_metadata(table.location, branch, {"a": "b"})
    assert pin_latest(table.location, branch) == pin


@pytest.mark.parametrize("branch", BRANCHES)
def test_merges_and_upkeep_go_through(table, uri, branch):
    before = ids(uri, **options(branch))
    protect(table, branch)
    table.branches.merge("work", into=branch or "main")
    assert sorted(ids(uri, **options(branch))) == sorted([*before, 60])
    handle = on(table, branch)
    handle.indexes.create("id", kind="btree")
    write(uri, numbers(1, 7), branch="work")
    table.branches.merge("work", into=branch or "main")
    handle.optimize(own_only=True)
    assert handle.optimize(sort_by=["id"], own_only=True).commits == 1  # one fragment, 7 behind 60
    handle.indexes.optimize()
    if branch is not None:
        handle.flatten()
    assert sorted(ids(uri, **options(branch))) == sorted([*before, 7, 60])
    assert [index.name for index in handle.indexes.list()] == ["id_idx"]
    with pytest.raises(Refused):
        write(uri, numbers(1, 9), **options(branch))


def test_a_transaction_publishes_by_a_merge(table, uri):
    protect(table, None)
    with table.transaction() as inside:
        write(uri, numbers(1, 70), branch=inside.branch)
    assert 70 in ids(uri)


@pytest.mark.parametrize("way", [delete_branch, set_aside_branch, lambda at, name: rename_branch(at, name, "new")])
def test_a_protected_branch_is_not_deleted_and_not_renamed(table, uri, way):
    table.branches.create("idle", protected=True)
    before = contents(uri)
    with pytest.raises(Refused, match="protected"):
        way(table.location, "idle")
    assert contents(uri) == before


def test_a_protected_branch_refuses_pushes_as_well(table, uri, tmp_path):
    other = str(tmp_path / "remote.lance")
    push(table.location, Remote("origin", locate(other)), None, LocalRunner())
    write(uri, numbers(1, 80))
    there = LanceTable.for_path(other)
    there.branches.alter("main", protected=True)
    with pytest.raises(Refused, match="is protected"):
        push(table.location, Remote("origin", there.location), None, LocalRunner())
    assert 80 not in ids(other)
    there.branches.alter("main", protected=False)
    push(table.location, Remote("origin", there.location), None, LocalRunner())
    assert 80 in ids(other)


def test_pylance_itself_is_not_held_back(table, uri):
    """Only what goes through this package asks; documented."""
    protect(table, None)
    lance.write_dataset(numbers(1, 90), uri, mode="append")
    assert 90 in ids(uri)
    assert os.path.exists(f"{uri}/_refs/lance_spark/main.json")
