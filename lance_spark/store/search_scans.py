"""Searches a version through pylance, as a whole or in parts; runs on executors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.location import DatasetLocation
from lance_spark.refs.model import PinnedVersion
from lance_spark.schema.conform import conform_column
from lance_spark.schema.projection import ROW_ADDRESS, ROW_ID
from lance_spark.searching.binding import DISTANCE, SCORE
from lance_spark.searching.ranking import (
    APPROXIMATE,
    CANDIDATES,
    EXACT,
    FOUND,
    SOURCE,
    VALUE,
    found,
    fused,
    measured,
    nearest,
)
from lance_spark.searching.tasks import FlatTask, SegmentTask, Task, TextTask, WholeTask
from lance_spark.searching.text import TextQuery
from lance_spark.searching.vectors import QueryVector, Vectors
from lance_spark.store.datasets import open_pinned
from lance_spark.store.failures import translated
from lance_spark.store.search_distances import Distances, candidate_distances
from lance_spark.store.search_text import lance_query

if TYPE_CHECKING:
    import lance

ROWS_AT_ONCE = 8192
"""Of those that come out: with wide columns many more at once would not fit into memory."""
_SEARCHING = "searching"
LIVE = "_rowid >= 0"
"""True of every row that is there: with it pylance asks an index for no others."""


@dataclass(frozen=True)
class Near:
    """How a vector is searched for."""

    column: str
    metric: str
    indexed: bool
    """Whether an index answers."""
    segments: tuple[str, ...] = ()
    """Those of the index that cover rows. A column may have several indexes, of which pylance takes the first one,
    and finds nothing if that is of another metric."""
    nprobes: int | None = None
    refine_factor: int | None = None
    ef: int | None = None

    def inside(self) -> dict[str, Any]:
        """How pylance is told to look only into the segments."""
        return {"fast_search": True, "index_segments": list(self.segments)}

    def candidates(self, k: int) -> int:
        """How many rows an index gives for k."""
        return k * (self.refine_factor or 1)


@dataclass(frozen=True)
class SearchWork:
    """What a task has to know of a search."""

    location: DatasetLocation
    pin: PinnedVersion
    k: int
    depth: int
    """Rows of a search by one of the two."""
    filter: str | None
    prefilter: bool
    fast: bool
    columns: tuple[str, ...]
    """What comes out beside the measures."""
    wire: pa.Schema
    """All that comes out, in the types in which it does."""
    near: Near | None = None
    query: QueryVector | None = None
    text: TextQuery | None = None
    rescored: bool = False
    """Whether what an index finds is compared again, by exact distances."""

    keeps_ids: bool = False
    """Whether row ids are stable."""

    def lacks(self, found: int, asked: int) -> bool:
        """Whether an index may have given rows that are gone, and so too few that are there.

        With stable row ids pylance 14.0.2 counts rows among the k nearest, or best, that were deleted and compacted
        away since the index was built, and drops them afterwards: what it finds is right, and not all.
        """
        return self.keeps_ids and self.filter is None and found < asked

    @property
    def vector(self) -> Vectors:
        """The vector."""
        assert self.query is not None
        return self.query.values


def find_candidates(work: SearchWork, task: Task) -> Iterator[pa.RecordBatch]:
    """CANDIDATES of one task."""
    dataset = open_pinned(work.location, work.pin)
    with translated(work.location, _SEARCHING):
        if isinstance(task, TextTask):
            table, source, name = _by_text(dataset, work), FOUND, SCORE
        else:
            table, source, name = _by_vector(dataset, work, task), EXACT, DISTANCE
            source = APPROXIMATE if isinstance(task, SegmentTask) else EXACT
    if not table.num_rows:
        return  # Of a query without words pylance gives a table without chunks, which Arrow can hardly handle.
    columns = {
        SOURCE: pa.repeat(pa.scalar(source, pa.int8()), table.num_rows),
        ROW_ID: table[ROW_ID].cast(pa.int64()),
        ROW_ADDRESS: table[ROW_ADDRESS].cast(pa.int64()),
        VALUE: table[name].cast(pa.float32()),
    }
    # NaN and null: a vector of zeros has no direction, and so no distance by cosine.
    kept = pa.table(columns).filter(pc.is_finite(columns[VALUE]))
    yield from kept.cast(CANDIDATES).combine_chunks().to_batches()


def finish_search(work: SearchWork, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows that a search found, in their order, from the candidates of all tasks; wide columns are read now."""
    table = pa.Table.from_batches(batches, CANDIDATES)
    if work.near is None:
        ranked = measured(found(table, work.k), SCORE)
    else:
        kept = work.near.candidates(work.depth)
        near = nearest(table, work.depth, kept, (lambda ids: exact_distances(work, ids)) if work.rescored else None)
        ranked = measured(near, DISTANCE)
        if work.text is not None:
            ranked = fused(near, found(table, work.depth), work.k)
    for start in range(0, ranked.num_rows, ROWS_AT_ONCE):
        part = ranked.slice(start, ROWS_AT_ONCE).combine_chunks()
        yield from conformed(work.wire, fetched(work, work.columns, part[ROW_ID].to_pylist()), part)


