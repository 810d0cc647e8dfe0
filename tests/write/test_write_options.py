"""Every option of a write, seen in the dataset through pylance."""

import lance
import pyarrow as pa
import pytest
from support.frames import numbers, refused, save

from lance_spark.errors import InvalidOption, Refused

pytestmark = [pytest.mark.spark, pytest.mark.when(spark="newest")]


def fragment_rows(uri):
    return [fragment.count_rows() for fragment in lance.dataset(uri).get_fragments()]


def test_max_rows_per_file(spark, uri):
    save(numbers(spark, 0, 100, 2), uri, max_rows_per_file=20)
    assert sorted(fragment_rows(uri)) == [10, 10, 20, 20, 20, 20]
    save(numbers(spark, 0, 100, 1), uri)
    assert fragment_rows(uri)[-1] == 100


def test_max_bytes_per_file(spark, uri):
    kilobytes = numbers(spark, 0, 12_000).selectExpr("id", "unhex(repeat(sha2(string(id), 512), 16)) as kilobyte")
    save(kilobytes, uri, max_bytes_per_file="1m")
    # pylance looks at the size after each batch, and Spark's batches have 10,000 rows
    assert fragment_rows(uri) == [10_000, 2_000]


@pytest.mark.when(day=0.3)
@pytest.mark.parametrize("empty", [False, True], ids=["rows", "no rows"])
@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_data_storage_version(spark, uri, version, empty):
    save(numbers(spark, 0, 0 if empty else 10), uri, data_storage_version=version)
    assert lance.dataset(uri).data_storage_version == version
    save(numbers(spark, 0, 10), uri)
    assert {file.file_major_version * 10 + file.file_minor_version for file in data_files(uri)} <= {
        int(version.replace(".", "")),
        3 if version == "2.0" else -1,
    }
    assert lance.dataset(uri).data_storage_version == version


def data_files(uri):
    return [file for fragment in lance.dataset(uri).get_fragments() for file in fragment.metadata.files]


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_another_data_storage_version_for_an_existing_dataset_is_refused(spark, uri, mode):
    lance.write_dataset(pa.table({"id": [1]}), uri, data_storage_version="2.0")
    with refused(Refused, "2.0", "2.1", "data_storage_version"):
        save(numbers(spark, 0, 1), uri, mode=mode, data_storage_version="2.1")
    save(numbers(spark, 0, 1), uri, mode=mode, data_storage_version="2.0")
    assert lance.dataset(uri).version == 2


@pytest.mark.when(day=0.3)
@pytest.mark.parametrize("empty", [False, True], ids=["rows", "no rows"])
@pytest.mark.parametrize("stable", [True, False])
def test_enable_stable_row_ids(spark, uri, stable, empty):
    save(numbers(spark, 0, 0 if empty else 4), uri, enable_stable_row_ids=stable)
    assert lance.dataset(uri).has_stable_row_ids is stable
    save(numbers(spark, 4, 8), uri)
    save(numbers(spark, 8, 9), uri, mode="overwrite")
    assert lance.dataset(uri).has_stable_row_ids is stable
    with refused(Refused, "stable row ids"):
        save(numbers(spark, 0, 1), uri, enable_stable_row_ids=not stable)


def test_stable_row_ids_hold_on_a_branch(spark, uri):
    save(numbers(spark, 0, 4), uri, enable_stable_row_ids=True)
    save(numbers(spark, 4, 8, 2), uri, branch="exp", create_branch=True)
    branch = lance.dataset(uri).checkout_version(("exp", None))
    assert branch.has_stable_row_ids
    table = branch.to_table(with_row_id=True)
    assert table["_rowid"].to_pylist() == list(range(8))


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_commit_message_is_kept_with_the_transaction(spark, uri, mode):
    lance.write_dataset(pa.table({"id": [1]}), uri).create_branch("exp", 1)
    save(numbers(spark, 0, 1), uri, mode=mode, branch="exp", commit_message="nightly load, 'really'")
    branch = lance.dataset(uri).checkout_version(("exp", None))
    properties = branch.read_transaction(branch.version).transaction_properties
    assert "nightly load, 'really'" in properties.values()


@pytest.mark.when(night={"words": [("max_bytes_per_file", "128MiB"), ("enable_stable_row_ids", "true or false")]})
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_rows_per_file": 0}, ("max_rows_per_file", "at least 1")),
        ({"max_bytes_per_file": "big"}, ("max_bytes_per_file", "128MiB")),
        ({"enable_stable_row_ids": "maybe"}, ("enable_stable_row_ids", "true or false")),
        ({"data_storage_version": "7.3"}, ("7.3",)),
        ({"max_row_per_file": 5}, ("max_row_per_file", "max_rows_per_file")),
    ],
    ids=str,
)
def test_a_bad_value_is_refused_before_anything_is_written(spark, tmp_path, uri, options, words):
    with refused(InvalidOption, *words):
        save(numbers(spark, 0, 1), uri, **options)
    assert list(tmp_path.iterdir()) == []
