"""Tables of a catalog: creating, deregistering, registering and writing them, and altering properties.

To create one, declare it, write it, then commit or withdraw. If several processes declare one name, exactly one wins.
"""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from urllib.parse import unquote

from lance_spark import errors
from lance_spark.catalog import directories, lookup, manifest_commits, services
from lance_spark.catalog.directories import list_root, look_at
from lance_spark.catalog.entry_rules import (
    DEREGISTERED,
    RESERVED,
    VERSIONS,
    AddTable,
    AlterProperties,
    RemoveTable,
    RowFilter,
    check_properties,
    hashed_directory,
    hashed_id,
    is_dropped,
    is_leaving,
    read_mark,
    refusal,
    v1_directory,
)
from lance_spark.catalog.lake import catalog_of, table_branch
from lance_spark.catalog.lake_rules import TAG, LakeRef, Pin
from lance_spark.catalog.manifest_commits import read_rows
from lance_spark.catalog.marks import hide, is_named, shown_again_on_failure
from lance_spark.catalog.name_rules import (
    NAMESPACE,
    TABLE,
    Catalog,
    Declaration,
    Identifier,
    Name,
    NamespaceInfo,
    Removed,
    TableInfo,
    check_inside,
    identify_namespace,
    identify_table,
    is_inside,
)
from lance_spark.catalog.others_rules import check_ours
from lance_spark.catalog.removing import erase_table, shows_in_v1
from lance_spark.core.location import DatasetLocation
from lance_spark.core.options import names_of
from lance_spark.core.refs import PinnedVersion
from lance_spark.core.table_options import WriteOptions
from lance_spark.core.table_properties import obeyed
from lance_spark.storage import files
from lance_spark.storage.commits import change_table_metadata
from lance_spark.storage.datasets import find_latest, locate, pin_version
from lance_spark.storage.resolving import NamedTable, resolve
from lance_spark.storage.spelling import found_as


@dataclass(frozen=True)
class TablePlan:
    """A table that can be declared, given the catalog's current state."""

    catalog: Catalog
    change: AddTable

    @property
    def identifier(self) -> Identifier:
        return self.change.identifier

    @property
    def location(self) -> DatasetLocation | None:
        """Where its data goes; None if a service says it only once the name is taken."""
        return None if self.catalog.service is not None else self.catalog.at(self.change.location)


def plan_table(catalog: Catalog, name: Name, properties: Mapping[str, str] | None = None) -> TablePlan:
    """Choose the directory of a new table: ``<name>.lance`` in the root of a catalog that reads directories.

    Elsewhere it is ``<hash>_<id>``. Changes nothing. Raises InvalidName, AlreadyExists (also for a namespace of that
    name), NotFound for a missing namespace.
    """
    new = lookup.new_table(catalog, name, properties, "create")
    if catalog.service is not None:
        return TablePlan(catalog, AddTable(new.identifier, "", new.properties))
    if catalog.reads_directories and new.identifier.in_root:
        change = AddTable(new.identifier, v1_directory(new.identifier), new.properties)
        _check_directory(catalog, change)
    else:
        path = hashed_directory(new.identifier, secrets.randbits(32))
        pin = None if catalog.ref is None else Pin(new=True)
        change = AddTable(new.identifier, path, new.properties, unique=True, pin=pin)
    if catalog.reads_manifest:
        manifest_commits.decide(catalog.manifest, change)
    return TablePlan(catalog, change)


def declare(plan: TablePlan) -> Declaration:
    """Take the name: the table now exists, without data. Raises the errors of :func:`plan_table`, and Conflict."""
    if plan.catalog.service is not None:
        change = plan.change
        told = services.declare(plan.catalog, change.identifier, change.properties, change.doing)
        _check_empty(plan.catalog, change, told.location)
        return Declaration(change.identifier, told.location, told.location.uri, uuid.uuid4().hex)
    return _declare_hashed(plan) if plan.change.unique else _declare_by_name(plan)


