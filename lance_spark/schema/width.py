"""How many bytes a row of a type takes in memory, as an estimate for planning."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.types as pt

_VARIABLE = 24
"""Guess for one string or binary value: an offset and a short word."""
_LIST_LENGTH = 4
"""Guess for the number of elements of a list of variable length."""


def row_width(fields: Iterable[pa.Field]) -> float:
    """Estimated bytes of one row with these fields."""
    return sum(_width(field.type) for field in fields)


def _width(kind: pa.DataType) -> float:
    if isinstance(kind, pa.BaseExtensionType):
        return _width(kind.storage_type)
    if pt.is_dictionary(kind):
        return _width(kind.value_type)
    if pt.is_struct(kind):
        return row_width(kind)
    if pt.is_fixed_size_list(kind):
        return float(kind.list_size * _width(kind.value_type))
    if pt.is_map(kind):
        return _LIST_LENGTH * (_width(kind.key_type) + _width(kind.item_type))
    if pt.is_list(kind) or pt.is_large_list(kind):
        return _LIST_LENGTH * _width(kind.value_type)
    if pt.is_null(kind):
        return 0
    try:
        return float(kind.bit_width) / 8
    except ValueError:
        return _VARIABLE
