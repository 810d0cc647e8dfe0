"""Spark catalogs: tables below a root or at paths, namespaces, ALTER TABLE, and procedures for ``CALL``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import partial
from typing import Any, ClassVar

import pyarrow as pa

from lance_spark.catalog import lookup, removing, tables
from lance_spark.catalog.name_rules import Catalog
from lance_spark.catalog.overview import metadata_schema, read_metadata_table
from lance_spark.columns.columns import alter_columns
from lance_spark.core.location import DatasetLocation
from lance_spark.core.ref_expressions import DEFAULT, TypedRef, parse_moment, parse_version_text
from lance_spark.core.refs import PinnedVersion, RefSpec
from lance_spark.core.table_options import ReadOptions
from lance_spark.engine.errors_spark import Spoken
from lance_spark.engine.lengths_spark import parsed_json
from lance_spark.engine.session_spark import engine_of
from lance_spark.engine.types_spark import to_arrow
from lance_spark.errors import AlreadyExists, InvalidName, LanceSparkError, NotFound, Refused
from lance_spark.format.column_defaults import settled
from lance_spark.format.evolution import AddColumn, AlterColumn, ColumnChange, DropColumn, RenameColumn
from lance_spark.format.kept_types import kept_of
from lance_spark.jvm import answers, names
from lance_spark.jvm.answers import Answer
from lance_spark.jvm.bridge import Bridge, java_error, plain, spark_error
from lance_spark.jvm.proxies import Implementation
from lance_spark.layout.declaring import change_layout
from lance_spark.layout.layout_rules import IDENTITY, SETTINGS, LayoutChange, Transform
from lance_spark.native.changelogs import Changes, NativeChangelog, read_context
from lance_spark.native.creating import Creating, constraint_of, shown_properties
from lance_spark.native.functions import KeyFunctions
from lance_spark.native.layouts import column_of
from lance_spark.native.places import PathPlaces, Place, Places, RootPlaces, identifier, parts_of, strings
from lance_spark.native.rows import RowsScan, RowsTable
from lance_spark.native.scan import Source
from lance_spark.native.tables import NO_ROW_COLUMNS, DeclaredTable, EvolvingTable, RowColumns, StoredTable
from lance_spark.scan.read import PinnedRead, blob_names
from lance_spark.sql.declaring import Parameter, Procedure, find_procedure
from lance_spark.sql.lake_procedures import SYSTEM_TABLES
from lance_spark.sql.procedures import PROCEDURES
from lance_spark.storage.resolving import resolve
from lance_spark.write.constraints import add_constraint, drop_constraint

# --- Lookups of a statement: each table at one version throughout the statement

Branch = tuple[str, "str | None"]
"""A dataset's URI and the name of one of its branches; None for main."""


@dataclass
class Lookups:
    """The tables that Spark looked up while it analyzed a statement."""

    pins: dict[Branch, PinnedVersion] = field(default_factory=dict)
    """The version of each branch: given beforehand, or from the first lookup."""
    tables: dict[str, StoredTable] = field(default_factory=dict)
    """By their Java texts."""
    named: RowColumns = NO_ROW_COLUMNS
    """The columns about rows that the statement names."""

    def version(self, place: Place, resolve: Callable[[], PinnedVersion]) -> PinnedVersion:
        if not place.is_branch:
            return resolve()
        key = branch_of(place)
        if key not in self.pins:
            self.pins[key] = resolve()
        return self.pins[key]


_lookups: dict[int, Lookups] = {}
"""By Java thread: Spark looks tables up in the thread that analyzes the statement. Python's thread differs."""


@contextmanager
def looking_up(
    bridge: Bridge, pins: dict[Branch, PinnedVersion], named: RowColumns = NO_ROW_COLUMNS
) -> Iterator[Lookups]:
    """Make lookups in this thread use these versions of branches, and record what they find."""
    thread = bridge.thread()
    before, found = _lookups.get(thread), Lookups(dict(pins), named=named)
    _lookups[thread] = found
    try:
        yield found
    finally:
        if before is None:
            _lookups.pop(thread, None)
        else:
            _lookups[thread] = before


def branch_of(place: Place) -> Branch:
    return place.location.uri, place.spec.branch


