"""Rows of ``__manifest`` as values, and the changes to them. Pure.

Rows of one version and a change come in; rows to delete and to add come out, or a refusal. Also the names and marks of
directories, and names of tables with a ref (specification "Manifest Table Schema", "V1", "V2").
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark import errors, hints
from lance_spark.catalog.lake_rules import KEY, Pin, decode_pin
from lance_spark.catalog.name_rules import DELIMITER, NAMESPACE, TABLE, Identifier, from_object_id, identify_table
from lance_spark.core.records.stored_json import decode_json
from lance_spark.core.ref_expressions import DEFAULT, METADATA_TABLES, TypedRef, split_refs

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
        # The list's child must have the name that pylance gives it, or pylance refuses to write.
        pa.field(BASE_OBJECTS, pa.list_(pa.field(OBJECT_ID, pa.string()))),
    ]
)
INDEXES = (
    ("object_id_btree", OBJECT_ID, "BTREE"),
    ("object_type_bitmap", OBJECT_TYPE, "BITMAP"),
    ("base_objects_label_list", BASE_OBJECTS, "LABEL_LIST"),
)
"""Name, column and type of the indexes that the specification requires; the names are pylance's."""
_TEXTS = (OBJECT_ID, OBJECT_TYPE, LOCATION, METADATA)


@dataclass(frozen=True)
class Entry:
    object_id: str
    object_type: str
    location: str | None = None
    """Path of the table's directory, relative to the catalog's root."""
    metadata: str | None = None
    """JSON as it was written."""

    @property
    def identifier(self) -> Identifier:
        """The name that the row is for."""
        return from_object_id(self.object_id)

    @property
    def is_table(self) -> bool:
        return self.object_type == TABLE

    @property
    def is_namespace(self) -> bool:
        return self.object_type == NAMESPACE

    @property
    def properties(self) -> dict[str, str]:
        """The properties. Values of other tools that are not text are given as JSON."""
        return {
            key: value if isinstance(value, str) else json.dumps(value)
            for key, value in decode_metadata(self.metadata, self.object_id).items()
            if key != KEY
        }

    @property
    def pin(self) -> Pin | None:
        """What the row of a branch or tag of the lake says about its table; None for one that it does not cover."""
        return decode_pin(decode_metadata(self.metadata, self.object_id), str(self.identifier))

    def pinning(self, pin: Pin | None) -> Entry:
        """The row with another pin, or without one."""
        metadata = decode_metadata(self.metadata, self.object_id)
        metadata.pop(KEY, None)
        if pin is not None:
            metadata[KEY] = pin.encode()
        return replace(self, metadata=encode_properties(metadata))


def decode_metadata(text: str | None, object_id: str) -> dict[str, Any]:
    """The JSON object in a row's metadata. Raises CorruptData for anything else."""
    if not text:
        return {}
    try:
        decoded = decode_json(text)
    except ValueError:
        decoded = None
    if not isinstance(decoded, dict):
        raise errors.CorruptData(f"The metadata of '{object_id}' in the catalog is not a JSON object.")
    return decoded


def encode_properties(properties: Mapping[str, Any]) -> str | None:
    """Properties as pylance writes them; None for none."""
    return json.dumps(dict(properties), separators=(",", ":"), ensure_ascii=False) if properties else None


def check_properties(properties: Mapping[str, str] | None) -> dict[str, str]:
    """The properties, if they are text: pylance cannot describe other values."""
    given: Iterable[tuple[Any, Any]] = (properties or {}).items()
    for key, value in given:
        if not isinstance(key, str) or not isinstance(value, str) or not key:
            raise errors.InvalidOption(
                f"The property {key!r}: {value!r} is not text.", hint="Give names and values as text."
            )
        if key == KEY:
            raise errors.InvalidOption(f"'{KEY}' is not a property: branches and tags of a lake use it.")
    return dict(properties or {})


