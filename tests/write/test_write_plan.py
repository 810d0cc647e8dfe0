"""Whether a DataFrame fits the dataset it is written to, decided from schemas alone."""

import pyarrow as pa
import pytest

from lance_spark.core.table_options import FileOptions, WriteOptions
from lance_spark.errors import Refused, SchemaMismatch
from lance_spark.write.plan_rules import WriteTarget, append_schema, check_names, check_replaces, same_schema

pytestmark = pytest.mark.pure

DATASET = pa.schema(
    [
        pa.field("id", pa.int64(), False, {"k": "v"}),
        ("name", pa.large_string()),
        ("vector", pa.list_(pa.float32(), 3)),
        pa.field("image", pa.large_binary(), True, {"lance-encoding:blob": "true"}),
    ],
    metadata={"table": "t"},
)
FRAME = pa.schema(
    [
        ("image", pa.binary()),
        ("vector", pa.list_(pa.float32())),
        ("name", pa.string()),
        ("id", pa.int32()),
    ]
)


def frame(**changes):
    kinds = {**dict(zip(FRAME.names, FRAME.types, strict=True)), **changes}
    return pa.schema([(name, kind) for name, kind in kinds.items() if kind is not None])


def test_a_frame_is_matched_by_name_and_takes_the_types_of_the_dataset():
    assert append_schema(DATASET, FRAME).equals(DATASET, check_metadata=True)


@pytest.mark.parametrize("missing", ["name", "vector", "image"])
def test_a_nullable_column_may_be_missing(missing):
    result = append_schema(DATASET, frame(**{missing: None}))
    assert result.names == [name for name in DATASET.names if name != missing]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (frame(id=None), ["'id' of type int64 is missing", "df.withColumn('id', ...)"]),
        (frame(nmae=pa.string()), ["no column 'nmae'", "Did you mean 'name'?", "withColumnRenamed('nmae', 'name')"]),
        (frame(Name=pa.string()), ["no column 'Name'", "'name'"]),
        (frame(zzz=pa.string()), ["no column 'zzz'", "df.drop('zzz')"]),
        (frame(_rowid=pa.int64()), ["no column '_rowid'", "reading with row ids", "df.drop('_rowid')"]),
        (frame(_rowaddr=pa.int64()), ["no column '_rowaddr'", "df.drop('_rowaddr')"]),
        (frame(id=pa.float64()), ["'id' is double in the DataFrame and int64 in the dataset", "cast(...)"]),
        (frame(id=pa.decimal128(20, 0)), ["'id' is decimal128(20, 0)", "int64"]),
        (frame(name=pa.int32()), ["'name' is int32", "large_string", "unrelated"]),
        (frame(vector=pa.list_(pa.float64())), ["'vector' is list<item: double>", "values could be lost"]),
        (frame(vector=pa.list_(pa.float32(), 4)), ["'vector'", "lengths 4 and 3"]),
        (frame(image=pa.string()), ["'image' is string", "bytes, not URIs", "data_storage_version 2.2"]),
        (frame(image=pa.struct([("position", pa.uint64())])), ["'image' is struct", "blob_handling"]),
    ],
)
def test_a_frame_that_does_not_fit_is_refused_naming_column_types_and_way_out(given, words):
    with pytest.raises(SchemaMismatch) as caught:
        append_schema(DATASET, given)
    assert all(word in str(caught.value) for word in words)
    assert caught.value.hint


def test_an_overwrite_that_keeps_the_columns_needs_all_of_them():
    assert same_schema(DATASET, FRAME).equals(DATASET, check_metadata=True)
    with pytest.raises(SchemaMismatch, match="overwrite_schema=false"):
        same_schema(DATASET, frame(name=None))


def test_the_column_named_is_not_hidden_by_one_that_fits():
    with pytest.raises(SchemaMismatch, match="'name'"):
        append_schema(DATASET, frame(id=pa.int64(), name=pa.bool_()))


@pytest.mark.parametrize("name", ["", "a.b", "a`", "_rowid", "_rowaddr"])
def test_a_column_name_that_lance_cannot_read_again_is_refused(name):
    check_names(pa.schema([("a b", pa.int8()), ("é", pa.int8()), ("_row", pa.int8())]), new=True)
    schema = pa.schema([("ok", pa.int8()), (name, pa.int8())])
    with pytest.raises(SchemaMismatch, match="cannot have a column"):
        check_names(schema, new=True)
    check_names(schema, new=False)


@pytest.mark.parametrize("new", [True, False])
@pytest.mark.parametrize(
    ("wrap", "path"),
    [
        (lambda kind: kind, "s.a"),
        (pa.list_, "s.item.a"),
        (lambda kind: pa.struct([("t", kind)]), "s.t.a"),
        (lambda kind: pa.map_(pa.string(), kind), "s.entries.value.a"),
    ],
)
def test_two_columns_or_fields_of_one_name_are_refused(wrap, path, new):
    twice = pa.struct([("a", pa.int8()), ("b", pa.int8()), ("a", pa.string())])
    with pytest.raises(SchemaMismatch, match=f"two columns '{path}'"):
        check_names(pa.schema([("a", pa.int8()), ("s", wrap(twice))]), new)
    with pytest.raises(SchemaMismatch, match="two columns 'name'"):
        check_names(pa.schema([*FRAME, ("name", pa.string())]), new)
    check_names(FRAME, new)


def test_a_frame_without_columns_is_refused():
    with pytest.raises(SchemaMismatch, match="no columns"):
        check_names(pa.schema([]), new=False)


def target(version="2.1", stable=False):
    return WriteTarget(DATASET, version, stable)


@pytest.mark.parametrize(
    ("version", "stable", "options"),
    [
        ("2.1", False, WriteOptions()),
        ("2.1", True, WriteOptions()),
        ("2.1", False, WriteOptions(files=FileOptions(data_storage_version="2.1"))),
        ("2.1", True, WriteOptions(enable_stable_row_ids=True)),
        ("2.1", False, WriteOptions(enable_stable_row_ids=False)),
        ("2.1", False, WriteOptions(files=FileOptions(max_rows_per_file=1, max_bytes_per_file=2))),
    ],
)
def test_options_that_say_what_the_dataset_is_are_taken(version, stable, options):
    check_replaces(target(version, stable), options)


@pytest.mark.parametrize(
    ("stable", "options", "words"),
    [
        (
            False,
            WriteOptions(files=FileOptions(data_storage_version="2.0")),
            ["format 2.1", "2.0", "data_storage_version"],
        ),
        (False, WriteOptions(enable_stable_row_ids=True), ["does not have stable row ids", "enable_stable_row_ids"]),
        (True, WriteOptions(enable_stable_row_ids=False), ["has stable row ids", "enable_stable_row_ids"]),
    ],
)
def test_options_that_contradict_the_dataset_are_refused(stable, options, words):
    with pytest.raises(Refused) as caught:
        check_replaces(target(stable=stable), options)
    assert all(word in str(caught.value) for word in words)
