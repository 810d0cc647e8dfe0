"""A job that takes longer than a cleanup keeps files that no version names: a conflict, never a version without rows.

The version that the job started from is still there: only the files that it wrote are gone.
"""

from datetime import timedelta
from unittest.mock import Mock

import lance
import pyarrow as pa
import pytest
from support.backfills import LocalValues, negated
from support.cleanup_datasets import plan
from support.local_datasets import prepare
from support.row_changes import written

from lance_spark.columns.columns import add_filled_columns, alter_columns, fill_columns_by_groups, update_filled_columns
from lance_spark.columns.fill_rules import BackfillOptions
from lance_spark.core.refs import RefSpec
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import Conflict, PermissionDenied, StorageFailure
from lance_spark.format.evolution import AlterColumn
from lance_spark.indexes.index_rules import IndexRequest
from lance_spark.indexes.indexes import create_index
from lance_spark.merge import merge as merging
from lance_spark.merge import replay_commits
from lance_spark.merge.merge import MergeOptions, merge
from lance_spark.optimize.compaction_rules import OptimizeOptions
from lance_spark.optimize.optimize import optimize
from lance_spark.refs.refs import create_branch
from lance_spark.rows.action_rules import DELETE, INSERT, UPDATE
from lance_spark.rows.rows import delete_where
from lance_spark.rows.rows import finish as finish_rows
from lance_spark.storage import files
from lance_spark.storage.datasets import locate, pin_latest
from lance_spark.tables.write import finish


def some(first, count=10, **more):
    ids = range(first, first + count)
    return pa.table({"id": pa.array(ids, pa.int64()), "y": pa.array(ids, pa.int32()), **more})


def sweep(uri):
    """A cleanup that keeps all versions, and deletes every file that none of them names."""
    assert plan(uri, older_than=timedelta(days=30), delete_unverified=True).apply().complete


class Sweeping(LocalRunner):
    """An engine whose work takes so long that a cleanup comes in between, the first few times."""

    def __init__(self, uri, times=100):
        super().__init__(2)
        self.uri, self.times = uri, times

    def for_work(self, _operation, _work):
        return self

    def collect(self, stage, frame):
        found = super().collect(stage, frame)
        if self.times:
            self.times -= 1
            sweep(self.uri)
        return found


@pytest.fixture
def location(uri, branch):
    for first in (0, 10, 20):
        lance.write_dataset(some(first), uri, mode="append" if first else "create")
    found = locate(uri)
    if branch:
        create_branch(found, branch, RefSpec())
        lance.write_dataset(some(30), found.branch_uri(branch), mode="append")
        lance.write_dataset(some(40), found.branch_uri(branch), mode="append")
    return found


def appending(location, branch, overwrite=False, **options):
    more = {"word": ["a"] * 10} if options else {}
    job, fragments = prepare(
        location.uri, some(100, **more), some(110, **more), overwrite=overwrite, branch=branch or "main", **options
    )
    sweep(location.uri)
    finish(job, fragments)


def changing_rows(location, branch):
    work = written(location, branch, [(UPDATE, {"id": 1, "y": 5}), (DELETE, {"id": 12}), (INSERT, {"id": 60, "y": 6})])
    sweep(location.uri)
    finish_rows(work)


def filling(verb):
    def job(location, branch):
        name = "y" if verb is update_filled_columns else "n"
        values = LocalValues(location, negated(name), **{name: pa.int32()})
        values.meanwhile = lambda: sweep(location.uri)
        verb(location, branch, values, BackfillOptions(incremental=verb is in_groups))

    return job


def in_groups(location, branch, values, options):
    fill_columns_by_groups(location, branch, values, options, LocalRunner(1))


def widening(location, branch):
    alter_columns(location, branch, [AlterColumn(("y",), pa.int64())], Sweeping(location.uri))


def indexing(location, branch):
    create_index(location, branch, IndexRequest("id"), Sweeping(location.uri))


def deleting(location, branch):
    delete_where(location, branch, "id % 10 = 3", Sweeping(location.uri))


