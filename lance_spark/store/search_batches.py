"""Searches for many vectors at once; runs on executors."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.schema.projection import ROW_ADDRESS, ROW_ID
from lance_spark.searching.binding import DISTANCE, QUERY_INDEX
from lance_spark.searching.vectors import Vectors, as_vectors
from lance_spark.store.datasets import open_pinned
from lance_spark.store.failures import translated
from lance_spark.store.search_distances import candidate_distances
from lance_spark.store.search_scans import LIVE, ROWS_AT_ONCE, SearchWork, asked_for, conformed, fetched

_HITS = pa.schema(
    [(QUERY_INDEX, pa.int64()), (ROW_ID, pa.int64()), (ROW_ADDRESS, pa.int64()), (DISTANCE, pa.float32())]
)
_QUERIES = 1024
"""Queries of one scan: those that an index does not cover are read once for all of them."""


class JoinWork(NamedTuple):
    """What a task of a join has to know."""

    search: SearchWork
    """Its wire are the table's columns that come out, and the distance."""
    column: str
    """The vectors, in the other table."""
    field: pa.Field
    """The column that they are searched for in."""
    flat: tuple[int, ...]
    """Fragments that no index covers."""
    names: tuple[str, ...]
    """What the columns that are added are called."""


def join_nearest(work: JoinWork, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Each row beside each of its neighbours, the nearest first; a row without a vector has none."""
    for batch in batches:
        for start in range(0, batch.num_rows, _QUERIES):
            yield from _joined(work, batch.slice(start, _QUERIES))


def _joined(work: JoinWork, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    places, queries = as_vectors(batch.column(batch.schema.get_field_index(work.column)), work.field)
    if not len(places):
        return
    hits = neighbours(work, queries)
    for start in range(0, hits.num_rows, ROWS_AT_ONCE):
        yield _beside(work, batch, places, hits.slice(start, ROWS_AT_ONCE).combine_chunks())


def _beside(work: JoinWork, batch: pa.RecordBatch, places: Vectors, hits: pa.Table) -> pa.RecordBatch:
    """Rows of both sides, for some hits."""
    ids, where = np.unique(hits[ROW_ID].to_numpy(), return_inverse=True)
    rows = fetched(work.search, work.search.columns, ids.tolist())
    if rows.num_columns:
        rows = rows.take(pa.array(where))
    (right,) = conformed(work.search.wire, rows, hits.drop_columns([QUERY_INDEX]))
    left = batch.take(pa.array(places[hits[QUERY_INDEX].to_numpy()]))
    added = [field.with_name(name) for field, name in zip(right.schema, work.names, strict=True)]
    return pa.RecordBatch.from_arrays([*left.columns, *right.columns], schema=pa.schema([*left.schema, *added]))


def neighbours(work: JoinWork, queries: Vectors) -> pa.Table:
    """The k nearest rows of each query: its place, ids of rows, distances; by query, then the nearest first."""
    search = work.search
    dataset = open_pinned(search.location, search.pin)
    near = search.near
    assert near is not None
    flat = [fragment for fragment in map(dataset.get_fragment, work.flat) if fragment is not None]
    if near.indexed and not near.segments and not flat:
        return _HITS.empty_table()
    asked = asked_for(near, queries, search.depth, use_index=True)
    with translated(search.location, "searching"):
        if not search.prefilter or not near.indexed or (near.refine_factor is None and not flat):
            scope = near.inside() if near.segments and not flat else {}
            return _nearest(_found(dataset, work, asked, scope), search.depth)
        # pylance alone would read candidates, and all rows that the index does not cover, once for each query.
        asked.pop("refine_factor", None)
        asked["k"] = near.candidates(search.depth)
        parts = []
        if near.segments:
            found = _found(dataset, work, asked, near.inside())
            parts.append(_exact(dataset, work, queries, _nearest(found, asked["k"])))
        if flat:
            one_by_one = asked_for(near, queries, search.depth, use_index=False)
            parts.append(_scan(dataset, work, one_by_one, {"fragments": flat}))
    return _nearest(pa.concat_tables(parts), search.depth)


def _exact(dataset: Any, work: JoinWork, queries: Vectors, found: pa.Table) -> pa.Table:
    """What an index found, sorted by query, with exact distances."""
    near = work.search.near
    assert near is not None
    bounds = np.searchsorted(found[QUERY_INDEX].to_numpy(), np.arange(len(queries) + 1))
    ids = found[ROW_ID].to_numpy()
    candidates = [ids[begin:end] for begin, end in pairwise(bounds)]
    distances = np.concatenate(candidate_distances(dataset, near.column, near.metric, queries, candidates))
    found = found.set_column(found.column_names.index(DISTANCE), DISTANCE, pa.array(distances, pa.float32()))
    return found.filter(pc.is_finite(found[DISTANCE]))


def _found(dataset: Any, work: JoinWork, asked: dict[str, Any], scope: dict[str, Any]) -> pa.Table:
    """What an index finds, if there is one; asked again for queries to which rows that are gone were given."""
    search, queries = work.search, asked["q"]
    table = _asked(dataset, work, asked, scope)
    if not asked["use_index"]:
        return table
    counts = np.bincount(table[QUERY_INDEX].to_numpy(), minlength=len(queries))
    short = np.flatnonzero([search.lacks(int(count), asked["k"]) for count in counts])
    if not len(short):
        return table
    again = _asked(dataset, work, {**asked, "q": queries[short]}, {**scope, "filter": LIVE})
    places = pa.array(short[again[QUERY_INDEX].to_numpy()], pa.int64())
    kept = table.filter(pc.invert(pc.is_in(table[QUERY_INDEX], pa.array(short))))
    return pa.concat_tables([kept, again.set_column(0, QUERY_INDEX, places)])


def _asked(dataset: Any, work: JoinWork, asked: dict[str, Any], scope: dict[str, Any]) -> pa.Table:
    """One scan, or, of several segments with stable row ids, one for each query.

    For several queries at once pylance 14.0.2 then takes rows that were updated for what they were in an older
    segment: near ones by vectors that they do not have any more.
    """
    near = work.search.near
    assert near is not None
    if not (asked["use_index"] and work.search.keeps_ids and len(near.segments) > 1):
        return _scan(dataset, work, asked, scope)
    return pa.concat_tables(
        [_scan(dataset, work, {**asked, "q": query}, scope, place) for place, query in enumerate(asked["q"])]
    )


def _scan(dataset: Any, work: JoinWork, asked: dict[str, Any], scope: dict[str, Any], place: int = 0) -> pa.Table:
    """What is found for several queries, or for the one at a place."""
    told = {"filter": work.search.filter, "prefilter": work.search.prefilter, **scope}
    scanner = dataset.scanner(columns=[DISTANCE], with_row_id=True, with_row_address=True, nearest=asked, **told)
    table = scanner.to_table()
    if not table.num_rows:
        return _HITS.empty_table()
    if QUERY_INDEX not in table.column_names:
        table = table.append_column(QUERY_INDEX, pa.repeat(place, table.num_rows))
    columns = {
        QUERY_INDEX: table[QUERY_INDEX].cast(pa.int64()),
        ROW_ID: table[ROW_ID].cast(pa.int64()),
        ROW_ADDRESS: table[ROW_ADDRESS].cast(pa.int64()),
        DISTANCE: table[DISTANCE],
    }
    return pa.table(columns, _HITS).filter(pc.is_finite(table[DISTANCE]))


def _nearest(table: pa.Table, k: int) -> pa.Table:
    """The k nearest of each query, by distance and row id."""
    order = [(QUERY_INDEX, "ascending"), (DISTANCE, "ascending"), (ROW_ID, "ascending")]
    table = table.sort_by(order)
    query = table[QUERY_INDEX].to_numpy()
    begins = np.searchsorted(query, query, side="left")
    ranks = np.arange(len(query)) - begins
    return table.filter(pa.array(ranks < k)).combine_chunks()
