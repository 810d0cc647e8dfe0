"""Dropping, renaming and moving tables, dropping namespaces, and collecting directories without a row.

Names become free in one commit; files are deleted after that.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from functools import partial

from lance_spark import errors, hints
from lance_spark.catalog import directories, manifest_commits, services
from lance_spark.catalog.directories import Stamps, changed_at, copy_new_files, erase, list_directory, list_root
from lance_spark.catalog.entry_rules import (
    DEREGISTERED,
    INCOMPLETE,
    LOCATION,
    MARKERS,
    RESERVED,
    VERSIONS,
    AddTable,
    CatalogChange,
    Edit,
    Entry,
    Mark,
    RemoveNamespace,
    RemoveTable,
    RenameTable,
    RowFilter,
    hashed_directory,
    hashed_id,
    is_remainder,
    read_mark,
    refusal,
    v1_directory,
    v1_name,
)
from lance_spark.catalog.lake import check_unpinned, directories_of_refs, pinned_directories
from lance_spark.catalog.lookup import (
    FoundTable,
    check_no_table,
    find_table,
    list_namespaces,
    list_tables,
    look_again,
    need_manifest,
)
from lance_spark.catalog.manifest_commits import newest, read_rows
from lance_spark.catalog.marks import Hidden, hide, is_named, shown_again_on_failure
from lance_spark.catalog.name_rules import (
    NAMESPACE,
    TABLE,
    Catalog,
    Identifier,
    Name,
    Removed,
    check_inside,
    check_new,
    from_object_id,
    identify_namespace,
    identify_table,
    is_inside,
)
from lance_spark.core.location import DatasetLocation, is_within
from lance_spark.core.ref_files import BRANCHES
from lance_spark.core.show import Card, Shown
from lance_spark.storage import files, refs, versions
from lance_spark.storage.commits import protected_branches
from lance_spark.storage.datasets import find_latest
from lance_spark.survey.survey import recorded_clones


@dataclass(frozen=True)
class DropPlan:
    """The effects of dropping a table or a namespace, given the catalog's current state."""

    catalog: Catalog
    change: RemoveTable | RemoveNamespace
    tables: tuple[Removed, ...]
    """The tables to drop, by name."""
    force: bool
    """Whether to drop tables whose files clones read, or might read; never one with a protected branch."""
    namespaces: tuple[Identifier, ...] = ()
    """The nested namespaces to drop, by name."""
    table: FoundTable | None = None
    """The table; None for a namespace."""
    told: tuple[FoundTable, ...] = ()
    """The tables as a service told of them."""

    @property
    def identifier(self) -> Identifier:
        return self.change.identifier

    @property
    def kind(self) -> str:
        """``table`` or ``namespace``."""
        return NAMESPACE if self.table is None else TABLE


def plan_drop(catalog: Catalog, name: Name, force: bool = False) -> DropPlan:
    """Find a table to drop; a table that is only a directory may be deregistered. Changes nothing.

    Raises InvalidName, NotFound, and Refused if a branch is protected, or if clones read its files, unless ``force``.
    """
    identifier = identify_table(name)
    table = find_table(catalog, identifier, f"drop table '{identifier}'", deregistered=True)
    change = RemoveTable(identifier, table.path)
    if table.told is not None:
        return _planned_of_service(catalog, change, [table], (), force)
    if table.entry is None:
        removed = Removed(identifier, table.path, {}, data_kept=False)
    else:
        removed = _removed(table.entry, manifest_commits.decide(catalog.manifest, change))
    plan = DropPlan(catalog, change, (removed,), force, table=table)
    _check_may_go(plan)
    return plan


def plan_namespace_drop(catalog: Catalog, name: Name, cascade: bool = False, force: bool = False) -> DropPlan:
    """The effects of dropping a namespace; with ``cascade``, of all namespaces and tables in it. Changes nothing.

    Raises NotFound, and Refused for the root, for a namespace that is not empty, if a table in it has a protected
    branch, and, without ``force``, if clones read the files of a table in it.
    """
    change = RemoveNamespace(identify_namespace(name), cascade)
    need_manifest(catalog, change.doing)
    if change.identifier.is_root:
        raise refusal(errors.Refused, change.doing, "the root cannot be dropped")
    if catalog.service is not None:
        return _namespace_of_service(catalog, change, force)
    edit = manifest_commits.decide(catalog.manifest, change)
    tables = sorted((entry for entry in edit.before if entry.is_table), key=lambda entry: entry.identifier)
    namespaces = sorted(entry.identifier for entry in edit.before[1:] if entry.is_namespace)
    known = replace(change, known=tuple(entry.object_id for entry in edit.before))
    plan = DropPlan(catalog, known, tuple(_removed(entry, edit) for entry in tables), force, tuple(namespaces))
    _check_may_go(plan)
    return plan


