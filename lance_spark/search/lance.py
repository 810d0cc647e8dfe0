"""Searches a version through pylance, as a whole or in parts; runs on executors."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.format.schema import ROW_ADDRESS, ROW_ID, conform_column
from lance_spark.search.rules import (
    APPROXIMATE,
    CANDIDATES,
    DISTANCE,
    EXACT,
    FOUND,
    QUERY_INDEX,
    SCORE,
    SOURCE,
    VALUE,
    FlatTask,
    SegmentTask,
    Task,
    TextTask,
    WholeTask,
    found,
    fused,
    measured,
    nearest,
)
from lance_spark.search.text_rules import BooleanQuery, BoostQuery, MatchQuery, MultiMatchQuery, PhraseQuery, TextQuery
from lance_spark.search.vector_rules import QueryVector, Vectors, as_vectors
from lance_spark.storage.datasets import open_pinned
from lance_spark.storage.failures import translated

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


# --- Searches for many vectors at once; runs on executors

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


# --- Exact distances, as pylance computes them; runs on executors

Distances = npt.NDArray[np.float32]
_AT_ONCE = 16
"""Queries whose candidates are compared with all of them: of more, too many pairs are of strangers; for fewer it is not
worth the copy. 1,000 queries with 50 candidates each took 0.5 seconds, and 2.1 where pylance read those of each."""


def candidate_distances(
    dataset: lance.LanceDataset, column: str, metric: str, queries: Vectors, candidates: Sequence[npt.NDArray[np.int64]]
) -> list[Distances]:
    """The distances of each query to rows of its own, by their ids and in that order; NaN where there is none.

    Vectors are read once for all queries.
    """
    ids = np.unique(np.concatenate(candidates)) if candidates else np.zeros(0, np.int64)
    if not len(ids):
        return [np.zeros(0, np.float32) for _ in candidates]
    taken = dataset._take_rows(ids.tolist(), columns={"v": ".".join(f"`{part}`" for part in column.split("."))})
    (vectors,) = taken.combine_chunks().to_batches()
    found: list[Distances] = []
    for start in range(0, len(candidates), _AT_ONCE):
        part = candidates[start : start + _AT_ONCE]
        own = np.unique(np.concatenate(part))
        if len(own):
            chosen = vectors.column(0).take(pa.array(np.searchsorted(ids, own)))
            matrix = _all_distances(chosen, metric, queries[start : start + len(part)])
            found += [matrix[at, np.searchsorted(own, rows)] for at, rows in enumerate(part)]
        else:
            found += [np.zeros(0, np.float32) for _ in part]
    return found


def _all_distances(vectors: pa.Array, metric: str, queries: Vectors) -> Distances:
    """The distances of queries to all vectors.

    pylance computes them, of a copy in memory: numpy adds the same numbers up in another order, so that the last
    digit would not be that of a search by pylance alone.
    """
    import lance

    copy = lance.write_dataset(pa.table({"v": vectors}), f"memory://{uuid.uuid4().hex}")
    asked = {"column": "v", "q": queries, "k": len(vectors), "metric": metric, "use_index": False}
    told = copy.scanner(columns=[DISTANCE], with_row_address=True, nearest=asked).to_table()
    matrix = np.full((len(queries), len(vectors)), np.nan, np.float32)
    places = told[ROW_ADDRESS].to_numpy().astype(np.int64)
    matrix[told[QUERY_INDEX].to_numpy(), places] = told[DISTANCE].to_numpy()
    return matrix


# --- Text queries as pylance takes them; made where they are used, since they do not pickle


def lance_query(query: TextQuery) -> Any:
    """The query as pylance takes it; each part of the one that is given has its column."""
    from lance import query as lance

    if isinstance(query, MatchQuery):
        return lance.MatchQuery(
            query.query,
            query.column,
            boost=query.boost,
            fuzziness=query.fuzziness,
            max_expansions=query.max_expansions,
            operator=lance.FullTextOperator(query.operator.upper()),
            prefix_length=query.prefix_length,
        )
    if isinstance(query, PhraseQuery):
        return lance.PhraseQuery(query.query, query.column, slop=query.slop)
    if isinstance(query, MultiMatchQuery):
        return lance.MultiMatchQuery(
            query.query,
            list(query.columns),
            boosts=list(query.boosts) or None,
            operator=lance.FullTextOperator(query.operator.upper()),
        )
    if isinstance(query, BoostQuery):
        return lance.BoostQuery(
            lance_query(query.positive), lance_query(query.negative), negative_boost=query.negative_boost
        )
    return _boolean(query)


def _boolean(query: BooleanQuery) -> Any:
    from lance import query as lance

    groups = (
        (lance.Occur.MUST, query.must),
        (lance.Occur.SHOULD, query.should),
        (lance.Occur.MUST_NOT, query.must_not),
    )
    return lance.BooleanQuery([(occur, lance_query(each)) for occur, group in groups for each in group])
