"""What pylance stores without fault: types it can read back, values its older formats keep, rows it encodes rightly.

Every writer of rows goes through here, so a fault of pylance is worked around in one place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lance_spark.errors import SchemaMismatch
from lance_spark.format.blobs import describes_blobs, holds_blobs, is_blob
from lance_spark.format.schema import is_binary, is_list, is_string

# --- Types

ROWS_PER_FILE = 2**20
"""pylance's default for the most rows of a data file."""
_FIRST, _WITHOUT_NULL_STRUCTS, _WITH_MAPS = (0, 1), (2, 0), (2, 2)
_NEWEST = (99, 0)
"""Stands for the formats that pylance calls "stable" and "next", and for its default."""
_NUMBERED = re.compile(r"(\d+)\.(\d+)")


def format_numbers(version: str | None) -> tuple[int, int]:
    """A file format as numbers that can be compared; None for pylance's default."""
    if version in ("legacy", ""):
        return _FIRST
    numbers = _NUMBERED.fullmatch(version or "")
    return (int(numbers[1]), int(numbers[2])) if numbers else _NEWEST


def check_types(fields: Iterable[pa.Field], version: str | None) -> None:
    """Raise SchemaMismatch, naming the column, for a type that files of this format cannot hold.

    pylance writes some of them, and then nobody can read the table.
    """
    for field in fields:
        found = _unstorable(field.type, field.name, format_numbers(version))
        if found is not None:
            path, reason, hint = found
            raise SchemaMismatch(f"Column '{path}' cannot be stored: {reason}.", hint=hint)


def check_new_types(fields: Iterable[pa.Field], version: str | None) -> None:
    """Like :func:`check_types`, for columns that a table does not have yet: those must not describe blobs, either.

    A description is a position in a file of the table that was read; in another table it points nowhere.
    """
    fields = list(fields)
    for field in fields:
        if describes_blobs(field.type):
            raise SchemaMismatch(
                f"Column '{field.name}' has the positions of blobs in another table, not their bytes.",
                hint="Read the bytes, by option blob_handling 'bytes'; in SQL, CREATE TEMPORARY VIEW v USING lance "
                "OPTIONS (path '...', blob_handling 'bytes'). Cast numbers of your own to bigint.",
            )
        if path := _blobs_in_collections(field, field.name):
            raise SchemaMismatch(
                f"Column '{path}' cannot be stored: Lance keeps blobs in columns and structs, not in arrays and maps.",
                hint="Give each blob a row or a field of its own, or remove the mark of blobs from its metadata.",
            )
    check_types(fields, version)


def _blobs_in_collections(field: pa.Field, path: str) -> str | None:
    """The first list or map, at any depth, with blobs inside.

    pylance has no maps of blobs. It has lists, but in format 2.1 nobody can read them, and in 2.2 nobody can read a run
    of rows whose lists are all empty: deleting the rows around them would be enough.
    """
    if pt.is_struct(field.type):
        inner = (_blobs_in_collections(each, f"{path}.{each.name}") for each in field.type)
        return next(filter(None, inner), None)
    return path if not is_blob(field) and holds_blobs(field) else None


def _unstorable(kind: pa.DataType, path: str, numbers: tuple[int, int]) -> tuple[str, str, str] | None:
    """(path, reason, hint) of the first type, at any depth, that cannot be stored."""
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if (missing := _missing(kind)) is not None:
        return path, f"Lance has no type {kind}", missing
    if pt.is_fixed_size_list(kind) and not kind.list_size:
        return path, "it is a list of the fixed length 0", "Make it a list of any length, or leave it out."
    if pt.is_fixed_size_list(kind) and not _has_fixed_width(kind.value_type):
        reason = f"Lance stores lists of a fixed length only of numbers, not of {kind.value_type}"
        return path, reason, "Make it a list of any length: remove its length from the column's metadata."
    if pt.is_map(kind) and numbers < _WITH_MAPS:
        reason = f"files of format {numbers[0]}.{numbers[1]} have no maps"
        hint = "Make it an array of structs: map_entries(...). A new table can have data_storage_version 2.2."
        return path, reason, hint
    if pt.is_struct(kind) and not kind.num_fields and numbers > _WITHOUT_NULL_STRUCTS:
        return (
            path,
            "it is a struct without fields, which pylance cannot read back",
            "Give it a field, or leave it out.",
        )
    for number in range(kind.num_fields if pt.is_nested(kind) else 0):
        inner = kind.field(number)
        below = f"{path}.{inner.name}" if pt.is_struct(kind) else path
        if found := _unstorable(inner.type, below, numbers):
            return found
    return None


_AS_LIST, _AS_DECIMAL = "Cast it to a list: column.cast(pa.list_(...)).", "Cast it to a decimal128."
_MISSING = {
    "is_run_end_encoded": "Decode it: pyarrow.compute.run_end_decode(column).",
    "is_list_view": _AS_LIST,
    "is_large_list_view": _AS_LIST,
    "is_decimal32": _AS_DECIMAL,
    "is_decimal64": _AS_DECIMAL,
    "is_interval": "Make it a duration, or a struct of its months, days and nanoseconds.",
    "is_union": "Make it a struct with a field for each type.",
}
"""Functions of pyarrow.types for types that pylance refuses as if a file were damaged, and what to do instead."""


