"""Branches on local disk through the actions, with pylance as the independent reader."""

import shutil
from pathlib import Path

import lance
import pytest
from support.local_datasets import contents, ids, make_dataset, numbers, write

from lance_spark import LanceTable
from lance_spark.core.refs import RefSpec
from lance_spark.errors import AlreadyExists, InvalidName, NotFound, Refused
from lance_spark.refs.refs import create_branch, create_tag, delete_branch, list_branches
from lance_spark.storage.datasets import locate

HEAD = RefSpec()


def names(uri):
    return [branch.name for branch in list_branches(locate(uri))]


def test_a_new_branch_starts_where_its_source_points(uri):
    make_dataset(uri, numbers(3), numbers(2, 3))
    location = locate(uri)
    create_tag(location, "v1", RefSpec(version=1))
    create_branch(location, "head", HEAD)
    create_branch(location, "old", RefSpec(version=1))
    create_branch(location, "tagged", RefSpec(tag="v1"))
    write(uri, numbers(1, 100), branch="old")
    child = create_branch(location, "old/child", RefSpec(branch="old"))

    assert (child.parent_branch, child.parent_version) == ("old", 2)
    assert [ids(uri, branch=name) for name in ("head", "old", "tagged", "old/child")] == [
        [0, 1, 2, 3, 4],
        [0, 1, 2, 100],
        [0, 1, 2],
        [0, 1, 2, 100],
    ]
    assert names(uri) == sorted(lance.dataset(uri).branches.list()) == ["head", "old", "old/child", "tagged"]
    assert ids(uri) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("name", ["plain", "a.b/c-d/e_f", "été", "日本/ü", ".x", "tree", "data", "conflict", "403"])
def test_a_branch_can_be_made_written_read_and_deleted_under_any_legal_name(uri, name):
    make_dataset(uri)
    before = contents(uri)
    location = locate(uri)
    create_branch(location, name, HEAD)
    write(uri, numbers(1, 7), branch=name)
    assert ids(uri, branch=name) == [0, 1, 2, 7]
    assert lance.dataset(uri).checkout_version((name, None)).count_rows() == 4
    assert names(uri) == list(lance.dataset(uri).branches.list()) == [name]
    delete_branch(location, name)
    assert names(uri) == []
    assert contents(uri) == before


@pytest.mark.parametrize(
    "name", ["", "main", "a//b", "/a", "a/", "a..b", "a\\b", "a b", "x.lock", "a/data", "a/tree", "a/_x", "main/x"]
)
@pytest.mark.parametrize("exists", [True, False])
def test_a_bad_branch_name_is_refused_before_storage_is_touched(uri, name, exists):
    if exists:
        make_dataset(uri)
    before = contents(uri)
    with pytest.raises(InvalidName, match="not a valid branch name"):
        create_branch(locate(uri), name, HEAD)
    assert contents(uri) == before


@pytest.mark.parametrize("name", ["a" * 212, "b/" * 40 + "b", "é" * 30, "x" * 300])
def test_a_name_too_long_for_its_ref_file_is_refused_before_a_directory_is_left_behind(uri, name):
    make_dataset(uri)
    before = contents(uri)
    with pytest.raises(InvalidName, match="characters"):
        create_branch(locate(uri), name, HEAD)
    assert contents(uri) == before


@pytest.mark.parametrize("name", ["a" * 211, "/".join("a" * 36), "é" * 21])
def test_the_longest_names_that_fit_work(uri, name):
    make_dataset(uri)
    create_branch(locate(uri), name, HEAD)
    assert ids(uri, branch=name) == [0, 1, 2]


def test_an_existing_branch_is_not_created_again(uri):
    make_dataset(uri)
    create_branch(locate(uri), "dev", HEAD)
    before = contents(uri)
    with pytest.raises(AlreadyExists, match="'dev' already exists"):
        create_branch(locate(uri), "dev", HEAD)
    assert contents(uri) == before


@pytest.mark.parametrize(
    ("source", "hint"),
    [
        (RefSpec(branch="develpo"), "'develop'"),
        (RefSpec(tag="v1.1"), "'v1.0'"),
        (RefSpec(version=9), "1, 2"),
    ],
)
def test_a_missing_source_is_named_with_what_is_near(uri, source, hint):
    make_dataset(uri, numbers(1), numbers(1))
    create_branch(locate(uri), "develop", HEAD)
    create_tag(locate(uri), "v1.0", HEAD)
    before = contents(uri)
    with pytest.raises(NotFound) as caught:
        create_branch(locate(uri), "new", source)
    assert hint in caught.value.hint
    assert contents(uri) == before


