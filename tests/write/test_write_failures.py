"""A job that fails, or that somebody overtakes, leaves the dataset and its files as they were."""

import os

import lance
import pyarrow as pa
import pytest
from support.frames import all_files, failing, numbers, refused, save

from lance_spark.errors import Conflict, SchemaMismatch

pytestmark = [pytest.mark.spark, pytest.mark.when(oldest=0.15)]


@pytest.fixture
def made(uri):
    lance.write_dataset(pa.table({"id": pa.array([1, 2, 3], pa.int64())}), uri)
    lance.dataset(uri).create_branch("exp", 1)
    return uri


@pytest.mark.parametrize(
    "options",
    [{}, {"branch": "exp"}, {"branch": "new", "create_branch": True}, {"mode": "overwrite"}],
    ids=["main", "branch", "new branch", "overwrite"],
)
def test_a_failed_job_leaves_no_files_no_version_and_no_branch(spark, made, tmp_path, options):
    before = all_files(made)
    with pytest.raises(Exception, match="own fault"):
        save(failing(spark, tmp_path / "marker"), made, **options)
    assert all_files(made) == before
    assert set(lance.dataset(made).branches.list()) == {"exp"}
    save(numbers(spark, 7, 8), made, **options)


def test_a_failed_creation_leaves_no_files(spark, uri, tmp_path):
    with pytest.raises(Exception, match="own fault"):
        save(failing(spark, tmp_path / "marker"), uri)
    assert all_files(uri) == {}
    save(numbers(spark, 0, 3), uri)
    assert lance.dataset(uri).count_rows() == 3


def test_a_value_that_does_not_fit_takes_the_new_branch_with_it(spark, made):
    frame = numbers(spark, 0, 100, 2).selectExpr("if(id = 99, null, id) as id")
    lance.write_dataset(pa.table([[1]], pa.schema([pa.field("id", pa.int64(), False)])), made, mode="overwrite")
    before = all_files(made)
    with refused(SchemaMismatch, "Column 'id' holds a null"):
        save(frame.coalesce(1), made, branch="new", create_branch=True)
    assert all_files(made) == before


def meanwhile(spark, act):
    """Three rows of a job during which ``act`` is done once, by its only task."""

    def during(batches):
        yield from batches
        act()

    return numbers(spark, 50, 53).mapInArrow(during, "id bigint")


def other_appends(uri):
    def act():
        import lance
        import pyarrow as pa

        lance.write_dataset(pa.table({"id": pa.array([77], pa.int64())}), uri, mode="append")

    return act


def other_overwrites(uri):
    def act():
        import lance
        import pyarrow as pa

        lance.write_dataset(pa.table({"other": ["x"]}), uri, mode="overwrite")

    return act


def test_an_append_that_was_overtaken_by_an_append_keeps_both(spark, made):
    save(meanwhile(spark, other_appends(made)), made)
    assert sorted(lance.dataset(made).to_table()["id"].to_pylist()) == [1, 2, 3, 50, 51, 52, 77]
    assert lance.dataset(made).version == 3


def test_an_append_to_what_was_overwritten_meanwhile_is_a_conflict(spark, made):
    with refused(Conflict, "Run it again"):
        save(meanwhile(spark, other_overwrites(made)), made)
    assert lance.dataset(made).to_table().to_pylist() == [{"other": "x"}]
    assert lance.dataset(made).version == 2
    referenced = {file.path for f in lance.dataset(made).get_fragments() for file in f.metadata.files}
    old = {file.path for f in lance.dataset(made, version=1).get_fragments() for file in f.metadata.files}
    assert set(all_files(os.path.join(made, "data"))) == referenced | old


def test_a_conflict_on_a_branch_made_for_the_job_leaves_what_the_other_one_wrote(spark, made):
    with refused(Conflict, "Run it again"):
        act = other_overwrites(f"{made}/tree/new")
        save(meanwhile(spark, act), made, branch="new", create_branch=True)
    assert lance.dataset(made).checkout_version(("new", None)).to_table().to_pylist() == [{"other": "x"}]


def test_of_two_jobs_that_create_a_dataset_one_is_told_that_it_lost(spark, uri):
    def other_creates():
        import lance
        import pyarrow as pa

        lance.write_dataset(pa.table({"id": pa.array([1], pa.int64())}), uri)

    with refused(Conflict, "Another job created the dataset", "Run it again"):
        save(meanwhile(spark, other_creates), uri)
    assert lance.dataset(uri).to_table()["id"].to_pylist() == [1]
    assert len(all_files(os.path.join(uri, "data"))) == 1


def test_a_failed_shuffle_before_the_write_leaves_no_branch(spark, made):
    before = all_files(made)
    shuffled = (
        numbers(spark, 0, 9, 3).selectExpr("if(id > 5, raise_error('own fault'), id) as id").groupBy("id").count()
    )
    with pytest.raises(Exception, match="own fault"):
        save(shuffled.selectExpr("cast(id as bigint) as id"), made, branch="new", create_branch=True)
    assert all_files(made) == before