class Rows:
    """Some rows of ``__manifest``, with all its columns."""

    def __init__(self, table: pa.Table) -> None:
        """Raises CorruptData for a table that lacks an essential column."""
        for name in (OBJECT_ID, OBJECT_TYPE, LOCATION):
            if name not in table.column_names:
                raise errors.CorruptData(
                    f"The catalog's __manifest has no column '{name}'.", hint="Restore an older version of it."
                )
        self.table = table

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """All rows, in the order of the table."""
        return tuple(map(Entry, *(column_text(self.table, name) for name in _TEXTS)))

    def find(self, object_id: str) -> Entry | None:
        """The row of an id; None if there is none. Raises CorruptData for an id with several rows."""
        rows = [entry for entry in self.entries if entry.object_id == object_id]
        if len(rows) > 1:
            raise errors.CorruptData(
                f"The catalog has {len(rows)} rows for '{from_object_id(object_id)}'.",
                hint="Another tool wrote them without a check; see the catalog's doctor.",
            )
        return rows[0] if rows else None

    def below(self, object_id: str) -> list[Entry]:
        """Rows of any type whose id continues this one."""
        prefix = object_id + DELIMITER
        return [entry for entry in self.entries if entry.object_id.startswith(prefix)]

    def at(self, location: str) -> list[Entry]:
        return [entry for entry in self.entries if entry.location == location]

    def only(self, object_ids: Iterable[str]) -> pa.Table:
        """The rows of some ids, with all columns."""
        return self.table.filter(self.has(object_ids))

    def has(self, object_ids: Iterable[str]) -> pa.ChunkedArray:
        """For each row, whether it is one of some ids."""
        ids = pa.array(list(object_ids), pa.string())
        return pc.is_in(self.table[OBJECT_ID].cast(pa.string()), value_set=ids)


def column_text(table: pa.Table, name: str) -> list[str | None]:
    """A column's values; nulls for a missing column."""
    if name not in table.column_names:
        return [None] * table.num_rows
    values: list[str | None] = table[name].to_pylist()
    return values


@cache
def no_rows() -> Rows:
    return Rows(SCHEMA.empty_table())


