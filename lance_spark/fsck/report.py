"""Reports of checks, of a dataset and of a catalog, for people and programs. Pure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import pyarrow as pa

from lance_spark.catalog.doctor_rules import UNREGISTERED, Finding
from lance_spark.core.records.finding_codes import ERROR, SEVERITIES, UNREACHABLE
from lance_spark.core.show import Card, Grid, Report, fields_of
from lance_spark.core.texts import counted, few
from lance_spark.core.words import ASKED_OF_REPORTS, OF_FSCK_REPORTS
from lance_spark.errors import CorruptData, LanceSparkError, StorageFailure
from lance_spark.fsck.finding_rules import CheckFinding
from lance_spark.fsck.repair_rules import RepairPlan, RepairResult

FINDINGS = pa.schema(
    [
        ("severity", pa.string()),
        ("code", pa.string()),
        ("path", pa.string()),
        ("refs", pa.list_(pa.string())),
        ("rows", pa.int64()),
        ("files", pa.int64()),
        ("says", pa.string()),
        ("do", pa.string()),
    ]
)
_MOST_REFS = 4


@dataclass(frozen=True, repr=False)
class FsckReport(Report):
    """What a check found. Notes are not damage: a sound dataset may have some."""

    _words, _asked = OF_FSCK_REPORTS, ASKED_OF_REPORTS

    dataset: str
    deep: bool
    findings: tuple[CheckFinding, ...]
    """The worst first."""
    versions: int = 0
    """Number of manifests that were read."""
    files: int = 0
    """Number of files that were listed."""
    ran_on: str = ""
    """Where the work ran: "local", threads of one process, or "spark"."""
    complete: bool = True
    """False if the record of a clone is unreadable, so that the clone was not checked."""
    repair: RepairPlan | None = field(default=None, compare=False)
    repaired: RepairResult | None = field(default=None, compare=False)
    frame: Callable[[pa.Table], Any] | None = field(default=None, compare=False)

    @property
    def sound(self) -> bool:
        """Whether nothing is damaged and everything was readable. Warnings and notes are allowed."""
        return self.exit_code == 0

    @property
    def exit_code(self) -> int:
        """22 if something is damaged or missing, else 20 if something could not be examined, else 0."""
        found = {finding.severity for finding in self.findings}
        if ERROR in found:
            return CorruptData.exit_code
        return StorageFailure.exit_code if UNREACHABLE in found else 0

    def with_repair(self, plan: RepairPlan, result: RepairResult | None) -> FsckReport:
        """The same report with what can be, or was, repaired."""
        return replace(self, repair=plan, repaired=result)

    def exit_code_after_repair(self, partly: int) -> int:
        """0 if all damage is repaired, ``partly`` if some of it is, otherwise like :attr:`exit_code`."""
        if self.repair is None or self.repaired is None or not self.repaired.record:
            return self.exit_code
        left = any(one.finding.severity in (ERROR, UNREACHABLE) for one in self.repair.beyond)
        return partly if left or not self.repaired.complete else 0

    def to_arrow(self) -> pa.Table:
        """``findings`` as an Arrow table."""
        return pa.Table.from_pylist([_row(finding) for finding in self.findings], FINDINGS)

    def to_df(self) -> Any:
        """``findings`` as a DataFrame, or as an Arrow table without a session."""
        return self.to_arrow() if self.frame is None else self.frame(self.to_arrow())

    def as_document(self) -> dict[str, Any]:
        return {
            **fields_of(self, "dataset", "deep", "sound", "complete", "exit_code", "versions", "files"),
            "findings": [{**asdict(finding), **_row(finding)} for finding in self.findings],
            "ran_on": self.ran_on,
            **self._repair(),
        }

    def _repair(self) -> dict[str, Any]:
        if self.repair is None:
            return {}
        plan = self.repair
        beyond = [{"code": one.finding.code, "path": one.finding.path, "why": one.why} for one in plan.beyond]
        steps = [asdict(step) for step in plan.steps]
        told: dict[str, Any] = {"repair": {"steps": steps, "beyond": beyond, "stopped": plan.stopped}}
        return told if self.repaired is None else {**told, "repaired": self.repaired.to_record()}

    def summary(self) -> str:
        counts = Counter(finding.severity for finding in self.findings)
        told = ", ".join(
            counted(counts[each], each, _PLURAL.get(each, f"{each}s")) for each in SEVERITIES if counts[each]
        )
        looked = f"{counted(self.versions, 'version')} and {counted(self.files, 'file')} checked"
        return f"{told or 'sound'}; {looked}{', inside of files as well' if self.deep else ''}"

    def grid(self) -> Grid:
        rows = [
            (
                finding.severity,
                finding.code,
                finding.path + (f" and {finding.files - 1:,} more" if finding.files > 1 else ""),
                few(finding.refs, _MOST_REFS),
                "" if finding.rows is None else f"{finding.rows:,}",
                finding.says,
                finding.do,
            )
            for finding in self.findings
        ]
        header = ("severity", "code", "path", "refs", "rows", "what", "what to do")
        return Grid(header, tuple(rows), right=frozenset({4}))

    def _card(self) -> Card:
        grids = (self.grid(), *(self.repair.grids() if self.repair else ()))
        grids += (self.repaired.grid(),) if self.repaired else ()
        notes = tuple(part.summary() for part in (self.repair, self.repaired) if part is not None)
        return Card(type(self).__name__, self.dataset, self.summary(), grids=grids, notes=notes)


_PLURAL = {UNREACHABLE: "unreachable"}


def _row(finding: CheckFinding) -> dict[str, Any]:
    return fields_of(finding, *FINDINGS.names)


def worst_first(findings: list[CheckFinding]) -> tuple[CheckFinding, ...]:
    return tuple(sorted(findings, key=lambda each: (SEVERITIES.index(each.severity), each.code, each.path)))


# --- The check of a catalog and its tables

CHECKED = pa.schema(
    [
        ("table", pa.string()),
        ("uri", pa.string()),
        ("report", pa.string()),  # as JSON; null if the table could not be checked
        ("error", pa.string()),
        ("exit_code", pa.int32()),
    ]
)
CATALOG_WRONG = 6
"""Exit code if no table is damaged but the catalog itself has findings."""
_MOST_CATALOG_REFS = 3


@dataclass(frozen=True)
class TableCheck:
    table: str
    uri: str
    findings: tuple[CheckFinding, ...]
    """The worst first."""
    versions: int = 0
    files: int = 0
    error: str = ""
    """Why it could not be checked."""
    exit_code: int = 0

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> TableCheck:
        if row["report"] is None:
            return cls(row["table"], row["uri"], (), error=row["error"], exit_code=row["exit_code"])
        said = json.loads(row["report"])
        findings = tuple(
            CheckFinding(one["code"], one["path"], tuple(one["refs"]), one["rows"], one["detail"], one["files"])
            for one in said["findings"]
        )
        return cls(row["table"], row["uri"], findings, said["versions"], said["files"], "", row["exit_code"])


def checked_row(table: str, uri: str, found: FsckReport | LanceSparkError) -> dict[str, Any]:
    """The row of CHECKED for a table that was checked, or that could not be."""
    report, error = (found.to_json(), None) if isinstance(found, FsckReport) else (None, found.message)
    return {"table": table, "uri": uri, "report": report, "error": error, "exit_code": found.exit_code}


@dataclass(frozen=True, repr=False)
class CatalogFsckReport(Report):
    """What a check of a catalog found."""

    catalog: str
    tables: tuple[TableCheck, ...]
    findings: tuple[Finding, ...]
    """What is wrong with the catalog itself."""
    deep: bool = False
    ran_on: str = ""

    @property
    def sound(self) -> bool:
        """Whether nothing is damaged and everything was readable."""
        return self.exit_code == 0

    @property
    def wrong(self) -> tuple[Finding, ...]:
        """Findings about the catalog itself; a first-layout table without a row is not one."""
        return tuple(finding for finding in self.findings if finding.kind != UNREGISTERED)

    @property
    def exit_code(self) -> int:
        """22 if a table is damaged, else the code of one that could not be checked, else 6 for the catalog, else 0."""
        codes = {check.exit_code for check in self.tables} - {0}
        for code in (CorruptData.exit_code, StorageFailure.exit_code):
            if code in codes:
                return code
        return min(codes) if codes else CATALOG_WRONG if self.wrong else 0

    def as_document(self) -> dict[str, Any]:
        tables = [
            {
                **fields_of(check, "table", "uri"),
                "sound": check.exit_code == 0,
                **fields_of(check, "exit_code", "error", "versions", "files"),
                "findings": [
                    {**vars(one), "severity": one.severity, "says": one.says, "do": one.do} for one in check.findings
                ],
            }
            for check in self.tables
        ]
        catalog = [vars(finding) | {"mendable": finding.mendable} for finding in self.findings]
        told = {"catalog": self.catalog, "deep": self.deep, "sound": self.sound, "exit_code": self.exit_code}
        return {**told, "tables": tables, "findings": catalog, "ran_on": self.ran_on}

    def summary(self) -> str:
        bad = sum(check.exit_code != 0 for check in self.tables)
        files = sum(check.files for check in self.tables)
        told = f"{counted(bad, 'table')} with problems" if bad else "sound"
        own = f", {counted(len(self.wrong), 'finding')} about the catalog" if self.wrong else ""
        return f"{told}{own}; {counted(len(self.tables), 'table')} and {counted(files, 'file')} checked"

    def grids(self) -> tuple[Grid, ...]:
        rows: list[tuple[str, ...]] = []
        for check in self.tables:
            if check.error:
                rows.append((check.table, ERROR, "not checked", "", "", check.error, ""))
            rows += [_cells(check.table, one) for one in check.findings]
        header = ("table", "severity", "code", "path", "refs", "what", "what to do")
        own = tuple((one.kind, one.subject, one.message) for one in self.wrong)
        return Grid(header, tuple(rows)), Grid(("finding", "where", "what"), own, title="The catalog itself")

    def __str__(self) -> str:
        return "\n\n".join(part for part in (*(grid.text() for grid in self.grids()), self.summary()) if part)

    def _card(self) -> Card:
        return Card(type(self).__name__, self.catalog, self.summary(), grids=self.grids())


def _cells(table: str, one: CheckFinding) -> tuple[str, ...]:
    more = f" and {one.files - 1:,} more" if one.files > 1 else ""
    return table, one.severity, one.code, one.path + more, few(one.refs, _MOST_CATALOG_REFS), one.says, one.do


def worst_tables_first(checks: Sequence[TableCheck]) -> tuple[TableCheck, ...]:
    """Unchecked tables first, then by worst finding, then by name."""

    def rank(check: TableCheck) -> tuple[int, str]:
        worst = min((SEVERITIES.index(one.severity) for one in check.findings), default=len(SEVERITIES))
        return (-1 if check.error else worst), check.table

    return tuple(sorted(checks, key=rank))
