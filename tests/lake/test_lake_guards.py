"""What keeps a branch of the lake whole: nobody deletes, renames or expires a part of it by mistake."""

from datetime import datetime, timedelta, timezone

import lance
import pytest
from support.branched_lakes import ids, make_lake, write
from support.local_datasets import numbers

from lance_spark import LanceCatalog, LanceTable
from lance_spark.catalog.lake import table_branch
from lance_spark.catalog.name_rules import identify_table
from lance_spark.errors import Conflict, NotFound, Refused
from lance_spark.lake import publish as publishing
from lance_spark.maintenance.expiry import carry_out, plan_expiry
from lance_spark.maintenance.expiry_rules import DELETED, NEEDED, ExpiryOptions
from lance_spark.refs.refs import rename_branch

LATER = datetime.now(timezone.utc) + timedelta(days=400)
AT_ONCE = ExpiryOptions(warn=timedelta(0))


@pytest.fixture
def lake(tmp_path):
    """Two tables, and a branch of the lake with a change of one of them."""
    lake = LanceCatalog(f"{tmp_path}/lake")
    for name in ("a", "b"):
        lance.write_dataset(numbers(3), lake.declare_table(name).location.uri)
    lake.branches.create("etl")
    change(lake, "a")
    return lake


def change(lake, name, branch="etl"):
    there = lake.checkout(branch=branch)
    own = table_branch(there.catalog, identify_table(name), "change it")
    lance.write_dataset(numbers(1, 10), f"{lake.table(name).location.uri}/tree/{own}", mode="append")


def own_branch(lake, name="a"):
    (branch,) = [each.name for each in lake.table(name).branches.list(all=True)]
    return branch


def test_the_branch_of_a_table_goes_with_the_branch_of_the_lake(lake):
    table, own = lake.table("a"), own_branch(lake)
    assert list(table.branches) == []
    for delete in (table.branches.delete, lambda name: table.branches.delete(name, purge=True)):
        with pytest.raises(Refused, match="changes that branch 'etl' of the lake made"):
            delete(own)
    with pytest.raises(Refused, match="cannot be renamed"):
        rename_branch(table.location, own, "mine")
    assert lake.branches.merge("etl").state == "published"
    assert ids(lake, "a") == [0, 1, 2, 10]
    lake.branches.delete("etl")
    assert table.branches.list(all=True) == []


def test_force_deletes_what_a_branch_of_the_lake_left_behind(lake):
    own = own_branch(lake)
    lake.table("a").branches.delete(own, force=True)
    assert lake.table("a").branches.list(all=True) == []
    lake.branches.delete("etl")
    assert list(lake.branches) == []


def test_expiry_leaves_the_parts_of_refs_of_the_lake_alone(lake):
    lake.tags.create("v1")
    lake.branches.alter("etl", expire_after="1d")
    table, itself = lake.table("a"), LanceTable.for_path(lake.catalog.manifest.uri)
    table.branches.alter(own_branch(lake), expire_after="1d")
    for location, names in ((table.location, {own_branch(lake)}), (itself.location, {"etl"})):
        plan = plan_expiry(location, LATER, AT_ONCE)
        due = [entry for entry in plan.entries if entry.record.expires_at]
        assert {(entry.record.name, entry.state) for entry in due} == {(name, NEEDED) for name in names}
        assert carry_out(location, plan, LATER).of(DELETED) == ()
    assert ids(lake, "a") == [0, 1, 2]
    lake.branches.merge("etl")
    assert ids(lake, "a") == [0, 1, 2, 10]


@pytest.mark.parametrize(("branch", "hint"), [("etl", "lake.branches.delete('etl')"), ("tags/v1", "tags.delete('v1')")])
def test_a_branch_of_the_catalogs_own_table_is_deleted_as_a_ref_of_the_lake(lake, branch, hint):
    lake.tags.create("v1")
    itself = LanceTable.for_path(lake.catalog.manifest.uri)
    for change_it in (
        lambda: itself.branches.delete(branch),
        lambda: itself.branches.delete(branch, purge=True, force=True),
        lambda: rename_branch(itself.location, branch, "other"),
    ):
        with pytest.raises(Refused, match="in a catalog's own table") as told:
            change_it()
        assert hint in told.value.hint
    assert [ref.name for ref in (*lake.branches, *lake.tags)] == ["etl", "v1"]


@pytest.mark.parametrize("kind", ["branch", "tag"])
def test_a_table_in_the_directory_of_one_that_was_dropped_is_another_one(tmp_path, kind):
    lake = make_lake(f"{tmp_path}/lake", ("a", "b"))
    (lake.branches if kind == "branch" else lake.tags).create("x")
    lake.drop_table("a", force=True)
    for row in (7, 8, 9):
        write(lake, "a", row)
    pinned = lake.checkout(**{kind: "x"})
    assert ids(pinned, "b") == ids(lake, "b")
    for read in (lambda: ids(pinned, "a"), lambda: pinned.table("a")):
        with pytest.raises(NotFound, match="was dropped by force, and another table is in its directory now"):
            read()
    if kind == "branch":
        with pytest.raises(NotFound, match="another table"):
            write(pinned, "a", 10)
        assert [*lake.table("a").branches] == []
    assert ids(lake, "a") == [7, 8, 9]


def test_a_merge_does_not_drop_a_table_in_the_directory_of_the_one_that_the_branch_dropped(tmp_path):
    make_lake(f"{tmp_path}/lake", ("a",))
    lake = LanceCatalog(f"{tmp_path}/lake", mode="v2")
    lake.branches.create("x")
    lake.checkout(branch="x").drop_table("a")
    lake.drop_table("a", force=True)
    LanceCatalog(f"{tmp_path}/lake").declare_table("a")
    write(LanceCatalog(f"{tmp_path}/lake"), "a", 7)
    with pytest.raises(Conflict, match="a"):
        lake.branches.merge("x")
    assert ids(lake, "a") == [7]


def test_a_helper_that_reads_no_directories_ends_the_publish_of_one_that_does(tmp_path, monkeypatch):
    lake = make_lake(f"{tmp_path}/lake", ("a",))
    lance.write_dataset(numbers(3), f"{tmp_path}/lake/by_name.lance")  # without a row
    lake.branches.create("x")
    there = lake.checkout(branch="x")
    there.alter_table("by_name", {"owner": "me"})
    write(there, "a", 10)
    with monkeypatch.context() as dying:
        dying.setattr(publishing, "finish", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            lake.branches.merge("x")
    assert LanceCatalog(f"{tmp_path}/lake", mode="v2").recover().state == "published"
    assert lake.describe_table("by_name").properties == {"owner": "me"}
    assert ids(lake, "a") == [0, 1, 2, 10]
