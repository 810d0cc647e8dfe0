"""Searches as values: requests and their checks, columns and indexes, tasks, and one answer from many. Pure.

Arguments of ``LanceTable.search`` come in. What comes out is a request bound to a version, and ranked rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lance_spark import hints
from lance_spark.core.declared import declared, option
from lance_spark.core.texts import meant
from lance_spark.errors import InvalidOption, NotFound, SchemaMismatch
from lance_spark.format.blobs import holds_blobs
from lance_spark.format.metadata import Segment
from lance_spark.format.schema import ROW_ADDRESS, ROW_ID, unknown_column
from lance_spark.indexes import index_rules
from lance_spark.indexes.index_rules import Rows
from lance_spark.search import text_rules
from lance_spark.search.text_rules import PhraseQuery, TextQuery, Wording

RERANKS = ("rrf",)
_METRICS = (*index_rules.METRICS, index_rules.HAMMING)
_ARGUMENTS = ("vector", "text", "column", "k", "filter", "columns", "where")
"""Arguments of a search that are not options."""
_HINTS = {
    **dict.fromkeys(
        ("language", "base_tokenizer", "stem"),
        "The index defines how text is split into words: t.indexes.create(column, kind='inverted', ...).",
    ),
    **dict.fromkeys(("limit", "top_k", "topk", "n"), "The number of rows is k=10."),
    **dict.fromkeys(("query", "q"), "Give vector=[...], text='late storm', or both."),
    **dict.fromkeys(
        ("branch", "tag", "version"), "A search reads the version of its handle: t.checkout(branch='exp')."
    ),
}
"""Hints for options of other tools, or that belong elsewhere."""
_EUCLIDEAN = "euclidean"
_MOST = 2**31 - 1
_LEAST_CANDIDATES = 100


_option = partial(option, places=("sql",))


@dataclass(frozen=True)
class SearchOptions:
    """The options of a search, besides its vector and text; see ``LanceTable.search``."""

    metric: str | None = _option(
        None,
        "of vectors: l2 (squared), cosine or dot, for bytes hamming; by default that of the index, or l2. "
        "If no index has the metric, all vectors are compared",
    )
    nprobes: int | None = _option(None, "of vectors: the minimum number of index partitions to search")
    refine_factor: int | None = _option(
        None, "of vectors: compare this number times k candidates of an index by their exact distances"
    )
    ef: int | None = _option(
        None, "of vectors: number of candidates that a graph (HNSW) keeps during the search; at least k"
    )
    use_index: bool = _option(True, "of vectors: false to compare every vector")
    prefilter: bool = _option(
        True, "false to filter the k rows found instead of the rows to search in, which may leave fewer"
    )
    fast: bool = _option(False, "whether to leave out rows that no index covers; an error if there is no index")
    rerank: str = _option(
        "rrf", "of a vector and a text: how their rows are ranked together; rrf is reciprocal rank fusion"
    )
    candidates: int | None = _option(
        None, "of a vector and a text: the number of rows of each that are ranked together"
    )
    text_column: str | Sequence[str] | Mapping[str, float] | None = _option(
        None, "of a vector and a text: the columns for the text; column is then that of the vector"
    )
    phrase: bool = _option(False, "of text: require the words next to one another; the index needs with_position=True")
    fuzziness: int = _option(
        0,
        "of text: the number of letters by which words may differ: 0, 1 or 2",
    )
    operator: str = _option("or", "of text: or for one of the words, and to require all of them")
    slop: int = _option(0, "of a phrase: at most this number of other words in between")


@dataclass(frozen=True)
class VectorPart:
    """The vector of a search, or the way a join searches for each of its vectors."""

    column: str | None
    values: Any
    """None in a join, whose vectors come later."""


@dataclass(frozen=True)
class TextPart:
    query: TextQuery


@dataclass(frozen=True)
class SearchRequest:
    k: int
    filter: str | None
    columns: tuple[str, ...] | None
    options: SearchOptions
    vector: VectorPart | None = None
    text: TextPart | None = None

    @property
    def is_hybrid(self) -> bool:
        """Whether rows are ranked by both vector and text."""
        return self.vector is not None and self.text is not None

    @property
    def depth(self) -> int:
        """How many rows each of the two contributes; in a search by one, the number of rows in the result."""
        if not self.is_hybrid:
            return self.k
        return max(self.k, self.options.candidates or max(_LEAST_CANDIDATES, 2 * self.k))


def parse_search(
    vector: Any,
    text: object,
    column: str | Sequence[str] | Mapping[str, float] | None,
    common: tuple[int, str | None, str | Sequence[str] | None],
    options: Mapping[str, Any],
) -> SearchRequest:
    """The search that arguments define; ``common`` are k, filter and columns. Raises InvalidOption."""
    chosen = parse_options(options)
    if vector is None and text is None:
        raise InvalidOption("The search has no vector and no text.", hint="Give vector=, text= or both.")
    boosts = _boosts(column)
    if vector is not None and not (column is None or isinstance(column, str)):
        raise InvalidOption("A vector search takes one column.", hint="For the text, name columns in text_column=.")
    if chosen.text_column is not None and (vector is None or text is None):
        raise InvalidOption(
            "text_column= requires both vector= and text=.", hint="For a search by one of them, use column=."
        )
    boosts = boosts if vector is None else _boosts(chosen.text_column)
    wording = Wording(chosen.phrase, chosen.fuzziness, chosen.operator, chosen.slop)
    if text is None and wording != Wording():
        raise InvalidOption("phrase, fuzziness, operator and slop require text=.", hint="Give text=, or omit them.")
    return SearchRequest(
        *_common(*common),
        chosen,
        None if vector is None else VectorPart(column, vector),  # type: ignore[arg-type]
        None if text is None else TextPart(text_rules.text_query(text, boosts, wording)),
    )


def parse_join(
    column: str | None, common: tuple[int, str | None, str | Sequence[str] | None], options: Mapping[str, Any]
) -> SearchRequest:
    """A search whose vectors come later. Raises InvalidOption."""
    return SearchRequest(*_common(*common), parse_options(options), VectorPart(column, None))


def parse_options(given: Mapping[str, Any]) -> SearchOptions:
    """The options. Raises InvalidOption for unknown names, with similar ones, and for invalid values."""
    _check_names(given)
    options = SearchOptions(**given)
    if isinstance(options.metric, str):
        metric = options.metric.lower()
        options = replace(options, metric=index_rules.METRICS[0] if metric == _EUCLIDEAN else metric)
    for each in declared(SearchOptions):
        value = getattr(options, each.name)
        if each.kind == "number" and each.default is None:  # those of a text are checked with it
            _check_positive(each.name, value)
        if each.kind == "flag" and not isinstance(value, bool):
            raise InvalidOption(f"{each.name} must be True or False, not {value!r}.")
    if options.metric is not None and options.metric not in _METRICS:
        raise InvalidOption(f"There is no metric '{options.metric}'.", hint=meant(str(options.metric), _METRICS))
    if options.rerank not in RERANKS:
        raise InvalidOption(f"Unknown rerank method '{options.rerank}'.", hint=f"Choose one of {', '.join(RERANKS)}.")
    if options.fast and not options.use_index:
        raise InvalidOption("fast=True searches only indexes, and use_index=False searches none: omit one.")
    return options


def _check_names(given: Mapping[str, Any]) -> None:
    known = [each.name for each in declared(SearchOptions)]
    for name in given:
        if name not in known:
            hint = _HINTS.get(name) or meant(name, [*_ARGUMENTS, *known])
            raise InvalidOption(f"A search has no option '{name}'.", hint=hint)


def _common(
    k: int, filter: str | None, columns: str | Sequence[str] | None
) -> tuple[int, str | None, tuple[str, ...] | None]:
    _check_positive("k", k, missing=False)
    return k, filter, parse_shown(filter, columns)


def parse_shown(filter: object, columns: object) -> tuple[str, ...] | None:
    """The named columns; None for all. Raises InvalidOption for invalid names, and unless the filter is text."""
    if filter is not None and not isinstance(filter, str):
        raise InvalidOption(f"filter must be text, not {filter!r}.", hint="Such as \"lang = 'de'\": Lance's SQL.")
    if filter is not None and not filter.strip():
        raise InvalidOption("The filter is empty.", hint="Omit it, or give one such as lang = 'de'.")
    return None if columns is None else _names("columns", columns)


def _names(argument: str, given: object) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, Iterable) else (None,)
    if not all(isinstance(name, str) for name in names):
        raise InvalidOption(f"{argument} must be a name, or a list of names, not {given!r}.")
    return names


def check_name(column: object) -> str:
    """The name of a column. Raises InvalidOption unless it is text."""
    if not isinstance(column, str):
        raise InvalidOption(f"A column is given by its name, not as {type(column).__name__}.")
    return column


def _check_positive(name: str, value: Any, missing: bool = True) -> None:
    if value is None and missing:
        return
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidOption(f"{name} must be a whole number, 1 or more, not {value!r}.")
    if value > _MOST:
        raise InvalidOption(f"{name} must be at most {_MOST:,}, not {value}.")


def _boosts(columns: str | Sequence[str] | Mapping[str, float] | None) -> dict[str, float] | None:
    if columns is None:
        return None
    if isinstance(columns, str):
        return {columns: 1.0}
    if isinstance(columns, Mapping):
        found = dict(columns)
        _names("column", list(found))
    else:
        found = dict.fromkeys(_names("column", columns), 1.0)
    if not found:
        raise InvalidOption("column= names no columns.", hint="Name one, or omit column=.")
    return found


# --- The column and the index of a search

DISTANCE, SCORE, RELEVANCE = "_distance", "_score", "_relevance_score"
QUERY_INDEX = "query_index"
"""pylance's name for the place of a query among several."""


