"""What Spark asks of the sink, call by call: batches that are aborted, what a commit reads, what a cleanup keeps."""

from datetime import timedelta

import lance
import pytest
from pyspark.sql.types import LongType, StructField, StructType
from support.cleanup_datasets import clean
from support.local_datasets import contents, numbers
from support.stream_queries import Query

from lance_spark.errors import StorageFailure
from lance_spark.streams import query_records
from lance_spark.streams.spark import LanceStreamWriter
from lance_spark.write import data_files as write_commit

SCHEMA = StructType([StructField("id", LongType())])


@pytest.fixture
def query(uri, tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")
    return Query(uri, tmp_path / "c")


def ids(uri):
    return sorted(lance.dataset(uri).to_table()["id"].to_pylist())


def planned(query, *tasks):
    """What the tasks of a batch told the driver. Spark commits and aborts with another writer than the tasks had."""
    writers = [LanceStreamWriter(query.options, SCHEMA, False) for _ in range(2)]
    return writers[1], [writers[0].write(iter(rows.to_batches())) for rows in tasks]


@pytest.mark.parametrize("arrived", [True, False])
def test_after_a_failed_commit_nothing_is_deleted(query, uri, monkeypatch, arrived):
    """Spark calls abort with all messages then. The commit may be there, although the driver heard of an error."""
    query.batch(0)
    writer, messages = planned(query, numbers(10, 10), numbers(10, 20))
    before = {name for name in contents(uri) if name.startswith("data/")}
    real = write_commit.commit_checked

    def unheard(job, fragments):
        if arrived:
            real(job, fragments)
        raise StorageFailure("The store did not answer.")

    with monkeypatch.context() as patch:
        patch.setattr(write_commit, "commit_checked", unheard)
        with pytest.raises(StorageFailure):
            writer.commit(messages, 1)
    writer.abort(messages, 1)
    assert {name for name in contents(uri) if name.startswith("data/")} == before
    assert ids(uri) == list(range(30 if arrived else 10))
    query.batch(1, numbers(10, 10), numbers(10, 20))
    assert ids(uri) == list(range(30))


def test_after_a_failed_task_the_files_of_the_others_are_deleted(query, uri):
    query.batch(0)
    before = contents(uri)
    writer, messages = planned(query, numbers(10, 10), numbers(10, 20))
    assert len(contents(uri)) == len(before) + 2
    writer.abort([messages[0], None, messages[1]], 1)
    assert contents(uri) == before
    query.batch(1)
    assert ids(uri) == list(range(20))


def test_before_a_commit_only_the_versions_after_the_tag_are_looked_at(query, uri, monkeypatch):
    for number in range(6):
        query.batch(number)
    for number in range(3):
        lance.write_dataset(numbers(1, 1000 + number), uri, mode="append")
    asked = []
    found, several = query_records.find_manifest, query_records.read_transactions

    def one(location, pin):
        asked.append(pin.version)
        return found(location, pin)

    def many(location, branch, versions):
        asked.extend(versions)
        return several(location, branch, versions)

    monkeypatch.setattr(query_records, "find_manifest", one)
    monkeypatch.setattr(query_records, "read_transactions", many)
    tagged, newest = lance.dataset(uri).tags.list()[query.tag]["version"], lance.dataset(uri).version
    query.batch(6)
    assert {*range(tagged, newest + 1)} <= {*asked}
    assert min(asked) == tagged


def test_the_tag_keeps_the_last_batch_from_every_cleanup(query, uri):
    query.batch(0)
    query.batch(1)
    for number in range(4):
        lance.write_dataset(numbers(1, 1000 + number), uri, mode="append")
    tagged = lance.dataset(uri).tags.list()[query.tag]["version"]
    clean(uri, older_than=timedelta(0), commit_window=timedelta(0))
    assert tagged in [version["version"] for version in lance.dataset(uri).versions()]
    query.batch(1)
    assert ids(uri) == [*range(20), *range(1000, 1004)]
