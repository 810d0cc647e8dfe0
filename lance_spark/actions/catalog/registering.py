"""Taking a table out of the catalog with its data kept, and putting a directory back in."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from urllib.parse import unquote

from lance_spark.actions.catalog.deregistration_marks import hide, is_named, shown_again_on_failure
from lance_spark.actions.catalog.dropping import shows_in_v1
from lance_spark.actions.catalog.lookup import (
    FoundTable,
    being_taken,
    describe,
    find_table,
    look_again,
)
from lance_spark.actions.catalog.naming import check_no_directory, new_table
from lance_spark.catalog.changes import RowFilter, refusal
from lance_spark.catalog.directory import (
    DEREGISTERED,
    RESERVED,
    VERSIONS,
    hashed_id,
    is_leaving,
    read_mark,
    v1_directory,
)
from lance_spark.catalog.model import Catalog, Removed, TableInfo, check_inside, is_inside
from lance_spark.catalog.names import Identifier, Name, identify_table
from lance_spark.catalog.tables import AddTable, RemoveTable
from lance_spark.errors import AlreadyExists, Conflict, CorruptData, InvalidOption, NotFound
from lance_spark.store import files
from lance_spark.store.catalog import manifest, markers
from lance_spark.store.catalog.directories import list_root, look_at
from lance_spark.store.catalog.snapshots import read_rows
from lance_spark.store.uri import locate


@dataclass(frozen=True)
class DeregisterPlan:
    """A table that can be deregistered, as the catalog is now."""

    catalog: Catalog
    table: FoundTable

    @property
    def removed(self) -> Removed:
        """What leaves the catalog; enough to register it again."""
        return Removed(self.table.identifier, self.table.path, self.table.properties, data_kept=True)


def plan_deregistration(catalog: Catalog, name: Name) -> DeregisterPlan:
    """Find a table to deregister. Changes nothing. Raises InvalidName, NotFound."""
    identifier = identify_table(name)
    return DeregisterPlan(catalog, find_table(catalog, identifier, f"deregister table '{identifier}'"))


def deregister(plan: DeregisterPlan) -> Removed:
    """Take a table out of the catalog and keep its data.

    A directory that V1 would take for a table by its name is marked with ``.lance-deregistered``, and so is every other
    one, so that it is not taken for a remainder. Of several processes at once, one does it; the others get NotFound.
    """
    catalog, table, path = plan.catalog, plan.table, plan.table.path
    if path is not None and shows_in_v1(catalog, path):
        _deregister_directory(catalog, table, path)
        return plan.removed
    edit = manifest.apply(catalog.manifest, RemoveTable(table.identifier, path, "deregister"))
    if path and is_inside(path) and path not in edit.shared and files.list_names(catalog.at(path), ""):
        hide(catalog, path, "deregister")
    return plan.removed


def deregister_table(catalog: Catalog, name: Name) -> Removed:
    """Plan and deregister."""
    return deregister(plan_deregistration(catalog, name))


def _deregister_directory(catalog: Catalog, table: FoundTable, directory: str) -> None:
    """The mark comes first: without it the table would be there as a directory once its row is gone."""
    change = RemoveTable(table.identifier, directory, "deregister")
    doing, hidden = change.doing, hide(catalog, directory, "deregister")
    with shown_again_on_failure(hidden, table.entry is not None):
        table = look_again(catalog, table, doing)
    with shown_again_on_failure(hidden, table.entry is not None):
        if table.entry is not None:
            manifest.apply(catalog.manifest, change, partial(hidden.check, doing))
            hidden.keep()  # the mark of a process that wanted to drop it would have it collected
        elif not hidden.mine or hidden.is_alone():
            raise refusal(NotFound, doing, "another process dropped or deregistered it in the meantime")


@dataclass(frozen=True)
class Registration:
    """A directory that can be put into the catalog, as both are now."""

    catalog: Catalog
    change: AddTable


def plan_registration(
    catalog: Catalog, name: Name, location: str | None = None, properties: Mapping[str, str] | None = None
) -> Registration:
    """Choose the directory that a table is to have. Changes nothing.

    ``location`` is the directory's path, relative to the catalog's root, or its whole URI. Without one it is
    ``<name>.lance`` for a name in the root, or the one directory ``<hash>_<id>`` that no other table has. Raises
    InvalidName, InvalidOption for a directory outside the catalog, NotFound where there is no table, AlreadyExists for
    a name or a directory that is taken.
    """
    new = new_table(catalog, name, properties, "register")
    choose = _unmarked_directory if catalog.reads_manifest else _marked_directory
    change = AddTable(new.identifier, choose(catalog, new.identifier, location, new.doing), new.properties, "register")
    _staying(catalog, change.location, new.doing)
    if catalog.reads_manifest:
        manifest.decide(catalog.manifest, change)
    return Registration(catalog, change)


def register(plan: Registration) -> TableInfo:
    """Put a directory with a table into the catalog. A mark that the table is deregistered is removed."""
    catalog, change, doing = plan.catalog, plan.change, plan.change.doing
    if not catalog.reads_manifest:  # in V1 a table is called as its directory is
        _marked_directory(catalog, change.identifier, None, doing)
        markers.remove(catalog.at(change.location), DEREGISTERED)
        return describe(catalog, FoundTable(change.identifier, change.location, None))
    _staying(catalog, change.location, doing)
    manifest.apply(catalog.manifest, change)
    try:  # another process may have dropped it, or begun to, before the row was there
        _check_table(catalog, change.location, doing)
        mark = _staying(catalog, change.location, doing)
    except NotFound:
        with suppress(NotFound, Conflict):
            manifest.apply(catalog.manifest, RemoveTable(change.identifier, change.location, "withdraw"))
        raise
    if mark is not None and is_named(catalog, change.location):  # not that of a process that deregistered it since
        markers.remove_if(catalog.at(change.location), DEREGISTERED, mark)
    return describe(catalog, FoundTable(change.identifier, change.location, change.entry))


def register_table(
    catalog: Catalog, name: Name, location: str | None = None, properties: Mapping[str, str] | None = None
) -> TableInfo:
    """Plan and register."""
    return register(plan_registration(catalog, name, location, properties))


def _unmarked_directory(catalog: Catalog, identifier: Identifier, location: str | None, doing: str) -> str:
    """The directory of a table that gets a row, relative to the root."""
    path = _guessed(catalog, identifier, doing) if location is None else _inside(catalog, location, doing)
    _check_table(catalog, path, doing)
    rows = read_rows(catalog.manifest, RowFilter((identifier.object_id,), locations=(v1_directory(identifier),)))
    if path != v1_directory(identifier) and not check_no_directory(catalog, rows, identifier):
        raise refusal(AlreadyExists, doing, "there is a table of that name already")
    return path


def _marked_directory(catalog: Catalog, identifier: Identifier, location: str | None, doing: str) -> str:
    """The directory of a table of V1 that is deregistered."""
    path = v1_directory(identifier)
    if location is not None and _inside(catalog, location, doing) != path:
        raise refusal(InvalidOption, doing, f"in a catalog of directories (V1) its directory has to be '{path}'")
    state = look_at(catalog.root, path)
    if state.is_table:
        raise refusal(AlreadyExists, doing, "it is registered already")
    if not state.deregistered:
        raise refusal(NotFound, doing, f"there is no table at '{path}'")
    return path


def _staying(catalog: Catalog, path: str, doing: str) -> bytes | None:
    """The mark in a directory. Raises NotFound where a process is about to delete it: its row would lead to nothing."""
    mark = markers.content_of(catalog.at(path), DEREGISTERED)
    if is_leaving(read_mark(mark)):
        raise being_taken(doing)
    return mark


def _inside(catalog: Catalog, location: str, doing: str) -> str:
    """The path of a location relative to the root, without percent-encoding."""
    path = location.rstrip("/")
    if "://" in location or location.startswith(("/", "file:")):
        whole = locate(location, catalog.root.storage_options).uri
        if not whole.startswith(f"{catalog.uri}/"):
            raise refusal(InvalidOption, doing, f"{whole} is not inside the catalog {catalog.uri}")
        path = whole[len(catalog.uri) + 1 :]
        path = path if catalog.root.is_local else unquote(path)
    try:
        check_inside(path)
    except CorruptData:
        raise refusal(
            InvalidOption,
            doing,
            f"'{location}' is no path below the catalog",
            hint="Give the table's directory, relative to the catalog's root.",
        ) from None
    return path


def _check_table(catalog: Catalog, path: str, doing: str) -> None:
    names = files.list_names(catalog.at(path), "")
    if RESERVED not in names and VERSIONS not in names:
        raise refusal(NotFound, doing, f"there is no table at '{path}'", hint="Give the directory of a Lance dataset.")


def _guessed(catalog: Catalog, identifier: Identifier, doing: str) -> str:
    directories, _ = list_root(catalog.root)
    candidates = [directory for directory in directories if hashed_id(directory) == identifier.object_id]
    if identifier.in_root and v1_directory(identifier) in directories:
        candidates.append(v1_directory(identifier))
    taken = {entry.location for entry in read_rows(catalog.manifest, RowFilter(locations=tuple(candidates))).entries}
    free = [directory for directory in candidates if directory not in taken]
    if len(free) == 1:
        return free[0]
    if not free:
        raise refusal(
            NotFound, doing, "no directory is called as if it were that table", hint="Give the table's location."
        )
    raise refusal(
        InvalidOption, doing, f"{len(free)} directories may be meant", hint=f"Give one: {', '.join(sorted(free))}."
    )
