"""Columns and types of a dataset: projections, legal names, blobs, row sizes, and exact conversions of batches."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lance_spark.core.options import path_segments
from lance_spark.errors import InvalidOption, NotFound, SchemaMismatch

# --- Rows to Arrow batches of a few thousand: a table of files can have millions


def in_batches(rows: Iterable[Sequence[Any]], schema: pa.Schema, most: int = 8_192) -> Iterator[pa.RecordBatch]:
    """The rows, with values in the order of the schema; no batch if there are no rows."""
    left = iter(rows)
    while block := list(islice(left, most)):
        columns = zip(*block, strict=True)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
        yield pa.record_batch(arrays, schema)


# --- Projections

ROW_ID = "_rowid"
ROW_ADDRESS = "_rowaddr"
ROW_COLUMNS = (ROW_ID, ROW_ADDRESS, "_row_created_at_version", "_row_last_updated_at_version")
"""Columns that every dataset has besides its own: never null, and read as bigint."""


def project(schema: pa.Schema, paths: Sequence[str] | None) -> pa.Schema:
    """The schema reduced to the column paths, in their order; a nested path keeps its enclosing struct.

    ``m.a`` gives ``m: struct<a>``, so ``m.a`` means the same in a query with or without the projection.
    Raises NotFound for an unknown path and SchemaMismatch for a path into a column that is not a struct.
    """
    if paths is None:
        return schema
    inside: dict[str, list[tuple[str, ...]]] = {}
    for path in paths:
        head, *rest = path_segments(path)
        if schema.get_field_index(head) < 0:
            head, rest = _whole_name(schema, path, head)
        inside.setdefault(head, []).append(tuple(rest))
    fields = [_prune(schema.field(name), inner, name) for name, inner in inside.items()]
    return pa.schema(fields, metadata=schema.metadata)


def add_row_columns(schema: pa.Schema, row_id: bool, row_address: bool) -> pa.Schema:
    """The schema followed by pylance's row id and row address columns.

    They are unsigned in Lance and read as bigint: neither ever reaches the sign bit.
    """
    extra = [name for name, added in ((ROW_ID, row_id), (ROW_ADDRESS, row_address)) if added]
    for name in extra:
        if schema.get_field_index(name) < 0:
            schema = schema.append(pa.field(name, pa.int64()))
    return schema


def case_pair(fields: Iterable[pa.Field]) -> tuple[str, str] | None:
    """Two columns, or fields of a struct at any depth, whose names differ only in case; None if there are none."""
    seen: dict[str, str] = {}
    inside = []
    for field in fields:
        if (other := seen.setdefault(field.name.lower(), field.name)) != field.name:
            return other, field.name
        inside.append(field.type)
    found = (case_pair(kind.field(at) for at in range(kind.num_fields)) for kind in inside)
    return next((pair for pair in found if pair is not None), None)


def _whole_name(schema: pa.Schema, path: str, head: str) -> tuple[str, list[str]]:
    """A column whose own name contains dots, or the error for an unknown column."""
    whole = path.strip("`")
    if schema.get_field_index(whole) >= 0:
        return whole, []
    raise unknown_column(head, schema.names)


def unknown_column(name: str, known: Sequence[str]) -> NotFound:
    """A NotFound for a column, with the nearest known names."""
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    folded = [other for other in known if other.lower() == name.lower()]
    names = folded or near
    hint = (
        "Did you mean " + " or ".join(f"'{other}'" for other in names) + "?"
        if names
        else "The dataset has " + ", ".join(known[:10]) + (" and more." if len(known) > 10 else ".")
    )
    return NotFound(f"There is no column '{name}'.", hint=hint)


def _prune(field: pa.Field, inner: list[tuple[str, ...]], path: str) -> pa.Field:
    if any(not rest for rest in inner):
        return field
    if not pt.is_struct(field.type):
        raise SchemaMismatch(
            f"Column '{path}' is {field.type}, so '{path}.{inner[0][0]}' cannot be read on its own.",
            hint=f"Only fields of structs can be selected; read '{path}' whole.",
        )
    inside: dict[str, list[tuple[str, ...]]] = {}
    for head, *rest in inner:
        inside.setdefault(head, []).append(tuple(rest))
    children = {child.name: child for child in field.type}
    for name in inside:
        if name not in children:
            raise unknown_column(f"{path}.{name}", [f"{path}.{child}" for child in children])
    pruned = [_prune(children[name], rest, f"{path}.{name}") for name, rest in inside.items()]
    return field.with_type(pa.struct(pruned))


# --- Legal names of columns

RULES = "Names are not empty, not _rowid or _rowaddr, and hold no '.' and no '`'"
_OWN = frozenset({ROW_ID, ROW_ADDRESS})


def is_column_name(name: str) -> bool:
    """Whether pylance can write and read a column of that name."""
    return bool(name) and "." not in name and "`" not in name and name not in _OWN


# --- Types of columns as users type them, without an SQL engine

_NAMES = {
    ("tinyint", "byte"): pa.int8(),
    ("smallint", "short"): pa.int16(),
    ("int", "integer"): pa.int32(),
    ("bigint", "long"): pa.int64(),
    ("float", "real"): pa.float32(),
    ("double",): pa.float64(),
}
_BY_NAME = {name: kind for names, kind in _NAMES.items() for name in names}
_DECIMAL = re.compile(r"(?:decimal|dec|numeric)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)")


def number_name(kind: pa.DataType) -> str:
    """The name of a number's type in Spark's SQL; Arrow's for another type."""
    if pt.is_decimal(kind):
        return f"decimal({kind.precision}, {kind.scale})"
    return next((names[0] for names, known in _NAMES.items() if known == kind), str(kind))


