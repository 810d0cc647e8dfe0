"""A shallow clone of a whole lake: a catalog whose tables share their files with those of another one.

Every table is cloned first, into a directory that nothing names yet; then one commit adds all rows. So the clone exists
with all tables, or not at all. Each table records its clone, so that no cleanup breaks it.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass, replace

from lance_spark.catalog import manifest_commits
from lance_spark.catalog.entry_rules import Edit, Entry, RowFilter, Rows, hashed_directory, new_rows, refusal
from lance_spark.catalog.lookup import open_table
from lance_spark.catalog.name_rules import NAMESPACE, TABLE, Catalog
from lance_spark.catalog.overview import Item, overview
from lance_spark.catalog.published import Moment
from lance_spark.clones.clone import shallow_clone
from lance_spark.core.refs import RefSpec
from lance_spark.errors import AlreadyExists, NotFound, Refused
from lance_spark.storage import files


def clone(catalog: Catalog, target: Catalog) -> int:
    """Clone every table that has data, at its newest version, or at that of the catalog's branch or tag.

    Of publishes, main has the last complete one in all tables, also where a branch does not cover them. Namespaces and
    properties are copied. Returns the number of tables. Raises AlreadyExists for a catalog that has something in it,
    Refused for one in another store or without ``__manifest``.
    """
    doing = f"clone {catalog.uri} to {target.uri}"
    if not target.reads_manifest:
        raise refusal(Refused, doing, "a catalog of directories (V1) has no namespaces", hint="Omit mode='v1'.")
    if target.root.store != catalog.root.store:
        raise refusal(
            Refused, doing, "it is in another store", hint="Clone its tables one by one: lake.table(name).clone."
        )
    if overview(target, recursive=True):
        raise refusal(AlreadyExists, doing, "there is a catalog with tables or namespaces")
    moment = Moment.of(catalog, doing)
    if catalog.ref is None:
        catalog = replace(catalog, ref=moment.reader)
    items = overview(catalog, recursive=True)
    known_rows = {row.object_id: row for row in _rows(catalog)}

    def clone_table(item: Item) -> Entry | None:
        try:
            location, pin = open_table(catalog, item.identifier, RefSpec())
        except NotFound:  # declared, without data; or dropped since
            return None
        row = known_rows.get(item.identifier.object_id)
        if pin.branch is None and (row is None or row.pin is None):  # it follows main
            pin = replace(pin, version=moment.version(item.path or "", location, pin.version), stamp=None)
        path = hashed_directory(item.identifier, secrets.randbits(32))
        shallow_clone(location, pin, target.at(path))
        return Entry(item.identifier.object_id, TABLE, path, None if row is None else row.pinning(None).metadata)

    tables = files.each(catalog.root, clone_table, [item for item in items if item.kind == TABLE])
    spaces = [row.pinning(None) for row in known_rows.values() if row.object_type == NAMESPACE]
    made = [entry for entry in tables if entry is not None]
    manifest_commits.apply(target.manifest, AddRows((*spaces, *made), doing))
    return len(made)


def _rows(catalog: Catalog) -> Iterable[Entry]:
    if not catalog.reads_manifest:
        return ()
    return manifest_commits.read_rows(catalog.manifest, RowFilter(everything=True)).entries


@dataclass(frozen=True)
class AddRows:
    """The rows of a new catalog."""

    entries: tuple[Entry, ...]
    doing: str

    @property
    def needs(self) -> RowFilter:
        """All rows: there must be none."""
        return RowFilter(everything=True)

    def edit(self, rows: Rows) -> Edit:
        """Raises AlreadyExists if another process was faster."""
        if rows.entries:
            raise refusal(AlreadyExists, self.doing, "there is a catalog with tables or namespaces")
        return Edit(add=new_rows(rows.table.schema, self.entries))
