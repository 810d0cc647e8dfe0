"""Finding tables and namespaces in a catalog, listing them, and reading names with refs.

A catalog and a name come in. Locations, descriptions and pages come out; errors suggest similar names.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from heapq import merge

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark import hints
from lance_spark.catalog import directories, manifest_commits, published, services
from lance_spark.catalog.directories import list_root, look, look_at
from lance_spark.catalog.entry_rules import (
    DEREGISTERED,
    LOCATION,
    OBJECT_ID,
    OBJECT_TYPE,
    VERSIONS,
    AddNamespace,
    DirectoryState,
    Entry,
    Reading,
    RowFilter,
    Rows,
    below,
    check_properties,
    find_namespace,
    is_leaving,
    metadata_reading,
    missing_table,
    no_rows,
    quoted,
    read_mark,
    readings,
    refusal,
    v1_directory,
    v1_name,
)
from lance_spark.catalog.lake_rules import BRANCH, PUBLISHED, TAG, LakePublished, LakeRef
from lance_spark.catalog.manifest_commits import CatalogVersion, read, read_rows
from lance_spark.catalog.name_rules import (
    DELIMITER,
    NAMESPACE,
    TABLE,
    Catalog,
    Identifier,
    Mode,
    Name,
    NamespaceInfo,
    Page,
    TableInfo,
    check_new,
    identify_namespace,
    identify_table,
    split_name,
)
from lance_spark.catalog.others_rules import read_pin
from lance_spark.core.location import DatasetLocation
from lance_spark.core.ref_expressions import DEFAULT, MARK, TypedRef, combine
from lance_spark.core.ref_names import missing_version
from lance_spark.core.refs import Beginning, PinnedVersion, RefSpec
from lance_spark.core.services import OWN, Service
from lance_spark.core.storage_options import PREFIX
from lance_spark.errors import (
    AlreadyExists,
    CorruptData,
    InvalidName,
    InvalidOption,
    LanceSparkError,
    NotFound,
    Refused,
)
from lance_spark.storage import files, refs
from lance_spark.storage.datasets import find_latest, pin_version
from lance_spark.storage.resolving import Candidate, choose, find_spec, is_directory, locate_catalog, resolve


def open_catalog(uri: str, storage_options: Mapping[str, str] | None = None, mode: Mode = "compatibility") -> Catalog:
    """The catalog in a directory. Sends no request, and creates nothing before the first write.

    Raises InvalidOption for a URI that cannot hold a catalog.
    """
    catalog = Catalog(locate_catalog(uri, storage_options), mode)
    return catalog if catalog.service is None else replace(catalog, mode="v2")


def open_service(
    impl: str, properties: Mapping[str, object] | None = None, storage_options: Mapping[str, str] | None = None
) -> Catalog:
    """The catalog of a service; ``dir`` is a directory, its property ``root``. Sends no request.

    Raises InvalidOption for a name that no implementation can have, and for ``dir`` without a root.
    """
    if impl != OWN:
        return Catalog(Service.of(impl, properties).root(storage_options), "v2")
    given = dict(Service.of(impl, properties).properties)
    root = given.pop("root", None)
    if root is None:
        raise InvalidOption("A catalog of directories needs the property 'root'.", hint="properties={'root': '...'}")
    storage = {key: value for key, value in given.items() if key.startswith(PREFIX)}
    return open_catalog(root, {**storage, **(storage_options or {})})


def check_root(catalog: Catalog) -> None:
    """Raise NotFound if a local catalog's directory does not exist: a misspelled one must not look empty.

    Object stores have no directories, only files.
    """
    if catalog.service is None and catalog.root.is_local and not is_directory(catalog.uri):
        raise NotFound(
            f"There is no directory {catalog.uri}.",
            hint=hints.of("Check the catalog's path", hints.CATALOG_ROOT, "; the first table or namespace creates it."),
        )


def need_manifest(catalog: Catalog, doing: str) -> None:
    """Raise Refused for operations that V1 does not support."""
    if not catalog.reads_manifest:
        raise refusal(
            Refused, doing, "a catalog of directories (V1) does not support it", hint="Open it in compatibility mode."
        )


# --- Finding a table: first in ``__manifest``, then as a directory (specification "Compatibility Mode")


@dataclass(frozen=True)
class FoundTable:
    identifier: Identifier
    path: str | None
    """Its directory, relative to the root; None if another tool wrote a row without one."""
    entry: Entry | None
    """Its row; None for a table that is a directory only."""
    state: DirectoryState | None = None
    """The directory's contents; None if there is a row: then the directory is not looked at."""
    pin: RefSpec = field(default_factory=RefSpec)
    """What a partitioned root means of it; the default for all others."""
    told: services.ServiceTable | None = None
    """What a service tells of it; None in a directory."""

    @property
    def properties(self) -> dict[str, str]:
        """Its properties; directories have none."""
        if self.told is not None:
            return self.told.properties
        return {} if self.entry is None else self.entry.properties

    @property
    def was_deregistered(self) -> bool:
        """Whether the directory had the mark when it was looked at."""
        return self.state is not None and self.state.deregistered


