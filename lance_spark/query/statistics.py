"""How large a read is, for Spark to choose its joins by."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from lance_spark.scan.plan import FragmentSize
from lance_spark.schema.width import row_width


@dataclass(frozen=True)
class Statistics:
    """What ``Scan.estimateStatistics`` says."""

    rows: int
    """Rows that are not deleted."""
    bytes: int
    """Estimated size of the columns that are read; at least 1, as Spark multiplies sizes."""


def estimate(fragments: Iterable[FragmentSize], read: pa.Schema, whole: pa.Schema) -> Statistics:
    """Rows and bytes of these fragments. ``read`` are the fields that are read, ``whole`` is the dataset's schema.

    Of the two guesses, from the types and from what is stored, the larger one counts: long strings are wider than
    their type tells, and what compresses well is larger in memory than in its files. A table that is taken for too
    small is sent to all executors.
    """
    width, all_widths = row_width(read), row_width(whole)
    share = min(1.0, width / all_widths) if all_widths else 1.0
    rows, stored = 0, 0.0
    for fragment in fragments:
        rows += fragment.live_rows
        stored += fragment.stored_bytes * share * fragment.live_rows / max(1, fragment.physical_rows)
    return Statistics(rows, max(1, int(rows * width), int(stored)))
