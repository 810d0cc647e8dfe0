"""Reads rows of a frozen set in one process. Files are opened where they are read, never inherited through a fork."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import pyarrow as pa

from lance_spark.errors import NotFound, Refused
from lance_spark.frozen.frozen import FrozenReading, needed_plan, plan_reading, read_rows
from lance_spark.frozen.rules import Lineage
from lance_spark.storage.resolving import dataset_at

Convert = Callable[[pa.Table], Any]


@dataclass(frozen=True)
class FrozenSplit:
    """An opened split of a frozen set. Can be pickled; other processes open their own files."""

    reading: FrozenReading
    lineage: Lineage
    split: str | None
    first: int
    """Row of the plan that is position 0."""
    rows: int
    process: int = field(default_factory=os.getpid)

    def __reduce__(self) -> tuple[Any, ...]:
        """The unpickling process opens its own files."""
        return FrozenSplit, (self.reading, self.lineage, self.split, self.first, self.rows)

    def read(self, positions: Sequence[int]) -> pa.Table:
        """The rows at some positions of the split, in the given order. Raises NotFound, Refused after a fork."""
        self.check_process()
        for position in positions:
            if not 0 <= position < self.rows:
                raise NotFound(f"Position {position} is outside the split of {self.rows} rows.")
        return read_rows(self.reading, [self.first + int(position) for position in positions])

    def check_process(self) -> None:
        """Raise Refused in a forked process: Lance's threads do not survive a fork, so reads would hang."""
        if self.process != os.getpid():
            raise Refused(
                "This process was forked after it opened Lance, which does not survive a fork.",
                hint="Give the DataLoader multiprocessing_context='spawn', or use loader(...), which does that.",
            )

    @property
    def fingerprint(self) -> str:
        """Identifies this plan, on any machine."""
        spec, source = self.lineage.spec, self.lineage.source
        said = [source.branch, source.version, spec.filter, spec.splits, spec.by, spec.seed, self.lineage.algorithm,
                [size.rows for size in self.lineage.sizes]]  # fmt: skip
        return blake2b(json.dumps(said).encode(), digest_size=8).hexdigest()


def open_split(
    uri: str,
    name: str,
    split: str | None = None,
    columns: str | Sequence[str] | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> FrozenSplit:
    """Open a split of a frozen set, or the whole set. Raises NotFound, Conflict."""
    location = dataset_at(uri, storage_options)
    plan = needed_plan(location, name)
    first, rows = plan.lineage.range_of(split)
    return FrozenSplit(plan_reading(location, plan, columns), plan.lineage, split, first, rows)
