"""Filters that are pushed to Lance keep the rows that Spark keeps: against an oracle, with and without indexes."""

import itertools
import random

import lance
import pyarrow as pa
import pytest
from support import filtered_columns
from support.spark_semantics import holds, spark_rows

from lance_spark.pushdown.filters import Call, Column, Literal, conjunction, field_at, spark_name, translate
from lance_spark.scan.partition_rules import answering_indexes

OPERATORS = ("=", "<>", "<", "<=", ">", ">=", "<=>")
NESTED = [("point", "x"), ("point", "X"), ("point", "y", "z"), ("point", "a.b c")]
INEXACT = ("half", "fixed_binary", "timestamp_s", "timestamp_ms", "timestamp_ns")
COLUMNS = [(name,) for name in filtered_columns.table().column_names if name not in ("point", "list")] + NESTED


@pytest.fixture(scope="module", params=[None, "BTREE", "BITMAP", "ZONEMAP", "BLOOMFILTER", "NGRAM"])
def dataset(request, tmp_path_factory):
    """Fragments of four rows, some deleted, the last ones unknown to the indexes."""
    uri = str(tmp_path_factory.mktemp("filters") / "t.lance")
    rows = filtered_columns.table()
    made = lance.write_dataset(pa.concat_tables([rows, rows]), uri, max_rows_per_file=4)
    made.delete("id = 3")
    if request.param is not None:
        indexed = [path for path in [*COLUMNS, ("point",)] if index(made, path, request.param)]
        assert indexed
    lance.write_dataset(rows, uri, mode="append", max_rows_per_file=5)
    lance.dataset(uri).delete("id = 7")
    return lance.dataset(uri)


def index(dataset, path, kind):
    try:
        dataset.create_scalar_index(".".join(path), kind, name="_".join(path).encode().hex())
    except (ValueError, TypeError, OSError, NotImplementedError, KeyError):
        return False  # not every kind of index takes every type
    return True


@pytest.fixture(scope="module")
def rows(dataset):
    addressed = dataset.scanner(with_row_address=True).to_table()
    return list(zip(addressed["_rowaddr"].to_pylist(), spark_rows(addressed.drop_columns("_rowaddr")), strict=True))


def kept(dataset, sql):
    return sorted(dataset.scanner(columns=[], filter=sql, with_row_address=True).to_table()["_rowaddr"].to_pylist())


def expected(rows, predicate):
    return sorted(address for address, row in rows if holds(predicate, row) is True)


def literals(dataset, rows, path):
    """Constants for a column: some of its own values, the ones beside it, and null."""
    kind = spark_name(field_at(dataset.schema, path).type)
    own = {repr(value): value for value in (holds(Column(path), row) for _, row in rows)}
    return [Literal(value, kind) for value in [*list(own.values())[:7], *filtered_columns.SPECIAL[kind], None]]


@pytest.mark.when(day=0.025)
@pytest.mark.parametrize("path", COLUMNS, ids=".".join)
def test_comparisons_keep_the_rows_that_spark_keeps(dataset, rows, path):
    constants = literals(dataset, rows, path)
    wrong, refused = [], []
    for operator, constant in itertools.product(OPERATORS, constants):
        predicate = Call(operator, (Column(path), constant))
        check(dataset, rows, predicate, wrong, refused)
        check(dataset, rows, Call("NOT", (predicate,)), wrong, refused)
    for operator in OPERATORS:
        check(dataset, rows, Call(operator, (constants[0], Column(path))), wrong, refused)
    lists = [constants[:3], constants[-4:], constants[-1:], constants[:-1], constants]
    for listed in lists:
        member = Call("IN", (Column(path), *listed))
        check(dataset, rows, member, wrong, refused)
        check(dataset, rows, Call("NOT", (member,)), wrong, refused)
    for name in ("IS_NULL", "IS_NOT_NULL"):
        check(dataset, rows, Call(name, (Column(path),)), wrong, refused)
        check(dataset, rows, Call("NOT", (Call(name, (Column(path),)),)), wrong, refused)
    assert not wrong, wrong[:5]
    # What is refused is slow, not wrong; but only constants that the column's own type cannot hold may be.
    assert not refused or path[0] in INEXACT, refused[:5]


