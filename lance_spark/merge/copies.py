"""Copies the files of a plan to where its commit will name them.

In: files with their places, old and new. Out: where the copy ran.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from lance_spark.core.location import DatasetLocation
from lance_spark.engine.local import Engine, Work
from lance_spark.format.versions import RECEIVE, Copy
from lance_spark.merge.assembly_rules import ReplayPlan
from lance_spark.storage import copying
from lance_spark.storage.commits import check_written

LITTLE_COPY = 8 * 1024**2
"""Below this size, no check before the copy that the commit can succeed, as the commit checks it itself; nor afterwards
that the copies are still there, as no cleanup deletes files that are seconds old."""

CopyItem = tuple[DatasetLocation, Copy, DatasetLocation]
"""Where a file is, the file, and the place to copy it to."""
_COPIED = pa.schema([("bytes", pa.int64())])
_COPY = "copy"
_VERBS = {RECEIVE: "push"}
"""What users call an action, where that differs."""


def copy_files(plan: ReplayPlan, place: Callable[[str], DatasetLocation], engine: Engine) -> str | None:
    """Copy all files of the plan and their blobs; returns where the copy ran, None if there was nothing to copy.

    ``place`` opens a root by its URI. Raises NotFound for a missing file, StorageFailure, and Conflict if a cleanup
    deleted copies meanwhile.
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
    """Copy files on the engine, for a verb that users know; returns where it ran. Raises like :func:`copy_files`."""
    work = Work(copies=len(items), copied_bytes=sum(copy.size for _, copy, _ in items))
    runner = engine.for_work(operation, work)
    runner.collect(_COPY, runner.flat_map(_COPY, items, copy_one, _COPIED))
    if work.copied_bytes > LITTLE_COPY:
        for target in {target for _, _, target in items}:
            check_written(target, None, [copy.target for _, copy, there in items if there == target])
    return runner.name


def copy_one(item: CopyItem) -> Iterator[pa.RecordBatch]:
    """Copy one file with its blobs; runs on executors."""
    source, copy, target = item
    size = copying.copy_placed(source, copy, target)
    yield pa.RecordBatch.from_pydict({"bytes": [size]}, schema=_COPIED)
