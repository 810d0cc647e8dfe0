"""Which Arrow type may become which other, exactly.

One table serves both directions: a dataset's types become Spark's on reading, Spark's become the dataset's on
writing. A conversion is either lossless for every value, or checked value by value while it runs (see
:mod:`lance_spark.schema.conform`), or refused here, before a job starts.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.types as pt

_DECIMAL_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}
_EXACT_INTEGER_BITS = {16: 8, 32: 16, 64: 32}


def why_not(source: pa.DataType, target: pa.DataType, *, drop_fields: bool = False) -> str | None:
    """The reason a value of ``source`` cannot become ``target`` without loss; None when it can.

    ``drop_fields`` allows structs to lose fields: reading may project, writing may not.
    """
    if source == target or pt.is_null(source):
        return None
    if isinstance(source, pa.BaseExtensionType):
        return why_not(source.storage_type, target, drop_fields=drop_fields)
    if pt.is_dictionary(source):
        return why_not(source.value_type, target, drop_fields=drop_fields)
    if pt.is_dictionary(target):
        return why_not(source, target.value_type, drop_fields=drop_fields)
    if inner := _inner(source, target):
        return inner(source, target, drop_fields)
    for applies, judge in _RULES:
        if applies(source) and applies(target):
            return judge(source, target)
    if pt.is_integer(source) and (pt.is_floating(target) or pt.is_decimal(target)):
        return _integer_to_fraction(source, target)
    return "the types are unrelated"


def _integers(source: pa.DataType, target: pa.DataType) -> str | None:
    if pt.is_signed_integer(source) == pt.is_signed_integer(target):
        return _unless(target.bit_width >= source.bit_width)
    if pt.is_signed_integer(target):
        return _unless(target.bit_width > source.bit_width)
    # Spark has no unsigned types: uint16 reads as int, so int may be appended to uint16, each value checked.
    return _unless(source.bit_width <= 2 * target.bit_width)


def _floats(source: pa.DataType, target: pa.DataType) -> str | None:
    # Spark has no float16: it reads as float, so float may be appended to float16, each value checked.
    return _unless(target.bit_width >= source.bit_width or (source.bit_width, target.bit_width) == (32, 16))


def _decimals(source: pa.DataType, target: pa.DataType) -> str | None:
    whole = target.precision - target.scale >= source.precision - source.scale
    return _unless(whole and target.scale >= source.scale)


def _integer_to_fraction(source: pa.DataType, target: pa.DataType) -> str | None:
    if pt.is_decimal(target):
        return _unless(target.precision - target.scale >= _DECIMAL_DIGITS[source.bit_width])
    return _unless(source.bit_width <= _EXACT_INTEGER_BITS[target.bit_width])


def _timestamps(source: pa.DataType, target: pa.DataType) -> str | None:
    if (source.tz is None) != (target.tz is None):
        return "one side is an instant (with time zone), the other a wall-clock time (without)"
    return None


def _inner(source: pa.DataType, target: pa.DataType) -> Callable[[pa.DataType, pa.DataType, bool], str | None] | None:
    """The judge for types that hold other types; None when these two are no such pair."""
    for applies, judge in ((_is_list, _lists), (pt.is_map, _maps), (pt.is_struct, _structs)):
        if applies(source) and applies(target):
            return judge
    return None


def _lists(source: pa.DataType, target: pa.DataType, drop_fields: bool) -> str | None:
    if pt.is_fixed_size_list(source) and pt.is_fixed_size_list(target) and source.list_size != target.list_size:
        return f"the lists have lengths {source.list_size} and {target.list_size}"
    return why_not(source.value_type, target.value_type, drop_fields=drop_fields)


def _maps(source: pa.DataType, target: pa.DataType, drop_fields: bool) -> str | None:
    key = why_not(source.key_type, target.key_type, drop_fields=drop_fields)
    return key or why_not(source.item_type, target.item_type, drop_fields=drop_fields)


def _structs(source: pa.DataType, target: pa.DataType, drop_fields: bool) -> str | None:
    ours = {field.name: field for field in source}
    if len(ours) < source.num_fields:
        return "two of its fields have the same name"
    for field in target:
        mine = ours.pop(field.name, None)
        if mine is None and drop_fields:
            return f"there is no field '{field.name}' in it"
        if mine is None and not field.nullable:
            return f"field '{field.name}' is missing and cannot be null"
        reason = why_not(mine.type, field.type, drop_fields=drop_fields) if mine is not None else None
        if reason:
            return f"field '{field.name}': {reason}"
    return f"field '{next(iter(ours))}' does not exist on the other side" if ours and not drop_fields else None


def _exact(_source: pa.DataType, _target: pa.DataType) -> None:
    """Always possible, or checked value by value while converting."""
    return


def _unless(fits: bool) -> str | None:
    return None if fits else "values could be lost"


def _is_decimal_or_uint64(kind: pa.DataType) -> bool:
    return bool(pt.is_decimal(kind)) or kind == pa.uint64()


def _decimal_and_uint64(source: pa.DataType, target: pa.DataType) -> str | None:
    if pt.is_decimal(source) and pt.is_decimal(target):
        return _decimals(source, target)
    # Spark has no uint64: it reads as decimal(20,0), so that may be appended to uint64, each value checked.
    if target == pa.uint64():
        return _unless(pt.is_decimal(source) and source.scale == 0 and source.precision <= 20)
    return _integer_to_fraction(source, target)


def _is_string(kind: pa.DataType) -> bool:
    return bool(pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind))


def _is_binary(kind: pa.DataType) -> bool:
    return bool(
        pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_fixed_size_binary(kind) or pt.is_binary_view(kind)
    )


def _is_list(kind: pa.DataType) -> bool:
    return bool(pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind))


_RULES = (
    (pt.is_integer, _integers),
    (pt.is_floating, _floats),
    (_is_decimal_or_uint64, _decimal_and_uint64),
    (_is_string, _exact),
    (_is_binary, _exact),
    (pt.is_date, _exact),
    (pt.is_time, _exact),
    (pt.is_duration, _exact),
    (pt.is_timestamp, _timestamps),
)
