"""Procedures as values, with their arguments and context: for refs, merges, indexes, upkeep, clones and migration."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any, Literal

import pyarrow as pa

from lance_spark.catalog.lake import create_lake_tag, delete_lake_tag, list_lake_tags
from lance_spark.catalog.lake_rules import LakeTag
from lance_spark.catalog.lookup import locate_table
from lance_spark.catalog.manifest_pylance import check_may_change
from lance_spark.catalog.migrate import migrate
from lance_spark.catalog.rules import Catalog
from lance_spark.cleanup.cleanup import plan_cleanup
from lance_spark.cleanup.rules import CleanupPolicy
from lance_spark.cleanup.sweep_rules import KEEP
from lance_spark.core.declared import at, typed_at
from lance_spark.core.location import DatasetLocation
from lance_spark.core.ref_expressions import parse_version_text
from lance_spark.core.refs import MAIN, PinnedVersion, RefSpec, branch_or_none
from lance_spark.core.show import meant
from lance_spark.disk_usage.disk_usage import storage
from lance_spark.disk_usage.report import USAGE
from lance_spark.engine.local import Engine
from lance_spark.errors import InvalidOption, NotFound, Refused
from lance_spark.fsck.option_rules import FsckOptions, RepairOptions
from lance_spark.fsck.repair import fsck_and_repair
from lance_spark.fsck.report import FsckReport
from lance_spark.indexes.indexes import create_index
from lance_spark.indexes.rules import SETTINGS, IndexRequest, setting_help
from lance_spark.maintenance.expiry import carry_out, plan_expiry
from lance_spark.maintenance.expiry_rules import KEPT, ExpiryOptions
from lance_spark.merge import merge
from lance_spark.merge.option_rules import MergeOptions
from lance_spark.merge.report import MergeResult
from lance_spark.merge.restore import restore_version
from lance_spark.optimize.optimize import optimize
from lance_spark.optimize.rules import OptimizeOptions
from lance_spark.refs import refs
from lance_spark.remotes.clone import clone
from lance_spark.remotes.fetch import Remote
from lance_spark.remotes.rules import CloneOptions
from lance_spark.storage.commits import ORIGIN
from lance_spark.storage.datasets import open_latest
from lance_spark.storage.resolving import dataset_at, find_spec, resolve

SqlType = Literal["STRING", "BIGINT", "BOOLEAN"]
_TYPES: Mapping[str, type] = {"STRING": str, "BIGINT": int, "BOOLEAN": bool}


@dataclass(frozen=True)
class Parameter:
    """One parameter. An optional one is None, or its default, if it is not given."""

    name: str
    type: SqlType
    doc: str
    required: bool = False
    default: str | int | bool | None = None


def parameters_of(kind: type, *names: str) -> tuple[Parameter, ...]:
    """The options, or some, that a dataclass declares for SQL. Lists are texts with commas in between."""
    types: Mapping[str, SqlType] = {"number": "BIGINT", "flag": "BOOLEAN"}
    return tuple(
        Parameter(
            each.key, types.get(each.kind, "STRING"), each.help, default=each.default if each.kind in types else None
        )
        for each in at(kind, "sql", *names)
    )


@dataclass(frozen=True)
class Context:
    """Where a procedure runs: in a catalog, or without one, if tables are named by their paths."""

    engine: Engine
    catalog: Catalog | None = None
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)

    def table(self, name: str) -> DatasetLocation:
        """The location of a table. Raises NotFound, InvalidName, InvalidOption."""
        if self.catalog is not None:
            check_may_change(self.catalog.manifest, f"call a procedure for table '{name}'")
            return locate_table(self.catalog, name)
        location = dataset_at(name, self.storage_options)
        open_latest(location)
        return location

    def place(self, uri: str) -> DatasetLocation:
        """The location for a new dataset, by path or URI, in the same store or with credentials of the process."""
        options = self.storage_options if self.catalog is None else self.catalog.root.storage_options
        return dataset_at(uri, options)

    def need_catalog(self, doing: str) -> Catalog:
        """The catalog. Raises Refused if tables are named by their paths."""
        if self.catalog is None:
            raise Refused(f"Cannot {doing}: these tables are in no catalog.", hint="Call it in a catalog with a root.")
        return self.catalog


def spec_of(location: DatasetLocation, ref: str) -> RefSpec:
    """The branch, tag or version in an argument. Raises NotFound with near names, InvalidOption, Refused."""
    return find_spec(location, parse_version_text(ref))


def pin_of(location: DatasetLocation, ref: str) -> PinnedVersion:
    """The version of an argument, now. Raises as :func:`spec_of`, and NotFound for the version."""
    return resolve(location, spec_of(location, ref))


Rows = Iterable[Mapping[str, Any]]
_COLUMN_TYPES = {
    "STRING": pa.string(),
    "BIGINT": pa.int64(),
    "BOOLEAN": pa.bool_(),
    "DOUBLE": pa.float64(),
    "TIMESTAMP": pa.timestamp("us", "UTC"),
    "ARRAY<STRING>": pa.list_(pa.string()),
}


def table_of(columns: str) -> pa.Schema:
    """The schema of a procedure's rows, with columns as SQL declares them: ``name STRING, version BIGINT``."""
    return pa.schema([(name, _COLUMN_TYPES[type_]) for name, type_ in map(str.split, columns.split(","))])


