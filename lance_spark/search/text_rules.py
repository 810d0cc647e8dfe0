"""Text queries as values that can be sent to executors. Named like pylance's queries, which cannot. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lance_spark.core.words import HintingType
from lance_spark.errors import InvalidOption

OPERATORS = ("or", "and")
_MOST_FUZZY = 2


@dataclass(frozen=True)
class MatchQuery(metaclass=HintingType):
    """Rows with one of the words, or all of them (``operator="and"``)."""

    query: str
    column: str | None = None
    """None for the column of the search."""
    fuzziness: int = 0
    """How many letters of a word may differ: 0, 1 or 2."""
    operator: str = "or"
    boost: float = 1.0
    prefix_length: int = 0
    """How many letters at the beginning must not differ."""
    max_expansions: int = 50
    """Maximum number of words of the index that a fuzzy word stands for."""


@dataclass(frozen=True)
class PhraseQuery(metaclass=HintingType):
    """Rows with the words next to each other, in this order. The index needs positions."""

    query: str
    column: str | None = None
    slop: int = 0
    """How many words may come in between."""


@dataclass(frozen=True)
class MultiMatchQuery(metaclass=HintingType):
    """Rows with the words in one of several columns; the best column counts."""

    query: str
    columns: tuple[str, ...]
    boosts: tuple[float, ...] = ()
    """A factor for each column."""
    operator: str = "or"

    def __init__(self, query: str, columns: Sequence[str], boosts: Sequence[float] = (), operator: str = "or") -> None:
        for name, value in (("query", query), ("columns", tuple(columns)), ("boosts", tuple(boosts or ()))):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "operator", operator)


@dataclass(frozen=True)
class BoostQuery(metaclass=HintingType):
    """Rows of one query; those that also match the other one lose score."""

    positive: TextQuery
    negative: TextQuery
    negative_boost: float = 0.5


@dataclass(frozen=True)
class BooleanQuery(metaclass=HintingType):
    """Rows that match all of ``must`` and none of ``must_not``; ``should`` adds to the score."""

    must: tuple[TextQuery, ...] = ()
    should: tuple[TextQuery, ...] = ()
    must_not: tuple[TextQuery, ...] = ()

    def __init__(
        self,
        must: Sequence[TextQuery] = (),
        should: Sequence[TextQuery] = (),
        must_not: Sequence[TextQuery] = (),
    ) -> None:
        for name, value in (("must", must), ("should", should), ("must_not", must_not)):
            object.__setattr__(self, name, tuple(value))


TextQuery = MatchQuery | PhraseQuery | MultiMatchQuery | BoostQuery | BooleanQuery
KINDS: tuple[type, ...] = (MatchQuery, PhraseQuery, MultiMatchQuery, BoostQuery, BooleanQuery)


@dataclass(frozen=True)
class Wording:
    """How to search for words that are given as plain text."""

    phrase: bool = False
    fuzziness: int = 0
    operator: str = "or"
    slop: int = 0


def text_query(given: object, columns: Mapping[str, float] | None, wording: Wording) -> TextQuery:
    """The query: words with their wording, or a query of this module.

    ``columns`` are names and factors, None if none was named. Raises InvalidOption.
    """
    if isinstance(given, KINDS):
        if wording != Wording():
            raise InvalidOption(
                "phrase, fuzziness, operator and slop apply only to words given as text.",
                hint="Set them in the query, as in MatchQuery('late storm', fuzziness=1).",
            )
        _check_groups(given)  # type: ignore[arg-type]
        query = _in_columns(given, columns)  # type: ignore[arg-type]
    elif isinstance(given, str):
        query = _of_words(given, columns, wording)
    else:
        raise InvalidOption(
            f"text= must be text, or a query of lance_spark.search.text_rules, not {type(given).__name__}.",
            hint="pylance's own queries cannot be sent to executors; those of that module have the same names.",
        )
    for part in parts(query):
        _check(part)
    return query


def parts(query: TextQuery) -> Iterator[MatchQuery | PhraseQuery | MultiMatchQuery]:
    """The word queries that make up a query."""
    if isinstance(query, BoostQuery):
        yield from parts(query.positive)
        yield from parts(query.negative)
    elif isinstance(query, BooleanQuery):
        for inner in (*query.must, *query.should, *query.must_not):
            yield from parts(inner)
    else:
        yield query


def columns_of(query: TextQuery) -> list[str | None]:
    """The columns that a query names, each once; None stands for that of the search."""
    named: dict[str | None, None] = {}
    for part in parts(query):
        named.update(dict.fromkeys(part.columns if isinstance(part, MultiMatchQuery) else (part.column,)))
    return list(named)


def on_column(query: TextQuery, column: str) -> TextQuery:
    """The query, with a column wherever it has none."""
    if isinstance(query, MatchQuery | PhraseQuery):
        return replace(query, column=query.column or column)
    if isinstance(query, BoostQuery):
        return replace(query, positive=on_column(query.positive, column), negative=on_column(query.negative, column))
    if isinstance(query, BooleanQuery):
        return BooleanQuery(
            *([on_column(each, column) for each in group] for group in (query.must, query.should, query.must_not))
        )
    return query


def _in_columns(query: TextQuery, columns: Mapping[str, float] | None) -> TextQuery:
    """A query whose parts without a column get the named one."""
    if not columns:
        return query
    if len(columns) > 1 or any(boost != 1.0 for boost in columns.values()):
        raise InvalidOption(
            "Several columns, and factors of columns, apply only to words given as text.",
            hint="Set them in the query: MultiMatchQuery('late storm', ['title', 'text'], [3.0, 1.0]).",
        )
    (column,) = columns
    if None not in columns_of(query) and column not in columns_of(query):
        raise InvalidOption(
            f"The query searches {', '.join(map(str, columns_of(query)))}, but column= is '{column}'.",
            hint="Omit column=.",
        )
    return on_column(query, column)


def _of_words(words: str, columns: Mapping[str, float] | None, wording: Wording) -> TextQuery:
    if columns is not None and (len(columns) > 1 or any(boost != 1.0 for boost in columns.values())):
        if wording.phrase or wording.fuzziness != 0:
            raise InvalidOption(
                "A phrase, or words with fuzziness, can be searched for in only one column.",
                hint="Combine several: BooleanQuery(should=[PhraseQuery('late storm', 'title'), ...]).",
            )
        return MultiMatchQuery(words, tuple(columns), tuple(columns.values()), wording.operator)
    column = next(iter(columns)) if columns else None
    if wording.phrase:
        return PhraseQuery(words, column, wording.slop)
    return MatchQuery(words, column, wording.fuzziness, wording.operator)


def _check_groups(query: TextQuery) -> None:
    if isinstance(query, BoostQuery):
        _check_groups(query.positive)
        _check_groups(query.negative)
    elif isinstance(query, BooleanQuery):
        if not query.must and not query.should:
            raise InvalidOption("The BooleanQuery is empty.", hint="Give it must=[...] or should=[...].")
        for inner in (*query.must, *query.should, *query.must_not):
            _check_groups(inner)


def _check(part: MatchQuery | PhraseQuery | MultiMatchQuery) -> None:
    if not str(part.query).strip():
        raise InvalidOption("The text has no words.", hint="Give some: text='late storm'.")
    if isinstance(part, PhraseQuery):
        _check_number("slop", part.slop)
        return
    if part.operator not in OPERATORS:
        raise InvalidOption(f"operator must be 'or' or 'and', not {part.operator!r}.")
    if isinstance(part, MultiMatchQuery):
        if not part.columns or (part.boosts and len(part.boosts) != len(part.columns)):
            raise InvalidOption("A query over several columns needs columns, and a factor for each or none.")
        for boost in part.boosts:
            _check_boost(boost)
        return
    _check_boost(part.boost)
    _check_number("prefix_length", part.prefix_length)
    _check_number("max_expansions", part.max_expansions, 1)
    _check_number("fuzziness", part.fuzziness)
    if part.fuzziness > _MOST_FUZZY:
        raise InvalidOption(f"fuzziness must be at most {_MOST_FUZZY}, not {part.fuzziness}.")


def _check_boost(value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value < math.inf:
        raise InvalidOption(f"A factor must be a number, 0 or more, not {value!r}.")


def _check_number(name: str, value: Any, least: int = 0) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidOption(f"{name} must be a whole number, {least} or more, not {value!r}.")
