"""Procedures for a table: refs, merges, indexes, upkeep and clones. Those for a whole lake: see lake_procedures.py."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime, timezone
from typing import Any

from lance_spark.cleanup.cleanup import plan_cleanup
from lance_spark.cleanup.retention_rules import CleanupPolicy
from lance_spark.cleanup.sweep_rules import KEEP
from lance_spark.core.declared import typed_at
from lance_spark.core.location import DatasetLocation
from lance_spark.core.ref_expressions import MARK
from lance_spark.core.ref_names import branch_or_none
from lance_spark.core.refs import MAIN, PinnedVersion, RefSpec
from lance_spark.core.show import fields_of
from lance_spark.disk_usage.disk_usage import storage
from lance_spark.disk_usage.report import USAGE
from lance_spark.engine.local import Engine
from lance_spark.errors import Refused
from lance_spark.fsck.option_rules import FsckOptions, RepairOptions
from lance_spark.fsck.repair import fsck_and_repair
from lance_spark.fsck.report import FsckReport
from lance_spark.indexes.index_rules import SETTINGS, IndexRequest, setting_help
from lance_spark.indexes.indexes import create_index
from lance_spark.maintenance.expiry import carry_out, plan_expiry
from lance_spark.maintenance.expiry_rules import KEPT, ExpiryOptions
from lance_spark.merge import merge
from lance_spark.merge.option_rules import MergeOptions
from lance_spark.merge.report import MergeResult
from lance_spark.merge.restore import restore_version
from lance_spark.optimize.analyzing import analyze
from lance_spark.optimize.compaction_rules import OptimizeOptions
from lance_spark.optimize.optimize import optimize
from lance_spark.refs import refs
from lance_spark.remotes.clone import clone
from lance_spark.remotes.fetch import Remote
from lance_spark.remotes.fetch_rules import CloneOptions
from lance_spark.sql import lake_procedures as lake_procedures  # declares those for a whole lake
from lance_spark.sql.declaring import (
    BY_DEFAULT,
    REFS,
    TABLE,
    Context,
    Parameter,
    Rows,
    SqlType,
    parameters_of,
    pin_of,
    procedure,
    table_of,
)
from lance_spark.sql.declaring import PROCEDURES as PROCEDURES
from lance_spark.storage.followers import ORIGIN
from lance_spark.storage.resolving import resolve

# --- Procedures for branches

_NAME = Parameter("name", "STRING", "the branch's name", required=True)


@procedure(
    "create_branch",
    "name STRING, parent_branch STRING, parent_version BIGINT",
    TABLE,
    _NAME,
    Parameter("from", "STRING", f"where it starts: {REFS}; {BY_DEFAULT}"),
)
def _create_branch(context: Context, given: Mapping[str, Any]) -> Rows:
    """Create a branch."""
    location, pin = context.to_read(given["table"], given["from"])
    made = refs.create_branch(location, given["name"], RefSpec(branch=pin.branch, version=pin.version))
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
    Parameter("ref", "STRING", f"what to tag: {REFS}; {BY_DEFAULT}"),
)
def _create_tag(context: Context, given: Mapping[str, Any]) -> Rows:
    """Tag a version; an existing tag is never moved."""
    location, pin = context.to_read(given["table"], given["ref"])
    refs.create_tag(location, given["name"], RefSpec(branch=pin.branch, version=pin.version))
    yield {"name": given["name"], "branch": pin.branch or MAIN, "version": pin.version}


@procedure("drop_tag", "name STRING", TABLE, _TAG_NAME, _FORCE)
def _drop_tag(context: Context, given: Mapping[str, Any]) -> Rows:
    """Delete a tag."""
    refs.delete_tag(context.table(given["table"]), given["name"], given["force"])
    yield {"name": given["name"]}


# --- Procedures that move changes between branches, or undo them

_COLUMNS = table_of(
    "action STRING, into STRING, source STRING, base STRING, version BIGINT, fast_forward BOOLEAN, "
    "up_to_date BOOLEAN, dry_run BOOLEAN, rows_added BIGINT, rows_deleted BIGINT, "
    "fragments_changed BIGINT, columns_added ARRAY<STRING>, columns_dropped ARRAY<STRING>, "
    "conflicts ARRAY<STRING>, indexes_carried ARRAY<STRING>, indexes_missing ARRAY<STRING>, "
    "notes ARRAY<STRING>"
)
_REPLAYING = parameters_of(MergeOptions, "message", "dry_run", "conflicts", "on", "prefer")
_INTO = Parameter("into", "STRING", f"the branch that gets the changes; {BY_DEFAULT}")


def _row(result: MergeResult, table: str) -> dict[str, Any]:
    told = result.said("sql", table)
    notes = [*told.notes, *([f"hint: {told.hint}"] if told.hint else [])]
    conflicts = ["\n".join(conflict.lines()) for conflict in told.conflicts]
    found = {**told.as_record(), "conflicts": conflicts, "notes": notes}
    return {name: found[name] for name in _COLUMNS.names}


@procedure(
    "merge_branch",
    _COLUMNS,
    TABLE,
    Parameter("branch", "STRING", "the branch to merge, or a version of it, such as 'exp@7'", required=True),
    _INTO,
    *parameters_of(MergeOptions),
)
def _merge(context: Context, given: Mapping[str, Any]) -> Rows:
    """Merge a branch into another one, as one version."""
    location, into = context.to_change(given["table"], given["into"])
    name = given["branch"]
    source = pin_of(location, name) if "@" in name else resolve(location, RefSpec(branch=branch_or_none(name)))
    yield _row(
        merge.merge(location, source, into, typed_at("sql", MergeOptions, given), context.engine), given["table"]
    )


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
    location, into = context.to_change(given["table"], given["into"])
    options = typed_at("sql", MergeOptions, given)
    yield _row(
        merge.cherry_pick(location, pin_of(location, given["ref"]), into, context.engine, options), given["table"]
    )


@procedure(
    "revert",
    _COLUMNS,
    TABLE,
    Parameter("version", "BIGINT", "the version to undo", required=True),
    Parameter("branch", "STRING", f"the branch it is on; {BY_DEFAULT}"),
    *parameters_of(MergeOptions, "message", "dry_run", "on", "prefer"),
)
def _revert(context: Context, given: Mapping[str, Any]) -> Rows:
    """Commit the inverse of one of a branch's versions to that branch."""
    location, branch = context.to_change(given["table"], given["branch"])
    pin = resolve(location, RefSpec(branch=branch, version=given["version"]))
    yield _row(
        merge.revert(location, pin, branch, context.engine, typed_at("sql", MergeOptions, given)), given["table"]
    )


