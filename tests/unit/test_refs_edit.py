"""Changes to branches and tags that are refused before storage is touched."""

from datetime import datetime, timezone

import pytest

from lance_spark.errors import AlreadyExists, InvalidName, NotFound, Refused
from lance_spark.refs.edit import (
    check_create_branch,
    check_create_tag,
    check_delete_branch,
    check_existing_tag,
)
from lance_spark.refs.model import Branch, RefTable, Tag

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)


def table(branches=None, tags=None):
    """Branches with their parents, tags with their branches."""
    return RefTable(
        {name: Branch(name, parent, 1, NOW) for name, parent in (branches or {}).items()},
        {name: Tag(name, branch, 4) for name, branch in (tags or {}).items()},
    )


def test_a_new_branch_needs_a_free_and_legal_name():
    check_create_branch(table({"a": None}), "b")
    check_create_branch(table({"a": None}), "a/b")
    check_create_branch(table(tags={"a": None}), "a")
    with pytest.raises(AlreadyExists, match="'a' already exists"):
        check_create_branch(table({"a": None}), "a")
    for name in ("main", "", "a//b", "a/data", "main/x"):
        with pytest.raises(InvalidName):
            check_create_branch(table(), name)


def test_a_new_tag_needs_a_free_and_legal_name():
    check_create_tag(table({"v1": None}), "v1")
    with pytest.raises(AlreadyExists, match="at version 4") as caught:
        check_create_tag(table(tags={"v1": None}), "v1")
    assert "tags.move()" in caught.value.hint
    for name in ("", "a/b", "é", "x.lock"):
        with pytest.raises(InvalidName):
            check_create_tag(table(), name)


@pytest.mark.parametrize(
    ("branches", "tags"),
    [
        ({"a": None}, {}),
        ({"a": None, "b": None}, {"t": "b", "u": None}),
        ({"a": "b", "b": None}, {}),
        ({"a": None, "ab": None, "ab/c": None, "b/a": None}, {}),
        ({"x/a": None, "a": None}, {}),
    ],
)
def test_a_branch_that_nothing_needs_may_be_deleted(branches, tags):
    check_delete_branch(table(branches, tags), "a")


@pytest.mark.parametrize(
    ("branches", "tags", "named"),
    [
        ({"a": None, "c": "a", "b": "a"}, {}, "'b', 'c' was created from it"),
        ({"a": None}, {"t2": "a", "t1": "a", "x": None}, "tag 't1', 't2' points at it"),
        ({"a": None, "a/b": None}, {}, "'a/b'"),
        ({"a": None, "a/b/c": "x"}, {}, "'a/b/c'"),
    ],
)
def test_a_branch_that_others_need_is_not_deleted(branches, tags, named):
    with pytest.raises(Refused, match=named) as caught:
        check_delete_branch(table(branches, tags), "a")
    assert caught.value.hint.startswith("Delete ")


def test_a_branch_whose_deletion_would_take_the_dataset_with_it_is_not_deleted():
    with pytest.raises(Refused, match="whole dataset"):
        check_delete_branch(table({"main/x": None}), "main/x")


def test_deleting_what_is_not_there_names_what_is_near():
    with pytest.raises(NotFound, match="no branch 'exp'") as caught:
        check_delete_branch(table({"exps": None}), "exp")
    assert "'exps'" in caught.value.hint
    check_existing_tag(table(tags={"v1": None}), "v1")
    with pytest.raises(NotFound, match="no tag 'v2'"):
        check_existing_tag(table(tags={"v1": None}), "v2")
