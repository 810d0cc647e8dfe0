"""Dropping a table, or a namespace: names are free in one commit, then files go."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

from lance_spark import hints
from lance_spark.actions.catalog.deregistration_marks import hide, shown_again_on_failure
from lance_spark.actions.catalog.lookup import FoundTable, find_table, look_again
from lance_spark.actions.catalog.opening import need_manifest
from lance_spark.catalog.changes import Edit, refusal
from lance_spark.catalog.directory import hashed_directory, hashed_id, v1_name
from lance_spark.catalog.entries import Entry
from lance_spark.catalog.model import Catalog, Removed, is_inside
from lance_spark.catalog.names import (
    NAMESPACE,
    TABLE,
    Identifier,
    Name,
    from_object_id,
    identify_namespace,
    identify_table,
)
from lance_spark.catalog.namespaces import RemoveNamespace
from lance_spark.catalog.tables import RemoveTable
from lance_spark.errors import CorruptData, LanceSparkError, NotFound, Refused
from lance_spark.location import DatasetLocation
from lance_spark.store.catalog import manifest
from lance_spark.store.catalog.erasing import erase
from lance_spark.store.parallel import THREADS
from lance_spark.store.protection import protected_branches
from lance_spark.store.survey import recorded_clones


@dataclass(frozen=True)
class DropPlan:
    """What dropping a table, or a namespace, takes, as the catalog is now."""

    catalog: Catalog
    change: RemoveTable | RemoveNamespace
    tables: tuple[Removed, ...]
    """The tables that go, by name."""
    force: bool
    """Whether tables go although clones read their files, or nobody knows; never one with a protected branch."""
    namespaces: tuple[Identifier, ...] = ()
    """The namespaces in the one that goes, by name."""
    table: FoundTable | None = None
    """The table; None for a namespace."""

    @property
    def identifier(self) -> Identifier:
        """The table or the namespace."""
        return self.change.identifier

    @property
    def kind(self) -> str:
        """``table`` or ``namespace``."""
        return NAMESPACE if self.table is None else TABLE


def plan_drop(catalog: Catalog, name: Name, force: bool = False) -> DropPlan:
    """Find a table to drop; one that is a directory only may be deregistered. Changes nothing.

    Raises InvalidName, NotFound, and Refused if a branch is protected, or if clones read its files, unless ``force``.
    """
    identifier = identify_table(name)
    table = find_table(catalog, identifier, f"drop table '{identifier}'", deregistered=True)
    change = RemoveTable(identifier, table.path)
    if table.entry is None:
        removed = Removed(identifier, table.path, {}, data_kept=False)
    else:
        removed = _removed(table.entry, manifest.decide(catalog.manifest, change))
    plan = DropPlan(catalog, change, (removed,), force, table=table)
    _check_may_go(plan)
    return plan


def plan_namespace_drop(catalog: Catalog, name: Name, cascade: bool = False, force: bool = False) -> DropPlan:
    """What dropping a namespace takes; with ``cascade`` all namespaces and tables in it. Changes nothing.

    Raises NotFound, and Refused for the root, for a namespace that is not empty, if a table in it has a protected
    branch, and, without ``force``, if clones read the files of a table in it.
    """
    change = RemoveNamespace(identify_namespace(name), cascade)
    need_manifest(catalog, change.doing)
    if change.identifier.is_root:
        raise refusal(Refused, change.doing, "the root cannot be dropped")
    edit = manifest.decide(catalog.manifest, change)
    tables = sorted((entry for entry in edit.before if entry.is_table), key=lambda entry: entry.identifier)
    namespaces = sorted(entry.identifier for entry in edit.before[1:] if entry.is_namespace)
    known = replace(change, known=tuple(entry.object_id for entry in edit.before))
    plan = DropPlan(catalog, known, tuple(_removed(entry, edit) for entry in tables), force, tuple(namespaces))
    _check_may_go(plan)
    return plan


def drop(plan: DropPlan) -> tuple[Removed, ...]:
    """Execute the plan: all rows go in one commit, then the files of the tables; returns the tables that went.

    Of several processes that drop the same, one does; the others get NotFound. Raises Refused for a clone or a
    protection, and Conflict for what was created in the namespace, since the plan.
    """
    _check_may_go(plan)
    catalog, table = plan.catalog, plan.table
    if table is not None and table.path is not None and shows_in_v1(catalog, table.path):
        return (_drop_directory(catalog, table, table.path, plan.change.doing),)
    edit = manifest.apply(catalog.manifest, plan.change)
    tables = tuple(_removed(entry, edit) for entry in edit.before if entry.is_table)
    for removed in tables:
        if removed.path is not None and not removed.data_kept:
            erase_table(catalog, removed.path)
    return tables


def drop_table(catalog: Catalog, name: Name, force: bool = False) -> Removed:
    """Plan and drop."""
    return drop(plan_drop(catalog, name, force))[0]


def drop_namespace(catalog: Catalog, name: Name, cascade: bool = False, force: bool = False) -> tuple[Removed, ...]:
    """Plan and drop. Nobody has agreed to a list here, so what is created in the meantime goes as well."""
    plan = plan_namespace_drop(catalog, name, cascade, force)
    return drop(replace(plan, change=RemoveNamespace(plan.identifier, cascade)))


def _check_may_go(plan: DropPlan) -> None:
    _check_unprotected(plan)
    if not plan.force:
        check_unused(plan.catalog, [table.path for table in plan.tables], plan.change.doing)


def _check_unprotected(plan: DropPlan) -> None:
    """Raise Refused if a branch of a table whose files go is protected: they would all go at once, with ``force``, too.

    Raises CorruptData where a ref cannot be understood, unless ``force``.
    """
    going = [table for table in plan.tables if table.path is not None and not table.data_kept]
    locations = [plan.catalog.at(table.path) for table in going if table.path is not None and is_inside(table.path)]
    with ThreadPoolExecutor(THREADS) as pool:
        for location, names in zip(locations, pool.map(partial(_protected, plan), locations), strict=True):
            if names:
                raise refusal(
                    Refused,
                    plan.change.doing,
                    f"branch '{names[0]}' of {location.uri} is protected",
                    hint=hints.of(
                        "If it has to go: ",
                        hints.unprotect_branch(names[0]),
                        ". To keep the files: deregister the table.",
                    ),
                )


def _protected(plan: DropPlan, location: DatasetLocation) -> list[str]:
    try:
        return protected_branches(location)
    except CorruptData:
        if plan.force:
            return []
        raise


def _removed(entry: Entry, edit: Edit) -> Removed:
    """A table whose row goes. Its files stay if another row names them or they are outside the catalog."""
    kept = entry.location in edit.shared or not is_inside(entry.location)
    return Removed(entry.identifier, entry.location, entry.properties, kept)


def shows_in_v1(catalog: Catalog, directory: str) -> bool:
    """Whether a directory is a table by its name once no row names it, unless it is marked."""
    return catalog.reads_directories and "/" not in directory and v1_name(directory) is not None


def _drop_directory(catalog: Catalog, table: FoundTable, directory: str, doing: str) -> Removed:
    """First it is marked as deregistered: V1 does not see it any more, and no process takes its directory for free."""
    hidden = hide(catalog, directory, "drop")
    if not hidden.mine and table.was_deregistered:  # an old mark does not say that it is being dropped
        hidden = hidden.taken_over()
    with shown_again_on_failure(hidden, table.entry is not None):
        table = look_again(catalog, table, doing)
    if table.entry is not None:
        with shown_again_on_failure(hidden, had_row=True):
            edit = manifest.apply(catalog.manifest, RemoveTable(table.identifier, table.path))
        if directory in edit.shared:
            hidden.take_back()
            return Removed(table.identifier, directory, table.properties, data_kept=True)
    elif hidden.is_alone():
        hidden.discard()  # a table that was declared, deregistered, and then withdrawn
        raise _too_late(doing)
    elif not hidden.mine:
        raise _too_late(doing)
    if not erase_table(catalog, directory) and table.entry is None:
        raise _too_late(doing)
    return Removed(table.identifier, directory, table.properties, data_kept=False)


def _too_late(doing: str) -> LanceSparkError:
    return refusal(NotFound, doing, "another process dropped or deregistered it in the meantime")


def erase_table(catalog: Catalog, directory: str) -> bool:
    """Delete the files of a table that nothing names any more; False if another process was faster."""
    parent, slash, name = directory.rpartition("/")
    aside = directory
    if hashed_id(name) is None:
        # Without the suffix: a directory whose name ends with it is a table of V1.
        aside = parent + slash + hashed_directory(from_object_id(v1_name(name) or name), secrets.randbits(32))
    return erase(catalog.root, catalog.at(directory), directory, aside)


def check_unused(catalog: Catalog, directories: Iterable[str | None], doing: str) -> None:
    """Raise Refused if a clone reads the files of one of the tables."""
    locations = [catalog.at(directory) for directory in directories if directory is not None and is_inside(directory)]
    with ThreadPoolExecutor(THREADS) as pool:
        for location, clones in zip(locations, pool.map(recorded_clones, locations), strict=True):
            if clones:
                raise refusal(
                    Refused,
                    doing,
                    f"{location.uri} is read by the clone {min(clones.values())}",
                    hint="Drop the clone first, or say force.",
                )
