"""CHECK constraints: conditions that every row of a table satisfies, read from SQL and evaluated on batches.

They are evaluated here and not by an engine, so that Spark's writes, those of a process without Spark, commands, fsck
and merges give one answer. That is why the language is small: what is not understood is refused when it is declared.
Values compare as in Spark: NaN is equal to itself and above all numbers, and the two zeros are one. As in SQL, a row is
wrong only if the condition is false: a comparison with null is neither.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lance_spark.core.texts import quoted_name
from lance_spark.errors import InvalidOption
from lance_spark.format.constants import ZONES, Constant, comparable, family, is_text, unquoted
from lance_spark.format.kept_types import kept_of

PREFIX = "lance_spark.constraints."
"""Of the keys in the table's configuration; the rest is the constraint's name, the value its condition."""
_NAME = re.compile(r"[^\W\d]\w*")
_TOKEN = re.compile(
    r"\s*(?:(?P<quoted>`(?:[^`]|``)+`)|(?P<text>'(?:[^'\\]|'')*')|(?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?(?![\w.]))"
    r"|(?P<name>[^\W\d]\w*)|(?P<sign><>|<=|>=|!=|==|[=<>(),\-]))"
)
_SIGNS = {"=": "=", "==": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_WORDS = frozenset({"AND", "OR", "NOT", "IN", "IS", "NULL", "BETWEEN", "LIKE", "TRUE", "FALSE"})
_MOST_DEPTH = 60
_FORMS = (
    "A condition compares columns with constants or other columns (=, <>, <, <=, >, >=, IN, BETWEEN, LIKE, IS NULL), "
    "or length(column), joined by AND, OR and NOT: price > 0 AND code IN ('a', 'b')."
)


@dataclass(frozen=True)
class Constraint:
    name: str
    condition: str
    """As it was declared: ``x > 0``."""

    def __str__(self) -> str:
        return f"CHECK {self.name} ({self.condition})"


def declared(settings: Mapping[str, str]) -> tuple[Constraint, ...]:
    """The constraints in a table's configuration, by name."""
    found = ((key[len(PREFIX) :], text) for key, text in settings.items() if key.startswith(PREFIX))
    return tuple(Constraint(name, text) for name, text in sorted(found))


def check_name(name: str) -> None:
    """Raise InvalidOption for a name that SQL would have to quote."""
    if not _NAME.fullmatch(name):
        raise InvalidOption(
            f"A constraint cannot be called {name!r}.", hint="Use letters, digits and underscores, such as 'positive'."
        )


# --- Conditions


@dataclass(frozen=True)
class _Column:
    name: str


@dataclass(frozen=True)
class _Length:
    column: _Column


_Operand: TypeAlias = "_Column | _Length | Constant"


@dataclass(frozen=True)
class _Compared:
    left: _Operand
    operator: str
    right: _Operand


@dataclass(frozen=True)
class _IsNull:
    operand: _Operand


@dataclass(frozen=True)
class _Like:
    operand: _Operand
    pattern: str


@dataclass(frozen=True)
class _Truth:
    """A boolean column, or TRUE or FALSE."""

    operand: _Operand


@dataclass(frozen=True)
class _Not:
    part: _Condition


@dataclass(frozen=True)
class _All:
    parts: tuple[_Condition, ...]


@dataclass(frozen=True)
class _OneOf:
    parts: tuple[_Condition, ...]


_Condition: TypeAlias = "_Compared | _IsNull | _Like | _Truth | _Not | _All | _OneOf"


class Check:
    """A constraint that fits the columns of a table."""

    def __init__(self, constraint: Constraint, schema: pa.Schema) -> None:
        """Raises InvalidOption for a condition that is not understood, or that the columns do not allow."""
        self.constraint, self._schema = constraint, schema
        self.constants: Mapping[str, pa.Scalar] = {}
        """The values of columns that batches lack, by name; those of others are null."""
        self._found = _ConditionParser(constraint, schema).whole()
        self.columns: tuple[str, ...] = tuple(dict.fromkeys(_names(self._found)))
        if not self.columns:
            raise _unfit(constraint, "it names no column")
        # Types that do not go together fail now, and not in the first write.
        nulls = [pa.nulls(1, schema.field(each).type) for each in self.columns]
        self.broken(pa.RecordBatch.from_arrays(nulls, [*self.columns]))

    def given(self, constants: Mapping[str, pa.Scalar]) -> Check:
        """The same for rows that lack columns, and have these values in them."""
        found = copy(self)
        found.constants = constants
        return found

    def broken(self, batch: pa.RecordBatch) -> pa.Array:
        """The places of rows for which the condition is false. Columns that the batch lacks are null."""
        for name in sorted(self.constants.keys() & {*self.columns} - {*batch.schema.names}):
            batch = batch.append_column(name, pa.repeat(self.constants[name], batch.num_rows))
        values = _value(self._found, _Rows(self.constraint, self._schema, batch))
        return pa.array(np.flatnonzero(pc.invert(values).fill_null(False).to_numpy(zero_copy_only=False)), pa.int64())