def check(dataset, rows, predicate, wrong, refused):
    found = translate(predicate, dataset.schema)
    if found is None:
        refused.append(predicate)
        return
    assert found.exact
    got = kept(dataset, found.sql)
    if got != expected(rows, predicate):
        wrong.append((predicate, found.sql, got, expected(rows, predicate)))


@pytest.mark.parametrize("path", [("string",), ("large_string",), ("dictionary",), ("point", "y", "z")], ids=".".join)
def test_parts_of_strings(dataset, rows, path):
    wrong, refused = [], []
    for name, part in itertools.product(
        ("STARTS_WITH", "ENDS_WITH", "CONTAINS"),
        ["", "a", "%", "_", "a%", "\\", "'", "\U0001f600", "\x00", "b", "line", "a\\", None, "ab", 'q"q', "\uffff"],
    ):
        predicate = Call(name, (Column(path), Literal(part, "string")))
        check(dataset, rows, predicate, wrong, refused)
        check(dataset, rows, Call("NOT", (predicate,)), wrong, refused)
    assert not wrong, wrong[:5]
    assert not refused


@pytest.mark.parametrize("name", ["list", "point"])
def test_nulls_of_nested_columns(dataset, rows, name):
    wrong, refused = [], []
    for test in ("IS_NULL", "IS_NOT_NULL"):
        check(dataset, rows, Call(test, (Column((name,)),)), wrong, refused)
    assert not wrong
    assert not refused


def some(draw, dataset, rows, depth):
    """A predicate at random, with parts that cannot be translated."""
    if depth and draw.random() < 0.75:
        name = draw.choice(["AND", "OR", "NOT"])
        return Call(name, tuple(some(draw, dataset, rows, depth - 1) for _ in range(1 if name == "NOT" else 2)))
    path = draw.choice(COLUMNS)
    column = Column(path)
    kind = draw.random()
    if kind < 0.1:
        # Spark compares with a value of another column type here: not ours to say.
        return Call("<=>", (Call("COALESCE", (column,)), Literal(None, "void")))
    if kind < 0.2:
        return Call(draw.choice(["IS_NULL", "IS_NOT_NULL"]), (column,))
    if kind < 0.3:
        return Call(draw.choice(["ALWAYS_TRUE", "ALWAYS_FALSE"]))
    constants = literals(dataset, rows, path)
    if kind < 0.4:
        return Call("IN", (column, *draw.choices(constants, k=3)))
    return Call(draw.choice(OPERATORS), (column, draw.choice(constants)))


@pytest.mark.when(day=0.5)
def test_combinations_keep_at_least_the_rows_that_spark_keeps(dataset, rows, monkeypatch):
    draw = random.Random(20)
    exact = hints = 0
    for _ in range(400):
        predicate = some(draw, dataset, rows, 4)
        found = translate(predicate, dataset.schema)
        if found is None:
            continue
        got, wanted = kept(dataset, found.sql), expected(rows, predicate)
        exact += found.exact
        hints += not found.exact
        assert got == wanted if found.exact else set(got) >= set(wanted), (predicate, found.sql)
    assert exact > 100
    assert hints > 10


@pytest.mark.parametrize("levels", [16, 17, 60])
def test_deep_predicates_are_parsed(dataset, rows, levels):
    predicate = Call("=", (Column(("double",)), Literal(1.5, "double")))
    for number in range(levels):
        other = Call(">", (Column(("double",)), Literal(number - 2.0, "double")))
        predicate = Call("AND" if number % 2 else "OR", (predicate, other))
    for each in (predicate, Call("NOT", (predicate,))):
        found = translate(each, dataset.schema)
        assert set(kept(dataset, found.sql)) >= set(expected(rows, each))


