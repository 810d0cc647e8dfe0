"""What a change of a catalog would do: decided as the change itself is, on the newest version, and not committed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lance_spark.actions.catalog.declaring import check_directory
from lance_spark.actions.catalog.dropping import check_unused
from lance_spark.actions.catalog.lookup import find_table
from lance_spark.actions.catalog.moving import check_movable
from lance_spark.actions.catalog.namespaces import new_namespace
from lance_spark.actions.catalog.naming import new_table
from lance_spark.actions.catalog.opening import need_manifest
from lance_spark.actions.catalog.overview import kind_of
from lance_spark.actions.catalog.registering import directory_to_register, marked_directory
from lance_spark.actions.catalog.renaming import check_rename
from lance_spark.catalog.changes import Change, Edit, Wanted, refusal
from lance_spark.catalog.directory import hashed_directory, v1_directory
from lance_spark.catalog.model import Catalog, Removed, is_inside
from lance_spark.catalog.names import (
    NAMESPACE,
    TABLE,
    Identifier,
    Name,
    identify_namespace,
    identify_table,
)
from lance_spark.catalog.namespaces import RemoveNamespace
from lance_spark.catalog.tables import AddTable, RenameTable
from lance_spark.errors import Refused
from lance_spark.store.catalog.directories import look_at
from lance_spark.store.catalog.snapshots import read_rows


def _decided(catalog: Catalog, change: Change) -> Edit:
    return change.edit(read_rows(catalog.manifest, change.wanted))


def rehearse_namespace(catalog: Catalog, name: Name, properties: Mapping[str, str] | None = None) -> Identifier:
    """Raise what ``create_namespace`` would raise."""
    change = new_namespace(catalog, name, properties)
    _decided(catalog, change)
    return change.identifier


def rehearse_table(catalog: Catalog, name: Name, properties: Mapping[str, str] | None = None) -> Identifier:
    """Raise what ``declare_table`` would raise."""
    new = new_table(catalog, name, properties, "create")
    identifier = new.identifier
    by_name = catalog.reads_directories and identifier.in_root
    path = v1_directory(identifier) if by_name else hashed_directory(identifier, 0)
    change = AddTable(identifier, path, new.properties)
    if by_name:
        check_directory(look_at(catalog.root, path), change.doing)
    if catalog.reads_manifest:
        _decided(catalog, change)
    return identifier


def rehearse_rename(catalog: Catalog, old: Name, new: Name) -> bool:
    """Whether ``rename_table`` would copy the table's files, as its directory has to move; raises what that raises."""
    wanted = check_rename(catalog, old, new)
    source, target, path = wanted.source, wanted.target, wanted.found.path or ""
    if wanted.found.entry is not None:
        _decided(catalog, RenameTable(source, target, path, path))
    else:
        _decided(catalog, AddTable(target, hashed_directory(target, 0), {}, "rename to"))
    if wanted.moves:
        check_movable(catalog, v1_directory(source), wanted.doing)
    return wanted.moves


def rehearse_registration(
    catalog: Catalog, name: Name, location: str | None = None, properties: Mapping[str, str] | None = None
) -> str:
    """The directory, relative to the root, that ``register_table`` would take; raises what that raises."""
    new = new_table(catalog, name, properties, "register")
    if not catalog.reads_manifest:
        return marked_directory(catalog, new.identifier, location, new.doing)
    path = directory_to_register(catalog, new.identifier, location, new.doing)
    _decided(catalog, AddTable(new.identifier, path, new.properties, "register"))
    return path


@dataclass(frozen=True)
class Doomed:
    """What a drop would take."""

    identifier: Identifier
    kind: str
    namespaces: tuple[Identifier, ...]
    """The namespaces in the one that is dropped."""
    tables: tuple[Removed, ...]


def rehearse_drop(catalog: Catalog, name: Name, cascade: bool = False, force: bool = False) -> Doomed:
    """What dropping a table or a namespace would take. Raises what ``drop_table`` and ``drop_namespace`` would."""
    identifier = identify_namespace(name)
    if kind_of(catalog, identifier) == NAMESPACE:
        return _doomed_namespace(catalog, identifier, cascade, force)
    doing = f"drop table '{identifier}'"
    found = find_table(catalog, identify_table(identifier), doing, deregistered=True)
    if not force:
        check_unused(catalog, [found.path], doing)
    removed = Removed(identifier, found.path, found.properties, _is_kept(catalog, found.path, {identifier.object_id}))
    return Doomed(identifier, TABLE, (), (removed,))


def _doomed_namespace(catalog: Catalog, identifier: Identifier, cascade: bool, force: bool) -> Doomed:
    change = RemoveNamespace(identifier, cascade)
    need_manifest(catalog, change.doing)
    if identifier.is_root:
        raise refusal(Refused, change.doing, "the root cannot be dropped")
    edit = _decided(catalog, change)
    inside = sorted((entry for entry in edit.before if entry.is_table), key=lambda entry: entry.identifier)
    if not force:
        check_unused(catalog, [entry.location for entry in inside], change.doing)
    return Doomed(
        identifier,
        NAMESPACE,
        tuple(sorted(entry.identifier for entry in edit.before[1:] if entry.is_namespace)),
        tuple(
            Removed(
                entry.identifier,
                entry.location,
                entry.properties,
                entry.location in edit.shared or not is_inside(entry.location),
            )
            for entry in inside
        ),
    )


def _is_kept(catalog: Catalog, path: str | None, ids: set[str]) -> bool:
    """Whether the files of a table stay when its row goes: another row names them, or they are outside."""
    if path is None or not is_inside(path):
        return True
    if not catalog.reads_manifest:
        return False
    others = read_rows(catalog.manifest, Wanted(locations=(path,))).at(path)
    return any(entry.object_id not in ids for entry in others)
