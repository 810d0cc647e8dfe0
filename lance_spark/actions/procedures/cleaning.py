"""The procedure that removes old versions, and files that nothing needs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from lance_spark.actions.cleanup.plan import plan_cleanup
from lance_spark.actions.procedures.procedure import TABLE, Context, Parameter, Procedure, Rows
from lance_spark.cleanup.policy import CleanupPolicy, of_branches
from lance_spark.cleanup.sweep import KEEP
from lance_spark.location import DatasetLocation
from lance_spark.options.text import to_span
from lance_spark.runner.interface import Engine


def _cleanup(context: Context, given: Mapping[str, Any]) -> Rows:
    return cleanup_rows(context.table(given["table"]), _policy(given), context.engine, given["execute"])


def cleanup_rows(location: DatasetLocation, policy: CleanupPolicy, engine: Engine, execute: bool) -> Rows:
    """What a cleanup deletes, or would delete, by kind and reason. Raises as ``LanceTable.cleanup``."""
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


def _policy(given: Mapping[str, Any]) -> CleanupPolicy:
    wanted: dict[str, Any] = {"retain_versions": given["retain_versions"]}
    for name in ("older_than", "commit_window"):
        if given[name] is not None:
            wanted[name] = to_span(name, given[name])
    names = [name.strip() for name in (given["branches"] or "").split(",") if name.strip()]
    return of_branches(replace(CleanupPolicy(), **wanted), names)


CLEANUP = Procedure(
    "cleanup",
    "Remove old versions, and files that nothing needs; says what would go unless it is told to execute.",
    (
        TABLE,
        Parameter("older_than", "STRING", "the age of versions that go, such as '36h'; 14 days if nothing is given"),
        Parameter("retain_versions", "BIGINT", "how many of the newest versions of each branch stay"),
        Parameter("commit_window", "STRING", "the age up to which versions stay in any case; a day"),
        Parameter("execute", "BOOLEAN", "whether to delete", default=False),
        Parameter("branches", "STRING", "branches or patterns that alone are cleaned, with commas in between; all"),
    ),
    pa.schema(
        [
            ("branch", pa.string()),
            ("kind", pa.string()),
            ("outcome", pa.string()),
            ("reason", pa.string()),
            ("files", pa.int64()),
            ("bytes", pa.int64()),
            ("example", pa.string()),
        ]
    ),
    _cleanup,
)