def drop(plan: DropPlan) -> tuple[Removed, ...]:
    """Execute the plan: remove all rows in one commit, then the files of the tables; returns the dropped tables.

    If several processes drop the same table, one succeeds; the others get NotFound. Raises Refused for a clone or a
    protection, and Conflict if something was created in the namespace since the plan.
    """
    _check_may_go(plan)
    catalog, table = plan.catalog, plan.table
    if catalog.service is not None:
        return _drop_from_service(plan)
    if table is not None and table.path is not None and shows_in_v1(catalog, table.path):
        return (_drop_directory(plan, table, table.path),)
    edit = manifest_commits.apply(catalog.manifest, plan.change)
    tables = tuple(_removed(entry, edit) for entry in edit.before if entry.is_table)
    if catalog.ref is not None:
        return tuple(_left(catalog, entry) for entry in edit.before if entry.is_table)
    going = [removed.path for removed in tables if removed.path is not None and not removed.data_kept]
    pinned = frozenset() if plan.force else pinned_directories(catalog, going)
    for path in going:
        if path in pinned:
            hide(catalog, path, "drop")  # a ref was created meanwhile: the job for orphans removes it after the ref
        else:
            erase_table(catalog, path)
    return tuple(replace(removed, data_kept=removed.data_kept or removed.path in pinned) for removed in tables)


def _planned_of_service(
    catalog: Catalog,
    change: RemoveTable | RemoveNamespace,
    tables: Sequence[FoundTable],
    namespaces: tuple[Identifier, ...],
    force: bool,
) -> DropPlan:
    removed = tuple(Removed(each.identifier, each.path, each.properties, data_kept=False) for each in tables)
    table = tables[0] if isinstance(change, RemoveTable) else None
    plan = DropPlan(catalog, change, removed, force, namespaces, table, tuple(tables))
    _check_may_go(plan)
    return plan


def _namespace_of_service(catalog: Catalog, change: RemoveNamespace, force: bool) -> DropPlan:
    """Every table is dropped by itself: a service's own cascade, if it has one, knows no clones and no protection."""
    tables = list_tables(catalog, change.identifier, recursive=True)
    below = list_namespaces(catalog, change.identifier, recursive=True)
    if not change.cascade and (len(tables) or len(below)):
        raise refusal(errors.Refused, change.doing, "it is not empty", hint="Drop what is in it, or use cascade.")
    found = [find_table(catalog, each, change.doing) for each in tables]
    return _planned_of_service(catalog, change, found, tuple(sorted(below)), force)


def _drop_from_service(plan: DropPlan) -> tuple[Removed, ...]:
    _check_told(plan)
    for removed in plan.tables:
        services.drop(plan.catalog, removed.identifier, f"drop table '{removed.identifier}'")
    if plan.table is None:
        for namespace in sorted((*plan.namespaces, plan.identifier), key=lambda each: -len(each.parts)):
            services.drop_namespace(plan.catalog, namespace, plan.change.doing)
    return plan.tables


def _check_told(plan: DropPlan) -> None:
    """Raise Conflict if a service has other tables than those that were looked at: people may have been asked since."""
    doing, hint = plan.change.doing, "Nothing was dropped. Run it again."
    if plan.table is None:
        news = {*list_tables(plan.catalog, plan.identifier, recursive=True)} - {each.identifier for each in plan.told}
        if news:
            raise refusal(errors.Conflict, doing, f"table '{min(news)}' was created in it meanwhile", hint=hint)
    for known in plan.told:
        if find_table(plan.catalog, known.identifier, doing).path != known.path:
            why = f"table '{known.identifier}' was replaced or moved meanwhile"
            raise refusal(errors.Conflict, doing, why, hint=hint)


def drop_table(catalog: Catalog, name: Name, force: bool = False) -> Removed:
    return drop(plan_drop(catalog, name, force))[0]


