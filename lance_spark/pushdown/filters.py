"""Spark's predicates as Lance's filters, if both keep the same rows.

Negations are first pushed down to the comparisons. So each comparison only has to define which rows it is true (or
false) for, never which it is null for: indexes and DataFusion's own rewriting cannot differ from Spark in that.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from lance_spark.format.blobs import holds_blobs, is_blob
from lance_spark.format.kept_types import is_plain

_MAX_DEPTH = 16
"""AND inside OR inside AND; Lance's parser fails at about 50 brackets, and a level can take two."""
_MAX_PARTS = 1_000
"""Comparisons in one predicate; DataFusion walks them recursively."""
_MAX_LENGTH = 2**20
"""Characters of SQL: every task receives and parses it."""


@dataclass(frozen=True)
class PushedFilter:
    sql: str
    exact: bool
    """True if Lance keeps exactly the rows that Spark keeps. Otherwise Lance keeps all of those and maybe others, and
    Spark must apply the predicate again."""
    rejects_nulls: frozenset[str] = field(default=frozenset(), compare=False)
    """Columns, in SQL, that are not null in any kept row."""
    only_that: bool = field(default=False, compare=False)
    """Whether it keeps all rows whose values in these columns are not null."""


def translate(predicate: Expression, schema: pa.Schema) -> PushedFilter | None:
    """The predicate as a filter on a dataset with this schema; None if only Spark can apply it.

    ``schema`` is the dataset's own, from pylance's ``dataset.schema``. An unknown column makes its part of the
    predicate untranslatable.
    """
    found = _Translator(schema).true_where(predicate, True, 0)
    if found is None or len(found.sql) > _MAX_LENGTH:
        return None
    return found if found.exact or found.sql != ALWAYS else None


def conjunction(filters: Iterable[PushedFilter]) -> str | None:
    """All filters as one, for a scan; None if they keep all rows.

    Spark adds ``a IS NOT NULL`` to each ``a = 1``. If it is redundant, it is dropped: it would need a look-up in its
    own index, or prevent an index from answering the rest alone.
    """
    needed = [each for each in filters if each.sql != ALWAYS]
    implied: set[str] = set().union(*(each.rejects_nulls for each in needed if not each.only_that))
    texts = [each.sql for each in needed if not (each.only_that and each.rejects_nulls <= implied)]
    return NEVER if NEVER in texts else " AND ".join(f"({text})" for text in texts) or None


