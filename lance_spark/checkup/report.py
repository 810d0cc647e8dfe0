"""What a check found, for people and for programs. Pure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa

from lance_spark.checkup.codes import ERROR, MEANINGS, SEVERITIES, UNREACHABLE
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


@dataclass(frozen=True)
class CheckFinding:
    """One thing that is not as it should be."""

    code: str
    path: str
    """Relative to the dataset, a URI outside of it, or the name of a ref."""
    refs: tuple[str, ...] = ()
    """What is hit: branches, tags and clones; "old versions of main" if only those are."""
    rows: int | None = None
    """How many rows cannot be read, deleted ones among them; None if that is not known."""
    detail: str = ""
    files: int = 1
    """1, or how many files like this one there are."""

    @property
    def severity(self) -> str:
        """error, unreachable, warning or note."""
        return MEANINGS[self.code].severity

    @property
    def says(self) -> str:
        """What is wrong, in words."""
        return " ".join(part for part in (MEANINGS[self.code].says, self.detail) if part)

    @property
    def do(self) -> str:
        """What can be done."""
        return MEANINGS[self.code].do


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
    """False if a ref file that cannot be understood kept the check from going on."""
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
            },
            indent=2,
        )

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
        return Card(type(self).__name__, self.dataset, self.summary(), grids=(self.grid(),))


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
