"""The cast table: for every type, all the types its values may become, and no other."""

import pyarrow as pa
import pytest

from lance_spark.format.schema import why_not

pytestmark = pytest.mark.pure

KINDS = {
    "null": pa.null(),
    "bool": pa.bool_(),
    **{f"i{bits}": getattr(pa, f"int{bits}")() for bits in (8, 16, 32, 64)},
    **{f"u{bits}": getattr(pa, f"uint{bits}")() for bits in (8, 16, 32, 64)},
    **{f"f{bits}": getattr(pa, f"float{bits}")() for bits in (16, 32, 64)},
    "d5.2": pa.decimal128(5, 2),
    "d9.4": pa.decimal256(9, 4),
    "d19": pa.decimal128(19, 0),
    "d20": pa.decimal128(20, 0),
    "d21": pa.decimal128(21, 0),
    "d38.18": pa.decimal128(38, 18),
    "str": pa.string(),
    "lstr": pa.large_string(),
    "vstr": pa.string_view(),
    "bin": pa.binary(),
    "lbin": pa.large_binary(),
    "vbin": pa.binary_view(),
    "fix4": pa.binary(4),
    "day": pa.date32(),
    "date64": pa.date64(),
    "t32": pa.time32("ms"),
    "t64": pa.time64("us"),
    "ts_us": pa.timestamp("us"),
    "ts_ns": pa.timestamp("ns"),
    "utc_us": pa.timestamp("us", "UTC"),
    "utc_ns": pa.timestamp("ns", "UTC"),
    "tokyo": pa.timestamp("s", "Asia/Tokyo"),
    "dur_s": pa.duration("s"),
    "dur_ns": pa.duration("ns"),
}
WIDE = ("d20", "d21", "d38.18")
# What Spark reads a type as comes back: uint16 as int, uint32 as bigint, uint64 as decimal(20,0), float16 as float.
ALLOWED = {
    "null": set(KINDS),
    "bool": {"bool"},
    "i8": {"i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "f32", "f64", "d5.2", "d9.4", "d19", *WIDE},
    "i16": {"i16", "i32", "i64", "u8", "u16", "u32", "u64", "f32", "f64", "d9.4", "d19", *WIDE},
    "i32": {"i32", "i64", "u16", "u32", "u64", "f64", "d19", *WIDE},
    "i64": {"i64", "u32", "u64", *WIDE},
    "u8": {"u8", "u16", "u32", "u64", "i16", "i32", "i64", "f16", "f32", "f64", "d5.2", "d9.4", "d19", *WIDE},
    "u16": {"u16", "u32", "u64", "i32", "i64", "f32", "f64", "d9.4", "d19", *WIDE},
    "u32": {"u32", "u64", "i64", "f64", "d19", *WIDE},
    "u64": {"u64", *WIDE},
    "f16": {"f16", "f32", "f64"},
    "f32": {"f16", "f32", "f64"},
    "f64": {"f64"},
    "d5.2": {"d5.2", "d9.4", "d38.18"},
    "d9.4": {"d9.4", "d38.18"},
    "d19": {"d19", "u64", *WIDE},
    "d20": {"u64", *WIDE},
    "d21": {"d21"},
    "d38.18": {"d38.18"},
    **{name: {"str", "lstr", "vstr"} for name in ("str", "lstr", "vstr")},
    **{name: {"bin", "lbin", "vbin", "fix4"} for name in ("bin", "lbin", "vbin", "fix4")},
    **{name: {"day", "date64"} for name in ("day", "date64")},
    **{name: {"t32", "t64"} for name in ("t32", "t64")},
    **{name: {"ts_us", "ts_ns"} for name in ("ts_us", "ts_ns")},
    **{name: {"utc_us", "utc_ns", "tokyo"} for name in ("utc_us", "utc_ns", "tokyo")},
    **{name: {"dur_s", "dur_ns"} for name in ("dur_s", "dur_ns")},
}
WRAPPERS = {
    "itself": lambda kind: kind,
    "list": pa.list_,
    "vector": lambda kind: pa.list_(kind, 3),
    "struct": lambda kind: pa.struct([("a", kind)]),
    "map value": lambda kind: pa.map_(pa.string(), kind),
    "dictionary": lambda kind: pa.dictionary(pa.int8(), kind),
    "list of structs": lambda kind: pa.large_list(pa.struct([("a", pa.list_(kind))])),
}


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)
@pytest.mark.parametrize("source", ALLOWED)
def test_a_type_becomes_exactly_what_the_table_lists(source, wrap):
    found = {name for name, kind in KINDS.items() if why_not(wrap(KINDS[source]), wrap(kind)) is None}
    assert found == ALLOWED[source]


