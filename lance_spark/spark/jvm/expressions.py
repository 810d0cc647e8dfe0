"""Expressions of Spark's connector API as plain values."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from lance_spark.query.expressions import Call, Cast, Column, Expression, Literal


def expression(given: Any) -> Expression | None:
    """The expression; None for one of a kind that is not known here, or that holds one."""
    kind = given.getClass().getSimpleName()
    if kind == "FieldReference":
        return column(given)
    if kind == "LiteralValue":
        return _literal(given)
    if kind == "Cast":
        argument = expression(given.expression())
        source = given.expressionDataType() if hasattr(given, "expressionDataType") else None
        if argument is None:
            return None
        return Cast(argument, "" if source is None else source.simpleString(), given.dataType().simpleString())
    if kind in ("AlwaysTrue", "AlwaysFalse"):
        return Literal(kind == "AlwaysTrue", "boolean")
    arguments = [expression(child) for child in given.children()]
    known = [each for each in arguments if each is not None]
    return Call(given.name(), tuple(known)) if len(known) == len(arguments) else None


def column(given: Any) -> Column:
    """A reference to a column or to a field in one."""
    return Column(tuple(given.fieldNames()))


def _literal(given: Any) -> Literal:
    return Literal(_value(given.value()), given.dataType().simpleString())


def _value(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str | bytes | Decimal):
        return value
    kind = value.getClass().getSimpleName()
    if kind == "Decimal":
        return Decimal(value.toString())
    return value.toString()
