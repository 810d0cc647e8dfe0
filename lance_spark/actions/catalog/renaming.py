"""Renaming a table, and moving it to another namespace."""

from __future__ import annotations

from dataclasses import dataclass

from lance_spark.actions.catalog.lookup import FoundTable, find_table
from lance_spark.actions.catalog.moving import change_of_move, check_movable, move
from lance_spark.actions.catalog.naming import check_no_table
from lance_spark.actions.catalog.opening import need_manifest
from lance_spark.catalog.changes import refusal
from lance_spark.catalog.directory import hashed_directory, v1_directory
from lance_spark.catalog.model import Catalog, check_inside
from lance_spark.catalog.names import TABLE, Identifier, Name, check_new, identify_namespace, identify_table
from lance_spark.catalog.tables import RenameTable
from lance_spark.errors import AlreadyExists, CorruptData
from lance_spark.show.card import Card, Shown
from lance_spark.store.catalog import manifest


@dataclass(frozen=True, repr=False)
class Renamed(Shown):
    """What a rename did."""

    old: Identifier
    new: Identifier
    left_behind: str | None = None
    """The old directory, relative to the root, where files stayed that could not be taken along: another table names
    them, or a job committed to them at the same time."""

    def _card(self) -> Card:
        left = f"files stayed in {self.left_behind}" if self.left_behind else ""
        summary = "; ".join(part for part in (f"is {self.new} now", left) if part)
        return Card(type(self).__name__, str(self.old), summary, (("now", str(self.new)), ("left behind", left)))


@dataclass(frozen=True)
class RenamePlan:
    """A table that can be renamed, as the catalog is now."""

    catalog: Catalog
    table: FoundTable
    target: Identifier
    doing: str
    """Completes "Cannot ..."."""
    moves: bool
    """Whether the files have to be copied to another directory: theirs would go on to be a table of the old name."""


def rename_table(catalog: Catalog, old: Name, new: Name) -> Renamed:
    """Give a table another name, maybe in another namespace. Its data, properties and versions stay.

    A commit changes the row; the directory stays where it is. Only a table in the root of a catalog that reads
    directories moves from ``<name>.lance`` to ``<hash>_<id>``, as its directory would go on to be a table of the old
    name. Of several that rename it at once, one does.

    Raises InvalidName, NotFound, AlreadyExists, and Refused in V1 and for a table whose directory has to move, but
    which branches or clones read.
    """
    return rename(plan_rename(catalog, old, new))


def rename(plan: RenamePlan) -> Renamed:
    """Execute the plan. Raises as :func:`rename_table`, and Conflict for what other processes did since."""
    catalog, table, target = plan.catalog, plan.table, plan.target
    if plan.moves:
        return Renamed(table.identifier, target, move(catalog, table, target, plan.doing))
    manifest.apply(catalog.manifest, _change(table, target))
    return Renamed(table.identifier, target)


def plan_rename(catalog: Catalog, old: Name, new: Name) -> RenamePlan:
    """Whether and how a table can be renamed. Changes nothing. Raises as :func:`rename_table`."""
    source, target = identify_table(old), identify_table(new)
    check_new(target, TABLE)
    doing = f"rename table '{source}' to '{target}'"
    need_manifest(catalog, doing)
    table = find_table(catalog, source, doing)
    if target == source:
        raise refusal(AlreadyExists, doing, "it is called so already")
    check_no_table(catalog, target, doing)
    moves = catalog.reads_directories and source.in_root and table.path == v1_directory(source)
    directory = hashed_directory(target, 0)  # any: the real one is chosen when the files are copied
    manifest.decide(catalog.manifest, change_of_move(table, target, directory) if moves else _change(table, target))
    if moves:
        check_movable(catalog, v1_directory(source), doing)
    return RenamePlan(catalog, table, target, doing, moves)


def move_table(catalog: Catalog, name: Name, namespace: Name) -> Renamed:
    """Put a table into another namespace, under its own name. Errors as of :func:`rename_table`."""
    identifier = identify_table(name)
    return rename_table(catalog, identifier, identify_namespace(namespace).child(identifier.name))


def _change(table: FoundTable, target: Identifier) -> RenameTable:
    if table.path is None:
        raise CorruptData(f"The row of table '{table.identifier}' in the catalog has no location.")
    check_inside(table.path)
    return RenameTable(table.identifier, target, table.path, table.path)
