"""What a merge has to know outlives the versions that a cleanup removes: rows that were picked, reverted or restored.

Each history brings rows to both branches, rewrites or deletes them on one, and removes the versions that tell so.
"""

from datetime import timedelta
from pathlib import Path
from unittest.mock import Mock

import lance
import pytest
from support.cleanup_datasets import place
from support.killed import killed_at
from support.merge_datasets import add, clean_all, head, ids, rows, run, table

from lance_spark.core.layout import BROUGHT, BroughtName, brought_path, brought_versions, classify, read_brought_name
from lance_spark.core.refs import PinnedVersion, RefSpec
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import Conflict, PermissionDenied, StorageFailure
from lance_spark.merge import replay_commits
from lance_spark.merge.merge import cherry_pick, merge, revert
from lance_spark.merge.option_rules import MergeOptions
from lance_spark.merge.restore import restore
from lance_spark.merge.transaction import transaction
from lance_spark.refs.refs import create_branch_at, drop_branch
from lance_spark.storage import brought
from lance_spark.storage.datasets import locate, pin_latest


@pytest.fixture(params=[False, True], ids=["", "stable"])
def dataset(uri, request):
    """Main with five rows, and branch exp from it with rows 10 and 11 (exp@2) and 20 (exp@3)."""
    lance.write_dataset(table(0, 5), uri, enable_stable_row_ids=request.param)
    create_branch_at(locate(uri), "exp", PinnedVersion(None, 1))
    add(uri, 10, 12, "exp")
    add(uri, 20, 21, "exp")
    return uri


def pick(uri, source="exp", version=2, into=None):
    return cherry_pick(locate(uri), PinnedVersion(source, version), into, LocalRunner())


def picked(uri):
    pick(uri)


def picked_twice(uri):
    """By way of another branch."""
    create_branch_at(locate(uri), "between", PinnedVersion(None, 1))
    pick(uri, into="between")
    pick(uri, "between", head(uri, "between").version)


def came_with_a_merge(uri):
    """Of a branch that picked them, and that is gone."""
    create_branch_at(locate(uri), "between", PinnedVersion(None, 1))
    pick(uri, into="between")
    add(uri, 700, 701, "between")
    run(uri, "between")
    drop_branch(locate(uri), "between")


def came_with_a_transaction(uri):
    with transaction(locate(uri), RefSpec(), LocalRunner()) as on:
        pick(uri, into=on.branch)


def restored(uri):
    """Picked, taken back, and restored."""
    pick(uri)
    head(uri).delete("id >= 10")
    restore(locate(uri), PinnedVersion(None, 2), LocalRunner())


def restored_by_pylance(uri):
    """Settings differ, so that only pylance's own restore can do it."""
    pick(uri)
    head(uri).update_config({"a": "b"})
    head(uri).delete("id >= 10")
    restore(locate(uri), PinnedVersion(None, 2), LocalRunner())


def a_revert_was_reverted(uri):
    pick(uri)
    for version in (2, 3):
        revert(locate(uri), PinnedVersion(None, version), None, LocalRunner())


BRINGS = [
    picked,
    picked_twice,
    came_with_a_merge,
    came_with_a_transaction,
    restored,
    restored_by_pylance,
    a_revert_was_reverted,
]


def updated(uri, branch=None):
    head(uri, branch).update({"v": "7"}, where="id = 10")


def removed(uri, branch=None):
    head(uri, branch).delete("id IN (10, 11)")


def compacted(uri, branch=None):
    add(uri, 50, 51, branch)
    head(uri, branch).optimize.compact_files(target_rows_per_fragment=5)  # the rows of the base stay where they are


def keep_going(uri, branch):
    start = 61 if branch else 60
    add(uri, start, start + 1, branch)


def cleaned(uri, branch=None):
    """By pylance, which keeps the newest version only."""
    keep_going(uri, branch)
    head(uri, branch).cleanup_old_versions(timedelta(0), delete_unverified=True, error_if_tagged_old_versions=False)


def cleaned_by_us(uri, branch=None):
    keep_going(uri, branch)
    clean_all(uri)


def tell(uri):
    return {branch: rows(head(uri, branch)) for branch in (None, "exp")}


@pytest.mark.when(day=0.06)
@pytest.mark.parametrize("into", [None, "exp"], ids=["exp into main", "main into exp"])
@pytest.mark.parametrize("clean", [cleaned, cleaned_by_us])
@pytest.mark.parametrize("rewrite", [compacted, updated, removed])
@pytest.mark.parametrize("bring", BRINGS)
def test_rows_on_both_sides_stay_known_after_a_cleanup(dataset, bring, rewrite, clean, into):
    bring(dataset)
    rewrite(dataset)
    clean(dataset)
    before = tell(dataset)
    with pytest.raises(Conflict, match="picked, reverted or restored"):
        run(dataset, None if into else "exp", into)
    assert tell(dataset) == before


@pytest.mark.when(day=0.3)
@pytest.mark.parametrize("rewrite", [compacted, updated, removed])
@pytest.mark.parametrize("into", [None, "exp"], ids=["exp into main", "main into exp"])
def test_rows_that_the_picked_branch_rewrote_before_its_cleanup(dataset, rewrite, into):
    pick(dataset)
    cleaned(dataset)
    rewrite(dataset, "exp")
    cleaned(dataset, "exp")
    before = tell(dataset)
    with pytest.raises(Conflict, match="picked, reverted or restored"):
        run(dataset, None if into else "exp", into)
    assert tell(dataset) == before