def locate_table(catalog: Catalog, name: Name) -> DatasetLocation:
    """Where a table's data is. Raises InvalidName, NotFound.

    Reads ``__manifest`` once; does not check whether there is any data.
    """
    identifier = identify_table(name)
    return located(catalog, find_table(catalog, identifier, f"open table '{identifier}'"))


def table_exists(catalog: Catalog, name: Name) -> bool:
    """Whether the table exists, with data or only declared. Raises InvalidName."""
    identifier = identify_table(name)
    try:
        find_table(catalog, identifier, f"look for table '{identifier}'")
    except NotFound:
        return False
    return True


def describe_table(catalog: Catalog, name: Name) -> TableInfo:
    """A table's location and properties. Raises InvalidName, NotFound."""
    identifier = identify_table(name)
    return describe(catalog, find_table(catalog, identifier, f"describe table '{identifier}'"))


def describe(catalog: Catalog, table: FoundTable) -> TableInfo:
    location = located(catalog, table) if table.told is None else table.told.location
    pin = None if catalog.ref is None or table.entry is None else table.entry.pin
    # Of a table with a pin, the directory may have versions that are younger than the pin.
    declared = not files.list_names(location, VERSIONS) if pin is None or pin.new else not pin.has_data
    registered = table.entry is not None or table.told is not None
    return TableInfo(table.identifier, location, table.path or "", table.properties, registered, declared)


def located(catalog: Catalog, table: FoundTable) -> DatasetLocation:
    """The location of a table that was found.

    Raises CorruptData for a row without a location.
    """
    if table.told is not None:
        return table.told.location
    if table.path is None:
        raise CorruptData(
            f"The row of table '{table.identifier}' in the catalog has no location.",
            hint="Drop the table, and register its directory again.",
        )
    return catalog.at(table.path)


def find_table(catalog: Catalog, identifier: Identifier, doing: str, deregistered: bool = False) -> FoundTable:
    """A table by its name; with ``deregistered`` also one that is only a directory marked as deregistered.

    Raises NotFound, and Refused for a namespace in V1.
    """
    if catalog.service is not None:
        told = services.find(catalog, identifier, doing)
        return FoundTable(identifier, told.location.uri, None, told=told)
    if not identifier.in_root:
        need_manifest(catalog, doing)
    directory = v1_directory(identifier) if catalog.reads_directories and identifier.in_root else None
    rows = no_rows()
    # Looking for a row that names the directory comes last: locations have no index.
    asked: tuple[tuple[str, ...], ...] = ((),) if directory is None else ((), (directory,))
    for locations in asked if catalog.reads_manifest else ():
        rows = read_rows(catalog.manifest, RowFilter((identifier.object_id,), locations=locations))
        entry = rows.find(identifier.object_id)
        if entry is not None and entry.is_table:
            return FoundTable(identifier, entry.location, entry, pin=read_pin(rows.table, entry.object_id))
    if directory is None:
        raise missing_table(rows, identifier, doing)
    table = _find_directory(catalog, rows, identifier, doing)
    if table.was_deregistered and not deregistered:
        raise refusal(NotFound, doing, "it is deregistered", hint="Register it again.")
    return table


def _find_directory(catalog: Catalog, rows: Rows, identifier: Identifier, doing: str) -> FoundTable:
    directory = v1_directory(identifier)
    if claimed := rows.at(directory):
        raise _claimed(claimed[0], doing)
    if rows.find(identifier.object_id) is not None:  # a namespace: entries of the manifest come first
        raise missing_table(rows, identifier, doing)
    state = look_at(catalog.root, directory)
    if not state.has_files:
        raise missing_table(rows, identifier, doing)
    if state.deregistered and is_leaving(read_mark(directories.content_of(catalog.at(directory), DEREGISTERED))):
        raise being_taken(doing)
    return FoundTable(identifier, directory, None, state)


