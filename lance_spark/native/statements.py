"""DESCRIBE HISTORY, OPTIMIZE, ANALYZE, VACUUM, RESTORE and ALTER TABLE of branches, tags and layouts, for Lance tables.

Spark's parser knows none of them, so they are parsed before Spark gets them. Statements about other tables go on to
Spark, and to the session's extensions for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from lance_spark.catalog.lake import check_whole
from lance_spark.cleanup.retention_rules import CleanupPolicy, VersionRule
from lance_spark.core.ref_expressions import DEFAULT, MARK, TypedRef, parse_moment, parse_version_text
from lance_spark.core.refs import MAIN, PinnedVersion, RefSpec
from lance_spark.core.texts import quoted_name
from lance_spark.engine.local import Engine
from lance_spark.engine.session_spark import asks_for_histograms, engine_of, from_arrow
from lance_spark.errors import LanceSparkError, NotFound, Refused
from lance_spark.jvm import names
from lance_spark.jvm.bridge import Bridge
from lance_spark.layout.declaring import change_layout, look
from lance_spark.layout.layout_rules import LayoutChange
from lance_spark.log.log import HISTORY, history
from lance_spark.native.catalog import NativeCatalog, PathCatalog, RootCatalog
from lance_spark.native.functions import FunctionsOfPaths
from lance_spark.native.places import Place
from lance_spark.native.row_statements import RowStatement, frame_of
from lance_spark.native.scan import Source
from lance_spark.native.session import Room
from lance_spark.native.tables import NativeTable
from lance_spark.optimize.compaction_rules import OptimizeOptions
from lance_spark.optimize.optimize import optimize
from lance_spark.refs import refs
from lance_spark.refs.refs import alter_branch, alter_tag, check_settings
from lance_spark.session.caches import refresh
from lance_spark.sql import statement_rules
from lance_spark.sql.procedures import PROCEDURES, check_version_of, cleanup_rows, restore_rows, statistics_rows
from lance_spark.sql.statement_rules import Args
from lance_spark.storage.datasets import open_pinned
from lance_spark.storage.resolving import resolve

Rows = Iterable[Mapping[str, Any]]
LAYOUT = pa.schema([("partition_by", pa.string()), ("cluster_by", pa.string()), ("version", pa.int64())])
"""What a change of the layout returns."""
_HISTORY_TABLE = "history"
"""``DESCRIBE HISTORY x`` also means Spark's description of column x in a table of that name."""


def look_after(room: Room, opening: statement_rules.Opening, args: Args) -> DataFrame | None:
    """Execute such a statement; None if its table is not a Lance table. Raises the errors of the matching verb."""
    found = _table(room, opening)
    if found is None:
        return None
    catalog, parts = found
    statement = statement_rules.parse(opening, args)
    work = _Work(room, catalog, parts, args)
    columns, rows = work.carry_out(statement)
    table = pa.Table.from_pylist(list(rows), schema=columns)
    if isinstance(statement, statement_rules.Restore | statement_rules.Optimize):
        refresh(room.bridge.spark, work.place.location)
    return from_arrow(room.bridge.spark, table)


def is_about(room: Room, opening: statement_rules.Opening) -> bool:
    return _table(room, opening) is not None


def _table(room: Room, opening: statement_rules.Opening) -> tuple[NativeCatalog, tuple[str, ...]] | None:
    """The catalog and the name in it, as Spark resolves them; None for another catalog's table."""
    parts = opening.table
    if opening.is_path:
        paths = next((each for each in room.catalogs.values() if isinstance(each, PathCatalog)), None)
        return (paths, parts) if paths is not None and _is_there(paths, parts) else None
    if len(parts) > 1 and parts[0] in room.catalogs:
        return room.catalogs[parts[0]], parts[1:]
    manager = room.bridge.session.sessionState().catalogManager()
    catalog = room.catalogs.get(manager.currentCatalog().name())
    if catalog is None or (len(parts) > 1 and manager.isCatalogRegistered(parts[0])):
        return None
    if len(parts) == 1:
        parts = (*manager.currentNamespace(), *parts)
    if _is_there(catalog, parts):
        return catalog, parts
    if opening.verb == "DESCRIBE HISTORY" and room.bridge.spark.catalog.tableExists(_HISTORY_TABLE):
        return None
        # Names such as delta.`/path` belong to others. One in a Lance namespace is misspelled, and Spark cannot tell.
    known = len(opening.table) == 1 or (isinstance(catalog, RootCatalog) and catalog.namespace_exists(parts[:-1]))
    return (catalog, parts) if known else None


def _is_there(catalog: NativeCatalog, parts: tuple[str, ...]) -> bool:
    try:
        return catalog.places.exists(parts)
    except LanceSparkError:  # the owner is unknown: leave the statement to others
        return False