class _Translator:
    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._parts = 0
        self._named: set[str] = set()

    def true_where(self, expression: Expression, wanted: bool, depth: int) -> PushedFilter | None:
        """SQL that is true for the rows where the expression is ``wanted``, true or false."""
        if depth > _MAX_DEPTH:
            return None
        if isinstance(expression, Call):
            if expression.name in ("AND", "OR"):
                return self._combined(expression, wanted, depth)
            if expression.name in ("NOT", "BOOLEAN_EXPRESSION") and len(expression.arguments) == 1:
                return self.true_where(expression.arguments[0], wanted == (expression.name != "NOT"), depth + 1)
        self._parts += 1
        self._named.clear()
        sql = self._leaf(expression, wanted) if self._parts <= _MAX_PARTS else None
        if sql is None:
            return None
        keeps_nulls = sql in (ALWAYS, NEVER) or "IS NULL" in sql
        rejects = frozenset() if keeps_nulls else frozenset(self._named)
        return PushedFilter(sql, True, rejects, only_that=not keeps_nulls and _is_null_test(expression))

    def _combined(self, call: Call, wanted: bool, depth: int) -> PushedFilter | None:
        """By De Morgan: not both is either not. An untranslatable part of a conjunction can be omitted."""
        parts = [self.true_where(each, wanted, depth + 1) for each in _flattened(call)]
        known = [part for part in parts if part is not None]
        exact = len(known) == len(parts) and all(part.exact for part in known)
        if (call.name == "AND") == wanted:
            if any(part.sql == NEVER for part in known):
                return PushedFilter(NEVER, exact=True)
            texts = [part.sql for part in known if part.sql != ALWAYS]
            rejects = frozenset[str]().union(*(part.rejects_nulls for part in known))
            return PushedFilter(_joined(texts, "AND") or ALWAYS, exact, rejects) if known else None
        if len(known) < len(parts):
            return None
        if any(part == PushedFilter(ALWAYS, exact=True) for part in known):
            return PushedFilter(ALWAYS, exact=True)
        return PushedFilter(_joined([part.sql for part in known if part.sql != NEVER], "OR") or NEVER, exact)

    def _leaf(self, expression: Expression, wanted: bool) -> str | None:
        expression = _plain(expression)
        if isinstance(expression, Literal):
            is_truth = expression.value is None or isinstance(expression.value, bool)
            return (ALWAYS if expression.value is wanted else NEVER) if is_truth else None
        if isinstance(expression, Column):
            return self._comparison("=", expression, Literal(wanted, "boolean"))
        if not isinstance(expression, Call):
            return None
        name, arguments = expression.name, tuple(map(_plain, expression.arguments))
        if name == "IN" and arguments:
            return self._membership(arguments[0], arguments[1:], wanted)
        if len(arguments) == 1:
            return self._null_test(name, arguments[0], wanted)
        return self._binary(name, arguments[0], arguments[1], wanted) if len(arguments) == 2 else None

    def _null_test(self, name: str, argument: Expression, wanted: bool) -> str | None:
        column = self._reference(argument)
        if column is None or name not in ("IS_NULL", "IS_NOT_NULL"):
            return None
        return column.is_null if (name == "IS_NULL") == wanted else column.is_not_null

    def _binary(self, name: str, left: Expression, right: Expression, wanted: bool) -> str | None:
        if name in INVERSE:
            return self._comparison(name if wanted else INVERSE[name], left, right)
        if name == "<=>":
            return self._null_safe_equality(left, right, wanted)
        if name not in PARTS:
            return None
        column, value = self._constant(left, right)
        if column is None or not same_type("string", column.kind):
            return None
        return matches(column, name, value, wanted)

    def _comparison(self, operator: str, left: Expression, right: Expression) -> str | None:
        if isinstance(left, Literal):
            operator, left, right = MIRRORED[operator], right, left
        if isinstance(right, Literal):
            column, value = self._constant(left, right)
            return None if column is None else compare(column, operator, value)
        one, other = self._reference(left), self._reference(right)
        return compare_columns(one, operator, other) if one and other else None

    def _null_safe_equality(self, left: Expression, right: Expression, wanted: bool) -> str | None:
        if isinstance(left, Literal):
            left, right = right, left
        if not isinstance(right, Literal):
            return None
        column, value = self._constant(left, right)
        if column is None:
            return None
        if value is None:
            return column.is_null if wanted else column.is_not_null
        compared = compare(column, "=" if wanted else "<>", value)
        return compared if wanted or compared is None else f"({compared} OR {column.is_null})"

    def _membership(self, column: Expression, values: tuple[Expression, ...], wanted: bool) -> str | None:
        found = [self._constant(column, each) for each in values]
        reference = found[-1][0] if found else None
        if reference is None or any(other is None for other, _ in found):
            return None
        return (is_in if wanted else is_not_in)(reference, [value for _, value in found])

    def _constant(self, column: Expression, constant: Expression) -> tuple[Reference | None, Any]:
        """The column and the constant compared with it; no column if their types differ."""
        inner = column.argument if isinstance(column, Cast) else column
        reference = self._reference(inner)
        if reference is None or not isinstance(constant, Literal):
            return None, None
        if isinstance(column, Cast):
            # A constant outside the column's range still compares as smaller or larger than all its values.
            fits = widens(reference.kind, column.target) and widens(reference.kind, constant.type)
        else:
            fits = same_type(constant.type, reference.kind)
        return (reference if fits else None), constant.value

    def _reference(self, expression: Expression) -> Reference | None:
        if not isinstance(expression, Column):
            return None
        found = plain_field(self._schema, expression.path)
        # Lance has no way to quote a backtick.
        if found is None or any(not name or "`" in name for name in expression.path):
            return None
        names = [f"`{name}`" for name in expression.path]
        # If a field has a value, so does its enclosing struct.
        self._named.update(".".join(names[:depth]) for depth in range(1, len(names) + 1))
        return Reference(".".join(names), found.type, nested=len(expression.path) > 1)