def drop_namespace(catalog: Catalog, name: Name, cascade: bool = False, force: bool = False) -> tuple[Removed, ...]:
    """Plan and drop. There is no plan that the user has agreed to, so objects created meanwhile are dropped."""
    plan = plan_namespace_drop(catalog, name, cascade, force)
    return drop(replace(plan, change=RemoveNamespace(plan.identifier, cascade)))


def _left(catalog: Catalog, entry: Entry) -> Removed:
    """A table that was dropped on a branch of the lake: others still need its files, unless it was created there."""
    path = entry.location
    if path is not None and is_inside(path) and entry.pin is not None and entry.pin.new:
        whole = replace(catalog, ref=None)
        if path not in named_paths(whole):
            hide(whole, path, "drop")  # the job for orphans removes it, unless a row names it by then
    return Removed(entry.identifier, path, entry.properties, data_kept=True)


def _check_may_go_on_ref(plan: DropPlan) -> None:
    """Raise Refused for what a publish could not drop on main."""
    doing = plan.change.doing
    rows = manifest_commits.read_rows(plan.catalog.manifest, RowFilter(locations=_paths(plan.tables)))
    for entry in rows.entries:
        if entry.is_table and entry.pin is None:
            raise refusal(
                errors.Refused,
                doing,
                f"the branch of the lake does not cover table '{entry.identifier}'",
                hint="Drop it on main, or create the branch with this table.",
            )
    check_apart_from_v1(plan.catalog, _paths(plan.tables), doing)


def check_apart_from_v1(catalog: Catalog, paths: Iterable[str | None], doing: str) -> None:
    """Raise Refused for tables in directories ``*.lance`` of a catalog on a branch, if main reads directories too."""
    manifest_commits.check_may_change(catalog.manifest, doing)
    main = replace(catalog, ref=None)
    found = [path for path in paths if path is not None and shows_in_v1(main, path)]
    if catalog.ref is not None and found:
        raise refusal(
            errors.Refused,
            doing,
            f"its directory {found[0]} is a table by its name for readers of directories (V1), whatever the branch has",
            hint="Do it on main; or, once no one reads directories, open the catalog with mode v2.",
        )


def _paths(tables: Iterable[Removed]) -> tuple[str, ...]:
    return tuple(table.path for table in tables if table.path is not None)


def _check_may_go(plan: DropPlan) -> None:
    if plan.catalog.service is not None:
        locations = [each.told.location for each in plan.told if each.told is not None]
        _check_locations_unprotected(plan, locations)
        if not plan.force:
            check_no_clones(locations, plan.change.doing)
        return
    manifest_commits.check_may_change(plan.catalog.manifest, plan.change.doing)
    if plan.catalog.ref is not None:
        _check_may_go_on_ref(plan)
        return
    _check_unprotected(plan)
    if not plan.force:
        check_unpinned(plan.catalog, [table.path for table in plan.tables], plan.change.doing)
        check_unused(plan.catalog, [table.path for table in plan.tables], plan.change.doing)


def _check_unprotected(plan: DropPlan) -> None:
    """Raise Refused if a branch of a table whose files would be deleted is protected, even with ``force``.

    Raises CorruptData if a ref cannot be decoded, unless ``force``.
    """
    going = [table for table in plan.tables if table.path is not None and not table.data_kept]
    locations = [plan.catalog.at(table.path) for table in going if table.path is not None and is_inside(table.path)]
    _check_locations_unprotected(plan, locations)


def _check_locations_unprotected(plan: DropPlan, locations: Sequence[DatasetLocation]) -> None:
    with ThreadPoolExecutor(files.THREADS) as pool:
        for location, names in zip(locations, pool.map(partial(_protected, plan), locations), strict=True):
            if names:
                raise refusal(
                    errors.Refused,
                    plan.change.doing,
                    f"branch '{names[0]}' of {location.uri} is protected",
                    hint=hints.of(
                        "To delete it anyway: ",
                        hints.unprotect_branch(names[0]),
                        ". To keep the files: deregister the table.",
                    ),
                )


def _protected(plan: DropPlan, location: DatasetLocation) -> list[str]:
    try:
        return protected_branches(location)
    except errors.CorruptData:
        if plan.force:
            return []
        raise


def _removed(entry: Entry, edit: Edit) -> Removed:
    """A table whose row is removed. Its files stay if another row names them or they are outside the catalog."""
    kept = entry.location in edit.shared or not is_inside(entry.location)
    return Removed(entry.identifier, entry.location, entry.properties, kept)


