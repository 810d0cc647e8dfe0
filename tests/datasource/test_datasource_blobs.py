"""Blob columns: descriptions and bytes, in the file format that marks bytes and in the one with a blob type."""

import lance
import pyarrow as pa
import pytest
from pyspark.sql import types as st
from support.frames import load, refused, rows, save

from lance_spark.errors import SchemaMismatch

pytestmark = [
    pytest.mark.spark,
    pytest.mark.when(oldest=0.15, newest=0.45),
    pytest.mark.usefixtures("both_ways"),
]

BLOBS = [b"first", None, b"", b"x" * 100_000]
SPARK_BLOB = st.StructType(
    [st.StructField("id", st.LongType()), st.StructField("b", st.BinaryType(), True, {"lance-encoding:blob": "true"})]
)
FORMATS = pytest.mark.parametrize("version", ["2.1", None], ids=["2.1", "default"])


def make(uri, version):
    """A dataset with a blob column, made by pylance."""
    if version == "2.1":
        kind = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
        table = pa.table([[0, 1, 2, 3], BLOBS], pa.schema([("id", pa.int64()), kind]))
        lance.write_dataset(table, uri, data_storage_version="2.1")
        return
    schema = pa.schema([pa.field("id", pa.int64()), lance.blob_field("b")])
    table = pa.table([pa.array([0, 1, 2, 3]), lance.blob_array(BLOBS)], schema)
    lance.write_dataset(table, uri, data_storage_version="2.2")


def stored(uri):
    """The blobs as pylance returns them, in the order of id."""
    table = lance.dataset(uri).to_table(blob_handling="all_binary").sort_by("id")
    return table["b"].to_pylist()


@FORMATS
def test_blobs_read_as_descriptions_unless_bytes_are_asked_for(spark, uri, version):
    make(uri, version)
    found = load(spark, uri).collect()
    assert [row.b and int(row.b.size) for row in found] == [5, None, 0, 100_000]
    assert rows(load(spark, uri, blob_handling="bytes")) == list(enumerate(map(bytes_or_none, BLOBS)))


def bytes_or_none(blob):
    return None if blob is None else bytearray(blob)


@FORMATS
def test_blobs_read_as_bytes_can_be_appended_back(spark, uri, version):
    make(uri, version)
    save(load(spark, uri, blob_handling="bytes").selectExpr("id + 4 as id", "b"), uri)
    assert stored(uri) == BLOBS * 2
    assert lance.dataset(uri).take_blobs("b", indices=[7])[0].read() == BLOBS[3]


@FORMATS
def test_blob_descriptions_cannot_be_appended(spark, uri, version):
    make(uri, version)
    with refused(SchemaMismatch, "Column 'b'", "blob_handling"):
        save(load(spark, uri), uri)
    assert lance.dataset(uri).version == 1


@FORMATS
def test_spark_creates_a_blob_column_from_marked_bytes(spark, uri, version):
    options = {} if version is None else {"data_storage_version": version}
    save(spark.createDataFrame(list(enumerate(BLOBS)), SPARK_BLOB), uri, **options)
    assert stored(uri) == BLOBS
    order = lance.dataset(uri).to_table(columns=["id"])["id"].to_pylist()
    assert lance.dataset(uri).take_blobs("b", indices=[order.index(3)])[0].read() == BLOBS[3]
    assert load(spark, uri, blob_handling="bytes").schema == SPARK_BLOB


@FORMATS
def test_a_dataset_with_blobs_can_be_overwritten_with_itself(spark, uri, version):
    make(uri, version)
    save(load(spark, uri, blob_handling="bytes"), uri, mode="overwrite")
    assert stored(uri) == BLOBS
    assert lance.dataset(uri).data_storage_version == ("2.1" if version else "2.2")


def test_filters_and_counts_do_not_need_the_blobs(spark, uri):
    make(uri, None)
    assert load(spark, uri, filter="id >= 2", columns="id").count() == 2
    assert rows(load(spark, uri, filter="id = 0", blob_handling="bytes")) == [(0, bytearray(b"first"))]
