"""Blobs in objects elsewhere, from Spark: written from URIs, read as bytes, and as ranges and files in its tasks."""

import lance
import pyarrow as pa
import pytest
from support.referring import refer

from lance_spark import LanceTable
from lance_spark.errors import Refused, SchemaMismatch

pytestmark = [pytest.mark.spark, pytest.mark.when(oldest=0)]


@pytest.fixture
def elsewhere(tmp_path):
    directory = tmp_path / "else where"
    directory.mkdir()
    for number in range(6):
        (directory / f"{number}").write_bytes(f"object {number}".encode())
    return directory


def listed(spark, elsewhere, numbers):
    rows = [(number, str(elsewhere / str(number))) for number in numbers]
    return spark.createDataFrame(rows, "id long, payload string")


def kinds(uri):
    found = lance.dataset(uri).to_table()
    return dict(
        zip(found["id"].to_pylist(), [one and one["kind"] for one in found["payload"].to_pylist()], strict=True)
    )


def test_a_frame_of_uris_makes_a_table_of_references(spark, uri, elsewhere):
    marked = listed(spark, elsewhere, range(3)).withMetadata("payload", {"lance-encoding:blob": "true"})
    marked.write.format("lance").mode("overwrite").option("data_storage_version", "2.2").save(uri)
    ranges = "struct<uri string, position bigint, size bigint>"
    rows = [(3, (str(elsewhere / "3"), 0, 6)), (4, (str(elsewhere / "4"), None, None)), (5, None)]
    spark.createDataFrame(rows, f"id long, payload {ranges}").write.format("lance").mode("append").save(uri)
    assert kinds(uri) == {0: 3, 1: 3, 2: 3, 3: 3, 4: 3, 5: None}
    read = LanceTable.for_path(uri, spark=spark).to_df(blob_handling="bytes").orderBy("id").collect()
    assert [row.payload and bytes(row.payload) for row in read] == [
        b"object 0", b"object 1", b"object 2", b"object", b"object 4", None
    ]  # fmt: skip


def test_a_text_does_not_become_the_bytes_of_a_blob(spark, uri, elsewhere):
    refer(uri, [b"a", b"b"])
    table = LanceTable.for_path(uri, spark=spark)
    merge = table.merge(listed(spark, elsewhere, [1, 2]), on="id")
    with pytest.raises(SchemaMismatch, match=r"'payload' holds blobs(.|\n)*bytes(.|\n)*append"):
        merge.when_matched_update_all().when_not_matched_insert_all().execute()
    with pytest.raises(SchemaMismatch, match="'payload' holds blobs"):
        table.update({"payload": "'/data/a'"})
    assert lance.dataset(uri).version == 1


@pytest.mark.when(day=0)
def test_a_column_of_references_needs_files_that_store_them(spark, uri, elsewhere):
    """To others it cannot be added; the refusal says what does it, and that is done here."""
    spark.range(3).write.format("lance").mode("append").option("data_storage_version", "2.1").save(uri)
    table = LanceTable.for_path(uri, spark=spark)
    marked = listed(spark, elsewhere, range(3)).withMetadata("payload", {"lance-encoding:blob": "true"})
    with pytest.raises(SchemaMismatch, match="do not store") as refused:
        table.add_columns_from(marked, on="id")
    assert "2.2" in refused.value.hint
    assert (lance.dataset(uri).version, lance.dataset(uri).schema.names) == (1, ["id"])
    whole = table.to_df().join(marked, "id").withMetadata("payload", {"lance-encoding:blob": "true"})
    whole.write.format("lance").mode("overwrite").option("data_storage_version", "2.2").save(uri)
    assert kinds(uri) == {0: 3, 1: 3, 2: 3}
    with pytest.raises(Refused, match="cannot be updated as a whole column") as refused:
        table.update_columns({"payload": "'/data/a'"})
    assert "URIs" in refused.value.hint


@pytest.mark.parametrize("storage", [{}, {"blobs.aws_region": "r"}])
def test_tasks_read_bytes_ranges_and_files(spark, uri, elsewhere, storage):
    refer(uri, [lance.Blob.from_uri((elsewhere / "0").as_uri()), b"inline", None])
    table = LanceTable.for_path(uri, storage, spark=spark)
    blobs = table.blobs("payload")

    def read(batches):
        for batch in batches:
            rows = batch["_rowid"].to_pylist()
            files = [file and file.read() for file in blobs.open(rows)]
            parts = blobs.read_ranges([(row, 1, 2) for row in rows])
            values = [pa.array(each, pa.binary()) for each in (blobs.read(rows), files, parts)]
            yield pa.RecordBatch.from_arrays([batch["id"], *values], names=["id", "whole", "file", "part"])

    frame = table.to_df(columns=["id"], with_row_id=True)
    found = frame.mapInArrow(read, "id long, whole binary, file binary, part binary").orderBy("id").collect()
    assert [tuple(value if value is None else bytes(value) for value in row[1:]) for row in found] == [
        (b"object 0", b"object 0", b"bj"), (b"inline", b"inline", b"nl"), (None, None, None)
    ]  # fmt: skip


def test_both_ways_read_the_bytes(spark, uri, elsewhere, both_ways):
    refer(uri, [lance.Blob.from_uri((elsewhere / "0").as_uri()), b"inline", None])
    for storage in ({}, {"storage.blobs.aws_region": "r"}):
        frame = spark.read.format("lance").options(**{"blob_handling": "bytes", **storage}).load(uri)
        found = frame.where("id < 2").select("payload", "id").orderBy("id").collect()
        assert [bytes(row.payload) for row in found] == [b"object 0", b"inline"]
        assert frame.where("payload is null").count() == 1
