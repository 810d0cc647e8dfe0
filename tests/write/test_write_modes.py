"""Appending and overwriting main and branches: one job is one version, or none."""

import os

import lance
import pyarrow as pa
import pytest
from support.frames import all_files, ids, load, numbers, refused, save

from lance_spark.errors import AlreadyExists, InvalidOption, NotFound, Refused

pytestmark = [pytest.mark.spark, pytest.mark.when(oldest=0.25, newest=0.6)]


@pytest.fixture
def made(uri):
    """main has 0 to 4 in version 1 and 5 to 9 in version 2; tag ``one`` is at 1; branch ``exp/a`` is at 2."""
    lance.write_dataset(batch(0, 5), uri)
    dataset = lance.write_dataset(batch(5, 10), uri, mode="append")
    dataset.tags.create("one", 1)
    dataset.create_branch("exp/a", 2)
    return uri


def batch(first, last):
    return pa.table({"id": pa.array(range(first, last), pa.int64())})


def found(uri, branch=None, version=None):
    dataset = lance.dataset(uri).checkout_version((branch, version))
    return sorted(dataset.to_table(columns=["id"])["id"].to_pylist())


@pytest.mark.parametrize("partitions", [1, 7])
def test_one_job_is_one_version_whatever_the_number_of_tasks(spark, uri, partitions):
    save(numbers(spark, 0, 100, partitions), uri)
    assert (lance.dataset(uri).version, found(uri)) == (1, list(range(100)))
    save(numbers(spark, 100, 150, partitions), uri)
    assert (lance.dataset(uri).version, found(uri)) == (2, list(range(150)))
    save(numbers(spark, 7, 9, partitions), uri, mode="overwrite")
    assert (lance.dataset(uri).version, found(uri)) == (3, [7, 8])
    assert found(uri, version=2) == list(range(150))


def test_overwriting_may_change_the_columns(spark, made):
    save(numbers(spark, 0, 2).selectExpr("cast(id as string) as id", "true as flag"), made, mode="overwrite")
    assert lance.dataset(made).to_table().to_pylist() == [{"id": "0", "flag": True}, {"id": "1", "flag": True}]
    assert found(made, version=2) == list(range(10))


def test_overwriting_nothing_creates_the_dataset(spark, uri):
    save(numbers(spark, 0, 3), uri, mode="overwrite")
    assert (lance.dataset(uri).version, found(uri)) == (1, [0, 1, 2])


@pytest.mark.parametrize(("mode", "expected"), [("append", [*range(10), 50]), ("overwrite", [50])])
def test_writing_to_a_branch_touches_nothing_else(spark, made, mode, expected):
    before = all_files(made)
    save(numbers(spark, 50, 51), made, mode=mode, branch="exp/a")
    assert found(made, "exp/a") == expected
    assert found(made) == list(range(10))
    new = all_files(made)
    assert {path: size for path, size in new.items() if path in before} == before
    assert all(path.startswith("tree/exp/a/") for path in set(new) - set(before))
    assert lance.dataset(made).version == 2


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({}, range(10)),
        ({"from_branch": "main"}, range(10)),
        ({"from_version": 1}, range(5)),
        ({"from_tag": "one"}, range(5)),
        ({"from_branch": "exp/a"}, [*range(10), 20]),
        ({"from_branch": "exp/a", "from_version": 2}, range(10)),
    ],
    ids=str,
)
def test_create_branch_starts_where_it_is_told(spark, made, source, expected):
    lance.write_dataset(batch(20, 21), f"{made}/tree/exp/a", mode="append")
    before = all_files(made)
    save(numbers(spark, 70, 72), made, branch="new", create_branch=True, **source)
    assert found(made, "new") == [*expected, 70, 71]
    assert found(made) == list(range(10))
    new = set(all_files(made)) - set(before)
    assert all(path.startswith("tree/new/") or path == "_refs/branches/new.json" for path in new)
    assert lance.dataset(made).branches.list()["new"]["parent_version"] == (
        1 if 9 not in expected else lance_head(made, source)
    )


def lance_head(uri, source):
    branch = source.get("from_branch")
    return source.get("from_version") or lance.dataset(uri).checkout_version((branch, None)).version


def test_create_branch_can_overwrite_what_it_starts_from(spark, made):
    save(numbers(spark, 1, 3), made, mode="overwrite", branch="new", create_branch=True)
    assert (found(made, "new"), found(made)) == ([1, 2], list(range(10)))


def test_an_empty_data_frame_creates_an_empty_dataset(spark, uri):
    frame = spark.createDataFrame([], "id bigint not null, v array<float>, s struct<x:int>")
    save(frame, uri)
    dataset = lance.dataset(uri)
    assert (dataset.version, dataset.count_rows()) == (1, 0)
    assert load(spark, uri).schema == frame.schema
    save(spark.createDataFrame([(1, [1.5], (2,))], frame.schema), uri)
    assert load(spark, uri).collect() == [(1, [1.5], (2,))]


def test_appending_nothing_makes_no_version(spark, made):
    before = all_files(made)
    save(numbers(spark, 0, 0), made)
    save(numbers(spark, 0, 9).where("id < 0"), made, branch="exp/a")
    assert all_files(made) == before


def test_overwriting_with_nothing_empties_the_branch(spark, made):
    save(numbers(spark, 0, 0), made, mode="overwrite", branch="exp/a")
    assert (found(made, "exp/a"), found(made)) == ([], list(range(10)))


@pytest.mark.parametrize("mode", ["errorifexists", "ignore"])
def test_spark_itself_refuses_the_other_save_modes(spark, uri, mode):
    with pytest.raises(Exception, match=r"UNSUPPORTED_DATA_SOURCE_SAVE_MODE|SaveMode|save mode"):
        save(numbers(spark, 0, 1), uri, mode=mode)
    assert not os.path.exists(uri)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"tag": "one"}, Refused, ("a tag", "create_branch")),
        ({"version": 1}, Refused, ("a version", "create_branch")),
        ({"timestampAsOf": "2020-01-01"}, Refused, ("a past moment",)),
        ({"branch": "exp/b"}, NotFound, ("'exp/b'", "'exp/a'", "create_branch")),
        ({"branch": "exp/a", "create_branch": True}, AlreadyExists, ("'exp/a'", "create_branch")),
        ({"branch": "new", "create_branch": True, "from_branch": "nope"}, NotFound, ("'nope'", "exp/a")),
        ({"branch": "new", "create_branch": True, "from_tag": "on"}, NotFound, ("'on'", "'one'")),
        ({"branch": "new", "create_branch": True, "from_version": 9}, NotFound, ("9", "Nearest versions: 1, 2")),
        ({"branch": "new", "from_version": 1}, InvalidOption, ("from_version", "create_branch")),
        ({"create_branch": True}, InvalidOption, ("option('branch', 'name')",)),
    ],
    ids=str,
)
def test_a_write_to_a_wrong_place_is_refused_and_changes_nothing(spark, made, options, error, words):
    before = all_files(made)
    with refused(error, *words):
        save(numbers(spark, 0, 1), made, **options)
    assert all_files(made) == before


def test_create_branch_on_no_dataset_is_refused(spark, uri):
    with refused(NotFound, "no Lance dataset"):
        save(numbers(spark, 0, 1), uri, branch="new", create_branch=True)
    assert not os.path.exists(uri)


def test_a_branch_written_by_spark_reads_back_through_spark(spark, made):
    save(numbers(spark, 50, 52), made, branch="exp/a/deep", create_branch=True, from_branch="exp/a")
    assert ids(load(spark, made, branch="exp/a/deep")) == [*range(10), 50, 51]