def fetched(work: SearchWork, columns: Sequence[str], ids: Sequence[int]) -> pa.Table:
    """Columns of rows, by their ids and in that order; without _rowid and _rowaddr."""
    dataset = open_pinned(work.location, work.pin)
    names = [name for name in columns if name not in (ROW_ID, ROW_ADDRESS)]
    if not names:
        return pa.table({})
    with translated(work.location, "reading the rows that were found"):
        rows: pa.Table = dataset._take_rows(list(ids), columns=names)
    return rows


def conformed(wire: pa.Schema, rows: pa.Table, ranked: pa.Table) -> Iterator[pa.RecordBatch]:
    """Rows and their measures as one batch of the schema."""
    if not ranked.num_rows:
        return
    columns = []
    for field in wire:
        table = ranked if field.name in ranked.column_names else rows
        (chunk,) = table.select([field.name]).combine_chunks().to_batches()
        columns.append(conform_column(chunk.column(0), field))
    yield pa.RecordBatch.from_arrays(columns, schema=wire)


def exact_distances(work: SearchWork, ids: Sequence[int]) -> Distances:
    """The distances of rows, by their ids and in that order; NaN where there is none."""
    assert work.near is not None
    dataset = open_pinned(work.location, work.pin)
    with translated(work.location, "comparing vectors"):
        rows = [np.array(ids, np.int64)]
        (distances,) = candidate_distances(dataset, work.near.column, work.near.metric, work.vector[None, :], rows)
    return distances


def has_changed_rows(location: DatasetLocation, pin: PinnedVersion, fragments: Sequence[int]) -> bool:
    """Whether fragments hold rows that were changed after they came, in a version with stable row ids."""
    dataset = open_pinned(location, pin)
    with translated(location, "looking for changed rows"):
        scanner = dataset.scanner(
            columns=[],
            with_row_id=True,
            fragments=[each for each in map(dataset.get_fragment, fragments) if each is not None],
            filter="_row_last_updated_at_version > _row_created_at_version",
            limit=1,
        )
        return bool(scanner.to_table().num_rows)


def asked_for(near: Near, query: Vectors, k: int, use_index: bool) -> dict[str, Any]:
    """What pylance is asked for a vector, or for several."""
    asked: dict[str, Any] = {
        "column": near.column,
        "q": query,
        "k": k,
        "metric": near.metric,
        "use_index": use_index and near.indexed,
    }
    if asked["use_index"]:
        chosen = {"nprobes": near.nprobes, "refine_factor": near.refine_factor, "ef": near.ef}
        asked |= {name: value for name, value in chosen.items() if value is not None}
    return asked


def _by_vector(dataset: lance.LanceDataset, work: SearchWork, task: Task) -> pa.Table:
    assert work.near is not None
    asked = asked_for(work.near, work.vector, work.depth, use_index=not isinstance(task, FlatTask))
    scope: dict[str, Any] = {"prefilter": work.prefilter}
    if isinstance(task, WholeTask) and work.fast:
        scope |= work.near.inside()
    elif isinstance(task, SegmentTask):
        # Without a factor an index tells the distances that it knows, by which segments are compared with each other.
        asked.pop("refine_factor", None)
        asked["k"] = work.near.candidates(work.depth)
        scope = {"prefilter": True, "fast_search": True, "index_segments": list(task.segments)}
    elif isinstance(task, FlatTask):
        chosen = [fragment for fragment in map(dataset.get_fragment, task.fragments) if fragment is not None]
        scope = {"prefilter": True, "fragments": chosen}

    def found(where: str | None) -> pa.Table:
        return dataset.scanner(
            columns=[DISTANCE], with_row_id=True, with_row_address=True, nearest=asked, filter=where, **scope
        ).to_table()

    table = found(work.filter)
    return found(LIVE) if asked["use_index"] and work.lacks(table.num_rows, asked["k"]) else table


def _by_text(dataset: lance.LanceDataset, work: SearchWork) -> pa.Table:
    query = lance_query(work.text) if work.text is not None else None

    def found(where: str | None) -> pa.Table:
        return dataset.scanner(
            columns=[SCORE],
            with_row_id=True,
            with_row_address=True,
            full_text_query=query,
            limit=work.depth,
            filter=where,
            prefilter=work.prefilter,
            fast_search=work.fast,
        ).to_table()

    table = found(work.filter)
    return found(LIVE) if work.lacks(table.num_rows, work.depth) else table
