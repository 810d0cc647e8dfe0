"""Verbs of a handle act on its branch and start from its version; main is named when it is meant."""

import lance
import pytest
from support.local_datasets import numbers

from lance_spark import CleanupPolicy, LanceTable
from lance_spark.core.ref_expressions import from_handle
from lance_spark.core.refs import Beginning, RefSpec
from lance_spark.errors import InvalidOption, NotFound, Refused

NOT_BEGUN = RefSpec("lake/etl-1", begins=Beginning(3, "/lake", "etl", "1", ("t",)))


@pytest.mark.pure
@pytest.mark.parametrize(
    ("handle", "given", "names_branch", "meant"),
    [
        (RefSpec(), RefSpec(), False, RefSpec()),
        (RefSpec("dev"), RefSpec(), False, RefSpec("dev")),
        (RefSpec("dev"), RefSpec(), True, RefSpec()),
        (RefSpec("dev"), RefSpec("exp"), True, RefSpec("exp")),
        (RefSpec("dev"), RefSpec(version=3), False, RefSpec("dev", version=3)),
        (RefSpec("dev"), RefSpec(version=3), True, RefSpec(version=3)),
        (RefSpec("dev"), RefSpec(tag="v1"), False, RefSpec(tag="v1")),
        (RefSpec("dev", version=2), RefSpec(), False, RefSpec("dev", version=2)),
        (RefSpec("dev", version=2), RefSpec(version=3), False, RefSpec("dev", version=3)),
        (NOT_BEGUN, RefSpec(), False, NOT_BEGUN),
        (NOT_BEGUN, RefSpec(version=2), False, RefSpec(version=2)),
    ],
)
def test_what_arguments_mean_to_a_handle(handle, given, names_branch, meant):
    assert from_handle(handle, given, names_branch) == meant


@pytest.fixture
def table(uri):
    """main has 3 rows, dev, made from it, 5, and exp 4."""
    lance.write_dataset(numbers(3), uri)
    table = LanceTable.for_path(uri)
    for name, rows in (("dev", numbers(2, 10)), ("exp", numbers(1, 20))):
        table.branches.create(name)
        lance.write_dataset(rows, f"{uri}/tree/{name}", mode="append")
    return table


def start(table, name):
    made = table.branches[name]
    return made.parent_branch, made.parent_version


def place(table, name):
    tag = table.tags[name]
    return tag.branch, tag.version


def test_refs_start_from_the_version_of_the_handle(table):
    dev = table.checkout(branch="dev")
    dev.branches.create("a")
    dev.branches.create("b", version=1)
    dev.branches.create("c", branch="main")
    dev.checkout(version=1).branches.create("d")
    assert [start(table, name) for name in "abcd"] == [("dev", 2), ("dev", 1), (None, 1), ("dev", 1)]
    dev.tags.create("a")
    dev.tags.create("b", version=1)
    dev.tags.create("c", branch="main")
    dev.checkout(tag="b").tags.create("d")
    assert [place(table, name) for name in "abcd"] == [("dev", 2), ("dev", 1), (None, 1), ("dev", 1)]
    dev.tags.move("c")
    table.tags.move("a")
    assert [place(table, name) for name in "ac"] == [(None, 1), ("dev", 2)]


def test_another_version_is_one_of_the_handles_branch(table):
    dev = table.checkout(branch="dev")
    dev.tags.create("audited")
    pinned = dev.checkout(version=1)
    assert [(each.branch, each.count_rows()) for each in (dev, dev.checkout(), pinned, pinned.checkout(version=2))] == [
        ("dev", 5),
        ("dev", 5),
        ("dev", 3),
        ("dev", 5),
    ]
    assert table.checkout(branch="exp").checkout(tag="audited").count_rows() == 5
    assert dev.checkout(branch="main").branch == "main"
    with pytest.raises(NotFound, match="Branch 'dev' has no version 9"):
        dev.checkout(version=9)


def test_versions_from_before_a_branch_are_found_by_the_name_of_its_parent(table, uri):
    lance.write_dataset(numbers(1, 30), uri, mode="append")
    table.branches.create("late")
    late = table.checkout(branch="late")
    with pytest.raises(NotFound, match="name the branch that 'late' was created from"):
        late.checkout(version=1)
    assert late.checkout(branch="main", version=1).count_rows() == 3


def test_a_merge_goes_into_the_branch_of_the_handle(table):
    dev = table.checkout(branch="dev")
    assert dev.branches.merge("exp").into == "dev"
    assert (table.count_rows(), dev.count_rows()) == (3, 6)
    with pytest.raises(InvalidOption, match="is a version of 'dev' itself") as refused:
        dev.branches.merge("dev")
    assert "the one to merge it into" in refused.value.hint
    assert dev.branches.merge("dev", into="main").into == "main"
    assert (table.count_rows(), dev.count_rows()) == (6, 6)


def test_a_pinned_handle_names_the_branch_to_merge_into(table):
    pinned = table.checkout(branch="dev", version=1)
    with pytest.raises(Refused, match="pinned to a tag or version"):
        pinned.branches.merge("exp")
    assert table.checkout(branch="dev").count_rows() == 5
    assert pinned.branches.merge("exp", into="dev").into == "dev"


def test_the_directory_of_main_is_the_root(table, uri):
    assert table.location.branch_uri(table.branch) == table.location.branch_uri(None) == uri
    assert table.location.branch_uri("dev") == f"{uri}/tree/dev"
    lance.write_dataset(numbers(1, 30), table.location.branch_uri(table.branch), mode="append")
    assert table.count_rows() == 4


def test_a_second_main_is_an_error_that_no_cleanup_touches(table, uri):
    lance.write_dataset(numbers(2, 40), f"{uri}/tree/main")
    (finding,) = table.fsck().findings
    assert (finding.code, finding.severity, finding.path) == ("second-main", "error", "tree/main")
    everything = CleanupPolicy(retain_versions=1, commit_window="0s", unverified_age="0s", delete_unverified=True)
    table.cleanup(everything).apply()
    assert lance.dataset(f"{uri}/tree/main").to_table()["id"].to_pylist() == [40, 41]
