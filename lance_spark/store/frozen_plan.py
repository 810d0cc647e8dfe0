"""Writes and reads the plan of a frozen set: a version of a branch of its own."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lance_spark.freezing.planning import Layout, unpack
from lance_spark.freezing.spec import LINEAGE, PLAN_SCHEMA, Lineage
from lance_spark.location import DatasetLocation
from lance_spark.manifest.transactions import MESSAGE
from lance_spark.refs.model import PinnedVersion
from lance_spark.store.commits import commit_on
from lance_spark.store.datasets import open_pinned, pin_latest
from lance_spark.store.failures import translated

WRITTEN = pa.schema([("slice", pa.int64()), ("rows", pa.int64()), ("fragments", pa.list_(pa.string()))])
"""A slice of a plan that was written, with its fragments as pylance's JSON."""


@dataclass(frozen=True)
class PlanJob:
    """What tasks need to write the plan of a set."""

    location: DatasetLocation
    branch: str
    layout: Layout


def write_slice(job: PlanJob, pieces: Iterable[bytes]) -> Iterator[pa.RecordBatch]:
    """WRITTEN of one slice, all rows of which are in memory: files of the branch that no version has yet."""
    from lance.fragment import write_fragments

    number, drawn = unpack(pieces, job.layout)
    with translated(job.location, "writing the plan"):
        # To "append" would have to fit the columns of the source.
        written: list[Any] = write_fragments(
            job.layout.ordered(number, drawn),
            job.location.branch_uri(job.branch),
            schema=PLAN_SCHEMA,
            mode="overwrite",
            storage_options=job.location.storage_options,
        )
    found = {"slice": number, "rows": drawn.num_rows, "fragments": [json.dumps(each.to_json()) for each in written]}
    yield pa.RecordBatch.from_pylist([found], schema=WRITTEN)


def commit_plan(location: DatasetLocation, branch: str, fragments: Sequence[str], lineage: Lineage) -> PinnedVersion:
    """Commit the plan as the newest version of its branch, in place of whatever that shows. Raises Conflict.

    ``fragments`` are those of WRITTEN, in the order of the plan.
    """
    import lance

    known = [lance.FragmentMetadata.from_json(each) for each in fragments]
    schema = PLAN_SCHEMA.with_metadata({LINEAGE: lineage.to_json()})
    operation = lance.LanceOperation.Overwrite(schema, known)
    message = {MESSAGE: f"Freeze '{lineage.name}': {lineage.rows:,} rows of {lineage.source}"}
    return commit_on(location, pin_latest(location, branch), operation, message)


def read_lineage(location: DatasetLocation, plan: PinnedVersion) -> Lineage | None:
    """The lineage in a version; None if it is no plan. Raises NotFound, CorruptData."""
    text = (open_pinned(location, plan).schema.metadata or {}).get(LINEAGE.encode())
    return None if text is None else Lineage.from_json(text.decode())


def has_stable_row_ids(location: DatasetLocation, pin: PinnedVersion) -> bool:
    """Whether ``_rowid`` stays with a row when it is updated or compacted."""
    return bool(open_pinned(location, pin).has_stable_row_ids)


def read_range(
    location: DatasetLocation, plan: PinnedVersion, first: int, count: int, batch_size: int
) -> Iterator[pa.RecordBatch]:
    """Rows of a plan in its order, in batches of at most that size."""
    dataset = open_pinned(location, plan)
    with translated(location, "reading the plan"):
        # In slices: a scanner's batches end where its own pages do.
        for start in range(first, first + count, batch_size):
            rows = dataset.to_table(offset=start, limit=min(batch_size, first + count - start))
            yield from rows.combine_chunks().to_batches()


def read_places(location: DatasetLocation, plan: PinnedVersion, places: Sequence[int]) -> pa.Table:
    """Rows of a plan by their numbers in it, in the order of these."""
    dataset = open_pinned(location, plan)
    with translated(location, "reading the plan"):
        rows: pa.Table = dataset.take(list(places))
        return rows
