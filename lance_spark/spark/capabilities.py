"""Which way reads of a session take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Capabilities:
    """What a session can do, as it was found out when the session was registered."""

    native: bool
    """Whether Spark's planner talks to this package: columns, filters, limits and aggregates are pushed down."""
    reason: str
    """Why, or why not."""
    spark: str = ""
    """Spark's version."""
    catalogs: tuple[str, ...] = ()
    """Names of the catalogs that SQL can use."""
    no_row_changes: str | None = None
    """Why UPDATE, MERGE INTO and DELETE by any condition are refused in SQL; None where they are not."""

    no_batches: str | None = None
    """Why scans hand over rows, which Spark copies; None where they hand over Arrow batches, which it reads as they
    are."""

    def __str__(self) -> str:
        way = "Spark plans into Lance" if self.native else "reads go through the plain data source"
        known = f"; catalogs: {', '.join(self.catalogs)}" if self.catalogs else ""
        missing = f"; no UPDATE and MERGE in SQL: {self.no_row_changes}" if self.native and self.no_row_changes else ""
        by_rows = f"; scans hand over rows: {self.no_batches}" if self.native and self.no_batches else ""
        return f"{way}: {self.reason}{known}{missing}{by_rows}"
