"""Which columns a read asks for, and the Arrow schema that comes out."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.types as pt

from lance_spark.errors import NotFound, SchemaMismatch
from lance_spark.options.text import path_segments

ROW_ID = "_rowid"
ROW_ADDRESS = "_rowaddr"
ROW_COLUMNS = (ROW_ID, ROW_ADDRESS, "_row_created_at_version", "_row_last_updated_at_version")
"""Columns that every dataset has beside its own: never null, and read as bigint."""


def project(schema: pa.Schema, paths: Sequence[str] | None) -> pa.Schema:
    """The schema reduced to the column paths, in their order; a nested path keeps its enclosing struct.

    ``m.a`` gives ``m: struct<a>``, so a query that says ``m.a`` means the same with and without the projection.
    Raises NotFound for an unknown path and SchemaMismatch for a path into something that is not a struct.
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


def _whole_name(schema: pa.Schema, path: str, head: str) -> tuple[str, list[str]]:
    """A column whose own name holds dots, or the error for a column that does not exist."""
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
