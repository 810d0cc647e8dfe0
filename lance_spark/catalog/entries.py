"""Rows of ``__manifest`` as values, and the columns it has (specification "Manifest Table Schema")."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.catalog.names import DELIMITER, NAMESPACE, TABLE, Identifier, from_object_id
from lance_spark.errors import CorruptData, InvalidOption

OBJECT_ID, OBJECT_TYPE, LOCATION, METADATA, BASE_OBJECTS = (
    "object_id",
    "object_type",
    "location",
    "metadata",
    "base_objects",
)
PRIMARY_KEY = b"lance-schema:unenforced-primary-key:position"
"""Marks the column as the table's primary key (newest text of the specification)."""
SCHEMA = pa.schema(
    [
        pa.field(OBJECT_ID, pa.string(), nullable=False, metadata={PRIMARY_KEY: b"0"}),
        pa.field(OBJECT_TYPE, pa.string(), nullable=False),
        pa.field(LOCATION, pa.string()),
        pa.field(METADATA, pa.string()),
        # The name of the list's child is the one pylance gives: another one makes it refuse to write.
        pa.field(BASE_OBJECTS, pa.list_(pa.field(OBJECT_ID, pa.string()))),
    ]
)
INDEXES = (
    ("object_id_btree", OBJECT_ID, "BTREE"),
    ("object_type_bitmap", OBJECT_TYPE, "BITMAP"),
    ("base_objects_label_list", BASE_OBJECTS, "LABEL_LIST"),
)
"""Name, column and type of the indexes that the specification asks for; the names are pylance's."""
_TEXTS = (OBJECT_ID, OBJECT_TYPE, LOCATION, METADATA)


@dataclass(frozen=True)
class Entry:
    """One row, of whatever type."""

    object_id: str
    object_type: str
    location: str | None = None
    """Path of the table's directory, relative to the catalog's root."""
    metadata: str | None = None
    """JSON as it was written."""

    @property
    def identifier(self) -> Identifier:
        """The name the row is for."""
        return from_object_id(self.object_id)

    @property
    def is_table(self) -> bool:
        """Whether it is a table's."""
        return self.object_type == TABLE

    @property
    def is_namespace(self) -> bool:
        """Whether it is a namespace's."""
        return self.object_type == NAMESPACE

    @property
    def properties(self) -> dict[str, str]:
        """The properties. What another tool wrote that is not text is given as JSON."""
        return {
            key: value if isinstance(value, str) else json.dumps(value)
            for key, value in decode_metadata(self.metadata, self.object_id).items()
        }


def decode_metadata(text: str | None, object_id: str) -> dict[str, Any]:
    """The JSON object in a row's metadata. Raises CorruptData for anything else."""
    if not text:
        return {}
    try:
        decoded = json.loads(text)
    except ValueError:
        decoded = None
    if not isinstance(decoded, dict):
        raise CorruptData(f"The metadata of '{object_id}' in the catalog is no JSON object.")
    return decoded


def encode_properties(properties: Mapping[str, Any]) -> str | None:
    """Properties as pylance writes them; None for none."""
    return json.dumps(dict(properties), separators=(",", ":"), ensure_ascii=False) if properties else None


def check_properties(properties: Mapping[str, str] | None) -> dict[str, str]:
    """The properties, if they are text. pylance cannot describe what has any other value."""
    given: Iterable[tuple[Any, Any]] = (properties or {}).items()
    for key, value in given:
        if not isinstance(key, str) or not isinstance(value, str) or not key:
            raise InvalidOption(f"The property {key!r}: {value!r} is not text.", hint="Give names and values as text.")
    return dict(properties or {})


