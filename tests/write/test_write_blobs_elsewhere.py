"""Blob columns from URIs of objects elsewhere: stored as references, or with their bytes; pylance is the witness."""

import lance
import pyarrow as pa
import pytest
from support.referring import SCHEMA, made_objects, refer

from lance_spark.errors import InvalidOption, NotFound, SchemaMismatch
from lance_spark.tables.write import begin, finish, plan_write
from lance_spark.write.data_files import write_rows

MARK = {"lance-encoding:blob": "true"}
TEXT = pa.field("payload", pa.string(), metadata=MARK)
RANGE = pa.struct([("uri", pa.string()), ("position", pa.int64()), ("size", pa.int64())])


@pytest.fixture
def elsewhere(tmp_path):
    return made_objects(tmp_path / "else where")


def write(uri, values, kind=None, overwrite=False, **options):
    kind = pa.field("payload", pa.string()) if kind is None else kind
    schema = pa.schema([pa.field("id", pa.int64()), kind])
    rows = pa.table([pa.array(range(len(values)), pa.int64()), pa.array(values, kind.type)], schema)
    job = begin(plan_write({"path": uri, **options}, schema, overwrite=overwrite))
    finish(job, write_rows(job, rows.to_batches(max_chunksize=3)))


def stored(uri):
    dataset = lance.dataset(uri)
    described = dataset.to_table()["payload"].to_pylist()
    return [one and one["kind"] for one in described], dataset.to_table(blob_handling="all_binary")[
        "payload"
    ].to_pylist()


def spellings(elsewhere):
    path = str(elsewhere / "whole")
    return [path, f"file:{path}", f"file://{path}", f"file://localhost{path}", (elsewhere / "whole").as_uri(), None]


def test_a_new_table_refers_to_objects_however_they_are_spelled(uri, elsewhere):
    write(uri, spellings(elsewhere), TEXT, data_storage_version="2.2")
    assert stored(uri) == ([3] * 5 + [None], [b"0123456789"] * 5 + [None])
    uris = {one["blob_uri"] for one in lance.dataset(uri).to_table()["payload"].to_pylist() if one}
    assert uris == {(elsewhere / "whole").as_uri()}


@pytest.mark.parametrize("overwrite", [False, True])
def test_rows_with_uris_and_rows_with_bytes_go_into_one_column(uri, elsewhere, overwrite):
    refer(uri, [b"inline", str((elsewhere / "whole").as_uri())])
    write(
        uri,
        [str(elsewhere / "part"), None],
        overwrite=overwrite,
        **({"overwrite_schema": "false"} if overwrite else {}),
    )
    write(uri, [b"more", None], pa.field("payload", pa.binary()))
    kinds, values = stored(uri)
    before = [] if overwrite else [b"inline", b"0123456789"]
    assert values == [*before, b"0123456789", None, b"more", None]
    assert kinds == [*([] if overwrite else [0, 3]), 3, None, 0, None]


def test_structs_refer_to_ranges(uri, elsewhere):
    part = str(elsewhere / "part")
    values = [
        {"uri": part, "position": 2, "size": 5},
        {"uri": part, "position": None, "size": None},
        None,
        {"uri": None, "position": None, "size": None},
    ]
    write(uri, values, pa.field("payload", RANGE, metadata=MARK), data_storage_version="2.2")
    write(uri, values, pa.field("payload", RANGE))
    assert stored(uri) == ([3, 3, None, None] * 2, [b"23456", b"0123456789", None, None] * 2)


@pytest.mark.parametrize("storage", [{}, {"storage.blobs.aws_region": "r"}])
def test_ingested_objects_are_stored_with_their_bytes(uri, elsewhere, storage):
    values = [str(elsewhere / "whole"), None, *[str(elsewhere / "part")] * 40]
    write(uri, values, TEXT, data_storage_version="2.2", external_blob_mode="ingest", **storage)
    assert stored(uri) == ([0, None, *[0] * 40], [b"0123456789", None, *[b"0123456789"] * 40])
    with pytest.raises(NotFound, match="gone"):
        write(uri, [str(elsewhere / "gone")], external_blob_mode="ingest", **storage)
    assert lance.dataset(uri).count_rows() == 42


