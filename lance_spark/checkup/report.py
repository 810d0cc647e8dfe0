"""What a check found, for people and for programs. Pure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import pyarrow as pa

from lance_spark.checkup.codes import ERROR, SEVERITIES, UNREACHABLE
from lance_spark.checkup.finding import CheckFinding
from lance_spark.checkup.repair import RepairPlan
from lance_spark.checkup.repaired import RepairResult
from lance_spark.errors import CorruptData, StorageFailure
from lance_spark.show.card import Card, Grid, Shown
from lance_spark.show.words import counted, few

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
class FsckReport(Shown):
    """What a check found. Notes are no damage: a sound dataset may have some."""

    dataset: str
    deep: bool
    findings: tuple[CheckFinding, ...]
    """The worst first."""
    versions: int = 0
    """How many manifests were read."""
    files: int = 0
    """How many files were listed."""
    ran_on: str = ""
    """Where the work was done: "local", which is threads of one process, or "spark"."""
    complete: bool = True
    """False if the note of a clone cannot be understood, so that the clone was not checked."""
    repair: RepairPlan | None = field(default=None, compare=False)
    """What can be repaired, if that was asked for."""
    repaired: RepairResult | None = field(default=None, compare=False)
    """What was repaired."""
    frame: Callable[[pa.Table], Any] | None = field(default=None, compare=False)

    @property
    def sound(self) -> bool:
        """Whether nothing is damaged, and everything could be looked at. Warnings and notes are allowed."""
        return self.exit_code == 0

    @property
    def exit_code(self) -> int:
        """22 if something is damaged or missing, else 20 if something could not be looked at, else 0."""
        found = {finding.severity for finding in self.findings}
        if ERROR in found:
            return CorruptData.exit_code
        return StorageFailure.exit_code if UNREACHABLE in found else 0

    def with_repair(self, plan: RepairPlan, result: RepairResult | None) -> FsckReport:
        """The same with what can be, or was, repaired."""
        return replace(self, repair=plan, repaired=result)

    def exit_code_after_repair(self, partly: int) -> int:
        """0 if everything that was damaged is repaired, ``partly`` if some of it, else as :attr:`exit_code`."""
        if self.repair is None or self.repaired is None or not self.repaired.record:
            return self.exit_code
        left = any(one.finding.severity in (ERROR, UNREACHABLE) for one in self.repair.beyond)
        return partly if left or not self.repaired.complete else 0

    def to_arrow(self) -> pa.Table:
        """``findings`` as an Arrow table."""
        return pa.Table.from_pylist([_row(finding) for finding in self.findings], FINDINGS)

    def to_df(self) -> Any:
        """``findings`` as a DataFrame; as an Arrow table where there is no session."""
        return self.to_arrow() if self.frame is None else self.frame(self.to_arrow())

    def to_json(self) -> str:
        """All of it as a JSON object."""
        return json.dumps(
            {
                "dataset": self.dataset,
                "deep": self.deep,
                "sound": self.sound,
                "complete": self.complete,
                "exit_code": self.exit_code,
                "versions": self.versions,
                "files": self.files,
                "findings": [{**asdict(finding), **_row(finding)} for finding in self.findings],
                "ran_on": self.ran_on,
                **self._repair(),
            },
            indent=2,
        )

    def _repair(self) -> dict[str, Any]:
        if self.repair is None:
            return {}
        plan = self.repair
        beyond = [{"code": one.finding.code, "path": one.finding.path, "why": one.why} for one in plan.beyond]
        told: dict[str, Any] = {"repair": {"steps": plan.to_records(), "beyond": beyond, "stopped": plan.stopped}}
        return told if self.repaired is None else {**told, "repaired": self.repaired.to_record()}

    def summary(self) -> str:
        """One line."""
        counts = Counter(finding.severity for finding in self.findings)
        told = ", ".join(
            counted(counts[each], each, _PLURAL.get(each, f"{each}s")) for each in SEVERITIES if counts[each]
        )
        looked = f"{counted(self.versions, 'version')} and {counted(self.files, 'file')} checked"
        return f"{told or 'sound'}; {looked}{', inside of files as well' if self.deep else ''}"

    def grid(self) -> Grid:
        """The findings as a table."""
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
    return {
        "severity": finding.severity,
        "code": finding.code,
        "path": finding.path,
        "refs": list(finding.refs),
        "rows": finding.rows,
        "files": finding.files,
        "says": finding.says,
        "do": finding.do,
    }


def worst_first(findings: list[CheckFinding]) -> tuple[CheckFinding, ...]:
    """In the order in which a report has them."""
    return tuple(sorted(findings, key=lambda each: (SEVERITIES.index(each.severity), each.code, each.path)))
