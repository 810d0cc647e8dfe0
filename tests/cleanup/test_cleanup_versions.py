"""Which versions go, by age, number, list and tag, on branches with names of every kind; and the files only they named.

These have no test on local datasets, for a reason:

- overlays as pylance reads them: pylance 14.0.2 neither writes nor opens versions with overlays; that they are
  named is tested on bytes in tests/format/test_format_manifest_decode.py.
- each branch's own automatic cleanup: nothing cascades here, all branches are marked together; rules for branches
  are the policy's.
- row maps below ``_fri``: pylance 14.0.2 writes none. The directory is of unknown kind here, and never deleted.
- records of an external manifest store: datasets with one are not opened by their path.
- managed blobs: objects below ``_blobs`` are of unknown kind and never deleted.
- automatic cleanup is pylance's own; the table's methods that turn it on have tests of their own.
- memory for 10,000 versions is measured by the benchmark; a throttling store is in test_cleanup_s3.py.
- restoring from quarantine: deletion is for good, a quarantine is not offered.
"""

import os
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow.compute as pc
import pytest
from support.cleanup_datasets import (
    BLOB_DIGITS,
    NOW,
    UUID,
    age_all,
    append,
    assert_kept,
    bytes_of,
    candidates,
    clean,
    files,
    let_pass,
    manifest,
    named,
    orphans,
    overwrite,
    overwritten,
    plan,
    put,
    reads,
    versions,
    watch_manifests,
)
from support.local_datasets import make_dataset, numbers

from lance_spark.cleanup.retention_rules import CleanupPolicy, VersionRule
from lance_spark.core.refs import RefSpec
from lance_spark.errors import InvalidOption, Refused
from lance_spark.refs.refs import create_branch
from lance_spark.storage.datasets import locate


def kinds(paths):
    return sorted(path.split("/")[-2] for path in paths)


def test_overwritten_versions_go_with_all_their_files_and_the_report_counts_every_byte(uri):
    overwritten(uri, 3)
    before, size = reads(uri), bytes_of(uri)
    report = clean(uri)
    assert versions(uri) == [3]
    assert_kept(uri, before)
    assert report.count("deleted") == (6, size - bytes_of(uri))
    assert {(row["kind"], row["files"]) for row in report.outcomes} == {
        ("manifest", 2),
        ("data", 2),
        ("transaction", 2),
    }
    assert report.versions == {"main": {"removed": 2, "latest": 1}}
    assert kinds(files(uri)) == ["_transactions", "_versions", "_versions", "data"]


def test_appended_versions_go_without_the_data_that_the_latest_still_has(uri):
    make_dataset(uri, *(numbers(2, 10 * number) for number in range(4)))
    before = reads(uri)
    report = clean(uri)
    assert {row["kind"] for row in report.outcomes} == {"manifest", "transaction"}
    assert versions(uri) == [4]
    assert_kept(uri, before)


def test_files_of_a_removed_version_go_at_once_however_young_they_are(uri):
    overwritten(uri, 2)
    made = plan(uri)
    assert {row["reason"] for row in made.candidates().to_pylist()} == {"old version", "only removed versions name it"}
    assert made.candidates()["verified"].to_pylist() == [True] * 3
    clean(uri)
    assert not orphans(uri)


ORPHANS = {
    "data": "data/orphan.lance",
    "nested data": "data/a/b/orphan.lance",
    "blob": f"data/orphan/{BLOB_DIGITS}.blob",
    "deletion": "_deletions/0-1-5.arrow",
    "transaction": "_transactions/7-orphan.txn",
    "index": f"_indices/{UUID}/page_data.lance",
    "staging": "data/.tmp123",
    "staged manifest": f"_versions/7.manifest-{UUID}",
}


@pytest.mark.parametrize("path", ORPHANS.values(), ids=ORPHANS)
@pytest.mark.parametrize(
    ("days", "policy", "goes"),
    [
        (6, {}, False),
        (8, {}, True),
        (0, {"delete_unverified": True}, True),
        (6, {"unverified_age": timedelta(days=5)}, True),
        (8, {"unverified_age": timedelta(days=9)}, False),
        (8, {"older_than": timedelta(days=100)}, True),
    ],
)
def test_a_file_that_no_version_names_goes_after_seven_days_or_when_asked(uri, path, days, policy, goes):
    make_dataset(uri)
    file = put(uri, path, days)
    made = plan(uri, **{"older_than": NOW, **policy})
    assert candidates(made) == ({path} if goes else set())
    clean(uri, **{"older_than": NOW, **policy})
    assert file.exists() != goes


def test_a_write_in_progress_survives_and_can_be_committed(uri):
    make_dataset(uri)
    fragments = lance.fragment.write_fragments(numbers(2, 50), uri)
    clean(uri)
    lance.LanceDataset.commit(uri, lance.LanceOperation.Append(fragments), read_version=1)
    assert lance.dataset(uri).to_table()["id"].to_pylist() == [0, 1, 2, 50, 51]


