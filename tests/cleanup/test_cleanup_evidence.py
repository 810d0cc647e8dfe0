"""Missing evidence stops a run: failed deletions, manifests that vanish, unreadable fork versions, detached versions,
clocks that disagree.
"""

import os
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from support.cleanup_datasets import (
    KEEPING,
    NOW,
    RUNNER,
    UUID,
    age,
    age_all,
    append,
    assert_kept,
    busy,
    candidates,
    clean,
    files,
    manifest,
    now_ns,
    orphans,
    overwrite,
    overwritten,
    plan,
    put,
    reads,
    refused,
    versions,
)
from support.local_datasets import numbers

from lance_spark.cleanup import cleanup
from lance_spark.cleanup.cleanup import plan_cleanup
from lance_spark.cleanup.retention_rules import CleanupPolicy
from lance_spark.errors import CorruptData, StorageFailure
from lance_spark.storage.datasets import locate


def deny(monkeypatch, word):
    """Files whose path has the word cannot be deleted."""
    unlink = os.unlink

    def denying(path, **arguments):
        if word in str(path):
            raise PermissionError(13, "Permission denied", str(path))
        unlink(path, **arguments)

    monkeypatch.setattr(os, "unlink", denying)


@pytest.mark.parametrize("kind", ["data/", "_transactions/", "_deletions/", "_indices/"])
def test_files_that_cannot_be_deleted_are_counted_and_the_next_run_finishes(uri, monkeypatch, kind):
    busy(uri)
    before = reads(uri)
    with monkeypatch.context() as patch:
        deny(patch, kind)
        made = plan(uri, **KEEPING)
        report = made.apply()
    failed = {path for path in candidates(made) if kind in path}
    assert failed
    assert report.count("failed")[0] == len(failed)
    assert report.count("deleted")[0] == len(candidates(made)) - len(failed)
    assert not report.complete
    assert failed <= files(uri)
    assert_kept(uri, before)
    clean(uri, **KEEPING)
    assert not orphans(uri)
    assert not os.listdir(Path(uri, "_cleanup"))


def test_a_version_whose_manifest_cannot_be_deleted_keeps_all_its_files_and_goes_next_time(uri, monkeypatch):
    overwritten(uri, 4)
    before = reads(uri)
    with monkeypatch.context() as patch:
        deny(patch, manifest(uri, 2).name)
        report = plan(uri).apply()
    assert versions(uri) == [2, 4]
    assert_kept(uri, before)
    outcomes = {(row["kind"], row["outcome"]): row["files"] for row in report.outcomes}
    assert outcomes["manifest", "deleted"] == 2
    assert outcomes["manifest", "failed"] == 1
    assert (outcomes["data", "deleted"], outcomes["data", "kept"]) == (2, 1)
    clean(uri)
    assert versions(uri) == [4]
    assert not orphans(uri)


def test_files_that_are_gone_already_are_no_failure(uri):
    overwritten(uri, 3)
    made = plan(uri)
    for path in sorted(candidates(made))[::2]:
        Path(uri, path).unlink()
    report = made.apply()
    assert report.complete
    assert report.count("already gone")[0] == len(sorted(candidates(made))[::2])
    assert not orphans(uri)


def vanish(monkeypatch, *paths):
    """The manifests are listed, but gone when they are read for marking."""
    read = cleanup.read_manifests

    def reading(location, asked):
        for path in paths:
            path.unlink(missing_ok=True)
        return read(location, asked)

    monkeypatch.setattr(cleanup, "read_manifests", reading)


def test_an_old_manifest_that_another_cleanup_took_meanwhile_is_no_obstacle(uri, monkeypatch):
    overwritten(uri, 4)
    before = reads(uri)
    vanish(monkeypatch, manifest(uri, 2))
    clean(uri, retain_versions=1)
    assert versions(uri) == [4]
    assert_kept(uri, before)