def with_blobs(read: PinnedRead) -> PinnedRead:
    """The read of a table that is changed: rewritten rows need the bytes of blobs, and new ones bring them."""
    return replace(read, options=replace(read.options, blob_handling="bytes")) if blob_names(read) else read


# --- Namespaces of a catalog with a root

OWNER = "owner"
"""Spark sets it to the session's user for everything that it creates; it is not kept."""


LOCATION = "location"
"""Spark passes SET LOCATION as a property of that name."""


def _cannot_move(what: str) -> Refused:
    return Refused(
        f"Cannot change the location of a {what}: the catalog chooses it. Nothing was moved.",
        hint="To copy a table elsewhere: LanceTable(...).clone(path, 'deep').",
    )


class Namespaces(Implementation):
    """The part of a catalog that is Spark's ``SupportsNamespaces``."""

    catalog: Catalog

    @contextmanager
    def known(self, namespace: Any) -> Iterator[None]:
        """Make Spark report an unknown namespace."""
        try:
            yield
        except (NotFound, InvalidName) as missing:
            raise java_error(self.bridge.new(names.NO_SUCH_NAMESPACE, namespace)) from missing

    def namespace_exists(self, namespace: Any) -> bool:
        try:
            return lookup.namespace_exists(self.catalog, [*namespace])
        except InvalidName:
            return False

    def list_namespaces(self, parent: Any = None) -> Any:
        with self.known(parent):
            children = lookup.list_namespaces(self.catalog, [] if parent is None else [*parent])
        return self.bridge.array("[Ljava.lang.String;", [strings(self.bridge, name.parts) for name in children])

    def load_namespace_metadata(self, namespace: Any) -> Any:
        with self.known(namespace):
            return self.bridge.map(dict(lookup.describe_namespace(self.catalog, [*namespace]).properties))

    def create_namespace(self, namespace: Any, given: Any) -> None:
        """Create one, with properties. Its parent must exist."""
        kept = {key: value for key, value in dict(given).items() if key != OWNER}
        try:
            lookup.create_namespace(self.catalog, [*namespace], kept)
        except AlreadyExists as taken:
            if not self.namespace_exists(namespace):
                raise  # a table has the name
            raise java_error(self.bridge.new(names.NAMESPACE_EXISTS, namespace)) from taken

    def alter_namespace(self, namespace: Any, changes: Any) -> None:
        put, unset = property_changes(changes)
        if LOCATION in {*put, *unset}:
            raise _cannot_move("namespace")
        with self.known(namespace):
            tables.alter_namespace(self.catalog, [*namespace], put, unset)

    def drop_namespace(self, namespace: Any, cascade: bool) -> bool:
        parts = [*namespace]
        with self.known(namespace):
            if not cascade and self._holds_something(parts):
                raise java_error(self.bridge.new(names.NAMESPACE_NOT_EMPTY, namespace))
            removing.drop_namespace(self.catalog, parts, cascade)
        return True

    def _holds_something(self, parts: list[str]) -> bool:
        return bool(lookup.list_tables(self.catalog, parts, limit=1)) or bool(
            lookup.list_namespaces(self.catalog, parts, limit=1)
        )


def property_changes(changes: Any) -> tuple[dict[str, str], list[str]]:
    """The properties to set and to remove, from Spark's changes; others are ignored. The last one counts."""
    put: dict[str, str] = {}
    unset: dict[str, None] = {}
    for change in changes:
        kind = change.getClass().getSimpleName()
        if kind == "SetProperty":
            put[change.property()] = change.value()
            unset.pop(change.property(), None)
        elif kind == "RemoveProperty":
            put.pop(change.property(), None)
            unset[change.property()] = None
    return put, [*unset]


# --- ALTER TABLE: columns and properties

FOR_WRITING = ()
"""In place of privileges."""

_OTHER = "java.lang.UnsupportedOperationException"
"""Spark turns an IllegalArgumentException into its own here, which hides this package's error."""
_PROPERTIES = ("SetProperty", "RemoveProperty")
_CONSTRAINTS = ("AddConstraint", "DropConstraint")
"""Since Spark 4.1."""
_CLUSTER = "ClusterBy"
"""ALTER TABLE ... CLUSTER BY, without columns for CLUSTER BY NONE."""