BAD = {
    "a relative path": "whole",
    "a directory": "/data/",
    "a web address": "https://example.com/a?signature=very-secret",
    "a database": "hdfs://nn/a",
    "a bucket alone": "s3://bucket",
    "a bucket without a key": "s3://bucket/",
    "one slash": "s3:/bucket/key",
    "a signed address": "s3://bucket/key?X-Amz-Signature=very-secret",
    "a user": "s3://me:very-secret@bucket/key",
    "nothing": "",
}


@pytest.mark.parametrize("bad", BAD)
def test_what_is_no_object_is_refused_before_anything_is_written(uri, elsewhere, bad):
    refer(uri, [b"inline"])
    with pytest.raises(SchemaMismatch, match="Blob column 'payload' refers to") as refused:
        write(uri, [str(elsewhere / "whole"), BAD[bad]])
    assert "very-secret" not in str(refused.value)
    assert lance.dataset(uri).version == 1


def test_an_object_inside_of_the_table_would_be_cleaned_up(uri):
    refer(uri, [b"inline"])
    for inside in (f"{uri}/objects/a", f"file://{uri}/data/x"):
        with pytest.raises(SchemaMismatch, match="inside of the table itself"):
            write(uri, [inside])
    write(uri, [f"{uri}.objects/a"])


@pytest.mark.parametrize(("position", "size"), [(None, 5), (5, None), (-1, 5), (0, 0), (2, -3)])
def test_half_a_range_is_refused(uri, elsewhere, position, size):
    refer(uri, [b"inline"])
    value = {"uri": str(elsewhere / "part"), "position": position, "size": size}
    with pytest.raises(SchemaMismatch, match="the range position="):
        write(uri, [value], pa.field("payload", RANGE))
    with pytest.raises(SchemaMismatch, match="a range without a URI"):
        write(uri, [{"uri": None, "position": 1, "size": 1}], pa.field("payload", RANGE))


def test_blobs_that_are_bytes_take_no_uris(uri):
    marked = pa.field("payload", pa.large_binary(), metadata=MARK)
    lance.write_dataset(
        pa.table([[1], [b"x"]], pa.schema([SCHEMA.field("id"), marked])), uri, data_storage_version="2.1"
    )
    with pytest.raises(SchemaMismatch, match="blobs of its file format are bytes"):
        write(uri, ["/data/a"])
    with pytest.raises(SchemaMismatch, match=r"which files of format 2.1 do not store"):
        write(f"{uri}.new", ["/data/a"], TEXT, data_storage_version="2.1")
    with pytest.raises(SchemaMismatch, match="is marked as blobs, and is int64"):
        write(f"{uri}.new", [1], pa.field("payload", pa.int64(), metadata=MARK))


def test_ranges_need_a_column_that_has_them(uri, elsewhere):
    marked = pa.field("payload", pa.large_binary(), metadata=MARK)
    lance.write_dataset(
        pa.table([[1], [b"x"]], pa.schema([SCHEMA.field("id"), marked])), uri, data_storage_version="2.2"
    )
    write(uri, [str(elsewhere / "whole")])
    assert stored(uri) == ([0, 3], [b"x", b"0123456789"])
    with pytest.raises(SchemaMismatch, match="whole objects only"):
        write(uri, [{"uri": str(elsewhere / "part"), "position": 1, "size": 2}], pa.field("payload", RANGE))


def test_a_mode_is_one_of_two(uri):
    with pytest.raises(InvalidOption, match="external_blob_mode"):
        write(uri, ["/data/a"], TEXT, external_blob_mode="copy")