def new_rows(schema: pa.Schema, entries: Iterable[Entry]) -> pa.Table:
    """Rows with the columns of a table; columns unknown here are null."""
    given = list(entries)
    values = {name: [getattr(entry, name) for entry in given] for name in _TEXTS}
    columns = [pa.array(values.get(column.name, [None] * len(given)), column.type) for column in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def changed_rows(table: pa.Table, column: str, values: Iterable[str | None]) -> pa.Table:
    """Rows with other values in one column; all other columns are unchanged."""
    position = table.schema.get_field_index(column)
    field = table.schema.field(position)
    return table.set_column(position, field, pa.array(list(values), field.type))


def upgraded(schema: pa.Schema) -> pa.Schema:
    """The columns ``__manifest`` should have: all it has, those it lacks, and the mark of the primary key.

    Columns of other tools must be nullable: their value in a new row is unknown here. pylance makes columns that are
    added with an expression not nullable.
    """
    fields = []
    for column in schema:
        if column.name not in SCHEMA.names:
            column = column.with_nullable(True)
        if column.name == OBJECT_ID and PRIMARY_KEY not in (column.metadata or {}):
            column = column.with_metadata({**(column.metadata or {}), PRIMARY_KEY: b"0"})
        fields.append(column)
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
    for column in schema:
        if column.name not in table.column_names:
            table = table.append_column(column, pa.nulls(table.num_rows, column.type))
    return table.cast(schema)


# --- Changes to a catalog
# A change declares which rows it needs. It is decided on one version and committed on exactly that version, so that its
# preconditions still hold: a parent exists, an id is free (specification "Manifest Table Commits").


@dataclass(frozen=True)
class RowFilter:
    ids: tuple[str, ...] = ()
    below: tuple[str, ...] = ()
    """Ids; all rows are needed whose ids continue one of them."""
    locations: tuple[str, ...] = ()
    everything: bool = False

    def predicate(self) -> str | None:
        """The predicate for pylance; None for all rows."""
        if self.everything:
            return None
        parts = []
        if self.ids:
            parts.append(f"{OBJECT_ID} IN ({', '.join(map(quoted, self.ids))})")
        parts += [below(object_id) for object_id in self.below]
        if self.locations:
            parts.append(f"{LOCATION} IN ({', '.join(map(quoted, self.locations))})")
        return " OR ".join(parts) or "false"


def quoted(text: str) -> str:
    """Text inside a predicate. Names of other tools may contain quotes."""
    return "'{}'".format(text.replace("'", "''"))


def below(object_id: str) -> str:
    """A predicate for all rows whose ids continue this one: a range, which the index on the ids can serve."""
    after = chr(ord(DELIMITER) + 1)
    return f"({OBJECT_ID} >= {quoted(object_id + DELIMITER)} AND {OBJECT_ID} < {quoted(object_id + after)})"


@dataclass(frozen=True)
class Edit:
    """The effect of a change on the rows. The ids in ``remove`` are deleted, then the rows in ``add`` are added."""

    remove: tuple[str, ...] = ()
    add: pa.Table | None = None
    before: tuple[Entry, ...] = ()
    """The deleted or changed rows, as they were."""
    shared: frozenset[str] = field(default=frozenset())
    """Directories of deleted rows that remaining rows also name."""

    @property
    def is_empty(self) -> bool:
        return not self.remove and (self.add is None or self.add.num_rows == 0)


class CatalogChange(Protocol):
    @property
    def doing(self) -> str:
        """Completes "Cannot ..."."""

    @property
    def needs(self) -> RowFilter:
        """The rows on which it is decided."""

    def edit(self, rows: Rows) -> Edit:
        """The decision. Raises an error of ours if the change is not possible."""


def refusal(
    kind: type[errors.LanceSparkError], doing: str, why: str, hint: str | None = None
) -> errors.LanceSparkError:
    """An error with the operation, the id and the reason, in the same words everywhere."""
    return kind(f"Cannot {doing}: {why}.", hint=hint)


def check_parent(rows: Rows, identifier: Identifier, doing: str) -> None:
    """Raise NotFound unless the parent namespace exists."""
    parent = identifier.parent
    if parent.is_root:
        return
    entry = rows.find(parent.object_id)
    if entry is None or not entry.is_namespace:
        hint = hints.of("Create it first: ", hints.create_namespace(str(parent)), ".")
        raise refusal(errors.NotFound, doing, f"there is no namespace '{parent}'", hint=hint)


def check_free(rows: Rows, identifier: Identifier, doing: str) -> None:
    """Raise AlreadyExists if the id is taken by anything."""
    entry = rows.find(identifier.object_id)
    if entry is not None:
        raise refusal(errors.AlreadyExists, doing, f"a {entry.object_type} of that name already exists")


def check_unclaimed(rows: Rows, location: str, doing: str) -> None:
    """Raise AlreadyExists if a row names the directory: with two, dropping one table deletes the other's rows."""
    entry = rows.at(location)
    if entry:
        raise refusal(errors.AlreadyExists, doing, f"the directory '{location}' belongs to '{entry[0].identifier}'")


def find_table(rows: Rows, identifier: Identifier, doing: str) -> Entry:
    """The row of a table. Raises NotFound."""
    entry = rows.find(identifier.object_id)
    if entry is None or not entry.is_table:
        raise missing_table(rows, identifier, doing)
    return entry


def missing_table(rows: Rows, identifier: Identifier, doing: str) -> errors.LanceSparkError:
    """NotFound; its hint mentions a namespace of that name."""
    entry = rows.find(identifier.object_id)
    hint = "There is a namespace of that name." if entry is not None and entry.is_namespace else None
    return refusal(errors.NotFound, doing, "there is no such table", hint=hint)


def find_namespace(rows: Rows, identifier: Identifier, doing: str) -> Entry:
    """The row of a namespace. Raises NotFound."""
    entry = rows.find(identifier.object_id)
    if entry is None or not entry.is_namespace:
        hint = "There is a table of that name." if entry is not None and entry.is_table else None
        raise refusal(errors.NotFound, doing, "there is no such namespace", hint=hint)
    return entry


def check_same(entry: Entry, location: str | None, doing: str) -> None:
    """Raise Conflict if a table is no longer in the directory where it was looked up."""
    if entry.location != location:
        raise refusal(errors.Conflict, doing, "another process moved it or created it again", hint="Run it again.")


# --- Directories of tables: recognizing those of V1, and naming those of V2 (specification "V1", "V2")

SUFFIX = ".lance"
RESERVED = ".lance-reserved"
DEREGISTERED = ".lance-deregistered"
INCOMPLETE = ".lance-incomplete"
"""This package's own mark: a copy is running into the directory, and nothing in it is an only copy."""
MARKERS = frozenset({RESERVED, DEREGISTERED, INCOMPLETE})
VERSIONS = "_versions"
_WRITER = "lance_spark"
_HASHED = re.compile(r"([0-9a-f]{8})_(.+)", re.S)


@dataclass(frozen=True)
class DirectoryState:
    names: frozenset[str] = frozenset()
    """Names directly in it, as far as they were looked at."""

    @property
    def has_files(self) -> bool:
        return bool(self.names)

    @property
    def deregistered(self) -> bool:
        return DEREGISTERED in self.names

    @property
    def is_table(self) -> bool:
        """The rule of V1: at least one file, and no mark of a deregistered table."""
        return self.has_files and not self.deregistered


ABSENT = DirectoryState()


def state_of(paths: Iterable[str]) -> DirectoryState:
    """From paths of files, relative to the directory. Empty objects that mark a directory do not count as files."""
    return DirectoryState(frozenset(path.partition("/")[0] for path in paths if path and not path.endswith("/")))


def v1_directory(identifier: Identifier) -> str:
    """The directory of a table in the root, as V1 names it."""
    return identifier.name + SUFFIX


def v1_name(directory: str) -> str | None:
    """The table for which V1 takes a directory; None for other directories."""
    return directory[: -len(SUFFIX)] if directory.endswith(SUFFIX) and directory != SUFFIX else None


def hashed_directory(identifier: Identifier, entropy: int) -> str:
    """The directory of a table in V2, ``<hash>_<object_id>``, with a different hash each time."""
    return f"{entropy % 2**32:08x}_{identifier.object_id}"


def hashed_id(directory: str) -> str | None:
    """The object id for which V2 made a directory; None for other directories."""
    match = _HASHED.fullmatch(directory)
    return match[2] if match else None


@dataclass(frozen=True)
class Mark:
    """The content that this package writes to a ``.lance-deregistered`` file; other tools' files have none."""

    why: str
    """``deregister``, ``drop``, ``rename``, or ``keep`` for the remains of a rename."""
    token: str
    """Identifies the process that wrote it."""
    to: str = ""
    """The new directory of a renamed table."""

    def encode(self) -> bytes:
        return json.dumps({"by": _WRITER, "why": self.why, "token": self.token, "to": self.to}).encode()


def read_mark(content: bytes | None) -> Mark | None:
    """The mark in a file; None for files of other tools."""
    try:
        decoded = decode_json(content or b"")
        return Mark(decoded["why"], decoded["token"], decoded["to"]) if decoded["by"] == _WRITER else None
    except (ValueError, KeyError, TypeError):
        return None


def is_leaving(mark: Mark | None) -> bool:
    """Whether a process is dropping or renaming the table in a marked directory, or was interrupted while doing so."""
    return mark is not None and mark.why in ("drop", "rename")


def is_dropped(mark: Mark | None) -> bool:
    """Whether nothing needs the contents of a marked directory."""
    return mark is not None and mark.why == "drop"


def is_remainder(mark: Mark | None, named: Collection[str]) -> bool:
    """Whether to delete a marked directory that no row names; ``named`` are the directories that rows name.

    A table in the middle of a rename may still be the only copy, unless its new directory has a row.
    """
    return mark is not None and (mark.why == "drop" or (mark.why == "rename" and mark.to in named))


# --- Changes of namespaces


@dataclass(frozen=True)
class AddNamespace:
    identifier: Identifier
    properties: Mapping[str, str]

    @property
    def doing(self) -> str:
        return f"create namespace '{self.identifier}'"

    @property
    def needs(self) -> RowFilter:
        return RowFilter(ids=(self.identifier.object_id, self.identifier.parent.object_id))

    def edit(self, rows: Rows) -> Edit:
        """Raises AlreadyExists, NotFound for a missing parent."""
        check_free(rows, self.identifier, self.doing)
        check_parent(rows, self.identifier, self.doing)
        entry = Entry(self.identifier.object_id, NAMESPACE, None, encode_properties(self.properties))
        return Edit(add=new_rows(rows.table.schema, [entry]))


@dataclass(frozen=True)
class RemoveNamespace:
    """Removes a namespace's row, with everything in it if ``cascade``."""

    identifier: Identifier
    cascade: bool
    known: tuple[str, ...] | None = None
    """Ids of the rows that may be removed; None for all. The user did not agree to rows created after the plan."""

    @property
    def doing(self) -> str:
        return f"drop namespace '{self.identifier}'"

    @property
    def needs(self) -> RowFilter:
        """The namespace and everything in it; for a cascade, all rows, since any may name a directory."""
        own = self.identifier.object_id
        return RowFilter(everything=True) if self.cascade else RowFilter((own,), (own,))

    def edit(self, rows: Rows) -> Edit:
        """Raises NotFound, Refused for a namespace that is not empty, Conflict for rows newer than the plan."""
        entry = find_namespace(rows, self.identifier, self.doing)
        inside = rows.below(entry.object_id)
        if inside and not self.cascade:
            shown = ", ".join(f"'{row.identifier}'" for row in inside[:3])
            raise refusal(
                errors.Refused,
                self.doing,
                f"it is not empty: {shown}{', ...' if len(inside) > 3 else ''}",
                hint="Drop its contents first, or use a cascade.",
            )
        gone = (entry, *inside)
        ids = {row.object_id for row in gone}
        if self.known is not None and (new := sorted(ids.difference(self.known))):
            name = from_object_id(new[0])
            raise refusal(errors.Conflict, self.doing, f"another process created '{name}' in it", hint="Run it again.")
        staying = {row.location for row in rows.entries if row.object_id not in ids and row.location}
        return Edit(
            remove=tuple(ids),
            before=gone,
            shared=frozenset(row.location for row in gone if row.location in staying and row.location),
        )


# --- Changes of tables

_KNOWN = (TABLE, NAMESPACE)


@dataclass(frozen=True)
class AddTable:
    identifier: Identifier
    location: str
    properties: Mapping[str, str]
    verb: str = "create"
    unique: bool = False
    """Whether no other process can have generated this location."""
    pin: Pin | None = None
    """For a table that a branch of the lake creates."""

    @property
    def doing(self) -> str:
        return f"{self.verb} table '{self.identifier}'"

    @property
    def entry(self) -> Entry:
        row = Entry(self.identifier.object_id, TABLE, self.location, encode_properties(self.properties))
        return row if self.pin is None else row.pinning(self.pin)

    @property
    def needs(self) -> RowFilter:
        """The id, its parent, and any row that names the directory."""
        return RowFilter((self.identifier.object_id, self.identifier.parent.object_id), locations=(self.location,))

    def edit(self, rows: Rows) -> Edit:
        """Raises AlreadyExists, NotFound for a missing parent."""
        same = rows.find(self.identifier.object_id)
        if self.unique and same is not None and same.location == self.location:
            return Edit()  # an attempt that seemed to fail had succeeded
        check_free(rows, self.identifier, self.doing)
        check_parent(rows, self.identifier, self.doing)
        check_unclaimed(rows, self.location, self.doing)
        return Edit(add=new_rows(rows.table.schema, [self.entry]))


@dataclass(frozen=True)
class AddTables:
    """Rows for many directories of tables in the root, in one commit; existing rows stay as they are."""

    locations: Mapping[str, str]
    """Directory by name of the table."""
    doing: str = "add tables"

    @property
    def needs(self) -> RowFilter:
        """All rows: any of them may name one of the directories."""
        return RowFilter(everything=True)

    def edit(self, rows: Rows) -> Edit:
        """Raises nothing: two concurrent migrations want the same."""
        taken = set(rows.table[OBJECT_ID].to_pylist())
        claimed = set(rows.table[LOCATION].to_pylist())
        entries = [
            Entry(name, TABLE, location)
            for name, location in sorted(self.locations.items())
            if name not in taken and location not in claimed
        ]
        return Edit(add=new_rows(rows.table.schema, entries))


@dataclass(frozen=True)
class RemoveTable:
    """Removes a table's row, with the rows that belong to it."""

    identifier: Identifier
    location: str | None
    """As it was when the table was looked up."""
    verb: str = "drop"

    @property
    def doing(self) -> str:
        return f"{self.verb} table '{self.identifier}'"

    @property
    def needs(self) -> RowFilter:
        """The id, the rows that belong to it, and any row that names the same directory."""
        own = self.identifier.object_id
        return RowFilter((own,), (own,), () if self.location is None else (self.location,))

    def edit(self, rows: Rows) -> Edit:
        """Raises NotFound, and Conflict for a table that was created again in another directory."""
        entry = find_table(rows, self.identifier, self.doing)
        check_same(entry, self.location, self.doing)
        family = _family(rows, entry)
        others = self.location and [row for row in rows.at(self.location) if row.object_id != entry.object_id]
        return Edit(
            remove=tuple(row.object_id for row in family),
            before=tuple(family),
            shared=frozenset({self.location}) if self.location and others else frozenset(),
        )


@dataclass(frozen=True)
class RenameTable:
    """Gives a table another name, possibly in another namespace, and possibly another directory."""

    old: Identifier
    new: Identifier
    location: str
    """As it was when the table was looked up."""
    new_location: str

    @property
    def doing(self) -> str:
        return f"rename table '{self.old}' to '{self.new}'"

    @property
    def needs(self) -> RowFilter:
        """Both ids, the new parent, the rows that belong to the table, and any row that names the new directory."""
        ids = (self.old.object_id, self.new.object_id, self.new.parent.object_id)
        return RowFilter(ids, (self.old.object_id,), (self.location, self.new_location))

    def edit(self, rows: Rows) -> Edit:
        """Raises NotFound, AlreadyExists, and Conflict for a table that was created again."""
        renamed, moves = rows.find(self.new.object_id), self.new_location != self.location
        if rows.find(self.old.object_id) is None and moves and renamed and renamed.location == self.new_location:
            return Edit()  # an attempt that seemed to fail had succeeded
        entry = find_table(rows, self.old, self.doing)
        check_same(entry, self.location, self.doing)
        check_free(rows, self.new, self.doing)
        check_parent(rows, self.new, self.doing)
        if moves:
            check_unclaimed(rows, self.new_location, self.doing)
        family = _family(rows, entry)
        ids = [row.object_id for row in family]
        table = rows.only(ids)
        names = [self.new.object_id + name[len(self.old.object_id) :] for name in table[OBJECT_ID].to_pylist()]
        places = [self.new_location if path == self.location else path for path in table[LOCATION].to_pylist()]
        moved = changed_rows(changed_rows(table, OBJECT_ID, names), LOCATION, places)
        others = [row for row in rows.at(self.location) if row.object_id != entry.object_id]
        return Edit(
            remove=tuple(ids),
            add=moved,
            before=tuple(family),
            shared=frozenset({self.location} if others else ()),
        )


def _family(rows: Rows, entry: Entry) -> list[Entry]:
    """A table's row, and the rows of other types that belong to it: ``table_version`` has the id ``<table>$<n>``.

    If they were left behind, the next table of that name would inherit them.
    """
    return [entry, *(row for row in rows.below(entry.object_id) if row.object_type not in _KNOWN)]


# --- Changes of properties


@dataclass(frozen=True)
class AlterProperties:
    identifier: Identifier
    kind: str
    put: Mapping[str, str]
    unset: Sequence[str] = ()

    @property
    def doing(self) -> str:
        return f"alter the properties of {self.kind} '{self.identifier}'"

    @property
    def needs(self) -> RowFilter:
        return RowFilter(ids=(self.identifier.object_id,))

    def after(self, before: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in {**before, **self.put}.items() if key not in self.unset}

    def edit(self, rows: Rows) -> Edit:
        """Raises NotFound. Other metadata that another tool wrote stays as it is."""
        find = find_table if self.kind == TABLE else find_namespace
        entry = find(rows, self.identifier, self.doing)
        before = decode_metadata(entry.metadata, entry.object_id)
        after = self.after(before)
        if after == before:
            return Edit(before=(entry,))
        altered = changed_rows(rows.only([entry.object_id]), METADATA, [encode_properties(after)])
        return Edit(remove=(entry.object_id,), add=altered, before=(entry,))


# --- Names of tables with a ref, ``flights@exp/delays@7``, and of their metadata tables, ``flights.branches``
# A table can also be called ``a@b``, since other tools do not restrict names. So a name with ``@`` has several
# readings; the existing tables decide which one holds (see lance_spark.catalog.lookup).


@dataclass(frozen=True)
class Reading:
    """One way to read the name of a table."""

    table: Identifier
    ref: TypedRef = DEFAULT


def readings(identifier: Identifier) -> tuple[Reading, ...]:
    """All ways to read a name: as it is, then split at each ``@`` that precedes a ref, the first ``@`` first.

    The name as it is may be invalid, as ``flights@exp/delays``. Raises InvalidName if there is no valid reading.
    """
    found = []
    for name, ref in split_refs(identifier.name):
        with suppress(errors.InvalidName):
            found.append(Reading(identify_table(identifier.parent.child(name)), ref))
    try:
        return (Reading(identify_table(identifier)), *found)
    except errors.InvalidName:
        if not found:
            raise
        return tuple(found)


def metadata_reading(identifier: Identifier) -> tuple[Identifier, str] | None:
    """The table and the metadata table that a name can mean, if any: ``ns1.flights`` and ``branches``.

    Spark does not distinguish ``flights.branches`` from a table ``branches`` in a namespace ``flights``; a table comes
    first.
    """
    if len(identifier.parts) < 2 or identifier.name.lower() not in METADATA_TABLES:
        return None
    return identifier.parent, identifier.name.lower()