def being_taken(doing: str) -> LanceSparkError:
    """NotFound for a directory that another process has marked, to drop or rename it."""
    return refusal(
        NotFound,
        doing,
        "another process is dropping or renaming it",
        hint="If that was interrupted: the job for orphans removes the remains of a drop, and the doctor restores a "
        "table whose rename was interrupted.",
    )


def _claimed(entry: Entry, doing: str) -> LanceSparkError:
    return refusal(
        NotFound, doing, "there is no such table", hint=f"Its directory now belongs to table '{entry.identifier}'."
    )


def look_again(catalog: Catalog, table: FoundTable, doing: str) -> FoundTable:
    """A table that was only a directory, looked up after marking it: with its row, if it just got one.

    Once marked, no process gives the directory a row. Raises NotFound if it now belongs to another table.
    """
    if table.entry is not None or not catalog.reads_manifest or table.path is None:
        return table
    claimed = read_rows(catalog.manifest, RowFilter(locations=(table.path,))).at(table.path)
    if not claimed:
        return table
    if claimed[0].object_id != table.identifier.object_id or not claimed[0].is_table:
        raise _claimed(claimed[0], doing)
    return FoundTable(table.identifier, table.path, claimed[0], table.state)


# --- Checking names for new tables and namespaces


@dataclass(frozen=True)
class NewTable:
    identifier: Identifier
    properties: dict[str, str]
    doing: str


def new_table(catalog: Catalog, name: Name, properties: Mapping[str, str] | None, verb: str) -> NewTable:
    """Raises InvalidName, InvalidOption for bad properties, and Refused for anything V1 cannot store."""
    identifier = identify_table(name)
    check_new(identifier, TABLE)
    given = check_properties(properties)
    doing = f"{verb} table '{identifier}'"
    if catalog.service is not None:
        return NewTable(identifier, given, doing)
    manifest_commits.check_may_change(catalog.manifest, doing)
    if given or not identifier.in_root:
        need_manifest(catalog, doing)
    return NewTable(identifier, given, doing)


def check_no_table(catalog: Catalog, identifier: Identifier, doing: str) -> None:
    """Raise AlreadyExists if a directory already has the new name."""
    if not catalog.reads_directories or not identifier.in_root:
        return
    rows = read_rows(catalog.manifest, RowFilter((identifier.object_id,), locations=(v1_directory(identifier),)))
    if rows.find(identifier.object_id) is None and not check_no_directory(catalog, rows, identifier):
        raise refusal(AlreadyExists, doing, "a table of that name already exists")


def check_no_directory(catalog: Catalog, rows: Rows, identifier: Identifier) -> bool:
    """Whether no directory by itself has the new name. Otherwise V1 would show two things of one name."""
    if not catalog.reads_directories or not identifier.in_root:
        return True
    directory = v1_directory(identifier)
    return bool(rows.at(directory)) or not look_at(catalog.root, directory).is_table


# --- Creating and describing namespaces


def create_namespace(
    catalog: Catalog, name: Name, properties: Mapping[str, str] | None = None, exist_ok: bool = False
) -> bool:
    """Create a namespace; False if it exists and ``exist_ok``: then it keeps its properties.

    Raises InvalidName, AlreadyExists (also for a table of that name), NotFound for a missing parent.
    """
    try:
        change = plan_namespace(catalog, name, properties)
        if catalog.service is not None:
            services.create_namespace(catalog, change.identifier, change.properties, change.doing)
        else:
            manifest_commits.apply(catalog.manifest, change)
    except AlreadyExists:
        if exist_ok and namespace_exists(catalog, name):
            return False
        raise
    return True


def plan_namespace(catalog: Catalog, name: Name, properties: Mapping[str, str] | None = None) -> AddNamespace:
    """The change that creates a namespace. Commits nothing. Raises the errors of :func:`create_namespace`."""
    identifier = identify_namespace(name)
    check_new(identifier, NAMESPACE)
    change = AddNamespace(identifier, check_properties(properties))
    need_manifest(catalog, change.doing)
    if identifier.is_root:
        raise refusal(AlreadyExists, change.doing, "the root always exists")
    if catalog.service is None:
        check_no_table(catalog, identifier, change.doing)
        manifest_commits.decide(catalog.manifest, change)
    return change