JOBS = {
    "append": appending,
    "overwrite": lambda location, branch: appending(location, branch, overwrite=True),
    "rows with a new column": lambda location, branch: appending(location, branch, merge_schema="true"),
    "changed rows": changing_rows,
    "delete": deleting,
    "new column": filling(add_filled_columns),
    "new column by groups": filling(in_groups),
    "other values": filling(update_filled_columns),
    "wider column": widening,
    "index": indexing,
}


def read(location, branch):
    dataset = lance.dataset(location.branch_uri(branch))
    dataset.validate()
    return dataset.to_table().to_pylist()


@pytest.mark.parametrize("job", JOBS.values(), ids=JOBS)
def test_a_job_whose_files_a_cleanup_deleted_is_a_conflict(location, branch, job):
    before, rows = pin_latest(location, branch), [row["id"] for row in read(location, branch)]
    with pytest.raises(Conflict, match=r"that this job wrote .* gone, such as .* Nothing was changed\.") as conflict:
        job(location, branch)
    assert "unverified" in str(conflict.value.hint)
    assert [row["id"] for row in read(location, branch)] == rows
    if job is not JOBS["new column by groups"]:  # whose first version has the column, without values
        assert pin_latest(location, branch) == before


def test_a_compaction_whose_files_a_cleanup_deleted_leaves_the_fragments_as_they_were(location, branch):
    before, rows = pin_latest(location, branch), read(location, branch)
    result = optimize(location, branch, OptimizeOptions(target_rows=100), Sweeping(location.uri))
    assert (result.fragments_removed, len(result.conflicts)) == (0, 1)
    assert (pin_latest(location, branch), read(location, branch)) == (before, rows)


@pytest.fixture
def feature(location, branch):
    """A branch with rows, of one that also has new ones."""
    create_branch(location, "feature", RefSpec(branch=branch))
    lance.write_dataset(some(200), location.branch_uri("feature"), mode="append")
    lance.write_dataset(some(300), location.branch_uri(branch), mode="append")
    return pin_latest(location, "feature")


def test_a_merge_whose_copies_a_cleanup_deleted_is_a_conflict_and_the_next_one_copies_again(
    location, branch, feature, monkeypatch
):
    for module in (merging, replay_commits):
        monkeypatch.setattr(module, "LITTLE_COPY", 0)
    rows, engine = read(location, branch), Sweeping(location.uri, times=1)
    with pytest.raises(Conflict, match=r"1 file that this job wrote .* 1 is gone"):
        merge(location, feature, branch, MergeOptions(), engine)
    assert read(location, branch) == rows
    merge(location, feature, branch, MergeOptions(), engine)
    assert [row["id"] for row in read(location, branch)[-10:]] == [*range(200, 210)]


def test_a_prepared_merge_whose_copies_a_cleanup_deleted_is_a_conflict(location, branch, feature):
    requests, rows = merging.merge_requests(location, feature, branch, MergeOptions()), read(location, branch)
    prepared = merging.prepare(requests, LocalRunner(1))
    sweep(location.uri)
    with pytest.raises(Conflict, match=r"1 file that this job wrote .* 1 is gone"):
        merging.commit_prepared(prepared, LocalRunner(1))
    assert read(location, branch) == rows
    merging.commit_prepared(merging.prepare(requests, LocalRunner(1)), LocalRunner(1))
    assert [row["id"] for row in read(location, branch)[-10:]] == [*range(200, 210)]


@pytest.mark.parametrize("failure", [PermissionDenied, StorageFailure])
def test_a_store_that_does_not_tell_whether_the_files_are_there_is_no_reason_to_give_up(
    location, branch, failure, monkeypatch
):
    job, fragments = prepare(location.uri, some(100), branch=branch or "main")
    monkeypatch.setattr(files, "exists", Mock(side_effect=failure("503 SlowDown")))
    finish(job, fragments)
    assert len(read(location, branch)) == (60 if branch else 40)
