"""What a merge took in stays known when the merged branch is deleted, as by who publishes what was audited.

The branch that it was made from goes on: compacted, its rows lie in other files, and only history tells that the target
has them.
"""

import json
from datetime import timedelta

import lance
import pytest
from support.cleanup_datasets import clean
from support.merge_datasets import add, head, table

from lance_spark.core.refs import RefSpec
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import Conflict, NotFound, Refused
from lance_spark.format.versions import HELD
from lance_spark.merge.merge import MergeOptions, merge
from lance_spark.refs.refs import create_branch, delete_branch, set_aside_branch
from lance_spark.storage import refs
from lance_spark.storage.datasets import locate, pin_latest


@pytest.fixture(params=[False, True], ids=["plain", "stable"])
def dataset(uri, request):
    """Main with rows 0 to 2, and a branch ``ingest`` with rows 10 and 11."""
    lance.write_dataset(table(0, 3), uri, enable_stable_row_ids=request.param)
    create_branch(locate(uri), "ingest", RefSpec())
    add(uri, 10, 12, "ingest")
    return uri


def ids(uri, branch=None):
    return sorted(head(uri, branch).to_table()["id"].to_pylist())


def compact(uri, branch):
    head(uri, branch).optimize.compact_files()


def take(uri, source, into=None):
    location = locate(uri)
    return merge(location, pin_latest(location, source), into, MergeOptions(), LocalRunner())


def through(uri, name, source, into=None, more=()):
    """Merge what a branch has now by another one, which is deleted then."""
    create_branch(locate(uri), name, RefSpec(branch=source))
    for first in more:
        add(uri, first, first + 1, name)
    take(uri, name, into)
    delete_branch(locate(uri), name)


@pytest.mark.when(day=0.3)
@pytest.mark.parametrize("more", [(), (90,)], ids=["as it is", "with a version of its own"])
@pytest.mark.parametrize("ours", [False, True], ids=["fast-forward", "both sides"])
def test_hour_after_hour(dataset, ours, more):
    expected = [0, 1, 2, 10, 11]
    for hour in range(3):
        first = 20 + 10 * hour
        through(dataset, "audited", "ingest", more=[each + hour for each in more])
        expected += [each + hour for each in more]
        assert ids(dataset) == sorted(expected)
        add(dataset, first, first + 2, "ingest")
        compact(dataset, "ingest")
        expected += [first, first + 1]
        if ours:
            add(dataset, 1000 + hour, 1001 + hour)
            expected.append(1000 + hour)
    take(dataset, "ingest")
    assert ids(dataset) == sorted(expected)


def test_into_another_branch(dataset):
    create_branch(locate(dataset), "main-like", RefSpec())
    through(dataset, "audited", "ingest", "main-like")
    add(dataset, 20, 22, "ingest")
    compact(dataset, "ingest")
    through(dataset, "audited", "ingest", "main-like")
    assert ids(dataset, "main-like") == [0, 1, 2, 10, 11, 20, 21]


def test_what_the_deleted_branch_had_merged_itself(dataset):
    create_branch(locate(dataset), "other", RefSpec())
    add(dataset, 30, 32, "other")
    create_branch(locate(dataset), "both", RefSpec(branch="ingest"))
    take(dataset, "other", "both")
    take(dataset, "both")
    delete_branch(locate(dataset), "both")
    for branch, first in (("other", 40), ("ingest", 20)):
        add(dataset, first, first + 2, branch)
        compact(dataset, branch)
        take(dataset, branch)
    assert ids(dataset) == [0, 1, 2, 10, 11, 20, 21, 30, 31, 40, 41]


def updated(uri):
    head(uri).update({"v": "7"}, where="id = 10")


def removed(uri):
    head(uri).delete("id IN (10, 11)")


def compacted(uri):
    add(uri, 90, 91)
    head(uri).optimize.compact_files(target_rows_per_fragment=3)


def cleaned(uri):
    """By pylance: nothing but the newest version of main is left."""
    add(uri, 60, 61)
    head(uri).cleanup_old_versions(timedelta(0), delete_unverified=True, error_if_tagged_old_versions=False)


def cleaned_by_us(uri):
    add(uri, 60, 61)
    clean(uri, older_than=timedelta(0), commit_window=timedelta(0))


@pytest.mark.when(day=0.2)
@pytest.mark.parametrize("clean_up", [cleaned, cleaned_by_us])
@pytest.mark.parametrize("rewrite", [compacted, updated, removed])
def test_a_merge_by_a_deleted_branch_stays_known_after_a_cleanup(dataset, rewrite, clean_up):
    through(dataset, "audited", "ingest", more=[80])
    rewrite(dataset)
    clean_up(dataset)
    expected = [*ids(dataset), 20, 21]
    add(dataset, 20, 22, "ingest")
    compact(dataset, "ingest")
    take(dataset, "ingest")
    assert ids(dataset) == sorted(expected)


@pytest.mark.when(day=0.15)
@pytest.mark.parametrize("delete", [delete_branch, set_aside_branch])
@pytest.mark.parametrize("clean_up", [cleaned, cleaned_by_us])
@pytest.mark.parametrize("rewrite", [compacted, updated, removed])
def test_a_deleted_branch_that_two_others_merged_stays_known_after_a_cleanup(dataset, rewrite, clean_up, delete):
    create_branch(locate(dataset), "other", RefSpec())
    take(dataset, "ingest", "other")
    take(dataset, "ingest")
    delete(locate(dataset), "ingest")
    rewrite(dataset)
    clean_up(dataset)
    before = ids(dataset)
    with pytest.raises(Refused, match="on a branch that was deleted"):
        take(dataset, "other")
    assert ids(dataset) == before


def test_a_merge_that_is_forgotten_is_refused_where_rows_would_come_twice(dataset):
    """The version that tells of the merge was cleaned up; releases before this one kept no note of it."""
    through(dataset, "audited", "ingest")
    for first in (100, 101):
        add(dataset, first, first + 1)
    refs.replace_metadata(locate(dataset), "ingest", {})
    clean(dataset, older_than=timedelta(0), commit_window=timedelta(0))
    add(dataset, 20, 22, "ingest")
    compact(dataset, "ingest")
    with pytest.raises(Conflict, match="no version records which merge brought them"):
        take(dataset, "ingest")
    assert ids(dataset) == [0, 1, 2, 10, 11, 100, 101]


def test_what_the_version_says(dataset):
    through(dataset, "audited", "ingest")
    found = lance.dataset(dataset)
    said = json.loads(found.read_transaction(found.version).transaction_properties[HELD])
    assert sorted(said.values()) == [1, 2]
    assert "" in said


@pytest.mark.parametrize("reference", [False, True], ids=["copies", "by reference"])
def test_a_branch_whose_files_were_kept_is_not_merged_and_gets_no_tag(dataset, reference):
    location = locate(dataset)
    source = pin_latest(location, "ingest")
    set_aside_branch(location, "ingest")
    with pytest.raises(NotFound, match="'ingest'"):
        merge(location, source, None, MergeOptions(reference=reference), LocalRunner())
    assert lance.dataset(dataset).tags.list() == {}
    assert ids(dataset) == [0, 1, 2]
