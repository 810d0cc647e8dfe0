"""Fetches after anything that may happen at a remote: each branch that follows has the remote's rows again."""

import shutil
from contextlib import suppress

import lance
import pyarrow as pa
import pytest
from support.local_datasets import contents
from support.merge_datasets import add, clean_all, head, table
from support.remote_datasets import (
    assert_follows,
    assert_same,
    branch_off,
    fetched,
    ids_of,
    made_clone,
    merged,
    pulled,
    pushed,
    read,
    refused,
)

from lance_spark.errors import Conflict, NotFound, Refused
from lance_spark.refs.refs import delete_branch
from lance_spark.storage.datasets import locate

pytestmark = pytest.mark.when(day=0.5)


def appended(dataset):
    """Five rows, in whatever columns there are."""
    columns = {field.name: pa.nulls(5, field.type) for field in dataset.schema} | {"id": pa.array(range(200, 205))}
    new = pa.table(columns).cast(dataset.schema)
    lance.write_dataset(new, dataset.uri, mode="append", max_rows_per_file=2)


def deleted(dataset):
    dataset.delete("id in (0, 1, 22)")


def deleted_fragment(dataset):
    dataset.delete("id < 10")


def updated(dataset):
    dataset.update({"v": "-1"}, "id in (2, 12)")


def upserted(dataset):
    upsert = dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    upsert.execute(table(28, 33))


def compacted(dataset):
    dataset.optimize.compact_files()


def column_added(dataset):
    dataset.add_columns({f"w{dataset.version}": "id + 1"})


def column_dropped(dataset):
    dataset.drop_columns(dataset.schema.names[1:2] or ["id"])


def column_renamed(dataset):
    dataset.alter_columns({"path": dataset.schema.names[-1], "name": f"r{dataset.version}"})


def column_cast(dataset):
    dataset.alter_columns({"path": "v", "data_type": pa.int32()})


def column_made_anew(dataset):
    dataset.drop_columns(["v"])
    lance.dataset(dataset.uri).add_columns({"v": "id * 7"})


def overwritten(dataset):
    lance.write_dataset(table(50, 60), dataset.uri, mode="overwrite")


def overwritten_otherwise(dataset):
    lance.write_dataset(pa.table({"id": [1, 2], "text": ["a", "b"]}), dataset.uri, mode="overwrite")


def emptied(dataset):
    dataset.delete("true")


def restored(dataset):
    before = dataset.version
    dataset.delete("id = 0")
    lance.dataset(dataset.uri, version=before).restore()


def undone(dataset):
    lance.dataset(dataset.uri, version=dataset.version - 1).restore()


def indexed(dataset):
    dataset.create_scalar_index("id", "BTREE", replace=True)


CHANGES = (
    appended,
    deleted,
    deleted_fragment,
    updated,
    upserted,
    compacted,
    column_added,
    column_dropped,
    column_renamed,
    column_cast,
    column_made_anew,
    overwritten,
    overwritten_otherwise,
    emptied,
    restored,
    indexed,
)


@pytest.mark.when(day=0.3)
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_fetch_and_a_pull_bring_what_changed(source, local, change):
    for branch in (None, "exp"):
        change(head(source, branch))
    result = fetched(local, source)
    assert_follows(local, source)
    assert {found.branch: found.state for found in result.branches} == {
        "main": "updated",
        "exp": "updated",
        "exp/deep": "up to date",
    }
    before = contents(local)
    assert {found.state for found in fetched(local, source).branches} == {"up to date"}
    assert contents(local) == before
    # A pull into a branch without changes never conflicts.
    pulled(local, source)
    assert_same(local, None, source, None)
    appended(head(source))
    with suppress(OSError, ValueError):  # what it changes is gone
        change(head(source))
    pulled(local, source)
    assert_same(local, None, source, None)


SEVERAL = (
    (deleted, appended, updated, compacted),
    (updated, column_added, appended, deleted),
    (column_added, column_renamed, updated, column_dropped),
    (column_made_anew, updated, compacted, appended),
    (deleted_fragment, column_added, column_dropped, indexed),
    (column_added, compacted),
    (compacted, column_cast, deleted),
    (overwritten, deleted, column_added),
    (emptied, appended),
    (overwritten_otherwise, appended, deleted),
    (appended, emptied, restored, upserted),
    (column_dropped, undone, updated),
)


@pytest.mark.when(day=0.3)
@pytest.mark.parametrize("several", SEVERAL, ids=lambda changes: "-".join(change.__name__ for change in changes))
def test_a_fetch_brings_several_changes_at_once(source, local, several):
    for change in several:
        change(head(source))
    fetched(local, source)
    assert_follows(local, source)
    for change in several[:2]:
        with suppress(OSError, ValueError):  # what it changes is gone
            change(head(source))
    pulled(local, source, ff_only=True)
    assert_same(local, None, source, None)