class Rows:
    """Some rows of ``__manifest``, with all the columns it has."""

    def __init__(self, table: pa.Table) -> None:
        """Raises CorruptData for a table that lacks a column that nothing can be told without."""
        for name in (OBJECT_ID, OBJECT_TYPE, LOCATION):
            if name not in table.column_names:
                raise CorruptData(
                    f"The catalog's __manifest has no column '{name}'.", hint="Restore an older version of it."
                )
        self.table = table
        self._entries: tuple[Entry, ...] | None = None

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All rows, in the order of the table."""
        if self._entries is None:
            columns = [column_text(self.table, name) for name in _TEXTS]
            self._entries = tuple(map(Entry, *columns))
        return self._entries

    def find(self, object_id: str) -> Entry | None:
        """The row of an id; None where there is none. Raises CorruptData for an id that has several."""
        rows = [entry for entry in self.entries if entry.object_id == object_id]
        if len(rows) > 1:
            raise CorruptData(
                f"The catalog has {len(rows)} rows for '{from_object_id(object_id)}'.",
                hint="Another tool wrote them without checking; the catalog's doctor tells more.",
            )
        return rows[0] if rows else None

    def below(self, object_id: str) -> list[Entry]:
        """Rows of any type whose id goes on from this one."""
        prefix = object_id + DELIMITER
        return [entry for entry in self.entries if entry.object_id.startswith(prefix)]

    def at(self, location: str) -> list[Entry]:
        """Rows that name a directory."""
        return [entry for entry in self.entries if entry.location == location]

    def only(self, object_ids: Iterable[str]) -> pa.Table:
        """The rows of some ids, with all columns."""
        ids = pa.array(list(object_ids), pa.string())
        return self.table.filter(pc.is_in(self.table[OBJECT_ID].cast(pa.string()), value_set=ids))


def column_text(table: pa.Table, name: str) -> list[str | None]:
    """A column's values; nulls for a column that is not there."""
    if name not in table.column_names:
        return [None] * table.num_rows
    values: list[str | None] = table[name].to_pylist()
    return values


@cache
def no_rows() -> Rows:
    """No rows."""
    return Rows(SCHEMA.empty_table())


def new_rows(schema: pa.Schema, entries: Iterable[Entry]) -> pa.Table:
    """Rows with the columns of a table; null in those that are not known here."""
    given = list(entries)
    values = {
        OBJECT_ID: [entry.object_id for entry in given],
        OBJECT_TYPE: [entry.object_type for entry in given],
        LOCATION: [entry.location for entry in given],
        METADATA: [entry.metadata for entry in given],
    }
    columns = []
    for field in schema:
        known = values.get(field.name, [None] * len(given))
        columns.append(pa.array(known, field.type))
    return pa.Table.from_arrays(columns, schema=schema)


def changed_rows(table: pa.Table, column: str, values: Iterable[str | None]) -> pa.Table:
    """Rows with other values in one column; all other columns as they are."""
    position = table.schema.get_field_index(column)
    field = table.schema.field(position)
    return table.set_column(position, field, pa.array(list(values), field.type))


def upgraded(schema: pa.Schema) -> pa.Schema:
    """The columns ``__manifest`` should have: all it has, those it lacks, and the mark of the primary key.

    A column of another tool may be null: its value in a new row is unknown here. pylance makes columns that are added
    with an expression such that they may not.
    """
    fields = []
    for field in schema:
        if field.name not in SCHEMA.names:
            field = field.with_nullable(True)
        if field.name == OBJECT_ID and PRIMARY_KEY not in (field.metadata or {}):
            field = field.with_metadata({**(field.metadata or {}), PRIMARY_KEY: b"0"})
        fields.append(field)
    fields += [field for field in SCHEMA if field.name not in schema.names]
    return pa.schema(fields, schema.metadata)


def is_complete(schema: pa.Schema) -> bool:
    """Whether a table has all columns of the specification, and the mark of the primary key."""
    return bool(schema.equals(upgraded(schema), check_metadata=True))


def upgraded_rows(table: pa.Table) -> pa.Table:
    """Rows with the columns that ``__manifest`` should have."""
    if table.schema.equals(SCHEMA, check_metadata=True):
        return table
    schema = upgraded(table.schema)
    for field in schema:
        if field.name not in table.column_names:
            table = table.append_column(field, pa.nulls(table.num_rows, field.type))
    return table.cast(schema)
