"""What became of the candidates when a plan was carried out. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from lance_spark.cleanup.sums import add_up
from lance_spark.cleanup.sweep import BECAME_LIVE

DELETED, GONE, FAILED, KEPT = "deleted", "already gone", "failed", "kept"
OUTCOMES = pa.schema(
    [
        ("kind", pa.string()),
        ("branch", pa.string()),
        ("reason", pa.string()),  # why it was to go; why it stayed where it was kept
        ("outcome", pa.string()),
        ("files", pa.int64()),
        ("bytes", pa.int64()),
        ("example", pa.string()),  # a path; with the store's reason where it failed
    ]
)


@dataclass(frozen=True)
class Outcome:
    """The fate of files by their paths; who is in none of them was kept."""

    deleted: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()
    failed: Mapping[str, str] = field(default_factory=dict)
    """The store's reason by path."""

    def of(self, file: str) -> str:
        """DELETED, GONE, FAILED or KEPT."""
        if file in self.deleted:
            return DELETED
        if file in self.gone:
            return GONE
        return FAILED if file in self.failed else KEPT


def outcome_rows(candidates: pa.RecordBatch, outcome: Outcome) -> pa.RecordBatch:
    """OUTCOMES: how many of the candidates ended how, with one example each."""
    files = candidates["file"].to_pylist()
    ends = [outcome.of(file) for file in files]
    reasons = candidates["reason"].to_pylist()
    rows = pa.table(
        {
            "kind": candidates["kind"],
            "branch": candidates["branch"],
            "reason": pa.array([BECAME_LIVE if end == KEPT else why for end, why in zip(ends, reasons, strict=True)]),
            "outcome": pa.array(ends),
            "files": pa.array([1] * len(files), pa.int64()),
            "bytes": candidates["size"],
            "example": pa.array(
                [f"{file}: {outcome.failed[file]}" if file in outcome.failed else file for file in files], pa.string()
            ),
        },
        schema=OUTCOMES,
    )
    return add_up(rows).combine_chunks().to_batches()[0]