def _names(condition: Any) -> Iterator[str]:
    if isinstance(condition, _Column):
        yield condition.name
    for part in vars(condition).values():
        for each in part if isinstance(part, tuple) else (part,):
            if hasattr(each, "__dataclass_fields__"):
                yield from _names(each)


def checks_of(constraints: Iterable[Constraint], schema: pa.Schema) -> tuple[Check, ...]:
    """Raises InvalidOption for a constraint that the columns do not allow."""
    return tuple(Check(each, schema) for each in constraints)


def naming(constraints: Iterable[Constraint], schema: pa.Schema, columns: Iterable[str]) -> Constraint | None:
    """The first constraint that names one of the columns; one that is not understood may name any."""
    wanted = {*columns}
    for each in constraints:
        try:
            named = {*Check(each, schema).columns}
        except InvalidOption:
            return each
        if named & wanted:
            return each
    return None


def _unfit(constraint: Constraint, why: str) -> InvalidOption:
    return InvalidOption(f"{constraint} cannot be checked: {why}.", hint=_FORMS)


# --- Reading SQL


class _ConditionParser:
    def __init__(self, constraint: Constraint, schema: pa.Schema) -> None:
        self._constraint, self._schema = constraint, schema
        self._tokens: list[tuple[str, str]] = []
        self._at = 0
        text, at = constraint.condition.rstrip(), 0
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None or match.lastgroup is None:
                raise _unfit(constraint, f"'{text[at:].strip()[:30]}' is not understood")
            self._tokens.append((match.lastgroup, match[match.lastgroup]))
            at = match.end()

    def whole(self) -> _Condition:
        found = self._either(0)
        if self._at < len(self._tokens):
            raise self._bad()
        return found

    def _bad(self, why: str | None = None) -> InvalidOption:
        here = f"at '{self._tokens[self._at][1]}'" if self._at < len(self._tokens) else "at its end"
        return _unfit(self._constraint, why or f"it is not understood {here}")

    def _word(self, *words: str) -> bool:
        """Take these words if they come next."""
        ahead = self._tokens[self._at : self._at + len(words)]
        if [(kind, text.upper()) for kind, text in ahead] != [("name", word) for word in words]:
            return False
        self._at += len(words)
        return True

    def _sign(self, sign: str) -> bool:
        if self._tokens[self._at : self._at + 1] != [("sign", sign)]:
            return False
        self._at += 1
        return True

    def _need(self, taken: bool) -> None:
        if not taken:
            raise self._bad()

    def _either(self, depth: int) -> _Condition:
        if depth > _MOST_DEPTH:
            raise self._bad("it is nested too deeply")
        parts = [self._both(depth)]
        while self._word("OR"):
            parts.append(self._both(depth))
        return parts[0] if len(parts) == 1 else _OneOf(tuple(parts))

    def _both(self, depth: int) -> _Condition:
        parts = [self._one(depth)]
        while self._word("AND"):
            parts.append(self._one(depth))
        return parts[0] if len(parts) == 1 else _All(tuple(parts))

    def _one(self, depth: int) -> _Condition:
        if self._word("NOT"):
            if depth > _MOST_DEPTH:
                raise self._bad("it is nested too deeply")
            return _Not(self._one(depth + 1))
        if self._sign("("):
            found = self._either(depth + 1)
            self._need(self._sign(")"))
            return found
        return self._predicate()

    def _predicate(self) -> _Condition:
        left = self._operand()
        if self._word("IS"):
            negated = self._word("NOT")
            self._need(self._word("NULL"))
            return _negated(_IsNull(left), negated)
        negated = self._word("NOT")
        if self._word("IN"):
            self._need(self._sign("("))
            parts = [_Compared(left, "=", self._operand())]
            while self._sign(","):
                parts.append(_Compared(left, "=", self._operand()))
            self._need(self._sign(")"))
            return _negated(_OneOf(tuple(parts)), negated)
        if self._word("BETWEEN"):
            low = self._operand()
            self._need(self._word("AND"))
            ends = (_Compared(left, ">=", low), _Compared(left, "<=", self._operand()))
            return _negated(_All(ends), negated)
        if self._word("LIKE"):
            pattern = self._operand()
            if not (isinstance(pattern, Constant) and pattern.kind == "text"):
                raise self._bad("LIKE takes a text")
            return _negated(_Like(left, pattern.value), negated)
        if negated:
            raise self._bad()
        kind, text = self._tokens[self._at] if self._at < len(self._tokens) else ("", "")
        if kind == "sign" and text in _SIGNS:
            self._at += 1
            return _Compared(left, _SIGNS[text], self._operand())
        return _Truth(left)

    def _operand(self) -> _Operand:
        kind, text = self._tokens[self._at] if self._at < len(self._tokens) else ("", "")
        upper = text.upper()
        if kind == "sign" and text == "-":
            self._at += 1
            kind, text = self._tokens[self._at] if self._at < len(self._tokens) else ("", "")
            self._need(kind == "number")
            self._at += 1
            return Constant("number", f"-{text}")
        if kind in ("number", "text"):
            self._at += 1
            return Constant(kind, text if kind == "number" else unquoted(text))
        if kind == "name" and upper in ("TRUE", "FALSE"):
            self._at += 1
            return Constant("bool", upper == "TRUE")
        following = self._tokens[self._at + 1 : self._at + 2]
        is_typed = kind == "name" and upper in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ")
        if is_typed and following and following[0][0] == "text":
            self._at += 2
            return Constant("date" if upper == "DATE" else "time", unquoted(following[0][1]))
        if kind == "name" and upper in ("LENGTH", "CHAR_LENGTH") and following == [("sign", "(")]:
            self._at += 2
            column = self._column()
            self._need(self._sign(")"))
            return _Length(column)
        return self._column()

    def _column(self) -> _Column:
        kind, text = self._tokens[self._at] if self._at < len(self._tokens) else ("", "")
        if kind not in ("name", "quoted") or (kind == "name" and text.upper() in _WORDS):
            raise self._bad()
        name = text[1:-1].replace("``", "`") if kind == "quoted" else text
        alike = [each for each in self._schema.names if each.lower() == name.lower()]
        found = [name] if name in alike else alike
        if self._tokens[self._at + 1 : self._at + 2] == [("sign", "(")]:
            raise self._bad(f"the function {name} is not one of those that a constraint may use")
        if len(found) != 1:
            raise self._bad(f"{name} is more than one column" if found else f"there is no column {quoted_name(name)}")
        self._at += 1
        return _Column(found[0])


