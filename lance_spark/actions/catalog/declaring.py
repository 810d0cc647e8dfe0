"""Creating a table: declare it, write it, commit; or withdraw. Of several that declare one name, exactly one wins."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from lance_spark.actions.catalog.deregistration_marks import hide, is_named, shown_again_on_failure
from lance_spark.actions.catalog.dropping import erase_table
from lance_spark.actions.catalog.naming import new_table
from lance_spark.catalog.changes import refusal
from lance_spark.catalog.directory import (
    DEREGISTERED,
    RESERVED,
    VERSIONS,
    hashed_directory,
    is_dropped,
    read_mark,
    v1_directory,
)
from lance_spark.catalog.model import Catalog, Declaration
from lance_spark.catalog.names import Identifier, Name
from lance_spark.catalog.tables import AddTable, RemoveTable
from lance_spark.errors import AlreadyExists, Conflict, LanceSparkError, NotFound, StorageFailure
from lance_spark.location import DatasetLocation
from lance_spark.store import files
from lance_spark.store.catalog import manifest, markers
from lance_spark.store.catalog.directories import look_at


@dataclass(frozen=True)
class TablePlan:
    """A table that can be declared, as the catalog is now."""

    catalog: Catalog
    change: AddTable

    @property
    def identifier(self) -> Identifier:
        """Its name."""
        return self.change.identifier

    @property
    def location(self) -> DatasetLocation:
        """Where its data goes."""
        return self.catalog.at(self.change.location)


def plan_table(catalog: Catalog, name: Name, properties: Mapping[str, str] | None = None) -> TablePlan:
    """Choose the directory of a new table: ``<name>.lance`` in the root of a catalog that reads directories.

    Elsewhere it is ``<hash>_<id>``. Changes nothing. Raises InvalidName, AlreadyExists (also for a namespace of that
    name), NotFound for a missing namespace.
    """
    new = new_table(catalog, name, properties, "create")
    if catalog.reads_directories and new.identifier.in_root:
        change = AddTable(new.identifier, v1_directory(new.identifier), new.properties)
        _check_directory(catalog, change)
    else:
        path = hashed_directory(new.identifier, secrets.randbits(32))
        change = AddTable(new.identifier, path, new.properties, unique=True)
    if catalog.reads_manifest:
        manifest.decide(catalog.manifest, change)
    return TablePlan(catalog, change)


def declare(plan: TablePlan) -> Declaration:
    """Take the name. The table exists from now on, without data. Raises as :func:`plan_table`, and Conflict."""
    return _declare_hashed(plan) if plan.change.unique else _declare_by_name(plan)


def declare_table(catalog: Catalog, name: Name, properties: Mapping[str, str] | None = None) -> Declaration:
    """Plan and declare a table."""
    return declare(plan_table(catalog, name, properties))


def _declare_by_name(plan: TablePlan) -> Declaration:
    """The marker comes first: writers of V1, which know no manifest, compete for it as well."""
    catalog, change, token = plan.catalog, plan.change, uuid.uuid4().hex
    _check_directory(catalog, change)
    if not markers.put_new(plan.location, RESERVED, token.encode()):
        raise refusal(AlreadyExists, change.doing, "another process is creating it right now")
    declaration = Declaration(change.identifier, plan.location, change.location, token)
    if catalog.reads_manifest:
        try:
            manifest.apply(catalog.manifest, change)
        except StorageFailure:
            raise  # the row may have been written
        except LanceSparkError:
            _take_back(catalog, declaration)
            raise
        _check_still_mine(catalog, declaration, change)
    return declaration


def _check_still_mine(catalog: Catalog, declaration: Declaration, change: AddTable) -> None:
    """Raise Conflict if the directory was dropped, as a table of V1, before the row was there; no row stays."""
    if _is_held(declaration) and markers.content_of(declaration.location, DEREGISTERED) is None:
        return
    removed = True
    try:
        manifest.apply(catalog.manifest, RemoveTable(change.identifier, change.location, "withdraw"))
    except NotFound:
        removed = False
    # Whoever else holds the marker lost to this row, which is gone now.
    _take_back(catalog, declaration, any_holder=removed)
    raise refusal(Conflict, change.doing, "another process dropped it in the meantime", hint="Run it again.")


def _is_held(declaration: Declaration) -> bool:
    return markers.content_of(declaration.location, RESERVED) == declaration.token.encode()


def _check_directory(catalog: Catalog, change: AddTable) -> None:
    """Raise AlreadyExists if the directory cannot become that of a new table."""
    state = look_at(catalog.root, change.location)
    if state.deregistered:
        raise refusal(
            AlreadyExists,
            change.doing,
            "there is a deregistered table of that name, or one that is being dropped",
            hint="Register it again, or drop it.",
        )
    if state.has_files:
        raise refusal(AlreadyExists, change.doing, "there is a table of that name already")


def _take_back(catalog: Catalog, declaration: Declaration, any_holder: bool = False) -> None:
    """Marked first: whoever registers the directory at the same time sees the mark, or is seen here."""
    if not any_holder and not _is_held(declaration):
        return
    hidden = hide(catalog, declaration.path, "drop")
    empty = set(files.list_names(declaration.location, "")) <= {RESERVED, DEREGISTERED}
    if not empty or is_named(catalog, declaration.path):
        hidden.take_back()
        return
    markers.remove(declaration.location, RESERVED)
    if hidden.mine or hidden.is_alone():
        hidden.discard()  # or the mark would keep the name for ever


def _declare_hashed(plan: TablePlan) -> Declaration:
    """The row comes first: whoever loses leaves no directory behind."""
    table, path = plan.identifier, plan.change.location
    manifest.apply(plan.catalog.manifest, plan.change)
    declaration = Declaration(table, plan.location, path, uuid.uuid4().hex)
    try:
        mine = markers.put_new(plan.location, RESERVED, declaration.token.encode()) or _is_held(declaration)
    except LanceSparkError:
        manifest.apply(plan.catalog.manifest, RemoveTable(table, path, "withdraw"))
        raise
    if not mine:
        raise refusal(AlreadyExists, plan.change.doing, "this plan was executed before")
    return declaration


def withdraw(catalog: Catalog, declaration: Declaration) -> bool:
    """Give a declared name back, with what was written to its directory; False if the table is not that one any more.

    Nothing happens to a table that has a version: its commit may have succeeded although the job was told otherwise.
    """
    if files.list_names(declaration.location, VERSIONS):
        return False
    by_name = catalog.reads_directories and declaration.path == v1_directory(declaration.identifier)
    if by_name and not _is_held(declaration):
        return False
    if not catalog.reads_manifest:
        erase_table(catalog, declaration.path)
        return True
    try:
        shared = _withdraw_by_name(catalog, declaration) if by_name else _remove_row(catalog, declaration)
    except (NotFound, Conflict):
        return False
    if not shared:
        erase_table(catalog, declaration.path)
    return True


def _withdraw_by_name(catalog: Catalog, declaration: Declaration) -> bool:
    """Marked first: without its row the directory would be a table of V1, which another process could rename."""
    hidden = hide(catalog, declaration.path, "drop")
    with shown_again_on_failure(hidden, had_row=True):
        shared = _remove_row(catalog, declaration)
    if shared:
        hidden.take_back()
    return shared


def _remove_row(catalog: Catalog, declaration: Declaration) -> bool:
    """Whether another row names the directory. Raises NotFound, Conflict."""
    edit = manifest.apply(catalog.manifest, RemoveTable(declaration.identifier, declaration.path, "withdraw"))
    return declaration.path in edit.shared


def confirm(catalog: Catalog, declaration: Declaration) -> None:
    """Raise Conflict if a declared table was dropped, deregistered or renamed since; for a job, before its commit.

    And after it: a commit to the directory of a table that is gone makes another one, which no one asked for. Such a
    remainder is deleted here, unless it may be another process's.
    """
    identifier, path = declaration.identifier, declaration.path
    named = not catalog.reads_manifest or is_named(catalog, path)
    by_name = path == v1_directory(identifier)
    holder = markers.content_of(declaration.location, RESERVED) if by_name else None
    if named and (not by_name or holder == declaration.token.encode()):
        return
    if holder is None and (not named or not catalog.reads_manifest):
        _erase_remainder(catalog, declaration)
    raise refusal(
        Conflict,
        f"create table '{identifier}'",
        "another process dropped, renamed or deregistered it while it was written",
        hint="Run it again.",
    )


def _erase_remainder(catalog: Catalog, declaration: Declaration) -> None:
    """Marked first: whoever creates a table there at the same time sees the mark, or is seen here."""
    hidden = hide(catalog, declaration.path, "drop")
    named = catalog.reads_manifest and is_named(catalog, declaration.path)
    if named or markers.content_of(declaration.location, RESERVED) is not None:
        hidden.take_back()
    elif hidden.mine or is_dropped(read_mark(hidden.seen)):
        erase_table(catalog, declaration.path)
