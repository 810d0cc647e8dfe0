"""Partial aggregates: Spark's own types come out, and Spark makes the same of the parts as of the rows."""

import math
import pickle
from datetime import date, datetime, timezone
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.spark_merging import Overflow, aggregated, merged

from lance_spark.format.blobs import BLOB_KEY
from lance_spark.pushdown import aggregates
from lance_spark.pushdown.aggregates import Aggregate, aggregate, plan_aggregates
from lance_spark.pushdown.filters import Column

pytestmark = pytest.mark.pure

NAN, INF = math.nan, math.inf
BIG = 2**63 - 1


def column(*path):
    return Column(path)


def wanted(*pairs):
    return [Aggregate(name, column(*path.split(".")) if path else None) for name, path in pairs]


def run(table, aggregates, groups=(), rows=None):
    """Partial rows as tuples, from batches of so many rows."""
    plan = plan_aggregates(aggregates, [column(name) for name in groups], table.schema)
    plan = pickle.loads(pickle.dumps(plan))
    batches = table.select(plan.columns or table.column_names[:1]).to_batches(rows)
    found = list(aggregate(plan, batches))
    assert all(batch.schema.equals(plan.output) for batch in found)
    return [tuple(row.values()) for batch in found for row in batch.to_pylist()]


TYPES = [
    (pa.int8(), "SUM", pa.int64()),
    (pa.uint32(), "SUM", pa.int64()),
    (pa.int64(), "SUM", pa.int64()),
    (pa.uint64(), "SUM", pa.decimal128(20, 0)),
    (pa.float16(), "SUM", pa.float64()),
    (pa.float32(), "SUM", pa.float64()),
    (pa.decimal128(10, 2), "SUM", pa.decimal128(10, 2)),
    (pa.decimal128(28, 2), "SUM", pa.decimal128(28, 2)),
    (pa.decimal128(29, 2), "SUM", None),
    (pa.string(), "SUM", None),
    (pa.bool_(), "SUM", None),
    (pa.date32(), "SUM", None),
    (pa.uint8(), "MIN", pa.int16()),
    (pa.uint64(), "MAX", pa.decimal128(20, 0)),
    (pa.float16(), "MAX", pa.float32()),
    (pa.large_string(), "MIN", pa.string()),
    (pa.dictionary(pa.int8(), pa.string()), "MIN", pa.string()),
    (pa.binary(3), "MAX", pa.binary()),
    (pa.timestamp("ns", "Europe/Berlin"), "MAX", pa.timestamp("us", "UTC")),
    (pa.timestamp("s"), "MIN", pa.timestamp("us")),
    (pa.decimal256(50, 2), "MIN", None),
    (pa.duration("us"), "MIN", None),
    (pa.list_(pa.int32()), "MIN", None),
    (pa.list_(pa.int32()), "COUNT", pa.int64()),
    (pa.struct([("a", pa.int32())]), "COUNT", pa.int64()),
    (pa.int32(), "AVG", None),
]


@pytest.mark.parametrize(("kind", "function", "output"), TYPES, ids=str)
def test_the_types_that_come_out(kind, function, output):
    schema = pa.schema([("c", kind)])
    plan = plan_aggregates(wanted((function, "c")), [], schema)
    assert (None if plan is None else plan.output.field(0).type) == output
    if plan is not None:
        (batch,) = aggregate(plan, pa.table({"c": pa.array([], kind)}).to_batches())
        assert batch.to_pydict() == {f"{function.lower()}(c)": [0 if function == "COUNT" else None]}


NOT_POSSIBLE = [
    [Aggregate("COUNT", column("a"), distinct=True)],
    [Aggregate("SUM", None)],
    [Aggregate("SUM", column("unknown"))],
    [Aggregate("MIN", column("A"))],
    [Aggregate("COUNT", column("blob"))],
    [Aggregate("COUNT", column("a")), Aggregate("MAX", column("s"))],
    [],
]
SCHEMA = pa.schema(
    [
        ("a", pa.int64()),
        ("s", pa.struct([("x", pa.int32())])),
        ("l", pa.list_(pa.int32())),
        pa.field("blob", pa.large_binary(), metadata={BLOB_KEY: "true"}),
    ]
)


@pytest.mark.parametrize("aggregates", NOT_POSSIBLE, ids=range(len(NOT_POSSIBLE)))
def test_aggregates_that_lance_lacks_are_left_to_spark(aggregates):
    assert plan_aggregates(aggregates, [], SCHEMA) is None