def shows_in_v1(catalog: Catalog, directory: str) -> bool:
    """Whether a directory is a table by its name once no row names it, unless it is marked."""
    return catalog.reads_directories and "/" not in directory and v1_name(directory) is not None


def _drop_directory(plan: DropPlan, table: FoundTable, directory: str) -> Removed:
    """It is first marked as deregistered: V1 no longer sees it, and no process treats its directory as free."""
    catalog, doing = plan.catalog, plan.change.doing
    hidden = hide(catalog, directory, "drop")
    if not hidden.mine and table.was_deregistered:  # an old mark does not mean that it is being dropped
        hidden = hidden.taken_over()
    with shown_again_on_failure(hidden, table.entry is not None):
        table = look_again(catalog, table, doing)
    if table.entry is not None:
        with shown_again_on_failure(hidden, had_row=True):
            edit = manifest_commits.apply(catalog.manifest, RemoveTable(table.identifier, table.path))
        if directory in edit.shared:
            hidden.take_back()
            return Removed(table.identifier, directory, table.properties, data_kept=True)
    elif hidden.is_alone():
        hidden.discard()  # a table that was declared, deregistered, and then withdrawn
        raise _too_late(doing)
    elif not hidden.mine:
        raise _too_late(doing)
    if not plan.force and pinned_directories(catalog, [directory]):  # a ref was created meanwhile
        return Removed(table.identifier, directory, table.properties, data_kept=True)
    # If a process whose creation failed removed the mark meanwhile, the directory may belong to a new table by now.
    taken = catalog.reads_manifest and is_named(catalog, directory)
    if (taken or not erase_table(catalog, directory)) and table.entry is None:
        raise _too_late(doing)
    return Removed(table.identifier, directory, table.properties, data_kept=False)


def _too_late(doing: str) -> errors.LanceSparkError:
    return refusal(errors.NotFound, doing, "another process dropped or deregistered it")


def erase_table(catalog: Catalog, directory: str) -> bool:
    """Delete the files of a table that nothing names; False if another process was faster."""
    parent, slash, name = directory.rpartition("/")
    aside = directory
    if hashed_id(name) is None:
        # Without the suffix: a directory whose name ends with it is a table of V1.
        aside = parent + slash + hashed_directory(from_object_id(v1_name(name) or name), secrets.randbits(32))
    return erase(catalog.root, catalog.at(directory), directory, aside)


def check_unused(catalog: Catalog, directories: Iterable[str | None], doing: str) -> None:
    """Raise Refused if a clone reads the files of one of the tables."""
    check_no_clones([catalog.at(path) for path in directories if path is not None and is_inside(path)], doing)


def check_no_clones(locations: Sequence[DatasetLocation], doing: str) -> None:
    """Raise Refused if a clone reads the files of one of the datasets."""
    with ThreadPoolExecutor(files.THREADS) as pool:
        for location, clones in zip(locations, pool.map(recorded_clones, locations), strict=True):
            if clones:
                raise refusal(
                    errors.Refused,
                    doing,
                    f"{location.uri} is read by the clone {min(clones.values())}",
                    hint="Drop the clone first, or use force.",
                )


# --- Moving a table's directory: a complete copy, then the row is switched to it at once, then the old one is deleted

_PASSES = 20
"""How often concurrent writes are copied before giving up."""


def move(catalog: Catalog, table: FoundTable, new: Identifier, doing: str) -> str | None:
    """Give a table in the root another name, and a directory ``<hash>_<id>`` (specification "Compatibility Mode", 4).

    A crash leaves the old table, or the new one, and a directory that the job for orphans collects. Returns the old
    directory if it was kept because a job committed to it during the switch; else None.
    """
    source, target = v1_directory(table.identifier), hashed_directory(new, secrets.randbits(32))
    check_movable(catalog, source, doing)
    token = directories.content_of(catalog.at(source), RESERVED)
    directories.put_new(catalog.at(target), INCOMPLETE, b"")
    try:
        known = _copied(catalog, source, target, {})
        hidden = hide(catalog, source, "rename", target)
        with shown_again_on_failure(hidden, table.entry is not None):
            table = look_again(catalog, table, doing)
        with shown_again_on_failure(hidden, table.entry is not None):
            if table.entry is None and (not hidden.mine or hidden.is_alone()):
                raise refusal(errors.NotFound, doing, "another process dropped or renamed it")
            known = _copied(catalog, source, target, known)
            if token is not None:  # a table that is only declared remains so
                directories.put_new(catalog.at(target), RESERVED, token)
            check = partial(_check_copy, hidden, known, token, doing)
            edit = manifest_commits.apply(catalog.manifest, change_of_move(table, new, target), check)
    except errors.StorageFailure:
        raise  # the row may have been switched
    except errors.LanceSparkError:
        erase_table(catalog, target)
        raise
    directories.remove(catalog.at(target), INCOMPLETE)
    return _leave(catalog, hidden, known, edit)


