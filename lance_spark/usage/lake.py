"""What the tables of a catalog take, for people and for programs. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from lance_spark.show.card import Card, Grid, Shown
from lance_spark.show.words import counted, readable
from lance_spark.usage.report import StorageReport

TABLE_USAGE = pa.schema(
    [
        ("table", pa.string()),
        ("uri", pa.string()),
        ("files", pa.int64()),
        ("bytes", pa.int64()),
        ("unneeded_bytes", pa.int64()),
        ("branches", pa.int64()),
        ("tags", pa.int64()),
        ("by_kind", pa.map_(pa.string(), pa.int64())),
        ("error", pa.string()),
        ("exit_code", pa.int64()),
        ("report", pa.string()),
    ]
)
"""A row a table; ``report`` is its own report as JSON."""


def usage_row(name: str, report: StorageReport) -> dict[str, Any]:
    """The row of a table."""
    kinds = [record.kind for record in report.refs]
    return {
        "table": name,
        "uri": report.dataset,
        "files": report.files,
        "bytes": report.bytes,
        "unneeded_bytes": report.unneeded,
        "branches": max(0, kinds.count("branch") - 1),
        "tags": kinds.count("tag"),
        "by_kind": [(kind, size) for kind, (_, size, _) in report.kinds.items()],
        "error": "",
        "exit_code": 0,
        "report": report.to_json(),
    }


def nothing_there(name: str, uri: str, error: str = "", exit_code: int = 0) -> dict[str, Any]:
    """The row of a table without data, or of one that cannot be looked at."""
    numbers = dict.fromkeys(("files", "bytes", "unneeded_bytes", "branches", "tags"), 0)
    return {"table": name, "uri": uri, **numbers, "by_kind": [], "error": error, "exit_code": exit_code, "report": ""}


@dataclass(frozen=True, repr=False)
class CatalogStorage(Shown):
    """What the tables of a catalog take. Sizes are in bytes."""

    root: str
    tables: Sequence[Mapping[str, Any]]
    """Rows of TABLE_USAGE, the largest first."""
    ran_on: str = ""
    """Where tables were looked at: "local" or "spark"."""
    frame: Callable[[pa.Table], Any] | None = field(default=None, compare=False)

    @property
    def bytes(self) -> int:
        """What they take together."""
        return sum(row["bytes"] for row in self.tables)

    @property
    def unneeded(self) -> int:
        """What cleanups without any limit of age would free."""
        return sum(row["unneeded_bytes"] for row in self.tables)

    @property
    def problems(self) -> list[tuple[str, str]]:
        """Tables that could not be looked at, and why."""
        return [(row["table"], row["error"]) for row in self.tables if row["error"]]

    @property
    def exit_code(self) -> int:
        """0, or the worst code of the tables that could not be looked at."""
        return max((row["exit_code"] for row in self.tables), default=0)

    def to_arrow(self) -> pa.Table:
        """``tables`` as an Arrow table, without their reports."""
        return pa.Table.from_pylist([dict(row) for row in self.tables], TABLE_USAGE).drop_columns(["report"])

    def to_df(self) -> Any:
        """``tables`` as a DataFrame; as an Arrow table where there is no session."""
        return self.to_arrow() if self.frame is None else self.frame(self.to_arrow())

    def to_json(self) -> str:
        """All of it as a JSON object, with every table's own report."""
        tables = [
            {**row, "by_kind": dict(row["by_kind"]), "report": json.loads(row["report"]) if row["report"] else None}
            for row in self.tables
        ]
        return json.dumps(
            {
                "catalog": self.root,
                "bytes": self.bytes,
                "unneeded_bytes": self.unneeded,
                "ran_on": self.ran_on,
                "tables": tables,
            },
            indent=2,
        )

    def summary(self) -> str:
        """One line."""
        bad = f"; {counted(len(self.problems), 'table')} could not be looked at" if self.problems else ""
        return (
            f"{counted(len(self.tables), 'table')}, {readable(self.bytes)}; "
            f"{readable(self.unneeded)} that no ref needs{bad}"
        )

    def grid(self) -> Grid:
        """A row a table."""
        rows = tuple(
            (
                row["table"],
                *(
                    (f"{row['files']:,}", readable(row["bytes"]), readable(row["unneeded_bytes"]))
                    if not row["error"]
                    else ("-", "-", "-")
                ),
                f"{row['branches']:,}",
                f"{row['tags']:,}",
                row["error"],
            )
            for row in self.tables
        )
        header = ("table", "files", "bytes", "no ref needs", "branches", "tags", "")
        return Grid(header, rows, right=frozenset({1, 2, 3, 4, 5}))

    def _card(self) -> Card:
        return Card(type(self).__name__, self.root, self.summary(), grids=(self.grid(),))
