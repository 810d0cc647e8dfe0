"""Which files a filter in Lance's SQL rules out, by their facts.

Only comparisons of one column with constants are understood, joined by AND and OR; of everything else nothing is
assumed, so that it rules out nothing. What is read too much costs time; what is left out is a wrong answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from lance_spark.layout.fact_rules import Bounds, tracked
from lance_spark.layout.hash_rules import bucket_of
from lance_spark.layout.key_rules import array_of


@dataclass(frozen=True)
class Compared:
    column: str
    operator: str
    """``=``, ``<>``, ``<``, ``<=``, ``>``, ``>=``, ``IN``, ``IS NULL``, ``IS NOT NULL`` or ``STARTS``."""
    values: tuple[Any, ...] = ()
    """In the form of :class:`Bounds`."""
    hashed: tuple[tuple[int, tuple[int, ...]], ...] = ()
    """(number of buckets, those of the values), for ``=`` and ``IN``."""


@dataclass(frozen=True)
class All:
    parts: tuple[Condition, ...]


@dataclass(frozen=True)
class OneOf:
    parts: tuple[Condition, ...]


Condition: TypeAlias = "Compared | All | OneOf | None"
"""None: nothing is known of it."""


def columns_of(condition: Condition) -> set[str]:
    if isinstance(condition, Compared):
        return {condition.column}
    if isinstance(condition, All | OneOf):
        return set().union(*(columns_of(each) for each in condition.parts))
    return set()


def may_be_true(condition: Condition, bounds: Mapping[str, Bounds]) -> bool:
    """Whether the condition can be true for a row with values in these bounds; columns without bounds hold anything."""
    if condition is None:
        return True
    if isinstance(condition, All):
        return all(may_be_true(each, bounds) for each in condition.parts)
    if isinstance(condition, OneOf):
        return any(may_be_true(each, bounds) for each in condition.parts)
    known = bounds.get(condition.column)
    return True if known is None else _compared(condition, known)


def is_surely_true(condition: Condition, bounds: Mapping[str, Bounds]) -> bool:
    """Whether the condition is true for every row with values in these bounds."""
    if condition is None:
        return False
    if isinstance(condition, All):
        return all(is_surely_true(each, bounds) for each in condition.parts)
    if isinstance(condition, OneOf):
        return any(is_surely_true(each, bounds) for each in condition.parts)
    known = bounds.get(condition.column)
    return known is not None and _surely(condition, known)


def _surely(condition: Compared, known: Bounds) -> bool:
    operator, low, high = condition.operator, known.low, known.high
    if operator == "IS NULL" or low is None:
        return low is None and operator == "IS NULL"
    if known.has_null or operator == "IS NOT NULL":
        return not known.has_null
    if any(isinstance(value, float) for value in condition.values):
        return False
    if operator in ("=", "IN"):
        return bool(low == high and low in condition.values)
    value = condition.values[0]
    if operator == "STARTS":
        return bool(low.startswith(value) and high.startswith(value))
    outcomes = {
        "<>": value < low or value > high, "<": high < value, "<=": high <= value, ">": low > value, ">=": low >= value
    }  # fmt: skip
    return bool(outcomes[operator])


def _compared(condition: Compared, known: Bounds) -> bool:
    operator, low, high = condition.operator, known.low, known.high
    if operator == "IS NULL":
        return known.has_null
    if low is None:
        return False
    if operator == "IS NOT NULL":
        return True
    only = [(known.bucket(count), mine) for count, mine in condition.hashed]
    if any(bucket is not None and bucket not in mine for bucket, mine in only):
        return False
    if operator in ("=", "IN"):
        return any(low <= value <= high for value in condition.values)
    value = condition.values[0]
    if operator == "STARTS":
        return bool(low[: len(value)] <= value <= high[: len(value)])
    # Lance orders -0.0 below 0.0, which are equal here.
    ends = isinstance(value, float)
    if operator == "<>":
        return ends or not low == value == high
    if operator in ("<", "<="):
        return bool(low <= value) if ends or operator == "<=" else bool(low < value)
    return bool(high >= value) if ends or operator == ">=" else bool(high > value)


# --- Reading the SQL


class _Token(NamedTuple):
    kind: str
    """``name``, ``quoted``, ``text``, ``number`` or ``sign``."""
    value: str


_TOKENS = re.compile(
    r"\s*(?:(?P<quoted>`[^`]+`)|(?P<text>'(?:[^']|'')*')|(?P<number>\d+(?:\.\d+)?(?![\w.]))|(?P<name>[^\W\d]\w*)"
    r"|(?P<sign><>|<=|>=|!=|[=<>(),\-]))"
)
_UNSAFE = frozenset({"CASE", "SELECT", "WHEN", "XOR", "DIV"})
_COMPARISONS = {"=": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_SWAPPED = {"=": "=", "<>": "<>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
_ARROW_TIME = re.compile(r"Timestamp\((\w+), (None|Some\(\"[^\"]*\"\))\)")
_UNITS = {"Second": "s", "Millisecond": "ms", "Microsecond": "us", "Nanosecond": "ns"}
_MOST_DEPTH = 60
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def parse_filter(sql: str, schema: pa.Schema, buckets: Mapping[str, Sequence[int]]) -> Condition:
    """The condition, as far as it is understood. ``buckets`` are the numbers of buckets into which values are put."""
    tokens = _tokenized(sql)
    if tokens is None or any(token.kind == "name" and token.value.upper() in _UNSAFE for token in tokens):
        return None
    return _Parser(schema, buckets).condition(tokens, 0)


def _tokenized(sql: str) -> list[_Token] | None:
    found, at = [], 0
    end = len(sql.rstrip())
    while at < end:
        match = _TOKENS.match(sql, at)
        if match is None or match.lastgroup is None:
            return None
        found.append(_Token(match.lastgroup, match[match.lastgroup]))
        at = match.end()
    return found


class _Parser:
    def __init__(self, schema: pa.Schema, buckets: Mapping[str, Sequence[int]]) -> None:
        self._schema, self._buckets = schema, buckets

    def condition(self, tokens: list[_Token], depth: int) -> Condition:
        while _is_enclosed(tokens):
            tokens = tokens[1:-1]
        if depth > _MOST_DEPTH:
            return None
        parts = _split(tokens, "OR")
        if parts is None:
            return None
        if len(parts) > 1:
            known = [self.condition(part, depth + 1) for part in parts]
            return None if any(each is None for each in known) else OneOf(tuple(known))
        parts = _split(tokens, "AND")
        if parts is None:
            return None
        if len(parts) > 1:
            found = tuple(self.condition(part, depth + 1) for part in parts)
            return None if all(each is None for each in found) else All(found)
        return self._leaf(tokens)

    def _leaf(self, tokens: list[_Token]) -> Condition:
        name = self._column(tokens[0]) if tokens else None
        words = [token.value.upper() for token in tokens]
        if name is None:
            return self._starts(tokens, words) or self._turned(tokens)
        kind = self._schema.field(name).type
        if words[1:] in (["IS", "NULL"], ["IS", "NOT", "NULL"]):
            return Compared(name, " ".join(words[1:]))
        if len(tokens) > 2 and words[1] == "IN" and _is_enclosed(tokens[2:]):
            listed = [_constant(each, kind) for each in _by_commas(tokens[3:-1])]
            return None if not listed or any(each is None for each in listed) else self._hashed(name, "IN", listed)
        if len(tokens) > 4 and words[1] == "BETWEEN":
            ends = _split(tokens[2:], "AND")
            low, high = (_constant(end, kind) for end in ends) if ends is not None and len(ends) == 2 else (None, None)
            return (
                None
                if low is None or high is None
                else All((Compared(name, ">=", (low,)), Compared(name, "<=", (high,))))
            )
        operator = _COMPARISONS.get(tokens[1].value) if len(tokens) > 2 and tokens[1].kind == "sign" else None
        value = None if operator is None else _constant(tokens[2:], kind)
        return None if operator is None or value is None else self._hashed(name, operator, [value])

    def _turned(self, tokens: list[_Token]) -> Condition:
        name = self._column(tokens[-1]) if len(tokens) > 2 else None
        operator = _COMPARISONS.get(tokens[-2].value) if name is not None and tokens[-2].kind == "sign" else None
        if name is None or operator is None:
            return None
        value = _constant(tokens[:-2], self._schema.field(name).type)
        return None if value is None else self._hashed(name, _SWAPPED[operator], [value])

    def _starts(self, tokens: list[_Token], words: list[str]) -> Condition:
        if len(tokens) != 6 or words[0] != "STARTS_WITH" or [words[1], words[3], words[5]] != ["(", ",", ")"]:
            return None
        name = self._column(tokens[2])
        if name is None or not _is_text(self._schema.field(name).type):
            return None
        value = _constant(tokens[4:5], self._schema.field(name).type)
        return None if value is None else Compared(name, "STARTS", (value,))

    def _hashed(self, name: str, operator: str, values: list[Any]) -> Compared:
        kind = self._schema.field(name).type
        hashed = []
        for count in self._buckets.get(name, ()) if operator in ("=", "IN") else ():
            hashed.append((count, tuple(bucket_of(array_of(values, kind), count).tolist())))
        return Compared(name, operator, tuple(values), tuple(hashed))

    def _column(self, token: _Token) -> str | None:
        """The column of a name; None for a name that might mean another one, or values whose bounds are not kept."""
        if token.kind not in ("name", "quoted"):
            return None
        name = token.value.strip("`")
        at = self._schema.get_field_index(name)
        if sum(other.lower() == name.lower() for other in self._schema.names) > 1:
            return None
        if at < 0 or not tracked(self._schema.field(at).type):
            return None
        return name


def _is_text(kind: pa.DataType) -> bool:
    return bool(pt.is_string(kind) or pt.is_large_string(kind))


def _depths(tokens: list[_Token]) -> Iterator[int]:
    """The number of open brackets after each token."""
    depth = 0
    for token in tokens:
        depth += (token == _OPEN) - (token == _CLOSED)
        yield depth


_OPEN, _CLOSED = _Token("sign", "("), _Token("sign", ")")


def _is_enclosed(tokens: list[_Token]) -> bool:
    """Whether one pair of brackets is around all of it."""
    if len(tokens) < 2 or tokens[0] != _OPEN or tokens[-1] != _CLOSED:
        return False
    return all(depth > 0 for depth in [*_depths(tokens)][:-1])


def _split(tokens: list[_Token], word: str) -> list[list[_Token]] | None:
    """The parts between words outside of brackets; None if brackets do not match. A BETWEEN has an AND of its own."""
    parts: list[list[_Token]] = [[]]
    between = 0
    for token, depth in zip(tokens, _depths(tokens), strict=True):
        if depth < 0:
            return None
        is_word = depth == 0 and token.kind == "name"
        between += is_word and token.value.upper() == "BETWEEN"
        if is_word and token.value.upper() == "AND" and between:
            between -= 1
            parts[-1].append(token)
        elif is_word and token.value.upper() == word:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts if tokens and all(parts) else None


def _by_commas(tokens: list[_Token]) -> list[list[_Token]]:
    parts: list[list[_Token]] = [[]]
    for token, depth in zip(tokens, _depths(tokens), strict=True):
        if depth == 0 and token == _Token("sign", ","):
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


# --- Constants, in the form of bounds; None for what Lance might take for another value of the column's type


def _constant(tokens: list[_Token], kind: pa.DataType) -> Any:
    while _is_enclosed(tokens):
        tokens = tokens[1:-1]
    words = [token.value.upper() for token in tokens]
    if not tokens:
        return None
    if pt.is_boolean(kind):
        return {"TRUE": True, "FALSE": False}.get(words[0]) if len(tokens) == 1 and tokens[0].kind == "name" else None
    if _is_text(kind):
        return _unquoted(tokens[0]) if len(tokens) == 1 and tokens[0].kind == "text" else None
    if pt.is_integer(kind):
        return _integer(tokens, words, kind)
    if pt.is_date32(kind):
        return _date(tokens, words)
    if pt.is_timestamp(kind):
        return _timestamp(tokens, words, kind)
    if pt.is_decimal128(kind):
        return _cast(tokens, words, f"DECIMAL({kind.precision},{kind.scale})", Decimal)
    if pt.is_float64(kind):
        return _cast(tokens, words, "DOUBLE", float)
    return _cast(tokens, words, "FLOAT", lambda text: float(np.float32(text)))


def _unquoted(token: _Token) -> str:
    return token.value[1:-1].replace("''", "'")


def _integer(tokens: list[_Token], words: list[str], kind: pa.DataType) -> int | None:
    if words[:2] == ["CAST", "("]:
        found = _cast(tokens, words, "BIGINT", int)
    else:
        sign, digits = (-1, tokens[1:]) if words[0] == "-" else (1, tokens)
        whole = len(digits) == 1 and digits[0].kind == "number" and digits[0].value.isdigit()
        found = sign * int(digits[0].value) if whole else None
    most = 2 ** (kind.bit_width - 1)
    return found if found is not None and -most <= found < most else None


def _cast(tokens: list[_Token], words: list[str], target: str, read: Any) -> Any:
    if words[:2] != ["CAST", "("] or words[-1] != ")" or len(words) < 6 or words[3] != "AS":
        return None
    if "".join(words[4:-1]) != target.upper() or tokens[2].kind != "text":
        return None
    try:
        value = read(_unquoted(tokens[2]))
    except (ValueError, ArithmeticError):
        return None
    return None if value != value else value


def _date(tokens: list[_Token], words: list[str]) -> int | None:
    if words[:2] == ["CAST", "("] and words[-3:] == ["AS", "DATE", ")"]:
        inner = tokens[2:-3]
        sign, digits = (-1, inner[1:]) if inner and inner[0].value == "-" else (1, inner)
        if len(digits) == 1 and digits[0].kind == "number" and digits[0].value.isdigit():
            return sign * int(digits[0].value)
        text = inner[0] if len(inner) == 1 and inner[0].kind == "text" else None
    elif len(tokens) == 2 and words[0] == "DATE" and tokens[1].kind == "text":
        text = tokens[1]
    else:
        text = tokens[0] if len(tokens) == 1 and tokens[0].kind == "text" else None
    if text is None or not re.fullmatch(r"\d{4}-\d\d-\d\d", _unquoted(text)):
        return None
    try:
        return (date.fromisoformat(_unquoted(text)) - date(1970, 1, 1)).days
    except ValueError:
        return None


def _timestamp(tokens: list[_Token], words: list[str], kind: pa.DataType) -> int | None:
    if words[:2] == ["ARROW_CAST", "("] and words[-1] == ")" and tokens[-2].kind == "text":
        target = _ARROW_TIME.fullmatch(_unquoted(tokens[-2]))
        zone = None if target is None or target[2] == "None" else target[2][6:-2]
        if target is None or _UNITS.get(target[1]) != kind.unit or zone != kind.tz:
            return None
        return _integer(tokens[2:-3], words[2:-3], pa.int64()) if words[-3] == "," else None
    if len(tokens) != 2 or words[0] != "TIMESTAMP" or tokens[1].kind != "text" or kind.tz is not None:
        return None
    text = _unquoted(tokens[1])
    if kind.unit != "us" or not re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,6})?", text):
        return None
    try:
        moment = datetime.fromisoformat(text if "." not in text else text.ljust(26, "0"))
    except ValueError:
        return None
    whole = moment.replace(tzinfo=timezone.utc) - _EPOCH  # a wall-clock time counts as if it were in UTC
    return (whole.days * 86_400 + whole.seconds) * 10**6 + whole.microseconds