def test_deleting_a_missing_branch_names_the_nearest(uri):
    make_dataset(uri)
    create_branch(locate(uri), "develop", HEAD)
    with pytest.raises(NotFound, match="Did you mean 'develop'"):
        delete_branch(locate(uri), "develpo")


def test_a_branch_that_another_one_reads_is_not_deleted(uri):
    make_dataset(uri)
    location = locate(uri)
    create_branch(location, "a", HEAD)
    write(uri, numbers(1, 9), branch="a")
    create_branch(location, "child", RefSpec(branch="a"))
    before = contents(uri)
    with pytest.raises(Refused, match="'child' was created from it"):
        delete_branch(location, "a")
    assert contents(uri) == before
    delete_branch(location, "child")
    delete_branch(location, "a")
    assert names(uri) == []


def test_a_tagged_branch_is_not_deleted(uri):
    make_dataset(uri)
    location = locate(uri)
    create_branch(location, "a", HEAD)
    create_tag(location, "keep", RefSpec(branch="a"))
    before = contents(uri)
    with pytest.raises(Refused, match="tag 'keep' points at it"):
        delete_branch(location, "a")
    assert contents(uri) == before


def test_a_branch_is_not_deleted_while_a_nested_name_would_strand_its_files(uri):
    make_dataset(uri)
    location = locate(uri)
    create_branch(location, "a", HEAD)
    write(uri, numbers(1, 9), branch="a")
    create_branch(location, "a/b", HEAD)
    before = contents(uri)
    with pytest.raises(Refused, match="would be left behind"):
        delete_branch(location, "a")
    assert contents(uri) == before
    assert ids(uri, branch="a") == [0, 1, 2, 9]
    delete_branch(location, "a/b")
    delete_branch(location, "a")
    assert not [path for path in contents(uri) if path.startswith("tree/")]
    create_branch(location, "a", HEAD)
    assert ids(uri, branch="a") == [0, 1, 2]


def test_deleting_a_nested_branch_leaves_the_one_above_it_alone(uri):
    make_dataset(uri)
    location = locate(uri)
    create_branch(location, "a/b", HEAD)
    create_branch(location, "a", HEAD)
    write(uri, numbers(1, 9), branch="a")
    delete_branch(location, "a/b")
    assert names(uri) == ["a"]
    assert ids(uri, branch="a") == lance.dataset(f"{uri}/tree/a").to_table()["id"].to_pylist() == [0, 1, 2, 9]


def test_a_branch_made_again_under_an_old_name_shows_its_own_rows(uri):
    make_dataset(uri)
    location = locate(uri)
    for start, count in ((100, 2), (200, 5)):
        create_branch(location, "b", HEAD)
        write(uri, numbers(count, start), branch="b")
        assert ids(uri, branch="b") == [0, 1, 2, *range(start, start + count)]
        delete_branch(location, "b")


def test_a_dataset_made_again_at_an_old_path_shows_its_own_rows(uri):
    make_dataset(uri)
    assert ids(uri) == [0, 1, 2]
    shutil.rmtree(uri)
    make_dataset(uri, numbers(2, 70))
    assert ids(uri) == [70, 71]


def test_refs_of_a_missing_dataset_say_so(uri):
    with pytest.raises(NotFound, match="no Lance dataset"):
        list_branches(locate(uri))
    with pytest.raises(NotFound, match="no Lance dataset"):
        create_branch(locate(uri), "b", HEAD)
    assert not Path(uri).exists()


def test_a_new_branch_says_which_deleted_one_it_discards(uri):
    make_dataset(uri, numbers(3))
    table = LanceTable.for_path(uri)
    assert table.branches.create("exp").discarded is None
    lance.write_dataset(numbers(1, 10), f"{uri}/tree/exp", mode="append")
    table.branches.delete("exp")
    made = table.branches.create("exp")
    assert made.discarded == "exp@2"
    assert "discarded" in str(made)
    assert made == table.branches["exp"]
    table.branches.delete("exp", purge=True)
    assert table.branches.create("exp").discarded is None


def test_head_is_no_name_of_a_branch(uri):
    make_dataset(uri, numbers(3))
    with pytest.raises(InvalidName, match="newest version of the current branch"):
        LanceTable.for_path(uri).branches.create("HEAD")