def _negated(condition: _Condition, negated: bool) -> _Condition:
    return _Not(condition) if negated else condition


# --- Values of a batch


@dataclass(frozen=True)
class _Rows:
    constraint: Constraint
    schema: pa.Schema
    batch: pa.RecordBatch

    def column(self, name: str) -> pa.Array:
        at = self.batch.schema.get_field_index(name)
        kind = self.schema.field(name).type
        return self.batch.column(at) if at >= 0 else pa.nulls(self.batch.num_rows, kind)


def _value(condition: _Condition, rows: _Rows) -> pa.Array:
    """The condition for each row, null where it is neither true nor false."""
    if isinstance(condition, _All | _OneOf):
        join = pc.and_kleene if isinstance(condition, _All) else pc.or_kleene
        found = _value(condition.parts[0], rows)
        for part in condition.parts[1:]:
            found = join(found, _value(part, rows))
        return found
    if isinstance(condition, _Not):
        return pc.invert(_value(condition.part, rows))
    if isinstance(condition, _IsNull):
        return pc.is_null(_array(condition.operand, rows))
    if isinstance(condition, _Compared):
        return _compared(condition, rows)
    if isinstance(condition, _Like):
        values = _array(condition.operand, rows)
        if not is_text(values.type):
            raise _unfit(rows.constraint, f"LIKE is for texts, not for {values.type}")
        return pc.match_substring_regex(values, _regex(condition.pattern))
    values = _array(condition.operand, rows)
    if not pt.is_boolean(values.type):
        raise _unfit(rows.constraint, f"a value of type {values.type} is no condition")
    return values