def test_a_tag_on_an_old_version_stops_the_run_or_keeps_the_version_until_the_tag_is_gone(uri):
    overwritten(uri, 4)
    lance.dataset(uri).tags.create("release", 2)
    lance.dataset(uri).tags.create("head", 4)
    before, there = reads(uri), files(uri)
    with pytest.raises(Refused, match=r"1 tagged version matches the cleanup policy: 'release' \(main@2\)"):
        plan(uri)
    assert files(uri) == there

    clean(uri, older_than=NOW, error_if_tagged_old_versions=False)
    assert versions(uri) == [2, 4]
    assert_kept(uri, before)
    assert not orphans(uri)

    lance.dataset(uri).tags.delete("release")
    clean(uri)
    assert versions(uri) == [4]
    assert not orphans(uri)


def test_rules_for_tags_say_by_name_which_versions_stay_and_which_stop_the_run(uri):
    overwritten(uri, 4)
    lance.dataset(uri).tags.create("keep-1", 1)
    lance.dataset(uri).tags.create("other", 2)
    with pytest.raises(Refused, match=r"1 tagged version .*'other'"):
        plan(uri, older_than=NOW, tags={"keep-*": "keep"})
    with pytest.raises(Refused, match=r"1 tagged version .*'keep-1'"):
        plan(uri, older_than=NOW, tags={"keep-*": "error"}, error_if_tagged_old_versions=False)
    clean(uri, older_than=NOW, tags={"keep-*": "keep", "*": "keep"})
    assert versions(uri) == [1, 2, 4]


def test_a_tag_made_through_the_name_main_protects_a_version_of_main(uri):
    overwritten(uri, 3)
    create_branch(locate(uri), "dev", RefSpec())
    lance.dataset(uri).tags.create("alias", ("main", 1))
    before = reads(uri)
    clean(uri, older_than=NOW, error_if_tagged_old_versions=False)
    assert versions(uri) == [1, 3]
    assert_kept(uri, before)


def test_data_of_a_removed_version_goes_although_a_tag_keeps_an_older_version(uri):
    overwritten(uri, 3)
    lance.dataset(uri).tags.create("first", 1)
    clean(uri, older_than=NOW, error_if_tagged_old_versions=False)
    assert versions(uri) == [1, 3]
    assert len([path for path in files(uri) if path.startswith("data/")]) == 2
    assert not orphans(uri)


def test_superseded_deletion_files_go_and_the_current_ones_stay(uri):
    make_dataset(uri, numbers(9), numbers(9, 10))
    for number in (1, 2, 11):
        lance.dataset(uri).delete(f"id = {number}")
    before = reads(uri)
    report = clean(uri)
    assert [row["files"] for row in report.outcomes if row["kind"] == "deletion"] == [1]
    assert len([path for path in files(uri) if path.startswith("_deletions/")]) == 2
    assert_kept(uri, before)
    assert not orphans(uri)


@pytest.mark.parametrize(("retain", "left"), [(1, [5]), (3, [3, 4, 5]), (5, [1, 2, 3, 4, 5]), (9, [1, 2, 3, 4, 5])])
def test_so_many_of_the_newest_versions_stay(uri, retain, left):
    overwritten(uri, 5)
    before = reads(uri)
    clean(uri, retain_versions=retain)
    assert versions(uri) == left
    assert_kept(uri, before)
    assert not orphans(uri)


def test_retaining_no_version_is_refused():
    with pytest.raises(InvalidOption, match="retain_versions must be 1 or more"):
        CleanupPolicy(retain_versions=0)


def test_no_removed_manifest_is_read_to_find_out_which_versions_go_by_count(uri, monkeypatch):
    overwritten(uri, 6)
    age_all(uri, 30)
    read = watch_manifests(monkeypatch)
    assert plan(uri, retain_versions=2).facts.verdicts[0].removed == (0, 1, 2, 3)
    assert read.versions() == {5, 6}


def test_by_default_no_removed_manifest_of_an_old_dataset_is_read_at_all(uri, monkeypatch):
    overwritten(uri, 6)
    create_branch(locate(uri), "exp/a", RefSpec(version=4))
    age_all(uri, 30)
    read = watch_manifests(monkeypatch)
    made = plan(uri, delete_unverified=False)
    assert made.facts.verdicts[0].removed == (0, 1, 2, 4)
    assert read.versions() == {4, 6}
    assert made.report().to_delete[0] == 4 + len(made.candidates().filter(pc.field("kind") != "manifest"))


