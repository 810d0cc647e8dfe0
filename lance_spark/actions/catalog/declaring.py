"""Creating a table: declare it, write it, commit; or withdraw. Of several that declare one name, exactly one wins."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Mapping

from lance_spark.actions.catalog.deregistration_marks import hide, is_named, shown_again_on_failure
from lance_spark.actions.catalog.dropping import erase_table
from lance_spark.actions.catalog.naming import new_table
from lance_spark.catalog.changes import refusal
from lance_spark.catalog.directory import (
    DEREGISTERED,
    RESERVED,
    VERSIONS,
    DirectoryState,
    hashed_directory,
    is_dropped,
    read_mark,
    v1_directory,
)
from lance_spark.catalog.model import Catalog, Declaration
from lance_spark.catalog.names import Identifier, Name
from lance_spark.catalog.tables import AddTable, RemoveTable
from lance_spark.errors import AlreadyExists, Conflict, LanceSparkError, NotFound, StorageFailure
from lance_spark.store import files
from lance_spark.store.catalog import manifest, markers
from lance_spark.store.catalog.directories import look_at


def declare_table(catalog: Catalog, name: Name, properties: Mapping[str, str] | None = None) -> Declaration:
    """Take a name for a table, and the directory its data goes to. It exists from now on, without data.

    In the root of a catalog that reads directories that is ``<name>.lance``, else ``<hash>_<id>``. Raises InvalidName,
    AlreadyExists (also for a namespace of that name), NotFound for a missing namespace.
    """
    new = new_table(catalog, name, properties, "create")
    if catalog.reads_directories and new.identifier.in_root:
        return _declare_by_name(catalog, new.identifier, new.properties)
    return _declare_hashed(catalog, new.identifier, new.properties)


def _declare_by_name(catalog: Catalog, identifier: Identifier, properties: Mapping[str, str]) -> Declaration:
    """The marker comes first: it is what writers of V1, who know no manifest, compete for as well."""
    path = v1_directory(identifier)
    change = AddTable(identifier, path, properties)
    location, token = catalog.at(path), uuid.uuid4().hex
    check_directory(look_at(catalog.root, path), change.doing)
    if not markers.put_new(location, RESERVED, token.encode()):
        raise refusal(AlreadyExists, change.doing, "somebody else created it in this moment")
    declaration = Declaration(identifier, location, path, token)
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
    """Raise Conflict if somebody dropped the directory, as a table of V1, before the row was there; no row stays."""
    if _is_held(declaration) and markers.content_of(declaration.location, DEREGISTERED) is None:
        return
    removed = True
    try:
        manifest.apply(catalog.manifest, RemoveTable(change.identifier, change.location, "withdraw"))
    except NotFound:
        removed = False
    # Whoever else holds the marker lost to this row, which nobody has now.
    _take_back(catalog, declaration, any_holder=removed)
    raise refusal(Conflict, change.doing, "somebody else dropped it in this moment", hint="Run it again.")


def _is_held(declaration: Declaration) -> bool:
    return markers.content_of(declaration.location, RESERVED) == declaration.token.encode()


def check_directory(state: DirectoryState, doing: str) -> None:
    """Raise AlreadyExists if a directory cannot become that of a new table."""
    if state.deregistered:
        raise refusal(
            AlreadyExists,
            doing,
            "there is a deregistered table of that name, or one that is being dropped",
            hint="Register it again, or drop it.",
        )
    if state.has_files:
        raise refusal(AlreadyExists, doing, "there is a table of that name already")


def _take_back(catalog: Catalog, declaration: Declaration, any_holder: bool = False) -> None:
    """Marked first: who registers the directory in this moment sees the mark, or is seen here."""
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


def _declare_hashed(catalog: Catalog, identifier: Identifier, properties: Mapping[str, str]) -> Declaration:
    """The row comes first: who loses leaves no directory behind."""
    path = hashed_directory(identifier, secrets.randbits(32))
    manifest.apply(catalog.manifest, AddTable(identifier, path, properties, unique=True))
    declaration = Declaration(identifier, catalog.at(path), path, uuid.uuid4().hex)
    try:
        markers.put_new(declaration.location, RESERVED, declaration.token.encode())
    except LanceSparkError:
        manifest.apply(catalog.manifest, RemoveTable(identifier, path, "withdraw"))
        raise
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
    """Marked first: without its row the directory would be a table of V1, which somebody could rename."""
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

    And after it: a commit to the directory of a table that is gone makes another one, which nobody asked for. Such a
    remainder is deleted here, unless it may be somebody else's.
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
        "somebody else dropped, renamed or deregistered it while it was written",
        hint="Run it again.",
    )


def _erase_remainder(catalog: Catalog, declaration: Declaration) -> None:
    """Marked first: who creates a table there in this moment sees the mark, or is seen here."""
    hidden = hide(catalog, declaration.path, "drop")
    named = catalog.reads_manifest and is_named(catalog, declaration.path)
    if named or markers.content_of(declaration.location, RESERVED) is not None:
        hidden.take_back()
    elif hidden.mine or is_dropped(read_mark(hidden.seen)):
        erase_table(catalog, declaration.path)
