"""LanceTable's branches and tags, through pylance's eyes."""

from datetime import datetime, timezone

import lance
import pyarrow as pa
import pytest
from support.frames import all_files, load, numbers, save

from lance_spark import LanceTable

pytestmark = [pytest.mark.spark, pytest.mark.when(spark="newest"), pytest.mark.usefixtures("both_ways")]


@pytest.fixture
def table(spark, uri):
    """Version 1 has 0 to 4, version 2 has 0 to 9."""
    lance.write_dataset(batch(0, 5), uri)
    lance.write_dataset(batch(5, 10), uri, mode="append")
    return LanceTable.for_path(uri, spark=spark)


def batch(first, last):
    return pa.table({"id": pa.array(range(first, last), pa.int64())})


def rows_of(uri, branch=None, version=None):
    return lance.dataset(uri).checkout_version((branch, version)).count_rows()


def test_branches_are_created_from_any_ref_and_listed_by_name(table, uri):
    table.tags.create("one", version=1)
    assert table.branches.list() == []
    created = table.branches.create("exp/b")
    table.branches.create("exp/a", tag="one")
    table.branches.create("old", version=1)
    table.branches.create("exp/b/deep", branch="exp/b")
    assert [(b.name, b.parent_branch, b.parent_version) for b in table.branches.list()] == [
        ("exp/a", None, 1),
        ("exp/b", None, 2),
        ("exp/b/deep", "exp/b", 2),
        ("old", None, 1),
    ]
    assert created == table.branches.list()[1]
    assert abs((datetime.now(timezone.utc) - created.created_at).total_seconds()) < 3600
    assert set(lance.dataset(uri).branches.list()) == {"exp/a", "exp/b", "exp/b/deep", "old"}
    assert [rows_of(uri, name) for name in ("exp/a", "exp/b", "exp/b/deep", "old")] == [5, 10, 10, 5]


def test_a_deleted_branch_is_gone_with_its_files_and_can_be_made_again(spark, table, uri):
    before = set(all_files(uri))
    for _ in range(2):
        table.branches.create("exp")
        save(numbers(spark, 50, 53), uri, branch="exp")
        assert rows_of(uri, "exp") == 13
        table.branches.delete("exp", purge=True)
        assert set(all_files(uri)) == before


def test_tags_are_created_moved_and_deleted_and_never_move_by_themselves(spark, table, uri):
    table.branches.create("exp")
    save(numbers(spark, 50, 51), uri, branch="exp")
    table.tags.create("newest")
    table.tags.create("first", version=1)
    table.tags.create("side", branch="exp")
    save(numbers(spark, 60, 61), uri)
    save(numbers(spark, 60, 61), uri, branch="exp")
    assert [(t.name, t.branch, t.version) for t in table.tags.list()] == [
        ("first", None, 1),
        ("newest", None, 2),
        ("side", "exp", 3),
    ]
    assert {name: rows_of_tag(uri, name) for name in ("first", "newest", "side")} == {
        "first": 5,
        "newest": 10,
        "side": 11,
    }
    table.tags.move("first", branch="exp", version=3)
    table.tags.move("newest")
    assert (rows_of_tag(uri, "first"), rows_of_tag(uri, "newest")) == (11, 11)
    assert load(spark, uri, tag="first").count() == 11
    table.tags.delete("side")
    assert [tag.name for tag in table.tags.list()] == ["first", "newest"]


def rows_of_tag(uri, name):
    return lance.dataset(uri, version=name).count_rows()
