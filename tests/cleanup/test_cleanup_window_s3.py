"""On S3 as on a local disk: no cleanup lets a job under way undo what others committed meanwhile."""

import time
from datetime import timedelta

import lance
import pytest
from support.commit_window import JOBS, compact, delete, finish, update
from support.s3_tables import opened, rows, write

from lance_spark.cleanup.cleanup import plan_cleanup
from lance_spark.cleanup.retention_rules import CleanupPolicy
from lance_spark.core.refs import PinnedVersion, RefSpec
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import Conflict
from lance_spark.merge.merge import MergeOptions, merge
from lance_spark.merge.restore import restore
from lance_spark.refs.refs import create_branch
from lance_spark.storage import commits
from lance_spark.storage.datasets import locate

pytestmark = pytest.mark.s3

RUNNER = LocalRunner(4)


@pytest.fixture
def two(table, storage):
    """Version 2 has the rows 0 to 5 in two files, and a branch of it has a row of its own."""
    write(table, storage, [0, 1, 2])
    write(table, storage, [3, 4, 5])
    create_branch(locate(table, storage), "exp", RefSpec(version=2))
    write(table, storage, [50], branch="exp")
    return table


def meanwhile(table, storage, **policy):
    """Others delete row 3 and append, and a cleanup is to keep the newest version alone."""
    opened(table, storage).delete("id = 3")
    write(table, storage, [90])
    policy = CleanupPolicy(retain_versions=1, error_if_tagged_old_versions=False, **policy)
    return plan_cleanup(locate(table, storage), policy, RUNNER, time.time_ns()).apply()


@pytest.mark.when(day=0)
@pytest.mark.parametrize("job", [compact, delete, update], ids=lambda job: job.__name__)
def test_what_pylance_commits_with_the_window_undoes_nothing(two, storage, job):
    under_way = opened(two, storage)
    report = meanwhile(two, storage)
    assert report.versions["main"]["a job under way may need it"] == 2
    finish(job, under_way)
    assert rows(two, storage) == JOBS[job]


@pytest.mark.when(day=0)
def test_without_the_window_it_does(two, storage):
    under_way = opened(two, storage)
    meanwhile(two, storage, commit_window=timedelta(0))
    delete(under_way)
    assert 3 in rows(two, storage)


@pytest.fixture
def overtaken(two, storage, monkeypatch):
    """Just before a commit of ours others commit and clean up, once."""
    left = [two]

    def late(look):
        def looking(*arguments):
            if left:
                meanwhile(left.pop(), storage, commit_window=timedelta(0))
            return look(*arguments)

        return looking

    for name in ("open_newest", "check_nothing_missing"):  # the last look of commits, and that of a restore
        monkeypatch.setattr(commits, name, late(getattr(commits, name)))
    return two


@pytest.mark.when(day=0)
def test_a_merge_begins_again_and_a_restore_is_a_conflict(overtaken, storage):
    location = locate(overtaken, storage)
    merge(location, PinnedVersion("exp", 3), None, MergeOptions(), RUNNER)
    assert rows(overtaken, storage) == [0, 1, 2, 4, 5, 50, 90]


@pytest.mark.when(day=0)
def test_a_restore_is_a_conflict(overtaken, storage):
    with pytest.raises(Conflict, match="was committed while main@1 was being restored"):
        restore(locate(overtaken, storage), PinnedVersion(None, 1), RUNNER)
    assert rows(overtaken, storage) == [0, 1, 2, 4, 5, 90]


@pytest.mark.when(day=0.3)
@pytest.mark.parametrize("scheme", ["newer", "older"])
@pytest.mark.parametrize("branch", [None, "exp"])
def test_a_missing_version_is_seen_whatever_the_names_of_manifests(table, storage, scheme, branch, client, bucket):
    for first in range(0, 48, 4):
        lance.write_dataset(
            opened(table, storage).to_table().slice(0, 1) if first else _ids(first),
            table,
            mode="append" if first else "create",
            storage_options=storage,
            enable_v2_manifest_paths=scheme == "newer",
        )
    location = locate(table, storage)
    if branch is not None:
        create_branch(location, branch, RefSpec(version=2))
        for first in range(10):
            write(table, storage, [first], branch=branch)
    commits.check_nothing_missing(location, PinnedVersion(branch, 3))
    names = {9: (f"{2**64 - 10}.manifest", "9.manifest"), 11: (f"{2**64 - 12}.manifest", "11.manifest")}
    prefix = table.removeprefix(f"s3://{bucket}/") + ("" if branch is None else f"/tree/{branch}")
    for name in names[9]:
        client.delete_object(Bucket=bucket, Key=f"{prefix}/_versions/{name}")
    with pytest.raises(Conflict, match=f"Version 9 of branch '{branch or 'main'}'"):
        commits.check_nothing_missing(location, PinnedVersion(branch, 3))
    commits.check_nothing_missing(location, PinnedVersion(branch, 9))
    commits.check_nothing_missing(location, PinnedVersion(branch, 10))


def _ids(first):
    import pyarrow as pa

    return pa.table({"id": pa.array([first], pa.int64())})
