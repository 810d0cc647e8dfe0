"""Stored reports of checks and maintenance: what they say of each table, and how a page shows them. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lance_spark.core.show import Grid
from lance_spark.core.texts import counted, masked, moment, readable

SOUND, ATTENTION, DAMAGED, UNKNOWN = "sound", "attention", "damaged", "unknown"
UNREADABLE = "unreadable"
"""The kind of a report that is none."""
_ORDER = (UNKNOWN, SOUND, ATTENTION, DAMAGED)
_MOST = 100
"""Problems of one report that a page lists."""


@dataclass(frozen=True)
class Health:
    state: str = UNKNOWN
    said: str = "not in a report"


@dataclass(frozen=True)
class StoredReport:
    """One report that a job or a command wrote."""

    path: str
    what: str
    """``check``, ``maintenance``, ``cleanup``, or ``unreadable``."""
    summary: str
    problems: Grid
    by_table: Mapping[str, Health]
    """By the name of a table and by its URI."""
    about: str = ""
    """The lake or the dataset; "" if it does not say."""


def newest(reports: Sequence[StoredReport], about: str = "") -> tuple[StoredReport, ...]:
    """The newest of each kind and subject among reports that come newest first; with ``about``, those of one place."""
    found: dict[tuple[str, str], StoredReport] = {}
    for report in reports:
        if report.what != UNREADABLE and (not about or report.about.rstrip("/") == about.rstrip("/")):
            found.setdefault((report.what, report.about), report)
    return tuple(found.values())


def health_of(reports: Iterable[StoredReport], *names: str) -> Health:
    """The worst that the reports say of a table, which is known under these names."""
    found = [report.by_table[name] for report in reports for name in names if name in report.by_table]
    return max(found, key=lambda health: _ORDER.index(health.state), default=Health())


def read_report(path: str, text: str | None) -> StoredReport:
    """A report from its JSON; one that is missing or of an unknown kind says so."""
    try:
        document = None if text is None else json.loads(text)
    except ValueError:
        return _unreadable(path, "it is not JSON")
    if document is None:
        return _unreadable(path, "there is no such file")
    if not isinstance(document, Mapping):
        return _unreadable(path, "it is not a report of this package")
    try:
        for matches, read in _KINDS:
            if matches <= document.keys():
                return read(path, document)
    except (KeyError, TypeError, ValueError, AttributeError):
        return _unreadable(path, "it has another shape than the reports of this version")
    return _unreadable(path, "it is not a report of a check, a maintenance or a cleanup")


def _unreadable(path: str, why: str) -> StoredReport:
    return StoredReport(masked(path), UNREADABLE, f"This report cannot be shown: {why}.", Grid((), ()), {})


def _findings(findings: Iterable[Mapping[str, Any]]) -> tuple[Health, list[tuple[str, str, str]]]:
    """The health that findings mean, and a line for each that is no mere note."""
    bad = [each for each in findings if each["severity"] != "note"]
    rows = [(str(each["severity"]), str(each["path"]), str(each["says"])) for each in bad]
    if not rows:
        return Health(SOUND, "sound at the last check"), []
    errors = sum(severity == "error" for severity, _, _ in rows)
    said = (
        f"{counted(errors, 'error')} at the last check"
        if errors
        else f"{counted(len(rows), 'warning')} at the last check"
    )
    return Health(DAMAGED if errors else ATTENTION, said), rows


def _of_check(path: str, document: Mapping[str, Any]) -> StoredReport:
    health, rows = _findings(document["findings"])
    summary = f"{masked(document['dataset'])}: {health.said}, {counted(document['versions'], 'version')} read"
    grid = Grid(("severity", "where", "what"), tuple(rows[:_MOST]))
    return StoredReport(masked(path), "check", summary, grid, {document["dataset"]: health}, document["dataset"])


def _of_lake_check(path: str, document: Mapping[str, Any]) -> StoredReport:
    by_table: dict[str, Health] = {}
    lines = [("the catalog", *row) for row in _findings(document["findings"])[1]]
    for table in document["tables"]:
        health, rows = _findings(table["findings"])
        if table["error"]:
            health = Health(DAMAGED, f"could not be checked: {table['error']}")
            rows = [("error", "", table["error"]), *rows]
        by_table[table["table"]] = by_table[table["uri"]] = health
        lines += [(table["table"], *row) for row in rows]
    bad = sum(health.state == DAMAGED for name, health in by_table.items() if "/" not in name)
    summary = f"{counted(len(document['tables']), 'table')} checked, {bad:,} damaged"
    grid = Grid(("table", "severity", "where", "what"), tuple(lines[:_MOST]))
    return StoredReport(masked(path), "check", summary, grid, by_table, document["catalog"])


def _of_maintenance(path: str, document: Mapping[str, Any]) -> StoredReport:
    by_table: dict[str, Health] = {}
    for table in document["tables"]:
        problems = [table["error"]] if table["error"] else []
        problems += [
            f"{step['step']}: {step['state']}" for step in table["steps"] if step["state"] in ("failed", "blocked")
        ]
        findings = table["findings"]
        health = Health(SOUND, "maintained")
        if findings.get("error"):
            health = Health(DAMAGED, f"{counted(findings['error'], 'error')} found by the maintenance")
        elif problems:
            health = Health(ATTENTION, problems[0])
        by_table[table["table"]] = by_table[table["uri"]] = health
    when = moment(datetime.fromisoformat(document["started"]))
    did = "freed" if document["executed"] else "would free"
    summary = f"{counted(len(document['tables']), 'table')}, began {when}, {did} {readable(document['freed_bytes'])}"
    summary += "" if document["finished"] else "; not finished"
    rows = [(each["name"], each["problem"]) for each in document["problems"]]
    grid = Grid(("table", "problem"), tuple(rows[:_MOST]))
    return StoredReport(masked(path), "maintenance", summary, grid, by_table, document["root"])


def _of_cleanup(path: str, document: Mapping[str, Any]) -> StoredReport:
    totals = document["totals"]
    did = "deleted" if document["executed"] else "would be deleted"
    summary = f"{counted(totals['files'], 'file')}, {readable(totals['bytes'])} {did}"
    rows = tuple((each["table"], each["error"]) for each in document["tables"] if each["error"])
    by_table = {table: Health(ATTENTION, f"not cleaned: {error}") for table, error in rows}
    return StoredReport(masked(path), "cleanup", summary, Grid(("table", "problem"), rows[:_MOST]), by_table)


_KINDS = (
    (frozenset({"dataset", "findings", "sound"}), _of_check),
    (frozenset({"catalog", "tables", "findings"}), _of_lake_check),
    (frozenset({"root", "tables", "problems", "started"}), _of_maintenance),
    (frozenset({"executed", "totals", "tables"}), _of_cleanup),
)
"""The keys that tell a kind of report, and what reads it."""