def namespace_exists(catalog: Catalog, name: Name) -> bool:
    """Whether the namespace exists; the root always does. Raises InvalidName."""
    try:
        describe_namespace(catalog, name)
    except NotFound:
        return False
    return True


def describe_namespace(catalog: Catalog, name: Name) -> NamespaceInfo:
    """A namespace's properties; those of the root are in the metadata of ``__manifest``. Raises NotFound."""
    identifier = identify_namespace(name)
    doing = f"describe namespace '{identifier}'"
    if catalog.service is not None:
        return NamespaceInfo(identifier, services.namespace_properties(catalog, identifier, doing))
    if identifier.is_root:
        properties = manifest_commits.root_properties(catalog.manifest) if catalog.reads_manifest else {}
        return NamespaceInfo(identifier, properties)
    need_manifest(catalog, doing)
    rows = read_rows(catalog.manifest, RowFilter(ids=(identifier.object_id,)))
    return NamespaceInfo(identifier, find_namespace(rows, identifier, doing).properties)


# --- Listing namespaces and tables, page by page

_COLUMNS = (OBJECT_ID, OBJECT_TYPE, LOCATION)
# Not schema.empty_table(), which imports pandas: half a second of each command.
_NOTHING = pa.Table.from_batches([], pa.schema([(name, pa.string()) for name in _COLUMNS]))
_AT_ONCE = 256
"""How many directories to look at for one page before it is known which of them are tables."""


def list_tables(
    catalog: Catalog,
    namespace: Name = "",
    recursive: bool = False,
    limit: int | None = None,
    page_token: str | None = None,
) -> Page:
    """The tables in a namespace, with ``recursive`` also those in nested namespaces; in the order of their ids' bytes.

    In compatibility mode, directories in the root that no row names are also tables. Raises NotFound if the namespace
    does not exist, InvalidOption for a limit below 1.
    """
    within = identify_namespace(namespace)
    if catalog.service is not None:
        doing = f"list the tables of '{within}'"
        return _page_of(services.list_tables(catalog, within, recursive, doing), page_token, limit)
    rows = _rows(catalog, within, f"list the tables of '{within}'", limit)
    ids = _ids(rows, TABLE, within, recursive)
    if within.is_root and catalog.reads_directories:
        return _with_directories(catalog, rows, ids, page_token, limit)
    return _page(ids, page_token, limit)


def list_namespaces(
    catalog: Catalog,
    parent: Name = "",
    recursive: bool = False,
    limit: int | None = None,
    page_token: str | None = None,
) -> Page:
    """The namespaces in a namespace, or also nested ones. V1 has none. Raises the errors of :func:`list_tables`."""
    within = identify_namespace(parent)
    if catalog.service is not None:
        doing = f"list the namespaces of '{within}'"
        return _page_of(services.list_namespaces(catalog, within, recursive, doing), page_token, limit)
    rows = _rows(catalog, within, f"list the namespaces of '{within}'", limit)
    return _page(_ids(rows, NAMESPACE, within, recursive), page_token, limit)


def _page_of(identifiers: Sequence[Identifier], token: str | None, limit: int | None) -> Page:
    _check_limit(limit)
    return _page(pa.chunked_array([pa.array([each.object_id for each in identifiers], pa.string())]), token, limit)


def _check_limit(limit: int | None) -> None:
    if limit is not None and limit < 1:
        raise InvalidOption(f"limit must be 1 or more, not {limit}.", hint="Omit it to list everything.")


def _rows(catalog: Catalog, within: Identifier, doing: str, limit: int | None) -> pa.Table:
    """Ids, types and locations of everything in a namespace, at any depth. Raises the errors of :func:`list_tables`."""
    _check_limit(limit)
    if not within.is_root:
        need_manifest(catalog, doing)
    if not catalog.reads_manifest:
        return _NOTHING
    predicate = None
    if not within.is_root:
        predicate = f"{OBJECT_ID} = {quoted(within.object_id)} OR {below(within.object_id)}"

    def question(snapshot: CatalogVersion) -> pa.Table:
        return snapshot.columns(_COLUMNS if catalog.reads_directories else _COLUMNS[:2], predicate)

    rows = read(catalog.manifest, question, _NOTHING)
    there = pc.and_(pc.equal(rows[OBJECT_ID], within.object_id), pc.equal(rows[OBJECT_TYPE], NAMESPACE))
    if not within.is_root and not pc.any(there).as_py():
        raise refusal(NotFound, doing, "there is no such namespace")
    return rows


