"""One column compared with constants, as SQL that is true for exactly the rows for which Spark says true.

All functions return None where that cannot be said. A row for which Spark says null is none of those.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from lance_spark.query.literals import Outside, float_text, is_nan, literal, quoted

NEVER, ALWAYS = "false", "true"
INVERSE = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
"""What is true where a comparison is false."""
MIRRORED = {"=": "=", "<>": "<>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
"""The comparison with its sides swapped."""
PARTS = {"STARTS_WITH": "starts_with", "ENDS_WITH": "ends_with", "CONTAINS": "contains"}
"""Functions on parts of strings, and their names in DataFusion."""


@dataclass(frozen=True)
class Reference:
    """A column of the dataset, as SQL says it."""

    sql: str
    kind: pa.DataType
    nested: bool
    """Whether it is a field of a struct."""

    @property
    def is_null(self) -> str:
        """True where it is null, or where a struct around it is."""
        return self._apart_from_indexes(f"{self.sql} IS NULL")

    @property
    def is_not_null(self) -> str:
        """True where it has a value."""
        return self._apart_from_indexes(f"{self.sql} IS NOT NULL")

    def _apart_from_indexes(self, sql: str) -> str:
        # Lance asks a zone map of a struct whether the struct is null, where the question is for one of its fields.
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
    """``column NOT IN (values)``, which no row is if one of the values is null."""
    values = list(values)
    return NEVER if any(value is None for value in values) else _listed(column, values, column.is_not_null, " NOT")


def matches(column: Reference, function: str, text: str | None, wanted: bool) -> str | None:
    """``STARTS_WITH``, ``ENDS_WITH`` or ``CONTAINS``, or its contrary."""
    if text is None:
        return NEVER
    constant = quoted(text)
    if constant is None:
        return None
    call = f"{PARTS[function]}({column.sql}, {constant})"
    return call if wanted else f"NOT {call}"


def compare_columns(left: Reference, operator: str, right: Reference) -> str | None:
    """Two columns of the same type."""
    kind = left.kind
    # DataFusion tells -0.0 from 0.0 and one NaN from another.
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
    """Spark takes all NaN for one value, greater than any other, and -0.0 for 0.0.

    Lance orders floats by their bits: a NaN whose sign bit is set, which is what 0.0 / 0.0 gives on x86, lies below
    minus infinity, and every NaN without it above infinity.
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
