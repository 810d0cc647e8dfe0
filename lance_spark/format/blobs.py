"""Blobs in a schema, at any depth: their mark, the types that they are read and written as, and their values."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lance_spark.format.schema import is_list

BLOB_KEY = "lance-encoding:blob"
"""Field metadata that marks a blob column, in Arrow and in Spark (the JVM connector's key)."""
BLOB_EXTENSION = "lance.blob.v2"
BLOB_BYTES = 256 * 2**10
"""Guess for the size of one blob, to keep batches of whole blobs small."""
_MARK = {BLOB_KEY: "true"}


# --- Fields


def is_blob(field: pa.Field) -> bool:
    """Whether an Arrow field is a blob: marked bytes (file format up to 2.1) or the blob extension type."""
    if isinstance(field.type, pa.BaseExtensionType):
        return bool(field.type.extension_name == BLOB_EXTENSION)
    metadata = field.metadata or {}
    return metadata.get(BLOB_KEY.encode(), b"").lower() == b"true" or (
        metadata.get(b"ARROW:extension:name") == BLOB_EXTENSION.encode()
    )


def holds_blobs(field: pa.Field) -> bool:
    """Whether a field is a blob, or has one inside."""
    return is_blob(field) or any(map(holds_blobs, _inside(field.type)))


def _inside(kind: pa.DataType) -> list[pa.Field]:
    return [kind.field(at) for at in range(kind.num_fields)] if pt.is_nested(kind) else []


def is_blob_extension(field: pa.Field) -> bool:
    """Whether the field stores blobs through the extension type, whose values are structs around the bytes."""
    return isinstance(field.type, pa.BaseExtensionType) and bool(field.type.extension_name == BLOB_EXTENSION)


def plain_bytes(field: pa.Field) -> pa.Field:
    """The field in the form of its input values: blobs of the extension type, at any depth, are bytes."""
    return _blobs_as(field, is_blob_extension, lambda blob: pa.field(blob.name, pa.large_binary(), blob.nullable))


def marked(shown: pa.Field, stored: pa.Field) -> pa.Field:
    """A field of a read, with a mark at each of its fields that is a blob in the stored schema."""
    if is_blob(stored):
        return shown.with_metadata({**(shown.metadata or {}), **_MARK})
    if not holds_blobs(stored):
        return shown
    inner = {each.name: each for each in _inside(stored.type)}
    if pt.is_struct(shown.type):
        return shown.with_type(pa.struct([marked(each, inner[each.name]) for each in shown.type]))
    return shown.with_type(_list_of(shown.type, marked(shown.type.value_field, stored.type.value_field)))


def stored_as(field: pa.Field, made: Callable[[pa.Field], pa.Field]) -> pa.Field:
    """The field with each marked one, at any depth, in the form in which a file format stores blobs."""
    return _blobs_as(field, lambda each: (each.metadata or {}).get(BLOB_KEY.encode()) == b"true", made)


def mark_elements(kind: pa.DataType) -> pa.DataType:
    """A list, of lists or of bytes, whose elements are blobs."""
    element = kind.value_field
    if is_list(element.type):
        return _list_of(kind, element.with_type(mark_elements(element.type)))
    return _list_of(kind, element.with_type(pa.large_binary()).with_metadata(_MARK))


def is_list_of_bytes(kind: pa.DataType) -> bool:
    """Whether a type is a list of bytes, or of such lists."""
    return bool(is_list(kind)) and (holds_bytes(kind.value_type) or is_list_of_bytes(kind.value_type))


def is_list_of_blobs(kind: pa.DataType) -> bool:
    """Whether a type is a list of bytes, or of such lists, and each of these is a blob."""
    return is_list_of_bytes(kind) and (is_blob(kind.value_field) or is_list_of_blobs(kind.value_type))


def _blobs_as(field: pa.Field, applies: Callable[[pa.Field], bool], made: Callable[[pa.Field], pa.Field]) -> pa.Field:
    if applies(field):
        return made(field)
    kind = field.type
    if pt.is_struct(kind):
        return field.with_type(pa.struct([_blobs_as(each, applies, made) for each in kind]))
    return field.with_type(_list_of(kind, _blobs_as(kind.value_field, applies, made))) if is_list(kind) else field


def _list_of(kind: pa.DataType, element: pa.Field) -> pa.DataType:
    if pt.is_fixed_size_list(kind):
        return pa.list_(element, kind.list_size)
    return pa.large_list(element) if pt.is_large_list(kind) else pa.list_(element)


# --- Types

_DESCRIPTIONS = (["position", "size"], ["kind", "position", "size", "blob_id", "blob_uri"])
_PLACES = (pa.uint64(), pa.decimal128(20, 0))


def is_blob_description(kind: pa.DataType) -> bool:
    """Whether values of the type say where a blob is in a file, in Lance's types or in Spark's."""
    if not pt.is_struct(kind) or [field.name for field in kind] not in _DESCRIPTIONS:
        return False
    return all(kind.field(name).type in _PLACES for name in ("position", "size"))


def describes_blobs(kind: pa.DataType) -> bool:
    """Whether a type is a description of a blob, or has one inside."""
    return is_blob_description(kind) or any(describes_blobs(each.type) for each in _inside(kind))


def holds_bytes(kind: pa.DataType) -> bool:
    """Whether a type is plain bytes, as the values of a blob column must be."""
    return bool(pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_fixed_size_binary(kind) or pt.is_null(kind))


# --- Values


def wrapped(values: pa.Array, field: pa.Field) -> pa.Array:
    """Values with bytes in place of blobs, as values of the field."""
    return _converted(values, lambda _, target: is_blob_extension(target), _extension, field)


def without_rows(schema: pa.Schema) -> pa.Table:
    """A table of the schema; that of pyarrow's own ``empty_table`` may hold no blobs inside other types."""
    columns = [wrapped(pa.array([], plain_bytes(field).type), field) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def _extension(blobs: pa.Array, field: pa.Field) -> pa.Array:
    """Bytes as values of the column: pylance's blob type has other fields if it made the column from marked bytes."""
    storage = field.type.storage_type
    inner = [blobs if child.name == "data" else pa.nulls(len(blobs), child.type) for child in storage]
    values = pa.StructArray.from_arrays(inner, fields=list(storage), mask=blobs.is_null())
    return pa.ExtensionArray.from_storage(field.type, values)


_KEPT_PARTS = ("size", "blob_uri")


def without_places(values: pa.Array) -> pa.Array:
    """Values with descriptions of blobs, of which only size and URI are left: rows that move have other places."""
    return _converted(values, lambda kind, _: is_blob_description(kind), _size_and_uri)


def _size_and_uri(described: pa.Array, _: pa.Field | None) -> pa.Array:
    parts = [part for part in _KEPT_PARTS if described.type.get_field_index(part) >= 0]
    mask = described.is_null() if described.null_count else None
    return pa.StructArray.from_arrays([pc.struct_field(described, part) for part in parts], names=parts, mask=mask)


def descriptions_in(values: pa.Array) -> Iterator[pa.StructArray]:
    """All descriptions of blobs in a column, at any depth, without those of null structs and lists."""
    if is_blob_description(values.type):
        yield values
    elif pt.is_struct(values.type):
        for child in values.flatten():
            yield from descriptions_in(child)
    elif is_list(values.type):
        yield from descriptions_in(values.flatten())


def _converted(
    values: pa.Array,
    applies: Callable[[pa.DataType, pa.Field | None], bool],
    change: Callable[[pa.Array, pa.Field | None], pa.Array],
    target: pa.Field | None = None,
) -> pa.Array:
    """Values with another array in place of those at some depth; ``target`` is the field of the result, if known."""
    kind = values.type
    if applies(kind, target):
        return change(values, target)
    if pt.is_struct(kind) and kind.num_fields:
        targets = list(kind) if target is None else list(target.type)
        known = [None] * len(targets) if target is None else targets
        inner = [_converted(values.field(at), applies, change, each) for at, each in enumerate(known)]
        if all(each is values.field(at) or each.type == kind.field(at).type for at, each in enumerate(inner)):
            return values
        fields = [each.with_type(found.type) for each, found in zip(targets, inner, strict=True)]
        return pa.StructArray.from_arrays(inner, fields=fields, mask=values.is_null() if values.null_count else None)
    if pt.is_list(kind) or pt.is_large_list(kind):
        whole = pa.concat_arrays([values]) if values.offset else values
        element = kind.value_field if target is None else target.type.value_field
        inner = _converted(whole.values, applies, change, None if target is None else element)
        if inner.type == kind.value_type:
            return values
        made = type(whole)
        mask = whole.is_null() if whole.null_count else None
        return made.from_arrays(whole.offsets, inner, type=_list_of(kind, element.with_type(inner.type)), mask=mask)
    return values