def test_a_fetch_does_not_touch_ones_own_branches(source, local):
    add(local, 300, 303)
    branch_off(local, "mine", "origin/exp")
    for branch in (None, "exp"):
        appended(head(source, branch))
    before = {branch: read(local, branch) for branch in (None, "mine")}
    fetched(local, source)
    assert {branch: read(local, branch) for branch in (None, "mine")} == before
    assert_follows(local, source)


def test_new_branches_are_followed(source, local):
    appended(head(source, "exp/deep"))
    branch_off(source, "new", "exp/deep")
    updated(head(source, "new"))
    branch_off(source, "quiet")
    lance.dataset(source).create_branch("old", 2)
    result = fetched(local, source)
    assert {name: result.of(name).state for name in ("new", "quiet", "old")} == dict.fromkeys(
        ("new", "quiet", "old"), "new"
    )
    assert_follows(local, source)
    merged(local, "origin/new")
    merged(local, "origin/exp")
    assert ids_of(local) == sorted({*ids_of(source), *ids_of(source, "new"), *ids_of(source, "exp")} - {101, 15})
    merged(local, "origin/old")
    merged(local, "origin/quiet")
    assert len(ids_of(local)) == len(set(ids_of(local)))


def test_a_branch_that_is_gone_leaves_its_following_branch(source, local):
    expected = read(source, "exp/deep")
    unprotected(source)
    delete_branch(locate(source), "exp/deep")
    result = fetched(local, source)
    assert result.of("exp/deep").state == "gone"
    assert "origin/exp/deep" in lance.dataset(local).branches.list()
    appended(head(source))
    fetched(local, source)
    assert_follows(local, source)
    assert set(lance.dataset(source).branches.list()) == {"exp"}
    assert expected


def test_a_branch_that_was_made_anew_is_begun_anew(source, local):
    unprotected(source)
    delete_branch(locate(source), "exp/deep")
    branch_off(source, "exp/deep")
    add(source, 700, 702, "exp/deep")
    assert fetched(local, source).of("exp/deep").state == "begun again"
    assert_follows(local, source)
    merged(local, "origin/exp/deep")
    assert ids_of(local) == sorted([*ids_of(source), 700, 701])
    updated(head(source, "exp/deep"))
    assert fetched(local, source).of("exp/deep").state == "updated"
    assert_follows(local, source)


@pytest.mark.parametrize("longer", [False, True])
def test_a_remote_that_was_made_anew_is_begun_anew(source, local, stable, longer):
    shutil.rmtree(source)
    lance.write_dataset(table(900, 905), source, enable_stable_row_ids=stable)
    for start in range(1000, 1100 if longer else 1000, 10):
        add(source, start, start + 3)
    branch_off(source, "exp")
    before = {name: head(local, name).version for name in (None, "origin/main", "origin/exp")}
    with pytest.raises(Refused, match="histories are unrelated") as refused:
        fetched(local, source)
    assert "allow_unrelated_histories" in str(refused.value)
    with pytest.raises(Refused, match="histories are unrelated"):
        pulled(local, source)
    with pytest.raises(Refused, match="histories are unrelated"):
        pushed(local, source)
    assert {name: head(local, name).version for name in before} == before
    result = fetched(local, source, allow_unrelated_histories=True)
    assert (result.of(None).state, result.of("exp").state) == ("begun again", "begun again")
    assert result.of("exp/deep").state == "gone"
    assert_follows(local, source)
    appended(head(source))
    fetched(local, source)
    assert_follows(local, source)


def test_a_remote_that_is_gone_is_told(source, local):
    shutil.rmtree(source)
    with pytest.raises(NotFound):
        fetched(local, source)


def test_after_a_cleanup_at_the_remote_everything_can_still_be_read_and_fetched(source, local):
    before = {branch: read(local, branch) for branch in (None, "origin/main", "origin/exp", "origin/exp/deep")}
    compacted(head(source))
    for branch in ("exp", "exp/deep"):
        updated(head(source, branch))
    clean_all(source)
    assert {branch: read(local, branch) for branch in before} == before
    fetched(local, source)
    assert_follows(local, source)
    clean_all(source)
    clean_all(local)
    assert_follows(local, source)
    pulled(local, source)
    assert_same(local, None, source, None)


