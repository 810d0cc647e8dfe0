"""What becomes of Spark's predicates: Lance's SQL, a hint, or nothing. Rows: test_pushdown_filters_of_datasets.py."""

from decimal import Decimal

import pyarrow as pa
import pytest

from lance_spark.format.blobs import BLOB_KEY
from lance_spark.pushdown.filters import Call, Cast, Column, Literal, PushedFilter, conjunction, translate

pytestmark = pytest.mark.pure

SCHEMA = pa.schema(
    [
        ("a", pa.int32()),
        ("b", pa.int64()),
        ("B", pa.int64()),
        ("f", pa.float32()),
        ("d", pa.float64()),
        ("h", pa.float16()),
        ("s", pa.string()),
        ("t", pa.bool_()),
        ("u", pa.uint8()),
        ("u64", pa.uint64()),
        ("n", pa.decimal128(10, 2)),
        ("n256", pa.decimal256(10, 2)),
        ("day", pa.date32()),
        ("day64", pa.date64()),
        ("ts", pa.timestamp("us", "UTC")),
        ("odd_ts", pa.timestamp("us", "it's")),
        ("ms", pa.timestamp("ms")),
        ("ns", pa.timestamp("ns")),
        ("took", pa.duration("us")),
        ("at", pa.time64("us")),
        ("fixed", pa.binary(2)),
        ("v", pa.list_(pa.float32(), 2)),
        ("p", pa.struct([("x", pa.int32()), ("a.b", pa.string()), ("`", pa.int32())])),
        ("k", pa.dictionary(pa.int8(), pa.string())),
        ("tick`", pa.int32()),
        pa.field("blob", pa.large_binary(), metadata={BLOB_KEY: "true"}),
    ]
)


def column(*path):
    return Column(path)


def call(name, *arguments):
    return Call(name, arguments)


def integer(value):
    return Literal(value, "int")


def equal(name, value, kind):
    return call("=", column(name), Literal(value, kind))


A1 = equal("a", 1, "int")
A2 = equal("a", 2, "int")
OURS = call("MURMUR", column("a"))
"""A predicate that only Spark knows."""

