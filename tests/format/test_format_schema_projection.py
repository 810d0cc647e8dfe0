"""Which columns a read asks for, and how wide its rows are."""

import pyarrow as pa
import pytest

from lance_spark.errors import NotFound, SchemaMismatch
from lance_spark.format.schema import ROW_ADDRESS, ROW_ID, add_row_columns, project, row_width, unknown_column

pytestmark = pytest.mark.pure

INNER = pa.struct([pa.field("x", pa.int8(), False), ("y z", pa.string()), ("d.t", pa.bool_())])
STRUCT = pa.struct([("a", pa.int32()), pa.field("in", INNER, False), ("b", pa.string())])
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), False, {"unit": "none"}),
        pa.field("m", STRUCT, False, {"k": "v"}),
        ("tags", pa.list_(pa.struct([("t", pa.string())]))),
        ("dotted.name", pa.int16()),
        ("comma,tick`", pa.int16()),
        ("Name", pa.string()),
    ],
    metadata={"table": "t"},
)


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["id"], {"id": pa.int64()}),
        (["Name", "id"], {"Name": pa.string(), "id": pa.int64()}),
        (["id", "id"], {"id": pa.int64()}),
        (["m.a"], {"m": pa.struct([("a", pa.int32())])}),
        (["m.b", "id", "m.a"], {"m": pa.struct([("b", pa.string()), ("a", pa.int32())]), "id": pa.int64()}),
        (["m.a", "m"], {"m": SCHEMA.field("m").type}),
        (["m", "m.a"], {"m": SCHEMA.field("m").type}),
        (["m.in"], {"m": pa.struct([pa.field("in", INNER, False)])}),
        (
            ["m.in.x", "m.a"],
            {
                "m": pa.struct(
                    [pa.field("in", pa.struct([pa.field("x", pa.int8(), False)]), False), pa.field("a", pa.int32())]
                )
            },
        ),
        (["m.in.y z"], {"m": pa.struct([pa.field("in", pa.struct([("y z", pa.string())]), False)])}),
        (["`m`.`in`.`d.t`"], {"m": pa.struct([pa.field("in", pa.struct([("d.t", pa.bool_())]), False)])}),
        (["`dotted.name`"], {"dotted.name": pa.int16()}),
        (["dotted.name"], {"dotted.name": pa.int16()}),
        (["`comma,tick```"], {"comma,tick`": pa.int16()}),
        (["tags"], {"tags": SCHEMA.field("tags").type}),
        ([], {}),
    ],
)
def test_only_the_named_columns_and_fields_are_left_in_the_order_named(paths, expected):
    result = project(SCHEMA, paths)
    assert dict(zip(result.names, result.types, strict=True)) == expected
    assert list(result.names) == list(expected)


def test_no_projection_is_the_schema_itself():
    assert project(SCHEMA, None) is SCHEMA


def test_nullability_and_metadata_survive_a_projection():
    result = project(SCHEMA, ["m.a", "id"])
    assert result.metadata == {b"table": b"t"}
    assert [field.nullable for field in result] == [False, False]
    assert [field.metadata for field in result] == [{b"k": b"v"}, {b"unit": b"none"}]


@pytest.mark.parametrize(
    ("path", "message", "hint"),
    [
        ("ID", "There is no column 'ID'", "Did you mean 'id'?"),
        ("name", "There is no column 'name'", "Did you mean 'Name'?"),
        ("tag", "There is no column 'tag'", "Did you mean 'tags'?"),
        ("qqqqq", "There is no column 'qqqqq'", "The dataset has id, m, tags"),
        ("m.c", "There is no column 'm.c'", "'m."),
        ("m.in.z", "There is no column 'm.in.z'", "m.in"),
        ("m..a", "There is no column 'm.'", "m."),
        ("m.", "There is no column 'm.'", "m."),
        (".", "There is no column ''", "The dataset has"),
        ("", "There is no column ''", "The dataset has"),
        ("`m.a`", "There is no column 'm.a'", ""),
    ],
)
def test_an_unknown_path_is_refused_with_what_is_near(path, message, hint):
    with pytest.raises(NotFound, match=message) as caught:
        project(SCHEMA, ["id", path])
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("path", "word"), [("id.x", "'id' is int64"), ("tags.t", "'tags' is list"), ("m.a.b", "'m.a'")]
)
def test_a_path_into_what_is_no_struct_is_refused(path, word):
    with pytest.raises(SchemaMismatch, match=word) as caught:
        project(SCHEMA, [path])
    assert "Only fields of structs" in caught.value.hint


def test_a_long_list_of_known_columns_is_cut():
    error = unknown_column("zzzz", [f"column{number}" for number in range(30)])
    assert error.hint.endswith("column9 and more.")


def test_row_columns_come_last_and_only_once():
    schema = pa.schema([("a", pa.int8())])
    assert add_row_columns(schema, False, False) == schema
    both = add_row_columns(schema, True, True)
    assert both.names == ["a", ROW_ID, ROW_ADDRESS]
    assert both.types[1:] == [pa.int64(), pa.int64()]
    assert add_row_columns(both, True, True) == both
    assert add_row_columns(schema, False, True).names == ["a", ROW_ADDRESS]


@pytest.mark.parametrize(
    ("kind", "width"),
    [
        (pa.int8(), 1),
        (pa.int64(), 8),
        (pa.float16(), 2),
        (pa.bool_(), 1 / 8),
        (pa.decimal128(38, 18), 16),
        (pa.timestamp("us", "UTC"), 8),
        (pa.binary(16), 16),
        (pa.uuid(), 16),
        (pa.null(), 0),
        (pa.list_(pa.float32(), 512), 2048),
        (pa.list_(pa.list_(pa.float16(), 3), 2), 12),
        (pa.struct([("a", pa.int8()), ("b", pa.struct([("c", pa.int32())]))]), 5),
        (pa.dictionary(pa.int8(), pa.int64()), 8),
    ],
)
def test_the_width_of_a_row_of_fixed_types_is_exact(kind, width):
    assert row_width([pa.field("a", kind), pa.field("b", pa.int32())]) == width + 4


@pytest.mark.parametrize(
    "kind",
    [
        *(pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.json_()),
        *(pa.list_(pa.int8()), pa.large_list(pa.int8()), pa.list_view(pa.int8()), pa.map_(pa.string(), pa.int8())),
    ],
    ids=str,
)
def test_the_width_of_other_types_is_a_guess_of_some_bytes(kind):
    assert 1 <= row_width([pa.field("a", kind)]) <= 200
