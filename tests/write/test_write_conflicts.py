"""Write jobs that meet another commit, or that fail: what is combined, what is refused, which files stay."""

import shutil

import lance
import pyarrow as pa
import pytest
from support.local_datasets import contents, ids, make_dataset, numbers, prepare, write, written_since
from support.shaped_datasets import PAYLOADS, blobs

from lance_spark.core.refs import RefSpec
from lance_spark.errors import Conflict
from lance_spark.refs.refs import create_branch, delete_branch
from lance_spark.storage.datasets import locate
from lance_spark.tables.write import begin, finish, give_up, plan_write
from lance_spark.write.data_files import write_rows


def change(uri, how):
    dataset = lance.dataset(uri)
    if how == "append":
        lance.write_dataset(numbers(1, 77), uri, mode="append")
    elif how == "overwrite":
        lance.write_dataset(numbers(1, 77), uri, mode="overwrite")
    elif how == "delete":
        dataset.delete("id = 0")
    elif how == "compact":
        dataset.optimize.compact_files()
    else:
        dataset.restore()


@pytest.mark.parametrize(
    ("overwrite", "meanwhile", "left"),
    [
        (False, "append", [0, 1, 2, 77, 10, 11]),
        (False, "delete", [1, 2, 10, 11]),
        (False, "compact", [0, 1, 2, 10, 11]),
        (True, "append", [10, 11]),
        (True, "delete", [10, 11]),
        (False, "overwrite", None),
        (False, "restore", None),
        (True, "overwrite", None),
    ],
)
@pytest.mark.parametrize("branch", [None, "dev"])
def test_a_commit_in_between_is_combined_or_is_a_conflict_that_leaves_no_file(uri, branch, overwrite, meanwhile, left):
    make_dataset(uri)
    where, ref = uri, {}
    if branch:
        create_branch(locate(uri), branch, RefSpec())
        where, ref = f"{uri}/tree/{branch}", {"branch": branch}
    job, fragments = prepare(uri, numbers(1, 10), numbers(1, 11), overwrite=overwrite, **ref)
    mine = {f"data/{path.split('/')[-1]}" for path in contents(where) if path.startswith("data/")}
    change(where, meanwhile)
    before = contents(where)
    if left is not None:
        finish(job, fragments)
        assert ids(uri, **ref) == left
        return
    with pytest.raises(Conflict, match="concurrent commit"):
        finish(job, fragments)
    gone = written_since(before, where)
    assert len(gone) == 2
    assert gone <= mine
    assert lance.dataset(where).to_table()["id"].to_pylist() == ids(uri, **ref)


def test_giving_up_removes_the_jobs_files_and_the_branch_it_made(uri):
    make_dataset(uri)
    before = contents(uri)
    job, fragments = prepare(uri, numbers(1, 10), numbers(1, 11), branch="a/b", create_branch="true")
    assert written_since(before, uri)
    give_up(job, fragments)
    assert contents(uri) == before
    assert write(uri, numbers(1, 12), branch="a/b", create_branch="true") == 2


def test_giving_up_keeps_a_branch_that_was_there_before(uri):
    make_dataset(uri)
    create_branch(locate(uri), "dev", RefSpec())
    before = contents(uri)
    give_up(*prepare(uri, numbers(1, 10), branch="dev"))
    assert contents(uri) == before


def test_giving_up_keeps_a_branch_that_somebody_committed_to_meanwhile(uri):
    make_dataset(uri)
    job, fragments = prepare(uri, numbers(1, 10), branch="dev", create_branch="true")
    lance.write_dataset(numbers(1, 99), f"{uri}/tree/dev", mode="append")
    before = contents(uri)
    give_up(job, fragments)
    assert len(written_since(before, uri)) == 1
    assert ids(uri, branch="dev") == [0, 1, 2, 99]


def test_giving_up_removes_what_blobs_keep_beside_the_data_files(uri):
    blobs(uri, "2.2")
    before = contents(uri)
    table = pa.table({"payload": pa.array(PAYLOADS, pa.binary())})
    job, fragments = prepare(uri, table, table)
    assert any(path.endswith(".blob") for path in written_since(before, uri))
    give_up(job, fragments)
    assert contents(uri) == before


def test_a_stream_that_breaks_half_way_leaves_no_file_of_its_task(uri):
    make_dataset(uri)
    before = contents(uri)
    job = begin(plan_write({"path": uri, "max_rows_per_file": "2"}, numbers(1).schema, overwrite=False))

    def broken():
        yield from numbers(5).to_batches()
        raise RuntimeError("the input broke")

    with pytest.raises(Exception, match="the input broke"):
        write_rows(job, broken())
    assert contents(uri) == before


@pytest.mark.parametrize("late", [False, True])
def test_a_branch_deleted_during_the_job_is_a_conflict_that_leaves_no_file(uri, late):
    make_dataset(uri)
    before = contents(uri)
    create_branch(locate(uri), "dev", RefSpec())
    job, fragments = prepare(uri, numbers(1, 10), branch="dev")
    delete_branch(locate(uri), "dev")
    if late:
        fragments = write_rows(job, numbers(1, 11).to_batches())
    with pytest.raises(Conflict, match="no longer exists"):
        finish(job, fragments)
    assert contents(uri) == before


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_dataset_made_anew_during_the_job_is_a_conflict_and_keeps_its_rows(uri, overwrite):
    make_dataset(uri)
    job, fragments = prepare(uri, numbers(1, 10), overwrite=overwrite)
    shutil.rmtree(uri)
    make_dataset(uri, numbers(2, 70))
    before = contents(uri)
    with pytest.raises(Conflict, match="no longer exists"):
        finish(job, fragments)
    assert contents(uri) == before
    assert ids(uri) == [70, 71]


def test_a_version_cleaned_up_during_the_job_is_a_conflict_that_leaves_no_file(uri):
    make_dataset(uri)
    job, fragments = prepare(uri, numbers(1, 10))
    write(uri, numbers(1, 20))
    lance.dataset(uri).cleanup_old_versions(retain_versions=1)
    with pytest.raises(Conflict, match="no longer exists"):
        finish(job, fragments)
    assert ids(uri) == [0, 1, 2, 20]
    assert len([path for path in contents(uri) if path.startswith("data/")]) == 2