def _check_empty(catalog: Catalog, change: AddTable, location: DatasetLocation) -> None:
    """Raise AlreadyExists, and release the name, if the service put a new table where there is a dataset already.

    Glue does that for a name that was deregistered: the new table would have the rows of the old one.
    """
    if not files.list_names(location, VERSIONS):
        return
    with suppress(errors.NotFound, errors.Refused):
        services.deregister(catalog, change.identifier, change.doing)
    raise refusal(
        errors.AlreadyExists,
        change.doing,
        f"the catalog puts it at {location.uri}, where there is a dataset already",
        hint="Register that dataset under the name, or move it away first. The name was released.",
    )


def declare_table(catalog: Catalog, name: Name, properties: Mapping[str, str] | None = None) -> Declaration:
    return declare(plan_table(catalog, name, properties))


def _declare_by_name(plan: TablePlan) -> Declaration:
    """The marker comes first: it also keeps out writers of V1, which do not read the manifest."""
    catalog, change, token = plan.catalog, plan.change, uuid.uuid4().hex
    location = catalog.at(change.location)
    _check_directory(catalog, change)
    if not directories.put_new(location, RESERVED, token.encode()):
        raise refusal(errors.AlreadyExists, change.doing, "another process is creating it right now")
    declaration = Declaration(change.identifier, location, change.location, token)
    if catalog.reads_manifest:
        try:
            manifest_commits.apply(catalog.manifest, change)
        except errors.StorageFailure:
            raise  # the row may have been written
        except errors.LanceSparkError:
            _take_back(catalog, declaration)
            raise
        _check_still_mine(catalog, declaration, change)
    return declaration


def _check_still_mine(catalog: Catalog, declaration: Declaration, change: AddTable) -> None:
    """Raise Conflict, without leaving a row, if the directory was dropped as a table of V1 before the row existed."""
    if _is_held(declaration) and directories.content_of(declaration.location, DEREGISTERED) is None:
        return
    try:
        manifest_commits.apply(catalog.manifest, RemoveTable(change.identifier, change.location, "withdraw"))
    except errors.NotFound:
        # The process that removed the row also deletes the directory. Without its mark, a third process could create
        # a table there in between, which would be deleted instead.
        pass
    else:
        _take_back(catalog, declaration, any_holder=True)  # any other holder of the marker lost to this row
    raise refusal(errors.Conflict, change.doing, "another process dropped it", hint="Run it again.")


def _is_held(declaration: Declaration) -> bool:
    return directories.content_of(declaration.location, RESERVED) == declaration.token.encode()


def _check_directory(catalog: Catalog, change: AddTable) -> None:
    """Raise AlreadyExists if the directory cannot be used for a new table, Refused if the disk takes it for another."""
    _check_spelling(catalog, change.location, change.doing)
    state = look_at(catalog.root, change.location)
    if state.deregistered:
        raise refusal(
            errors.AlreadyExists,
            change.doing,
            "a table of that name is deregistered, or is being dropped",
            hint="Register it again, or drop it.",
        )
    if state.has_files:
        raise refusal(errors.AlreadyExists, change.doing, "a table of that name already exists")


def _check_spelling(catalog: Catalog, path: str, doing: str) -> None:
    found = found_as(catalog.root, path)
    if found is not None:
        raise refusal(
            errors.Refused,
            doing,
            f"this disk does not tell upper from lower case, and '{found}' would be its directory",
            hint="Choose a name that differs in more than its case.",
        )


def _take_back(catalog: Catalog, declaration: Declaration, any_holder: bool = False) -> None:
    """The mark comes first: a process that registers the directory meanwhile sees the mark, or its row is seen here."""
    if not any_holder and not _is_held(declaration):
        return
    hidden = hide(catalog, declaration.path, "drop")
    empty = set(files.list_names(declaration.location, "")) <= {RESERVED, DEREGISTERED}
    if not empty or is_named(catalog, declaration.path):
        hidden.take_back()
        return
    directories.remove(declaration.location, RESERVED)
    if hidden.mine or hidden.is_alone():
        hidden.discard()  # otherwise the mark would block the name forever