@dataclass(frozen=True)
class ColumnIndex:
    name: str
    settings: Mapping[str, Any]
    segments: tuple[Segment, ...]

    def live(self, rows: Rows) -> tuple[str, ...]:
        """The segments that cover live rows."""
        return tuple(each.uuid for each in self.segments if any(rows.get(fragment) for fragment in each.fragments))

    def uncovered(self, rows: Rows) -> list[int]:
        """Fragments with rows that it does not cover."""
        known = index_rules.covered(self.segments)
        return sorted(fragment for fragment, count in rows.items() if count and fragment not in known)


def vector_index(
    indexes: Mapping[str, Sequence[Segment]], settings: Mapping[str, Mapping[str, Any]], column: str, metric: str | None
) -> ColumnIndex | None:
    """The index of a column that serves a metric: the first one by name. ``settings`` are by index."""
    for name, segments in indexes.items():
        kind = index_rules.described_kind(segments[0].index_type)
        fits = kind is not None and kind.is_vector and list(segments[0].columns) == [column]
        told = settings[name].get("metric")
        if fits and told is not None and metric in (None, told):
            return ColumnIndex(name, settings[name], tuple(segments))
    return None


def bound_text(schema: pa.Schema, query: TextQuery, indexed: Sequence[str]) -> TextQuery:
    """The query with its columns, each of which holds text. ``indexed`` are columns with a text index.

    Raises NotFound, SchemaMismatch, InvalidOption.
    """
    texts = [field.name for field in schema if _is_text(field.type)]
    if None in text_rules.columns_of(query):
        query = text_rules.on_column(query, the_only([name for name in texts if name in indexed] or texts, "text"))
    for column in text_rules.columns_of(query):
        field = index_rules.find_column(schema, str(column))
        if not _is_text(field.type):
            raise SchemaMismatch(
                f"Column '{column}' is {field.type} and does not hold text.", hint=those("Text is", texts)
            )
    return query


