"""Types of Spark that Arrow lacks: which values they hold, and what becomes of text that is too short or too long."""

from datetime import time, timedelta

import pyarrow as pa
import pytest

from lance_spark.errors import SchemaMismatch
from lance_spark.format.kept_types import LENGTH_KEY, TYPE_KEY, belongs, fit, is_plain, why_not_kept
from lance_spark.pushdown.aggregates import Aggregate, plan_aggregates
from lance_spark.pushdown.filters import Call, Column, Literal, translate
from lance_spark.pushdown.order import SortKey, sortable

pytestmark = pytest.mark.pure

CHAR, VARCHAR = {LENGTH_KEY: "char(3)"}, {LENGTH_KEY: "varchar(3)"}
LCASE = {TYPE_KEY: "string collate UTF8_LCASE"}


def named(kind):
    return {TYPE_KEY: kind}


def text(kept, kind=None):
    return pa.field("c", pa.string() if kind is None else kind, metadata=kept)


@pytest.mark.parametrize(
    ("kept", "given", "stored"),
    [
        (VARCHAR, ["", "abc", "ab ", None], ["", "abc", "ab ", None]),
        (VARCHAR, ["ab   ", "abc  "], ["ab ", "abc"]),
        (CHAR, ["", "a", "abc", None, "żó"], ["   ", "a  ", "abc", None, "żó "]),
        (CHAR, ["abc    "], ["abc"]),
        ({**LCASE, LENGTH_KEY: "char(3) collate UTF8_LCASE"}, ["A"], ["A  "]),
    ],
)
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_text_with_a_length_is_stored_as_spark_stores_it(kept, given, stored, kind):
    batch = pa.record_batch([pa.array(given, kind)], pa.schema([text(kept, kind)]))
    assert fit(batch, batch.schema).column(0).to_pylist() == stored


@pytest.mark.parametrize("kept", [CHAR, VARCHAR])
def test_text_that_is_too_long_is_refused(kept):
    batch = pa.record_batch([pa.array(["a", "abcd"])], pa.schema([text(kept)]))
    with pytest.raises(SchemaMismatch, match=r"'c' is (var)?char\(3\), and a value has 4 characters"):
        fit(batch, batch.schema)


NESTED = [
    (pa.list_(pa.field("item", pa.string(), metadata=CHAR)), [["a", None], [], None, ["bcd"]], "element"),
    (pa.large_list(pa.field("item", pa.string(), metadata=CHAR)), [["a", None], [], None, ["bcd"]], "element"),
    (pa.struct([pa.field("x", pa.string(), metadata=CHAR), ("n", pa.int8())]), [{"x": "a", "n": 1}, None], "x"),
    (pa.map_(pa.string(), pa.field("value", pa.string(), metadata=CHAR)), [[("k", "a")], None, [], [("l", None)]], ""),
    (pa.map_(pa.field("key", pa.string(), False, CHAR), pa.int8()), [None, [("k", 1), ("lm", None)]], "key"),
    (
        pa.struct([pa.field("l", pa.list_(pa.field("item", pa.struct([pa.field("y", pa.string(), metadata=CHAR)]))))]),
        [None, {"l": [{"y": "a"}, None]}, {"l": None}],
        "l.element.y",
    ),
]


def padded(value):
    if isinstance(value, dict):
        return {key: padded(each) for key, each in value.items()}
    if isinstance(value, list):
        return [padded(each) for each in value]
    if isinstance(value, tuple):
        return tuple(padded(each) for each in value)
    return value.ljust(3) if isinstance(value, str) else value


@pytest.mark.parametrize(("kind", "values", "path"), NESTED)
@pytest.mark.parametrize("cut", [0, 1], ids=["whole", "sliced"])
def test_text_inside_other_columns_is_padded_where_it_lies(kind, values, path, cut):
    schema = pa.schema([pa.field("c", kind)])
    batch = pa.record_batch([pa.array(values, kind)], schema).slice(cut)
    found = fit(batch, schema)
    found.validate(full=True)
    expected = [padded(each) for each in values[cut:]]
    if pa.types.is_map(kind):
        keys = (lambda key: key.ljust(3)) if path == "key" else str
        items = padded if path != "key" else (lambda value: value)
        expected = [each and [(keys(k), items(v)) for k, v in each] for each in values[cut:]]
    assert found.column(0).to_pylist() == expected
    assert found.schema.equals(batch.schema, check_metadata=True)


def test_a_batch_whose_values_fit_is_passed_on():
    schema = pa.schema([text(VARCHAR), pa.field("n", pa.int8())])
    batch = pa.record_batch([pa.array(["ab"]), pa.array([1], pa.int8())], schema)
    assert fit(batch, schema).column(0).buffers()[2].address == batch.column(0).buffers()[2].address
    plain = batch.select(["n"])
    assert fit(plain, plain.schema) is plain