class Altering(Implementation):
    """The part of a catalog that changes tables."""

    places: Places
    _find: Callable[..., Place]
    load_table: Callable[..., Any]

    def alter_table(self, ident: Any, changes: Any) -> Any:
        """Columns first, all in one version; then properties."""
        try:
            self._alter(ident, changes)
        except LanceSparkError as error:
            raise java_error(spark_error(self.bridge, error, _OTHER, self.spoken())) from error
        found = _lookups.get(self.bridge.thread()) if _lookups else None
        if found is None:
            return self.load_table(ident)
        # Schema evolution, in the middle of the analysis of a MERGE: the table that it changes is one version newer.
        found.pins.pop(branch_of(self._find(ident)), None)
        return self.load_table(ident, FOR_WRITING)

    def _alter(self, ident: Any, changes: Any) -> None:
        place = self._find(ident, for_reading=False)
        branch = place.branch_to_change("alter the table")
        put, unset = property_changes(changes)
        settings = {key: put.pop(key, None) for key in SETTINGS if key in {*put, *unset}}
        unset = [key for key in unset if key not in settings]
        if LOCATION in {*put, *unset}:
            raise _cannot_move("table")
        kinds = {each.getClass().getSimpleName() for each in changes}
        if {"DeleteColumn", "AddColumn"} <= kinds:
            raise Refused(
                "Cannot replace the columns of a table: that would drop all of them, with their values.",
                hint="Use DROP COLUMN and ADD COLUMN; or CREATE OR REPLACE TABLE ... AS SELECT.",
            )
        clustered = [each for each in changes if each.getClass().getSimpleName() == _CLUSTER]
        others = (*_PROPERTIES, _CLUSTER, *_CONSTRAINTS)
        columns = [_change(each) for each in changes if each.getClass().getSimpleName() not in others]
        for each in clustered:
            by = tuple(Transform(IDENTITY, column_of(reference)) for reference in each.clusteringColumns())
            change_layout(place.location, branch, LayoutChange("CLUSTER BY", by).on)
        if settings:
            change_layout(place.location, branch, lambda now, _: now.with_settings(settings))
        for each in (each for each in changes if each.getClass().getSimpleName() in _CONSTRAINTS):
            _constrain(place.location, branch, each)
        if columns:
            alter_columns(place.location, branch, columns, engine_of(self.bridge.spark))
        if put or unset:
            self.places.alter_properties(place, put, unset)


def _constrain(location: DatasetLocation, branch: str | None, change: Any) -> None:
    """Add or drop a constraint. Raises Refused for another one than a CHECK."""
    if change.getClass().getSimpleName() == "DropConstraint":
        drop_constraint(location, branch, str(change.name()), bool(change.ifExists()))
        return
    given = constraint_of(change.constraint())
    add_constraint(location, branch, given.name, given.condition)


def _change(given: Any) -> ColumnChange:
    """One change of a column. Raises Refused for an unknown kind."""
    kind = given.getClass().getSimpleName()
    make = _KINDS.get(kind)
    if make is None:
        raise Refused(f"Cannot change the table this way ({kind}): Lance has no counterpart. Nothing was changed.")
    change: ColumnChange = make(tuple(given.fieldNames()), given)
    return change


def _added(path: tuple[str, ...], given: Any) -> ColumnChange:
    made, default = _column(path, given.dataType()), given.defaultValue()
    text = None if default is None else str(default.getSql())
    fill = None if text is None else settled(text, made, datetime.now(timezone.utc))
    nullable, position, kept = given.isNullable(), _text(given.position()), kept_of(made)
    return AddColumn(path, made.type, nullable, given.comment(), position, kept, text, fill)


def _retyped(path: tuple[str, ...], given: Any) -> ColumnChange:
    made = _column(path, given.newDataType())
    return AlterColumn(path, type=made.type, kept=kept_of(made))


_KINDS: dict[str, Any] = {
    "AddColumn": _added,
    "DeleteColumn": lambda path, given: DropColumn(path, bool(given.ifExists())),
    "RenameColumn": lambda path, given: RenameColumn(path, given.newName()),
    "UpdateColumnType": _retyped,
    "UpdateColumnNullability": lambda path, given: AlterColumn(path, nullable=given.nullable()),
    "UpdateColumnComment": lambda path, given: AlterColumn(path, comment=given.newComment() or ""),
    "UpdateColumnDefaultValue": lambda path, given: AlterColumn(path, default=str(given.newDefaultValue() or "")),
    "UpdateColumnPosition": lambda path, given: AlterColumn(path, position=_text(given.position())),
}


