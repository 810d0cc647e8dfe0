"""Copies the files of a plan, several at a time, to where its commit will name them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from lance_spark.location import DatasetLocation
from lance_spark.merge.copies import Copy
from lance_spark.merge.plan import ReplayPlan
from lance_spark.merge.trace import RECEIVE
from lance_spark.runner.interface import Engine
from lance_spark.runner.work import Work
from lance_spark.store import copying

CopyItem = tuple[DatasetLocation, Copy, DatasetLocation]
"""Where a file is, the file, and the place to copy it to."""
_COPIED = pa.schema([("bytes", pa.int64())])
_COPY = "copy"
_VERBS = {RECEIVE: "push"}
"""What users call an action, if it is another word."""


def copy_files(plan: ReplayPlan, place: Callable[[str], DatasetLocation], engine: Engine) -> str | None:
    """Copy all files of the plan and their blobs; returns where that ran, None if there was nothing to copy.

    ``place`` opens a root by its URI. Raises NotFound for a file that is gone, StorageFailure.
    """
    copies = plan.copies
    if not copies:
        return None
    target = place(plan.ours.root.uri)
    sources = {copy.source: place(copy.source.uri) for copy in copies}
    items = [(sources[copy.source], copy, target) for copy in copies]
    action = plan.trace.action
    return copy_each(_VERBS.get(action, action), items, engine)


def copy_each(operation: str, items: Sequence[CopyItem], engine: Engine) -> str:
    """Copy files on the engine, for a verb that users know; returns where that ran. Raises as :func:`copy_files`."""
    work = Work(copies=len(items), copied_bytes=sum(copy.size for _, copy, _ in items))
    runner = engine.for_work(operation, work)
    runner.collect(_COPY, runner.flat_map(_COPY, items, copy_one, _COPIED))
    return runner.name


def copy_one(item: CopyItem) -> Iterator[pa.RecordBatch]:
    """Copy one file with its blobs; runs on executors."""
    source, copy, target = item
    size = copying.copy_placed(source, copy, target)
    yield pa.RecordBatch.from_pydict({"bytes": [size]}, schema=_COPIED)