def test_a_version_is_not_picked_again_after_a_cleanup(dataset):
    pick(dataset)
    compacted(dataset)
    cleaned(dataset)
    before = tell(dataset)
    with pytest.raises(Conflict, match="picked, reverted or restored"):
        pick(dataset)
    assert tell(dataset) == before


@pytest.mark.when(day=0.4)
@pytest.mark.parametrize("clean", [cleaned, cleaned_by_us])
@pytest.mark.parametrize("rewrite", [compacted, updated, removed])
def test_an_ordinary_merge_after_an_ordinary_cleanup(dataset, rewrite, clean):
    """Rows were rewritten on both sides, both are cleaned, and nothing was ever picked."""
    add(dataset, 110, 112)
    head(dataset).update({"v": "3"}, where="id = 110")
    rewrite(dataset, "exp")
    clean(dataset)
    clean(dataset, "exp")
    expected = sorted({*ids(head(dataset)), *ids(head(dataset, "exp"))})
    run(dataset, "exp")
    assert ids(head(dataset)) == expected
    assert [path for path in Path(dataset).rglob(f"{BROUGHT}/*") if not path.name.endswith(".columns.json")] == []


def test_a_branch_from_after_the_pick_goes_on(dataset):
    pick(dataset)
    compacted(dataset)
    create_branch_at(locate(dataset), "later", pin_latest(locate(dataset), None))
    cleaned_by_us(dataset)
    add(dataset, 80, 81, "later")
    run(dataset, "later")
    assert ids(head(dataset)) == [*range(5), 10, 11, 50, 60, 80]


def test_a_process_that_is_killed_leaves_a_record_too_many_never_one_too_few(dataset):
    with killed_at(replay_commits, "commit_on", after=True):
        pick(dataset)
    updated(dataset)
    cleaned(dataset)
    before = tell(dataset)
    with pytest.raises(Conflict, match="picked, reverted or restored"):
        run(dataset, "exp")
    assert tell(dataset) == before


@pytest.mark.parametrize("failure", [Conflict("overtaken"), StorageFailure("no answer")])
def test_only_a_commit_that_certainly_failed_takes_its_record_back(dataset, monkeypatch, failure):
    def failing(*given, **named):
        raise failure

    monkeypatch.setattr(replay_commits, "commit_on", failing)
    make = replay_commits.recorded
    with pytest.raises(type(failure)):
        make(locate(dataset), pin_latest(locate(dataset), None), "cherry-pick", failing)
    left = [*Path(dataset, BROUGHT).iterdir()]
    assert len(left) == isinstance(failure, StorageFailure)


def test_records_are_kept_by_cleanups_and_go_with_their_branch(dataset):
    create_branch_at(locate(dataset), "other", PinnedVersion(None, 1))
    add(dataset, 30, 31, "other")
    pick(dataset, into="other")
    (record,) = Path(place(dataset, "other"), BROUGHT).iterdir()
    clean_all(dataset)
    assert record.exists()
    location = locate(dataset)
    merge(location, pin_latest(location, "other"), None, MergeOptions(), LocalRunner())
    drop_branch(location, "other")
    assert not record.exists()
    assert len([*Path(dataset, BROUGHT).iterdir()]) == 1


# --- The names of the records

MARK, OTHER, CALL, LATER = "a" * 16, "b" * 16, "1" * 32, "2" * 32


@pytest.mark.pure
@pytest.mark.parametrize(
    ("records", "gone", "known"),
    [
        ([(4, 4, MARK, CALL)], [3, 4, 5], (4,)),
        ([(4, 4, MARK, CALL)], [3, 5], ()),
        ([(4, 4, OTHER, CALL)], [4], ()),
        ([(4, None, MARK, CALL)], [3, 4, 9], (4, 9)),
        ([(4, None, MARK, CALL), (6, 6, MARK, CALL)], [4, 5, 6, 7], (6,)),
        ([(4, None, MARK, CALL), (6, 6, MARK, LATER)], [3, 5, 6], (5, 6)),
        ([], [1], ()),
    ],
    ids=["its version", "others", "another branch", "no number", "a number after all", "of two calls", "none"],
)
def test_what_records_say_of_versions_that_are_gone(records, gone, known):
    names = [brought_path("b", BroughtName(*record)).rpartition("/")[2] for record in records]
    assert [read_brought_name(name) for name in names] == [BroughtName(*record) for record in records]
    assert brought_versions([*names, "x.json", "4-4.json.tmp"], MARK, gone) == known


@pytest.mark.pure
def test_records_are_bookkeeping():
    path = brought_path(None, BroughtName(4, 4, MARK, CALL))
    assert classify(path).kind == "bookkeeping"
    assert brought_path("a/b", BroughtName(4, 4, MARK, CALL)) == f"tree/a/b/{path}"


def test_a_record_that_cannot_be_tidied_does_not_hide_that_the_commit_is_in(tmp_path, monkeypatch):
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(table(0, 3), uri)
    lance.write_dataset(table(5, 8), uri, mode="overwrite")
    monkeypatch.setattr(brought.files, "delete", Mock(side_effect=PermissionDenied("not allowed to delete")))
    restore(locate(uri), PinnedVersion(None, 1), LocalRunner())
    assert ids(head(uri)) == [0, 1, 2]
