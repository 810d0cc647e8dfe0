"""A search as it was asked for: checked on its own, not yet against a dataset. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from lance_spark.errors import InvalidOption
from lance_spark.indexing.kinds import HAMMING, METRICS
from lance_spark.searching.text import TextQuery, Wording, text_query
from lance_spark.show.near import meant

RERANKS = ("rrf",)
_METRICS = (*METRICS, HAMMING)
_ARGUMENTS = ("vector", "text", "column", "k", "filter", "columns", "where")
"""Of a search, beside its options."""
_HINTS = {
    **dict.fromkeys(
        ("language", "base_tokenizer", "stem"),
        "Text is cut into words as its index does: t.indexes.create(column, kind='inverted', ...).",
    ),
    **dict.fromkeys(("limit", "top_k", "topk", "n"), "How many rows come out is k=10."),
    **dict.fromkeys(("query", "q"), "What is searched for is vector=[...], text='late storm', or both."),
    **dict.fromkeys(("branch", "tag", "version"), "A search looks where the handle stands: t.checkout(branch='exp')."),
}
"""Of options that other tools have, or that belong elsewhere."""
_EUCLIDEAN = "euclidean"
_MOST = 2**31 - 1
_LEAST_CANDIDATES = 100


@dataclass(frozen=True)
class SearchOptions:
    """What may be said of a search beside what it looks for; see ``LanceTable.search``."""

    metric: str | None = None
    """l2, cosine or dot, of bytes hamming; None for that of the index, or l2."""
    nprobes: int | None = None
    """Partitions of an index that are looked into at least."""
    refine_factor: int | None = None
    """So many times k candidates of an index are compared by their exact distances."""
    ef: int | None = None
    """Candidates that a graph (HNSW) keeps at a time; at least k."""
    use_index: bool = True
    """False compares every vector."""
    prefilter: bool = True
    """Whether the filter comes before the search; False filters the k rows that were found."""
    fast: bool = False
    """Whether to leave out rows that no index covers."""
    rerank: str = "rrf"
    candidates: int | None = None
    """Of a search by vector and text: rows of each that are ranked together."""
    text_column: str | Sequence[str] | Mapping[str, float] | None = None
    """The columns for the text, where ``column`` is that of the vector."""
    phrase: bool = False
    fuzziness: int = 0
    operator: str = "or"
    slop: int = 0


@dataclass(frozen=True)
class VectorPart:
    """The vector of a search, or how each vector of a join is searched for."""

    column: str | None
    values: Any
    """None in a join, whose vectors come later."""


@dataclass(frozen=True)
class TextPart:
    """The text of a search."""

    query: TextQuery


@dataclass(frozen=True)
class SearchRequest:
    """A search."""

    k: int
    filter: str | None
    columns: tuple[str, ...] | None
    options: SearchOptions
    vector: VectorPart | None = None
    text: TextPart | None = None

    @property
    def is_hybrid(self) -> bool:
        """Whether rows are ranked by both."""
        return self.vector is not None and self.text is not None

    @property
    def depth(self) -> int:
        """Rows that each of the two contributes; of a search by one, how many rows come out."""
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
    """The search that arguments ask for; ``common`` are k, filter and columns. Raises InvalidOption."""
    chosen = parse_options(options)
    if vector is None and text is None:
        raise InvalidOption("There is nothing to search for.", hint="Give vector=, text= or both.")
    boosts = _boosts(column)
    if vector is not None and not (column is None or isinstance(column, str)):
        raise InvalidOption("A vector is searched for in one column.", hint="Name the columns for the text_column=.")
    if chosen.text_column is not None and (vector is None or text is None):
        raise InvalidOption(
            "text_column is of a search by vector and text.", hint="Give column= for a search by one of them."
        )
    boosts = boosts if vector is None else _boosts(chosen.text_column)
    wording = Wording(chosen.phrase, chosen.fuzziness, chosen.operator, chosen.slop)
    if text is None and wording != Wording():
        raise InvalidOption("phrase, fuzziness, operator and slop are of text.", hint="Give text=, or leave them out.")
    return SearchRequest(
        *_common(*common),
        chosen,
        None if vector is None else VectorPart(column, vector),  # type: ignore[arg-type]
        None if text is None else TextPart(text_query(text, boosts, wording)),
    )


def parse_join(
    column: str | None, common: tuple[int, str | None, str | Sequence[str] | None], options: Mapping[str, Any]
) -> SearchRequest:
    """A search whose vectors come later. Raises InvalidOption."""
    return SearchRequest(*_common(*common), parse_options(options), VectorPart(column, None))


def parse_options(given: Mapping[str, Any]) -> SearchOptions:
    """Raises InvalidOption, with near names, for an option that there is not, and for values that cannot be."""
    _check_names(given)
    options = SearchOptions(**given)
    if isinstance(options.metric, str):
        metric = options.metric.lower()
        options = replace(options, metric=METRICS[0] if metric == _EUCLIDEAN else metric)
    for name in ("nprobes", "refine_factor", "ef", "candidates"):
        _check_positive(name, getattr(options, name))
    for name in ("use_index", "prefilter", "fast", "phrase"):
        if not isinstance(getattr(options, name), bool):
            raise InvalidOption(f"{name} is {getattr(options, name)!r}, and has to be True or False.")
    if options.metric is not None and options.metric not in _METRICS:
        raise InvalidOption(f"There is no metric '{options.metric}'.", hint=meant(str(options.metric), _METRICS))
    if options.rerank not in RERANKS:
        raise InvalidOption(f"There is no way to rank '{options.rerank}'.", hint=f"There is {', '.join(RERANKS)}.")
    if options.fast and not options.use_index:
        raise InvalidOption("fast=True looks only into indexes, and use_index=False into none.")
    return options


def _check_names(given: Mapping[str, Any]) -> None:
    known = [field.name for field in fields(SearchOptions)]
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
    """The columns that were named; None for all. Raises InvalidOption for these, and for a filter that is no text."""
    if filter is not None and not isinstance(filter, str):
        raise InvalidOption(f"filter is {filter!r}, and has to be text.", hint="Such as \"lang = 'de'\": Lance's SQL.")
    if filter is not None and not filter.strip():
        raise InvalidOption("The filter is empty.", hint="Leave it out, or give one such as lang = 'de'.")
    return None if columns is None else _names("columns", columns)


def _names(argument: str, given: object) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, Iterable) else (None,)
    if not all(isinstance(name, str) for name in names):
        raise InvalidOption(f"{argument} is {given!r}, and has to be a name, or a list of names.")
    return names


def check_name(column: object) -> str:
    """The name of a column. Raises InvalidOption for what is none."""
    if not isinstance(column, str):
        raise InvalidOption(f"A column is given by its name, not as {type(column).__name__}.")
    return column


def _check_positive(name: str, value: Any, missing: bool = True) -> None:
    if value is None and missing:
        return
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidOption(f"{name} is {value!r}, and has to be a whole number, 1 or more.")
    if value > _MOST:
        raise InvalidOption(f"{name} is {value}, and can be {_MOST:,} at most.")


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
        raise InvalidOption("There is no column to search in.", hint="Name one, or leave column= out.")
    return found