def number_type(text: str) -> pa.DataType:
    """The type of that name in Spark's SQL: only numbers can be widened. Raises InvalidOption."""
    plain = text.strip().lower()
    decimal = _DECIMAL.fullmatch(plain)
    if decimal is not None and 0 <= int(decimal[2] or 0) <= int(decimal[1]) <= 38 and int(decimal[1]):
        return pa.decimal128(int(decimal[1]), int(decimal[2] or 0))
    if plain not in _BY_NAME:
        raise InvalidOption(
            f"A column cannot be changed to the type {text!r}.",
            hint=f"Numbers can be given a wider type of their kind: {', '.join(_BY_NAME)}, decimal(p, s).",
        )
    return _BY_NAME[plain]


# --- Structs without fields

PLACEHOLDER = pa.field("__empty_struct", pa.bool_())
"""The field, always null, that a struct without fields has in files: pylance cannot read back one that has none."""


def stored_fields(fields: Sequence[pa.Field]) -> list[pa.Field]:
    """The fields that a struct has in files."""
    return list(fields) or [PLACEHOLDER]


def shown_fields(kind: pa.StructType) -> list[pa.Field]:
    """The fields of a struct of a file that users see."""
    return [field for field in kind if not (field.name == PLACEHOLDER.name and field.type == PLACEHOLDER.type)]


# --- Estimated size of a row in memory

_VARIABLE = 24
"""Guess for one string or binary value: an offset and a short word."""
_LIST_LENGTH = 4
"""Guess for the number of elements of a list of variable length."""


def row_width(fields: Iterable[pa.Field]) -> float:
    """Estimated bytes of one row with these fields."""
    return sum(_width(field.type) for field in fields)


def share_of_row(schema: pa.Schema, types: Iterable[pa.DataType]) -> float:
    """The estimated part of a row, from 0 to 1, that columns or fields of these types are."""
    return min(1.0, sum(map(_width, types)) / (row_width(schema) or 1))


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


# --- Lossless conversions between Arrow types
# One table serves both directions: reading turns a dataset's types into Spark's, writing turns Spark's into the
# dataset's. A conversion is either lossless for every value, or checked value by value while it runs (see
# :func:`conform`), or refused here, before a job starts.

_DECIMAL_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}
_EXACT_INTEGER_BITS = {16: 8, 32: 16, 64: 32}


def why_not(source: pa.DataType, target: pa.DataType, *, drop_fields: bool = False) -> str | None:
    """The reason why a value of ``source`` cannot become ``target`` without loss; None if it can.

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
    # Spark has no unsigned types: uint16 reads as int, so int can be appended to uint16, each value checked.
    return _unless(source.bit_width <= 2 * target.bit_width)


def _floats(source: pa.DataType, target: pa.DataType) -> str | None:
    # Spark has no float16: it reads as float, so float can be appended to float16, each value checked.
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
    """The rule for two types that hold other types; None for any other pair."""
    for applies, judge in ((is_list, _lists), (pt.is_map, _maps), (pt.is_struct, _structs)):
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
    # Spark has no uint64: it reads as decimal(20,0), so that can be appended to uint64, each value checked.
    if target == pa.uint64():
        return _unless(pt.is_decimal(source) and source.scale == 0 and source.precision <= 20)
    return _integer_to_fraction(source, target)


def is_string(kind: pa.DataType) -> bool:
    """Text, in any of Arrow's layouts."""
    return bool(pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind))