def test_a_version_that_was_fetched_last_and_is_gone_is_made_up_for(source, local):
    unprotected(source)
    updated(head(source))
    appended(head(source))
    clean_all(source)
    assert fetched(local, source).of(None).state == "begun again"
    assert_follows(local, source)
    deleted(head(source))
    fetched(local, source)
    assert_follows(local, source)


def unprotected(uri):
    """Take away all that holds cleanups off."""
    for name in lance.dataset(uri).tags.list():
        lance.dataset(uri).tags.delete(name)
    shutil.rmtree(f"{uri}/_clones", ignore_errors=True)


def test_a_branch_that_is_read_from_here_cannot_be_deleted(source, local):
    with pytest.raises(Refused, match="such as 'clone-"):
        delete_branch(locate(source), "exp/deep")
    assert_follows(local, source)


def test_a_merge_at_the_remote_is_known_here(source, local):
    """Merging the branch here as well must not double its rows, whatever was done to them at the remote."""
    merged(source, "exp")
    compacted(head(source))
    updated(head(source))
    fetched(local, source)
    assert_follows(local, source)
    pulled(local, source)
    assert merged(local, "origin/exp").up_to_date
    assert_same(local, None, source, None)
    add(source, 400, 403, "exp")
    fetched(local, source)
    with suppress(Conflict):  # after all of it was compacted, the remote may as well have replaced the table
        merged(local, "origin/exp")
        assert ids_of(local) == sorted([*ids_of(source), 400, 401, 402])
    pulled(local, source)
    assert len(ids_of(local)) == len(set(ids_of(local)))


def test_merges_there_and_back_at_the_remote(source, local):
    for number in range(3):
        add(source, 400 + number, 401 + number, "exp")
        merged(source, "exp")
        add(source, 500 + number, 501 + number)
        merged(source, None, "exp")
        if number != 1:
            fetched(local, source)
    assert_follows(local, source)
    branch_off(local, "mine", "origin/exp")
    assert merged(local, "origin/main", "mine").up_to_date
    pulled(local, source)
    assert merged(local, "origin/exp").up_to_date
    merged(local, "origin/exp/deep")
    assert ids_of(local) == [number for number in ids_of(source) if number != 101]


def test_merging_before_the_fetch_and_at_the_remote_as_well(source, local):
    """Both merged the same branch by themselves: then the rows are told apart by their files, or it is a conflict."""
    merged(local, "origin/exp")
    merged(source, "exp")
    fetched(local, source)
    with suppress(Refused):
        merged(local, "origin/main")
    assert ids_of(local) == ids_of(source)


def test_who_wrote_to_a_following_branch_is_told(source, local):
    add(local, 800, 801, "origin/main")
    appended(head(source))
    told = refused(Refused, lambda: fetched(local, source), local)
    assert "origin/main" in told


def test_a_branch_of_ones_own_in_the_way_is_told(source, local):
    branch_off(source, "new")
    add(local, 1, 2)
    branch_off(local, "origin/new")
    add(local, 2, 3, "origin/new")
    refused(Refused, lambda: fetched(local, source), local)
    assert len(read(local, "origin/new")) == len(read(source)) + 2


def test_a_dry_run_changes_nothing(source, local):
    appended(head(source))
    branch_off(source, "new")
    before = contents(local), contents(source)
    result = fetched(local, source, dry_run=True)
    assert (result.of(None).state, result.of("new").state, result.of("exp").state) == ("updated", "new", "up to date")
    assert (contents(local), contents(source)) == before


def test_single_branches_can_be_fetched(source, local):
    for branch in (None, "exp", "exp/deep"):
        appended(head(source, branch))
    branch_off(source, "new", "exp/deep")
    assert {found.branch for found in fetched(local, source, branches=[None]).branches} == {"main"}
    assert_same(local, "origin/main", source, None)
    assert read(local, "origin/exp") != read(source, "exp")
    found = fetched(local, source, branches=["new"])
    assert {found.branch for found in found.branches} == {"main", "exp", "exp/deep", "new"}
    assert_follows(local, source)
    with pytest.raises(NotFound):
        fetched(local, source, branches=["missing"])


def test_two_remotes_are_followed_at_once(source, local, tmp_path, stable):
    other = str(tmp_path / "other.lance")
    made_clone(source, other, "deep")
    add(other, 600, 601)
    fetched(local, other, "theirs")
    assert_follows(local, other, "theirs")
    appended(head(source))
    fetched(local, source)
    assert_follows(local, source)
    assert_follows(local, other, "theirs")
    refused(Refused, lambda: merged(local, "theirs/main"), local)


def test_fetching_from_itself_is_refused(source):
    with pytest.raises(ValueError, match="itself"):
        fetched(source, source)