def text_indexes(
    indexes: Mapping[str, Sequence[Segment]], settings: Mapping[str, Mapping[str, Any]]
) -> dict[str, ColumnIndex]:
    found: dict[str, ColumnIndex] = {}
    for name, segments in indexes.items():
        kind = index_rules.described_kind(segments[0].index_type)
        if kind is not None and kind.family == index_rules.TEXT and len(segments[0].columns) == 1:
            found.setdefault(segments[0].columns[0], ColumnIndex(name, settings[name], tuple(segments)))
    return found


def later_fragments(index: ColumnIndex, rows: Rows) -> list[int]:
    """Fragments with rows whose segments were built for a later version than the first segments."""
    built = {segment.uuid: segment.dataset_version or 0 for segment in index.segments}
    first = min(built.values())
    later = index_rules.covered(segment for segment in index.segments if built[segment.uuid] > first)
    return sorted(fragment for fragment in later if rows.get(fragment))


def check_phrases(query: TextQuery, indexes: Mapping[str, ColumnIndex]) -> None:
    """Raise InvalidOption for a phrase in a column whose index has no word positions."""
    for part in text_rules.parts(query):
        index = indexes.get(str(part.column)) if isinstance(part, PhraseQuery) else None
        if index is not None and index.settings.get("with_position") is False:
            raise InvalidOption(
                f"The index '{index.name}' does not store word positions, which a phrase needs.",
                hint=hints.create_index(
                    index.segments[0].columns[0], kind="inverted", with_position=True, replace=True
                ),
            )


