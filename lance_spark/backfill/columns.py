"""The columns that a backfill makes: from what was typed to what is stored. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.types as pt

from lance_spark.errors import InvalidOption, Refused, SchemaMismatch
from lance_spark.options.text import names_of
from lance_spark.schema.blobs import is_blob
from lance_spark.schema.casts import why_not
from lance_spark.schema.column_changes import COMMENT
from lance_spark.schema.projection import unknown_column

_WORD = re.compile(r"`(?:[^`]|``)*`|\w+")
_EVERY = re.compile(r"[(,.]\s*\*")
"""``struct(*)``, ``hash(a, *)`` or ``t.*``: a product has something in front of its star."""


def new_columns(schema: pa.Schema, vector: Mapping[str, int] | None) -> pa.Schema:
    """The new columns as they are stored: any value may be null, and arrays named in ``vector`` have that length.

    Raises InvalidOption for a vector that is no array of numbers, SchemaMismatch for a column without a type, Refused
    for blobs.
    """
    for name in vector or {}:
        if schema.get_field_index(name) < 0:
            raise InvalidOption(f"vector names '{name}', which is none of the new columns.")
    if not schema.names:
        raise InvalidOption("No column was named.", hint='For example add_columns({"gain": "dep_delay - arr_delay"}).')
    return pa.schema([_stored(field, (vector or {}).get(field.name)) for field in schema])


def existing_columns(table: pa.Schema, given: pa.Schema) -> pa.Schema:
    """The table's columns of these names, as they are stored.

    Raises NotFound for one that is not there, SchemaMismatch for values of a type that could lose something.
    """
    found = []
    for field in given:
        at = table.get_field_index(field.name)
        if at < 0:
            raise unknown_column(field.name, table.names)
        stored = table.field(at)
        if is_blob(stored):
            raise Refused(f"Column '{field.name}' holds blobs, which cannot be updated as a whole column.")
        reason = why_not(field.type, stored.type)
        if reason:
            raise SchemaMismatch(
                f"The new values of column '{field.name}' are {field.type}, and it is {stored.type}: {reason}.",
                hint=f"Cast them, or give the column a wider type: alter_columns({{'{field.name}': ...}}).",
            )
        found.append(stored)
    return pa.schema(found)


def check_read(table: pa.Schema, columns: str | Sequence[str] | None) -> tuple[str, ...]:
    """The columns that a function reads; all but blobs if none were named. Raises NotFound."""
    if columns is None:
        return tuple(field.name for field in table if not is_blob(field))
    names = names_of(columns)
    for name in names:
        if table.get_field_index(name) < 0:
            raise unknown_column(name, table.names)
    return names


def columns_in(expressions: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """The columns that expressions in SQL may read: those whose names occur in them, or all if there is a ``*``.

    Never too few: a column cannot be read without its name. A word inside of a string may name one too many.
    """
    text = " ".join(expressions)
    if _EVERY.search(text):
        return tuple(names)
    words = {(word[1:-1].replace("``", "`") if word[0] == "`" else word).lower() for word in _WORD.findall(text)}
    return tuple(name for name in names if name.lower() in words)


def _stored(field: pa.Field, length: int | None) -> pa.Field:
    kind = field.type
    if is_blob(field):
        raise Refused(
            f"Column '{field.name}' would hold blobs.", hint="Write the rows to a new table with that column."
        )
    if pt.is_null(kind):
        raise SchemaMismatch(f"Column '{field.name}' has no type.", hint="Cast it: CAST(NULL AS double).")
    if length is not None:
        if not (pt.is_list(kind) and length > 0):
            raise InvalidOption(f"'{field.name}' is {kind}: it cannot be a vector of {length!r} elements.")
        kind = pa.list_(kind.value_field, length)
    comment = (field.metadata or {}).get(COMMENT.encode())
    return pa.field(field.name, kind, metadata={COMMENT: comment} if comment else None)