def test_a_version_goes_only_if_count_and_age_and_number_all_agree(uri, monkeypatch):
    overwritten(uri, 6)
    clean(uri, retain_versions=2, older_than=timedelta(days=1))
    assert versions(uri) == [1, 2, 3, 4, 5, 6]
    let_pass(monkeypatch, 2)
    clean(uri, retain_versions=4, older_than=timedelta(days=1), before_version=2)
    assert versions(uri) == [2, 3, 4, 5, 6]
    clean(uri, retain_versions=4, older_than=timedelta(days=1), before_version=6)
    assert versions(uri) == [3, 4, 5, 6]


def test_the_age_of_a_version_is_the_time_in_its_manifest_not_that_of_a_file_copied_later(uri, monkeypatch):
    overwritten(uri, 3)
    let_pass(monkeypatch, 15)
    age_all(uri, -14)  # as if copied a day ago
    assert plan(uri, older_than=timedelta(days=14)).facts.verdicts[0].removed == (0, 1)
    assert plan(uri, older_than=timedelta(days=16)).facts.verdicts[0].removed == ()


def test_versions_older_than_two_weeks_go_when_nothing_else_is_said(uri, monkeypatch):
    overwritten(uri, 3)
    for days, removed in ((13, ()), (15, (0, 1))):
        let_pass(monkeypatch, days)
        assert plan(uri, delete_unverified=False).facts.verdicts[0].removed == removed


def test_exact_versions_go_and_leave_holes_and_the_latest_and_unknown_numbers_are_ignored(uri):
    overwritten(uri, 6)
    before = reads(uri)
    clean(uri, versions={2})
    assert versions(uri) == [1, 3, 4, 5, 6]
    clean(uri, versions={4, 5, 6, 77})
    assert versions(uri) == [1, 3, 6]
    assert_kept(uri, before)
    assert not orphans(uri)
    append(uri, 500)
    assert versions(uri) == [1, 3, 6, 7]
    with pytest.raises(InvalidOption, match="versions is empty"):
        CleanupPolicy(versions=frozenset())


def test_exact_versions_are_those_of_main_and_no_branch_loses_a_version_of_that_number(uri):
    overwritten(uri, 2)
    lance.dataset(uri).create_branch("dev")
    overwrite(uri, 100, branch="dev")
    overwrite(uri, 200, branch="dev")
    overwrite(uri, 30)
    overwrite(uri, 40)
    clean(uri, versions={3})
    assert (versions(uri), versions(uri, "dev")) == ([1, 2, 4], [2, 3, 4])
    clean(uri, versions={1}, branches={"d*": VersionRule(versions=frozenset({3}))})
    assert (versions(uri), versions(uri, "dev")) == ([2, 4], [2, 4])


NAMES = ("a", "a/b", "a/b/c", "ab", "ü/ñ", "a.b", "data")


def test_branches_with_nested_and_foreign_names_and_equal_numbers_keep_what_their_tags_say(uri):
    overwritten(uri, 2)
    for name in NAMES:
        create_branch(locate(uri), name, RefSpec())
        overwrite(uri, 100, branch=name)
        overwrite(uri, 200, branch=name)
        overwrite(uri, 300, branch=name)
    overwrite(uri, 30)
    overwrite(uri, 40)
    lance.dataset(uri).tags.create("third", ("a/b", 3))
    before = reads(uri)
    with pytest.raises(Refused, match=r"1 tagged version matches the cleanup policy: 'third' \(a/b@3\)"):
        plan(uri)
    clean(uri, older_than=NOW, error_if_tagged_old_versions=False)
    assert_kept(uri, before)
    assert versions(uri) == [2, 4]  # 2 is where the branches were made
    assert {name: versions(uri, name) for name in NAMES} == {name: [3, 5] if name == "a/b" else [5] for name in NAMES}
    assert not orphans(uri)
    assert not plan(uri, older_than=NOW, error_if_tagged_old_versions=False).candidates().num_rows


def test_the_version_hint_and_the_order_of_numbers_stay_as_they_were(uri):
    overwritten(uri, 4)
    hint = Path(uri, "_versions/latest_version_hint.json").read_bytes()
    clean(uri)
    assert Path(uri, "_versions/latest_version_hint.json").read_bytes() == hint
    assert lance.dataset(uri).latest_version == 4
    append(uri, 9)
    assert lance.dataset(uri).latest_version == 5


def test_a_second_run_finds_nothing_to_do(uri):
    overwritten(uri, 4)
    clean(uri)
    there = {path: os.stat(Path(uri, path)).st_mtime_ns for path in files(uri)}
    report = clean(uri)
    assert (report.count("deleted"), report.to_delete) == ((0, 0), (0, 0))
    assert {path: os.stat(Path(uri, path)).st_mtime_ns for path in files(uri)} == there
    assert manifest(uri, 4).exists()
    assert named(uri) <= files(uri)