def change_of_move(table: FoundTable, new: Identifier, target: str) -> CatalogChange:
    """Switches the row to the copy; a table that was only a directory gets one."""
    if table.entry is None:
        return AddTable(new, target, {}, "rename to", unique=True)
    return RenameTable(table.identifier, new, table.path or "", target)


def _copied(catalog: Catalog, source: str, target: str, known: Stamps) -> Stamps:
    """Copy until there are no new files; returns all files."""
    for _ in range(_PASSES):
        try:
            files = copy_new_files(catalog.root, source, target, frozenset(known))
        except errors.NotFound:
            continue  # a writer's temporary file; or the table is being dropped, which the commit will detect
        if any(_is_version(path) and files.get(path, stamp) != stamp for path, stamp in known.items()):
            raise errors.Conflict(f"'{source}' was dropped and created again during the copy.", hint="Run it again.")
        if files.keys() - MARKERS <= known.keys():
            return files
        known = files
    raise errors.Conflict(f"'{source}' was written to, or deleted, during the copy.", hint="Run it again later.")


def _is_version(path: str) -> bool:
    return path.startswith(f"{VERSIONS}/") and path.endswith(".manifest")


def _check_copy(hidden: Hidden, known: Stamps, token: bytes | None, doing: str) -> None:
    """Raise Conflict unless the copied table is still the existing one.

    Called after the rows were read and before they are changed: a table that is dropped, withdrawn or created again
    has lost its row, or its mark, by then. Without this check an empty copy was given a row.
    """
    hidden.check(doing)
    if directories.content_of(hidden.location, RESERVED) != token:
        raise refusal(errors.Conflict, doing, "another process withdrew it, or created it again", hint="Run it again.")
    if token is None and not known.keys() - MARKERS:
        raise refusal(errors.NotFound, doing, f"its directory '{hidden.directory}' has no files")


def _leave(catalog: Catalog, hidden: Hidden, known: Stamps, edit: Edit) -> str | None:
    source = hidden.directory
    if source in edit.shared:
        return source
    if not hidden.mine:  # the process that made the mark may have removed it during the commit
        hide(catalog, source, "rename", hidden.mark.to)
    late = {path for path, _, _ in list_directory(catalog.at(source))} - known.keys() - MARKERS
    if any(path.startswith(f"{VERSIONS}/") for path in late) or pinned_directories(catalog, [source]):
        hidden.keep()
        return source
    erase_table(catalog, source)
    return None


def check_movable(catalog: Catalog, source: str, doing: str) -> None:
    """Raise Refused if branches, clones or base paths refer to the files by their current location."""
    location = catalog.at(source)
    check_unpinned(catalog, [source], doing, "Delete the {kind} first, or open the catalog in V2 mode.")
    check_unused(catalog, [source], doing)
    branches = refs.list_ref_names(location, BRANCHES)
    if branches or files.list_names(location, "tree") or _names_itself(location):
        raise refusal(
            errors.Refused,
            doing,
            "its branches refer to its files by their current location, and renaming a table in the root moves it",
            hint=hints.of(
                "Deregister it, move the directory while no job writes to it, then ",
                hints.RELOCATE,
                ", and register it; or open the catalog in V2 mode, where only the name changes.",
            ),
        )


def _names_itself(location: DatasetLocation) -> bool:
    pin = find_latest(location, None)
    if pin is None:
        return False
    bases = versions.read_contents(location, pin).head.bases.values()
    return any(is_within(base.path.removeprefix("file://"), location.uri) for base in bases)


# --- Renaming a table, and moving it to another namespace


@dataclass(frozen=True, repr=False)
class Renamed(Shown):
    old: Identifier
    new: Identifier
    left_behind: str | None = None
    """The old directory, relative to the root, if files stayed there: another table names them, or a job committed to
    them at the same time."""

    def _card(self) -> Card:
        left = f"files stayed in {self.left_behind}" if self.left_behind else ""
        summary = "; ".join(part for part in (f"is {self.new} now", left) if part)
        return Card(type(self).__name__, str(self.old), summary, (("now", str(self.new)), ("left behind", left)))