@dataclass(frozen=True)
class Procedure:
    """A procedure: its name, parameters, result and function."""

    name: str
    doc: str
    parameters: tuple[Parameter, ...]
    columns: pa.Schema
    """Schema of its rows."""
    run: Callable[[Context, Mapping[str, Any]], Rows]
    """Gets a value for every parameter."""

    def call(self, context: Context, arguments: Mapping[str, Any]) -> pa.Table:
        """Run it; returns its rows.

        Raises InvalidOption for an unknown or missing argument or one of another type, and the errors of the action.
        """
        return pa.Table.from_pylist(list(self.run(context, self.bind(arguments))), schema=self.columns)

    def bind(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """A value for every parameter. Names are case-insensitive, as in SQL. Raises InvalidOption."""
        known = {parameter.name: parameter for parameter in self.parameters}
        given: dict[str, Any] = {}
        for key, value in arguments.items():
            name = key.lower()
            if name not in known:
                raise InvalidOption(
                    f"Procedure {self.name} has no parameter '{key}'.", hint=meant(name, known, "It takes")
                )
            if name in given:
                raise InvalidOption(f"Argument '{name}' of procedure {self.name} is given twice.")
            given[name] = value
        return {name: self._value(parameter, given.get(name)) for name, parameter in known.items()}

    def _value(self, parameter: Parameter, value: Any) -> Any:
        if value is None:
            if parameter.required:
                raise InvalidOption(
                    f"Procedure {self.name} needs the argument '{parameter.name}'.", hint=f"It is {parameter.doc}."
                )
            return parameter.default
        expected = _TYPES[parameter.type]
        if not isinstance(value, expected) or (expected is int and isinstance(value, bool)):
            raise InvalidOption(
                f"Argument '{parameter.name}' of procedure {self.name} is {value!r}, but it must be {parameter.type}."
            )
        return value


PROCEDURES: dict[str, Procedure] = {}
"""All procedures by name, in the order of the documentation."""
Run = Callable[[Context, Mapping[str, Any]], Rows]


def procedure(name: str, columns: str | pa.Schema, *parameters: Parameter) -> Callable[[Run], Run]:
    """Declare a procedure. The function's docstring is its description; ``columns`` are those of its rows."""

    def declare(run: Run) -> Run:
        schema = table_of(columns) if isinstance(columns, str) else columns
        PROCEDURES[name] = Procedure(name, run.__doc__ or "", parameters, schema, run)
        return run

    return declare


def find_procedure(name: str) -> Procedure:
    """The procedure of that name, ignoring case. Raises NotFound with near names."""
    found = PROCEDURES.get(name.lower())
    if found is None:
        raise NotFound(f"There is no procedure {name}.", hint=meant(name, sorted(PROCEDURES)))
    return found


TABLE = Parameter("table", "STRING", "the table's name, such as 'ns1.flights'", required=True)
REFS = "a branch, a tag, 'exp@7' or a version of main"


# --- Procedures for branches

_NAME = Parameter("name", "STRING", "the branch's name", required=True)


@procedure(
    "create_branch",
    "name STRING, parent_branch STRING, parent_version BIGINT",
    TABLE,
    _NAME,
    Parameter("from", "STRING", f"where it starts: {REFS}", default=MAIN),
)
def _create_branch(context: Context, given: Mapping[str, Any]) -> Rows:
    """Create a branch."""
    location = context.table(given["table"])
    made = refs.create_branch(location, given["name"], spec_of(location, given["from"]))
    yield {"name": made.name, "parent_branch": made.parent_branch or MAIN, "parent_version": made.parent_version}


@procedure(
    "drop_branch",
    "name STRING",
    TABLE,
    _NAME,
    Parameter("purge", "BOOLEAN", "whether to delete its files at once, for good", default=False),
)
def _drop_branch(context: Context, given: Mapping[str, Any]) -> Rows:
    """Delete a branch; its files stay for a week. Refused while another branch or a tag needs it."""
    refs.remove_branch(context.table(given["table"]), given["name"], given["purge"])
    yield {"name": given["name"]}


# --- Procedures for tags

_TAG_NAME = Parameter("name", "STRING", "the tag's name", required=True)
_FORCE = Parameter("force", "BOOLEAN", "whether to delete a tag that a clone, merge or stream needs", default=False)


@procedure(
    "create_tag",
    "name STRING, branch STRING, version BIGINT",
    TABLE,
    _TAG_NAME,
    Parameter("ref", "STRING", f"what to tag: {REFS}", default=MAIN),
)
def _create_tag(context: Context, given: Mapping[str, Any]) -> Rows:
    """Tag a version; an existing tag is never moved."""
    location = context.table(given["table"])
    pin = pin_of(location, given["ref"])
    refs.create_tag(location, given["name"], RefSpec(branch=pin.branch, version=pin.version))
    yield {"name": given["name"], "branch": pin.branch or MAIN, "version": pin.version}


@procedure("drop_tag", "name STRING", TABLE, _TAG_NAME, _FORCE)
def _drop_tag(context: Context, given: Mapping[str, Any]) -> Rows:
    """Delete a tag."""
    refs.delete_tag(context.table(given["table"]), given["name"], given["force"])
    yield {"name": given["name"]}


# --- Procedures for tags of the whole lake

_LAKE_TAG_NAME = Parameter("name", "STRING", "the name of the tag of the whole lake", required=True)
_LAKE_TAG_COLUMNS = table_of("name STRING, tables BIGINT, created_at TIMESTAMP, ready BOOLEAN")


def _lake_tag_row(tag: LakeTag) -> dict[str, Any]:
    return {name: getattr(tag, name) for name in _LAKE_TAG_COLUMNS.names}


@procedure("create_lake_tag", _LAKE_TAG_COLUMNS, _LAKE_TAG_NAME)
def _create_lake_tag(context: Context, given: Mapping[str, Any]) -> Rows:
    """Tag the newest version of every table of the catalog under one name; every cleanup keeps them."""
    catalog = context.need_catalog("create a tag of the lake")
    yield _lake_tag_row(create_lake_tag(catalog, given["name"], datetime.now(timezone.utc)))


@procedure("drop_lake_tag", "name STRING", _LAKE_TAG_NAME)
def _drop_lake_tag(context: Context, given: Mapping[str, Any]) -> Rows:
    """Delete a tag of the whole lake, also an incomplete one."""
    delete_lake_tag(context.need_catalog("delete a tag of the lake"), given["name"])
    yield {"name": given["name"]}


@procedure("list_lake_tags", _LAKE_TAG_COLUMNS)
def _list_lake_tags(context: Context, _given: Mapping[str, Any]) -> Rows:
    """List the tags of the whole lake; one that is not ready is incomplete, and can only be deleted."""
    yield from map(_lake_tag_row, list_lake_tags(context.need_catalog("list tags of the lake")))


# --- Procedures that move changes between branches, or undo them

_COLUMNS = table_of(
    "action STRING, into STRING, source STRING, base STRING, version BIGINT, fast_forward BOOLEAN, "
    "up_to_date BOOLEAN, dry_run BOOLEAN, rows_added BIGINT, rows_deleted BIGINT, "
    "fragments_changed BIGINT, columns_added ARRAY<STRING>, columns_dropped ARRAY<STRING>, "
    "conflicts ARRAY<STRING>, indexes_carried ARRAY<STRING>, indexes_missing ARRAY<STRING>, "
    "notes ARRAY<STRING>"
)
_REPLAYING = parameters_of(MergeOptions, "message", "dry_run")
_INTO = Parameter("into", "STRING", "the branch that gets the changes", default=MAIN)


def _row(result: MergeResult) -> dict[str, Any]:
    found = {**result.as_record(), "conflicts": [str(conflict) for conflict in result.conflicts]}
    return {name: found[name] for name in _COLUMNS.names}


@procedure(
    "merge_branch",
    _COLUMNS,
    TABLE,
    Parameter("branch", "STRING", "the branch to merge", required=True),
    _INTO,
    *parameters_of(MergeOptions),
)
def _merge(context: Context, given: Mapping[str, Any]) -> Rows:
    """Merge a branch into another one, as one version."""
    location = context.table(given["table"])
    source = resolve(location, RefSpec(branch=branch_or_none(given["branch"])))
    options = typed_at("sql", MergeOptions, given)
    yield _row(merge.merge(location, source, branch_or_none(given["into"]), options, context.engine))


@procedure(
    "cherry_pick",
    _COLUMNS,
    TABLE,
    Parameter("ref", "STRING", "the version, such as 'exp@7'", required=True),
    _INTO,
    *_REPLAYING,
)
def _cherry_pick(context: Context, given: Mapping[str, Any]) -> Rows:
    """Commit the changes of one version of another branch to a branch."""
    location = context.table(given["table"])
    into, picked = branch_or_none(given["into"]), pin_of(location, given["ref"])
    done = merge.cherry_pick(location, picked, into, context.engine, given["message"], given["dry_run"])
    yield _row(done)


@procedure(
    "revert",
    _COLUMNS,
    TABLE,
    Parameter("version", "BIGINT", "the version to undo", required=True),
    Parameter("branch", "STRING", "the branch it is on", default=MAIN),
    *_REPLAYING,
)
def _revert(context: Context, given: Mapping[str, Any]) -> Rows:
    """Commit the inverse of one of a branch's versions to that branch."""
    location, branch = context.table(given["table"]), branch_or_none(given["branch"])
    pin = resolve(location, RefSpec(branch=branch, version=given["version"]))
    yield _row(merge.revert(location, pin, branch, context.engine, given["message"], given["dry_run"]))


# --- The procedure that restores an older version


@procedure(
    "restore",
    "branch STRING, restored_version BIGINT, version BIGINT, indexes_lacking ARRAY<STRING>",
    TABLE,
    Parameter("ref", "STRING", "the version: a tag, 'exp@7' or a version of main", required=True),
)
def _restore(context: Context, given: Mapping[str, Any]) -> Rows:
    """Make an older version the newest one of its branch again, as a new version."""
    location = context.table(given["table"])
    return restore_rows(location, pin_of(location, given["ref"]), context.engine)


def restore_rows(location: DatasetLocation, pin: PinnedVersion, engine: Engine) -> Rows:
    """The result of a restore. Raises as ``restore_version``."""
    done = restore_version(location, pin, engine)
    yield {
        "branch": pin.branch or MAIN,
        "restored_version": pin.version,
        "version": done.version.version,
        "indexes_lacking": list(done.indexes_lacking),
    }


# --- The procedure that makes indexes

_FIRST_SETTINGS = ("metric", "num_partitions")
"""Those that have their place before the message."""


def _settings(*names: str) -> tuple[Parameter, ...]:
    types: Mapping[type, SqlType] = {int: "BIGINT", bool: "BOOLEAN"}
    return tuple(Parameter(name, types.get(SETTINGS[name], "STRING"), setting_help(name)) for name in names)


@procedure(
    "create_index",
    "name STRING, kind STRING, branch STRING, version BIGINT, rows BIGINT, segments BIGINT, bytes BIGINT, left STRING",
    TABLE,
    Parameter("column", "STRING", "the column", required=True),
    Parameter("kind", "STRING", "the kind, such as 'btree', 'inverted' or 'ivf_pq'", default="btree"),
    Parameter("name", "STRING", "the index's name; the column's with '_idx'"),
    Parameter("branch", "STRING", "the branch", default=MAIN),
    Parameter("replace", "BOOLEAN", "whether to rebuild an existing index", default=False),
    *_settings(*_FIRST_SETTINGS),
    Parameter("message", "STRING", "a message for the log"),
    *_settings(*(name for name in SETTINGS if name not in _FIRST_SETTINGS)),
)
def _create_index(context: Context, given: Mapping[str, Any]) -> Rows:
    """Create an index on a branch, built by the executors; of an inherited index, only the part it does not cover."""
    settings = {
        name: [word.strip() for word in given[name].split(",")] if type_ is list else given[name]
        for name, type_ in SETTINGS.items()
        if given[name] is not None
    }
    request = IndexRequest(given["column"], given["kind"], given["name"], given["replace"], settings, given["message"])
    made = create_index(context.table(given["table"]), branch_or_none(given["branch"]), request, context.engine)
    yield {
        "name": made.name,
        "kind": made.kind,
        "branch": made.version.branch or MAIN,
        "version": made.version.version,
        "rows": made.rows,
        "segments": made.segments,
        "bytes": made.bytes,
        "left": made.left,
    }


# --- The procedure that cleans up


@procedure(
    "cleanup",
    "branch STRING, kind STRING, outcome STRING, reason STRING, files BIGINT, bytes BIGINT, example STRING",
    TABLE,
    *parameters_of(CleanupPolicy),
    Parameter("dry_run", "BOOLEAN", "false to delete; true to only report what would be deleted", default=True),
)
def _cleanup(context: Context, given: Mapping[str, Any]) -> Rows:
    """Remove old versions and files that nothing needs; a dry run by default."""
    policy = typed_at("sql", CleanupPolicy, given)
    return cleanup_rows(context.table(given["table"]), policy, context.engine, not given["dry_run"])


def cleanup_rows(location: DatasetLocation, policy: CleanupPolicy, engine: Engine, execute: bool) -> Rows:
    """The files that a cleanup deletes, or would delete, by kind and reason. Raises as ``LanceTable.cleanup``."""
    plan = plan_cleanup(location, policy, engine, time.time_ns())
    try:
        report = plan.apply() if execute else plan.report()
    finally:
        plan.runner.release()
    rows = report.outcomes if report.executed else [row for row in report.planned if row["action"] != KEEP]
    for row in rows:
        outcome = row["outcome"] if report.executed else "would be deleted"
        told = {name: row[name] for name in ("branch", "kind", "reason", "files", "bytes", "example")}
        yield {**told, "outcome": outcome}


# --- The procedure that compacts a table


@procedure(
    "optimize",
    "branch STRING, version BIGINT, dry_run BOOLEAN, fragments_planned BIGINT, "
    "fragments_removed BIGINT, fragments_added BIGINT, rows BIGINT, bytes BIGINT, commits BIGINT, "
    "conflicts ARRAY<STRING>, indexes_rehomed ARRAY<STRING>, depth_before DOUBLE, "
    "depth_after DOUBLE, indexes_uncovered ARRAY<STRING>",
    TABLE,
    Parameter("branch", "STRING", "the branch", default=MAIN),
    *parameters_of(OptimizeOptions),
)
def _optimize(context: Context, given: Mapping[str, Any]) -> Rows:
    """Rewrite small fragments, and those with many deleted rows, into larger ones; no row changes."""
    options = typed_at("sql", OptimizeOptions, given)
    yield optimize(context.table(given["table"]), branch_or_none(given["branch"]), options, context.engine).as_record()


# --- The procedure that checks and repairs a table

STEP, RECORD = "step", "record"
"""Severities of the rows about a repair."""


@procedure(
    "fsck",
    "severity STRING, code STRING, path STRING, refs ARRAY<STRING>, rows BIGINT, says STRING, do STRING",
    TABLE,
    *parameters_of(FsckOptions),
    Parameter("repair", "BOOLEAN", "whether to repair what can be repaired", default=False),
    *parameters_of(RepairOptions),
)
def _fsck(context: Context, given: Mapping[str, Any]) -> Rows:
    """Check for missing or damaged files of any version; make repairs that can be undone."""
    options, repair = typed_at("sql", FsckOptions, given), typed_at("sql", RepairOptions, given)
    repair = repair if given["repair"] else replace(repair, dry_run=True)
    location = context.table(given["table"])
    report = fsck_and_repair(location, options, repair, context.engine, time.time_ns())
    return [*_findings(report), *(_steps(report) if given["repair"] else ())]


def _findings(report: FsckReport) -> Rows:
    beyond = (
        {} if report.repair is None else {(one.finding.code, one.finding.path): one for one in report.repair.beyond}
    )
    for finding in report.findings:
        left = beyond.get((finding.code, finding.path))
        yield {
            "severity": finding.severity,
            "code": finding.code,
            "path": finding.path,
            "refs": list(finding.refs),
            "rows": finding.rows,
            "says": finding.says,
            "do": left.why if left else "repair => true",
        }


def _steps(report: FsckReport) -> Rows:
    nothing: dict[str, Any] = {"refs": [], "rows": None}
    done = report.repaired.outcomes if report.repaired else ()
    for number, step in enumerate(report.repair.steps if report.repair else ()):
        state = f"{done[number].state} {done[number].why}".strip() if done else "would be done"
        yield {**nothing, "severity": STEP, "code": step.kind, "path": step.path, "says": str(step), "do": state}
    if report.repaired and report.repaired.record:
        record = report.repaired.record
        told = {"says": report.repaired.summary(), "do": f"lance-git fsck --undo {record}"}
        yield {**nothing, "severity": RECORD, "code": "repair", "path": record, **told}


# --- The procedures for the cost of refs, and for expired refs


@procedure("storage", USAGE, TABLE, *parameters_of(CleanupPolicy, "clones", "clones_from"))
def _storage(context: Context, given: Mapping[str, Any]) -> Rows:
    """Report the cost of each branch, tag and clone of a table, and what deleting it would free."""
    report = storage(context.table(given["table"]), typed_at("sql", CleanupPolicy, given), context.engine)
    yield from report.to_arrow().to_pylist()


@procedure(
    "expire_refs",
    "kind STRING, name STRING, at STRING, expires TIMESTAMP, state STRING, outcome STRING, why STRING",
    TABLE,
    *parameters_of(ExpiryOptions),
    Parameter("dry_run", "BOOLEAN", "false to warn and delete; true to only report what would happen", default=True),
)
def _expire(context: Context, given: Mapping[str, Any]) -> Rows:
    """Warn about branches and tags that expire soon, and delete those already warned about; a dry run by default."""
    location, now = context.table(given["table"]), datetime.now(timezone.utc)
    options = typed_at("sql", ExpiryOptions, given)
    plan = plan_expiry(location, now, options)
    outcomes = {}
    if not given["dry_run"]:
        outcomes = {(each.kind, each.name): each for each in carry_out(location, plan, now).outcomes}
    for entry in plan.entries:
        if entry.state == KEPT and entry.record.expires_at is None:
            continue
        ended = outcomes.get(entry.key)
        yield {
            "kind": entry.record.kind,
            "name": entry.record.name,
            "at": entry.record.at,
            "expires": entry.record.expires_at,
            "state": entry.state,
            "outcome": None if ended is None else ended.outcome,
            "why": entry.why if ended is None else ended.why or entry.why,
        }


# --- The procedure that clones a table

_CLONE_COLUMNS = table_of(
    "source STRING, target STRING, branch STRING, version BIGINT, source_version STRING, "
    "rows BIGINT, files BIGINT, bytes BIGINT, deep BOOLEAN, dry_run BOOLEAN"
)


@procedure(
    "clone",
    _CLONE_COLUMNS,
    TABLE,
    Parameter("target", "STRING", "the path or URI of the new dataset", required=True),
    Parameter("ref", "STRING", f"the version that its branch starts with: {REFS}", default=MAIN),
    *parameters_of(CloneOptions),
)
def _clone(context: Context, given: Mapping[str, Any]) -> Rows:
    """Create a dataset that follows a table, as its remote 'origin'."""
    location = context.table(given["table"])
    options = typed_at("sql", CloneOptions, given)
    pin, target = pin_of(location, given["ref"]), context.place(given["target"])
    done = clone(Remote(ORIGIN, location), pin, target, context.engine, options)
    yield {name: getattr(done, name) for name in _CLONE_COLUMNS.names}


# --- The procedure that migrates a V1 catalog to V2


@procedure(
    "migrate",
    "table STRING, state STRING, reason STRING",
    Parameter("dry_run", "BOOLEAN", "whether to change nothing, and only show the planned changes", default=False),
)
def _migrate(context: Context, given: Mapping[str, Any]) -> Rows:
    """Record all tables that are only directories (V1) in the catalog (V2), in one commit."""
    done = migrate(context.need_catalog("migrate"), given["dry_run"])
    for name in done.tables:
        yield {"table": str(name), "state": done.state}
    for skipped in done.skipped:
        yield {"table": skipped.directory, "state": "skipped", "reason": skipped.why}