TEXTS = [
    (A1, "`a` = 1"),
    (call("=", integer(1), column("a")), "`a` = 1"),
    (call("<", integer(1), column("a")), "`a` > 1"),
    (call("NOT", call("<=", integer(1), column("a"))), "`a` < 1"),
    (equal("a", None, "int"), "false"),
    (call("NOT", equal("a", None, "int")), "false"),
    (call("<=>", column("a"), integer(None)), "`a` IS NULL"),
    (call("<=>", column("a"), integer(3)), "`a` = 3"),
    (call("NOT", call("<=>", integer(3), column("a"))), "(`a` <> 3 OR `a` IS NULL)"),
    (call("IN", column("a"), integer(1), integer(None), integer(1)), "(`a` IN (1))"),
    (call("NOT", call("IN", column("a"), integer(1), integer(None))), "false"),
    (call("NOT", call("IN", column("a"), integer(1), integer(2))), "(`a` NOT IN (1, 2))"),
    (call("IN", column("a"), integer(None)), "false"),
    (column("t"), "`t` = true"),
    (call("NOT", column("t")), "`t` = false"),
    (call("BOOLEAN_EXPRESSION", column("t")), "`t` = true"),
    (call("<=>", column("t"), call("ALWAYS_FALSE")), "`t` = false"),
    (call("IN", column("t"), call("ALWAYS_TRUE"), Literal(None, "boolean")), "(`t` IN (true))"),
    (equal("b", -(2**63), "bigint"), "`b` = CAST('-9223372036854775808' AS BIGINT)"),
    (equal("b", 5, "long"), "`b` = 5"),
    (equal("u", 256, "smallint"), "false"),
    (call("<", column("u"), Literal(300, "smallint")), "`u` IS NOT NULL"),
    (call(">", column("u"), Literal(-1, "smallint")), "`u` IS NOT NULL"),
    (call("<=", column("u"), Literal(-1, "smallint")), "false"),
    (equal("u64", Decimal(2**64 - 1), "decimal(20,0)"), "`u64` = 18446744073709551615"),
    (call("=", Cast(column("a"), "int", "bigint"), Literal(2**40, "bigint")), "false"),
    (call(">", Cast(column("a"), "", "bigint"), Literal(-(2**40), "bigint")), "`a` IS NOT NULL"),
    (equal("f", 0.1, "float"), "`f` = CAST('0.1' AS FLOAT)"),
    (equal("f", 0.10000000149011612, "float"), "`f` = CAST('0.1' AS FLOAT)"),
    (equal("d", -0.0, "double"), "`d` IN (CAST('0.0' AS DOUBLE), CAST('-0.0' AS DOUBLE))"),
    (call(">", column("d"), Literal(2.5, "double")), "(`d` > CAST('2.5' AS DOUBLE) OR `d` < CAST('-inf' AS DOUBLE))"),
    (call(">", column("d"), Literal(float("nan"), "double")), "false"),
    (equal("h", 0.1, "float"), "false"),
    (equal("n", Decimal("1.5"), "decimal(10,2)"), "`n` = CAST('1.5' AS DECIMAL(10,2))"),
    (equal("s", "it's \\ \u00fc", "string"), "`s` = 'it''s \\ \u00fc'"),
    (call("STARTS_WITH", column("s"), Literal("a%_", "string")), "starts_with(`s`, 'a%_')"),
    (call("NOT", call("CONTAINS", column("k"), Literal("'", "string"))), "NOT contains(`k`, '''')"),
    (equal("fixed", b"abc", "binary"), "false"),
    (equal("fixed", b"ab", "binary"), "`fixed` = X'6162'"),
    (equal("day", -719_163, "date"), "`day` = CAST(-719163 AS DATE)"),
    (equal("ts", 5, "timestamp"), "`ts` = arrow_cast(5, 'Timestamp(Microsecond, Some(\"UTC\"))')"),
    (equal("ms", 5_000, "timestamp_ntz"), "`ms` = arrow_cast(5, 'Timestamp(Millisecond, None)')"),
    (equal("ms", 5_001, "timestamp_ntz"), "false"),
    (call(">", column("ns"), Literal(-(10**18), "timestamp_ntz")), "`ns` IS NOT NULL"),
    (call("<", column("ns"), Literal(-(10**18), "timestamp_ntz")), "false"),
    (equal("k", "x", "string"), "`k` = 'x'"),
    (call("IS_NULL", column("v")), "`v` IS NULL"),
    (call("IS_NULL", column("p", "x")), "(`p`.`x` IS NULL) IS TRUE"),
    (call("=", column("p", "a.b"), Literal("y", "string")), "`p`.`a.b` = 'y'"),
    (call("<", column("b"), column("B")), "`b` < `B`"),
    (call("NOT", call("<", column("b"), column("B"))), "`b` >= `B`"),
    (call("AND", A1, A2), "(`a` = 1) AND (`a` = 2)"),
    (call("NOT", call("AND", A1, call("NOT", A2))), "(`a` <> 1) OR (`a` = 2)"),
    (call("AND", A1, call("AND", call("ALWAYS_TRUE"), A2)), "(`a` = 1) AND (`a` = 2)"),
    (call("OR", A1, call("ALWAYS_FALSE")), "`a` = 1"),
    (call("OR", A1, call("ALWAYS_TRUE")), "true"),
    (call("AND", OURS, call("ALWAYS_FALSE")), "false"),
    (call("NOT", Literal(None, "boolean")), "false"),
]


@pytest.mark.parametrize(("predicate", "sql"), TEXTS, ids=[sql for _, sql in TEXTS])
def test_predicates_become_exact_filters(predicate, sql):
    assert translate(predicate, SCHEMA) == PushedFilter(sql, exact=True)


