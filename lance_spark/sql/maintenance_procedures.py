"""Procedures for upkeep: cleanup, optimize, indexes, fsck, disk usage, expiry; and all procedures by name."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from lance_spark.cleanup.cleanup import plan_cleanup
from lance_spark.cleanup.rules import CleanupPolicy
from lance_spark.cleanup.sweep_rules import KEEP
from lance_spark.core.declared import typed_at
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import MAIN, branch_or_none
from lance_spark.core.show import meant
from lance_spark.disk_usage.disk_usage import storage
from lance_spark.disk_usage.report import USAGE
from lance_spark.engine.local import Engine
from lance_spark.errors import NotFound
from lance_spark.fsck.option_rules import FsckOptions, RepairOptions
from lance_spark.fsck.repair import fsck_and_repair
from lance_spark.fsck.report import FsckReport
from lance_spark.indexes.indexes import create_index
from lance_spark.indexes.rules import SETTINGS, IndexRequest, setting_help
from lance_spark.maintenance.expiry import carry_out, plan_expiry
from lance_spark.maintenance.expiry_rules import KEPT, ExpiryOptions
from lance_spark.optimize.optimize import optimize
from lance_spark.optimize.rules import OptimizeOptions
from lance_spark.sql.procedures import (
    CHERRY_PICK,
    CLONE,
    CREATE_BRANCH,
    CREATE_TAG,
    DROP_BRANCH,
    DROP_TAG,
    MERGE_BRANCH,
    MIGRATE,
    RESTORE,
    REVERT,
    TABLE,
    Context,
    Parameter,
    Procedure,
    Rows,
    SqlType,
    parameters_of,
    table_of,
)


def _cleanup(context: Context, given: Mapping[str, Any]) -> Rows:
    policy = typed_at("sql", CleanupPolicy, given)
    return cleanup_rows(context.table(given["table"]), policy, context.engine, given["execute"])


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


CLEANUP = Procedure(
    "cleanup",
    "Remove old versions and files that nothing needs; only reports them unless execute is true.",
    (
        TABLE,
        *parameters_of(CleanupPolicy),
        Parameter("execute", "BOOLEAN", "whether to delete", default=False),
    ),
    table_of("branch STRING, kind STRING, outcome STRING, reason STRING, files BIGINT, bytes BIGINT, example STRING"),
    _cleanup,
)


# --- The procedure that compacts a table


def _optimize(context: Context, given: Mapping[str, Any]) -> Rows:
    options = typed_at("sql", OptimizeOptions, given)
    yield optimize(context.table(given["table"]), branch_or_none(given["branch"]), options, context.engine).as_record()


OPTIMIZE = Procedure(
    "optimize",
    "Rewrite small fragments, and those with many deleted rows, into larger ones; no row changes.",
    (
        TABLE,
        Parameter("branch", "STRING", "the branch", default=MAIN),
        *parameters_of(OptimizeOptions),
    ),
    table_of(
        "branch STRING, version BIGINT, dry_run BOOLEAN, fragments_planned BIGINT, "
        "fragments_removed BIGINT, fragments_added BIGINT, rows BIGINT, bytes BIGINT, commits BIGINT, "
        "conflicts ARRAY<STRING>, indexes_rehomed ARRAY<STRING>, depth_before DOUBLE, "
        "depth_after DOUBLE, indexes_uncovered ARRAY<STRING>"
    ),
    _optimize,
)


# --- The procedure that makes indexes


def _create(context: Context, given: Mapping[str, Any]) -> Rows:
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


def _settings(*names: str) -> tuple[Parameter, ...]:
    types: Mapping[type, SqlType] = {int: "BIGINT", bool: "BOOLEAN"}
    return tuple(Parameter(name, types.get(SETTINGS[name], "STRING"), setting_help(name)) for name in names)


_FIRST_SETTINGS = ("metric", "num_partitions")
"""Those that have their place before the message."""
CREATE_INDEX = Procedure(
    "create_index",
    "Create an index on a branch, built by the executors; of an inherited index, only the part it does not cover.",
    (
        TABLE,
        Parameter("column", "STRING", "the column", required=True),
        Parameter("kind", "STRING", "the kind, such as 'btree', 'inverted' or 'ivf_pq'", default="btree"),
        Parameter("name", "STRING", "the index's name; the column's with '_idx'"),
        Parameter("branch", "STRING", "the branch", default=MAIN),
        Parameter("replace", "BOOLEAN", "whether to rebuild an existing index", default=False),
        *_settings(*_FIRST_SETTINGS),
        Parameter("message", "STRING", "a message for the log"),
        *_settings(*(name for name in SETTINGS if name not in _FIRST_SETTINGS)),
    ),
    table_of(
        "name STRING, kind STRING, branch STRING, version BIGINT, rows BIGINT, segments BIGINT, "
        "bytes BIGINT, left STRING"
    ),
    _create,
)


# --- The procedure that checks and repairs a table

STEP, RECORD = "step", "record"
"""Severities of the rows about a repair."""


def _fsck(context: Context, given: Mapping[str, Any]) -> Rows:
    repair = typed_at("sql", RepairOptions, given, dry_run=not given["execute"])
    options = typed_at("sql", FsckOptions, given)
    location = context.table(given["table"])
    report = fsck_and_repair(location, options, repair, context.engine, time.time_ns())
    return [*_findings(report), *(_steps(report) if given["repair"] or given["execute"] else ())]


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
        state = f"{done[number].state} {done[number].why}".strip() if done else "would be done: execute => true"
        yield {**nothing, "severity": STEP, "code": step.kind, "path": step.path, "says": str(step), "do": state}
    if report.repaired and report.repaired.record:
        record = report.repaired.record
        told = {"says": report.repaired.summary(), "do": f"lance-git fsck --undo {record}"}
        yield {**nothing, "severity": RECORD, "code": "repair", "path": record, **told}


FSCK = Procedure(
    "fsck",
    "Check for missing or damaged files of any version; make repairs that can be undone.",
    (
        TABLE,
        *parameters_of(FsckOptions),
        Parameter("repair", "BOOLEAN", "whether to plan repairs", default=False),
        Parameter("execute", "BOOLEAN", "whether to execute the planned repairs", default=False),
        *parameters_of(RepairOptions),
    ),
    table_of("severity STRING, code STRING, path STRING, refs ARRAY<STRING>, rows BIGINT, says STRING, do STRING"),
    _fsck,
)


# --- The procedures for the cost of refs, and for expired refs


def _storage(context: Context, given: Mapping[str, Any]) -> Rows:
    report = storage(context.table(given["table"]), typed_at("sql", CleanupPolicy, given), context.engine)
    yield from report.to_arrow().to_pylist()


STORAGE = Procedure(
    "storage",
    "Report the cost of each branch, tag and clone of a table, and what deleting it would free.",
    (TABLE, *parameters_of(CleanupPolicy, "clones", "clones_from")),
    USAGE,
    _storage,
)


def _expire(context: Context, given: Mapping[str, Any]) -> Rows:
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


EXPIRE_REFS = Procedure(
    "expire_refs",
    "Warn about branches and tags that expire soon, and delete those already warned about; a dry run by default.",
    (
        TABLE,
        *parameters_of(ExpiryOptions),
        Parameter(
            "dry_run", "BOOLEAN", "false to warn and delete; true to only report what would happen", default=True
        ),
    ),
    table_of("kind STRING, name STRING, at STRING, expires TIMESTAMP, state STRING, outcome STRING, why STRING"),
    _expire,
)


# --- All procedures, by name

PROCEDURES: Mapping[str, Procedure] = {
    found.name: found
    for found in (
        CREATE_BRANCH,
        DROP_BRANCH,
        CREATE_TAG,
        DROP_TAG,
        MERGE_BRANCH,
        CHERRY_PICK,
        REVERT,
        RESTORE,
        CREATE_INDEX,
        CLEANUP,
        OPTIMIZE,
        FSCK,
        STORAGE,
        EXPIRE_REFS,
        CLONE,
        MIGRATE,
    )
}


def find_procedure(name: str) -> Procedure:
    """The procedure of that name, ignoring case. Raises NotFound with near names."""
    found = PROCEDURES.get(name.lower())
    if found is None:
        raise NotFound(f"There is no procedure {name}.", hint=meant(name, sorted(PROCEDURES)))
    return found
