"""Versions as a log shows them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lance_spark.history.fragments import Stat
from lance_spark.refs.model import PinnedVersion
from lance_spark.refs.names import MAIN

_WORDS = {
    "Append": "append",
    "Clone": "clone",
    "CreateIndex": "index",
    "DataOverlay": "overlay",
    "DataReplacement": "replace column",
    "Delete": "delete",
    "Merge": "add columns",
    "Overwrite": "overwrite",
    "Project": "change columns",
    "ReserveFragments": "reserve fragments",
    "Restore": "restore",
    "Rewrite": "compact",
    "Unknown": "unknown",
    "Update": "update",
    "UpdateBases": "update bases",
    "UpdateConfig": "config",
    "UpdateMemWalState": "update write-ahead log",
}
"""pylance's operations as people call them; its ``Merge`` adds columns, and has nothing to do with branches."""


def words_for(version: int, operation: str, action: str | None) -> str:
    """What made a version, e.g. ``append``, ``create`` or ``merge (append)``."""
    said = _WORDS.get(operation, operation)
    if operation == "Overwrite" and version == 1:
        said = "create"
    return said if action is None or action == said else f"{action} ({said})"


@dataclass(frozen=True)
class LogEntry:
    """One version in a log."""

    branch: str | None
    """None for main."""
    version: int
    timestamp: datetime
    """Commit time, UTC."""
    operation: str
    """pylance's name, e.g. ``Append``; ``Unknown`` where the transaction is lost or newer than this package."""
    action: str | None = None
    """This package's name of what was done, e.g. ``merge``; None for a commit that other software made."""
    source: str | None = None
    """Where the changes came from, e.g. ``exp@8``."""
    message: str | None = None
    total_rows: int | None = None
    """Rows of the version; None where the writer did not count them."""
    stat: Stat | None = None
    """Only if it was asked for, and only if the version before is there to compare with."""
    tags: tuple[str, ...] = ()
    heads: tuple[str, ...] = ()
    """Branches of which it is the newest version."""
    forks: tuple[str, ...] = ()
    """Branches that were created from it."""
    parents: tuple[PinnedVersion, ...] = ()
    """The version before it, as far as it is there; then the one a merge took in."""
    inherited: bool = False
    """Whether the log has gone on past the fork of its branch, and this is a version of the parent."""

    @property
    def pin(self) -> PinnedVersion:
        """The version itself."""
        return PinnedVersion(self.branch, self.version)

    @property
    def words(self) -> str:
        """What happened, e.g. ``append``, ``create`` or ``merge (append)``."""
        return words_for(self.version, self.operation, self.action)

    def as_record(self) -> dict[str, Any]:
        """As JSON: names and versions as text, the time in ISO 8601."""
        return {
            "branch": self.branch or MAIN,
            "version": self.version,
            "timestamp": self.timestamp.isoformat(),
            "operation": self.operation,
            "action": self.action,
            "source": self.source,
            "message": self.message,
            "total_rows": self.total_rows,
            "stat": None if self.stat is None else self.stat.as_record(),
            "tags": list(self.tags),
            "heads": list(self.heads),
            "forks": list(self.forks),
            "parents": [str(parent) for parent in self.parents],
            "inherited": self.inherited,
        }


@dataclass(frozen=True)
class ConfigChange:
    """One setting that a version changed."""

    key: str
    before: str | None
    """None where it was not set."""
    after: str | None

    def as_record(self) -> dict[str, str | None]:
        """As JSON."""
        return dict(vars(self))


@dataclass(frozen=True)
class StoredColumn:
    """One column, or a field inside one."""

    id: int
    path: str
    """Name; with dots for a field inside a column."""
    type: str
    """Lance's name of the logical type."""
    nullable: bool

    def as_record(self) -> dict[str, Any]:
        """As JSON."""
        return dict(vars(self))


@dataclass(frozen=True)
class Index:
    """One index."""

    name: str
    columns: tuple[str, ...]

    def as_record(self) -> dict[str, Any]:
        """As JSON."""
        return {"name": self.name, "columns": list(self.columns)}


@dataclass(frozen=True)
class VersionDetail:
    """One version in full."""

    entry: LogEntry
    columns: tuple[StoredColumn, ...]
    indexes: tuple[Index, ...]
    config_changes: tuple[ConfigChange, ...]
    """Against the version before."""
    fragments: int
    data_files: int
    deletion_files: int
    deleted_rows: int
    bytes: int
    """Bytes of data files, as far as their writers recorded them."""
    bases: tuple[str, ...]
    """Other places that hold files of the version."""
    storage_version: str
    stable_row_ids: bool

    def as_record(self) -> dict[str, Any]:
        """As JSON."""
        plain = {
            "entry": self.entry.as_record(),
            "columns": [column.as_record() for column in self.columns],
            "indexes": [index.as_record() for index in self.indexes],
            "config_changes": [change.as_record() for change in self.config_changes],
            "bases": list(self.bases),
        }
        return {**vars(self), **plain}