@pytest.mark.parametrize("source", [name for name in ALLOWED if name != "null"])
def test_a_key_of_a_map_becomes_exactly_what_the_table_lists(source):
    keys = {name: pa.map_(kind, pa.int8()) for name, kind in KINDS.items() if name != "null"}
    assert {name for name, kind in keys.items() if why_not(keys[source], kind) is None} == ALLOWED[source]


@pytest.mark.parametrize("source", ALLOWED)
def test_a_dictionary_on_either_side_is_judged_by_its_values(source):
    kind = KINDS[source]
    for target in map(KINDS.get, KINDS):
        reason = why_not(kind, target)
        assert why_not(pa.dictionary(pa.int16(), kind), target) == reason
        assert why_not(kind, pa.dictionary(pa.int16(), target)) == reason


LIST, LARGE, TWO, THREE = (
    pa.list_(pa.int32()),
    pa.large_list(pa.int64()),
    pa.list_(pa.int64(), 2),
    pa.list_(pa.int64(), 3),
)
AB = pa.struct([("a", pa.int32()), ("b", pa.string())])


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (LIST, LARGE),
        (LIST, TWO),
        (TWO, LARGE),
        (LARGE, pa.list_(pa.decimal128(38, 0))),
        (TWO, TWO),
        (pa.list_(pa.float32()), pa.list_(pa.float16(), 512)),
        (AB, pa.struct([("b", pa.large_string()), ("a", pa.int64())])),
        (AB, pa.struct([("a", pa.int32()), ("b", pa.string()), ("c", pa.int8())])),
        (AB, pa.struct([pa.field("a", pa.int32(), False), ("b", pa.string())])),
        (pa.map_(pa.string(), LIST), pa.map_(pa.large_string(), LARGE)),
        (pa.list_(pa.null()), pa.list_(AB)),
        (pa.uuid(), pa.binary()),
        (pa.json_(), pa.string()),
        (pa.list_(pa.uuid()), pa.list_(pa.binary(16))),
    ],
)
def test_types_that_hold_types_convert_inside(source, target):
    assert why_not(source, target) is None


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [
        (TWO, THREE, "lengths 2 and 3"),
        (pa.list_(TWO), pa.list_(THREE), "lengths 2 and 3"),
        (LARGE, LIST, "values could be lost"),
        (AB, pa.struct([("a", pa.int16()), ("b", pa.string())]), "field 'a': values could be lost"),
        (AB, pa.struct([("a", pa.int32())]), "field 'b' does not exist on the other side"),
        (AB, pa.struct([*AB, pa.field("c", pa.int8(), False)]), "field 'c' is missing and cannot be null"),
        (AB, pa.struct([("A", pa.int32()), ("b", pa.string())]), "field 'a' does not exist"),
        (pa.struct([("a", AB)]), pa.struct([("a", pa.struct([("a", pa.int8())]))]), "field 'a': field 'a': values"),
        (pa.struct([("a", pa.int8()), ("a", pa.int8())]), pa.struct([("a", pa.int8())]), "same name"),
        (pa.map_(pa.string(), pa.int64()), pa.map_(pa.string(), pa.int32()), "values could be lost"),
        (pa.map_(pa.string(), pa.int64()), pa.list_(pa.int64()), "unrelated"),
        (AB, LIST, "unrelated"),
        (LIST, pa.int32(), "unrelated"),
        (pa.string(), pa.binary(), "unrelated"),
        (pa.bool_(), pa.int8(), "unrelated"),
        (pa.string(), pa.int32(), "unrelated"),
        (pa.date32(), pa.timestamp("us"), "unrelated"),
        (pa.timestamp("us"), pa.timestamp("us", "UTC"), "wall-clock time"),
        (pa.list_view(pa.int32()), LIST, "unrelated"),
        (pa.month_day_nano_interval(), pa.duration("ns"), "unrelated"),
        (pa.uuid(), pa.string(), "unrelated"),
    ],
)
def test_what_could_lose_something_is_refused_with_the_reason(source, target, reason):
    assert reason in why_not(source, target)


def test_only_reading_may_leave_fields_of_a_struct_out():
    less = pa.struct([("b", pa.string())])
    for wrap in WRAPPERS.values():
        assert "'a' does not exist" in why_not(wrap(AB), wrap(less))
        assert why_not(wrap(AB), wrap(less), drop_fields=True) is None
    more = pa.struct([*AB, ("c", pa.int8())])
    assert why_not(AB, more) is None
    assert "no field 'c'" in why_not(AB, more, drop_fields=True)
