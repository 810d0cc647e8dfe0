"""What a namespace holds, of both kinds, with the directories of its tables."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches

from lance_spark.actions.catalog.listing import list_namespaces, list_tables
from lance_spark.actions.catalog.lookup import find_table
from lance_spark.actions.log.history import show
from lance_spark.catalog.changes import RowFilter, refusal
from lance_spark.catalog.directory import v1_directory
from lance_spark.catalog.model import Catalog, TableInfo
from lance_spark.catalog.names import NAMESPACE, TABLE, Identifier, Name, identify_namespace, identify_table
from lance_spark.errors import NotFound
from lance_spark.history.entries import VersionDetail
from lance_spark.store.catalog.snapshots import read_rows
from lance_spark.store.datasets import find_latest
from lance_spark.store.refs import read_refs


@dataclass(frozen=True)
class Item:
    """A namespace or a table."""

    identifier: Identifier
    kind: str
    """``namespace`` or ``table``."""
    path: str | None = None
    """A table's directory, relative to the catalog's root; None where another tool wrote a row without one."""
    registered: bool = True
    """Whether it has a row in ``__manifest``; else it is a directory only."""


@dataclass(frozen=True)
class TableContents:
    """What is in a table that has data."""

    newest: VersionDetail
    branches: tuple[str, ...]


def look_into(table: TableInfo) -> TableContents | None:
    """The newest version and the branches of a table; None for one without data. Raises CorruptData, StorageFailure."""
    pin = None if table.declared else find_latest(table.location, None)
    if pin is None:
        return None
    return TableContents(show(table.location, pin), tuple(sorted(read_refs(table.location).branches)))


def overview(catalog: Catalog, namespace: Name = "", recursive: bool = False) -> tuple[Item, ...]:
    """The namespaces and tables in a namespace, or also those below them, by name. Raises NotFound.

    However many there are, ``__manifest`` is read a few times, not once for each.
    """
    within = identify_namespace(namespace)
    items = [Item(identifier, NAMESPACE) for identifier in list_namespaces(catalog, within, recursive)]
    tables = list_tables(catalog, within, recursive)
    paths = _paths(catalog, within)
    for identifier in tables:
        if identifier.object_id in paths:
            items.append(Item(identifier, TABLE, paths[identifier.object_id]))
        elif identifier.in_root and catalog.reads_directories:
            items.append(Item(identifier, TABLE, v1_directory(identifier), registered=False))
    return tuple(sorted(items, key=lambda item: item.identifier))


def _paths(catalog: Catalog, within: Identifier) -> dict[str, str | None]:
    """By id, the directories of the tables in a namespace that have rows."""
    if not catalog.reads_manifest:
        return {}
    needed = RowFilter(everything=True) if within.is_root else RowFilter(below=(within.object_id,))
    return {entry.object_id: entry.location for entry in read_rows(catalog.manifest, needed).entries if entry.is_table}


def kind_of(catalog: Catalog, name: Name) -> str:
    """Whether a name is a ``table``'s or a ``namespace``'s; the root is a namespace. Raises InvalidName, NotFound.

    A table that is deregistered, but that V1 could drop, counts as one.
    """
    identifier = identify_namespace(name)
    if identifier.is_root:
        return NAMESPACE
    doing = f"find '{identifier}'"
    try:
        find_table(catalog, identify_table(identifier), doing, deregistered=True)
    except NotFound as missing:
        if not catalog.reads_manifest:
            raise
        entry = read_rows(catalog.manifest, RowFilter(ids=(identifier.object_id,))).find(identifier.object_id)
        if entry is not None and entry.is_namespace:
            return NAMESPACE
        if missing.hint is not None:  # it tells what has become of the table
            raise
        raise refusal(
            NotFound, doing, f"there is no such table or namespace in {catalog.uri}", _nearest(catalog, identifier)
        ) from None
    return TABLE


def _nearest(catalog: Catalog, identifier: Identifier) -> str | None:
    """A hint that names what is called much like it, in the same namespace."""
    try:
        names = [item.identifier.name for item in overview(catalog, identifier.parent)]
    except NotFound:
        return f"There is no namespace '{identifier.parent}' either."
    near = get_close_matches(identifier.name, names, n=1)
    return f"Did you mean '{identifier.parent.child(near[0])}'?" if near else None
