"""What Spark says of a predicate and a row: an oracle for filters, written from Spark's rules and nothing of ours."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lance_spark.pushdown.filters import Call, Cast, Column, Expression, Literal

_COMPARED = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def holds(expression: Expression, row: dict[str, Any]) -> Any:
    """True, False or None (Spark's null) for a predicate; the value for any other expression."""
    if isinstance(expression, Literal):
        return _single(expression.value, expression.type)
    if isinstance(expression, Column):
        return _at(row, expression.path)
    if isinstance(expression, Cast):
        return holds(expression.argument, row)
    return _call(expression, row)


def _call(call: Call, row: dict[str, Any]) -> Any:
    name = call.name
    values = [holds(each, row) for each in call.arguments]
    if name in _OF_NULLS:
        return _OF_NULLS[name](*values)
    if None in values:
        return None
    if name == "NOT":
        return not values[0]
    if name in _COMPARED:
        return _COMPARED[name](_key(values[0]), _key(values[1]))
    text, part = (value.encode() for value in values)
    return {"STARTS_WITH": text.startswith, "ENDS_WITH": text.endswith, "CONTAINS": text.__contains__}[name](part)


def _and(*values: Any) -> Any:
    return False if False in values else None if None in values else True


def _or(*values: Any) -> Any:
    return True if True in values else None if None in values else False


def _same(left: Any, right: Any) -> bool:
    if left is None or right is None:
        return left is right
    return bool(_key(left) == _key(right))


def _member(value: Any, *listed: Any) -> bool | None:
    if value is None:
        return None
    if any(each is not None and _key(each) == _key(value) for each in listed):
        return True
    return None if None in listed else False


_OF_NULLS: dict[str, Callable[..., Any]] = {
    "ALWAYS_TRUE": lambda: True,
    "ALWAYS_FALSE": lambda: False,
    "AND": _and,
    "OR": _or,
    "<=>": _same,
    "IN": _member,
    "IS_NULL": lambda value: value is None,
    "IS_NOT_NULL": lambda value: value is not None,
    "COALESCE": lambda *values: next((value for value in values if value is not None), None),
}
"""What is not simply null where an argument is."""


def _key(value: Any) -> Any:
    """Compares as Spark compares: strings by their bytes, NaN as one value above all others, -0.0 as 0.0."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value + 0.0)
    return value.encode() if isinstance(value, str) else value


def _single(value: Any, kind: str) -> Any:
    return float(np.float32(value)) if kind == "float" and value is not None else value


def _at(row: dict[str, Any], path: tuple[str, ...]) -> Any:
    value: Any = row
    for name in path:
        value = None if value is None else value[name]
    return value


def spark_rows(table: pa.Table) -> list[dict[str, Any]]:
    """The rows with values as Spark holds them: dates as days, timestamps as microseconds."""
    columns = {name: _values(table[name].combine_chunks()) for name in table.column_names}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _values(array: pa.Array) -> list[Any]:
    kind = array.type
    found: list[Any]
    if isinstance(array, pa.ChunkedArray):
        return [value for chunk in array.chunks for value in _values(chunk)]
    if pt.is_dictionary(kind):
        return _values(pc.cast(array, kind.value_type))
    if pt.is_struct(kind):
        children = [_values(pc.struct_field(array, index)) for index in range(kind.num_fields)]
        names = [kind.field(index).name for index in range(kind.num_fields)]
        found = [dict(zip(names, values, strict=True)) for values in zip(*children, strict=True)]
        return [value if valid else None for value, valid in zip(found, array.is_valid().to_pylist(), strict=True)]
    if pt.is_date(kind):
        found = pc.cast(pc.cast(array, pa.date32()), pa.int32()).to_pylist()
        return found
    if pt.is_timestamp(kind):
        per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit]
        ticks = pc.cast(array, pa.int64()).to_pylist()
        return [None if tick is None else tick * 10**6 // per_second for tick in ticks]
    if kind == pa.uint64():
        return [None if value is None else Decimal(value) for value in array.to_pylist()]
    found = array.to_pylist()
    return found