def test_an_old_manifest_that_is_gone_before_its_age_was_read_is_no_obstacle(uri, monkeypatch):
    overwritten(uri, 4)
    before = reads(uri)
    vanish(monkeypatch, manifest(uri, 2))
    clean(uri)
    assert versions(uri) == [4]
    assert_kept(uri, before)


def test_a_kept_manifest_that_vanishes_stops_the_run(uri, monkeypatch):
    monkeypatch.setattr("lance_spark.survey.survey._PAUSE", 0)
    overwritten(uri, 4)
    vanish(monkeypatch, manifest(uri, 4))
    with pytest.raises(CorruptData, match=r"was listed and is gone"):
        plan(uri)
    assert len([path for path in files(uri) if path.startswith("data/")]) == 4


@pytest.mark.parametrize("branch", [None, "dev", "dev/deep"])
def test_a_manifest_that_cannot_be_read_for_now_stops_the_run(uri, monkeypatch, branch):
    busy(uri)
    read = cleanup.read_manifests
    unreadable = f"tree/{branch}/_versions" if branch else "_versions"

    def reading(location, paths):
        if any(path.startswith(unreadable) for path in paths):
            raise StorageFailure("The store does not answer.")
        return read(location, paths)

    monkeypatch.setattr(cleanup, "read_manifests", reading)
    refused(uri, StorageFailure)


def test_the_version_a_branch_was_made_from_stops_the_run_when_it_cannot_be_read(uri):
    busy(uri)
    manifest(uri, 3).write_bytes(b"broken")
    refused(uri, CorruptData, manifest(uri, 3).name)


def detached(uri, read_version, start):
    """A version that no branch lists."""
    fragments = lance.fragment.write_fragments(numbers(2, start), uri)
    operation = lance.LanceOperation.Append(fragments)
    return lance.LanceDataset.commit(uri, operation, read_version=read_version, detached=True)


def test_detached_versions_keep_their_files_however_old_they_are(uri):
    overwritten(uri, 2)
    early, late = detached(uri, 1, 500), detached(uri, 2, 600)
    expected = [version.to_table().to_pylist() for version in (early, late)]
    overwrite(uri, 700)
    age_all(uri, 100)
    report = clean(uri, older_than=NOW, delete_unverified=True)
    assert versions(uri) == [3]
    opened = [lance.dataset(uri).checkout_version(version.version) for version in (early, late)]
    assert [version.to_table().to_pylist() for version in opened] == expected
    assert report.versions["main"]["detached"] == 2


def test_detached_versions_of_a_branch_keep_its_parents_files(uri):
    overwritten(uri, 1)
    lance.dataset(uri).create_branch("dev")
    branch = f"{uri}/tree/dev"
    version = detached(branch, 1, 500)
    expected = version.to_table().to_pylist()
    overwrite(branch, 600)
    overwrite(uri, 700)
    age_all(uri, 100)
    clean(uri, older_than=NOW, delete_unverified=True, keep_fork_versions=False)
    assert (versions(uri), versions(branch)) == ([2], [2])
    assert lance.dataset(branch).checkout_version(version.version).to_table().to_pylist() == expected


def test_files_from_the_future_stay_until_their_time_has_come(uri):
    overwritten(uri, 3)
    ahead = put(uri, "data/ahead.lance", -2)
    data = next(path for path in candidates(plan(uri)) if path.startswith("data/"))
    age(Path(uri, data), -2)
    age(manifest(uri, 1), -2)
    before = reads(uri)
    clean(uri, older_than=NOW, delete_unverified=True)
    assert ahead.exists()
    assert Path(uri, data).exists()
    assert_kept(uri, before)


def test_a_version_whose_file_is_ahead_of_the_clock_stays_readable(uri):
    overwritten(uri, 3)
    age(manifest(uri, 1), -2)
    before = reads(uri)
    clean(uri)
    assert_kept(uri, before)