@pytest.mark.parametrize("group", [("s",), ("l",), ("blob",), ("unknown",), ("s", "y"), ("a", "x")])
def test_groups_that_lance_lacks_are_left_to_spark(group):
    assert plan_aggregates(wanted(("COUNT_STAR", "")), [Column(group)], SCHEMA) is None


def test_names_are_for_people_and_unique():
    schema = pa.schema([("a", pa.int64()), ("A", pa.int64()), ("count(*)", pa.int64())])
    aggregates = wanted(("COUNT_STAR", ""), ("SUM", "a"), ("SUM", "A"))
    plan = plan_aggregates(aggregates, [column("count(*)"), column("a"), column("A")], schema)
    assert plan.output.names == ["count(*)", "a", "A'", "count(*)'", "sum(a)", "sum(A)'"]
    assert plan.columns == ("count(*)", "a", "A")


AVERAGES = [
    (pa.int64(), False),
    (pa.dictionary(pa.int8(), pa.int64()), False),
    (pa.int32(), True),
    (pa.uint32(), True),
    (pa.uint64(), True),
    (pa.float64(), True),
    (pa.decimal128(10, 2), True),
]


@pytest.mark.parametrize(("kind", "possible"), AVERAGES, ids=str)
def test_an_average_does_not_overflow_where_spark_would_not(kind, possible):
    """Spark asks first with the average, then with what it has made of it."""
    split = wanted(("SUM", "a"), ("COUNT", "a"))
    for asked in (wanted(("AVG", "a")), wanted(("SUM", "a"), ("AVG", "a"))):
        plan = plan_aggregates(split, [], pa.schema([("a", kind)]), [*asked, *split])
        assert (plan is not None) == possible
    assert plan_aggregates(split, [], pa.schema([("a", kind)]), split) is not None


def test_without_groups_there_is_a_row_even_without_batches():
    plan = plan_aggregates(wanted(("COUNT_STAR", ""), ("COUNT", "a"), ("SUM", "a"), ("MAX", "a")), [], SCHEMA)
    (batch,) = aggregate(plan, [])
    assert list(batch.to_pylist()[0].values()) == [0, 0, None, None]
    assert list(aggregate(plan_aggregates(wanted(("COUNT_STAR", "")), [column("a")], SCHEMA), [])) == []


def test_rows_are_counted_in_batches_without_the_plans_columns():
    plan = plan_aggregates(wanted(("COUNT_STAR", "")), [], SCHEMA)
    assert plan.columns == ()
    (batch,) = aggregate(plan, pa.table({"_rowaddr": range(10)}).to_batches(3))
    assert batch.to_pydict() == {"count(*)": [10]}


def test_fields_of_structs_are_null_below_null_structs():
    inner = pa.StructArray.from_arrays(
        [pa.array([1, 2, 4, None])], names=["a.b"], mask=pa.array([False, True, False, False])
    )
    outer = pa.StructArray.from_arrays([inner], names=["y"], mask=pa.array([False, False, True, False]))
    plan = plan_aggregates(
        [Aggregate(name, column("o", "y", "a.b")) for name in ("COUNT", "SUM", "MAX")]
        + [Aggregate("COUNT", column("o", "y")), Aggregate("COUNT", column("o"))],
        [],
        pa.schema([("o", outer.type)]),
    )
    (batch,) = aggregate(plan, pa.table({"o": outer}).to_batches())
    assert list(batch.to_pylist()[0].values()) == [1, 1, 1, 2, 3]


EXTREMES = [
    ([NAN, 1.0], 1.0, NAN),
    ([NAN, INF, -INF], -INF, NAN),
    ([NAN, None, NAN], NAN, NAN),
    ([None], None, None),
    ([1.0, None, 2.0], 1.0, 2.0),
]


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32(), pa.float16()], ids=str)
@pytest.mark.parametrize("size", [1, 10])
@pytest.mark.parametrize(("values", "least", "greatest"), EXTREMES)
def test_nan_is_the_greatest_float(kind, size, values, least, greatest, monkeypatch):
    monkeypatch.setattr(aggregates, "CHUNK_ROWS", 1)
    table = pa.table(
        {
            "v": pa.array(
                np.array([NAN if v is None else v for v in values], kind.to_pandas_dtype()),
                mask=np.array([v is None for v in values]),
            )
        }
    )
    (row,) = run(table, wanted(("MIN", "v"), ("MAX", "v")), rows=size)
    assert repr(row) == repr((least, greatest))