TEXT_KIND = "inverted"


@dataclass(frozen=True)
class TextGap:
    """Rows of a column with text that no index covers, and how they are indexed for one search."""

    column: str
    name: str
    """Of the index that they are added to, or of one that there is not."""
    settings: Mapping[str, Any]
    fragments: tuple[int, ...]
    without: tuple[str, ...] = ()
    """Segments left out: they have rows of these fragments with former words."""


def text_gap(
    column: str, index: ColumnIndex | None, rows: Rows, rewritten: Collection[int], phrase: bool
) -> TextGap | None:
    """What an index of a column lacks; None if it covers all rows, or if nobody knows how it was built.

    Its words are split as those of the index, or, if there is none, as those of an index with default settings.
    ``rewritten`` are fragments whose rows a segment may have with former words; ``phrase`` is whether positions matter.
    """
    every = tuple(sorted(fragment for fragment, count in rows.items() if count))
    if index is None:
        return TextGap(column, f"{column}_search", {"with_position": phrase}, every) if every else None
    missing = index.uncovered(rows)
    if not missing or not index.settings:
        return None
    if not {*missing} & {*rewritten}:
        return TextGap(column, index.name, index.settings, tuple(missing))
    return TextGap(column, index.name, index.settings, every, tuple(each.uuid for each in index.segments))


def check_measures(schema: pa.Schema, measures: Sequence[str]) -> None:
    """Raise SchemaMismatch for a column with the name, but not the type, of a column that pylance adds."""
    for name in measures:
        if name in schema.names and schema.field(name).type != pa.float32():
            raise SchemaMismatch(
                f"The table has a column '{name}', {schema.field(name).type}, a name that pylance needs itself.",
                hint=hints.of("Rename it: ", hints.rename_column(name), "."),
            )


def no_index(column: str, type: pa.DataType, family: str, metric: str | None = None) -> NotFound:
    """The error for fast=True without an index of that family."""
    of = f" for the metric {metric}" if metric else ""
    kinds = ", ".join(kind for kind in index_rules.fitting_kinds(type) if index_rules.KINDS[kind].family == family)
    make = f"Create one: t.indexes.create('{column}', kind=...), of {kinds}; or leave" if kinds else "Leave"
    return NotFound(
        f"Column '{column}' has no {family} index{of} here, and fast=True searches nothing else.",
        hint=f"{make} fast=True out.",
    )


def shown_columns(schema: pa.Schema, wanted: Sequence[str] | None, measures: Sequence[str]) -> tuple[str, ...]:
    """The columns of the result, without those that the search adds. By default, blobs are omitted.

    Raises NotFound, InvalidOption.
    """
    blobs = {field.name for field in schema if holds_blobs(field)}
    if wanted is None:
        chosen = tuple(name for name in schema.names if name not in blobs)
    else:
        chosen = tuple(name for name in wanted if name not in measures)
    for name in chosen:
        if name in blobs:
            raise InvalidOption(
                f"Column '{name}' holds blobs, which a search does not fetch.",
                hint="Include _rowid, and read the blobs of these rows.",
            )
        if name not in schema.names and name not in (ROW_ID, ROW_ADDRESS):
            raise unknown_column(name, [*schema.names, ROW_ID, ROW_ADDRESS])
        if chosen.count(name) > 1:
            raise InvalidOption(f"Column '{name}' is named twice.")
    taken = [name for name in chosen if name in measures]
    if taken:
        raise InvalidOption(
            f"Column '{taken[0]}' has the name of a column that the search adds.", hint="List others in columns=."
        )
    return chosen