@dataclass(frozen=True)
class _Work:
    """One statement about one Lance table."""

    room: Room
    catalog: NativeCatalog
    parts: tuple[str, ...]
    args: Args

    def carry_out(self, statement: statement_rules.Statement) -> tuple[pa.Schema, Rows]:
        if isinstance(statement, statement_rules.DescribeHistory):
            return HISTORY, history(self.place.location, self._pin(), statement.limit)
        if isinstance(statement, statement_rules.Optimize):
            return PROCEDURES["optimize"].columns, self._optimize(statement)
        if isinstance(statement, statement_rules.Vacuum):
            return PROCEDURES["cleanup"].columns, self._vacuum(statement)
        if isinstance(statement, statement_rules.Restore):
            return PROCEDURES["restore"].columns, self._restore(statement)
        if isinstance(statement, statement_rules.Analyze):
            return PROCEDURES["analyze"].columns, self._analyze(statement)
        if isinstance(statement, LayoutChange):
            return LAYOUT, self._change_layout(statement)
        return self._alter(statement)

    @property
    def place(self) -> Place:
        """The place of the table's name. Raises NotFound, and Refused for a metadata table."""
        return self._place(DEFAULT)

    def _place(self, travel: TypedRef) -> Place:
        found = self.catalog.places.find(self.parts, travel)
        if found.metadata_table is not None:
            raise Refused(f"'{self._name}' is a metadata table, not a table of its own.")
        return found

    def _pin(self, travel: TypedRef = DEFAULT) -> PinnedVersion:
        place = self._place(travel)
        return resolve(place.location, place.spec)

    @property
    def _name(self) -> str:
        return ".".join(quoted_name(part) for part in (self.catalog.name(), *self.parts))

    @property
    def _catalog(self) -> str:
        return quoted_name(self.catalog.name())

    @property
    def _engine(self) -> Engine:
        return engine_of(self.room.bridge.spark)

    def _optimize(self, given: statement_rules.Optimize) -> Rows:
        place = self.place
        branch = place.branch_to_change("optimize the table")
        one = len(given.zorder) == 1  # a z-order of one column is the order of its values
        where = None if given.where is None else self._filter(given.where, given.used)
        options = OptimizeOptions(
            where=where, sort_by=given.zorder if one else None, zorder=None if one else given.zorder or None
        )
        yield optimize(place.location, branch, options, self._engine).as_record()

    def _filter(self, condition: str, used: int) -> str | None:
        """The condition in Lance's SQL; None for one that is true for all rows. Raises Spark's errors, and Refused.

        Spark analyzes a DELETE of these rows, which is not executed.
        """
        bridge = self.room.bridge
        if bridge.no_row_changes is not None:
            raise Refused(
                f"OPTIMIZE cannot read its condition: {bridge.no_row_changes}",
                hint=f"Pass it in Lance's SQL: CALL {self._catalog}.system.optimize(table => ..., where => ...).",
            )
        statement = RowStatement(bridge, f"DELETE FROM {self._name} WHERE {condition}", _behind(self.args, used))
        change = statement.analyze({})
        predicates = None if change is None else change.predicates()
        found = None if change is None or predicates is None else change.table.filter_of(predicates)
        if found is None and predicates != []:
            raise Refused(
                f"OPTIMIZE cannot select rows by the condition {condition}.",
                hint="Compare columns with constants: =, <, >, IN, LIKE 'a%', IS NULL, with AND, OR, NOT.",
            )
        return found

    def _analyze(self, given: statement_rules.Analyze) -> Rows:
        if given.columns == ():
            return []  # the number of rows and the size are known of every version
        schema = open_pinned(self.place.location, self._pin()).schema
        columns = None if given.columns is None else [_spelled(name, schema.names) for name in given.columns]
        asked = asks_for_histograms(self.room.bridge.spark)
        return statistics_rows(self.place.location, self._pin(), columns, self._engine, asked)

    def _vacuum(self, given: statement_rules.Vacuum) -> Rows:
        place = self.place
        branch = place.branch_to_change("vacuum it")
        # A tag keeps its version: the statement has no syntax for anything else.
        policy = CleanupPolicy(older_than=given.older_than, error_if_tagged_old_versions=False)
        if branch is not None:
            rule = VersionRule(older_than=given.older_than)
            policy = replace(policy, older_than=None, before_version=1, branches={branch: rule})  # nothing elsewhere
        return cleanup_rows(place.location, policy, self._engine, not given.dry_run)

    def _restore(self, given: statement_rules.Restore) -> Rows:
        travel = parse_moment(self._micros(given)) if given.version is None else parse_version_text(given.version)
        pin, place = self._pin(travel), self.place
        check_version_of(pin, place.branch_to_change("restore it"))
        return restore_rows(place.location, pin, self._engine)

    def _micros(self, given: statement_rules.Restore) -> int:
        """Microseconds since 1970 of the moment, by Spark's rules."""
        query = f"SELECT unix_micros(CAST(({given.moment}) AS TIMESTAMP))"
        row = self.room.bridge.spark.sql(query, _behind(self.args, given.used)).first()
        if row is None or row[0] is None:
            raise Refused(f"{given.moment} is not a point in time.", hint="For example, '2026-01-31 12:00:00'.")
        return int(row[0])

    def _change_layout(self, change: LayoutChange) -> Rows:
        place = self.place
        branch = place.branch_to_change("declare the layout of the table")
        pin = change_layout(place.location, branch, change.on)
        layout, _ = look(place.location, pin)
        return [{"partition_by": layout.partition_text, "cluster_by": layout.cluster_text, "version": pin.version}]

    def _alter(self, given: statement_rules.AlterRef) -> tuple[pa.Schema, Rows]:
        kind, place = "tag" if given.tag else "branch", self.place
        location = place.location
        if given.what != "CREATE" and isinstance(self.catalog, RootCatalog):
            check_whole(self.catalog.catalog, f"change {kind} '{given.name}' of a table")
        find: Callable[..., Any] = refs.find_tag if given.tag else refs.find_branch
        there = find(location, given.name)
        if given.what == "DROP":
            drop = refs.delete_tag if given.tag else refs.delete_branch
            if there is not None or not given.if_exists:
                drop(location, given.name)
            return PROCEDURES["drop_tag" if given.tag else "drop_branch"].columns, [{"name": given.name}]
        columns = PROCEDURES["create_tag" if given.tag else "create_branch"].columns
        if there is not None and given.if_exists:
            return columns, [self._told(find(location, given.name))]
        if there is None and given.what == "REPLACE":
            raise NotFound(f"There is no {kind} '{given.name}'.", hint=f"To create it: CREATE {kind.upper()}.")
        replaces = there is not None and given.what != "CREATE"
        if replaces and not given.tag:
            raise self._cannot_replace(given)
        settings = {"expire_after": given.expire_after, "retain_versions": given.retain_versions}
        wanted = {key: value for key, value in settings.items() if value is not None}
        check_settings(wanted, given.tag)
        pin = self._pin(DEFAULT if given.version is None else parse_version_text(given.version))
        spec = RefSpec(branch=pin.branch, version=pin.version)
        if given.tag:
            (refs.move_tag if replaces else refs.create_tag)(location, given.name, spec)
        else:
            refs.create_branch(location, given.name, spec)
        if wanted:
            (alter_tag if given.tag else alter_branch)(location, given.name, wanted)
        return columns, [self._told(find(location, given.name))]

    @staticmethod
    def _told(found: Any) -> dict[str, Any]:
        if found is None:
            return {}
        if hasattr(found, "parent_version"):
            parent = {"parent_branch": found.parent_branch or MAIN, "parent_version": found.parent_version}
            return {"name": found.name, **parent}
        return {"name": found.name, "branch": found.branch or MAIN, "version": found.version}

    def _cannot_replace(self, given: statement_rules.AlterRef) -> Refused:
        dropped = f"CALL {self._catalog}.system.drop_branch(table => '{'.'.join(self.parts)}', name => '{given.name}')"
        return Refused(
            f"Branch '{given.name}' already exists, and a Lance branch cannot be moved to another version.",
            hint=f"For one of its own versions: RESTORE TABLE `table{MARK}{given.name}` TO VERSION AS OF n. "
            f"To start over: {dropped}, then CREATE BRANCH.",
        )


def _spelled(name: str, names: Sequence[str]) -> str:
    """The column's name in the table: Spark ignores case."""
    alike = [each for each in names if each.lower() == name.lower()]
    return alike[0] if name not in names and len(alike) == 1 else name


def _behind(args: Args, used: int) -> Any:
    """The remaining parameters, for a part of the statement."""
    return [*args][used:] if isinstance(args, list | tuple) else args


# --- DataFrames of tables outside of any catalog


def data_frame(bridge: Bridge, source: Source) -> DataFrame:
    table = NativeTable(bridge, source, source.name).java()
    none = bridge.option(None)
    functions = bridge.option(FunctionsOfPaths(bridge).java()) if bridge.groups else none
    given = [table, functions, none, bridge.options({})]
    if bridge.relation_arguments > len(given):
        given.append(none)  # no time travel: the version is in the table
    relation = bridge.find(names.RELATION).create(*given)
    return frame_of(bridge, relation)
