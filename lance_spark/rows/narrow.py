"""Whether an update should write whole rows, or only the columns that it sets. Pure."""

from __future__ import annotations

from dataclasses import dataclass

WORTH = 16 * 2**20
"""Bytes of rows from which on columns are thought of. Below, rows are as quick, and leave indexes and versions of other
rows alone."""
_DEARER = 2
"""A column is written for all rows of the table, and read for those that keep their value."""


@dataclass(frozen=True)
class UpdateSize:
    """What there is to write, in rows and bytes."""

    stored_bytes: int
    """Size of the table's data files."""
    rows: int
    """Live rows of the table."""
    column_width: float
    """Bytes of one row of the columns that are set, as an estimate."""


def columns_may_be_cheaper(size: UpdateSize) -> bool:
    """Whether it is worth counting the rows that match."""
    return columns_are_cheaper(size, size.rows)


def columns_are_cheaper(size: UpdateSize, matched: int) -> bool:
    """Whether new files for the columns, with all rows, take less than so many whole rows."""
    rows_bytes = size.stored_bytes * matched / max(1, size.rows)
    return rows_bytes >= WORTH and _DEARER * size.column_width * size.rows <= rows_bytes


def set_where(values: dict[str, str], where: str | None) -> dict[str, str]:
    """SQL that gives every row its value: rows that a condition is not true for keep theirs."""
    if where is None:
        return dict(values)
    return {name: f"CASE WHEN ({where}) THEN ({text}) ELSE {quoted_name(name)} END" for name, text in values.items()}


def quoted_name(name: str) -> str:
    """A column's name in Spark's SQL."""
    return "`" + name.replace("`", "``") + "`"