def is_binary(kind: pa.DataType) -> bool:
    """Bytes, in any of Arrow's layouts."""
    return bool(
        pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_fixed_size_binary(kind) or pt.is_binary_view(kind)
    )


def is_list(kind: pa.DataType) -> bool:
    """A list, of any length or of a fixed one."""
    return bool(pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind))


_RULES = (
    (pt.is_integer, _integers),
    (pt.is_floating, _floats),
    (_is_decimal_or_uint64, _decimal_and_uint64),
    (is_string, _exact),
    (is_binary, _exact),
    (pt.is_date, _exact),
    (pt.is_time, _exact),
    (pt.is_duration, _exact),
    (pt.is_timestamp, _timestamps),
)


# --- Exact conversion of a batch to a schema


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch with exactly the schema's columns, order, types and nullability; columns are matched by name.

    Columns that already fit are passed on without a copy. Raises SchemaMismatch, naming the column, for a value that
    the target type cannot hold and for a null in a column that forbids nulls.
    """
    columns = [conform_column(batch.column(field.name), field) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def conform_column(column: pa.Array, field: pa.Field) -> pa.Array:
    """One column converted to the field's type and nullability."""
    column = _with_buffers(column)
    _check_times(column, field)
    if column.type != field.type:
        column = _cast(column, field)
    null = _find_null(column, field.type, field.nullable, field.name)
    if null is not None:
        raise SchemaMismatch(
            f"Column '{null}' holds a null, but its type does not allow nulls.",
            hint="Remove or fill the nulls first, e.g. df.na.fill(...) or df.where(col(...).isNotNull()).",
        )
    return column


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    if pt.is_null(column.type):
        return pa.nulls(len(column), field.type)
    if pt.is_null(field.type):
        return _all_null(column, field)
    try:
        if pt.is_dictionary(field.type):
            result = pc.cast(column, field.type.value_type).dictionary_encode().cast(field.type)
        else:
            result = pc.cast(column, field.type, safe=True)
        # pyarrow 26 casts a list of nulls inside another type to a list whose offsets point past its end.
        result.validate()
        # Arrow's safe cast silently rounds to float16, so both are compared where float16 is exact.
        wide = _replaced(field.type, pa.float16(), pa.float64())
        kept = wide == field.type or _same_floats(pc.cast(column, wide), pc.cast(result, wide))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as problem:
        raise SchemaMismatch(
            f"Column '{field.name}' of type {column.type} holds a value that {field.type} cannot hold: {problem}.",
            hint="Change or drop such values, or leave the column out.",
        ) from None
    if not kept:
        raise SchemaMismatch(
            f"Column '{field.name}' holds a float that {field.type} cannot hold exactly.",
            hint="Round the values to half precision first, or write to a column of type float.",
        )
    return result


def _check_times(column: pa.Array, field: pa.Field) -> None:
    """Refuse times with nanoseconds: Spark accepts them, but shows and collects them without."""
    coarse = _replaced(column.type, pa.time64("ns"), pa.time64("us"))
    if coarse == column.type:
        return
    try:
        pc.cast(column, coarse, safe=True)
    except pa.ArrowInvalid as problem:
        raise SchemaMismatch(
            f"Column '{field.name}' of type {column.type} holds a time that Spark cannot hold: {problem}.",
            hint="Round the times to microseconds, or leave the column out.",
        ) from None


def _with_buffers(column: pa.Array) -> pa.Array:
    """The column, copied if a child has no memory at all: the elements of a batch of empty or null lists.

    Arrow's stream format allows that, also for offsets. pyarrow's cast to a vector crashes on it, and pylance reads the
    first offset of such strings from whatever memory comes next.
    """
    if not pt.is_nested(column.type) or all(buffer is None or buffer.size for buffer in column.buffers()):
        return column
    return column.take(pa.array(range(len(column)), pa.int64()))