HINTS = [
    (call("AND", A1, OURS), "`a` = 1"),
    (call("OR", call("AND", OURS, A1), A2), "(`a` = 1) OR (`a` = 2)"),
    (call("NOT", call("OR", OURS, A1)), "`a` <> 1"),
    (call("AND", call("OR", call("AND", OURS, A1), A2), A2), "((`a` = 1) OR (`a` = 2)) AND (`a` = 2)"),
]


@pytest.mark.parametrize(("predicate", "sql"), HINTS, ids=[sql for _, sql in HINTS])
def test_parts_of_predicates_become_inexact_filters(predicate, sql):
    assert translate(predicate, SCHEMA) == PushedFilter(sql, exact=False)


REFUSED = {
    "a function of Spark": OURS,
    "unknown column": equal("x", 1, "int"),
    "other case": equal("A", 1, "int"),
    "unknown field": call("=", column("p", "X"), integer(1)),
    "field of no struct": call("=", column("a", "x"), integer(1)),
    "backtick": equal("tick`", 1, "int"),
    "backtick inside": call("IS_NULL", column("p", "`")),
    "blob": call("IS_NOT_NULL", column("blob")),
    "other type": equal("a", 1, "bigint"),
    "decimal of another scale": equal("n", Decimal("1.500"), "decimal(11,3)"),
    "collation": equal("s", "a", "string collate UTF8_LCASE"),
    "cast to a fraction": call("=", Cast(column("a"), "int", "double"), Literal(1.0, "double")),
    "cast that narrows": call("=", Cast(column("b"), "bigint", "int"), integer(1)),
    "cast of a fraction": call("=", Cast(column("d"), "double", "bigint"), Literal(1, "bigint")),
    "cast that narrows decimals": call("=", Cast(column("u64"), "decimal(20,0)", "bigint"), Literal(1, "bigint")),
    "between two halves": call("<", column("h"), Literal(0.1, "float")),
    "between two milliseconds": call("<", column("ms"), Literal(5_001, "timestamp_ntz")),
    "binary of another width": call("<", column("fixed"), Literal(b"abc", "binary")),
    "256 bits": equal("n256", Decimal(1), "decimal(10,2)"),
    "milliseconds of a date": equal("day64", 1, "date"),
    "quotes in a time zone": equal("odd_ts", 1, "timestamp"),
    "a span of time": equal("took", 1, "interval day to second"),
    "a time": equal("at", 1, "time(6)"),
    "no Unicode": equal("s", "\ud800", "string"),
    "list": equal("v", [1.0], "array<float>"),
    "floats of two columns": call("=", column("d"), column("d")),
    "columns of two types": call("=", column("a"), column("b")),
    "null-safe equality of two columns": call("<=>", column("b"), column("B")),
    "list with a column": call("IN", column("b"), Literal(1, "bigint"), column("B")),
    "part that is a column": call("CONTAINS", column("s"), column("s")),
    "arithmetic": call("=", call("+", column("a"), integer(1)), integer(2)),
    "null of an expression": call("IS_NULL", call("+", column("a"), integer(1))),
    "an integer as truth": integer(1),
    "parts of numbers": call("STARTS_WITH", column("a"), integer(1)),
}


@pytest.mark.parametrize("predicate", REFUSED.values(), ids=REFUSED)
def test_what_is_left_to_spark(predicate):
    assert translate(predicate, SCHEMA) is None
    assert translate(call("NOT", predicate), SCHEMA) is None


HALF_KNOWN = {
    "either": call("OR", OURS, A1),
    "not both": call("NOT", call("AND", OURS, A1)),
    "nothing known but what is always true": call("AND", OURS, call("ALWAYS_TRUE")),
}


@pytest.mark.parametrize("predicate", HALF_KNOWN.values(), ids=HALF_KNOWN)
def test_what_is_no_hint(predicate):
    assert translate(predicate, SCHEMA) is None


def chained(name, count):
    found = A1
    for number in range(count):
        found = call(name, found, equal("a", number, "int"))
    return found


def test_long_chains_stay_flat_and_too_long_ones_are_left_to_spark():
    assert translate(chained("OR", 900), SCHEMA).sql.count("(") == 901
    assert translate(chained("OR", 1_000), SCHEMA) is None
    assert not translate(chained("AND", 1_000), SCHEMA).exact