def test_keys_that_spark_takes_for_one():
    negative = np.array([0xFFF8000000000000], np.uint64).view(np.float64)[0]
    table = pa.table({"k": pa.array([0.0, -0.0, NAN, negative, None, None], from_pandas=False), "v": range(6)})
    found = run(table, wanted(("SUM", "v")), ["k"])
    assert repr(found) == repr([(0.0, 1), (NAN, 5), (None, 9)])


def test_values_come_as_spark_holds_them():
    table = pa.table(
        {
            "k": pa.array(["x", "x", None]).dictionary_encode(),
            "s": pa.array(["\uffff", "\U0001f600", None], pa.large_string()),
            "t": pa.array([1, 2, None], pa.timestamp("ms", "Europe/Berlin")),
            "d": pa.array([-141_428, 0, None], pa.int32()).cast(pa.date32()),
            "u": pa.array([2**64 - 1, 0, None], pa.uint64()),
            "b": [b"\x7f", b"\x80", None],
            "o": [True, False, None],
        }
    )
    aggregates = wanted(("MAX", "s"), ("MAX", "t"), ("MIN", "d"), ("MAX", "u"), ("MAX", "b"), ("MAX", "o"))
    assert run(table, aggregates, ["k"]) == [
        (
            "x",
            "\U0001f600",
            datetime(1970, 1, 1, 0, 0, 0, 2000, tzinfo=timezone.utc),
            date(1582, 10, 14),
            Decimal(2**64 - 1),
            b"\x80",
            True,
        ),
        (None,) * 7,
    ]


OVERFLOWS = [
    # values, what Spark makes of them
    ([BIG, 1], Overflow),
    ([BIG, 1, -1], BIG),
    ([-BIG - 1, -1], Overflow),
    ([-BIG - 1], -BIG - 1),
    ([-BIG - 1, BIG, 1], 0),
    ([2**62] * 2, Overflow),
    ([2**62, 2**62, -(2**62), None], 2**62),
    ([BIG] * 5 + [-BIG] * 5, 0),
    ([None, None], None),
]


@pytest.mark.parametrize("size", [1, 2, 100])
@pytest.mark.parametrize(("values", "total"), OVERFLOWS)
def test_no_part_of_a_sum_overflows(values, total, size, monkeypatch):
    monkeypatch.setattr(aggregates, "CHUNK_ROWS", size)
    table = pa.table({"v": pa.array(values, pa.int64()), "k": [0] * len(values)})
    for groups in ([], ["k"]):
        parts = run(table, wanted(("SUM", "v"), ("COUNT", "v"), ("MIN", "v")), groups, rows=size)
        sums = [row[-3] for row in parts if row[-3] is not None]
        assert all(-BIG - 1 <= part <= BIG for part in sums)
        assert (sum(sums) if sums else None) == (
            sum(v for v in values if v is not None) if any(v is not None for v in values) else None
        )
        assert sum(row[-2] for row in parts) == sum(v is not None for v in values)
        if total is Overflow:
            with pytest.raises(Overflow):
                merged(parts, len(groups), ["SUM", "COUNT", "MIN"])
        else:
            ((result),) = merged(parts, len(groups), ["SUM", "COUNT", "MIN"]).values()
            assert result[0] == total


def test_sums_of_decimals_stay_within_the_type_of_the_column():
    most = Decimal("999.99")
    table = pa.table(
        {
            "k": pa.array([n % 3 if n % 7 else None for n in range(2_000)]),
            "v": pa.array([most if n % 3 else -most for n in range(2_000)], pa.decimal128(5, 2)),
            "w": pa.array([Decimal(n) for n in range(2_000)], pa.decimal128(28, 0)),
        }
    )
    functions = ["SUM", "COUNT_STAR", "SUM", "MAX"]
    aggregates = wanted(("SUM", "v"), ("COUNT_STAR", ""), ("SUM", "w"), ("MAX", "v"))
    parts = run(table, aggregates, ["k"], rows=100)
    rows = [(row["k"], row["v"], None, row["w"], row["v"]) for row in table.to_pylist()]
    limit = Decimal(10) ** 13
    assert all(abs(row[1]) <= most for row in parts if row[1] is not None)
    assert merged(parts, 1, functions, limit) == aggregated(rows, 1, functions, limit)