def _declare_hashed(plan: TablePlan) -> Declaration:
    """The row comes first, so that the loser of a race leaves no directory behind."""
    table, path = plan.identifier, plan.change.location
    manifest_commits.apply(plan.catalog.manifest, plan.change)
    location = plan.catalog.at(path)
    declaration = Declaration(table, location, path, uuid.uuid4().hex)
    try:
        mine = directories.put_new(location, RESERVED, declaration.token.encode()) or _is_held(declaration)
    except errors.LanceSparkError:
        manifest_commits.apply(plan.catalog.manifest, RemoveTable(table, path, "withdraw"))
        raise
    if not mine:
        raise refusal(errors.AlreadyExists, plan.change.doing, "this plan was already executed")
    return declaration


def withdraw(catalog: Catalog, declaration: Declaration) -> bool:
    """Release a declared name, and delete the files in its directory; False if the table is no longer the declared one.

    Does nothing for a table that has a version: its commit may have succeeded although the job got an error.
    """
    if files.list_names(declaration.location, VERSIONS):
        return False
    if catalog.service is not None:
        return _withdraw_from_service(catalog, declaration)
    by_name = catalog.reads_directories and declaration.path == v1_directory(declaration.identifier)
    if by_name and not _is_held(declaration):
        return False
    if not catalog.reads_manifest:
        erase_table(catalog, declaration.path)
        return True
    try:
        shared = _withdraw_by_name(catalog, declaration) if by_name else _remove_row(catalog, declaration)
    except (errors.NotFound, errors.Conflict):
        return False
    if not shared:
        erase_table(catalog, declaration.path)
    return True


def _withdraw_from_service(catalog: Catalog, declaration: Declaration) -> bool:
    """A service that cannot drop a table may still forget its name; then the remains of the write stay."""
    doing = f"withdraw table '{declaration.identifier}'"
    try:
        if services.find(catalog, declaration.identifier, doing).location.uri != declaration.location.uri:
            return False
        try:
            services.drop(catalog, declaration.identifier, doing)
        except errors.Refused:
            services.deregister(catalog, declaration.identifier, doing)
    except errors.NotFound:
        return False
    return True


def _withdraw_by_name(catalog: Catalog, declaration: Declaration) -> bool:
    """The mark comes first: without its row the directory would be a table of V1, which others could rename."""
    hidden = hide(catalog, declaration.path, "drop")
    with shown_again_on_failure(hidden, had_row=True):
        shared = _remove_row(catalog, declaration)
    if shared:
        hidden.take_back()
    return shared


def _remove_row(catalog: Catalog, declaration: Declaration) -> bool:
    """Remove the row; returns whether another row names the directory. Raises NotFound, Conflict."""
    edit = manifest_commits.apply(catalog.manifest, RemoveTable(declaration.identifier, declaration.path, "withdraw"))
    return declaration.path in edit.shared


def confirm(catalog: Catalog, declaration: Declaration) -> None:
    """Raise Conflict if a declared table was dropped, deregistered or renamed since. Call it before a job's commit.

    Call it again after the commit: a commit to the directory of a dropped table creates an unwanted one. Such a
    remainder is deleted here, unless it may belong to another process.
    """
    identifier, path = declaration.identifier, declaration.path
    if catalog.service is not None:
        if _is_at(catalog, identifier, declaration.location):
            return
        raise _lost(identifier)
    named = not catalog.reads_manifest or is_named(catalog, path)
    by_name = path == v1_directory(identifier)
    holder = directories.content_of(declaration.location, RESERVED) if by_name else None
    if named and (not by_name or holder == declaration.token.encode()):
        return
    if holder is None and (not named or not catalog.reads_manifest):
        _erase_remainder(catalog, declaration)
    raise _lost(identifier)


