"""Values of columns that this process computes: what Spark's tasks do, without Spark."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from lance_spark.columns.column_files import FillJob, FunctionItem, fill_by_function
from lance_spark.columns.fill_rules import FilledFile, FillOrder
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion


class LocalValues:
    """A function over batches, fragment after fragment. ``done`` has the fragments that were computed."""

    at_once = False
    parallelism = 1

    def __init__(self, location: DatasetLocation, function: Callable[[pa.RecordBatch], Any], **types: pa.DataType):
        self.location = location
        self.function = function
        self.schema = pa.schema(list(types.items()))
        self.inputs: tuple[str, ...] = ("id",)
        self.reads: tuple[str, ...] | None = ("id",)
        self.identity: str | None = "a function"
        self.meanwhile: Callable[[], object] | None = None
        """What others do while the first fragments are computed."""
        self.done: list[int] = []

    def compute(self, pin: PinnedVersion, fragments: Sequence[int], order: FillOrder) -> Sequence[FilledFile]:
        found = []
        job = FillJob(self.location, pin, self.schema, order)
        for fragment in fragments:
            for batch in fill_by_function(self.function, FunctionItem(job, fragment, self.inputs, 4)):
                found += [FilledFile(**row) for row in batch.to_pylist()]
            self.done.append(fragment)
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        return found


def negated(name: str, until: int | None = None, die: bool = False) -> Callable[[pa.RecordBatch], Any]:
    """Minus the id, as a column of that name. At the id ``until`` it fails, or with ``die`` its process is killed."""

    def function(batch: pa.RecordBatch) -> dict[str, list[int]]:
        ids = batch["id"].to_pylist()
        if until is not None and until in ids:
            if die:
                os.kill(os.getpid(), signal.SIGKILL)
            raise RuntimeError("the model is out of memory")
        return {name: [-value for value in ids]}

    return function
