"""Indexes as values: what is asked for, what there is, and what was done. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from lance_spark.refs.model import PinnedVersion
from lance_spark.show.card import Card, Grid, Shown, ShownInOneLine
from lance_spark.show.words import counted, readable


@dataclass(frozen=True)
class IndexRequest:
    """An index that somebody wants."""

    column: str
    kind: str = "btree"
    name: str | None = None
    replace: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    message: str | None = None

    @property
    def index_name(self) -> str:
        """The name that was given, or the one that pylance would give it."""
        return self.name or f"{self.column}_idx"


@dataclass(frozen=True, repr=False)
class IndexInfo(ShownInOneLine):
    """An index of a version."""

    name: str
    columns: tuple[str, ...]
    kind: str
    """As it is created: ``btree``, ``ivf_pq``, ..."""
    rows_covered: int
    rows_uncovered: int
    """Rows that queries look at one by one, with the same answer."""
    segments: int
    inherited_segments: int
    """Of these, how many have their files in another branch or dataset."""
    bytes: int

    @property
    def percent(self) -> float:
        """How many of the rows are covered, from 0 to 100; 100 where there is no row."""
        rows = self.rows_covered + self.rows_uncovered
        return 100.0 if not rows else 100.0 * self.rows_covered / rows

    def __str__(self) -> str:
        """``id_idx: btree on id, 1,000 of 1,500 rows (66.6%), 2 segments, 12.0 KiB``."""
        rows = f"{self.rows_covered:,} of {counted(self.rows_covered + self.rows_uncovered, 'row')}"
        # Rounded down: 100.0% has to mean that nothing is left.
        share = int(self.percent * 10) / 10
        return (
            f"{self.name}: {self.kind} on {', '.join(self.columns)}, {rows} ({share:.1f}%), "
            f"{counted(self.segments, 'segment')}, {readable(self.bytes)}"
        )

    def _facts(self) -> tuple[tuple[str, str], ...]:
        inherited = f", {self.inherited_segments:,} of them inherited" if self.inherited_segments else ""
        return (
            ("name", self.name),
            ("kind", self.kind),
            ("columns", ", ".join(self.columns)),
            ("rows covered", f"{self.rows_covered:,}"),
            ("rows not covered", f"{self.rows_uncovered:,}"),
            ("segments", f"{self.segments:,}{inherited}"),
            ("size", readable(self.bytes)),
        )


@dataclass(frozen=True)
class SegmentInfo:
    """One segment of an index: what was built at one time."""

    uuid: str
    rows: int
    """Rows that it covers, of those that are there now."""
    fragments: tuple[int, ...]
    bytes: int
    inherited: bool
    created_at: datetime | None


@dataclass(frozen=True, repr=False)
class IndexStats(Shown):
    """An index in detail."""

    index: IndexInfo
    settings: Mapping[str, Any]
    """What it was made with, as pylance tells it."""
    segments: tuple[SegmentInfo, ...]

    def __str__(self) -> str:
        lines = [str(self.index)]
        lines += [f"  {name} = {value}" for name, value in self.settings.items()]
        for segment in self.segments:
            where = ", inherited" if segment.inherited else ""
            lines.append(f"  {segment.uuid}: {counted(segment.rows, 'row')}, {readable(segment.bytes)}{where}")
        return "\n".join(lines)

    def _card(self) -> Card:
        settings = tuple((name, str(value)) for name, value in self.settings.items())
        rows = tuple(
            (each.uuid, f"{each.rows:,}", readable(each.bytes), "inherited" if each.inherited else "own")
            for each in self.segments
        )
        grids = (
            Grid(("setting", "value"), settings),
            Grid(("segment", "rows", "size", "files"), rows, frozenset({1, 2})),
        )
        return Card(type(self).__name__, self.index.name, str(self.index), self.index._facts()[1:], grids)


@dataclass(frozen=True, repr=False)
class IndexResult(ShownInOneLine):
    """What was done to one index; prints as one line."""

    version: PinnedVersion
    """The new version; the newest one where nothing was to be done."""
    name: str
    kind: str
    rows: int = 0
    """Rows that were indexed."""
    segments: int = 0
    """Segments that were added."""
    replaced: int = 0
    """Segments whose place they took."""
    bytes: int = 0
    ran_on: str = ""
    """"local" or "spark"; empty where nothing was built."""
    left: str = ""
    """Why rows stay uncovered, where they do."""

    @property
    def changed(self) -> bool:
        """Whether a version was committed."""
        return bool(self.segments or self.replaced)

    def __str__(self) -> str:
        """``exp@7: id_idx (btree), 1,000 rows in 2 segments, 12.0 KiB, built on spark``."""
        told = "nothing to index"
        if self.segments:
            told = f"{counted(self.rows, 'row')} in {counted(self.segments, 'segment')}, {readable(self.bytes)}"
            told += f", built on {self.ran_on}"
        elif self.replaced:
            told = f"{counted(self.replaced, 'segment')} dropped"
        return f"{self.version}: {self.name} ({self.kind}), {told}{f'; {self.left}' if self.left else ''}"

    def _facts(self) -> tuple[tuple[str, str], ...]:
        return (
            ("version", str(self.version)),
            ("index", f"{self.name} ({self.kind})"),
            ("rows indexed", f"{self.rows:,}"),
            ("segments added", f"{self.segments:,}"),
            ("segments replaced", f"{self.replaced:,}" if self.replaced else ""),
            ("size", readable(self.bytes) if self.segments else ""),
            ("built on", self.ran_on),
            ("not covered", self.left),
        )
