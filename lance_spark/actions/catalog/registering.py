"""Taking a table out of the catalog with its data kept, and putting a directory back in."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from urllib.parse import unquote

from lance_spark.actions.catalog.deregistration_marks import hide, is_named, shown_again_on_failure
from lance_spark.actions.catalog.dropping import shows_in_v1
from lance_spark.actions.catalog.lookup import (
    Found,
    being_taken,
    describe,
    find_table,
    look_again,
)
from lance_spark.actions.catalog.naming import check_no_directory, new_table
from lance_spark.catalog.changes import Wanted, refusal
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


def deregister_table(catalog: Catalog, name: Name) -> Removed:
    """Take a table out of the catalog and keep its data; what is returned is enough to register it again.

    A directory that V1 would take for a table by its name is marked with ``.lance-deregistered``, and so is every other
    one, so that it is not taken for a remainder. Of several at once, one does it; the others get NotFound.
    """
    identifier = identify_table(name)
    doing = f"deregister table '{identifier}'"
    found = find_table(catalog, identifier, doing)
    if found.path is not None and shows_in_v1(catalog, found.path):
        _deregister_directory(catalog, found, found.path, doing)
    else:
        edit = manifest.apply(catalog.manifest, RemoveTable(identifier, found.path, "deregister"))
        path = found.path
        if path and is_inside(path) and path not in edit.shared and files.list_names(catalog.at(path), ""):
            hide(catalog, path, "deregister")
    return Removed(identifier, found.path, found.properties, data_kept=True)


def _deregister_directory(catalog: Catalog, found: Found, directory: str, doing: str) -> None:
    """The mark comes first: without it the table would be there as a directory once its row is gone."""
    hidden = hide(catalog, directory, "deregister")
    with shown_again_on_failure(hidden, found.entry is not None):
        found = look_again(catalog, found, doing)
    with shown_again_on_failure(hidden, found.entry is not None):
        if found.entry is not None:
            change = RemoveTable(found.identifier, found.path, "deregister")
            manifest.apply(catalog.manifest, change, partial(hidden.check, doing))
            hidden.keep()  # the mark of somebody who wanted to drop it would have it collected
        elif not hidden.mine or hidden.is_alone():
            raise refusal(NotFound, doing, "somebody else dropped or deregistered it in this moment")


def register_table(
    catalog: Catalog, name: Name, location: str | None = None, properties: Mapping[str, str] | None = None
) -> TableInfo:
    """Put a directory with a table into the catalog under a name.

    ``location`` is the directory's path, relative to the catalog's root, or its whole URI. Without one it is
    ``<name>.lance`` for a name in the root, or the one directory ``<hash>_<id>`` that no other table has. A mark that
    the table is deregistered is taken away. Raises InvalidOption for a directory outside of the catalog, NotFound where
    there is no table, AlreadyExists for a name or a directory that is taken.
    """
    new = new_table(catalog, name, properties, "register")
    identifier, doing = new.identifier, new.doing
    if not catalog.reads_manifest:
        return _register_directory(catalog, identifier, location, doing)
    path = directory_to_register(catalog, identifier, location, doing)
    _staying(catalog, path, doing)
    change = AddTable(identifier, path, new.properties, "register")
    manifest.apply(catalog.manifest, change)
    try:  # somebody may have dropped it, or begun to, before the row was there
        _check_table(catalog, path, doing)
        mark = _staying(catalog, path, doing)
    except NotFound:
        with suppress(NotFound, Conflict):
            manifest.apply(catalog.manifest, RemoveTable(identifier, path, "withdraw"))
        raise
    if mark is not None and is_named(catalog, path):  # not that of somebody who deregistered it meanwhile
        markers.remove_if(catalog.at(path), DEREGISTERED, mark)
    return describe(catalog, Found(identifier, path, change.entry))


def directory_to_register(catalog: Catalog, identifier: Identifier, location: str | None, doing: str) -> str:
    """The directory, relative to the root, that :func:`register_table` would take. Raises as it does."""
    path = _guessed(catalog, identifier, doing) if location is None else _inside(catalog, location, doing)
    _check_table(catalog, path, doing)
    rows = read_rows(catalog.manifest, Wanted((identifier.object_id,), locations=(v1_directory(identifier),)))
    if path != v1_directory(identifier) and not check_no_directory(catalog, rows, identifier):
        raise refusal(AlreadyExists, doing, "there is a table of that name already")
    return path


def _register_directory(catalog: Catalog, identifier: Identifier, location: str | None, doing: str) -> TableInfo:
    """In V1 a table is called as its directory is; registering it takes the mark away."""
    path = marked_directory(catalog, identifier, location, doing)
    markers.remove(catalog.at(path), DEREGISTERED)
    return describe(catalog, Found(identifier, path, None))


def marked_directory(catalog: Catalog, identifier: Identifier, location: str | None, doing: str) -> str:
    """The directory of a table of V1 that is deregistered. Raises as :func:`register_table`."""
    path = v1_directory(identifier)
    if location is not None and _inside(catalog, location, doing) != path:
        raise refusal(InvalidOption, doing, f"in a catalog of directories (V1) its directory has to be '{path}'")
    state = look_at(catalog.root, path)
    if state.is_table:
        raise refusal(AlreadyExists, doing, "it is registered already")
    if not state.deregistered:
        raise refusal(NotFound, doing, f"there is no table at '{path}'")
    _staying(catalog, path, doing)
    return path


def _staying(catalog: Catalog, path: str, doing: str) -> bytes | None:
    """The mark in a directory. Raises NotFound for what somebody is about to delete: its row would lead to nothing."""
    found = markers.content_of(catalog.at(path), DEREGISTERED)
    if is_leaving(read_mark(found)):
        raise being_taken(doing)
    return found


def _inside(catalog: Catalog, location: str, doing: str) -> str:
    """The path of a location relative to the root, without percent-encoding."""
    path = location.rstrip("/")
    if "://" in location or location.startswith(("/", "file:")):
        whole = locate(location, catalog.root.storage_options).uri
        if not whole.startswith(f"{catalog.uri}/"):
            raise refusal(InvalidOption, doing, f"{whole} is not inside of the catalog {catalog.uri}")
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
    candidates = [found for found in directories if hashed_id(found) == identifier.object_id]
    if identifier.in_root and v1_directory(identifier) in directories:
        candidates.append(v1_directory(identifier))
    taken = {entry.location for entry in read_rows(catalog.manifest, Wanted(locations=tuple(candidates))).entries}
    free = [found for found in candidates if found not in taken]
    if len(free) == 1:
        return free[0]
    if not free:
        raise refusal(
            NotFound, doing, "no directory is called as if it were that table", hint="Give the table's location."
        )
    raise refusal(
        InvalidOption, doing, f"{len(free)} directories may be meant", hint=f"Give one: {', '.join(sorted(free))}."
    )