def _text(position: Any) -> str | None:
    return None if position is None else str(position.toString())


def _column(path: tuple[str, ...], kind: Any) -> pa.Field:
    field = {"name": path[-1], "type": json.loads(kind.json()), "nullable": True, "metadata": {}}
    return to_arrow(parsed_json(json.dumps({"type": "struct", "fields": [field]}))).field(0)


# --- Procedures, for ``CALL``

NAMESPACE = "system"
_TEXTS = "ARRAY<STRING>"
_TYPES: Mapping[str, Any] = {
    "STRING": "string",
    "BIGINT": "long",
    "BOOLEAN": "boolean",
    _TEXTS: {"type": "array", "elementType": "string", "containsNull": True},
}
_GETTERS = {"STRING": "getString", "BIGINT": "getLong", "BOOLEAN": "getBoolean"}


class Procedures(Implementation):
    """The part of a catalog that is Spark's ``ProcedureCatalog``."""

    places: Places
    _name: str
    own_procedures: dict[str, Callable[[], Implementation]]
    """Further ones, which are listed nowhere."""

    def load_procedure(self, ident: Any) -> Any:
        """The procedure of a name; for an unknown name, one that raises the error."""
        own = self.own_procedures.get(parts_of(ident)[-1])
        if own is not None:
            return own().java()
        try:
            return NativeProcedure(self.bridge, _procedure(parts_of(ident)), self.places, self._name).java()
        except NotFound as missing:
            return MissingProcedure(self.bridge, missing).java()

    def list_procedures(self, namespace: Any) -> Any:
        listed = PROCEDURES if [*namespace] in ([], [NAMESPACE]) else ()
        return self.bridge.array(names.IDENTIFIER, [identifier(self.bridge, (NAMESPACE, name)) for name in listed])


def _procedure(parts: list[str]) -> Procedure:
    *namespace, name = parts
    if [part.lower() for part in namespace] != [NAMESPACE]:
        raise NotFound(
            f"There is no procedure {'.'.join(parts)}.",
            hint=f"Procedures are in the namespace '{NAMESPACE}': CALL ... .{NAMESPACE}.create_branch(...).",
        )
    return find_procedure(name)


class MissingProcedure(Implementation):
    """Spark's ``UnboundProcedure`` for an unknown name. Spark hides errors of the lookup, but shows this one's."""

    interfaces: ClassVar = (names.UNBOUND_PROCEDURE,)

    def __init__(self, bridge: Bridge, missing: NotFound) -> None:
        super().__init__(bridge)
        self._missing = missing

    def name(self) -> str:
        return ""

    def bind(self, _types: Any) -> Any:
        """Raises NotFound."""
        raise self._missing


class NativeProcedure(Implementation):
    """Spark's ``UnboundProcedure`` and ``BoundProcedure``: binding accepts any arguments."""

    interfaces: ClassVar = (names.UNBOUND_PROCEDURE, names.BOUND_PROCEDURE)

    def __init__(self, bridge: Bridge, procedure: Procedure, places: Places, catalog: str) -> None:
        super().__init__(bridge)
        self._procedure, self.places, self._catalog = procedure, places, catalog
        self._table: str | None = None

    def spoken(self) -> Spoken:
        """A CALL, and the table that it names."""
        return Spoken("sql", self._catalog, self._table)

    def name(self) -> str:
        return self._procedure.name

    def description(self) -> str:
        return self._procedure.doc

    def bind(self, _types: Any) -> Any:
        return self.java()

    def is_deterministic(self) -> bool:
        """False: the next call finds other branches and versions."""
        return False

    def parameters(self) -> Any:
        """Spark casts arguments to their types, and fills in defaults."""
        return self.bridge.array(names.PROCEDURE_PARAMETER, [self._parameter(p) for p in self._procedure.parameters])

    def _parameter(self, given: Parameter) -> Any:
        kind = self.bridge.call(f"{names.DATA_TYPE}.fromJson", json.dumps(_TYPES[given.type]))
        built = self.bridge.call(f"{names.PROCEDURE_PARAMETER}.in", given.name, kind).comment(given.doc)
        return (built if given.required else built.defaultValue(_sql(given.default))).build()

    def call(self, row: Any) -> Any:
        """Run it; an iterator of one scan, with its rows."""
        arguments = {
            parameter.name: None if row.isNullAt(at) else _argument(row, at, parameter.type)
            for at, parameter in enumerate(self._procedure.parameters)
        }
        table = arguments.get("table")
        if table is not None:
            arguments["table"] = self._table = self.places.without_catalog(table, self._catalog)
        context = self.places.context(engine_of(self.bridge.spark))
        answer = self._procedure.call(context, arguments)
        results = self.bridge.new("java.util.ArrayList")
        results.add(RowsScan(self.bridge, self._procedure.name, answer.schema, answer.to_batches).java())
        return results.iterator()


