"""Every type of Spark, to Lance and back: what Arrow lacks is in the metadata of the fields, at any depth."""

import json

import pyarrow as pa
import pytest
from pyspark.sql import types as st

from lance_spark.engine.lengths_spark import lengths_in, parsed_json, with_char_types
from lance_spark.engine.types_spark import to_arrow, to_spark
from lance_spark.errors import SchemaMismatch
from lance_spark.format.kept_types import LENGTH_KEY, TYPE_KEY

pytestmark = pytest.mark.pure

TEXT, LCASE = st.StringType(), st.StringType("UTF8_LCASE")
TYPES = [
    (TEXT, pa.string(), None),
    (LCASE, pa.string(), "string collate UTF8_LCASE"),
    (st.StringType("UNICODE_CI"), pa.string(), "string collate UNICODE_CI"),
    (st.DayTimeIntervalType(0, 3), pa.duration("us"), None),
    (st.DayTimeIntervalType(0, 0), pa.duration("us"), "interval day"),
    (st.DayTimeIntervalType(1, 2), pa.duration("us"), "interval hour to minute"),
    (st.DayTimeIntervalType(3, 3), pa.duration("us"), "interval second"),
    (st.VariantType(), pa.struct([("value", pa.binary()), ("metadata", pa.binary())]), "variant"),
    (st.DecimalType(38, 38), pa.decimal128(38, 38), None),
    (st.NullType(), pa.null(), None),
]
if hasattr(st, "TimeType"):
    TYPES += [(st.TimeType(p), pa.time64("ns"), None if p == 6 else f"time({p})") for p in (0, 3, 6)]
if hasattr(st, "GeometryType"):
    PAIR = pa.struct([("srid", pa.int32()), ("wkb", pa.binary())])
    TYPES += [(kind, PAIR, kind.jsonValue()) for kind in (st.GeometryType(4326), st.GeographyType(4326))]
    TYPES += [(st.GeometryType("ANY"), PAIR, st.GeometryType("ANY").jsonValue())]


def column(kind, **metadata):
    return st.StructType([st.StructField("c", kind, True, metadata)])


def shapes(kind):
    yield kind
    yield st.StructType([st.StructField("x", kind), st.StructField("y y", kind)])
    yield st.ArrayType(kind)
    yield st.MapType(TEXT, kind)
    yield st.ArrayType(st.StructType([st.StructField("x", st.MapType(TEXT, st.ArrayType(kind)))]))
    if not isinstance(kind, st.NullType):
        yield st.MapType(kind, TEXT)


@pytest.mark.parametrize(("kind", "arrow", "name"), TYPES, ids=lambda value: str(value))
def test_a_type_is_stored_as_arrow_and_comes_back_as_itself(kind, arrow, name):
    stored = to_arrow(column(kind)).field("c")
    plain = stored.type if not pa.types.is_struct(stored.type) else pa.struct([(f.name, f.type) for f in stored.type])
    assert plain == arrow
    assert (stored.metadata or {}).get(TYPE_KEY.encode(), b"").decode() == (name or "")
    for shape in shapes(kind):
        assert to_spark(to_arrow(column(shape))) == column(shape)


def test_metadata_of_the_caller_stays_and_ours_is_not_shown():
    given = column(LCASE, comment="words", k="v")
    assert to_spark(to_arrow(given)) == given


LENGTHS = [
    (TEXT, "char(3)"),
    (TEXT, "varchar(12)"),
    (LCASE, "char(3) collate UTF8_LCASE"),
    (st.ArrayType(TEXT), "array<char(3)>"),
    (st.MapType(TEXT, TEXT), "map<varchar(2),string>"),
    (
        column(TEXT).add("d d", st.DecimalType(10, 2)).add("i", st.DayTimeIntervalType(1, 2)).add("t", LCASE),
        "struct<c:char(3),`d d`:decimal(10,2),i:interval hour to minute,t:string collate UTF8_LCASE>",
    ),
]


@pytest.mark.parametrize(("kind", "text"), LENGTHS)
def test_lengths_are_those_of_spark_at_the_column_and_of_each_field_in_lance(kind, text):
    given = column(kind, **{LENGTH_KEY: text})
    stored = to_arrow(given).field("c")
    inner = [stored.type.field(at) for at in range(stored.type.num_fields)] if pa.types.is_struct(stored.type) else []
    assert [each.metadata[LENGTH_KEY.encode()] for each in inner[:1]] == [b"char(3)"] * len(inner[:1])
    assert to_spark(pa.schema([stored])) == given


