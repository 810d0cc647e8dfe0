"""Bring an Arrow batch to a schema exactly, or say which column and value stands in the way."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lance_spark.errors import SchemaMismatch


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch with exactly the schema's columns, order, types and nullability; columns are matched by name.

    Columns that fit already are passed on without a copy. Raises SchemaMismatch, naming the column, for a value
    that the target type cannot hold and for a null in a column that forbids nulls.
    """
    columns = [conform_column(batch.column(field.name), field) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def conform_column(column: pa.Array, field: pa.Field) -> pa.Array:
    """One column brought to the field's type and nullability."""
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
        # pyarrow 26 casts a list of nulls inside another type to one whose offsets point past its end.
        result.validate()
        # Arrow's safe cast rounds to float16 without a word, so the two are compared where float16 is exact.
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
    """Refuse times with nanoseconds: Spark takes them, but shows and collects them without."""
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
    """The column, copied where a child has no memory at all: the elements of a batch of empty or null lists.

    Arrow's stream format allows that, for offsets as well. pyarrow's cast to a vector crashes on it, and pylance
    reads the first offset of such strings from whatever lies next in memory.
    """
    if not pt.is_nested(column.type) or all(buffer is None or buffer.size for buffer in column.buffers()):
        return column
    return column.take(pa.array(range(len(column)), pa.int64()))


def _all_null(column: pa.Array, field: pa.Field) -> pa.Array:
    if column.null_count != len(column):
        raise SchemaMismatch(f"Column '{field.name}' can hold only nulls, but the data has values of {column.type}.")
    return pa.nulls(len(column))


def _replaced(kind: pa.DataType, old: pa.DataType, new: pa.DataType) -> pa.DataType:
    """The type with one type replaced by another wherever it occurs inside; dictionaries that hold it are undone."""
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
    if _is_list(kind):
        element = kind.value_field.with_type(_replaced(kind.value_type, old, new))
        if pt.is_fixed_size_list(kind):
            return pa.list_(element, kind.list_size)
        return pa.large_list(element) if pt.is_large_list(kind) else pa.list_(element)
    return kind


def _same_floats(left: pa.Array, right: pa.Array) -> bool:
    """Whether two arrays of one type and shape hold the same floats; NaN is the same as NaN."""
    if pt.is_floating(left.type):
        return bool(pc.all(pc.or_(pc.equal(left, right), pc.is_nan(left)), min_count=0).as_py())
    if pt.is_struct(left.type):
        return all(_same_floats(left.field(index), right.field(index)) for index in range(left.type.num_fields))
    if pt.is_map(left.type):
        left, right = _visible(left), _visible(right)
        return _same_floats(left.keys, right.keys) and _same_floats(left.items, right.items)
    return not pt.is_nested(left.type) or _same_floats(left.flatten(), right.flatten())


def _is_list(kind: pa.DataType) -> bool:
    return bool(pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind))


def _find_null(
    array: pa.Array, kind: pa.DataType, nullable: bool, path: str, parent: pa.Array | None = None
) -> str | None:
    """Path of the first null where the type forbids one. ``parent`` masks rows whose enclosing struct is null."""
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
        return _find_null(_visible(array).items, kind.item_type, kind.item_field.nullable, f"{path}.value")
    return _find_null(array.flatten(), kind.value_type, kind.value_field.nullable, f"{path}.element")


def _visible(array: pa.MapArray) -> pa.MapArray:
    """The map array without its null entries and its slice offset, so that ``items`` is exactly what is visible."""
    dense: pa.MapArray = pa.concat_arrays([array.drop_null()])
    first, last = dense.offsets[0].as_py(), dense.offsets[-1].as_py()
    return dense if (first, last) == (0, len(dense.items)) else pa.array(dense.to_pylist(), type=dense.type)


def _forbids_nulls_inside(kind: pa.DataType) -> bool:
    if pt.is_struct(kind):
        return any(not child.nullable or _forbids_nulls_inside(child.type) for child in kind)
    if pt.is_map(kind):
        return not kind.item_field.nullable or _forbids_nulls_inside(kind.item_type)
    if _is_list(kind):
        return not kind.value_field.nullable or _forbids_nulls_inside(kind.value_type)
    return False
