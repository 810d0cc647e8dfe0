"""Expressions of Spark's connector API as plain values. Each question to the JVM takes a tenth of a millisecond."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from lance_spark.query.aggregates import Aggregate
from lance_spark.query.expressions import Call, Cast, Column, Expression, Literal

if TYPE_CHECKING:
    from lance_spark.spark.jvm.bridge import Bridge

_MANY = 16
"""Constants of a list from which on they are taken as one text."""
_FUNCTIONS = {"CountStar": "COUNT_STAR", "Count": "COUNT", "Sum": "SUM", "Min": "MIN", "Max": "MAX", "Avg": "AVG"}


def expression(bridge: Bridge, given: Any) -> Expression | None:
    """The expression; None for one of a kind that is not known here, or that holds one."""
    kind = given.getClass().getSimpleName()
    if kind == "FieldReference":
        return _column(given)
    if kind == "LiteralValue":
        return Literal(_value(given.value()), given.dataType().simpleString())
    if kind == "Cast":
        argument = expression(bridge, given.expression())
        source = given.expressionDataType()
        name = "" if source is None else source.simpleString()
        return None if argument is None else Cast(argument, name, given.dataType().simpleString())
    children = given.children()
    count = len(children)
    name = given.name()
    arguments = _constants(bridge, children) if name == "IN" and count > _MANY else None
    if arguments is None:
        arguments = [expression(bridge, children[at]) for at in range(count)]
    known = [each for each in arguments if each is not None]
    return Call(name, tuple(known)) if len(known) == count else None


def aggregates(given: Any) -> list[Aggregate] | None:
    """The aggregate functions; None where one of them is not known here."""
    translated = [_aggregate(each) for each in given.aggregateExpressions()]
    known = [each for each in translated if each is not None]
    return known if len(known) == len(translated) else None


def columns(given: Any) -> list[Column] | None:
    """The columns of expressions; None where one of them is not a column."""
    references = [_column(each) for each in given if each.getClass().getSimpleName() == "FieldReference"]
    return references if len(references) == len(given) else None


def _aggregate(given: Any) -> Aggregate | None:
    function = _FUNCTIONS.get(given.getClass().getSimpleName())
    if function is None or function == "COUNT_STAR":
        return None if function is None else Aggregate("COUNT_STAR")
    over = columns([given.column()])
    distinct = function in ("COUNT", "SUM", "AVG") and bool(given.isDistinct())
    return None if over is None else Aggregate(function, over[0], distinct)  # type: ignore[arg-type]


def _column(given: Any) -> Column:
    return Column(tuple(given.fieldNames()))


def _value(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str | bytes | Decimal):
        return value
    kind = value.getClass().getSimpleName()
    return Decimal(value.toString()) if kind == "Decimal" else value.toString()


def _constants(bridge: Bridge, children: Any) -> list[Expression | None] | None:
    """A column and constants of one type, from Java's text of them; None where that cannot be read in one way only."""
    first = expression(bridge, children[0])
    kind = children[1].dataType().simpleString()
    # Not Arrays.toString: py4j does not give it an array of another class than Object[].
    text = bridge.call("scala.runtime.ScalaRunTime.stringOf", children)
    prefix = f"Array({children[0].toString()}, "
    if first is None or not text.startswith(prefix) or not text.endswith(")"):
        return None
    values = _values(text[len(prefix) : -1], kind)
    if values is None or len(values) != len(children) - 1:
        return None
    return [first, *(Literal(value, kind) for value in values)]


def _values(text: str, kind: str) -> Sequence[Any] | None:
    if kind == "string":
        values = [quoted[1:-1].replace("''", "'") for quoted in re.findall(r"'(?:[^']|'')*'", text)]
        again = ", ".join("'" + value.replace("'", "''") + "'" for value in values)
        return values if again == text else None
    read = _readers.get(kind.partition("(")[0])
    try:
        return None if read is None else [read(part) for part in text.split(", ")]
    except (ValueError, ArithmeticError):
        return None


_readers: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint", "date", "timestamp", "timestamp_ntz"), int),
    **dict.fromkeys(("float", "double"), float),
    "decimal": Decimal,
}