def _all_null(column: pa.Array, field: pa.Field) -> pa.Array:
    if column.null_count != len(column):
        raise SchemaMismatch(f"Column '{field.name}' can hold only nulls, but the data has values of {column.type}.")
    return pa.nulls(len(column))


def _replaced(kind: pa.DataType, old: pa.DataType, new: pa.DataType) -> pa.DataType:
    """The type with one type replaced by another throughout; dictionaries that hold it are decoded."""
    if kind == old:
        return new
    if pt.is_dictionary(kind):
        value = _replaced(kind.value_type, old, new)
        return kind if value == kind.value_type else value
    if pt.is_struct(kind):
        return pa.struct([child.with_type(_replaced(child.type, old, new)) for child in kind])
    if pt.is_map(kind):
        item = kind.item_field.with_type(_replaced(kind.item_type, old, new))
        return pa.map_(kind.key_field.with_type(_replaced(kind.key_type, old, new)), item)
    if is_list(kind):
        element = kind.value_field.with_type(_replaced(kind.value_type, old, new))
        if pt.is_fixed_size_list(kind):
            return pa.list_(element, kind.list_size)
        return pa.large_list(element) if pt.is_large_list(kind) else pa.list_(element)
    return kind


def with_wide_offsets(field: pa.Field) -> pa.Field:
    """The field with texts and bytes, at any depth, that can have more than 2 GiB in one array."""
    texts = _replaced(field.type, pa.string(), pa.large_string())
    return field.with_type(_replaced(texts, pa.binary(), pa.large_binary()))


def _same_floats(left: pa.Array, right: pa.Array) -> bool:
    """Whether two arrays of one type and shape hold the same floats; NaN equals NaN."""
    if pt.is_floating(left.type):
        return bool(pc.all(pc.or_(pc.equal(left, right), pc.is_nan(left)), min_count=0).as_py())
    if pt.is_struct(left.type):
        return all(_same_floats(left.field(index), right.field(index)) for index in range(left.type.num_fields))
    if pt.is_map(left.type):
        return _same_floats(map_entries(left), map_entries(right))
    return not pt.is_nested(left.type) or _same_floats(left.flatten(), right.flatten())


def _find_null(
    array: pa.Array, kind: pa.DataType, nullable: bool, path: str, parent: pa.Array | None = None
) -> str | None:
    """Path of the first null that the type forbids. ``parent`` masks rows whose enclosing struct is null."""
    if not nullable and array.null_count:
        hole = array.is_null() if parent is None else pc.and_(array.is_null(), parent)
        if pc.any(hole).as_py():
            return path
    if not _forbids_nulls_inside(kind):
        return None
    if pt.is_struct(kind):
        valid = array.is_valid() if parent is None else pc.and_(array.is_valid(), parent)
        children = (
            _find_null(array.field(index), child.type, child.nullable, f"{path}.{child.name}", valid)
            for index, child in enumerate(kind)
        )
        return next((inner for inner in children if inner), None)
    if parent is not None:
        array = array.filter(parent)
    if pt.is_map(kind):
        return _find_null(map_entries(array).field(1), kind.item_type, kind.item_field.nullable, f"{path}.value")
    return _find_null(array.flatten(), kind.value_type, kind.value_field.nullable, f"{path}.element")


def map_entries(array: pa.MapArray) -> pa.StructArray:
    """The keys and values of all maps, without those that a null map or a slice hides.

    The same buffers as a list: up to version 25, pyarrow aborts the process when it copies a map whose keys are half
    floats, and a cast refuses nulls that the type forbids, before anybody can say where they are.
    """
    valid_and_offsets, entries = array.buffers()[:2], array.values
    as_list = pa.list_(pa.field("entries", entries.type, nullable=False))
    found = pa.Array.from_buffers(as_list, len(array), valid_and_offsets, offset=array.offset, children=[entries])
    return found.flatten()


def _forbids_nulls_inside(kind: pa.DataType) -> bool:
    if pt.is_struct(kind):
        return any(not child.nullable or _forbids_nulls_inside(child.type) for child in kind)
    if pt.is_map(kind):
        return not kind.item_field.nullable or _forbids_nulls_inside(kind.item_type)
    if is_list(kind):
        return not kind.value_field.nullable or _forbids_nulls_inside(kind.value_type)
    return False
