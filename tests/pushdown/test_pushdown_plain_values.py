"""What Spark's planner says as one text, read back as expressions."""

import json
import math
from decimal import Decimal

import pytest

from lance_spark.jvm.bridge import aggregates, columns, expression, sort_key
from lance_spark.pushdown.aggregates import Aggregate
from lance_spark.pushdown.filters import Call, Cast, Column, Literal
from lance_spark.pushdown.order import SortKey

pytestmark = pytest.mark.pure

A, B = ["column", ["a"]], ["column", ["st", "b.c"]]
ONE = ["literal", "plain", 1, "int"]
EXPRESSIONS = {
    "column": (A, Column(("a",))),
    "nested, with a dot in a name": (B, Column(("st", "b.c"))),
    "integer": (ONE, Literal(1, "int")),
    "large integer": (["literal", "plain", 9007199254740993, "bigint"], Literal(9007199254740993, "bigint")),
    "null": (["literal", "plain", None, "void"], Literal(None, "void")),
    "boolean": (["literal", "plain", True, "boolean"], Literal(True, "boolean")),
    "text": (
        ["literal", "plain", 'it\'s "ß" 😀 \n', "string"],
        Literal('it\'s "ß" 😀 \n', "string"),
    ),
    "bytes": (["literal", "bytes", "AP8=", "binary"], Literal(b"\x00\xff", "binary")),
    "decimal": (["literal", "decimal", "1.50", "decimal(3,2)"], Literal(Decimal("1.50"), "decimal(3,2)")),
    "float": (["literal", "float", "0.1", "float"], Literal(0.1, "float")),
    "infinity": (["literal", "float", "-Infinity", "double"], Literal(-math.inf, "double")),
    "smallest float": (["literal", "float", "4.9E-324", "double"], Literal(5e-324, "double")),
    "cast": (["cast", A, "int", "bigint"], Cast(Column(("a",)), "int", "bigint")),
    "cast of what is not known": (["cast", ["other"], "", "int"], None),
    "call": (["call", "=", [A, ONE]], Call("=", (Column(("a",)), Literal(1, "int")))),
    "nothing": (["call", "ALWAYS_TRUE", []], Call("ALWAYS_TRUE")),
    "call of what is not known": (["call", "AND", [["call", "=", [A, ONE]], ["other"]]], None),
    "not known": (["other"], None),
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_an_expression_is_read(name):
    given, expected = EXPRESSIONS[name]
    assert expression(json.loads(json.dumps(given))) == expected


def test_nan_is_read():
    assert math.isnan(expression(["literal", "float", "NaN", "double"]).value)


def test_columns_and_aggregates_are_all_known_or_none_is():
    assert columns([A, B]) == [Column(("a",)), Column(("st", "b.c"))]
    assert columns([]) == []
    assert columns([A, ONE]) is None
    known = [["CountStar", None, False], ["Sum", A, True], ["Max", B, False]]
    assert aggregates(known) == [
        Aggregate("COUNT_STAR"),
        Aggregate("SUM", Column(("a",)), True),
        Aggregate("MAX", Column(("st", "b.c"))),
    ]
    assert aggregates([*known, ["GeneralAggregateFunc", None, False]]) is None
    assert aggregates([["Sum", ["call", "+", [A, ONE]], False]]) is None


def test_keys_to_sort_by():
    assert sort_key(A, "DESC", "NULLS LAST") == SortKey("a", False, False)
    assert sort_key(A, "ASC", "NULLS FIRST") == SortKey("a", True, True)
    assert sort_key(B, "ASC", "NULLS FIRST") is None
    assert sort_key(["call", "+", [A, ONE]], "ASC", "NULLS FIRST") is None