def _argument(row: Any, at: int, kind: str) -> Any:
    """The value of an argument, which Spark has cast to the parameter's type."""
    if kind != _TEXTS:
        return getattr(row, _GETTERS[kind])(at)
    given = row.getArray(at)
    return [
        None if given.isNullAt(each) else given.getUTF8String(each).toString() for each in range(given.numElements())
    ]


def _sql(value: str | int | bool | None) -> str:
    if value is None:
        return "NULL"
    return f"'{value}'" if isinstance(value, str) else str(value).lower()


# --- Catalogs of tables below a root, or at paths


class NativeCatalog(Creating, Altering, Procedures, KeyFunctions):
    """The common part of all catalogs: looking up tables, and reading them at a version."""

    interfaces: ClassVar[tuple[str, ...]] = (names.STAGING_CATALOG, names.PROCEDURE_CATALOG, names.FUNCTION_CATALOG)
    defaults: ClassVar = frozenset({"loadTable/3", "loadTable/4"})
    """Spark 4.3: these call one of the other overloads."""

    def __init__(self, bridge: Bridge, name: str, places: Places) -> None:
        super().__init__(bridge)
        self._name, self.places = name, places
        self._asked: dict[tuple[str, ...], str] = {}
        self.own_procedures: dict[str, Callable[[], Implementation]] = {}

    def in_session(self, bridge: Bridge) -> NativeCatalog:
        raise NotImplementedError

    def to_string(self) -> str:
        return f"{type(self).__name__} {self._name}"

    def initialize(self, name: str, options: Any) -> None:
        """Spark calls this for catalogs that it creates itself."""

    def name(self) -> str:
        return self._name

    def answered(self) -> dict[str, Answer]:
        return {"name": answers.text(self._name)}

    def spoken(self) -> Spoken:
        """SQL: Python code that uses a catalog's table can also run a statement."""
        return Spoken("sql", self._name)

    def load_table(self, wanted: Any, at: Any = None) -> Any:
        """A table, at a version (text), at a moment (microseconds), or for writing (privileges)."""
        for_reading = at is None or isinstance(at, str | int)
        parts, shown = plain(self.bridge, wanted)
        name = f"{self._name}.{shown}"
        system = self._system_table(parts, name)
        if system is not None:
            return system
        place = self._find(wanted, _travel(at), for_reading, parts)
        if not for_reading and place.spec.begins is not None:  # on a branch of the lake: the first change of the table
            place = replace(place, spec=RefSpec(branch=place.branch_to_change("change it")))
        if place.is_branch:
            self._asked[tuple(parts)] = place.location.uri
        return self._table(place, name, for_reading)

    def _system_table(self, parts: list[str], name: str) -> Any:  # noqa: ARG002 - of a catalog with a root
        return None

    def names_of(self, location: DatasetLocation) -> list[tuple[str, ...]]:
        """The requested names of a dataset's branches, in parts."""
        return [parts for parts, uri in [*self._asked.items()] if uri == location.uri]

    def table_exists(self, wanted: Any) -> bool:
        return self.places.exists(parts_of(wanted))

    def load_changelog(self, wanted: Any, context: Any, *_options: Any) -> Any:
        """The change feed, for SQL's CHANGES. Raises Refused in a session without this package's Java classes."""
        place = self._find(wanted)
        name = f"{self._name}.{wanted.toString()}"
        if not self.bridge.feeds or place.metadata_table is not None:
            in_python = f"In Python: LanceTable.for_path({place.location.uri!r}).changes(since, until)."
            raise Refused(
                f"CHANGES of {name} cannot be read by SQL.",
                hint=in_python if place.metadata_table is None else "A metadata table has none.",
            )
        return NativeChangelog(self.bridge, name, Changes(place, self._pin(place), read_context(context))).java()

    def invalidate_table(self, wanted: Any) -> None:
        """Does nothing: no cached state can be out of date."""

    def list_tables(self, _namespace: Any) -> Any:
        return self.bridge.array(names.IDENTIFIER, [])

    def _find(
        self, wanted: Any, travel: TypedRef = DEFAULT, for_reading: bool = True, parts: list[str] | None = None
    ) -> Place:
        """The place of a name; Spark's own exception if it only has to report a missing table."""
        parts = parts_of(wanted) if parts is None else parts
        try:
            return self.places.find(parts, travel)
        except (NotFound, InvalidName) as missing:
            if self.places.explains(parts, for_reading):
                raise
            raise java_error(self.bridge.new(names.NO_SUCH_TABLE, wanted)) from missing

    def _table(self, place: Place, name: str, for_reading: bool = True) -> Any:
        found = self._lookups()
        try:
            pin = self._pin(place)
        except NotFound:
            if not self.places.is_declared(place):
                raise
            return DeclaredTable(self.bridge, name, place, lambda: self._properties(place)).java()
        if place.metadata_table is None:
            read = PinnedRead(place.location, pin, ReadOptions())
            source = Source(read if for_reading else with_blobs(read), newest=place.is_branch)
            kind = EvolvingTable if self.bridge.evolves else StoredTable
            stored = kind(self.bridge, source, name, place, lambda: self._properties(place))
            if found is not None:
                stored.named = found.named
                found.tables[stored.to_string()] = stored
            return stored.java()
        table, fixed = place.metadata_table, RefSpec(branch=pin.branch, version=pin.version)
        return RowsTable(
            self.bridge, name, metadata_schema(table), lambda: read_metadata_table(place.location, fixed, table)
        ).java()

    def _lookups(self) -> Lookups | None:
        """Those of the statement; None outside of one."""
        return _lookups.get(self.bridge.thread()) if _lookups else None

    def _pin(self, place: Place) -> PinnedVersion:
        found = self._lookups()
        now = partial(resolve, place.location, place.spec)
        return now() if found is None else found.version(place, now)

    def _properties(self, place: Place) -> dict[str, str]:
        return shown_properties(self.places.properties(place), place)


