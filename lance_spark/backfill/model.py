"""What a backfill makes: files, progress, a result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import pyarrow as pa

from lance_spark.refs.model import PinnedVersion
from lance_spark.refs.names import MAIN
from lance_spark.show.card import ShownInOneLine
from lance_spark.show.progress import WorkProgress
from lance_spark.show.words import counted, readable

FILLED = pa.schema(
    [("fragment", pa.int64()), ("file", pa.string()), ("ids", pa.string()), ("rows", pa.int64()), ("bytes", pa.int64())]
)
"""Rows of FilledFile, as tasks hand them back."""
_TEMPORARY = "__fill_{}"
"""Columns in a file that is not committed yet: no table has a column of that name."""


class FilledFile(NamedTuple):
    """A data file that holds all rows of the new columns of one fragment. Nobody reads it before the commit."""

    fragment: int
    file: str
    """As pylance's JSON, with field ids of its own."""
    ids: str
    """JSON: these ids for each column, the column's first and then those of the fields inside, depth first."""
    rows: int
    """Physical rows: the deleted ones among them."""
    bytes: int


class RecordPlace(NamedTuple):
    """Where tasks note down files that they finished, so that the same call, made again, does not compute them."""

    call: str
    keys: Mapping[int, str]
    """What each fragment's record is named."""


class FillOrder(NamedTuple):
    """How files are written."""

    records: RecordPlace | None = None
    keep: bool = False
    """Whether values that a fragment has already stay, and only nulls get new ones."""


class ComputedColumns(Protocol):
    """Something that computes columns."""

    @property
    def schema(self) -> pa.Schema:
        """The columns, as they are stored."""
        ...

    @property
    def inputs(self) -> tuple[str, ...]:
        """The table's columns that they are computed from."""
        ...

    @property
    def identity(self) -> str | None:
        """What tells the computation from another one; None where nothing can."""
        ...

    @property
    def at_once(self) -> bool:
        """Whether all fragments are computed by one job: a join should not be made again and again."""
        ...

    @property
    def parallelism(self) -> int:
        """How many fragments are computed side by side."""
        ...

    def compute(self, pin: PinnedVersion, fragments: Sequence[int], order: FillOrder) -> Sequence[FilledFile]:
        """Files for fragments of a version, one each, checked to hold all rows."""
        ...


@dataclass(frozen=True)
class BackfillProgress(WorkProgress):
    """How far a backfill is, in fragments."""

    rows: int = 0
    bytes: int = 0
    columns: tuple[str, ...] = ()

    @classmethod
    def of(cls, columns: Sequence[str], done: int, fragments: int, rows: int, size: int) -> BackfillProgress:
        """That of these columns."""
        return cls(", ".join(columns), done, fragments, rows, size, tuple(columns))

    @property
    def fragments(self) -> int:
        """Fragments that get values in all."""
        return self.total

    def __str__(self) -> str:
        return (
            f"{self.stage}: {self.done:,} of {counted(self.fragments, 'fragment')}, "
            f"{counted(self.rows, 'row')}, {readable(self.bytes)}"
        )


@dataclass(frozen=True, repr=False)
class BackfillResult(ShownInOneLine):
    """What a backfill did; prints as one line."""

    version: PinnedVersion
    """The new version; the newest one where nothing was to be done."""
    columns: tuple[str, ...]
    fragments: int
    """Fragments that got values."""
    resumed: int
    """Of these, how many an earlier call had computed."""
    rows: int
    """Physical rows of these fragments."""
    bytes: int
    """Size of the new files."""

    def __str__(self) -> str:
        again = f" ({self.resumed} computed before)" if self.resumed else ""
        return (
            f"{', '.join(self.columns)} of {self.version.branch or MAIN}@{self.version.version}: "
            f"{counted(self.fragments, 'fragment')}{again}, {counted(self.rows, 'row')}, {readable(self.bytes)}"
        )

    def _facts(self) -> tuple[tuple[str, str], ...]:
        return (
            ("version", str(self.version)),
            ("columns", ", ".join(self.columns)),
            ("fragments", f"{self.fragments:,}"),
            ("computed before", f"{self.resumed:,}" if self.resumed else ""),
            ("rows", f"{self.rows:,}"),
            ("written", readable(self.bytes)),
        )


def temporary(column: int) -> str:
    """What a column is called in its file, by its place."""
    return _TEMPORARY.format(column)


def temporary_schema(schema: pa.Schema) -> pa.Schema:
    """The columns as files have them: any value may be null, and metadata belongs to the table's column."""
    return pa.schema([pa.field(temporary(place), field.type) for place, field in enumerate(schema)])