def _is_at(catalog: Catalog, identifier: Identifier, location: DatasetLocation) -> bool:
    """Whether a table of a service is still where it was."""
    try:
        return services.find(catalog, identifier, f"create table '{identifier}'").location.uri == location.uri
    except errors.NotFound:
        return False


def _lost(identifier: Identifier) -> errors.LanceSparkError:
    why = "another process dropped, renamed or deregistered it during the write"
    return refusal(errors.Conflict, f"create table '{identifier}'", why, hint="Run it again.")


def _erase_remainder(catalog: Catalog, declaration: Declaration) -> None:
    """The mark comes first: a process that creates a table there meanwhile sees the mark, or its row is seen here."""
    hidden = hide(catalog, declaration.path, "drop")
    named = catalog.reads_manifest and is_named(catalog, declaration.path)
    if named or directories.content_of(declaration.location, RESERVED) is not None:
        hidden.take_back()
    elif hidden.mine or is_dropped(read_mark(hidden.seen)):
        erase_table(catalog, declaration.path)


# --- Deregistering tables with their data kept, and registering directories


@dataclass(frozen=True)
class DeregisterPlan:
    """A table that can be deregistered, given the catalog's current state."""

    catalog: Catalog
    table: lookup.FoundTable

    @property
    def removed(self) -> Removed:
        """The table to deregister, with all that is needed to register it again."""
        return Removed(self.table.identifier, self.table.path, self.table.properties, data_kept=True)


def plan_deregistration(catalog: Catalog, name: Name) -> DeregisterPlan:
    """Find a table to deregister. Changes nothing. Raises InvalidName, NotFound."""
    identifier = identify_table(name)
    if catalog.service is None:
        manifest_commits.check_may_change(catalog.manifest, f"deregister table '{identifier}'")
    return DeregisterPlan(catalog, lookup.find_table(catalog, identifier, f"deregister table '{identifier}'"))


def deregister(plan: DeregisterPlan) -> Removed:
    """Take a table out of the catalog and keep its data.

    The directory is marked with ``.lance-deregistered``. Otherwise V1 would take it for a table because of its name,
    or it would count as a remainder. If several processes do this at once, one succeeds; the others get NotFound.
    """
    catalog, table, path = plan.catalog, plan.table, plan.table.path
    if catalog.service is not None:
        services.deregister(catalog, table.identifier, f"deregister table '{table.identifier}'")
        return plan.removed
    if path is not None and shows_in_v1(catalog, path):
        _deregister_directory(catalog, table, path)
        return plan.removed
    edit = manifest_commits.apply(catalog.manifest, RemoveTable(table.identifier, path, "deregister"))
    if path and is_inside(path) and path not in edit.shared and files.list_names(catalog.at(path), ""):
        hide(catalog, path, "deregister")
    return plan.removed


def deregister_table(catalog: Catalog, name: Name) -> Removed:
    return deregister(plan_deregistration(catalog, name))


def _deregister_directory(catalog: Catalog, table: lookup.FoundTable, directory: str) -> None:
    """The mark comes first: without it, removing the row would leave the table visible as a directory."""
    change = RemoveTable(table.identifier, directory, "deregister")
    doing, hidden = change.doing, hide(catalog, directory, "deregister")
    with shown_again_on_failure(hidden, table.entry is not None):
        table = lookup.look_again(catalog, table, doing)
    with shown_again_on_failure(hidden, table.entry is not None):
        if table.entry is not None:
            manifest_commits.apply(catalog.manifest, change, partial(hidden.check, doing))
            hidden.keep()  # the mark of a process that tried to drop it would get it collected
        elif not hidden.mine or hidden.is_alone():
            raise refusal(errors.NotFound, doing, "another process dropped or deregistered it")