def _is_text(type: pa.DataType) -> bool:
    if pt.is_list(type) or pt.is_large_list(type):
        return _is_text(type.value_type)
    return index_rules.is_text(type)


# --- The default column


def the_only(names: Sequence[str], what: str) -> str:
    """The only column that can be searched. Raises SchemaMismatch if there is none, InvalidOption for several."""
    if len(names) == 1:
        return names[0]
    if not names:
        raise SchemaMismatch(f"The table has no column with {what} to search.")
    raise InvalidOption(
        f"{len(names)} columns hold {what}: {', '.join(names)}.", hint=f"Name one: column='{names[0]}'."
    )


def those(what: str, names: Sequence[str]) -> str:
    """A hint: the columns that hold it."""
    return f"{what} in {', '.join(names)}." if names else "There is no such column."


# --- The tasks of a search
#
# A vector is searched for in segments of an index, which yield candidates with approximate distances, and in groups of
# fragments that no segment covers, which yield exact ones. pylance does the same in one process; the tasks together
# find what it finds there.

FLAT_BYTES = 64 * 2**20
"""Bytes of vectors per task that are compared one by one: fewer are not worth a task of their own."""
SEGMENT_BYTES = 64 * 2**20
"""Segments of fewer bytes share a task."""


class WholeTask(NamedTuple):
    """Everything, by pylance alone."""


class SegmentTask(NamedTuple):
    segments: tuple[str, ...]


class FlatTask(NamedTuple):
    fragments: tuple[int, ...]


class TextTask(NamedTuple):
    """The text, in all segments and fragments: every score depends on word frequencies in all texts."""


Task = WholeTask | SegmentTask | FlatTask | TextTask


def vector_tasks(
    segments: Sequence[Segment], flat: Collection[int], rows: Rows, width: float, side_by_side: int
) -> tuple[Task, ...]:
    """The tasks for one vector. ``width`` is the bytes of a vector, ``flat`` the fragments that no segment covers."""
    live = [segment for segment in segments if any(rows.get(fragment) for fragment in segment.fragments)]
    tasks: list[Task] = [SegmentTask(names) for names in _packed(live, side_by_side)]
    amount = sum(rows[fragment] for fragment in flat) * width
    count = max(1, min(len(flat), side_by_side, round(amount / FLAT_BYTES)))
    tasks += [FlatTask(tuple(group)) for group in index_rules.task_groups(flat, rows, count)]
    return tuple(tasks)