@dataclass(frozen=True)
class RenamePlan:
    """A table that can be renamed, given the catalog's current state."""

    catalog: Catalog
    table: FoundTable
    target: Identifier
    doing: str
    moves: bool
    """Whether the files must be copied to another directory: theirs would remain a table of the old name."""


def rename_table(catalog: Catalog, old: Name, new: Name) -> Renamed:
    """Give a table another name, possibly in another namespace. Its data, properties and versions stay.

    A commit changes the row; the directory stays where it is. Only a table in the root of a catalog that reads
    directories moves from ``<name>.lance`` to ``<hash>_<id>``, since its directory would remain a table of the old
    name. If several processes rename it at once, one succeeds.

    Raises InvalidName, NotFound, AlreadyExists, and Refused in V1 and for a table whose directory must move although
    branches or clones read it.
    """
    return rename(plan_rename(catalog, old, new))


def rename(plan: RenamePlan) -> Renamed:
    """Execute the plan. Raises the errors of :func:`rename_table`, and Conflict for other processes' changes since."""
    catalog, table, target = plan.catalog, plan.table, plan.target
    if catalog.service is not None:
        services.rename(catalog, table.identifier, target, plan.doing)
        return Renamed(table.identifier, target)
    if plan.moves:
        return Renamed(table.identifier, target, move(catalog, table, target, plan.doing))
    manifest_commits.apply(catalog.manifest, _change(table, target))
    return Renamed(table.identifier, target)


def plan_rename(catalog: Catalog, old: Name, new: Name) -> RenamePlan:
    """Whether and how a table can be renamed. Changes nothing. Raises the errors of :func:`rename_table`."""
    source, target = identify_table(old), identify_table(new)
    check_new(target, TABLE)
    doing = f"rename table '{source}' to '{target}'"
    need_manifest(catalog, doing)
    table = find_table(catalog, source, doing)
    if target == source:
        raise refusal(errors.AlreadyExists, doing, "it already has that name")
    if catalog.service is not None:
        return RenamePlan(catalog, table, target, doing, moves=False)
    check_no_table(catalog, target, doing)
    check_apart_from_v1(catalog, [table.path], doing)
    moves = catalog.reads_directories and source.in_root and table.path == v1_directory(source)
    directory = hashed_directory(target, 0)  # a placeholder: the real one is chosen when the files are copied
    manifest_commits.decide(
        catalog.manifest, change_of_move(table, target, directory) if moves else _change(table, target)
    )
    if moves:
        check_movable(catalog, v1_directory(source), doing)
    return RenamePlan(catalog, table, target, doing, moves)


def move_table(catalog: Catalog, name: Name, namespace: Name) -> Renamed:
    """Move a table to another namespace, under its own name. Raises the errors of :func:`rename_table`."""
    identifier = identify_table(name)
    return rename_table(catalog, identifier, identify_namespace(namespace).child(identifier.name))


def _change(table: FoundTable, target: Identifier) -> RenameTable:
    if table.path is None:
        raise errors.CorruptData(f"The row of table '{table.identifier}' in the catalog has no location.")
    check_inside(table.path)
    return RenameTable(table.identifier, target, table.path, table.path)


# --- Directories that no row names: the remains of killed jobs
# They are collected after a day.

DEFAULT_AGE = timedelta(days=1)
"""A job that creates a table adds its row first, but a pylance client may be at work for as long."""
UNFINISHED, DATASET, REMAINDER, INTERRUPTED = "unfinished", "dataset", "remainder", "interrupted rename"


@dataclass(frozen=True)
class Orphan:
    """A directory that no row names."""

    directory: str
    kind: str
    """``unfinished``: it has no version, or is an incomplete copy; ``remainder``: of an interrupted drop or rename;
    ``dataset``: complete, so another tool may have deregistered it; ``interrupted rename``: a hidden table, possibly
    the only copy, which is never collected."""
    files: int
    bytes: int
    newest: datetime
    """Time of the last change of a file in it."""


@dataclass(frozen=True)
class OrphanPlan:
    catalog: Catalog
    orphans: tuple[Orphan, ...]
    kept: tuple[Orphan, ...]
    """Those that are too young, and complete datasets unless they were requested."""