def test_a_stores_clock_that_is_behind_by_less_than_an_hour_lets_no_young_version_go(uri):
    overwritten(uri, 3)
    age_all(uri, 14 + 0.9 / 24)
    assert plan(uri, older_than=timedelta(days=14)).facts.verdicts[0].removed == ()


@pytest.mark.parametrize("days", [-30, -1, 1, 30])
def test_no_skew_of_file_times_breaks_a_kept_version(uri, days):
    busy(uri)
    before = reads(uri)
    age_all(uri, days)
    clean(uri, **KEEPING)
    assert_kept(uri, before)
    clean(uri, **KEEPING, delete_unverified=True)
    assert_kept(uri, before)


def test_a_file_whose_time_is_not_known_stays(uri):
    overwritten(uri, 3)
    put(uri, "data/orphan.lance", 100)
    paths = sorted(files(uri))
    inventory = pa.table(
        {
            "path": paths,
            "size": pa.array([1] * len(paths), pa.int64()),
            "last_modified": pa.array(
                [None if path.startswith("data/") else datetime.now(timezone.utc) - timedelta(1) for path in paths],
                pa.timestamp("us", "UTC"),
            ),
        }
    )
    policy = CleanupPolicy(older_than=NOW, commit_window=NOW, delete_unverified=True)
    made = plan_cleanup(locate(uri), policy, RUNNER, now_ns(), inventory=inventory)
    assert not [path for path in candidates(made) if path.startswith("data/")]
    assert len(candidates(made)) == 4


def listing_of(uri):
    """An inventory of a dataset as it is now."""
    paths = sorted(files(uri))
    times = [datetime.fromtimestamp(Path(uri, path).stat().st_mtime, timezone.utc) for path in paths]
    sizes = [Path(uri, path).stat().st_size for path in paths]
    return pa.table({"path": paths, "size": sizes, "last_modified": pa.array(times, pa.timestamp("us", "UTC"))})


def test_a_dry_run_on_an_inventory_names_the_manifests_that_are_younger_than_the_inventory(uri):
    overwritten(uri, 3)
    inventory = listing_of(uri)
    overwrite(uri, 80)
    overwrite(uri, 90)
    policy = CleanupPolicy(older_than=NOW, commit_window=NOW)
    made = plan_cleanup(locate(uri), policy, RUNNER, now_ns(), inventory)
    there, announced = files(uri), candidates(made)
    report = made.apply()
    assert there - files(uri) == announced
    assert report.versions["main"]["removed"] == len([path for path in announced if path.endswith(".manifest")]) == 4
    assert versions(uri) == [5]


def test_a_version_whose_manifest_is_from_after_the_beginning_stays_and_is_told_so(uri):
    overwritten(uri, 3)
    before = reads(uri)
    age(manifest(uri, 2), -1)
    made = plan(uri, retain_versions=1)
    there, announced = files(uri), candidates(made)
    report = made.apply()
    assert there - files(uri) == announced
    assert report.versions["main"] == {"removed": 1, "latest": 1, "by the policy": 1}
    assert versions(uri) == [2, 3]
    assert_kept(uri, before)


def test_what_was_modified_after_the_mark_began_stays(uri, monkeypatch):
    overwritten(uri, 3)
    listing = cleanup.list_range

    def late(location, part):
        time.sleep(0.02)
        put(uri, "data/late.lance")
        put(uri, f"_indices/{UUID}/late.lance")
        return listing(location, part)

    monkeypatch.setattr(cleanup, "list_range", late)
    made = plan(uri, older_than=NOW, delete_unverified=True)
    assert not [path for path in candidates(made) if "late" in path]
    changed = [row for row in made.facts.sums.to_pylist() if row["reason"] == "changed after the mark began"]
    assert sum(row["files"] for row in changed) == 2
    append(uri, 90)
    made.apply()
    assert Path(uri, "data/late.lance").exists()