def test_long_predicates_are_parsed(dataset, rows):
    many = tuple(Call("=", (Column(("id",)), Literal(number, "bigint"))) for number in range(2, 1_000))
    predicate = Call("OR", many)
    assert kept(dataset, translate(predicate, dataset.schema).sql) == expected(rows, predicate)
    listed = Call("IN", (Column(("bigint",)), *(Literal(number, "bigint") for number in range(-5_000, 5_000))))
    assert kept(dataset, translate(listed, dataset.schema).sql) == expected(rows, listed)


def test_columns_of_one_type_are_compared_with_each_other(dataset, rows):
    wrong, refused = [], []
    for operator in OPERATORS[:-1]:
        for left, right in ((("Case",), ("select",)), (("point", "x"), ("point", "X")), (("point", "x"), ("Case",))):
            predicate = Call(operator, (Column(left), Column(right)))
            check(dataset, rows, predicate, wrong, refused)
            check(dataset, rows, Call("NOT", (predicate,)), wrong, refused)
    assert not wrong
    assert not refused


def test_several_filters_are_one(dataset, rows):
    first = Call("OR", (Call(">", (Column(("id",)), Literal(2, "bigint"))), Call("IS_NULL", (Column(("string",)),))))
    second = Call("<", (Column(("id",)), Literal(9, "bigint")))
    sql = conjunction(found for each in (first, second) if (found := translate(each, dataset.schema)))
    assert kept(dataset, sql) == expected(rows, Call("AND", (first, second)))
    assert conjunction([]) is None


@pytest.fixture(scope="module")
def looked_up(tmp_path_factory):
    dataset = lance.write_dataset(filtered_columns.table(), str(tmp_path_factory.mktemp("indexed") / "t.lance"))
    for name in INDEXED:
        dataset.create_scalar_index(name, "BTREE")
    return lance.dataset(dataset.uri)


INDEXED = {
    "id": "bigint",
    "bigint": "bigint",
    "uint8": "smallint",
    "uint64": "decimal(20,0)",
    "double": "double",
    "float": "float",
    "decimal": "decimal(10,2)",
    "string": "string",
    "binary": "binary",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp_berlin": "timestamp",
    "timestamp_ntz": "timestamp_ntz",
    "point.x": "int",
}
ANSWERED = {
    "equality": ("=", 0),
    "smallest": ("=", 1),
    "range": ("<", 0),
    "from": (">=", 1),
    "null-safe": ("<=>", 0),
    "list": ("IN", 0),
}


@pytest.mark.parametrize("question", ANSWERED)
@pytest.mark.parametrize("name", INDEXED)
def test_indexes_alone_answer(looked_up, name, question):
    """As Spark asks: with a null test beside. Anything left to be checked would cost the index-only plan."""
    column = Column(tuple(name.split(".")))
    own = {repr(value): value for row in spark_rows(looked_up.to_table()) if (value := holds(column, row)) is not None}
    operator, at = ANSWERED[question]
    wanted = Call(operator, (column, Literal(list(own.values())[at], INDEXED[name])))
    filters = [translate(each, looked_up.schema) for each in (Call("IS_NOT_NULL", (column,)), wanted)]
    explained = looked_up.scanner(columns=[], filter=conjunction(filters), with_row_address=True).explain_plan(True)
    assert answering_indexes(explained), explained


def test_the_beginning_of_strings_is_looked_up_in_an_index(looked_up):
    predicate = Call("STARTS_WITH", (Column(("string",)), Literal("a", "string")))
    sql = translate(predicate, looked_up.schema).sql
    assert "ScalarIndexQuery" in looked_up.scanner(columns=[], filter=sql, with_row_address=True).explain_plan(True)