def _flattened(call: Call) -> list[Expression]:
    """The operands of a chain of one operator, however it is bracketed, from left to right."""
    operands: list[Expression] = []
    waiting: list[Expression] = [call]
    while waiting:
        each = waiting.pop()
        if isinstance(each, Call) and each.name == call.name:
            waiting.extend(reversed(each.arguments))
        else:
            operands.append(each)
    return operands


def _joined(parts: list[str], operator: str) -> str:
    return parts[0] if len(parts) == 1 else f" {operator} ".join(f"({part})" for part in parts)


def _is_null_test(expression: Expression) -> bool:
    return isinstance(expression, Call) and expression.name in ("IS_NULL", "IS_NOT_NULL")


def _plain(expression: Expression) -> Expression:
    """Spark's own predicates for true and false as constants, even inside comparisons."""
    if isinstance(expression, Call) and expression.name in ("ALWAYS_TRUE", "ALWAYS_FALSE"):
        return Literal(expression.name == "ALWAYS_TRUE", "boolean")
    return expression


# --- One column compared with constants, as SQL that is true for exactly the rows where Spark's result is true
# All functions return None if that cannot be expressed. Rows where Spark's result is null are excluded.

NEVER, ALWAYS = "false", "true"
INVERSE = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
"""The comparison that is true where a comparison is false."""
MIRRORED = {"=": "=", "<>": "<>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
"""The comparison with its sides swapped."""
PARTS = {"STARTS_WITH": "starts_with", "ENDS_WITH": "ends_with", "CONTAINS": "contains"}
"""Functions on parts of strings, and their names in DataFusion."""


@dataclass(frozen=True)
class Reference:
    """A column of the dataset, in SQL."""

    sql: str
    kind: pa.DataType
    nested: bool
    """Whether it is a field of a struct."""

    @property
    def is_null(self) -> str:
        """True where it, or an enclosing struct, is null."""
        return self._apart_from_indexes(f"{self.sql} IS NULL")

    @property
    def is_not_null(self) -> str:
        return self._apart_from_indexes(f"{self.sql} IS NOT NULL")

    def _apart_from_indexes(self, sql: str) -> str:
        # Lance asks a struct's zone map whether the struct is null when the question is about one of its fields.
        return f"({sql}) IS TRUE" if self.nested else sql


def compare(column: Reference, operator: str, value: Any) -> str | None:
    """``column operator value`` for one of the six comparisons."""
    if value is None:
        return NEVER
    if _is_floating(column.kind):
        return _compare_floats(column, operator, float(value))
    text = literal(value, column.kind)
    if text is None or isinstance(text, str):
        return None if text is None else f"{column.sql} {operator} {text}"
    return _compare_outside(column, operator, text)


def is_in(column: Reference, values: Iterable[Any]) -> str | None:
    """``column IN (values)``."""
    return _listed(column, [value for value in values if value is not None], NEVER)


def is_not_in(column: Reference, values: Iterable[Any]) -> str | None:
    """``column NOT IN (values)``, which is true for no row if one of the values is null."""
    values = list(values)
    return NEVER if any(value is None for value in values) else _listed(column, values, column.is_not_null, " NOT")


def matches(column: Reference, function: str, text: str | None, wanted: bool) -> str | None:
    """``STARTS_WITH``, ``ENDS_WITH`` or ``CONTAINS``, or its negation."""
    if text is None:
        return NEVER
    constant = quoted(text)
    if constant is None:
        return None
    call = f"{PARTS[function]}({column.sql}, {constant})"
    return call if wanted else f"NOT {call}"


def compare_columns(left: Reference, operator: str, right: Reference) -> str | None:
    kind = left.kind
    # DataFusion distinguishes -0.0 from 0.0 and one NaN from another.
    if kind != right.kind or pt.is_dictionary(kind) or pt.is_floating(kind) or pt.is_nested(kind):
        return None
    return f"{left.sql} {operator} {right.sql}"


def _listed(column: Reference, values: list[Any], empty: str, negation: str = "") -> str | None:
    nan = any(is_nan(value) for value in values)
    texts = [literal(value, column.kind) for value in values if not is_nan(value)]
    if any(text is None for text in texts):
        return None
    found = [text for text in texts if isinstance(text, str)]
    if _is_floating(column.kind) and any(value == 0 for value in values):
        found += [float_text(0.0, column.kind), float_text(-0.0, column.kind)]
    parts = [f"{column.sql}{negation} IN ({', '.join(dict.fromkeys(found))})"] if found else []
    if nan:
        parts.append(str(_compare_floats(column, "<>" if negation else "=", float("nan"))))
    return f" {'AND' if negation else 'OR'} ".join(f"({part})" for part in parts) or empty


def _compare_outside(column: Reference, operator: str, where: Outside) -> str | None:
    if operator in ("=", "<>"):
        return NEVER if operator == "=" else column.is_not_null
    if where is Outside.BETWEEN:
        return None
    return column.is_not_null if (where is Outside.BELOW) == operator.startswith(">") else NEVER


def _compare_floats(column: Reference, operator: str, value: float) -> str | None:
    """Spark treats all NaN as one value, greater than any other, and -0.0 as 0.0.

    Lance orders floats by their bits: a NaN with its sign bit set, the result of 0.0 / 0.0 on x86, is below minus
    infinity, and every NaN without it above infinity.
    """
    lowest, highest = (float_text(bound, column.kind) for bound in (float("-inf"), float("inf")))
    negative_nan, number_or_nan = f"{column.sql} < {lowest}", f"{column.sql} >= {lowest}"
    if is_nan(value):
        return {
            "=": f"({column.sql} > {highest} OR {negative_nan})",
            ">=": f"({column.sql} > {highest} OR {negative_nan})",
            "<": f"({number_or_nan} AND {column.sql} <= {highest})",
            "<>": f"({number_or_nan} AND {column.sql} <= {highest})",
            "<=": column.is_not_null,
            ">": NEVER,
        }[operator]
    text = literal(value, column.kind)
    if not isinstance(text, str):
        return None if text is None else _compare_outside(column, operator, text)
    zero, minus_zero = float_text(0.0, column.kind), float_text(-0.0, column.kind)
    if value == 0 and operator in ("=", "<>"):
        return f"{column.sql} {'NOT ' if operator == '<>' else ''}IN ({zero}, {minus_zero})"
    if operator in ("=", "<>"):
        return f"{column.sql} {operator} {text}"
    if value == 0:
        text = zero if operator in (">", "<=") else minus_zero
    compared = f"{column.sql} {operator} {text}"
    return f"({compared} OR {negative_nan})" if operator.startswith(">") else f"({compared} AND {number_or_nan})"


def _is_floating(kind: pa.DataType) -> bool:
    return bool(pt.is_floating(kind.value_type if pt.is_dictionary(kind) else kind))


# --- Expressions of Spark's planner, as plain values


@dataclass(frozen=True)
class Column:
    """A column, or a field inside one: ``("person", "name")`` is ``person.name``."""

    path: tuple[str, ...]
    """Unquoted names; a name with a dot is one element."""


@dataclass(frozen=True)
class Literal:
    """A constant, in Spark's internal form: a date is a number of days, a timestamp one of microseconds."""

    value: Any
    """bool, int, float, Decimal, str, bytes or None."""
    type: str
    """Spark's ``simpleString`` of the type, such as ``int`` or ``decimal(10,2)``."""


@dataclass(frozen=True)
class Call:
    """An operator or a function by its name in Spark's connector API, such as ``=``, ``IN`` or ``NOT``."""

    name: str
    arguments: tuple[Expression, ...] = ()


@dataclass(frozen=True)
class Cast:
    argument: Expression
    source: str
    """Spark's ``simpleString`` of the argument's type; empty if Spark does not reveal it."""
    target: str


Expression: TypeAlias = "Column | Literal | Call | Cast"


def named_columns(expression: Expression) -> Iterator[str]:
    """Names of the top-level columns in an expression."""
    return (leaf.path[0] for leaf in _leaves(expression) if isinstance(leaf, Column))


def has_null_bytes(expression: Expression) -> bool:
    """Whether one of the constants is a NULL of type ``binary``."""
    return any(leaf == Literal(None, "binary") for leaf in _leaves(expression))


def _leaves(expression: Expression) -> Iterator[Column | Literal]:
    if isinstance(expression, Cast):
        yield from _leaves(expression.argument)
    elif isinstance(expression, Call):
        for argument in expression.arguments:
            yield from _leaves(argument)
    else:
        yield expression


# --- Constants in Lance's SQL, in the column's own type, which keeps their value and the use of an index
# DataFusion converts a constant to the type of the compared column, and rounds or wraps around if that type cannot hold
# it: a timestamp with microseconds becomes one with milliseconds, a year 1 in nanoseconds a time in this century, a
# wall-clock time in a column with a time zone an instant of that zone.

_UNITS = {"s": "Second", "ms": "Millisecond", "us": "Microsecond", "ns": "Nanosecond"}
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_LOWEST, _HIGHEST = -(2**63), 2**63 - 1


class Outside(enum.Enum):
    """Why a constant has no text: it equals no value of the column's type."""

    BELOW = "less than all values of the type"
    ABOVE = "greater than all values of the type"
    BETWEEN = "between two values of the type"


def literal(value: Any, kind: pa.DataType) -> str | Outside | None:
    """The constant as text of the column's type, or its position outside that type; None if neither is known.

    ``value`` is not None and not NaN, and has Spark's internal form of the column's Spark type.
    """
    if pt.is_dictionary(kind):
        return literal(value, kind.value_type)
    write = next((write for applies, write in _WRITERS if applies(kind)), None)
    return None if write is None else write(value, kind)


def quoted(text: str) -> str | None:
    """A string constant; None if it is not valid Unicode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return None
    return "'" + text.replace("'", "''") + "'"


def float_text(value: float, kind: pa.DataType) -> str:
    """A float constant, including ``inf`` and NaN, in the type that Spark sees."""
    # A Java float arrives as the double that prints the same; both are the same float.
    text = repr(value) if pt.is_float64(kind) else str(np.float32(value))
    return f"CAST('{text}' AS {'DOUBLE' if pt.is_float64(kind) else 'FLOAT'})"


def _integer(value: int | Decimal, kind: pa.DataType) -> str | Outside:
    number = int(value)
    signed = pt.is_signed_integer(kind)
    highest = 2 ** (kind.bit_width - signed) - 1
    lowest = -highest - 1 if signed else 0
    if number < lowest:
        return Outside.BELOW
    if number > highest:
        return Outside.ABOVE
    # The parser reads the digits after the minus as a separate number, which is too large for a bigint.
    return str(number) if number != _LOWEST else f"CAST('{number}' AS BIGINT)"


def _float(value: float, kind: pa.DataType) -> str | Outside:
    if pt.is_float16(kind):
        with np.errstate(over="ignore"):
            exact = float(np.float16(value)) == float(np.float32(value))
        if not exact:
            return Outside.BETWEEN
    return float_text(value, kind)


def _decimal(value: Decimal, kind: pa.DataType) -> str | Outside:
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or -exponent > kind.scale:
        return Outside.BETWEEN
    if any(digits) and len(digits) + exponent > kind.precision - kind.scale:
        return Outside.BELOW if sign else Outside.ABOVE
    return f"CAST('{value:f}' AS DECIMAL({kind.precision},{kind.scale}))"


def _binary(value: bytes, _kind: pa.DataType) -> str:
    return f"X'{bytes(value).hex()}'"


def _fixed_binary(value: bytes, kind: pa.DataType) -> str | Outside:
    return _binary(value, kind) if len(value) == kind.byte_width else Outside.BETWEEN


def _timestamp(value: int, kind: pa.DataType) -> str | Outside | None:
    if kind.tz is not None and not set(kind.tz).isdisjoint("'\"\\"):
        return None
    ticks, rest = divmod(int(value) * _PER_SECOND[kind.unit], 10**6)
    if rest:
        return Outside.BETWEEN
    if ticks > _HIGHEST:
        return Outside.ABOVE
    if ticks <= _LOWEST:
        return Outside.BELOW if ticks < _LOWEST else None
    zone = "None" if kind.tz is None else f'Some("{kind.tz}")'
    return f"arrow_cast({ticks}, 'Timestamp({_UNITS[kind.unit]}, {zone})')"


_WRITERS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any, pa.DataType], str | Outside | None]], ...] = (
    (pt.is_boolean, lambda value, _: "true" if value else "false"),
    (pt.is_integer, _integer),
    (pt.is_floating, _float),
    (pt.is_decimal128, _decimal),
    (pt.is_string, lambda value, _: quoted(value)),
    (pt.is_large_string, lambda value, _: quoted(value)),
    (pt.is_binary, _binary),
    (pt.is_large_binary, _binary),
    (pt.is_fixed_size_binary, _fixed_binary),
    (pt.is_date32, lambda value, _: f"CAST({int(value)} AS DATE)"),
    (pt.is_timestamp, _timestamp),
)


def is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


# --- A dataset's simple types as Spark sees them, in Arrow's terms and by Spark's names
# :mod:`lance_spark.engine.types_spark` maps the types themselves; a test compares the two.

_ALIASES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}
"""Names in Spark's JSON schemas that differ from its ``simpleString``."""
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_NAMES = {
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us", "UTC"): "timestamp",
    pa.timestamp("us"): "timestamp_ntz",
}
_WIDENED = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
}
"""Types that Spark lacks, and the types that it reads them as."""
_MAX_DECIMAL = 38


