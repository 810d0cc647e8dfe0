"""Which column and which index a search means, and whether they fit what it looks for. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from lance_spark import hints
from lance_spark.errors import InvalidOption, NotFound, SchemaMismatch
from lance_spark.indexing.coverage import Rows, covered
from lance_spark.indexing.kinds import KINDS, TEXT, described_kind, find_column, fitting_kinds
from lance_spark.metadata.indexes import Segment
from lance_spark.schema.blobs import is_blob
from lance_spark.schema.projection import ROW_ADDRESS, ROW_ID, unknown_column
from lance_spark.searching.naming import the_only, those
from lance_spark.searching.text import MatchQuery, PhraseQuery, TextQuery, columns_of, on_column, parts

DISTANCE, SCORE, RELEVANCE = "_distance", "_score", "_relevance_score"
QUERY_INDEX = "query_index"
"""What pylance calls the place of a query among several."""


@dataclass(frozen=True)
class ColumnIndex:
    """An index that answers searches of one column."""

    name: str
    settings: Mapping[str, Any]
    segments: tuple[Segment, ...]

    def live(self, rows: Rows) -> tuple[str, ...]:
        """The segments that cover rows that are there."""
        return tuple(each.uuid for each in self.segments if any(rows.get(fragment) for fragment in each.fragments))

    def uncovered(self, rows: Rows) -> list[int]:
        """Fragments with rows that it does not cover."""
        known = covered(self.segments)
        return sorted(fragment for fragment, count in rows.items() if count and fragment not in known)


def is_plain_text(type: pa.DataType) -> bool:
    """Whether a column of that type holds a text in each row."""
    return bool(pt.is_string(type) or pt.is_large_string(type))


def vector_index(
    indexes: Mapping[str, Sequence[Segment]], settings: Mapping[str, Mapping[str, Any]], column: str, metric: str | None
) -> ColumnIndex | None:
    """The index of a column that answers for a metric: the first one by name. ``settings`` are by index."""
    for name, segments in indexes.items():
        kind = described_kind(segments[0].index_type)
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
    if None in columns_of(query):
        query = on_column(query, the_only([name for name in texts if name in indexed] or texts, "text"))
    for column in columns_of(query):
        field = find_column(schema, str(column))
        if not _is_text(field.type):
            raise SchemaMismatch(f"Column '{column}' is {field.type}, and holds no text.", hint=those("Text is", texts))
    return query


def text_indexes(
    indexes: Mapping[str, Sequence[Segment]], settings: Mapping[str, Mapping[str, Any]]
) -> dict[str, ColumnIndex]:
    """The text indexes, by column."""
    found: dict[str, ColumnIndex] = {}
    for name, segments in indexes.items():
        kind = described_kind(segments[0].index_type)
        if kind is not None and kind.family == TEXT and len(segments[0].columns) == 1:
            found.setdefault(segments[0].columns[0], ColumnIndex(name, settings[name], tuple(segments)))
    return found


def later_fragments(index: ColumnIndex, rows: Rows) -> list[int]:
    """Fragments with rows whose segments were built for a later version than the first segments were."""
    built = {segment.uuid: segment.dataset_version or 0 for segment in index.segments}
    first = min(built.values())
    later = covered(segment for segment in index.segments if built[segment.uuid] > first)
    return sorted(fragment for fragment in later if rows.get(fragment))


def check_phrases(query: TextQuery, indexes: Mapping[str, ColumnIndex]) -> None:
    """Raise InvalidOption for a phrase in a column whose index does not know where words are."""
    for part in parts(query):
        index = indexes.get(str(part.column)) if isinstance(part, PhraseQuery) else None
        if index is not None and index.settings.get("with_position") is False:
            raise InvalidOption(
                f"The index '{index.name}' does not know where in a text words are, which a phrase needs.",
                hint=hints.create_index(
                    index.segments[0].columns[0], kind="inverted", with_position=True, replace=True
                ),
            )


def check_fuzzy(query: TextQuery, lacking: Mapping[str, bool]) -> None:
    """Raise InvalidOption for words with fuzziness where pylance would not find all: it takes words from the index.

    ``lacking`` are columns with rows that no index covers, and whether they have an index at all.
    """
    for part in parts(query):
        if not isinstance(part, MatchQuery) or not part.fuzziness or part.column is None or part.column not in lacking:
            continue
        index = lacking[part.column]
        make = hints.OPTIMIZE_INDEXES if index else hints.create_index(part.column, kind="inverted")
        raise InvalidOption(
            f"Column '{part.column}' has rows that no index covers, and words with fuzziness are not found in these.",
            hint=hints.of(make, " covers them", "; fast=True leaves them out." if index else "."),
        )


def check_measures(schema: pa.Schema, measures: Sequence[str]) -> None:
    """Raise SchemaMismatch for a column that has the name, and not the type, of what pylance adds."""
    for name in measures:
        if name in schema.names and schema.field(name).type != pa.float32():
            raise SchemaMismatch(
                f"The table has a column '{name}', {schema.field(name).type}, as pylance calls what it adds.",
                hint=hints.of("Rename it: ", hints.rename_column(name), "."),
            )


def no_index(column: str, type: pa.DataType, family: str, metric: str | None = None) -> NotFound:
    """The error for fast=True where there is no index of that family."""
    of = f" for the metric {metric}" if metric else ""
    kinds = ", ".join(kind for kind in fitting_kinds(type) if KINDS[kind].family == family)
    make = f"Make one: t.indexes.create('{column}', kind=...), of {kinds}; or leave" if kinds else "Leave"
    return NotFound(
        f"Column '{column}' has no {family} index{of} here, and fast=True looks into nothing else.",
        hint=f"{make} fast=True out.",
    )


def shown_columns(schema: pa.Schema, wanted: Sequence[str] | None, measures: Sequence[str]) -> tuple[str, ...]:
    """The columns that come out, without those that the search adds. Blobs only if nobody asks: they are left out.

    Raises NotFound, InvalidOption.
    """
    blobs = {field.name for field in schema if is_blob(field)}
    if wanted is None:
        chosen = tuple(name for name in schema.names if name not in blobs)
    else:
        chosen = tuple(name for name in wanted if name not in measures)
    for name in chosen:
        if name in blobs:
            raise InvalidOption(
                f"Column '{name}' holds blobs, which a search does not fetch.",
                hint="Take _rowid along, and read the blobs of these rows.",
            )
        if name not in schema.names and name not in (ROW_ID, ROW_ADDRESS):
            raise unknown_column(name, [*schema.names, ROW_ID, ROW_ADDRESS])
        if chosen.count(name) > 1:
            raise InvalidOption(f"Column '{name}' is named twice.")
    taken = [name for name in chosen if name in measures]
    if taken:
        raise InvalidOption(
            f"Column '{taken[0]}' has the name of what the search adds.", hint="List other columns in columns=."
        )
    return chosen


def _is_text(type: pa.DataType) -> bool:
    if pt.is_list(type) or pt.is_large_list(type):
        return _is_text(type.value_type)
    return is_plain_text(type)
