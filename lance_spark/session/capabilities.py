"""What a session can do."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Capabilities:
    """What a session can do, determined when it was registered."""

    native: bool
    """Whether Spark's planner works with this package: columns, filters, limits and aggregates are pushed down."""
    reason: str
    """Why, or why not."""
    spark: str = ""
    catalogs: tuple[str, ...] = ()
    """Names of the catalogs that SQL can use."""
    no_row_changes: str | None = None
    """Why SQL refuses UPDATE, MERGE INTO and DELETE by any condition; None if it accepts them."""

    no_batches: str | None = None
    """Why scans return rows, which Spark copies; None if they return Arrow batches, which Spark reads without a
    copy."""
    no_columns: str | None = None
    """Why writes send rows to Python; None if they send columns."""

    def __str__(self) -> str:
        way = "Spark plans into Lance" if self.native else "reads go through the plain data source"
        known = f"; catalogs: {', '.join(self.catalogs)}" if self.catalogs else ""
        missing = f"; no UPDATE and MERGE in SQL: {self.no_row_changes}" if self.native and self.no_row_changes else ""
        by_rows = f"; scans hand over rows: {self.no_batches}" if self.native and self.no_batches else ""
        only = self.no_columns if self.native and not self.no_batches else None
        slower = f"; writes send rows: {only}" if only else ""
        return f"{way}: {self.reason}{known}{missing}{by_rows}{slower}"


def plain_way(version: str, reason: str) -> Capabilities:
    """Of a session that reads through the plain data source."""
    only = "only sessions with the native way have it."
    return Capabilities(False, reason, version, no_row_changes=only, no_batches=only, no_columns=only)