@dataclass(frozen=True)
class Registration:
    """A directory that can be registered, given its current state and the catalog's."""

    catalog: Catalog
    change: AddTable


def plan_registration(
    catalog: Catalog, name: Name, location: str | None = None, properties: Mapping[str, str] | None = None
) -> Registration:
    """Choose the directory of the table. Changes nothing.

    ``location`` is the directory's path, relative to the catalog's root, or its full URI. By default it is
    ``<name>.lance`` for a name in the root, or the only directory ``<hash>_<id>`` that no other table has. Raises
    InvalidName, InvalidOption for a directory outside the catalog, NotFound if there is no table, AlreadyExists for
    a name or a directory that is taken.
    """
    new = lookup.new_table(catalog, name, properties, "register")
    if catalog.service is not None:
        if location is None:
            why = "the service does not say which datasets are below it"
            raise refusal(errors.InvalidOption, new.doing, why, hint="Give the location of the dataset.")
        return Registration(catalog, AddTable(new.identifier, location, new.properties, "register"))
    choose = _unmarked_directory if catalog.reads_manifest else _marked_directory
    change = AddTable(new.identifier, choose(catalog, new.identifier, location, new.doing), new.properties, "register")
    _staying(catalog, change.location, new.doing)
    if catalog.reads_manifest:
        manifest_commits.decide(catalog.manifest, change)
    return Registration(catalog, change)


def register(plan: Registration) -> TableInfo:
    """Register the directory of a table. Removes a mark that the table is deregistered."""
    catalog, change, doing = plan.catalog, plan.change, plan.change.doing
    if catalog.service is not None:
        told = services.register(catalog, change.identifier, change.location, change.properties, doing)
        found = lookup.FoundTable(change.identifier, told.location.uri, None, told=told)
        return lookup.describe(catalog, found)
    if not catalog.reads_manifest:  # in V1 a table has the name of its directory
        _marked_directory(catalog, change.identifier, None, doing)
        directories.remove(catalog.at(change.location), DEREGISTERED)
        return lookup.describe(catalog, lookup.FoundTable(change.identifier, change.location, None))
    _staying(catalog, change.location, doing)
    manifest_commits.apply(catalog.manifest, change)
    try:  # another process may have dropped it, or begun to, before the row existed
        _check_table(catalog, change.location, doing)
        mark = _staying(catalog, change.location, doing)
    except errors.NotFound:
        with suppress(errors.NotFound, errors.Conflict):
            manifest_commits.apply(catalog.manifest, RemoveTable(change.identifier, change.location, "withdraw"))
        raise
    if mark is not None and is_named(catalog, change.location):  # not if a process has deregistered it since
        directories.remove_if(catalog.at(change.location), DEREGISTERED, mark)
    return lookup.describe(catalog, lookup.FoundTable(change.identifier, change.location, change.entry))


def register_table(
    catalog: Catalog, name: Name, location: str | None = None, properties: Mapping[str, str] | None = None
) -> TableInfo:
    return register(plan_registration(catalog, name, location, properties))


def _unmarked_directory(catalog: Catalog, identifier: Identifier, location: str | None, doing: str) -> str:
    """The directory of a table that gets a row, relative to the root."""
    path = _guessed(catalog, identifier, doing) if location is None else _inside(catalog, location, doing)
    _check_table(catalog, path, doing)
    rows = read_rows(catalog.manifest, RowFilter((identifier.object_id,), locations=(v1_directory(identifier),)))
    if path != v1_directory(identifier) and not lookup.check_no_directory(catalog, rows, identifier):
        raise refusal(errors.AlreadyExists, doing, "a table of that name already exists")
    return path


