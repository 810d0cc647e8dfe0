"""Reports of disk usage, of a dataset and of a catalog, for people and programs. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa

from lance_spark.core.ref_names import lake_id_of
from lance_spark.core.show import Card, Grid, Report
from lance_spark.core.texts import counted, readable
from lance_spark.disk_usage.holder_rules import BRANCH, OLD, TAG, Costs, Holder, RefUsage
from lance_spark.errors import NotFound
from lance_spark.format.blob_references import Referring

USAGE = pa.schema(
    [
        ("ref", pa.string()),
        ("kind", pa.string()),
        ("needed_bytes", pa.int64()),
        ("owned_bytes", pa.int64()),
        ("shared_bytes", pa.int64()),
        ("freed_bytes", pa.int64()),
        ("freed_files", pa.int64()),
        ("by_kind", pa.map_(pa.string(), pa.int64())),
        ("obstacle", pa.string()),
    ]
)


@dataclass(frozen=True, repr=False)
class StorageReport(Report):
    """What a dataset takes, and what each ref costs. Sizes are in bytes."""

    dataset: str
    refs: tuple[RefUsage, ...]
    kinds: Mapping[str, tuple[int, int, int]]
    """Files, bytes, and bytes that no ref needs, by kind of file."""
    warnings: Sequence[str] = ()
    ran_on: str = ""
    """Where the work ran: "local", threads of one process, or "spark"."""
    elsewhere: Mapping[str, Referring] = field(default_factory=dict)
    """Blobs that refer to objects elsewhere, which no size here counts: in the newest version, by branch."""
    costs: Costs | None = field(default=None, compare=False)
    holders: tuple[Holder, ...] = field(default=(), compare=False)
    frame: Callable[[pa.Table], Any] | None = field(default=None, compare=False)

    @property
    def files(self) -> int:
        """Number of files, including notes and refs."""
        return sum(files for files, _, _ in self.kinds.values())

    @property
    def bytes(self) -> int:
        return sum(size for _, size, _ in self.kinds.values())

    @property
    def unneeded(self) -> int:
        """What a cleanup without any age limit would free now."""
        return sum(size for _, _, size in self.kinds.values())

    def ref(self, name: str) -> RefUsage:
        """The record of a branch, tag or clone. Raises NotFound."""
        for record in self.refs:
            if record.ref == name and record.kind != OLD:
                return record
        raise NotFound(f"There is no branch, tag or clone '{name}'.", hint="See .refs for all of them.")

    def freed_by(self, *names: str) -> int:
        """Bytes freed by deleting several branches, tags or clones, once a cleanup has removed what nothing needs.

        This can exceed the sum over each of them, as it includes the files that only they share. Raises NotFound.
        """
        records = [self.ref(name) for name in names]
        kinds = {(record.kind, record.ref) for record in records}
        wanted = [at for at, holder in enumerate(self.holders) if (holder.kind, holder.ref) in kinds]
        return 0 if self.costs is None else self.costs.freed_by(wanted)

    def to_arrow(self) -> pa.Table:
        """``refs`` as an Arrow table."""
        rows = [
            (r.ref, r.kind, r.needed, r.owned, r.shared, r.freed, r.freed_files, list(r.by_kind.items()), r.obstacle)
            for r in self.refs
        ]
        return pa.Table.from_pylist([dict(zip(USAGE.names, row, strict=True)) for row in rows], USAGE)

    def to_df(self) -> Any:
        """``refs`` as a DataFrame, or as an Arrow table without a session."""
        return self.to_arrow() if self.frame is None else self.frame(self.to_arrow())

    def as_document(self) -> dict[str, Any]:
        kinds = {
            kind: {"files": files, "bytes": size, "unneeded_bytes": unneeded}
            for kind, (files, size, unneeded) in self.kinds.items()
        }
        return {
            "dataset": self.dataset,
            "files": self.files,
            "bytes": self.bytes,
            "unneeded_bytes": self.unneeded,
            "kinds": kinds,
            "refs": [asdict(record) for record in self.refs],
            "elsewhere": {branch: found._asdict() for branch, found in self.elsewhere.items()},
            "warnings": list(self.warnings),
            "ran_on": self.ran_on,
        }

    def summary(self) -> str:
        return f"{counted(self.files, 'file')}, {readable(self.bytes)}; {readable(self.unneeded)} that no ref needs"

    def kinds_grid(self) -> Grid:
        rows = [
            (kind, f"{files:,}", readable(size), readable(unneeded))
            for kind, (files, size, unneeded) in self.kinds.items()
        ]
        return Grid(("kind of file", "files", "bytes", "needed by no ref"), tuple(rows), right=frozenset({1, 2, 3}))

    def refs_grid(self) -> Grid:
        rows = [
            (r.ref, r.kind, _size(r.owned), _size(r.needed), _size(r.shared), _size(r.freed), r.obstacle)
            for r in self.refs
        ]
        header = ("ref", "kind", "owned", "needed", "shared", "freed if deleted", "obstacle")
        return Grid(header, tuple(rows), right=frozenset({2, 3, 4, 5}))

    def elsewhere_grid(self) -> tuple[Grid, ...]:
        """Blobs that refer to objects elsewhere, by branch; nothing if there are none."""
        rows = [(name, f"{of.blobs:,}", f"{of.whole:,}", readable(of.bytes)) for name, of in self.elsewhere.items()]
        header = ("branch", "blobs elsewhere", "whole objects", "bytes of ranges")
        return (Grid(header, tuple(rows), right=frozenset({1, 2, 3})),) if rows else ()

    def _card(self) -> Card:
        grids = (self.kinds_grid(), self.refs_grid(), *self.elsewhere_grid())
        return Card(type(self).__name__, self.dataset, self.summary(), grids=grids, notes=tuple(self.warnings))


def _size(size: int | None) -> str:
    return "-" if size is None else readable(size)


# --- The usage of a catalog's tables

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
        ("lake_refs", pa.map_(pa.string(), pa.int64())),
        ("report", pa.string()),
    ]
)
"""One row per table; ``lake_refs`` is what each ref of the lake alone keeps, by its id, and ``report`` the table's own
report as JSON."""


def usage_row(name: str, report: StorageReport) -> dict[str, Any]:
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
        "lake_refs": sorted(_lake_refs(report).items()),
        "report": report.to_json(),
    }


def _lake_refs(report: StorageReport) -> dict[str, int]:
    """Bytes freed by deleting what each ref of the lake has in a table: a tag, and perhaps a branch."""
    parts: dict[str, list[str]] = {}
    for record in report.refs:
        lake_id = lake_id_of(record.ref) if record.kind in (BRANCH, TAG) else None
        if lake_id is not None:
            parts.setdefault(lake_id, []).append(record.ref)
    return {lake_id: report.freed_by(*names) for lake_id, names in parts.items()}


def nothing_there(name: str, uri: str, error: str = "", exit_code: int = 0) -> dict[str, Any]:
    """The row of a table without data, or of one that cannot be read."""
    numbers = dict.fromkeys(("files", "bytes", "unneeded_bytes", "branches", "tags"), 0)
    return {
        "table": name,
        "uri": uri,
        **numbers,
        "by_kind": [],
        "error": error,
        "exit_code": exit_code,
        "lake_refs": [],
        "report": "",
    }


@dataclass(frozen=True)
class LakeRefUsage:
    """What a branch or a tag of the whole lake costs."""

    ref: str
    """Its name; its id if it is gone, and only its parts on tables are left."""
    kind: str
    """``branch``, ``tag``, or ``left behind``."""
    tables: int
    """How many tables have a part of it."""
    freed: int
    """Bytes freed by deleting it, once cleanups have removed what nothing needs."""


def lake_usage(tables: Sequence[Mapping[str, Any]], names: Mapping[str, tuple[str, str]]) -> tuple[LakeRefUsage, ...]:
    """The sums over rows of TABLE_USAGE, the largest first; ``names`` are kind and name of known refs, by id."""
    parts: dict[str, list[int]] = {lake_id: [] for lake_id in names}
    for row in tables:
        for lake_id, freed in row["lake_refs"]:
            parts.setdefault(lake_id, []).append(freed)
    found = []
    for lake_id, sizes in parts.items():
        kind, name = names.get(lake_id, ("left behind", lake_id))
        found.append(LakeRefUsage(name, kind, len(sizes), sum(sizes)))
    return tuple(sorted(found, key=lambda usage: (-usage.freed, usage.kind, usage.ref)))


@dataclass(frozen=True, repr=False)
class CatalogStorage(Report):
    """What the tables of a catalog take. Sizes are in bytes."""

    root: str
    tables: Sequence[Mapping[str, Any]]
    """Rows of TABLE_USAGE, the largest first."""
    ran_on: str = ""
    """Where tables were examined: "local" or "spark"."""
    lake_refs: tuple[LakeRefUsage, ...] = ()
    """What the branches and tags of the whole lake cost in these tables, the largest first."""
    frame: Callable[[pa.Table], Any] | None = field(default=None, compare=False)

    @property
    def bytes(self) -> int:
        return sum(row["bytes"] for row in self.tables)

    @property
    def unneeded(self) -> int:
        """What cleanups without any age limit would free."""
        return sum(row["unneeded_bytes"] for row in self.tables)

    @property
    def problems(self) -> list[tuple[str, str]]:
        """Tables that could not be examined, and why."""
        return [(row["table"], row["error"]) for row in self.tables if row["error"]]

    @property
    def exit_code(self) -> int:
        """0, or the highest exit code of the tables that could not be examined."""
        return max((row["exit_code"] for row in self.tables), default=0)

    def to_arrow(self) -> pa.Table:
        """``tables`` as an Arrow table, without their reports."""
        table = pa.Table.from_pylist([dict(row) for row in self.tables], TABLE_USAGE)
        return table.drop_columns(["lake_refs", "report"])

    def to_df(self) -> Any:
        """``tables`` as a DataFrame, or as an Arrow table without a session."""
        return self.to_arrow() if self.frame is None else self.frame(self.to_arrow())

    def as_document(self) -> dict[str, Any]:
        tables = [
            {
                **row,
                **{key: dict(row[key]) for key in ("by_kind", "lake_refs")},
                "report": json.loads(row["report"]) if row["report"] else None,
            }
            for row in self.tables
        ]
        return {
            "catalog": self.root,
            "bytes": self.bytes,
            "unneeded_bytes": self.unneeded,
            "ran_on": self.ran_on,
            "lake_refs": [asdict(usage) for usage in self.lake_refs],
            "tables": tables,
        }

    def summary(self) -> str:
        bad = f"; {counted(len(self.problems), 'table')} could not be looked at" if self.problems else ""
        return (
            f"{counted(len(self.tables), 'table')}, {readable(self.bytes)}; "
            f"{readable(self.unneeded)} that no ref needs{bad}"
        )

    def grid(self) -> Grid:
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
        header = ("table", "files", "bytes", "needed by no ref", "branches", "tags", "problem")
        return Grid(header, rows, right=frozenset({1, 2, 3, 4, 5}))

    def _card(self) -> Card:
        return Card(type(self).__name__, self.root, self.summary(), grids=(self.grid(), self.lake_grid()))

    def lake_grid(self) -> Grid:
        """One row per branch or tag of the whole lake."""
        rows = tuple((each.ref, each.kind, f"{each.tables:,}", readable(each.freed)) for each in self.lake_refs)
        header = ("ref of the lake", "kind", "tables", "freed if deleted")
        return Grid(header, rows, right=frozenset({2, 3}))