@pytest.mark.parametrize(
    ("kind", "name", "right", "wrong"),
    [
        (pa.time64("ns"), "time(0)", [time(1, 2, 3), None], time(1, 2, 3, 1)),
        (pa.time64("us"), "time(3)", [time(1, 2, 3, 4000)], time(1, 2, 3, 4001)),
        (pa.time32("ms"), "time(2)", [time(1, 2, 3, 10_000)], time(1, 2, 3, 1000)),
        (pa.duration("us"), "interval day", [timedelta(3), timedelta(-3), None], timedelta(hours=1)),
        (pa.duration("us"), "interval day to hour", [timedelta(3, 3600)], timedelta(minutes=1)),
        (pa.duration("us"), "interval hour to minute", [timedelta(minutes=-61)], timedelta(seconds=1)),
        (pa.duration("ns"), "interval minute", [timedelta(minutes=1)], timedelta(seconds=1)),
    ],
)
def test_units_that_a_type_does_not_have_are_refused(kind, name, right, wrong):
    schema = pa.schema([pa.field("c", kind, metadata=named(name))])
    good = pa.record_batch([pa.array(right, kind)], schema)
    assert fit(good, schema).column(0).to_pylist() == good.column(0).to_pylist()
    bad = pa.record_batch([pa.array([*right, wrong], kind)], schema)
    with pytest.raises(SchemaMismatch, match="Column 'c' is"):
        fit(bad, schema)


@pytest.mark.parametrize("name", ["time(6)", "interval minute to second", "interval second", "interval day to second"])
def test_types_with_all_units_hold_every_value(name):
    kind, value = (pa.time64("us"), time(1, 2, 3, 4)) if "time" in name else (pa.duration("us"), timedelta(0, 1, 1))
    batch = pa.record_batch([pa.array([value], kind)], pa.schema([pa.field("c", kind, metadata=named(name))]))
    assert fit(batch, batch.schema).column(0).to_pylist() == [value]


@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        ("string collate UTF8_LCASE", pa.string(), True),
        ("string collate UTF8_LCASE", pa.int8(), False),
        ("time(0)", pa.time32("s"), True),
        ("time(0)", pa.string(), False),
        ("interval day", pa.duration("ms"), True),
        ("interval day", pa.int64(), False),
        ("variant", pa.struct([("value", pa.binary()), ("metadata", pa.binary())]), True),
        ("variant", pa.struct([("a", pa.binary())]), False),
        ("geometry(OGC:CRS84)", pa.struct([("srid", pa.int32()), ("wkb", pa.binary())]), True),
        ("of a later release", pa.string(), False),
    ],
)
def test_a_name_counts_only_beside_values_of_its_kind(name, kind, expected):
    assert belongs(name, kind) is expected


ROWS = [
    (VARCHAR, {LENGTH_KEY: "varchar(5)"}, True),
    (VARCHAR, {}, True),
    (VARCHAR, VARCHAR, True),
    (CHAR, VARCHAR, True),
    (CHAR, {LENGTH_KEY: "varchar(2)"}, False),
    (VARCHAR, {LENGTH_KEY: "varchar(2)"}, False),
    ({}, VARCHAR, False),
    (VARCHAR, CHAR, False),
    (LCASE, {}, True),
    ({}, LCASE, True),
    (named("time(0)"), {}, True),
    (named("time(0)"), named("time(3)"), True),
    ({}, named("time(0)"), False),
    (named("interval day"), named("interval day to minute"), True),
    (named("interval day"), {}, True),
    (named("interval hour to minute"), named("interval day"), False),
]


@pytest.mark.parametrize(("old", "new", "allowed"), ROWS)
def test_a_type_becomes_another_only_if_every_value_stays_valid(old, new, allowed):
    assert (why_not_kept(old, new) is None) is allowed


SCHEMA = pa.schema(
    [
        pa.field("s", pa.string(), metadata=LCASE),
        pa.field("p", pa.string()),
        pa.field("o", pa.struct([pa.field("s", pa.string(), metadata=LCASE), pa.field("p", pa.string())])),
    ]
)


@pytest.mark.parametrize(("path", "pushed"), [(("s",), False), (("p",), True), (("o", "s"), False), (("o", "p"), True)])
def test_lance_is_never_asked_what_a_collation_decides(path, pushed):
    column = Column(path)
    asked = [
        translate(Call("=", (column, Literal("AB", "string"))), SCHEMA),
        translate(Call("IN", (column, Literal("AB", "string"))), SCHEMA),
        translate(Call("STARTS_WITH", (column, Literal("AB", "string"))), SCHEMA),
        plan_aggregates([Aggregate("MIN", column)], [], SCHEMA),
        plan_aggregates([Aggregate("COUNT", column)], [column], SCHEMA),
    ]
    assert [each is not None for each in asked] == [pushed] * len(asked)
    if len(path) == 1:
        assert sortable([SortKey(path[0], True, True)], SCHEMA) is pushed
        assert is_plain(SCHEMA.field(path[0])) is pushed