def _marked_directory(catalog: Catalog, identifier: Identifier, location: str | None, doing: str) -> str:
    """The directory of a table of V1 that is deregistered."""
    path = v1_directory(identifier)
    _check_spelling(catalog, path, doing)
    if location is not None and _inside(catalog, location, doing) != path:
        raise refusal(errors.InvalidOption, doing, f"in a catalog of directories (V1) its directory must be '{path}'")
    state = look_at(catalog.root, path)
    if state.is_table:
        raise refusal(errors.AlreadyExists, doing, "it is already registered")
    if not state.deregistered:
        raise refusal(errors.NotFound, doing, f"there is no table at '{path}'")
    return path


def _staying(catalog: Catalog, path: str, doing: str) -> bytes | None:
    """The mark in a directory. Raises NotFound if a process is about to delete it: its row would point to nothing."""
    mark = directories.content_of(catalog.at(path), DEREGISTERED)
    if is_leaving(read_mark(mark)):
        raise lookup.being_taken(doing)
    return mark


def _inside(catalog: Catalog, location: str, doing: str) -> str:
    """The path of a location relative to the root, without percent-encoding."""
    path = location.rstrip("/")
    if "://" in location or location.startswith(("/", "file:")):
        whole = locate(location, catalog.root.storage_options).uri
        if not whole.startswith(f"{catalog.uri}/"):
            raise refusal(
                errors.InvalidOption,
                doing,
                f"{whole} is not inside the catalog {catalog.uri}",
                hint="A catalog has its tables below its root: move or copy the dataset there first.",
            )
        path = whole[len(catalog.uri) + 1 :]
        path = path if catalog.root.is_local else unquote(path)
    try:
        check_inside(path)
    except errors.CorruptData:
        raise refusal(
            errors.InvalidOption,
            doing,
            f"'{location}' is not a path below the catalog",
            hint="Give the table's directory, relative to the catalog's root.",
        ) from None
    return path


def _check_table(catalog: Catalog, path: str, doing: str) -> None:
    _check_spelling(catalog, path, doing)
    names = files.list_names(catalog.at(path), "")
    if RESERVED not in names and VERSIONS not in names:
        raise refusal(
            errors.NotFound, doing, f"there is no table at '{path}'", hint="Give the directory of a Lance dataset."
        )


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
        raise refusal(errors.NotFound, doing, "no directory has a matching name", hint="Give the table's location.")
    raise refusal(
        errors.InvalidOption, doing, f"{len(free)} directories match", hint=f"Give one: {', '.join(sorted(free))}."
    )


# --- Writing a table of a catalog
# A new table is declared, written and committed, or withdrawn.