# --- The procedure that restores an older version


@procedure(
    "restore",
    "branch STRING, restored_version BIGINT, version BIGINT, indexes_lacking ARRAY<STRING>",
    TABLE,
    Parameter("ref", "STRING", "the version: a tag, 'exp@7' or a version of main", required=True),
)
def _restore(context: Context, given: Mapping[str, Any]) -> Rows:
    """Make an older version the newest one of its branch again, as a new version."""
    location, pin = context.to_read(given["table"], given["ref"])
    if context.is_at_lake_ref:
        check_version_of(pin, context.to_change(given["table"], None)[1])
    return restore_rows(location, pin, context.engine)


def check_version_of(pin: PinnedVersion, branch: str | None) -> None:
    """Raise Refused for a version of another branch than the one to restore."""
    if pin.branch != branch:
        raise Refused(
            f"{pin} is a version of branch '{pin.branch or MAIN}', not an older one of '{branch or MAIN}'.",
            hint="Restore a version of the branch itself, or name the other branch: RESTORE TABLE "
            f"`table{MARK}{pin.branch or MAIN}` TO VERSION AS OF {pin.version}.",
        )


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
    Parameter("branch", "STRING", f"the branch; {BY_DEFAULT}"),
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
    made = create_index(*context.to_change(given["table"], given["branch"]), request, context.engine)
    told = fields_of(made, "name", "kind", "rows", "segments", "bytes", "left")
    yield {**told, "branch": made.version.branch or MAIN, "version": made.version.version}


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
    Parameter("branch", "STRING", f"the branch; {BY_DEFAULT}"),
    *parameters_of(OptimizeOptions),
)
def _optimize(context: Context, given: Mapping[str, Any]) -> Rows:
    """Rewrite small fragments, and those with many deleted rows, into larger ones; no row changes."""
    options = typed_at("sql", OptimizeOptions, given)
    location, branch = context.to_change(given["table"], given["branch"])
    yield optimize(location, branch, options, context.engine).as_record()


# --- The procedure that measures columns


@procedure(
    "analyze",
    "col_name STRING, distinct_count BIGINT, num_nulls BIGINT, min STRING, max STRING, avg_col_len BIGINT, "
    "max_col_len BIGINT, histogram BOOLEAN",
    TABLE,
    Parameter("columns", "ARRAY<STRING>", "the columns; by default all of which something can be counted"),
    Parameter("ref", "STRING", f"the version: {REFS}; {BY_DEFAULT}"),
    Parameter("histograms", "BOOLEAN", "whether to measure how values are distributed", default=False),
)
def _analyze(context: Context, given: Mapping[str, Any]) -> Rows:
    """Measure columns for Spark's optimizer, where that is missing; no version is committed."""
    location, pin = context.to_read(given["table"], given["ref"])
    return statistics_rows(location, pin, given["columns"], context.engine, bool(given["histograms"]))


def statistics_rows(
    location: DatasetLocation, pin: PinnedVersion, columns: Sequence[str] | None, engine: Engine, histograms: bool
) -> Rows:
    """The statistics of columns, or of all. Raises as ``LanceTable.analyze``."""
    for each in analyze(location, pin, columns, engine, histograms).columns:
        yield asdict(each)


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
        told = fields_of(finding, "severity", "code", "path", "rows", "says")
        yield {**told, "refs": list(finding.refs), "do": left.why if left else "repair => true"}


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
            **fields_of(entry.record, "kind", "name", "at"),
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
    Parameter("ref", "STRING", f"the version that its branch starts with: {REFS}; {BY_DEFAULT}"),
    *parameters_of(CloneOptions),
)
def _clone(context: Context, given: Mapping[str, Any]) -> Rows:
    """Create a dataset that follows a table, as its remote 'origin'."""
    location, pin = context.to_read(given["table"], given["ref"])
    options, target = typed_at("sql", CloneOptions, given), context.place(given["target"])
    done = clone(Remote(ORIGIN, location), pin, target, context.engine, options)
    yield fields_of(done, *_CLONE_COLUMNS.names)
