"""Blobs in tables of every format, whichever way their column was made: bytes go in, and positions do not."""

import lance
import pyarrow as pa
import pytest

from lance_spark.errors import SchemaMismatch
from lance_spark.tables.write import begin, finish, plan_write
from lance_spark.write.data_files import write_rows

BLOBS = [b"first", None, b"", b"x" * 100_000]
MARKED = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
ROWS = pa.table([[0, 1, 2, 3], BLOBS], pa.schema([("id", pa.int64()), ("b", pa.binary())]))
MADE = [
    ("2.0", "marked"),
    ("2.1", "marked"),
    *((version, made) for version in ("2.2", "2.3") for made in ("marked", "v2")),
]


def make(uri, version, made):
    """A table with blobs, made by pylance from marked bytes or from its own type."""
    kind, values = (MARKED, BLOBS) if made == "marked" else (lance.blob_field("b"), lance.blob_array(BLOBS))
    schema = pa.schema([("id", pa.int64()), kind])
    lance.write_dataset(pa.table([[0, 1, 2, 3], values], schema), uri, data_storage_version=version)


def write(uri, rows, overwrite=False, **options):
    job = begin(plan_write({"path": uri, **options}, rows.schema, overwrite=overwrite))
    finish(job, write_rows(job, rows.to_batches(max_chunksize=3)))


def stored(uri):
    dataset = lance.dataset(uri)
    rows = dataset.to_table(blob_handling="all_binary")
    there = [place for place, value in enumerate(rows["b"].to_pylist()) if value]
    files = dataset.take_blobs("b", indices=there)
    assert [file.readall() for file in files] == [rows["b"][place].as_py() for place in there]
    return rows


@pytest.mark.parametrize(("version", "made"), MADE)
def test_bytes_are_appended(uri, version, made):
    make(uri, version, made)
    write(uri, ROWS, max_rows_per_file="2")
    assert stored(uri)["b"].to_pylist() == BLOBS * 2


@pytest.mark.parametrize(("version", "made"), MADE)
def test_rows_that_bring_a_column_keep_the_blobs_beside_it(uri, version, made):
    make(uri, version, made)
    write(uri, ROWS.append_column("more", pa.array(["a", "b", "c", "d"])), merge_schema="true")
    found = stored(uri)
    assert found["b"].to_pylist() == BLOBS * 2
    assert found["more"].to_pylist() == [None] * 4 + ["a", "b", "c", "d"]


@pytest.mark.parametrize("version", ["2.1", "2.2", "2.3"])
def test_a_new_table_has_the_bytes(uri, version):
    rows = ROWS.cast(pa.schema([("id", pa.int64()), MARKED]))
    write(uri, rows, data_storage_version=version)
    write(uri, rows, overwrite=True)
    assert stored(uri)["b"].to_pylist() == BLOBS


@pytest.mark.parametrize(("version", "made"), MADE)
@pytest.mark.parametrize("wrap", ["column", "struct", "array"])
def test_positions_are_not_copied(uri, version, made, wrap):
    make(uri, version, made)
    kind = lance.dataset(uri).scanner(blob_handling="blobs_descriptions").projected_schema.field("b").type
    as_spark = {pa.uint64(): pa.decimal128(20, 0), pa.uint32(): pa.int64(), pa.uint8(): pa.int16()}
    spark = pa.struct([(field.name, as_spark.get(field.type, field.type)) for field in kind])
    for found in (kind, spark):
        wrapped = {"column": found, "struct": pa.struct([("x", found)]), "array": pa.list_(found)}[wrap]
        frame = pa.schema([("id", pa.int64()), ("b", wrapped)])
        for options in ({"path": f"{uri}.copy"}, {"path": uri, "overwrite_schema": "true"}):
            with pytest.raises(SchemaMismatch, match=r"'b' has the positions of blobs(.|\n)*blob_handling"):
                plan_write(options, frame, overwrite=True)
        more = pa.schema([("id", pa.int64()), ("c", wrapped)])
        with pytest.raises(SchemaMismatch, match="'c' has the positions of blobs"):
            plan_write({"path": uri, "merge_schema": "true"}, more, overwrite=False)


def test_numbers_of_those_names_are_no_positions(uri):
    kind = pa.struct([("position", pa.int64()), ("size", pa.int64())])
    rows = pa.table({"b": pa.array([{"position": 1, "size": 2}], kind)})
    write(uri, rows)
    assert lance.dataset(uri).to_table() == rows