@dataclass(frozen=True)
class TableClaim:
    """A table that gets its first rows from a write. The write declares it, or joins an earlier declaration."""

    catalog: Catalog
    location: DatasetLocation | None
    """None for a new table of a service, which says it once the name is taken."""
    table: TablePlan | lookup.FoundTable
    must_be_new: bool
    held: Declaration | None = None
    """None until the name is taken."""
    branch: str | None = None
    """The table's branch, for a write on a branch of the lake to a table that has data."""
    start: PinnedVersion | None = None
    """The version that such a branch begins with; None if it exists already."""

    def begin_branch(self) -> PinnedVersion:
        """Create that branch, unless another job just did; returns the version of it with which the write starts."""
        doing = f"write table '{self.table.identifier}'"
        branch = table_branch(self.catalog, self.table.identifier, doing)
        assert self.start is not None
        assert self.location is not None
        try:
            return pin_version(self.location, branch, self.start.version)
        except errors.NotFound:  # another job made the first change at the same time, from a newer version
            hint = "Run it again."
            raise refusal(errors.Conflict, doing, "another job changed it at the same time", hint) from None

    def take(self) -> TableClaim | None:
        """Declare the table, unless it is declared. None for a declared one that could be another of the same name."""
        if isinstance(self.table, lookup.FoundTable):
            held = self._joined(self.table)
            return None if held is None else replace(self, held=held)
        with _taken_in_between(self.catalog, self.table.identifier, self.must_be_new):
            held = declare(self.table)
            return replace(self, held=held, location=held.location)

    def _joined(self, table: lookup.FoundTable) -> Declaration | None:
        assert self.location is not None
        if self.catalog.service is not None:
            return Declaration(table.identifier, self.location, self.location.uri, "")
        holder = directories.content_of(self.location, RESERVED)
        if holder is None or table.path is None or (table.entry is None and self.catalog.reads_manifest):
            return None
        return Declaration(table.identifier, self.location, table.path, holder.decode(errors="replace"))

    def confirm(self) -> None:
        """Raise Conflict if the table was dropped, deregistered or renamed since."""
        if self.held is not None:
            confirm(self.catalog, self.held)

    def check_place(self) -> None:
        """Raise Conflict if a service says now that the table is elsewhere: nobody would find the rows by its name.

        A name that is gone may have been renamed, and a service that does not answer ends no job of hours.
        """
        if self.catalog.service is None or self.location is None:
            return
        identifier = self.table.identifier
        try:
            now = services.find(self.catalog, identifier, f"write table '{identifier}'").location.uri
        except errors.LanceSparkError:
            return
        if now != self.location.uri:
            why = f"the catalog says that it is at {now}, and said {self.location.uri} when the write began"
            hint = "It was replaced, or moved. Nothing was written. Run it again."
            raise refusal(errors.Conflict, f"write table '{identifier}'", why, hint)

    def withdraw(self) -> None:
        """Release the name, if this write declared it."""
        if self.held is not None and isinstance(self.table, TablePlan):
            withdraw(self.catalog, self.held)


def claim_table(table: NamedTable, options: WriteOptions) -> TableClaim:
    """The target of a write, with its location, and whether it exists or must be declared. Changes nothing.

    Raises InvalidName, AlreadyExists, Conflict, and NotFound for a missing namespace and for a branch of a new table.
    """
    catalog, identifier = catalog_of(table), identify_table(table.name)
    if catalog.service is None and (catalog.ref is None or catalog.reads_manifest or catalog.ref.kind == TAG):
        manifest_commits.check_may_change(catalog.manifest, f"write table '{identifier}'")
    try:
        known = lookup.find_table(catalog, identifier, f"write table '{identifier}'")
    except errors.NotFound as missing:
        if options.branch not in (None, None if catalog.ref is None else catalog.ref.table_branch):
            raise errors.NotFound(
                missing.message, hint=missing.hint or "Write the table first; a new one has only main."
            ) from None
        with _taken_in_between(catalog, identifier, options.create_table):
            plan = plan_table(catalog, identifier)
        return TableClaim(catalog, plan.location, plan, options.create_table)
    if known.entry is not None and catalog.ref is None:
        check_ours(manifest_commits.root_properties(catalog.manifest), f"write table '{identifier}'")
    location = lookup.located(catalog, known)
    if options.create_table:
        raise _exists(identifier, location)
    if catalog.ref is not None:
        return _claim_on(catalog, catalog.ref, known, options)
    return TableClaim(catalog, location, known, must_be_new=False)


def _claim_on(catalog: Catalog, ref: LakeRef, known: lookup.FoundTable, options: WriteOptions) -> TableClaim:
    """A table on a branch of the lake: the write goes to the table's branch, which it may have to create first."""
    here = ref.table_branch if catalog.reads_manifest else ref.name
    own = options.branch in (None, here) and options.create_from is None
    location, spec = lookup.located(catalog, known), lookup.spec_at(catalog, ref, known, own)
    claim = TableClaim(catalog, location, known, must_be_new=False)
    new = known.entry is not None and known.entry.pin is not None and known.entry.pin.new
    if spec.begins is not None and not spec.begins.version and find_latest(location, None) is None:
        if new:
            return claim  # its first rows go to its main, which nobody else knows
        raise refusal(
            errors.Refused,
            f"write table '{known.identifier}'",
            f"it has no data yet, and branch '{ref.name}' of the lake did not create it",
            hint="Write its first rows to main.",
        )
    start = resolve(location, spec)
    return replace(claim, branch=spec.branch, start=start if start.branch is None else None)


