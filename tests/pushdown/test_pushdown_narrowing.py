"""What a query needs of a table, from plans that Spark 4.0 and 4.3 explained, classic and over Connect."""

import json
import re
from decimal import Decimal

import pyarrow as pa
import pytest
from support.table_queries import QUERIES, RECORDED, SCHEMA

from lance_spark.pushdown.filters import Call, Cast, Column, Literal
from lance_spark.pushdown.narrowing import (
    EVERYTHING,
    UNKNOWN,
    Narrowing,
    confirmed,
    narrowing,
    parse_condition,
    read_plan,
)

pytestmark = pytest.mark.pure

TABLE = "lance_spark_probe"
PLANS = json.loads(RECORDED.read_text())
RECORDS = [(spark, name) for spark, plans in PLANS.items() for name in plans]


def moved(text: str) -> str:
    """The same query planned once more: Spark gives its columns other numbers; constants stay."""
    ids = set(re.findall(r"RelationV2\[.*", text))
    known = {number for leaf in ids for number in re.findall(r"#(\d+)", leaf)}
    return re.sub(r"#(\d+)", lambda found: f"#{int(found[1]) + 5000}" if found[1] in known else found[0], text)


def needed(text: str, schema: pa.Schema = SCHEMA) -> Narrowing:
    found = narrowing(text, TABLE, schema)
    return confirmed(found, narrowing(moved(text), TABLE, schema)) if found.unconfirmed else found


def test_plans_of_both_ends_of_the_range_of_versions_are_recorded():
    assert {name.rpartition(".")[0] + name[name.index(" ") :] for name in PLANS} == {
        f"{version} {kind}" for version in ("4.0", "4.3") for kind in ("classic", "connect")
    }
    assert {name for _, name in RECORDS} == QUERIES.keys() - {"runs"}


@pytest.mark.parametrize(("session", "name"), RECORDS)
def test_needs_of_recorded_plans(session, name):
    found, expected = needed("\n".join(PLANS[session][name])), QUERIES[name]
    assert (found.columns and set(found.columns)) == (expected.columns and set(expected.columns))
    assert _conjuncts(found.filter) == _conjuncts(expected.filter)
    assert found.limit == expected.limit


def _conjuncts(sql: str | None) -> list[str] | None:
    """Spark's versions differ in the order, which moves the brackets."""
    return None if sql is None else sorted(part.strip("()") for part in sql.split(" AND "))


def plan(*lines: str, analyzed: str = "RelationV2[id#0L] lance_spark_probe") -> str:
    optimized = "\n".join(lines)
    return (
        f"== Analyzed Logical Plan ==\nid: bigint\n{analyzed}\n\n== Optimized Logical Plan ==\n{optimized}\n\n"
        "== Physical Plan ==\n"
    )


LEAF = "RelationV2[id#0L, k#1, x#2, s#3, d#4, person#5, never#6L] lance_spark_probe"


@pytest.mark.parametrize(
    "text",
    [
        "",
        plan(),
        plan("LocalRelation <empty>, [id#0L]"),
        plan(LEAF),
        plan("Project [id#0L]", "+- RelationV2[id#0L] another_table"),
        plan("Project [id#0L]", f"+- {LEAF}").replace("== Physical Plan ==", "... 17 more characters"),
        plan("Project [id#0L]", f"+- {LEAF}") + plan("Project [k#1]", f"+- {LEAF}"),
        plan("Project [id#0L, ... 3 more fields]", f"+- {LEAF}"),
        plan("Unheard [id#0L]", f"+- {LEAF}"),
        plan("Project [id#0L]", "+- Unheard", f"   +- {LEAF}"),
        plan("Project [id#0L]", "+- Filter (id#0L > 1)", "+- Project [k#1]", f"   +- {LEAF}"),
        plan("Project [id#0L]", f"+- InMemoryRelation [id#0L], {TABLE}", f"   +- {LEAF}"),
        plan("Project [id#0L]", f"      +- {LEAF}"),
        plan("Project [id#0L]", f"{LEAF}"),
        plan("Project [id#0L]", f"+- {LEAF}", "and a line of something else!"),
    ],
)
def test_what_is_not_understood_needs_everything(text):
    assert needed(text) == EVERYTHING


def test_a_subquery_that_shows_all_columns_needs_all_columns():
    text = plan("Filter (id#0L > scalar-subquery#9 [])", f":  +- {LEAF}", f"+- {LEAF}")
    assert needed(text).columns is None
    cut = plan(
        "Project [k#1]",
        "+- Filter ((id#0L > scalar-subquery#9 []) OR (id#0L < scalar-subquery#10 []))",
        *(
            "   :  :- Aggregate [max(x#2)]",
            f"   :  :  +- {LEAF}",
            "   :  +- Aggregate [min(d#4)]",
            f"   :     +- {LEAF}",
        ),
        f"   +- {LEAF}",
    )
    assert needed(cut).columns == ("id", "k", "x", "d")