def test_the_text_of_a_column_whose_fields_have_changed_since_is_not_shown():
    """As earlier releases stored it: at the column, for what was inside it then."""
    inner = pa.struct([pa.field("a", pa.string()), pa.field("b", pa.string())])
    stale, right = "struct<a:char(3)>", "struct<a:char(3),b:string>"
    for text, shown in ((stale, {}), (right, {LENGTH_KEY: right})):
        stored = pa.schema([pa.field("c", inner, metadata={LENGTH_KEY: text})])
        assert to_spark(stored).fields[0].metadata == shown


@pytest.mark.parametrize(
    ("text", "kind", "found"),
    [
        ("char(3)", TEXT, "char(3)"),
        ("int", st.IntegerType(), {}),
        ("struct<a:varchar(2),b:int>", column(TEXT).add("b", st.IntegerType()), None),
        ("struct<c:varchar(2)>", column(TEXT), {"c": "varchar(2)"}),
        ("map<char(1),array<varchar(2)>>", st.MapType(TEXT, st.ArrayType(TEXT)), {"key": "char(1)", "value": ...}),
        ("array<char(3)", st.ArrayType(TEXT), None),
        ("", TEXT, None),
    ],
)
def test_the_text_of_a_type_gives_its_lengths(text, kind, found):
    lengths = lengths_in(text, kind)
    if isinstance(found, dict) and found.get("value") is ...:
        found = {**found, "value": {"element": "varchar(2)"}}
    assert lengths == found


@pytest.mark.parametrize(
    ("given", "collations", "kind", "text"),
    [
        ("char(3)", {}, TEXT, "char(3)"),
        ("char(3)", {"c": "spark.UTF8_LCASE"}, LCASE, "char(3) collate UTF8_LCASE"),
        ("varchar(3) collate UTF8_LCASE", {}, LCASE, "varchar(3) collate UTF8_LCASE"),
        (
            {"type": "array", "elementType": "varchar(3)", "containsNull": True},
            {"c.element": "spark.UTF8_LCASE"},
            st.ArrayType(LCASE),
            "array<varchar(3) collate UTF8_LCASE>",
        ),
        (
            {"type": "map", "keyType": "integer", "valueType": "char(3)", "valueContainsNull": False},
            {},
            st.MapType(st.IntegerType(), TEXT, False),
            "map<int,char(3)>",
        ),
    ],
)
def test_types_of_their_own_become_strings_as_in_spark_and_keep_their_collation(given, collations, kind, text):
    field = {"name": "c", "type": given, "nullable": True, "metadata": {"__COLLATIONS": collations}}
    found = parsed_json(json.dumps({"type": "struct", "fields": [field]})).fields[0]
    assert (found.dataType, found.metadata[LENGTH_KEY]) == (kind, text)


def test_a_table_says_the_types_that_spark_shows():
    given = column(st.ArrayType(TEXT), **{LENGTH_KEY: "array<char(3)>"}).add(
        "v", TEXT, True, {LENGTH_KEY: "varchar(2)"}
    )
    assert with_char_types(given).simpleString() == "struct<c:array<char(3)>,v:varchar(2)>"


@pytest.mark.parametrize(("kind", "text"), [(st.CharType(3), "char(3)"), (st.VarcharType(4), "varchar(4)")])
def test_lengths_of_types_of_their_own_are_kept(kind, text):
    for given, shown in ((kind, text), (st.ArrayType(kind), f"array<{text}>")):
        assert to_spark(to_arrow(column(given))).fields[0].metadata == {LENGTH_KEY: shown}


@pytest.mark.parametrize(
    "kind",
    [st.YearMonthIntervalType(), st.MapType(st.NullType(), st.NullType()), st.ArrayType(st.CalendarIntervalType())],
    ids=str,
)
def test_what_lance_cannot_hold_is_refused_at_the_door(kind):
    with pytest.raises(SchemaMismatch, match="Column 'c"):
        to_arrow(column(kind))
