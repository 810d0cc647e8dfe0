"""The cleanup of many tables at once: which tables protect each other, and one report for all. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from lance_spark.location import is_within
from lance_spark.show.card import Card, Grid, Shown
from lance_spark.show.words import masked, readable

State = Literal["done", "would", "empty", "failed"]
"""Cleaned; would be cleaned; nothing was written to it yet, or it was dropped meanwhile; not cleaned."""

LOOKS = pa.schema(
    [
        ("table", pa.string()),
        ("base", pa.string()),
        ("versions", pa.int64()),
        ("files", pa.int64()),
        ("error", pa.string()),
        ("exit_code", pa.int64()),
    ]
)
"""What the manifests of a table say: a row for each base path that it reads files from, and one without a base path,
which says how many versions and about how many files it has. Or a single row that says why it cannot be read."""
ROWS = pa.schema(
    [
        ("table", pa.string()),
        ("uri", pa.string()),
        ("state", pa.string()),
        ("versions", pa.int64()),
        ("files", pa.int64()),
        ("bytes", pa.int64()),
        ("failed", pa.int64()),
        ("error", pa.string()),
        ("exit_code", pa.int64()),
        ("report", pa.string()),
    ]
)
"""What became of each table: versions, files and bytes that went or would go, and the table's own report as JSON."""


@dataclass(frozen=True, repr=False)
class FleetReport(Shown):
    """What a cleanup of many tables did, or would do."""

    rows: Sequence[Mapping[str, Any]]
    """Rows of ROWS, by table."""
    executed: bool
    ran_on: str = ""
    """Where the tables were cleaned: "local", which is threads of one process, or "spark"."""

    @property
    def problems(self) -> list[Mapping[str, Any]]:
        """Tables that were not cleaned, or not wholly."""
        return [row for row in self.rows if row["state"] == "failed" or row["failed"]]

    @property
    def complete(self) -> bool:
        """Whether every table was cleaned."""
        return not self.problems

    def to_json(self) -> str:
        """All of it as a JSON object."""
        tables = [{**row, "report": json.loads(row["report"]) if row["report"] else None} for row in self.rows]
        totals = {name: sum(row[name] for row in self.rows) for name in ("versions", "files", "bytes", "failed")}
        return json.dumps(
            {"executed": self.executed, "ran_on": self.ran_on, "totals": totals, "tables": tables}, indent=2
        )

    def __str__(self) -> str:
        """A row per table, the errors of tables that were not cleaned, and one line that sums it up."""
        parts = [self._table().text(), *self._problem_lines()]
        return masked("\n\n".join([*(part for part in parts if part), self.summary()]))

    def _card(self) -> Card:
        return Card(type(self).__name__, "", self.summary(), grids=(self._table(),), notes=tuple(self._problem_lines()))

    def _table(self) -> Grid:
        rows = tuple(
            (row["table"], row["state"], f"{row['versions']:,}", f"{row['files']:,}", readable(row["bytes"]))
            for row in self.rows
        )
        return Grid(("table", "state", "versions", "files", "bytes"), rows, right=frozenset({2, 3, 4}))

    def _problem_lines(self) -> list[str]:
        return [f"{row['table']}: {row['error'] or str(row['failed']) + ' files failed'}" for row in self.problems]

    def summary(self) -> str:
        """One line."""
        what = "deleted" if self.executed else "would be deleted"
        files, size = (sum(row[name] for row in self.rows) for name in ("files", "bytes"))
        bad = f"; {len(self.problems)} of them with problems" if self.problems else ""
        where = f" (ran on {self.ran_on})" if self.ran_on else ""
        return f"{len(self.rows):,} tables: {files:,} files, {readable(size)} {what}{bad}{where}"


def clones_among(bases: Iterable[Mapping[str, Any]], uris: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """By table, the URIs of other tables that read its files. ``uris`` has the place of every table."""
    clones: dict[str, set[str]] = {name: set() for name in uris}
    owners = sorted(((uri, name) for name, uri in uris.items()), key=lambda entry: len(entry[0]), reverse=True)
    for row in bases:
        base, reader = row["base"], row["table"]
        owner = next((name for uri, name in owners if base and is_within(base, uri)), None)
        if owner is not None and uris[owner] != uris[reader]:
            clones[owner].add(uris[reader])
    return {name: tuple(sorted(readers)) for name, readers in clones.items()}


def unreadable(bases: Iterable[Mapping[str, Any]]) -> dict[str, tuple[str, int]]:
    """By table, why it is not known which files it reads, and the code of that error."""
    return {row["table"]: (row["error"], row["exit_code"]) for row in bases if row["error"]}


def failed(name: str, uri: str, error: str, exit_code: int) -> dict[str, Any]:
    """The row of a table that was not cleaned."""
    return {**empty(name, uri), "state": "failed", "error": error, "exit_code": exit_code}


def empty(name: str, uri: str) -> dict[str, Any]:
    """The row of a table to which nothing was written yet."""
    nothing = dict.fromkeys(("versions", "files", "bytes", "failed"), 0)
    return {"table": name, "uri": uri, "state": "empty", **nothing, "error": "", "exit_code": 0, "report": ""}


def held_back(blind: Mapping[str, tuple[str, int]]) -> tuple[str, int]:
    """Why a table is left alone while others cannot be read, and the code of the error that did it."""
    listed = ", ".join(sorted(blind)[:3])
    reason = f"left alone, because {listed} cannot be read and may be a clone that needs its files"
    return reason, max(code for _, code in blind.values())