def _packed(segments: Sequence[Segment], most: int) -> list[tuple[str, ...]]:
    """Segments for each task, about the same number of bytes in each."""
    sizes: Mapping[str, int] = {segment.uuid: segment.size_bytes or 0 for segment in segments}
    count = min(len(segments), most, max(1, sum(sizes.values()) // SEGMENT_BYTES))
    bins: list[list[str]] = [[] for _ in range(count)]
    filled = [0] * count
    for uuid in sorted(sizes, key=lambda each: (-sizes[each], each)):
        least = filled.index(min(filled))
        bins[least].append(uuid)
        filled[least] += max(1, sizes[uuid])
    return [tuple(names) for names in bins]


def bytes_to_look_at(segments: Sequence[Segment], flat_rows: int, width: float, filtered_rows: int) -> int:
    """About how many bytes a search reads.

    An index is read in parts, and a filter without an index of its own must be evaluated for every row.
    """
    indexed = sum(segment.size_bytes or 0 for segment in segments) // 16
    return int(indexed + flat_rows * width + filtered_rows * 8)


# --- One answer from those of tasks
# Pure: Arrow tables in and out.

SOURCE, VALUE = "source", "value"
APPROXIMATE, EXACT, FOUND = 0, 1, 2
"""Approximate distances from an index, exact distances, scores of text."""
CANDIDATES = pa.schema(
    [
        pa.field(SOURCE, pa.int8(), nullable=False),
        pa.field(ROW_ID, pa.int64(), nullable=False),
        pa.field(ROW_ADDRESS, pa.int64(), nullable=False),
        pa.field(VALUE, pa.float32(), nullable=False),
    ]
)
"""The answer of a task: rows, and how near or good they are."""
_RRF = 60
"""Added to each rank before dividing: the constant of the paper on reciprocal rank fusion, and of other tools."""
Rescore = Callable[[list[int]], npt.NDArray[np.float32]]
"""The exact distances of rows, by their ids."""


def best(table: pa.Table, count: int, largest: bool = False) -> pa.Table:
    """The first rows of CANDIDATES in order: by value, then by row id, like pylance. No duplicates, no NaN."""
    table = table.filter(pc.is_finite(table[VALUE]))
    order = pc.sort_indices(table, sort_keys=[(VALUE, "descending" if largest else "ascending"), (ROW_ID, "ascending")])
    table = table.take(order)
    _, first = np.unique(table[ROW_ID].to_numpy(), return_index=True)
    if len(first) < table.num_rows:
        table = table.take(pa.array(np.sort(first)))
    return table.slice(0, count)


def nearest(table: pa.Table, count: int, kept: int, rescore: Rescore | None) -> pa.Table:
    """The nearest rows of all tasks.

    Of an index's candidates ``kept`` rows stay; ``rescore`` compares these with the others by their exact distances.
    Without it, there are no others.
    """
    near = best(table.filter(pc.equal(table[SOURCE], APPROXIMATE)), kept)
    exact = table.filter(pc.equal(table[SOURCE], EXACT))
    if rescore is not None and near.num_rows:
        ids = near[ROW_ID].to_pylist()
        near = near.set_column(near.schema.get_field_index(VALUE), CANDIDATES.field(VALUE), pa.array(rescore(ids)))
    return best(pa.concat_tables([near, exact]), count)


def found(table: pa.Table, count: int) -> pa.Table:
    """The rows with the best text scores."""
    return best(table.filter(pc.equal(table[SOURCE], FOUND)), count, largest=True)


def measured(table: pa.Table, name: str) -> pa.Table:
    """CANDIDATES as output: ids, and the measure under its name."""
    return table.select([ROW_ID, ROW_ADDRESS, VALUE]).rename_columns([ROW_ID, ROW_ADDRESS, name])


def fused(near: pa.Table, matching: pa.Table, count: int) -> pa.Table:
    """Both lists as one, by reciprocal ranks: a row gets 1 / (60 + rank) from each list that contains it.

    Ties: the nearer row, then the one with the better score, then by row id.
    """
    lists = [(near, DISTANCE), (matching, SCORE)]
    values: list[dict[int, float]] = []
    points: dict[int, float] = {}
    addresses: dict[int, int] = {}
    for table, _ in lists:
        ids = table[ROW_ID].to_pylist()
        values.append(dict(zip(ids, table[VALUE].to_pylist(), strict=True)))
        addresses.update(zip(ids, table[ROW_ADDRESS].to_pylist(), strict=True))
        for rank, row in enumerate(ids, 1):
            points[row] = points.get(row, 0.0) + 1.0 / (_RRF + rank)
    distances, scores = values

    def place(row: int) -> tuple[float, float, float, int]:
        return -points[row], distances.get(row, float("inf")), -scores.get(row, float("-inf")), row

    rows = sorted(points, key=place)[:count]
    return pa.table(
        {
            ROW_ID: pa.array(rows, pa.int64()),
            ROW_ADDRESS: pa.array([addresses[row] for row in rows], pa.int64()),
            DISTANCE: pa.array([distances.get(row) for row in rows], pa.float32()),
            SCORE: pa.array([scores.get(row) for row in rows], pa.float32()),
            RELEVANCE: pa.array([points[row] for row in rows], pa.float32()),
        }
    )