def nested(levels):
    found = equal("d", 1.5, "double")
    for number in range(levels):
        found = call("AND" if number % 2 else "OR", found, call(">", column("d"), Literal(0.5, "double")))
    return found


def test_what_is_too_deep_for_the_parser_is_a_hint():
    assert translate(nested(16), SCHEMA).exact
    for predicate in (nested(40), call("NOT", nested(40))):
        found = translate(predicate, SCHEMA)
        assert not found.exact
        assert max(opened(found.sql)) < 40


def opened(sql):
    """How many brackets are open at each place."""
    depth = 0
    for letter in sql:
        depth += (letter == "(") - (letter == ")")
        yield depth


def test_very_long_texts_are_left_to_spark():
    assert translate(equal("s", "x" * 2**20, "string"), SCHEMA) is None
    assert translate(call("IN", column("b"), *(Literal(n, "bigint") for n in range(50_000))), SCHEMA).exact


def test_filters_together():
    filters = [PushedFilter("true", True), PushedFilter("`a` = 1", True), PushedFilter("x OR y", False)]
    assert conjunction(filters) == "(`a` = 1) AND (x OR y)"
    assert conjunction([*filters, PushedFilter("false", True)]) == "false"
    assert conjunction(filters[:1]) is None
    assert conjunction([]) is None


NULL_TESTS = [
    ([A1], "(`a` = 1)"),
    ([call("IS_NOT_NULL", column("a")), A1], "(`a` = 1)"),
    ([call("NOT", call("IS_NULL", column("a"))), call("NOT", A1)], "(`a` <> 1)"),
    ([call("IS_NOT_NULL", column("b")), A1], "(`b` IS NOT NULL) AND (`a` = 1)"),
    ([call("IS_NOT_NULL", column("a"))] * 2, "(`a` IS NOT NULL) AND (`a` IS NOT NULL)"),
    ([call("IS_NOT_NULL", column("a")), call("IS_NULL", column("a"))], "(`a` IS NOT NULL) AND (`a` IS NULL)"),
    (
        [call("IS_NOT_NULL", column("a")), call("NOT", call("<=>", column("a"), integer(1)))],
        "(`a` IS NOT NULL) AND ((`a` <> 1 OR `a` IS NULL))",
    ),
    ([call("IS_NOT_NULL", column("a")), call("AND", A1, OURS)], "(`a` = 1)"),
    (
        [call("IS_NOT_NULL", column("a")), call("OR", A1, equal("b", 1, "bigint"))],
        "(`a` IS NOT NULL) AND ((`a` = 1) OR (`b` = 1))",
    ),
    (
        [call("IS_NOT_NULL", column("u")), call("<", column("u"), Literal(300, "smallint"))],
        "(`u` IS NOT NULL)",
    ),
    ([call("IS_NOT_NULL", column("p", "x")), call("=", column("p", "x"), integer(1))], "(`p`.`x` = 1)"),
    ([call("IS_NOT_NULL", column("p")), call("=", column("p", "x"), integer(1))], "(`p`.`x` = 1)"),
    (
        [call("IS_NOT_NULL", column("p", "x")), call("=", column("p", "a.b"), Literal("y", "string"))],
        "((`p`.`x` IS NOT NULL) IS TRUE) AND (`p`.`a.b` = 'y')",
    ),
    (
        [call("IS_NOT_NULL", column("b")), call("<", column("b"), column("B")), call("IS_NOT_NULL", column("B"))],
        "(`b` < `B`)",
    ),
    ([call("IS_NOT_NULL", column("a")), equal("a", None, "int")], "false"),
]


@pytest.mark.parametrize(("predicates", "sql"), NULL_TESTS, ids=[sql for _, sql in NULL_TESTS])
def test_null_tests_that_go_without_saying_are_left_out(predicates, sql):
    assert conjunction(found for each in predicates if (found := translate(each, SCHEMA))) == sql
