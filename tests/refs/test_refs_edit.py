"""Changes to branches and tags that are refused before storage is touched."""

from datetime import datetime, timezone

import pytest

from lance_spark.core.ref_names import may_be_meant
from lance_spark.core.refs import Branch, RefTable, Tag
from lance_spark.errors import AlreadyExists, InvalidName, NotFound, Refused
from lance_spark.hints import said
from lance_spark.log.listing_rules import listed_branches
from lance_spark.refs import ref_rules

pytestmark = pytest.mark.pure

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)


def table(branches=None, tags=None):
    """Branches with their parents, tags with their branches."""
    return RefTable(
        {name: Branch(name, parent, 1, NOW) for name, parent in (branches or {}).items()},
        {name: Tag(name, branch, 4) for name, branch in (tags or {}).items()},
    )


def test_a_new_branch_needs_a_free_and_legal_name():
    ref_rules.check_create_branch(table({"a": None}), "b")
    ref_rules.check_create_branch(table({"a": None}), "a/b")
    ref_rules.check_create_branch(table(tags={"a": None}), "a")
    with pytest.raises(AlreadyExists, match="'a' already exists"):
        ref_rules.check_create_branch(table({"a": None}), "a")
    for name in ("main", "", "a//b", "a/data", "main/x"):
        with pytest.raises(InvalidName):
            ref_rules.check_create_branch(table(), name)


def test_a_new_tag_needs_a_free_and_legal_name():
    ref_rules.check_create_tag(table({"v1": None}), "v1")
    with pytest.raises(AlreadyExists, match="at version 4") as caught:
        ref_rules.check_create_tag(table(tags={"v1": None}), "v1")
    assert "t.tags.move('v1'" in caught.value.hint
    for name in ("", "a/b", "é", "x.lock"):
        with pytest.raises(InvalidName):
            ref_rules.check_create_tag(table(), name)


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
    ref_rules.check_delete_branch(table(branches, tags), "a")


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
        ref_rules.check_delete_branch(table(branches, tags), "a")
    assert caught.value.hint.startswith("Delete ")


def test_a_branch_whose_deletion_would_take_the_dataset_with_it_is_not_deleted():
    with pytest.raises(Refused, match="whole dataset"):
        ref_rules.check_delete_branch(table({"main/x": None}), "main/x")


def test_deleting_what_is_not_there_names_what_is_near():
    with pytest.raises(NotFound, match="no branch 'exp'") as caught:
        ref_rules.check_delete_branch(table({"exps": None}), "exp")
    assert "'exps'" in caught.value.hint
    ref_rules.check_existing_tag(table(tags={"v1": None}), "v1")
    with pytest.raises(NotFound, match="no tag 'v2'"):
        ref_rules.check_existing_tag(table(tags={"v1": None}), "v2")


FROZEN = table({"frozen/s": None}, {"s": None, "frozen-s": "frozen/s", "frozen-own": None, "own": None})
"""A frozen set 's', and a tag that only looks like one of a plan."""
NEEDED = {
    "clone-0123456789abcdef": "protects what a clone needs of main@4",
    "clone-0123456789abcdef-main-4": "protects what a clone needs of main@4",
    "lake-monday-01234567": "tag or branch 'monday' of the lake pins",
    "merged-0123456789abcdef": "since a merge by reference, another branch reads",
    "stream-3f0c": "a streaming query continues from it",
    "reader-orders-exp": "a streaming query continues from it",
}


def test_a_tag_of_a_frozen_set_is_one_by_its_plan():
    assert [ref_rules.frozen_set_of(FROZEN, name) for name in ("s", "frozen-s", "frozen-own", "own", "new")] == [
        "s",
        "s",
        None,
        None,
        None,
    ]


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("name", ["s", "frozen-s"])
@pytest.mark.parametrize("change", ["delete", "move"])
def test_the_tags_of_a_frozen_set_go_with_the_set_alone(name, change, force):
    with pytest.raises(Refused, match=f"Tag '{name}' was not changed: it belongs to the frozen set 's'") as caught:
        ref_rules.check_delete_tag(FROZEN, name, force) if change == "delete" else ref_rules.check_move_tag(
            FROZEN, name
        )
    assert "t.frozen.delete('s')" in caught.value.hint


@pytest.mark.parametrize("name", NEEDED)
def test_a_tag_that_something_relies_on_is_deleted_by_force_alone_and_never_moved(name):
    refs = table(tags={name: None})
    with pytest.raises(Refused, match=NEEDED[name]) as caught:
        ref_rules.check_delete_tag(refs, name, force=False)
    assert f"t.tags.delete('{name}', force=True)" in caught.value.hint
    assert f"lance-git tag -d {name} -f" in said(caught.value.hint, "shell")
    ref_rules.check_delete_tag(refs, name, force=True)
    with pytest.raises(Refused, match="was not moved"):
        ref_rules.check_move_tag(refs, name)


def test_a_clones_tag_names_the_clone_where_that_is_known():
    refs = table(tags={"clone-0123456789abcdef": None})
    with pytest.raises(Refused, match="what the clone at s3://b/c needs"):
        ref_rules.check_delete_tag(refs, "clone-0123456789abcdef", force=False, clone="s3://b/c")


@pytest.mark.parametrize("name", ["v1", "cloned", "clone-1", "mergedx", "stream", "frozen-own", "own"])
def test_any_other_tag_is_deleted_and_moved_freely(name):
    refs = table(tags={name: None})
    ref_rules.check_delete_tag(refs, name, force=False)
    ref_rules.check_move_tag(refs, name)
    with pytest.raises(NotFound):
        ref_rules.check_delete_tag(refs, "nope", force=True)


def test_a_branch_of_the_lake_is_deleted_as_such_or_by_force():
    name = "lake/etl/nightly-01234567"
    with pytest.raises(Refused, match="changes that branch 'etl/nightly' of the lake made") as caught:
        ref_rules.check_delete_branch(table({name: None}), name)
    assert "lake.branches.delete('etl/nightly')" in caught.value.hint
    assert f"t.branches.delete('{name}', force=True)" in caught.value.hint
    assert "lance-catalog branch -d etl/nightly" in said(caught.value.hint, "shell")
    ref_rules.check_delete_branch(table({name: None}), name, force=True)
    with pytest.raises(Refused, match="'sub' was created from it"):
        ref_rules.check_delete_branch(table({name: None, "sub": name}), name, force=True)
    for other in ("lake", "lake/x", "lake/x-0123456", "lakes/x-01234567"):
        ref_rules.check_delete_branch(table({other: None}), other)


@pytest.mark.parametrize(("name", "hint"), [("etl", "lake.branches.delete('etl')"), ("tags/v1", "tags.delete('v1')")])
def test_branches_of_a_catalogs_own_table_are_refs_of_the_lake(name, hint):
    with pytest.raises(Refused, match="of the lake") as caught:
        ref_rules.check_no_lake_ref("s3://b/lake/__manifest", name, "deleted")
    assert hint in caught.value.hint
    ref_rules.check_no_lake_ref("s3://b/lake/flights", name, "deleted")


def test_lists_and_hints_leave_out_branches_of_the_lake():
    names = ["exp", "lake/etl-01234567", "lake/mine"]
    branches = table(dict.fromkeys(names)).branches
    assert [branch.name for branch in listed_branches(branches, (), False)] == ["exp", "lake/mine"]
    assert [branch.name for branch in listed_branches(branches, (), True)] == names
    assert "1 more of frozen sets and the lake" in str(listed_branches(branches, (), False))
    assert may_be_meant("ex", names) == ["exp", "lake/mine"]
    assert may_be_meant("lake/", names) == names
