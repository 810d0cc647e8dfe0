"""Conditions as Spark's plans print them, such as ``(isnotnull(x#2) AND (x#2 > 0.999))``, as expressions.

Spark prints constants without quotes and without their types. The type is that of the column on the other side,
because Spark has converted one to the other by then. Everything has to be understood for anything to be: a part that
is skipped could end in another place than it seems.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import TypeAlias

import pyarrow as pa

from lance_spark.query.expressions import Call, Cast, Column, Expression, Literal
from lance_spark.query.types import field_at, spark_name

UNKNOWN = Call("UNKNOWN")
"""A part whose text is understood and whose meaning is not: it can be left out of a conjunction."""

_COLUMN = re.compile(r"(\w+)#(\d+)L?((?:\.\w+)*)")
_SUBQUERY = re.compile(r"scalar-subquery#\d+ \[\]")
_FUNCTION = re.compile(r"(\w+)\(")
_WORDS = re.compile(r"[\w.:/@+%-]+(?: [\w.:/@+%-]+)*")
_LISTED = re.compile(r"[\w.:+-]+(?:, [\w.:+-]+)*(?=\)| AND | OR |$)")
_PATTERN = re.compile(r"[\w.:/@+%-]+(?=\)| AND | OR |$)")
_OPERATOR = re.compile(r" (AND|OR|<=>|<=|>=|=|<|>|\+|-|\*|/|%|\|\||&|\||\^|div|pmod) ")
_TYPE = re.compile(r" as [\w<>,:() ]+?\)(?=[ ,)]|$)")
_INTEGER, _DECIMAL = re.compile(r"-?\d+"), re.compile(r"-?\d+(\.\d+)?")
_FLOAT = re.compile(r"-?(\d+\.\d+(E-?\d+)?|Infinity)|NaN")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_EPOCH = date(1970, 1, 1).toordinal()
_COMPARISONS = frozenset({"=", "<=>", "<", "<=", ">", ">="})
_FUNCTIONS = {
    "isnotnull": "IS_NOT_NULL",
    "isnull": "IS_NULL",
    "StartsWith": "STARTS_WITH",
    "EndsWith": "ENDS_WITH",
    "Contains": "CONTAINS",
}
_MAX_LENGTH = 2**16
_MAX_DEPTH = 100
"""Brackets inside each other: this walks them recursively."""


@dataclass(frozen=True)
class Condition:
    """What a filter of a plan asks for."""

    expression: Expression
    ids: dict[str, str]
    """The number that the plan gave each column."""
    words: bool
    """Whether the text of a string constant had a part in it. Such a constant may look like a condition itself; only
    the numbers give it away, because they are others in the next plan."""


@dataclass(frozen=True)
class _Raw:
    text: str


_Part: TypeAlias = "Expression | _Raw"


class _Unclear(Exception):
    """The text can mean something else, or nothing."""


def parse_condition(text: str, schema: pa.Schema) -> Condition | None:
    """The condition over a dataset's columns; None where the text is not understood to the end."""
    if len(text) > _MAX_LENGTH:
        return None
    reader = _Reader(text, schema)
    try:
        expression = reader.condition(0)
        reader.expect_end()
    except _Unclear:
        return None
    return Condition(expression, reader.ids, reader.words)


