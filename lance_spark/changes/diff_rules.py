"""The differences between two versions, as values. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from typing import Any

from lance_spark.core.refs import PinnedVersion
from lance_spark.core.show import Recorded
from lance_spark.format.operations import ColumnChange, Stat

ADDED, DELETED, CHANGED = "added", "deleted", "changed"
NOT_COMPARED = (
    "Rows that an update, a merge-insert or a compaction rewrote count as deleted and added; "
    "comparing the rows shows the difference."
)
BLOBS_BY_SIZE = "Blobs are compared by their size and URI, not by their bytes."


@dataclass(frozen=True)
class RowCounts(Recorded):
    added: int
    deleted: int
    changed: int | None
    """Rows whose values changed; they count neither as added nor as deleted. None if neither a key nor stable row ids
    identify rows: then such a row counts as one deleted and one added."""
    before: int
    after: int
    compared: bool
    """Whether the rows themselves were compared, or only fragments and deletion files."""


@dataclass(frozen=True)
class FragmentCounts(Recorded):
    """How many fragments are the same, only in one version, or in both with other deletions or columns."""

    same: int
    added: int
    removed: int
    changed: int


@dataclass(frozen=True)
class ColumnValues(Recorded):
    """A column whose values were rewritten in place."""

    column: str
    fragments: int
    rows: int
    """Rows of those fragments: an upper bound of the values that differ."""


@dataclass(frozen=True)
class RowExample(Recorded):
    kind: str
    """ADDED, DELETED or CHANGED."""
    before: Mapping[str, Any] | None = None
    """Values by column; None for an added row."""
    after: Mapping[str, Any] | None = None

    def as_record(self) -> dict[str, Any]:
        """As JSON; values that JSON cannot represent become text."""
        return {"kind": self.kind, "before": plain_row(self.before), "after": plain_row(self.after)}


@dataclass(frozen=True)
class Diff(Recorded):
    """The differences from one version to another."""

    before: PinnedVersion
    after: PinnedVersion
    columns: tuple[ColumnChange, ...]
    rows: RowCounts
    stat: Stat
    fragments: FragmentCounts
    values: tuple[ColumnValues, ...] = ()
    examples: tuple[RowExample, ...] = ()
    notes: tuple[str, ...] = field(default=())

    @property
    def is_empty(self) -> bool:
        """Whether nothing differs that a reader could see."""
        counts = (self.rows.added, self.rows.deleted, self.rows.changed or 0)
        seen = not self.rows.compared and bool(self.values)
        return not (self.columns or any(counts) or seen)


def plain_row(row: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """A row with values that JSON can represent."""
    return None if row is None else {name: _plain(value) for name, value in row.items()}


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else str(value)  # JSON has neither NaN nor infinity
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [_plain(item) for item in value]
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return str(value.total_seconds()) if isinstance(value, timedelta) else str(value)
