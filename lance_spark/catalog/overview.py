"""Overviews: the items of a namespace, the root of a catalog as a card, and the metadata tables of a dataset."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import chain

import pyarrow as pa

from lance_spark.catalog import name_rules
from lance_spark.catalog.entry_rules import RowFilter, refusal, v1_directory
from lance_spark.catalog.lookup import describe_namespace, find_table, list_namespaces, list_tables, open_table
from lance_spark.catalog.manifest_commits import read_rows
from lance_spark.core.location import DatasetLocation
from lance_spark.core.ref_expressions import METADATA_TABLES
from lance_spark.core.refs import PinnedVersion, RefSpec
from lance_spark.core.show import Card
from lance_spark.errors import NotFound
from lance_spark.format import metadata
from lance_spark.format.operations import VersionDetail
from lance_spark.format.schema import in_batches
from lance_spark.indexes.index_segments import describe_segments
from lance_spark.log.log import or_why, show
from lance_spark.storage import datasets, refs, versions
from lance_spark.storage.refs import read_refs
from lance_spark.storage.resolving import resolve
from lance_spark.survey.survey import blob_files, deletion_sizes, index_files


@dataclass(frozen=True)
class Item:
    identifier: name_rules.Identifier
    kind: str
    """``namespace`` or ``table``."""
    path: str | None = None
    """A table's directory, relative to the catalog's root; None if another tool wrote a row without one, and in a list
    of a service, which has names only."""
    registered: bool = True
    """Whether it has a row in ``__manifest``; otherwise it is only a directory."""


@dataclass(frozen=True)
class TableContents:
    newest: VersionDetail
    branches: tuple[str, ...]


def look_into(catalog: name_rules.Catalog, table: name_rules.TableInfo) -> TableContents | None:
    """The newest version and the branches of a table; None for one without data. Raises CorruptData, StorageFailure.

    In a catalog at a tag, it is the version that the tag pins, and no branches: a tag has none.
    """
    if catalog.ref is not None:
        pinned = None if table.declared else open_table(catalog, table.identifier, RefSpec())[1]
        return None if pinned is None else TableContents(show(table.location, pinned), ())
    pin = None if table.declared else datasets.find_latest(table.location, None)
    if pin is None:
        return None
    return TableContents(show(table.location, pin), tuple(sorted(read_refs(table.location).branches)))


def overview(catalog: name_rules.Catalog, namespace: name_rules.Name = "", recursive: bool = False) -> tuple[Item, ...]:
    """The namespaces and tables in a namespace, or also those below them, by name. Raises NotFound.

    However many there are, ``__manifest`` is read only a few times.
    """
    within = name_rules.identify_namespace(namespace)
    items = [Item(identifier, name_rules.NAMESPACE) for identifier in list_namespaces(catalog, within, recursive)]
    tables = list_tables(catalog, within, recursive)
    paths = _paths(catalog, within)
    for identifier in tables:
        if catalog.service is not None:
            items.append(Item(identifier, name_rules.TABLE))
        elif identifier.object_id in paths:
            items.append(Item(identifier, name_rules.TABLE, paths[identifier.object_id]))
        elif identifier.in_root and catalog.reads_directories:
            items.append(Item(identifier, name_rules.TABLE, v1_directory(identifier), registered=False))
    return tuple(sorted(items, key=lambda item: item.identifier))


def _paths(catalog: name_rules.Catalog, within: name_rules.Identifier) -> dict[str, str | None]:
    """By id, the directories of the tables in a namespace that have rows."""
    if catalog.service is not None or not catalog.reads_manifest:
        return {}
    needed = RowFilter(everything=True) if within.is_root else RowFilter(below=(within.object_id,))
    return {entry.object_id: entry.location for entry in read_rows(catalog.manifest, needed).entries if entry.is_table}


def kind_of(catalog: name_rules.Catalog, name: name_rules.Name) -> str:
    """Whether a name belongs to a ``table`` or a ``namespace``; the root is a namespace. Raises InvalidName, NotFound.

    A deregistered table that V1 could drop counts as a table.
    """
    identifier = name_rules.identify_namespace(name)
    if identifier.is_root:
        return name_rules.NAMESPACE
    doing = f"find '{identifier}'"
    try:
        find_table(catalog, name_rules.identify_table(identifier), doing, deregistered=True)
    except NotFound as missing:
        if catalog.service is not None:
            with suppress(NotFound):
                describe_namespace(catalog, identifier)
                return name_rules.NAMESPACE
            near = _nearest(catalog, identifier)
            raise refusal(NotFound, doing, f"there is no such table or namespace in {catalog.uri}", near) from None
        if not catalog.reads_manifest:
            raise
        entry = read_rows(catalog.manifest, RowFilter(ids=(identifier.object_id,))).find(identifier.object_id)
        if entry is not None and entry.is_namespace:
            return name_rules.NAMESPACE
        if missing.hint is not None:  # it explains what happened to the table
            raise
        raise refusal(
            NotFound, doing, f"there is no such table or namespace in {catalog.uri}", _nearest(catalog, identifier)
        ) from None
    return name_rules.TABLE


def _nearest(catalog: name_rules.Catalog, identifier: name_rules.Identifier) -> str | None:
    """A hint with a similar name in the same namespace."""
    try:
        names = [item.identifier.name for item in overview(catalog, identifier.parent)]
    except NotFound:
        return f"The namespace '{identifier.parent}' does not exist either."
    near = get_close_matches(identifier.name, names, n=1)
    return f"Did you mean '{identifier.parent.child(near[0])}'?" if near else None


# --- The root of a catalog as a card
# Does not raise.


def look_at_catalog(what: str, catalog: name_rules.Catalog) -> Card:
    """The first namespaces and tables in the root."""

    def look() -> Card:
        namespaces = [str(namespace) for namespace in list_namespaces(catalog, limit=name_rules.SHOWN + 1)]
        tables = [str(table) for table in list_tables(catalog, limit=name_rules.SHOWN + 1)]
        return name_rules.catalog_card(what, catalog, namespaces, tables)

    return or_why(look, lambda why: name_rules.catalog_card(what, catalog, [], [], why))


# --- Metadata tables of a dataset at a ref: refs, manifests and listings as Arrow batches


def metadata_schema(table: str) -> pa.Schema:
    """The columns of a metadata table. Raises NotFound if it does not exist."""
    if table not in metadata.SCHEMAS:
        raise NotFound(f"There is no metadata table '{table}'.", hint=f"There are {', '.join(METADATA_TABLES)}.")
    return metadata.SCHEMAS[table]


def read_metadata_table(location: DatasetLocation, spec: RefSpec, table: str) -> Iterator[pa.RecordBatch]:
    """The rows of a metadata table of the version to which a ref currently points, batch by batch.

    Branches and tags are those of the whole dataset; ``versions`` are those of the ref's branch up to the ref.
    Raises NotFound, CorruptData, StorageFailure; some only while batches are consumed.
    """
    metadata_schema(table)
    return _READERS[table](location, resolve(location, spec))


def _files(location: DatasetLocation, pin: PinnedVersion) -> Iterator[pa.RecordBatch]:
    snapshot = versions.read_snapshot(location, pin)
    found = metadata.beside(snapshot)
    rows = chain(
        metadata.data_rows(snapshot, deletion_sizes(location, found)),
        index_files(location, found),
        blob_files(location, found) if metadata.has_blobs(snapshot.contents.fields) else (),
    )
    return in_batches(rows, metadata.FILES)


def _indexes(location: DatasetLocation, pin: PinnedVersion) -> Iterator[pa.RecordBatch]:
    contents = versions.read_contents(location, pin)
    fragments = frozenset(fragment.id for fragment in contents.fragments())
    return metadata.index_rows(describe_segments(location, pin), fragments)


_READERS: Mapping[str, Callable[[DatasetLocation, PinnedVersion], Iterator[pa.RecordBatch]]] = {
    "branches": lambda location, _: metadata.branch_rows(refs.read_refs(location).branches.values()),
    "tags": lambda location, _: metadata.tag_rows(refs.read_refs(location).tags.values()),
    "versions": lambda location, pin: metadata.version_rows(datasets.list_versions(location, pin.branch), pin.version),
    "fragments": lambda location, pin: metadata.fragment_rows(versions.read_snapshot(location, pin)),
    "files": _files,
    "indexes": _indexes,
}