def as_spark_sends(kind: pa.DataType) -> pa.DataType | None:
    """The Arrow type of a simple type's values in Spark; None for a nested one and for one without a rule."""
    if pt.is_dictionary(kind):
        return as_spark_sends(kind.value_type)
    kind = _WIDENED.get(kind, kind)
    if kind in _NAMES:
        return kind
    if pt.is_decimal(kind) and 0 <= kind.scale <= kind.precision <= _MAX_DECIMAL:
        return pa.decimal128(kind.precision, kind.scale)
    if pt.is_timestamp(kind):
        return pa.timestamp("us") if kind.tz is None else pa.timestamp("us", "UTC")
    return pa.binary() if pt.is_fixed_size_binary(kind) else None


def spark_name(kind: pa.DataType) -> str | None:
    """Spark's ``simpleString`` for a simple type, e.g. ``decimal(10,2)``; None if :func:`as_spark_sends` is None."""
    sent = as_spark_sends(kind)
    if sent is not None and pt.is_decimal(sent):
        return f"decimal({sent.precision},{sent.scale})"
    return None if sent is None else _NAMES[sent]


def same_type(name: str, kind: pa.DataType) -> bool:
    """Whether a type by Spark's name, as ``simpleString`` or as in its JSON schemas, is Spark's view of this type."""
    return _ALIASES.get(name, name) == spark_name(kind)


