"""Which column and which index a search means, and whether they fit what it looks for. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lance_spark.errors import InvalidOption, NotFound, SchemaMismatch
from lance_spark.indexing.coverage import Rows, covered
from lance_spark.indexing.kinds import KINDS, TEXT, described_kind, find_column
from lance_spark.metadata.indexes import Segment
from lance_spark.schema.blobs import is_blob
from lance_spark.schema.projection import ROW_ADDRESS, ROW_ID, unknown_column
from lance_spark.searching.text import MatchQuery, PhraseQuery, TextQuery, columns_of, on_column, parts

Vectors = npt.NDArray[Any]
DISTANCE, SCORE, RELEVANCE = "_distance", "_score", "_relevance_score"
QUERY_INDEX = "query_index"
"""What pylance calls the place of a query among several."""
_DEFAULT_METRIC = "l2"


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


def is_vector(type: pa.DataType) -> bool:
    """Whether a column of that type can be searched for neighbours."""
    return bool(pt.is_fixed_size_list(type) and pt.is_floating(type.value_type))


def is_plain_text(type: pa.DataType) -> bool:
    """Whether a column of that type holds a text in each row."""
    return bool(pt.is_string(type) or pt.is_large_string(type))


def vector_column(schema: pa.Schema, column: str | None) -> pa.Field:
    """The column that a vector is searched for in. Raises NotFound, SchemaMismatch, InvalidOption."""
    if column is None:
        column = _only([field.name for field in schema if is_vector(field.type)], "vectors")
    field = find_column(schema, column)
    if not is_vector(field.type):
        raise SchemaMismatch(
            f"Column '{column}' is {field.type}, and cannot be searched for neighbours.",
            hint="Vectors are fixed-size lists of floats. " + _which([f.name for f in schema if is_vector(f.type)]),
        )
    return field.with_name(column)


def as_vector(given: Any, field: pa.Field) -> Vectors:
    """What was given as a vector of the column. Raises SchemaMismatch for another length, or what is no vector."""
    size, kind = field.type.list_size, _number(field)
    try:
        values: Vectors = np.asarray(given.to_pylist() if isinstance(given, pa.Array) else given, dtype=kind)
    except (TypeError, ValueError):
        raise SchemaMismatch(f"vector= is not a list of numbers: {type(given).__name__}.") from None
    if values.ndim != 1:
        raise SchemaMismatch(
            f"vector= has {values.ndim} dimensions, and has to be one vector.",
            hint="Many vectors: queries.transform(t.nearest_join('embedding', k=10)).",
        )
    if len(values) != size:
        raise SchemaMismatch(
            f"vector= has {len(values)} numbers, and those of column '{field.name}' have {size}.",
            hint="Embed the query with the model that the column was made with.",
        )
    if not np.isfinite(values).all():
        raise SchemaMismatch("vector= holds a number that is not finite.", hint="Look at how it was embedded.")
    return values


def check_direction(values: Vectors, metric: str) -> None:
    """Raise SchemaMismatch for zeros by cosine: no row has a distance to them, and none would be found."""
    if metric == "cosine" and not values.any():
        raise SchemaMismatch(
            "vector= is all zeros, which have no direction, and so no distance by cosine.",
            hint="Look at how it was embedded; or give metric='l2'.",
        )


def as_vectors(given: pa.Array, field: pa.Field) -> tuple[Vectors, Vectors]:
    """Places of the vectors that are not null, and these as a matrix. Raises SchemaMismatch for another length."""
    places = np.flatnonzero(np.asarray(given.is_valid()))
    valid = given.drop_null()
    size = field.type.list_size
    lengths = np.asarray(pc.list_value_length(valid))
    if len(valid) and not (lengths == size).all():
        wrong = int(lengths[lengths != size][0])
        raise SchemaMismatch(
            f"A query has {wrong} numbers, and those of column '{field.name}' have {size}.",
            hint="Embed the queries with the model that the column was made with.",
        )
    flat: Vectors = np.asarray(valid.flatten().to_numpy(zero_copy_only=False), dtype=_number(field))
    matrix = flat.reshape(len(valid), size)
    if not np.isfinite(matrix).all():
        raise SchemaMismatch("A query holds a number that is not finite.", hint="Leave such queries out.")
    return places, matrix


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


def effective_metric(metric: str | None, index: ColumnIndex | None) -> str:
    """The metric of a search: what was asked for, that of the index, or l2."""
    return metric or (str(index.settings["metric"]) if index else _DEFAULT_METRIC)


def bound_text(schema: pa.Schema, query: TextQuery, indexed: Sequence[str]) -> TextQuery:
    """The query with its columns, each of which holds text. ``indexed`` are columns with a text index.

    Raises NotFound, SchemaMismatch, InvalidOption.
    """
    texts = [field.name for field in schema if _is_text(field.type)]
    if None in columns_of(query):
        query = on_column(query, _only([name for name in texts if name in indexed] or texts, "text"))
    for column in columns_of(query):
        field = find_column(schema, str(column))
        if not _is_text(field.type):
            raise SchemaMismatch(f"Column '{column}' is {field.type}, and holds no text.", hint=_which(texts))
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
                hint=f"t.indexes.create({index.segments[0].columns[0]!r}, kind='inverted', with_position=True, "
                "replace=True)",
            )


def check_fuzzy(query: TextQuery, lacking: Mapping[str, bool]) -> None:
    """Raise InvalidOption for words with fuzziness where pylance would not find all: it takes words from the index.

    ``lacking`` are columns with rows that no index covers, and whether they have an index at all.
    """
    for part in parts(query):
        if not isinstance(part, MatchQuery) or not part.fuzziness or part.column is None or part.column not in lacking:
            continue
        make = "t.indexes.optimize()" if lacking[part.column] else f"t.indexes.create('{part.column}', kind='inverted')"
        raise InvalidOption(
            f"Column '{part.column}' has rows that no index covers, and words with fuzziness are not found in these.",
            hint=f"{make} covers them" + ("; fast=True leaves them out." if lacking[part.column] else "."),
        )


def check_measures(schema: pa.Schema, measures: Sequence[str]) -> None:
    """Raise SchemaMismatch for a column that has the name, and not the type, of what pylance adds."""
    for name in measures:
        if name in schema.names and schema.field(name).type != pa.float32():
            raise SchemaMismatch(
                f"The table has a column '{name}', {schema.field(name).type}, as pylance calls what it adds.",
                hint=f"Rename it: t.rename_columns({{'{name}': ...}}).",
            )


def no_index(column: str, what: str, metric: str | None = None) -> NotFound:
    """The error for fast=True where there is no index."""
    of = f" for the metric {metric}" if metric else ""
    kinds = ", ".join(name for name, kind in KINDS.items() if kind.is_vector) if what == "vector" else "inverted"
    return NotFound(
        f"Column '{column}' has no {what} index{of} here, and fast=True looks into nothing else.",
        hint=f"Make one: t.indexes.create('{column}', kind=...), of {kinds}; or leave fast=True out.",
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


def _number(field: pa.Field) -> type:
    return np.float64 if pt.is_float64(field.type.value_type) else np.float32


def _is_text(type: pa.DataType) -> bool:
    if pt.is_list(type) or pt.is_large_list(type):
        return _is_text(type.value_type)
    return is_plain_text(type)


def _only(names: Sequence[str], what: str) -> str:
    if len(names) == 1:
        return names[0]
    if not names:
        raise SchemaMismatch(f"There is no column with {what} to search in.")
    raise InvalidOption(
        f"{len(names)} columns hold {what}: {', '.join(names)}.", hint=f"Name one: column='{names[0]}'."
    )


def _which(names: Sequence[str]) -> str:
    return f"There is {', '.join(names)}." if names else "There is no such column."