@contextmanager
def _taken_in_between(catalog: Catalog, identifier: Identifier, must_be_new: bool) -> Iterator[None]:
    """For a write that accepts any table, one that another process has just created is a conflict: run it again."""
    try:
        yield
    except errors.AlreadyExists as taken:
        if not must_be_new and lookup.table_exists(catalog, identifier):
            raise errors.Conflict(taken.message, hint="Run it again: it will write to that table.") from None
        raise


def _exists(identifier: Identifier, location: DatasetLocation) -> errors.LanceSparkError:
    hint = "Use the mode append or overwrite."
    if not files.list_names(location, VERSIONS):
        hint = "It has no data: a job is writing it, or was killed at it. Append to it, or drop it."
    return refusal(errors.AlreadyExists, f"create table '{identifier}'", "a table of that name already exists", hint)


# --- Properties of tables and namespaces


@dataclass(frozen=True)
class Alteration:
    """New properties for a table or a namespace, given its current state."""

    catalog: Catalog
    change: AlterProperties
    before: dict[str, str]

    @property
    def after(self) -> dict[str, str]:
        return self.change.after(self.before)


def plan_alteration(
    catalog: Catalog, kind: str, name: Name, put: Mapping[str, str] | None = None, unset: str | Sequence[str] = ()
) -> Alteration:
    """Set and remove properties of a ``table`` or a ``namespace``, or of the root. Changes nothing.

    Raises NotFound, InvalidOption, and Refused for a table that is only a directory.
    """
    identifier = identify_table(name) if kind == TABLE else identify_namespace(name)
    change = AlterProperties(identifier, kind, check_properties(put), names_of(unset))
    if catalog.service is not None:
        raise services.lacks(catalog, f"that changes the properties of a {kind}", change.doing)
    lookup.need_manifest(catalog, change.doing)
    if kind != TABLE:
        return Alteration(catalog, change, lookup.describe_namespace(catalog, identifier).properties)
    entry = lookup.find_table(catalog, identifier, change.doing).entry
    if entry is None:
        raise refusal(
            errors.Refused, change.doing, "a directory has no properties", hint="Register it, or migrate the catalog."
        )
    return Alteration(catalog, change, entry.properties)


def alter(plan: Alteration) -> None:
    """Execute the plan. Properties that another process set meanwhile stay, unless they are the same ones."""
    location, change = plan.catalog.manifest, plan.change
    if change.identifier.is_root:
        manifest_commits.alter_root_properties(location, dict(change.put), tuple(change.unset))
    else:
        manifest_commits.apply(location, change)


def alter_table(
    catalog: Catalog, name: Name, put: Mapping[str, str] | None = None, unset: str | Sequence[str] = ()
) -> TableInfo:
    given, removed = dict(put or {}), (unset,) if isinstance(unset, str) else tuple(unset)
    told = obeyed(given, removed)
    alter(plan_alteration(catalog, TABLE, name, put, unset))
    if told:
        table = lookup.find_table(catalog, identify_table(name), "alter the table")
        tell_dataset(lookup.located(catalog, table), told)
    return lookup.describe_table(catalog, name)


def tell_dataset(location: DatasetLocation, told: Mapping[str, str | None]) -> None:
    """Write properties that writers obey into the metadata of main, where they look that know no catalog."""
    if find_latest(location, None) is not None:
        change_table_metadata(location, None, told)


def alter_namespace(
    catalog: Catalog, name: Name, put: Mapping[str, str] | None = None, unset: str | Sequence[str] = ()
) -> NamespaceInfo:
    alter(plan_alteration(catalog, NAMESPACE, name, put, unset))
    return lookup.describe_namespace(catalog, name)
