"""What Spark's planner says, as plain values: lists and texts that JSON can hold. No JVM in what reads them.

``java/Answers.java`` makes such values of whatever Spark passes, in one text; ``plain`` makes the same ones where the
session has no Java classes of ours, one question after the other.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from lance_spark.query.aggregates import Aggregate
from lance_spark.query.expressions import Call, Cast, Column, Expression, Literal
from lance_spark.query.ordering import SortKey

if TYPE_CHECKING:
    from lance_spark.spark.jvm.bridge import Bridge

_FUNCTIONS = {"CountStar": "COUNT_STAR", "Count": "COUNT", "Sum": "SUM", "Min": "MIN", "Max": "MAX", "Avg": "AVG"}
_LITERALS: dict[str, Callable[[Any], Any]] = {
    "plain": lambda value: value,
    "float": float,
    "decimal": Decimal,
    "bytes": base64.b64decode,
}
_CALLS = frozenset({"GeneralScalarExpression", "Predicate", "And", "Or", "Not", "AlwaysTrue", "AlwaysFalse"})
"""Classes whose name and children say all."""


def expression(node: Any) -> Expression | None:
    """The expression; None for one of a kind that is not known here, or that holds one."""
    kind, *parts = node
    if kind == "column":
        return Column(tuple(parts[0]))
    if kind == "literal":
        form, value, name = parts
        return Literal(_LITERALS[form](value), name)
    if kind == "cast":
        argument = expression(parts[0])
        return None if argument is None else Cast(argument, parts[1], parts[2])
    if kind == "call":
        arguments = [expression(each) for each in parts[1]]
        known = [each for each in arguments if each is not None]
        return Call(parts[0], tuple(known)) if len(known) == len(arguments) else None
    return None


def columns(nodes: Any) -> list[Column] | None:
    """The columns; None where one of the expressions is something else."""
    found = [Column(tuple(node[1])) for node in nodes if node[0] == "column"]
    return found if len(found) == len(nodes) else None


def aggregates(nodes: Any) -> list[Aggregate] | None:
    """The aggregate functions; None where one of them is not known here."""
    translated = [_aggregate(*each) for each in nodes]
    known = [each for each in translated if each is not None]
    return known if len(known) == len(translated) else None


def _aggregate(name: str, over: Any, distinct: bool) -> Aggregate | None:
    function = _FUNCTIONS.get(name)
    if function is None or function == "COUNT_STAR":
        return None if function is None else Aggregate("COUNT_STAR")
    named = columns([over])
    return None if named is None else Aggregate(function, named[0], distinct)  # type: ignore[arg-type]


def sort_key(over: Any, direction: str, nulls: str) -> SortKey | None:
    """A key to sort by; None where it is not a column of the table."""
    named = columns([over])
    if named is None or len(named[0].path) != 1:
        return None
    return SortKey(named[0].path[0], direction == "ASC", nulls == "NULLS FIRST")


def plain(bridge: Bridge, given: Any) -> Any:
    """The value of something that Spark passed: of a predicate, a schema, an aggregation, an order or of options."""
    if given is None or isinstance(given, bool | int | float | str):
        return given
    if bridge.maker is not None:
        return json.loads(bridge.maker.text(given))
    name = given.getClass().getSimpleName()
    if name.endswith("[]"):
        return [plain(bridge, each) for each in given]
    kind: Callable[[Bridge, Any], Any] = _KINDS.get(name, _other)
    return kind(bridge, given)


def _other(bridge: Bridge, given: Any) -> Any:
    if given.getClass().getSimpleName() in _CALLS:
        return ["call", given.name(), [plain(bridge, each) for each in given.children()]]
    return ["other"]


def _cast(bridge: Bridge, given: Any) -> Any:
    source = given.expressionDataType()
    name = "" if source is None else source.simpleString()
    return ["cast", plain(bridge, given.expression()), name, given.dataType().simpleString()]


def _aggregation(bridge: Bridge, given: Any) -> Any:
    functions = []
    for each in given.aggregateExpressions():
        name = each.getClass().getSimpleName()
        over = plain(bridge, each.column()) if name in _FUNCTIONS and name != "CountStar" else None
        functions.append([name, over, name in ("Count", "Sum", "Avg") and bool(each.isDistinct())])
    return [functions, plain(bridge, given.groupByExpressions())]


def _order(bridge: Bridge, given: Any) -> Any:
    return [plain(bridge, given.expression()), given.direction().toString(), given.nullOrdering().toString()]


def _literal(_: Bridge, given: Any) -> Any:
    value, name = given.value(), given.dataType().simpleString()
    if value is None or isinstance(value, bool | int | str):
        return ["literal", "plain", value, name]
    if isinstance(value, float):
        return ["literal", "float", value, name]
    if isinstance(value, bytes):
        return ["literal", "bytes", base64.b64encode(value).decode(), name]
    decimal = isinstance(value, Decimal) or value.getClass().getSimpleName() == "Decimal"
    return ["literal", "decimal" if decimal else "plain", str(value) if decimal else value.toString(), name]


def _identifier(_: Bridge, given: Any) -> Any:
    return [[*given.namespace(), given.name()], given.toString()]


_KINDS: dict[str, Callable[[Any, Any], Any]] = {
    "FieldReference": lambda _, given: ["column", [*given.fieldNames()]],
    "LiteralValue": _literal,
    "Cast": _cast,
    "Aggregation": _aggregation,
    "SortValue": _order,
    "StructType": lambda _, given: given.json(),
    "CaseInsensitiveStringMap": lambda _, given: dict(given.asCaseSensitiveMap()),
    "IdentifierImpl": _identifier,
    "SampleMethod": lambda _, given: given.toString(),
}
