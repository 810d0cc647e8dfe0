"""How large a read is, for Spark to choose its joins by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from lance_spark.scan.plan import FragmentSize


@dataclass(frozen=True)
class Statistics:
    """What ``Scan.estimateStatistics`` says."""

    rows: int
    """Rows that are not deleted."""
    bytes: int
    """Estimated size of the columns that are read, as Spark will hold them."""


def estimate(fragments: Sequence[FragmentSize], read: pa.Schema, whole: pa.Schema) -> Statistics:
    """Rows and bytes of these fragments. ``read`` are the fields that are read, ``whole`` is the dataset's schema."""
    return Statistics(0, 0)