def _ids(rows: pa.Table, kind: str, within: Identifier, recursive: bool) -> pa.ChunkedArray:
    """Ids of the rows of a type in a namespace."""
    chosen = pc.equal(rows[OBJECT_TYPE], kind)
    depth = pc.count_substring(rows[OBJECT_ID], DELIMITER)
    within_depth = len(within.parts)
    deep_enough = pc.greater_equal(depth, within_depth) if recursive else pc.equal(depth, within_depth)
    return rows[OBJECT_ID].filter(pc.and_(chosen, deep_enough))


def _page(ids: pa.ChunkedArray, token: str | None, limit: int | None) -> Page:
    if token is not None:
        ids = ids.filter(pc.greater(ids, token))
    if limit is not None and len(ids) > limit:
        ids = sorted(ids.take(pc.select_k_unstable(ids, limit, [("id", "ascending")])).to_pylist())
        return Page(tuple(ids), ids[-1])
    return Page(tuple(sorted(ids.to_pylist())))


def _with_directories(
    catalog: Catalog, rows: pa.Table, registered: pa.ChunkedArray, token: str | None, limit: int | None
) -> Page:
    """Rows and directories, merged by name. A directory that a row names, under any id, belongs only to that row."""
    taken = {*rows[OBJECT_ID].to_pylist()}
    claimed = set(rows[LOCATION].to_pylist())
    directories, _ = list_root(catalog.root)
    names = [name for directory in directories if directory not in claimed and (name := v1_name(directory)) is not None]
    unnamed = _after([name for name in names if name not in taken and DELIMITER not in name], token)
    ids: list[str] = []
    for name in merge(_after(registered.to_pylist(), token), _existing(catalog, unnamed, limit)):
        if limit is not None and len(ids) == limit:
            return Page(tuple(ids), ids[-1])
        ids.append(name)
    return Page(tuple(ids))


def _after(names: Sequence[str], token: str | None) -> list[str]:
    return sorted(name for name in names if token is None or name > token)


def _existing(catalog: Catalog, names: Sequence[str], limit: int | None) -> Iterator[str]:
    """The names whose directories are tables. For a page, looks at only as many as needed."""
    size = len(names) if limit is None else max(limit + 1, _AT_ONCE)
    for start in range(0, len(names), max(size, 1)):
        part = names[start : start + size]
        states = look(catalog.root, [f"{name}.lance" for name in part])
        yield from (name for name in part if states[f"{name}.lance"].is_table)


# --- Opening a table of a catalog by name and ref, with errors that name the catalog

_NEAR = 1000
"""How many tables are searched for a misspelled name."""


def open_table(catalog: Catalog, name: Name, spec: RefSpec) -> tuple[DatasetLocation, PinnedVersion]:
    """A table's location, and the version to which a ref currently points.

    Raises InvalidName, and NotFound for an unknown table, one that has no data yet, and an unknown branch, tag or
    version.
    """
    location, _, pin = _open(catalog, name, spec)
    return location, pin


def find_open_table(catalog: Catalog, name: Name, spec: RefSpec) -> tuple[DatasetLocation, RefSpec]:
    """A table's location, and the ref itself; on a branch or at a tag of the lake, what that has of the table.

    Raises as :func:`open_table`.
    """
    location, there, _ = _open(catalog, name, spec)
    return location, there


def _open(catalog: Catalog, name: Name, spec: RefSpec) -> tuple[DatasetLocation, RefSpec, PinnedVersion]:
    identifier = identify_table(name)
    try:
        table = find_table(catalog, identifier, f"open table '{identifier}'")
    except NotFound as missing:
        raise NotFound(missing.message, hint=missing.hint or _hint(catalog, identifier)) from None
    location = located(catalog, table)
    if catalog.ref is not None:
        version = spec.version if _only_version(catalog.ref, spec) else None
        own = version is not None or spec in (RefSpec(), RefSpec(branch=catalog.ref.table_branch))
        spec = _at_version(spec_at(catalog, catalog.ref, table, own), version, table)
    elif spec == RefSpec():
        spec = table.pin
    try:
        return location, spec, resolve(location, spec)
    except NotFound:
        if files.list_names(location, VERSIONS):
            raise
    raise refusal(
        NotFound,
        f"open table '{identifier}'",
        "it has no data yet, only its name was taken",
        hint="A later publish may have dropped it: check out again."
        if isinstance(catalog.ref, LakePublished)
        else f"A job is writing it, or was killed at it. Append to it, or drop it. The catalog is {catalog.uri}.",
    )


