"""Whether a merge finds its rows through an index, or by reading the keys of the whole table. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pt

LARGE_TABLE = 1_000_000
"""Rows from which on the index is used: the keys of fewer rows are read in less than a second."""
_ROWS_PER_LOOKUP = 20
"""Rows of which the keys are read and joined in the time in which an index finds one row, with a good margin."""
_SIZE = re.compile(r"Statistics\(sizeInBytes=([\d.]+(?:E[+-]?\d+)?) ([KMGTPE]?i?B)")
_UNITS = {unit: 1024**power for power, unit in enumerate(("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"))}


@dataclass(frozen=True)
class Found:
    """What is known before a merge runs."""

    rows: int
    """Of the table."""
    outside: int
    """Rows of fragments that the index does not know. Each look-up reads their keys."""
    source_bytes: float
    source_width: float
    """Estimated bytes of one row of the source."""


def uses_index(found: Found) -> bool:
    """Whether looking up the source's keys is less work than reading all keys of the table."""
    if found.rows < LARGE_TABLE or found.outside * 10 > found.rows:
        return False
    return found.source_bytes / max(1.0, found.source_width) * _ROWS_PER_LOOKUP < found.rows


def can_be_looked_up(kind: pa.DataType) -> bool:
    """Whether an index finds exactly the values of this type that Spark takes for equal."""
    return bool(pt.is_signed_integer(kind) or pt.is_string(kind) or pt.is_large_string(kind))


def estimated_bytes(explained: str) -> float | None:
    """The size that Spark expects of a result, from the text of ``EXPLAIN COST``; None if the text does not tell."""
    _, found, plan = explained.partition("== Optimized Logical Plan ==")
    first = plan.lstrip().partition("\n")[0]
    size = _SIZE.search(first) if found else None
    return None if size is None or size[2] not in _UNITS else float(size[1]) * _UNITS[size[2]]