def widens(kind: pa.DataType, name: str) -> bool:
    """Whether a cast to Spark's type of that name keeps every value of a column the same whole number."""
    mine, target = spark_name(kind), _ALIASES.get(name, name)
    return mine in _INTEGERS and target in _INTEGERS and _INTEGERS.index(mine) <= _INTEGERS.index(target)


def plain_field(schema: pa.Schema, path: tuple[str, ...]) -> pa.Field | None:
    """The field at the end of a path, if its stored form is what a read returns: no blob, no extension type.

    And if Lance compares its values as Spark does, so none with a collation.
    """
    found = field_at(schema, path)
    if found is None or holds_blobs(found) or isinstance(found.type, pa.BaseExtensionType):
        return None
    if not all(is_plain(each) and not is_blob(each) for each in _on_path(schema, path)):
        return None
    return None if b"ARROW:extension:name" in (found.metadata or {}) else found


def _on_path(schema: pa.Schema, path: tuple[str, ...]) -> Iterator[pa.Field]:
    return (found for depth in range(1, len(path) + 1) if (found := field_at(schema, path[:depth])) is not None)


def field_at(schema: pa.Schema, path: tuple[str, ...]) -> pa.Field | None:
    """The field at the end of a path through structs; None if there is none. Names are case-sensitive."""
    found: pa.Field | None = None
    for depth, name in enumerate(path):
        if depth and (found is None or not pt.is_struct(found.type)):
            return None
        holder = schema if found is None else found.type
        index = holder.get_field_index(name)
        if index < 0:
            return None
        found = holder.field(index)
    return found