_HAS = {BRANCH: "one branch", TAG: "one version", PUBLISHED: "one version"}


def _only_version(ref: LakeRef, asked: RefSpec | TypedRef) -> bool:
    """Whether a version was asked for, and nothing else, where tables have several."""
    return ref.kind == BRANCH and not ref.temporary and asked == type(asked)(version=asked.version)


def _at_version(spec: RefSpec, version: int | None, table: FoundTable) -> RefSpec:
    """An earlier version of what a branch of the lake has of a table. Raises NotFound for a later one of main.

    Those from before the table's branch began are main's, before the first change and after it.
    """
    if version is None:
        return spec
    begins, pin = spec.begins, None if table.entry is None else table.entry.pin
    if begins is None:
        return RefSpec(version=version) if pin is not None and version < pin.version else replace(spec, version=version)
    if begins.version and version > begins.version:  # main may have it, but the branch does not
        raise missing_version(version, f"{spec.branch}", (begins.version,))
    return RefSpec(version=version)


def spec_at(catalog: Catalog, ref: LakeRef, table: FoundTable, without_ref: bool) -> RefSpec:
    """What a branch or tag of the lake has of a table.

    Raises NotFound for a table that had no data, and Refused if a ref of the table was asked for.
    """
    doing = f"open table '{table.identifier}'"
    if not without_ref:
        raise refusal(
            Refused,
            doing,
            f"the catalog is read at {ref.called}, which has {_HAS[ref.kind]} of each table",
            hint="For other branches, tags and versions of a table, use the catalog itself.",
        )
    if isinstance(ref, LakePublished):
        return _published(catalog, ref, table)
    if not catalog.reads_manifest:
        return RefSpec(branch=ref.name) if ref.kind == BRANCH else RefSpec(tag=ref.name)
    pin = None if table.entry is None else table.entry.pin
    moves = ref.kind == BRANCH and not ref.temporary
    if pin is None and ref.temporary:
        return RefSpec()
    if not (moves if pin is None else pin.has_data):
        raise refusal(NotFound, doing, f"it had no data when {ref.kind} '{ref.name}' of the lake was created")
    if pin is not None and pin.version and not ref.temporary:
        check_same_table(catalog, ref, table.path or "", doing)
    if pin is not None and (not moves or pin.branch is not None):
        return RefSpec(pin.branch, version=None if moves else pin.version)
    version = 0 if pin is None else pin.version
    begins = Beginning(version, catalog.uri, ref.name, ref.id, table.identifier.parts)
    return RefSpec(ref.table_branch, begins=begins)


def check_same_table(catalog: Catalog, ref: LakeRef, directory: str, doing: str) -> None:
    """Raise NotFound for a table that was dropped by force and created again since a ref of the lake pinned it.

    Only a table of the root can get its directory again. Without this check, the ref would read the new table.
    """
    if is_replaced(catalog, ref.pin_tag, directory):
        raise refusal(
            NotFound,
            doing,
            f"what {ref.called} of the lake pinned was dropped by force, and another table is in its directory now",
            hint=hints.of("If you need nothing else of it: ", hints.delete_lake_ref(ref.kind, ref.name), "."),
        )


def is_replaced(catalog: Catalog, pin_tag: str, directory: str) -> bool:
    """Whether a table's directory has lost the tag by which a ref of the lake pins it."""
    return v1_name(directory) is not None and refs.read_tag(catalog.at(directory), pin_tag) is None


def _published(catalog: Catalog, reader: LakePublished, table: FoundTable) -> RefSpec:
    """The version that a reader of complete publishes sees. Raises NotFound if it was cleaned up."""
    location = located(catalog, table)
    newest = find_latest(location, None)  # before the publishes are listed
    if newest is None:
        return RefSpec()
    manifest = replace(catalog, ref=None).manifest
    seen = published.version_seen(manifest, reader, table.path or "", location, newest.version)
    if seen < newest.version:
        try:
            pin_version(location, None, seen)
        except NotFound:
            raise published.cleaned_up(location) from None
    return RefSpec(version=seen)


