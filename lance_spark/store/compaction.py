"""Plans, carries out and commits pylance's compaction. Tasks run on executors; ``lance`` is imported there."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from lance_spark.compaction.model import RewriteTask, RewrittenTask
from lance_spark.errors import CorruptData
from lance_spark.location import DatasetLocation
from lance_spark.manifest.contents import Fragment
from lance_spark.refs.model import PinnedVersion
from lance_spark.store.commits import check_nothing_missing, check_still_there
from lance_spark.store.datasets import open_latest, open_pinned
from lance_spark.store.failures import translated

REWRITTEN = pa.schema([("task", pa.int64()), ("result", pa.string())])
"""Number of a task, and pylance's result as JSON."""
MATCHING = pa.schema([("fragment", pa.int64())])


class RewriteItem(NamedTuple):
    """A task to carry out; runs on executors."""

    location: DatasetLocation
    pin: PinnedVersion
    """What the task was planned on: only that version has its fragments for certain."""
    number: int
    job: str
    rows: int | None
    """Rows that have to come out; None where the version does not know."""


class MatchItem(NamedTuple):
    """Fragments to look for rows in; runs on executors."""

    location: DatasetLocation
    pin: PinnedVersion
    fragments: tuple[int, ...]
    where: str


def plan_rewrites(
    location: DatasetLocation, pin: PinnedVersion, fragments: dict[int, Fragment], target_rows: int, leave: set[int]
) -> list[RewriteTask]:
    """The tasks of a compaction of a version, without the fragments in ``leave``."""
    from lance.optimize import Compaction

    dataset = open_pinned(location, pin)
    options = {"target_rows_per_fragment": target_rows, "excluded_fragment_ids": sorted(leave)}
    with translated(location, "planning a compaction"):
        jobs = [task.json() for task in Compaction.plan(dataset, options).tasks]
    found = []
    for job in jobs:
        ids = [source["id"] for source in json.loads(job)["task"]["fragments"]]
        found.append(RewriteTask(tuple(fragments[key] for key in ids), job))
    return found


def rewrite(item: RewriteItem) -> Iterator[pa.RecordBatch]:
    """REWRITTEN of one task. Raises CorruptData unless the new files have all rows."""
    from lance.optimize import CompactionTask

    dataset = open_pinned(item.location, item.pin)
    with translated(item.location, "rewriting fragments"):
        result = CompactionTask.from_json(item.job).execute(dataset).json()
    written = sum(fragment["physical_rows"] for fragment in _new_fragments(result))
    if item.rows is not None and written != item.rows:
        raise CorruptData(
            f"A compaction of {item.location.uri} wrote {written} rows in place of {item.rows}. Nothing was changed.",
            hint="Run it again.",
        )
    yield pa.record_batch([pa.array([item.number]), pa.array([result])], schema=REWRITTEN)


def matching_fragments(item: MatchItem) -> Iterator[pa.RecordBatch]:
    """MATCHING: the fragments with a row that the condition is true for. Raises InvalidOption for a bad condition."""
    dataset = open_pinned(item.location, item.pin)
    found = []
    with translated(item.location, "looking for rows"):
        for key in item.fragments:
            fragment = dataset.get_fragment(key)
            scanner = fragment.scanner(columns=[], with_row_address=True, filter=item.where, limit=1)
            if scanner.to_table().num_rows:
                found.append(key)
    yield pa.record_batch([pa.array(found, pa.int64())], schema=MATCHING)


def rewritten_task(task: RewriteTask, result: str) -> RewrittenTask:
    """A task that was carried out, from pylance's result."""
    new = _new_fragments(result)
    files = [file for fragment in new for file in fragment["files"]]
    size = sum(file.get("file_size_bytes") or 0 for file in files)
    return RewrittenTask(task, result, tuple(file["path"] for file in files), len(new), size)


def commit_rewrites(
    location: DatasetLocation, planned: PinnedVersion, rewritten: Sequence[RewrittenTask]
) -> PinnedVersion:
    """Let new fragments take the place of old ones, in one step: all of them, or none. Returns the version.

    Raises Conflict when a version that was committed since the plan cannot be combined with it, or is missing.
    """
    from lance.optimize import Compaction, RewriteResult

    check_still_there(location, planned)
    check_nothing_missing(location, planned)
    # Not a handle of the planned version: pylance would take its indexes, and those that an earlier commit of the same
    # plan rewrote would be lost. Nor a shared handle: the commit moves it.
    dataset = open_latest(location, planned.branch)
    with translated(location, "committing a compaction"):
        Compaction.commit(dataset, [RewriteResult.from_json(entry.result) for entry in rewritten])
    return PinnedVersion(planned.branch, int(dataset.version))


def _new_fragments(result: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(result)["new_fragments"]
    return found
