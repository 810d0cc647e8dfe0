"""Searches through pylance on executors: of a whole version or its parts, for many vectors at once, and for text."""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.core.texts import counted
from lance_spark.errors import LanceSparkWarning
from lance_spark.format.schema import ROW_ADDRESS, ROW_ID, conform_column
from lance_spark.search import search_rules
from lance_spark.search.search_rules import FlatTask, SegmentTask, Task, TextGap, TextTask, WholeTask
from lance_spark.search.text_clones import with_complete_indexes
from lance_spark.search.text_rules import BoostQuery, MatchQuery, MultiMatchQuery, PhraseQuery, TextQuery
from lance_spark.search.vector_rules import QueryVector, Vectors, as_vectors, is_incomplete
from lance_spark.storage.datasets import open_pinned
from lance_spark.storage.failures import translated

if TYPE_CHECKING:
    import lance

ROWS_AT_ONCE = 8192
"""Rows per output batch: with wide columns, many more at once would not fit into memory."""
_SEARCHING = "searching"
LIVE = "_rowid >= 0"
"""True for every existing row: with this filter pylance asks an index only for those."""


@dataclass(frozen=True)
class Near:
    column: str
    metric: str
    indexed: bool
    segments: tuple[str, ...] = ()
    """Segments of the index that cover rows. Of several indexes on a column pylance uses the first one, and finds
    nothing if that has another metric."""
    nprobes: int | None = None
    refine_factor: int | None = None
    ef: int | None = None
    flat: tuple[int, ...] = ()
    """Fragments whose vectors are compared one by one."""

    def inside(self) -> dict[str, Any]:
        """The argument that restricts pylance to the segments."""
        return {"fast_search": True, "index_segments": list(self.segments)}

    def candidates(self, k: int) -> int:
        """How many rows an index yields for k."""
        return k * (self.refine_factor or 1)


@dataclass(frozen=True)
class SearchWork:
    """Everything a task needs to know about a search."""

    location: DatasetLocation
    pin: PinnedVersion
    k: int
    depth: int
    """The row count of a search by vector or text alone."""
    filter: str | None
    prefilter: bool
    fast: bool
    columns: tuple[str, ...]
    wire: pa.Schema
    """All output columns, in their output types."""
    near: Near | None = None
    query: QueryVector | None = None
    text: TextQuery | None = None
    gaps: tuple[TextGap, ...] = ()
    """What the text indexes lack."""
    rescored: bool = False
    """Whether an index's candidates are compared again, by exact distances."""

    keeps_ids: bool = False
    """Whether row ids are stable."""

    def lacks(self, found: int, asked: int) -> bool:
        """Whether an index may have returned deleted rows, and so too few existing ones.

        With stable row ids pylance 14.0.2 counts rows among the k nearest, or best, that were deleted and compacted
        away since the index was built, and drops them afterwards: its result is right, but incomplete.
        """
        return self.keeps_ids and self.filter is None and found < asked

    @property
    def vector(self) -> Vectors:
        assert self.query is not None
        return self.query.values


def find_candidates(work: SearchWork, task: Task) -> Iterator[pa.RecordBatch]:
    dataset = open_pinned(work.location, work.pin)
    with translated(work.location, _SEARCHING):
        if isinstance(task, TextTask):
            with (
                with_complete_indexes(work.location, work.pin, work.gaps)
                if work.gaps
                else nullcontext(dataset) as whole
            ):
                table, source, name = _by_text(whole, work), search_rules.FOUND, search_rules.SCORE
        else:
            table, source, name = _by_vector(dataset, work, task), search_rules.EXACT, search_rules.DISTANCE
            source = search_rules.APPROXIMATE if isinstance(task, SegmentTask) else search_rules.EXACT
    if not table.num_rows:
        return  # For a query without words pylance returns a table without chunks, which Arrow can hardly handle.
    columns = {
        search_rules.SOURCE: pa.repeat(pa.scalar(source, pa.int8()), table.num_rows),
        ROW_ID: table[ROW_ID].cast(pa.int64()),
        ROW_ADDRESS: table[ROW_ADDRESS].cast(pa.int64()),
        search_rules.VALUE: table[name].cast(pa.float32()),
    }
    # NaN and null: a zero vector has no direction, so no cosine distance.
    kept = pa.table(columns).filter(pc.is_finite(columns[search_rules.VALUE]))
    yield from kept.cast(search_rules.CANDIDATES).combine_chunks().to_batches()


