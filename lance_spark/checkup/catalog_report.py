"""What a check of all tables of a catalog found, and what is wrong with the catalog itself. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lance_spark.catalog.findings import UNREGISTERED, Finding
from lance_spark.checkup.codes import ERROR, SEVERITIES
from lance_spark.checkup.finding import CheckFinding
from lance_spark.checkup.report import FsckReport
from lance_spark.errors import CorruptData, StorageFailure
from lance_spark.show.card import Card, Grid, Shown
from lance_spark.show.words import counted, few

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
"""Exit code if no table is damaged, but the catalog itself is not as it should be."""
_MOST_REFS = 3


@dataclass(frozen=True)
class TableCheck:
    """What the check of one table found."""

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
        """From a row of CHECKED."""
        if row["report"] is None:
            return cls(row["table"], row["uri"], (), error=row["error"], exit_code=row["exit_code"])
        said = json.loads(row["report"])
        findings = tuple(
            CheckFinding(one["code"], one["path"], tuple(one["refs"]), one["rows"], one["detail"], one["files"])
            for one in said["findings"]
        )
        return cls(row["table"], row["uri"], findings, said["versions"], said["files"], "", row["exit_code"])


def checked_row(table: str, report: FsckReport) -> dict[str, Any]:
    """The row of CHECKED for a table that was checked."""
    return {
        "table": table,
        "uri": report.dataset,
        "report": report.to_json(),
        "error": None,
        "exit_code": report.exit_code,
    }


@dataclass(frozen=True, repr=False)
class CatalogFsckReport(Shown):
    """What a check of a catalog found."""

    catalog: str
    tables: tuple[TableCheck, ...]
    findings: tuple[Finding, ...]
    """What is wrong with the catalog itself."""
    deep: bool = False
    ran_on: str = ""

    @property
    def sound(self) -> bool:
        """Whether nothing is damaged, and everything could be looked at."""
        return self.exit_code == 0

    @property
    def wrong(self) -> tuple[Finding, ...]:
        """What is wrong with the catalog itself; a table of the first layout without a row is not."""
        return tuple(finding for finding in self.findings if finding.kind != UNREGISTERED)

    @property
    def exit_code(self) -> int:
        """22 if a table is damaged, else the code of one that could not be checked, else 6 for the catalog, or 0."""
        codes = {check.exit_code for check in self.tables} - {0}
        for code in (CorruptData.exit_code, StorageFailure.exit_code):
            if code in codes:
                return code
        return min(codes) if codes else CATALOG_WRONG if self.wrong else 0

    def to_json(self) -> str:
        """All of it as a JSON object."""
        tables = [
            {
                "table": check.table,
                "uri": check.uri,
                "sound": check.exit_code == 0,
                "exit_code": check.exit_code,
                "error": check.error,
                "versions": check.versions,
                "files": check.files,
                "findings": [
                    {**vars(one), "severity": one.severity, "says": one.says, "do": one.do} for one in check.findings
                ],
            }
            for check in self.tables
        ]
        catalog = [vars(finding) | {"mendable": finding.mendable} for finding in self.findings]
        told = {"catalog": self.catalog, "deep": self.deep, "sound": self.sound, "exit_code": self.exit_code}
        return json.dumps({**told, "tables": tables, "findings": catalog, "ran_on": self.ran_on}, indent=2)

    def summary(self) -> str:
        """One line."""
        bad = sum(check.exit_code != 0 for check in self.tables)
        files = sum(check.files for check in self.tables)
        told = f"{counted(bad, 'table')} with problems" if bad else "sound"
        own = f", {counted(len(self.wrong), 'finding')} about the catalog" if self.wrong else ""
        return f"{told}{own}; {counted(len(self.tables), 'table')} and {counted(files, 'file')} checked"

    def grids(self) -> tuple[Grid, ...]:
        """Findings of tables, then those of the catalog."""
        rows: list[tuple[str, ...]] = []
        for check in self.tables:
            if check.error:
                rows.append((check.table, ERROR, "not checked", "", "", check.error, ""))
            rows += [_cells(check.table, one) for one in check.findings]
        header = ("table", "severity", "code", "path", "refs", "what", "what to do")
        own = tuple((one.kind, one.subject, one.message) for one in self.wrong)
        return Grid(header, tuple(rows)), Grid(("finding", "where", "what"), own, title="The catalog itself")

    def __str__(self) -> str:
        """Tables and a line."""
        return "\n\n".join(part for part in (*(grid.text() for grid in self.grids()), self.summary()) if part)

    def _card(self) -> Card:
        return Card(type(self).__name__, self.catalog, self.summary(), grids=self.grids())


def _cells(table: str, one: CheckFinding) -> tuple[str, ...]:
    more = f" and {one.files - 1:,} more" if one.files > 1 else ""
    return table, one.severity, one.code, one.path + more, few(one.refs, _MOST_REFS), one.says, one.do


def worst_tables_first(checks: Sequence[TableCheck]) -> tuple[TableCheck, ...]:
    """Tables that could not be checked, then by their worst finding, then by name."""

    def rank(check: TableCheck) -> tuple[int, str]:
        worst = min((SEVERITIES.index(one.severity) for one in check.findings), default=len(SEVERITIES))
        return (-1 if check.error else worst), check.table

    return tuple(sorted(checks, key=rank))