def _missing(kind: pa.DataType) -> str | None:
    # pyarrow has had some of them for a few versions only.
    return next((hint for name, hint in _MISSING.items() if (has := getattr(pt, name, None)) and has(kind)), None)


def struct_without_fields(fields: Iterable[pa.Field]) -> str | None:
    """The first column that has a struct without fields, at any depth."""
    return next((field.name for field in fields if _has_empty_struct(field.type)), None)


def _has_empty_struct(kind: pa.DataType) -> bool:
    if pt.is_struct(kind) and not kind.num_fields:
        return True
    return any(
        _has_empty_struct(kind.field(number).type) for number in range(kind.num_fields if pt.is_nested(kind) else 0)
    )


def _has_fixed_width(kind: pa.DataType) -> bool:
    if pt.is_fixed_size_list(kind):
        return _has_fixed_width(kind.value_type)
    return bool(pt.is_primitive(kind) or pt.is_decimal(kind) or pt.is_fixed_size_binary(kind))


# --- Values that older formats do not keep


def check_values(batch: pa.RecordBatch, version: str | None) -> None:
    """Raise SchemaMismatch, naming the column, for values that files of this format would change without a word.

    Format 0.1 stores a null number as 0, a null list as an empty one, and an empty string as null. Format 2.0 has no
    null structs.
    """
    numbers = format_numbers(version)
    if numbers > _WITHOUT_NULL_STRUCTS:
        return
    for field, column in zip(batch.schema, batch.columns, strict=True):
        found = _changed(column, numbers <= _FIRST)
        if found is not None:
            raise SchemaMismatch(
                f"Column '{field.name}' holds {found}, which files of format {numbers[0]}.{numbers[1]} cannot hold.",
                hint="Fill or drop such values, or copy the table to a new one, which gets a newer format.",
            )


def _changed(array: pa.Array, first: bool) -> str | None:
    """What an old format would change in an array; ``first`` is the first format."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    kind = array.type
    if first and (is_string(kind) or is_binary(kind)):
        empty = not pt.is_fixed_size_binary(kind) and pc.any(pc.equal(pc.binary_length(array), 0)).as_py()
        return "an empty value" if empty else None
    if array.null_count and (first or pt.is_struct(kind)):
        return "a null struct" if pt.is_struct(kind) else "a null"
    if pt.is_struct(kind):
        return next(filter(None, (_changed(child, first) for child in array.flatten())), None)
    if pt.is_map(kind):
        return _changed(array.keys, first) or _changed(array.items, first)
    return _changed(array.flatten(), first) if is_list(kind) else None


# --- Rows in memory


def safe_batches(batches: Iterable[pa.RecordBatch], rows_per_file: int) -> Iterator[pa.RecordBatch]:
    """The rows, in batches that pylance neither cuts nor misreads; copied only where needed.

    pylance cuts a batch where a file is full, and a cut of a struct inside another type makes its encoder panic.
    """
    room = rows_per_file
    for batch in batches:
        start = 0
        while start < batch.num_rows:
            piece = batch.slice(start, room)
            start += piece.num_rows
            room = room - piece.num_rows or rows_per_file
            yield safe(piece)


def safe(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch in memory that pylance encodes rightly; not copied if it already is."""
    return pa.RecordBatch.from_arrays([_safe(column) for column in batch.columns], schema=batch.schema)


def is_fragile(kind: pa.DataType) -> bool:
    """Whether pylance may fail to encode a part of an array of the type."""
    return bool(pt.is_nested(kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind))


def _safe(column: pa.Array) -> pa.Array:
    if is_fragile(column.type) and _is_cut(column):
        column = pa.concat_arrays([column])
    return _aligned(column) if _holds_decimal(column.type) else column


def _is_cut(array: pa.Array) -> bool:
    """Whether a nested array, or one inside it, begins after the start of its memory.

    pylance takes the validity of an inner struct, or the bits of booleans beside nulls, from the wrong place then.
    """
    if isinstance(array, pa.ExtensionArray):
        return _is_cut(array.storage)
    kind = array.type
    if not pt.is_nested(kind):
        return bool(array.offset)
    if array.offset:
        return True
    if pt.is_struct(kind):
        return any(_is_cut(array.field(number)) for number in range(kind.num_fields))
    begins = 0 if pt.is_fixed_size_list(kind) or not len(array) else array.offsets[0].as_py()
    return bool(begins) or _is_cut(array.values)


_ALIGNMENT = 16
"""Required alignment in bytes of a decimal's values in Rust; Arrow's IPC streams, as Spark writes them, align to 8."""


def _aligned(column: pa.Array) -> pa.Array:
    """An unaligned decimal makes pylance panic, and whether one is unaligned depends on the columns before it."""
    if all(buffer is None or buffer.address % _ALIGNMENT == 0 for buffer in column.buffers()):
        return column
    return column.copy_to(pa.default_cpu_memory_manager())


def _holds_decimal(kind: pa.DataType) -> bool:
    return bool(pt.is_decimal(kind)) or any(_holds_decimal(kind.field(i).type) for i in range(kind.num_fields))