@dataclass
class _Reader:
    text: str
    schema: pa.Schema
    ids: dict[str, str] = field(default_factory=dict)
    words: bool = False
    at: int = 0

    def expect_end(self) -> None:
        if self.at != len(self.text):
            raise _Unclear

    def condition(self, depth: int) -> Expression:
        part = self._part(depth)
        if isinstance(part, _Raw):
            raise _Unclear
        return part

    def _part(self, depth: int) -> _Part:
        if depth > _MAX_DEPTH:
            raise _Unclear
        if self._take("NOT "):
            return Call("NOT", (self.condition(depth + 1),))
        if self._take("("):
            return self._binary(depth + 1)
        if self._match(_SUBQUERY):
            return UNKNOWN
        if column := self._match(_COLUMN):
            return self._after_column(self._column(column))
        if self._take("cast("):
            return self._cast(depth + 1)
        if function := self._match(_FUNCTION):
            return self._call(function[1], depth + 1)
        if words := self._match(_WORDS):
            return _Raw(words[0])
        raise _Unclear

    def _binary(self, depth: int) -> Expression:
        left = self._part(depth)
        operator = self._match(_OPERATOR)
        if operator is None:
            raise _Unclear
        name = operator[1]
        right = self._part(depth)
        if not self._take(")"):
            raise _Unclear
        if name in ("AND", "OR"):
            if isinstance(left, _Raw) or isinstance(right, _Raw):
                raise _Unclear
            return Call(name, (left, right))
        left, right = self._typed(left, right), self._typed(right, left)
        known = name in _COMPARISONS and UNKNOWN not in (left, right)
        return Call(name, (left, right)) if known else UNKNOWN

    def _after_column(self, column: Expression) -> Expression:
        if self._take(" IN ("):
            values = self._arguments(0)
        elif self._take(" INSET "):
            listed = self._match(_LISTED)
            if listed is None:
                raise _Unclear
            values = [_Raw(value) for value in listed[0].split(", ")]
        elif self._take(" LIKE "):
            if self._match(_PATTERN) is None:
                raise _Unclear
            self.words = True
            return UNKNOWN
        else:
            return column
        constants = [self._typed(value, column) for value in values]
        # One string with a comma in it and two strings print the same.
        known = all(isinstance(each, Literal) and each.type != "string" for each in constants)
        return Call("IN", (column, *constants)) if known else UNKNOWN

    def _cast(self, depth: int) -> Expression:
        argument = self._part(depth)
        target = self._match(_TYPE)
        if target is None:
            raise _Unclear
        if isinstance(argument, _Raw):
            self.words = True
        if not isinstance(argument, Column):
            return UNKNOWN
        return Cast(argument, "", target[0][len(" as ") : -1])

    def _call(self, function: str, depth: int) -> Expression:
        arguments = self._arguments(depth)
        first = arguments[0] if arguments else UNKNOWN
        typed = [self._typed(each, first) for each in arguments]
        name = _FUNCTIONS.get(function)
        if name is None or UNKNOWN in typed or len(typed) != (1 if name.startswith("IS_") else 2):
            return UNKNOWN
        return Call(name, tuple(typed))

    def _arguments(self, depth: int) -> list[_Part]:
        arguments: list[_Part] = []
        while not self._take(")"):
            if arguments and not (self._take(", ") or self._take(",")):
                raise _Unclear
            arguments.append(self._part(depth))
        return arguments

    def _column(self, found: re.Match[str]) -> Expression:
        """Spark prints names as the user typed them, whatever the case."""
        names = [name for name in self.schema.names if name.lower() == found[1].lower()]
        if len(names) != 1 or self.ids.setdefault(names[0], found[2]) != found[2]:
            raise _Unclear
        return Column((names[0], *found[3].split(".")[1:]))

    def _typed(self, part: _Part, other: _Part) -> Expression:
        if not isinstance(part, _Raw):
            return part
        kind = self._kind(other)
        value = None if kind is None else _value(part.text, kind)
        self.words |= value is None or kind == "string"
        return UNKNOWN if value is None or kind is None else Literal(value, kind)

    def _kind(self, part: _Part) -> str | None:
        if isinstance(part, Cast):
            return part.target
        found = field_at(self.schema, part.path) if isinstance(part, Column) else None
        return None if found is None else spark_name(found.type)

    def _take(self, token: str) -> bool:
        found = self.text.startswith(token, self.at)
        self.at += len(token) * found
        return found

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self.text, self.at)
        if found is not None:
            self.at = found.end()
        return found


def _value(text: str, kind: str) -> bool | int | float | str | Decimal | None:
    """The constant; None for one that is not of the type, or of a type whose text depends on the session."""
    kind = kind.partition("(")[0]
    if kind == "string":
        return None if text == "null" else text
    if kind in ("tinyint", "smallint", "int", "bigint"):
        return int(text) if _INTEGER.fullmatch(text) else None
    if kind in ("float", "double"):
        return float(text) if _FLOAT.fullmatch(text) else None
    if kind == "decimal":
        return Decimal(text) if _DECIMAL.fullmatch(text) else None
    if kind == "boolean":
        return {"true": True, "false": False}.get(text)
    return _days(text) if kind == "date" and _DATE.fullmatch(text) else None


def _days(text: str) -> int | None:
    try:
        return date.fromisoformat(text).toordinal() - _EPOCH
    except ValueError:
        return None