def test_numbers_that_stay_give_a_string_constant_away():
    """``s = 'q) AND (k#1 > 5'`` prints as two conditions. In the next plan k is another number, in the constant not."""
    text = plan("Project [id#0L]", "+- Filter ((s#3 = q) AND (k#1 > 5))", f"   +- {LEAF}")
    first, again = narrowing(text, TABLE, SCHEMA), text.replace(LEAF, LEAF.replace("#", "#7")).replace("s#3", "s#73")
    assert first.filter is not None
    assert first.unconfirmed
    assert confirmed(first, narrowing(again, TABLE, SCHEMA)).filter is None
    assert confirmed(first, first).filter is None
    assert confirmed(first, narrowing(moved(text), TABLE, SCHEMA)).filter == first.filter


def test_names_are_told_from_parts_of_names():
    schema = pa.schema([("id", pa.int64()), ("d", pa.int64()), ("odd name", pa.int64()), ("a.b", pa.int64())])
    leaf = "RelationV2[id#0L, d#1L, odd name#2L, a.b#3L] lance_spark_probe"
    assert needed(plan("Project [ID#0L, odd name#2L]", f"+- {leaf}"), schema).columns == ("id", "odd name")
    assert needed(plan("Project [id#0L]", f"+- {leaf}"), schema.append(pa.field("a\nb", pa.int64()))) == EVERYTHING


K, X, S = Column(("k",)), Column(("x",)), Column(("s",))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(k#1 > 5)", Call(">", (K, Literal(5, "int")))),
        ("(5 < k#1)", Call("<", (Literal(5, "int"), K))),
        ("(cast(k#1 as bigint) = 5)", Call("=", (Cast(K, "", "bigint"), Literal(5, "bigint")))),
        ("(x#2 <= -1.5E-7)", Call("<=", (X, Literal(-1.5e-7, "double")))),
        ("(x#2 = 5)", UNKNOWN),  # not how Spark prints a double
        ("NOT (k#1 <=> 3)", Call("NOT", (Call("<=>", (K, Literal(3, "int"))),))),
        ("(s#3 = New York)", Call("=", (S, Literal("New York", "string")))),
        ("(s#3 = null)", UNKNOWN),
        ("s#3 IN (a,b)", UNKNOWN),
        ("k#1 IN (1,2)", Call("IN", (K, Literal(1, "int"), Literal(2, "int")))),
        ("k#1 INSET 1, 2", Call("IN", (K, Literal(1, "int"), Literal(2, "int")))),
        ("(p#9 >= 1.50)", Call(">=", (Column(("p",)), Literal(Decimal("1.50"), "decimal(12,2)")))),
        ("(t#8 >= 2013-01-01 00:00:00)", UNKNOWN),  # a wall clock of the session's zone
        ("(((k#1 + 1) % 2) = 0)", UNKNOWN),
        ("(upper(s#3) = A)", UNKNOWN),
        ("((k#1 = 1) OR s#3 LIKE %a_)", Call("OR", (Call("=", (K, Literal(1, "int"))), UNKNOWN))),
        ("(k#1 > scalar-subquery#12 [])", UNKNOWN),
    ],
)
def test_conditions(text, expected):
    schema = SCHEMA.append(pa.field("p", pa.decimal128(12, 2))).append(pa.field("t", pa.timestamp("us", "UTC")))
    found = parse_condition(text, schema)
    assert found is not None
    assert found.expression == expected


@pytest.mark.parametrize(
    "text",
    ["", "k", "(k#1 > 5", "(k#1 > 5))", "(k#1 > 5) AND (k#1 < 9)", "(z#1 > 5)", "((k#1 > 5) AND (k#2 < 9))",
     "(s#3 = )", "(s#3 = 'a')", "(s#3 = a\nb)", "CASE WHEN (k#1 = 1) THEN (x#2 > 1.0) END", "(k#1 > 5 AND k#1 < 9)",
     "k#1 INSET 1, 2, ... 9 more fields", "(" * 200 + "k#1" + ")" * 200, "((k#1 = 1) AND true)"],
)  # fmt: skip
def test_conditions_that_are_not_clear(text):
    assert parse_condition(text, SCHEMA) is None


def test_a_plan_is_a_tree():
    found = read_plan(plan("Join Inner", ":- Project [k#1]", f":  +- {LEAF}", "+- Range (0, 5)"))
    assert found is not None
    assert [(node.name, node.parent and node.parent.name) for node in found.optimized] == [
        ("Join", None), ("Project", "Join"), ("RelationV2", "Project"), ("Range", "Join"),
    ]  # fmt: skip