def _hint(catalog: Catalog, identifier: Identifier) -> str:
    known: list[str] = []
    with suppress(NotFound):
        known = [str(table) for table in list_tables(catalog, identifier.parent, limit=_NEAR)]
    near = difflib.get_close_matches(str(identifier), known, n=3)
    if near:
        return f"Similar names in the catalog {catalog.uri}: {', '.join(near)}."
    within = "" if identifier.in_root else f"namespace '{identifier.parent}' of "
    return f"Searched {within}the catalog {catalog.uri}."


# --- Names with a ref: finding the table and the ref


@dataclass(frozen=True)
class NamedRef:
    """A table of a catalog at a ref, and possibly one of its metadata tables."""

    table: Identifier
    location: DatasetLocation
    spec: RefSpec
    """A branch, which moves; or a tag, version or moment. It existed when the name was read."""
    metadata_table: str | None = None


def read_name(catalog: Catalog, name: Name, travel: TypedRef = DEFAULT) -> NamedRef:
    """The meaning of a name: a table, a table at a ref, or a metadata table of either.

    ``travel`` is the ref of ``VERSION AS OF`` or ``TIMESTAMP AS OF``. A table of exactly that name takes precedence
    over a metadata table. Raises NotFound with similar names, InvalidName, InvalidOption, and Refused if a name means
    both a table and a ref of another one.
    """
    identifier = split_name(name)
    inside = metadata_reading(identifier)
    if inside is not None and not catalog.reads_manifest:  # without namespaces this is the only meaning
        return _metadata_table(catalog, inside, travel, None)
    try:
        return _table_at(catalog, identifier, travel)
    except (NotFound, InvalidName) as missing:  # no namespace can have the name of a table at a ref
        if inside is None:
            raise
        return _metadata_table(catalog, inside, travel, missing)


def _metadata_table(
    catalog: Catalog, inside: tuple[Identifier, str], travel: TypedRef, missing: LanceSparkError | None
) -> NamedRef:
    table, metadata_table = inside
    try:
        found = _table_at(catalog, table, travel)
    except NotFound as absent:
        raise (absent if missing is None or MARK in table.name else missing) from None
    return NamedRef(found.table, found.location, found.spec, metadata_table)


def _table_on(catalog: Catalog, ref: LakeRef, ways: Sequence[Reading], travel: TypedRef) -> NamedRef:
    """The table of exactly that name, on a branch or at a tag of the lake. Raises Refused for a name with a ref."""
    for way in ways:
        try:
            found = find_table(catalog, way.table, f"open table '{way.table}'")
        except NotFound:
            if way is ways[-1]:
                raise
            continue
        typed = combine(way.ref, travel)
        version = typed.version if _only_version(ref, typed) else None
        spec = _at_version(spec_at(catalog, ref, found, version is not None or typed.is_default), version, found)
        return NamedRef(way.table, located(catalog, found), spec)
    raise AssertionError("a name has at least one reading")


def _table_at(catalog: Catalog, identifier: Identifier, travel: TypedRef) -> NamedRef:
    """The only reading of a name that holds."""
    ways = readings(identifier)
    doing = f"open table '{identifier}'"
    if catalog.ref is not None:
        return _table_on(catalog, catalog.ref, ways, travel)
    if len(ways) == 1 and ways[0].ref.is_default:
        found = find_table(catalog, ways[0].table, doing)
        location = located(catalog, found)
        return NamedRef(ways[0].table, location, found.pin if travel.is_default else find_spec(location, travel))
    candidates = []
    for way in ways:
        try:
            found = find_table(catalog, way.table, doing)
        except NotFound:
            continue
        candidates.append(Candidate(way.table.name, located(catalog, found), way.ref))
    if not candidates:
        names = " or ".join(f"'{way.table}'" for way in ways if not way.ref.is_default)
        hint = f"A ref may follow '{MARK}', but there is no table {names}."
        raise refusal(NotFound, doing, "there is no such table", hint)
    chosen, spec = choose(identifier.name, candidates, travel)
    return NamedRef(identifier.parent.child(chosen.name), chosen.location, spec)
