"""The expressions that Spark's planner offers to a data source, as plain values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True)
class Column:
    """A column, or a field inside one: ``("person", "name")`` is ``person.name``."""

    path: tuple[str, ...]
    """Names as they are, without quotes; a name with a dot is one element."""


@dataclass(frozen=True)
class Literal:
    """A constant, as Spark holds it inside: a date is a number of days, a timestamp one of microseconds."""

    value: Any
    """bool, int, float, Decimal, str, bytes or None."""
    type: str
    """Spark's ``simpleString`` of the type, such as ``int`` or ``decimal(10,2)``."""


@dataclass(frozen=True)
class Call:
    """An operator or a function by the name that Spark's connector API gives it, such as ``=``, ``IN`` or ``NOT``."""

    name: str
    arguments: tuple[Expression, ...] = ()


@dataclass(frozen=True)
class Cast:
    """A conversion to another type."""

    argument: Expression
    source: str
    """Spark's ``simpleString`` of the argument's type; empty where Spark does not tell."""
    target: str


Expression: TypeAlias = "Column | Literal | Call | Cast"

ALWAYS_TRUE = Call("ALWAYS_TRUE")
ALWAYS_FALSE = Call("ALWAYS_FALSE")


def named_columns(expression: Expression) -> Iterator[str]:
    """Names of the top-level columns in an expression."""
    if isinstance(expression, Column):
        yield expression.path[0]
    elif isinstance(expression, Cast):
        yield from named_columns(expression.argument)
    elif isinstance(expression, Call):
        for argument in expression.arguments:
            yield from named_columns(argument)
