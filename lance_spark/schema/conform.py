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
    try:
        if pt.is_dictionary(field.type):
            return pc.cast(column, field.type.value_type).dictionary_encode().cast(field.type)
        if pt.is_null(field.type):
            return _all_null(column, field)
        result = pc.cast(column, field.type, safe=True)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as problem:
        raise SchemaMismatch(
            f"Column '{field.name}' of type {column.type} holds a value that {field.type} cannot hold: {problem}.",
            hint="Change or drop such values, or leave the column out.",
        ) from None
    if _narrows_float(column.type, field.type):
        _check_float_kept(column, result, field)
    return result


def _all_null(column: pa.Array, field: pa.Field) -> pa.Array:
    if column.null_count != len(column):
        raise SchemaMismatch(f"Column '{field.name}' can hold only nulls, but the data has values of {column.type}.")
    return pa.nulls(len(column))


def _narrows_float(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether floats become float16 anywhere inside: Arrow's safe cast rounds there without a word."""
    if pt.is_float16(target):
        return not pt.is_float16(source)
    if pt.is_list(target) or pt.is_large_list(target) or pt.is_fixed_size_list(target):
        return _narrows_float(source.value_type, target.value_type)
    if pt.is_struct(target):
        return any(
            source.get_field_index(child.name) >= 0 and _narrows_float(source.field(child.name).type, child.type)
            for child in target
        )
    return False


def _check_float_kept(before: pa.Array, after: pa.Array, field: pa.Field) -> None:
    if not pc.cast(after, before.type).equals(before) and not _equal_with_nan(before, pc.cast(after, before.type)):
        raise SchemaMismatch(
            f"Column '{field.name}' holds a float that {field.type} cannot hold exactly.",
            hint="Round the values to half precision first, or write to a column of type float.",
        )


def _equal_with_nan(left: pa.Array, right: pa.Array) -> bool:
    # NaN differs from itself, so arrays that hold one are compared by their Python text.
    return str(left.to_pylist()) == str(right.to_pylist())


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
        return next((found for found in children if found), None)
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
    if pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind):
        return not kind.value_field.nullable or _forbids_nulls_inside(kind.value_type)
    return False