class PathCatalog(NativeCatalog):
    """A catalog without a root: the name of a table is its path or URI."""

    def __init__(self, bridge: Bridge, name: str, storage_options: Mapping[str, str]) -> None:
        super().__init__(bridge, name, PathPlaces(storage_options))
        self._storage_options = storage_options

    def in_session(self, bridge: Bridge) -> NativeCatalog:
        return PathCatalog(bridge, self._name, self._storage_options)


class RootCatalog(Namespaces, NativeCatalog):
    """The tables and namespaces below a root."""

    interfaces: ClassVar[tuple[str, ...]] = (*NativeCatalog.interfaces, names.NAMESPACES)

    def __init__(self, bridge: Bridge, name: str, catalog: Catalog) -> None:
        super().__init__(bridge, name, RootPlaces(catalog))
        self.catalog = catalog

    def in_session(self, bridge: Bridge) -> NativeCatalog:
        return RootCatalog(bridge, self._name, self.catalog)

    def list_tables(self, namespace: Any) -> Any:
        with self.known(namespace):
            found = lookup.list_tables(self.catalog, [*namespace])
        return self.bridge.array(names.IDENTIFIER, [identifier(self.bridge, name.parts) for name in found])

    def _system_table(self, parts: list[str], name: str) -> Any:
        """``system.branches``, ``tags`` or ``publishes``, unless the catalog has such a table itself."""
        *above, last = parts
        found = SYSTEM_TABLES.get(last.lower()) if [each.lower() for each in above] == [NAMESPACE] else None
        if found is None or self.places.exists(parts):
            return None
        return RowsTable(self.bridge, name, found.columns, lambda: found.read(self.catalog)).java()


def _travel(at: Any) -> TypedRef:
    if isinstance(at, str):
        return parse_version_text(at)
    return parse_moment(at) if isinstance(at, int) else DEFAULT