def test_more_groups_than_are_kept_come_out_in_parts(monkeypatch):
    monkeypatch.setattr(aggregates, "MAX_GROUPS", 50)
    monkeypatch.setattr(aggregates, "CHUNK_ROWS", 64)
    count = 2_000
    table = pa.table({"k": [n * 7 % 120 for n in range(count)], "j": range(count), "v": range(count)})
    for keys in (["k"], ["j"], ["k", "j"]):
        parts = run(table, wanted(("COUNT_STAR", ""), ("SUM", "v")), keys, rows=10)
        rows = [(*(row[key] for key in keys), None, row["v"]) for row in table.to_pylist()]
        assert merged(parts, len(keys), ["COUNT_STAR", "SUM"]) == aggregated(rows, len(keys), ["COUNT_STAR", "SUM"])
    assert len(run(table, wanted(("COUNT_STAR", "")), ["k"], rows=10)) > 120


def test_groups_of_long_strings_are_bounded_in_bytes(monkeypatch):
    monkeypatch.setattr(aggregates, "MAX_BYTES", 1_000)
    monkeypatch.setattr(aggregates, "CHUNK_BYTES", 500)
    table = pa.table({"k": [str(n % 10) * 200 for n in range(200)]})
    parts = run(table, wanted(("COUNT_STAR", "")), ["k"], rows=5)
    assert len(parts) > 10
    assert merged(parts, 1, ["COUNT_STAR"]) == {(str(n) * 200,): (20,) for n in range(10)}


FLOATS = st.sampled_from([NAN, 0.0, -0.0, 1.5, -2.5, INF, -INF]) | st.floats(-1e6, 1e6, width=32)
COLUMNS = {
    "i": (pa.int64(), st.integers(-(2**63), 2**63 - 1) | st.integers(-5, 5)),
    "n": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "u": (pa.uint8(), st.integers(0, 255)),
    "f": (pa.float64(), FLOATS),
    "g": (pa.float32(), FLOATS),
    "d": (pa.decimal128(6, 2), st.decimals(-9999, 9999, places=2)),
    "s": (pa.string(), st.text(max_size=3)),
    "b": (pa.bool_(), st.booleans()),
    "t": (pa.timestamp("us", "UTC"), st.integers(-(2**50), 2**50)),
}


@st.composite
def queries(draw):
    """(table, aggregates, group columns, rows of a batch)"""
    count = draw(st.integers(0, 25))
    names = sorted(COLUMNS)
    table = pa.table(
        {
            name: pa.array(
                draw(st.lists(st.none() | COLUMNS[name][1], min_size=count, max_size=count)), COLUMNS[name][0]
            )
            for name in names
        }
    )
    groups = draw(st.lists(st.sampled_from(names), unique=True, max_size=2))
    possible = [(function, name) for name in names for function in ("COUNT", "MIN", "MAX")]
    possible += [("SUM", name) for name in "inufgd"] + [("COUNT_STAR", "")]
    aggregates = draw(st.lists(st.sampled_from(possible), unique=True, min_size=1, max_size=5))
    return table, aggregates, groups, draw(st.sampled_from([1, 3, 100]))


@given(queries())
def test_what_spark_makes_of_the_parts_is_what_it_makes_of_the_rows(query):
    table, aggregates, groups, size = query
    functions = [function for function, _ in aggregates]
    taken = [*groups, *(name for _, name in aggregates)]
    rows = [tuple(row.get(name) for name in taken) for row in spark_values(table).to_pylist()]
    limit = Decimal(10) ** 30
    parts = [tuple(row) for row in run(table, wanted(*aggregates), groups, size)]
    assert close(merged(parts, len(groups), functions, limit), aggregated(rows, len(groups), functions, limit))


def spark_values(table):
    """Floats as doubles, as Spark adds them up."""
    return table.set_column(table.schema.get_field_index("g"), "g", pc.cast(table["g"], pa.float64()))


def close(left, right):
    """Equal, but for the last digits of sums of floats, which depend on the order."""
    if left.keys() != right.keys():
        return False
    pairs = [pair for key in left for pair in zip(left[key], right[key], strict=True)]
    return all(
        math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-6) or repr(one) == repr(other)
        if isinstance(one, float) and isinstance(other, float)
        else one == other
        for one, other in pairs
    )
