"""Names of branches and tags: every rule of the specification, and each error says which one."""

import pytest

from lance_spark.core.ref_names import (
    branch_or_none,
    check_branch_name,
    check_new_branch_name,
    check_new_tag_name,
    check_tag_name,
)
from lance_spark.errors import InvalidName, InvalidOption

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    "name",
    [
        *("a", "exp/delays", "bugfix/issue-123", "a.b", "v1.0_x-y", "-", "_", ".hidden", "a.", "a.lock/b", "1", "é"),
        *("分支/一", "MAIN", "mainly", "main/x", "a/main", "a/data", "data", "_refs"),
        "x" * 200,
    ],
)
def test_a_branch_name_the_specification_allows_is_accepted(name):
    check_branch_name(name)


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("", "it cannot be empty"),
        ("/", "it cannot start or end with '/'"),
        ("/a", "it cannot start or end with '/'"),
        ("a/", "it cannot start or end with '/'"),
        ("a//b", "it cannot contain '//'"),
        ("..", "it cannot contain '..'"),
        ("a..b", "it cannot contain '..'"),
        ("../a", "it cannot contain '..'"),
        ("a\\b", "it cannot contain '..' or '\\\\'"),
        ("a b", "may contain only letters"),
        ("a\n", "may contain only letters"),
        ("a/b*", "may contain only letters"),
        ("a%2Fb", "may contain only letters"),
        ("a@1", "may contain only letters"),
        ("a:b", "may contain only letters"),
        ("a~1", "may contain only letters"),
        ("a\0", "may contain only letters"),
        ("a/./b", "a segment cannot be '.'"),
        (".", "a segment cannot be '.'"),
        ("a.lock", "it cannot end with '.lock'"),
        ("a/b.lock", "it cannot end with '.lock'"),
        (".lock", "it cannot end with '.lock'"),
        ("main", "'main' is reserved"),
    ],
)
def test_a_bad_branch_name_is_refused_with_the_rule_it_breaks(name, rule):
    for check in (check_branch_name, check_new_branch_name):
        with pytest.raises(InvalidName, match=rule) as caught:
            check(name)
        assert str(caught.value).startswith(f"'{name}' is not a valid branch name: ")
        assert isinstance(caught.value, InvalidOption)


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("a/data", "'data' would collide"),
        ("a/data/b", "'data' would collide"),
        ("a/b/tree", "'tree' would collide"),
        ("a/_versions", "'_versions' would collide"),
        ("a/_refs/b", "'_refs' would collide"),
        ("main/x", "deletes the dataset"),
        ("main/x/y", "deletes the dataset"),
    ],
)
def test_a_new_branch_never_lies_where_another_one_keeps_files(name, rule):
    check_branch_name(name)
    with pytest.raises(InvalidName, match=rule):
        check_new_branch_name(name)


@pytest.mark.parametrize(
    "name", ["data", "tree", "_versions", "data/a", "a/database", "a/mytree", "mainly/x", "a/main"]
)
def test_a_new_branch_may_have_a_name_that_only_looks_like_a_directory(name):
    check_new_branch_name(name)


@pytest.mark.parametrize(
    "name", ["v1", "v1.0.0", "release-2024_01", "-", "_x", "a.b.c", "MAIN", "1", "lock", "x" * 200]
)
def test_a_tag_name_the_specification_allows_is_accepted(name):
    check_tag_name(name)
    check_new_tag_name(name)


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("", "it cannot be empty"),
        ("a/b", "no '/'"),
        ("a b", "may contain only letters"),
        ("a\\b", "may contain only letters"),
        ("v1\n", "may contain only letters"),
        (".a", "it cannot start or end with '.'"),
        ("a.", "it cannot start or end with '.'"),
        (".", "it cannot start or end with '.'"),
        ("a.lock", "it cannot end with '.lock'"),
        ("a..b", "it cannot contain '..'"),
    ],
)
def test_a_bad_tag_name_is_refused_with_the_rule_it_breaks(name, rule):
    for check in (check_tag_name, check_new_tag_name):
        with pytest.raises(InvalidName, match=rule) as caught:
            check(name)
        assert str(caught.value).startswith(f"'{name}' is not a valid tag name: ")


@pytest.mark.parametrize(
    ("check", "name", "near"),
    [
        (check_new_branch_name, "a b", "a-b"),
        (check_new_branch_name, "exp:new", "exp-new"),
        (check_new_branch_name, "/a//b/", "a/b"),
        (check_new_branch_name, "a..b", "a.b"),
        (check_new_branch_name, "x.lock.lock", "x"),
        (check_new_branch_name, "feature/ü b", "feature/ü-b"),
        (check_new_branch_name, "main", None),
        (check_new_branch_name, "HEAD", None),
        (check_new_branch_name, "", None),
        (check_new_branch_name, "a/data", None),
        (check_new_branch_name, "x" * 300, None),
        (check_new_branch_name, "x y" * 300, None),
        (check_new_tag_name, "origin/main", "origin-main"),
        (check_new_tag_name, "é b", None),
        (check_new_tag_name, "main", None),
    ],
)
def test_a_hint_has_a_name_like_it_that_is_valid(check, name, near):
    with pytest.raises(InvalidName) as caught:
        check(name)
    if near is None:
        assert caught.value.hint.startswith("Choose another name")
    else:
        assert caught.value.hint == f"'{near}' is a valid name."
        check(near)


def test_a_tag_outside_ascii_may_be_read_but_not_made():
    check_tag_name("é")
    with pytest.raises(InvalidName, match="ASCII"):
        check_new_tag_name("é")


@pytest.mark.parametrize(
    ("name", "rule"), [("HEAD", "HEAD means the newest version"), ("main", "'main' is the main branch")]
)
def test_a_tag_with_the_name_of_something_else_may_be_read_but_not_made(name, rule):
    check_tag_name(name)
    with pytest.raises(InvalidName, match=rule):
        check_new_tag_name(name)


@pytest.mark.parametrize(("typed", "branch"), [(None, None), ("main", None), ("Main", "Main"), ("a/b", "a/b")])
def test_main_is_no_branch_of_its_own(typed, branch):
    assert branch_or_none(typed) == branch


@pytest.mark.parametrize("typed", ["", " main", "a//b", "../a"])
def test_a_typed_branch_that_no_branch_can_have_is_refused(typed):
    with pytest.raises(InvalidName):
        branch_or_none(typed)