@dataclass(frozen=True)
class Collected:
    deleted: tuple[str, ...]
    spared: tuple[str, ...]
    """Directories that a row now names, or that were written to."""
    failed: tuple[tuple[str, errors.LanceSparkError], ...]
    """Directory and reason."""


def plan_orphans(
    catalog: Catalog, now: datetime, older_than: timedelta = DEFAULT_AGE, datasets: bool = False
) -> OrphanPlan:
    """Find directories ``<hash>_<id>`` that no row names, and remainders of drops and renames; changes nothing.

    Complete datasets are only collected with ``datasets``: pylance's namespace deregisters a table without a mark.
    Without a ``__manifest`` no row can name anything, so only remainders are found.
    """
    if older_than < timedelta(0):
        raise errors.InvalidOption("older_than cannot be negative.", hint="Give the age of directories, e.g. one day.")
    orphans = find_orphans(catalog)
    kinds = {UNFINISHED, REMAINDER, DATASET} if datasets else {UNFINISHED, REMAINDER}
    due = [orphan for orphan in orphans if orphan.kind in kinds and orphan.newest <= now - older_than]
    return OrphanPlan(catalog, tuple(due), tuple(orphan for orphan in orphans if orphan not in due))


def find_orphans(catalog: Catalog) -> list[Orphan]:
    """All directories that no row names, of any age; not those that this package deregistered."""
    # Directories first: a table created meanwhile has its row before its directory.
    directories, _ = list_root(catalog.root)
    has_manifest = newest(catalog.manifest) is not None
    named = named_directories(catalog)
    unnamed = [directory for directory in directories if directory not in named]
    candidates = [directory for directory in unnamed if hashed_id(directory) or v1_name(directory)]
    looked = files.each(catalog.root, lambda directory: _look(catalog, directory, named), candidates)
    return [
        orphan for orphan in looked if orphan is not None and (has_manifest or orphan.kind in (REMAINDER, INTERRUPTED))
    ]


def named_directories(catalog: Catalog) -> frozenset[str]:
    """Directories directly in the root that rows name, or that contain directories named by rows; also rows of tags."""
    return frozenset(location.partition("/")[0] for location in named_paths(catalog))


def named_paths(catalog: Catalog) -> frozenset[str]:
    """Directories that rows of main, or of branches and tags of the lake, name."""
    locations = {*read_rows(catalog.manifest, RowFilter(everything=True)).table[LOCATION].to_pylist()}
    return frozenset(location for location in locations if location) | directories_of_refs(catalog)


def _look(catalog: Catalog, directory: str, named: frozenset[str]) -> Orphan | None:
    files = list_directory(catalog.at(directory))
    paths = {path for path, _, _ in files}
    mark = None
    if DEREGISTERED in paths:
        mark = read_mark(directories.content_of(catalog.at(directory), DEREGISTERED))
    kind = REMAINDER if is_remainder(mark, named) else _kind(directory, paths, mark)
    if kind is None or (not files and v1_name(directory)):
        return None
    latest = max((time for _, _, time in files), default=0)
    latest = max(latest, changed_at(catalog.at(directory)))  # files copied on a local disk keep their source's times
    moment = datetime.fromtimestamp(min(latest / 1_000_000, 2**37), timezone.utc)
    return Orphan(directory, kind, len(files), sum(size for _, size, _ in files), moment)


def _kind(directory: str, paths: Iterable[str], mark: Mark | None) -> str | None:
    """The kind of a directory without a row; None for one that must not be collected."""
    names = {path.partition("/")[0] for path in paths}
    if mark is not None and mark.why == "rename":
        return INTERRUPTED
    if v1_name(directory) is not None or DEREGISTERED in names:
        return None
    return DATASET if VERSIONS in names and INCOMPLETE not in names else UNFINISHED


def collect_orphans(plan: OrphanPlan) -> Collected:
    """Delete the directories of a plan, unless a row now names them or they were written to since."""
    named = named_directories(plan.catalog)
    deleted, spared, failed = [], [], []
    for orphan in plan.orphans:
        if orphan.directory in named or _look(plan.catalog, orphan.directory, named) != orphan:
            spared.append(orphan.directory)
            continue
        try:
            erase_table(plan.catalog, orphan.directory)
        except errors.LanceSparkError as problem:
            failed.append((orphan.directory, problem))
        else:
            deleted.append(orphan.directory)
    return Collected(tuple(deleted), tuple(spared), tuple(failed))