def _regex(pattern: str) -> str:
    parts = {"%": ".*", "_": "."}
    return "(?s)^" + "".join(parts.get(each) or re.escape(each) for each in pattern) + r"\z"


def _array(operand: _Operand, rows: _Rows) -> pa.Array:
    """The values of a column or of a length; of a constant only TRUE and FALSE, which need no column beside them."""
    if isinstance(operand, _Length):
        values = _array(operand.column, rows)
        if not is_text(values.type):
            raise _unfit(rows.constraint, f"length is for texts, not for {values.type}")
        return pc.utf8_length(values).cast(pa.int64())
    if isinstance(operand, _Column):
        field = rows.schema.field(operand.name)
        kept = next((each for each in kept_of(field).values() if not each.startswith("varchar")), None)
        if family(field.type) is None or kept is not None:
            raise _unfit(rows.constraint, f"it names '{operand.name}', a column of type {kept or field.type}")
        return rows.column(operand.name)
    if operand.kind != "bool":
        raise _unfit(rows.constraint, f"the constant {operand.value} stands alone")
    return pa.array([operand.value] * rows.batch.num_rows, pa.bool_())


_SWAPPED = {"=": "=", "<>": "<>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
_FUNCTIONS = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def _compared(condition: _Compared, rows: _Rows) -> pa.Array:
    left, operator, right = condition.left, condition.operator, condition.right
    if isinstance(left, Constant):
        left, operator, right = right, _SWAPPED[operator], left
    if isinstance(left, Constant):
        raise _unfit(rows.constraint, "it compares two constants")
    values = _array(left, rows)
    other = _constant(right, values.type, rows) if isinstance(right, Constant) else _array(right, rows)
    families = {family(values.type), family(other.type)}
    if families == {"float"}:
        return _floats(values.cast(pa.float64()), other.cast(pa.float64()), operator)
    if families <= {"whole", "decimal"}:
        kind = pa.int64()
        if "decimal" in families:
            scales = [each.type.scale for each in (values, other) if pt.is_decimal128(each.type)]
            kind = pa.decimal256(76, max(0, *scales))
        values, other = values.cast(kind), other.cast(kind)
    elif len(families) > 1 or (families == {"time"} and (values.type.tz is None) != (other.type.tz is None)):
        raise _unfit(rows.constraint, f"it compares {values.type} with {other.type}")
    elif families == {"text"}:
        values, other = values.cast(pa.large_string()), other.cast(pa.large_string())
    elif families == {"time"}:
        values, other = (_instants(each) for each in (values, other))
    return _FUNCTIONS[operator](values, other)


def _instants(values: pa.Array | pa.Scalar) -> Any:
    """Nanoseconds would overflow for most years; a finer unit decides only among values that have it."""
    per = {"s": 10**6, "ms": 10**3, "us": 1}.get(values.type.unit)
    ticks = values.cast(pa.int64())
    if per is not None:
        return pc.multiply(ticks, per)
    micros = pc.divide(ticks, 1000)  # toward zero, which is up before 1970
    return pc.subtract(micros, pc.cast(pc.greater(pc.multiply(micros, 1000), ticks), pa.int64()))


def _floats(left: pa.Array, right: Any, operator: str) -> pa.Array:
    a = left.fill_null(0).to_numpy(zero_copy_only=False)
    b = right.fill_null(0).to_numpy(zero_copy_only=False) if isinstance(right, pa.Array) else right.as_py()
    a_nan, b_nan = np.isnan(a), np.isnan(b)
    equal, less = (a == b) | (a_nan & b_nan), (a < b) | (~a_nan & b_nan)
    found = {
        "=": equal,
        "<>": ~equal,
        "<": less,
        "<=": less | equal,
        ">": ~(less | equal),
        ">=": ~less,
    }[operator]
    missing = left.is_null() if not isinstance(right, pa.Array) else pc.or_(left.is_null(), right.is_null())
    return pa.array(found, pa.bool_(), mask=missing.to_numpy(zero_copy_only=False))


def _constant(given: Constant, kind: pa.DataType, rows: _Rows) -> pa.Scalar:
    """A constant as a value of the column's kind. Raises InvalidOption if it is none."""
    found = comparable(given, kind)
    if found is None:
        zone = pt.is_timestamp(kind) and f" ({ZONES})"
        raise _unfit(rows.constraint, f"{given} is no value to compare with {kind}{zone or ''}")
    return found