def finish_search(work: SearchWork, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows that a search found, in order, from the candidates of all tasks; wide columns are read only now."""
    table = pa.Table.from_batches(batches, search_rules.CANDIDATES)
    if work.near is None:
        ranked = search_rules.measured(search_rules.found(table, work.k), search_rules.SCORE)
    else:
        kept = work.near.candidates(work.depth)
        near = search_rules.nearest(
            table, work.depth, kept, (lambda ids: exact_distances(work, ids)) if work.rescored else None
        )
        ranked = search_rules.measured(near, search_rules.DISTANCE)
        if work.text is not None:
            ranked = search_rules.fused(near, search_rules.found(table, work.depth), work.k)
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
    """The distances of rows, by their ids and in that order; NaN if there is none."""
    assert work.near is not None
    dataset = open_pinned(work.location, work.pin)
    with translated(work.location, "comparing vectors"):
        rows = [np.array(ids, np.int64)]
        (distances,) = candidate_distances(dataset, work.near.column, work.near.metric, work.vector[None, :], rows)
    return distances


def has_changed_rows(location: DatasetLocation, pin: PinnedVersion, fragments: Sequence[int]) -> bool:
    """Whether fragments hold rows that were changed after they were added, in a version with stable row ids."""
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
    """The arguments of pylance for a search for one vector, or for several."""
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
        # Without a factor, an index returns its approximate distances, by which segments are compared.
        asked.pop("refine_factor", None)
        asked["k"] = work.near.candidates(work.depth)
        scope = {"prefilter": True, "fast_search": True, "index_segments": list(task.segments)}
    elif isinstance(task, FlatTask):
        chosen = [fragment for fragment in map(dataset.get_fragment, task.fragments) if fragment is not None]
        scope = {"prefilter": True, "fragments": chosen}

    near = work.near
    flat = () if isinstance(task, SegmentTask) else task.fragments if isinstance(task, FlatTask) else near.flat

    def found(where: str | None) -> pa.Table:
        shown = {"columns": [search_rules.DISTANCE], "with_row_id": True, "with_row_address": True}
        told = {"nearest": asked, "filter": where, **scope}
        return _complete(dataset, near, shown, told, flat)

    table = found(work.filter)
    return found(LIVE) if asked["use_index"] and work.lacks(table.num_rows, asked["k"]) else table


def _complete(
    dataset: lance.LanceDataset, near: Near, shown: dict[str, Any], told: dict[str, Any], flat: Sequence[int]
) -> pa.Table:
    """The answer of a scan, in which ``flat`` fragments are compared one by one, without incomplete vectors."""
    table: pa.Table = dataset.scanner(**shown, **told).to_table()
    if not flat or not any_incomplete(dataset, near.column, pc.unique(table[ROW_ID]).to_pylist()):
        return table
    left_out = incomplete_rows(dataset, near.column, flat)
    found: pa.Table = dataset.scanner(**shown, **without_rows(told, left_out)).to_table()
    return found


def _by_text(dataset: lance.LanceDataset, work: SearchWork) -> pa.Table:
    query = lance_query(work.text) if work.text is not None else None

    def found(where: str | None) -> pa.Table:
        return dataset.scanner(
            columns=[search_rules.SCORE],
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
    [
        (search_rules.QUERY_INDEX, pa.int64()),
        (ROW_ID, pa.int64()),
        (ROW_ADDRESS, pa.int64()),
        (search_rules.DISTANCE, pa.float32()),
    ]
)
_QUERIES = 1024
"""How many queries share one scan: rows that an index does not cover are read once for all of them."""


class JoinWork(NamedTuple):
    """Everything a task of a join needs to know."""

    search: SearchWork
    """Its wire has the table's output columns, and the distance."""
    column: str
    """The column of vectors in the other table."""
    field: pa.Field
    flat: tuple[int, ...]
    """Fragments that no index covers."""
    names: tuple[str, ...]
    """Names of the added columns."""


def join_nearest(work: JoinWork, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Each row next to each of its neighbors, the nearest first; a row without a vector has none."""
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
    (right,) = conformed(work.search.wire, rows, hits.drop_columns([search_rules.QUERY_INDEX]))
    left = batch.take(pa.array(places[hits[search_rules.QUERY_INDEX].to_numpy()]))
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
    """The candidates of an index, sorted by query, with exact distances."""
    near = work.search.near
    assert near is not None
    bounds = np.searchsorted(found[search_rules.QUERY_INDEX].to_numpy(), np.arange(len(queries) + 1))
    ids = found[ROW_ID].to_numpy()
    candidates = [ids[begin:end] for begin, end in pairwise(bounds)]
    distances = np.concatenate(candidate_distances(dataset, near.column, near.metric, queries, candidates))
    found = found.set_column(
        found.column_names.index(search_rules.DISTANCE), search_rules.DISTANCE, pa.array(distances, pa.float32())
    )
    return found.filter(pc.is_finite(found[search_rules.DISTANCE]))


def _found(dataset: Any, work: JoinWork, asked: dict[str, Any], scope: dict[str, Any]) -> pa.Table:
    """The candidates of an index, if there is one; queries that got rows that are gone are repeated."""
    search, queries = work.search, asked["q"]
    table = _asked(dataset, work, asked, scope)
    if not asked["use_index"]:
        return table
    counts = np.bincount(table[search_rules.QUERY_INDEX].to_numpy(), minlength=len(queries))
    short = np.flatnonzero([search.lacks(int(count), asked["k"]) for count in counts])
    if not len(short):
        return table
    again = _asked(dataset, work, {**asked, "q": queries[short]}, {**scope, "filter": LIVE})
    places = pa.array(short[again[search_rules.QUERY_INDEX].to_numpy()], pa.int64())
    kept = table.filter(pc.invert(pc.is_in(table[search_rules.QUERY_INDEX], pa.array(short))))
    return pa.concat_tables([kept, again.set_column(0, search_rules.QUERY_INDEX, places)])


def _asked(dataset: Any, work: JoinWork, asked: dict[str, Any], scope: dict[str, Any]) -> pa.Table:
    """One scan, or, for several segments with stable row ids, one for each query.

    For several queries at once, pylance 14.0.2 then matches updated rows by their vectors in an older segment, which
    they no longer have.
    """
    near = work.search.near
    assert near is not None
    if not (asked["use_index"] and work.search.keeps_ids and len(near.segments) > 1):
        return _scan(dataset, work, asked, scope)
    return pa.concat_tables(
        [_scan(dataset, work, {**asked, "q": query}, scope, place) for place, query in enumerate(asked["q"])]
    )


def _scan(dataset: Any, work: JoinWork, asked: dict[str, Any], scope: dict[str, Any], place: int = 0) -> pa.Table:
    """The rows found for several queries, or for the one at a place."""
    told = {"filter": work.search.filter, "prefilter": work.search.prefilter, **scope}
    shown = {"columns": [search_rules.DISTANCE], "with_row_id": True, "with_row_address": True}
    flat = () if "index_segments" in scope else work.flat
    assert work.search.near is not None
    table = _complete(dataset, work.search.near, shown, {"nearest": asked, **told}, flat)
    if not table.num_rows:
        return _HITS.empty_table()
    if search_rules.QUERY_INDEX not in table.column_names:
        table = table.append_column(search_rules.QUERY_INDEX, pa.repeat(place, table.num_rows))
    columns = {
        search_rules.QUERY_INDEX: table[search_rules.QUERY_INDEX].cast(pa.int64()),
        ROW_ID: table[ROW_ID].cast(pa.int64()),
        ROW_ADDRESS: table[ROW_ADDRESS].cast(pa.int64()),
        search_rules.DISTANCE: table[search_rules.DISTANCE],
    }
    return pa.table(columns, _HITS).filter(pc.is_finite(table[search_rules.DISTANCE]))


def _nearest(table: pa.Table, k: int) -> pa.Table:
    """The k nearest of each query, by distance and row id."""
    order = [(search_rules.QUERY_INDEX, "ascending"), (search_rules.DISTANCE, "ascending"), (ROW_ID, "ascending")]
    table = table.sort_by(order)
    query = table[search_rules.QUERY_INDEX].to_numpy()
    begins = np.searchsorted(query, query, side="left")
    ranks = np.arange(len(query)) - begins
    return table.filter(pa.array(ranks < k)).combine_chunks()


# --- Exact distances, computed by pylance; runs on executors

Distances = npt.NDArray[np.float32]
_AT_ONCE = 16
"""How many queries are compared with the candidates of all of them: with more, most pairs are unrelated; with fewer,
the copy is not worth it. 1,000 queries with 50 candidates each took 0.5 seconds, and 2.1 if pylance read each query's.
"""


def candidate_distances(
    dataset: lance.LanceDataset, column: str, metric: str, queries: Vectors, candidates: Sequence[npt.NDArray[np.int64]]
) -> list[Distances]:
    """The distances of each query to rows of its own, by their ids and in that order; NaN if there is none.

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

    pylance computes them, from a copy in memory: numpy adds the same numbers up in another order, so the last digit
    would differ from that of a search by pylance alone.
    """
    import lance

    copy = lance.write_dataset(pa.table({"v": vectors}), f"memory://{uuid.uuid4().hex}")
    asked = {"column": "v", "q": queries, "k": len(vectors), "metric": metric, "use_index": False}
    told = copy.scanner(columns=[search_rules.DISTANCE], with_row_address=True, nearest=asked).to_table()
    matrix = np.full((len(queries), len(vectors)), np.nan, np.float32)
    places = told[ROW_ADDRESS].to_numpy().astype(np.int64)
    matrix[told[search_rules.QUERY_INDEX].to_numpy(), places] = told[search_rules.DISTANCE].to_numpy()
    return matrix


# --- Text queries for pylance; made where they are used, since they cannot be pickled


def lance_query(query: TextQuery) -> Any:
    """The query in pylance's form; each part of the given one has its column."""
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
    groups = (
        (lance.Occur.MUST, query.must),
        (lance.Occur.SHOULD, query.should),
        (lance.Occur.MUST_NOT, query.must_not),
    )
    return lance.BooleanQuery([(occur, lance_query(each)) for occur, group in groups for each in group])


# --- Rows whose vectors lack a number, or have one that is not finite: no search finds them
# An index leaves them out. Where pylance 14.0.2 compares vectors one by one, a missing number counts as zero, and with
# dot an infinite one is nearer than any other: such rows came first until there was an index.


def any_incomplete(dataset: lance.LanceDataset, column: str, ids: Sequence[int]) -> bool:
    """Whether one of these rows has such a vector."""
    if not ids:
        return False
    rows = dataset._take_rows(list(ids), columns={"v": _path(column)})
    return any(bool(is_incomplete(chunk).any()) for chunk in rows["v"].chunks)


def incomplete_rows(dataset: lance.LanceDataset, column: str, fragments: Sequence[int]) -> list[int]:
    """The ids of all such rows of some fragments; a warning tells their number. Reads all their vectors."""
    chosen = [fragment for fragment in map(dataset.get_fragment, fragments) if fragment is not None]
    found: list[int] = []
    for batch in dataset.scanner(columns={"v": _path(column)}, with_row_id=True, fragments=chosen).to_batches():
        found += batch.column(ROW_ID).filter(pa.array(is_incomplete(batch.column("v")))).to_pylist()
    warnings.warn(
        f"{counted(len(found), 'row')} of {dataset.uri} left out of a search: their vectors in column '{column}' lack "
        "a number, or have one that is not finite.",
        LanceSparkWarning,
        stacklevel=2,
    )
    return found


def without_rows(told: Mapping[str, Any], ids: Sequence[int]) -> dict[str, Any]:
    """The arguments of a scan that ranks no row of these ids."""
    if told.get("fragments") is None:
        from lance.dataset import serialize_row_addrs

        return {**told, "row_addr_blocklist": serialize_row_addrs(ids)}
    kept = f"{ROW_ID} NOT IN ({', '.join(map(str, ids))})"  # pylance takes no list of rows beside one of fragments
    where = told.get("filter")
    return {**told, "filter": kept if where is None else f"({where}) AND {kept}", "prefilter": True}


def _path(column: str) -> str:
    return ".".join(f"`{part}`" for part in column.split("."))
