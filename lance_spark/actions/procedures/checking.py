"""The procedure that checks a table, and repairs what can be taken back."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from lance_spark.actions.fsck.fsck import FsckOptions
from lance_spark.actions.fsck.repairing import RepairOptions, fsck_and_repair
from lance_spark.actions.procedures.procedure import TABLE, Context, Parameter, Procedure, Rows
from lance_spark.checkup.report import FsckReport

STEP, RECORD = "step", "record"
"""Severities of the rows about a repair."""


def _fsck(context: Context, given: Mapping[str, Any]) -> Rows:
    repair = RepairOptions(given["on_main"], dry_run=not given["execute"])
    location, options = context.table(given["table"]), FsckOptions(given["deep"])
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
    "Check that nothing that any version names is missing or damaged; repair what can be taken back.",
    (
        TABLE,
        Parameter("deep", "BOOLEAN", "whether files are opened as well", default=False),
        Parameter("repair", "BOOLEAN", "whether to say what can be repaired", default=False),
        Parameter("execute", "BOOLEAN", "whether to repair it", default=False),
        Parameter("on_main", "BOOLEAN", "whether a repair may change branches themselves", default=False),
    ),
    pa.schema(
        [
            ("severity", pa.string()),
            ("code", pa.string()),
            ("path", pa.string()),
            ("refs", pa.list_(pa.string())),
            ("rows", pa.int64()),
            ("says", pa.string()),
            ("do", pa.string()),
        ]
    ),
    _fsck,
)
