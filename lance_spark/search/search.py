"""Searches of one version: checks the request before any task starts, plans tasks, and combines their answers.

Also joins by nearest neighbor and searches for near duplicates, as far as they are checked and planned here.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa

from lance_spark import hints
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.core.table_options import ReadOptions
from lance_spark.core.texts import counted
from lance_spark.engine.local import LOCAL, Frame, Runner, Work
from lance_spark.errors import InvalidOption, LanceSparkWarning, Refused, SchemaMismatch
from lance_spark.format.schema import ROW_ADDRESS, ROW_ID, row_width, unknown_column
from lance_spark.indexes.index_rules import (
    TEXT,
    VECTOR,
    check_metric,
    described_kind,
    find_column,
    is_text,
    settings_of,
)
from lance_spark.indexes.index_segments import all_details
from lance_spark.indexes.indexes import Look, look_at
from lance_spark.scan.fragment_reads import Scan, ScanColumns, check_filter
from lance_spark.scan.read import PinnedRead, ReadPlan, plan_read, read_schema
from lance_spark.search import search_rules, vector_rules
from lance_spark.search.duplicate_rules import Signer
from lance_spark.search.near_duplicates import DuplicatesWork
from lance_spark.search.search_rules import ColumnIndex, SearchRequest, Task, TextGap, TextTask, WholeTask
from lance_spark.search.search_tasks import Near, SearchWork, find_candidates, finish_search, has_changed_rows
from lance_spark.search.text_rules import PhraseQuery, TextQuery, columns_of, parts
from lance_spark.search.vector_rules import QueryVector
from lance_spark.storage.datasets import open_pinned

OPERATION = "search"
_TEXT_WIDTH = 256
"""Estimated bytes of a text."""


@dataclass(frozen=True)
class PreparedSearch:
    """A checked search of one version, ready to run."""

    work: SearchWork
    schema: pa.Schema
    """The output columns, in the dataset's types."""
    look: Look
    index: ColumnIndex | None
    """Bytes of a vector."""
    flat: tuple[int, ...]
    """Fragments whose vectors are compared one by one."""
    field: pa.Field | None
    text_bytes: int = 0
    """Rows with texts that no index covers."""

    @property
    def size(self) -> Work:
        """The amount of data to look at."""
        rows = self.look.rows
        filtered = sum(rows.values()) if self.work.filter is not None else 0
        width = row_width([self.field]) if self.field is not None else 0.0
        segments = self.index.segments if self.index is not None else ()
        flat_rows = sum(rows[fragment] for fragment in self.flat)
        return Work(read_bytes=search_rules.bytes_to_look_at(segments, flat_rows, width, filtered) + self.text_bytes)


def prepare_search(location: DatasetLocation, pin: PinnedVersion, request: SearchRequest) -> PreparedSearch:
    """Check a search against a version: its columns, indexes and filter. Reads metadata only.

    Raises NotFound, SchemaMismatch and InvalidOption.
    """
    look = look_at(location, pin)
    options = request.options
    measures = [search_rules.DISTANCE] * (request.vector is not None) + [search_rules.SCORE] * (
        request.text is not None
    )
    measures += [search_rules.RELEVANCE] * request.is_hybrid
    search_rules.check_measures(look.schema, [name for name in measures if name != search_rules.RELEVANCE])
    columns = search_rules.shown_columns(look.schema, request.columns, measures)
    schema = found_schema(look.schema, columns, measures)
    if request.filter is not None:
        check_filter(Scan(location, pin, ScanColumns(()), request.filter))
    work = SearchWork(
        location=location,
        pin=pin,
        k=request.k,
        depth=request.depth,
        filter=request.filter,
        prefilter=options.prefilter or request.filter is None,
        fast=options.fast,
        columns=columns,
        wire=schema,
        keeps_ids=look.contents.has_stable_row_ids,
    )
    prepared = PreparedSearch(work, schema, look, None, (), None)
    if request.vector is not None:
        prepared = _with_vector(prepared, request)
    if request.text is not None:
        prepared = _with_text(prepared, request.text.query)
    return prepared


def prepare_join(location: DatasetLocation, pin: PinnedVersion, request: SearchRequest) -> PreparedSearch:
    """Check a search whose vectors come later. Raises the errors of :func:`prepare_search`."""
    prepared = prepare_search(location, pin, request)
    if search_rules.QUERY_INDEX in prepared.look.schema.names:
        raise SchemaMismatch(
            f"The table has a column '{search_rules.QUERY_INDEX}', a name that pylance needs for many vectors.",
            hint=hints.of(
                "Rename it: ", hints.rename_column(search_rules.QUERY_INDEX), "; or search for one vector at a time."
            ),
        )
    assert prepared.field is not None
    vector_rules.check_alone(prepared.field)
    # A join compares its candidates by exact distances in its own way.
    return replace(prepared, work=replace(prepared.work, rescored=False))


def carry_out(prepared: PreparedSearch, wire: pa.Schema, runner: Runner) -> Frame:
    """The rows that a search finds, in order, in the types of ``wire``.

    In this process pylance searches alone. On executors, the index's segments and groups of other fragments become
    tasks; a text search is one task.
    """
    work = replace(prepared.work, wire=wire)
    if runner.name == LOCAL:
        tasks = _whole(work)
        work = replace(work, rescored=False)
    else:
        tasks = plan_tasks(prepared, runner.parallelism)
    frame = runner.flat_map("search", tasks, partial(find_candidates, work), search_rules.CANDIDATES)
    return runner.reduce("rank what was found", frame, partial(finish_search, work), wire)


def here(work: SearchWork) -> Iterator[pa.RecordBatch]:
    """The rows that a search finds, by pylance alone, in this process."""
    work = replace(work, rescored=False)
    return finish_search(work, (batch for task in _whole(work) for batch in find_candidates(work, task)))


def plan_tasks(prepared: PreparedSearch, side_by_side: int) -> tuple[Task, ...]:
    work = prepared.work
    if work.near is None or not work.prefilter:
        return _whole(work)
    assert prepared.field is not None
    if work.near.indexed and vector_rules.has_several(prepared.field):
        return _whole(work)  # Approximate distances of different segments cannot be compared.
    segments = prepared.index.segments if prepared.index is not None and work.near.indexed else ()
    tasks = search_rules.vector_tasks(
        segments, prepared.flat, prepared.look.rows, row_width([prepared.field]), side_by_side
    )
    return (*tasks, TextTask()) if work.text is not None else tasks


def _whole(work: SearchWork) -> tuple[Task, ...]:
    near = work.near is not None and not (work.fast and not work.near.segments)
    return ((WholeTask(),) if near else ()) + ((TextTask(),) if work.text is not None else ())


def _with_vector(prepared: PreparedSearch, request: SearchRequest) -> PreparedSearch:
    look, options = prepared.look, request.options
    assert request.vector is not None
    field = vector_rules.vector_column(look.schema, request.vector.column)
    check_metric(field.name, field.type, options.metric)
    index = None
    if options.use_index:
        index = search_rules.vector_index(look.indexes, _all_settings(look), field.name, options.metric)
    if index is None and options.fast:
        raise search_rules.no_index(field.name, field.type, VECTOR, options.metric)
    metric = vector_rules.effective_metric(options.metric, index, field)
    if not vector_rules.check_refined(field, index, options.refine_factor, options.fast):
        index = None
    candidates = request.depth * (options.refine_factor or 1)
    if options.ef is not None and options.ef < candidates:
        raise InvalidOption(
            f"ef is {options.ef}, but must be at least the {candidates} candidates.",
            hint="There are k times refine_factor candidates. Omit ef to let pylance choose it.",
        )
    chosen = (options.nprobes, options.refine_factor, options.ef)
    near = Near(field.name, metric, index is not None, index.live(look.rows) if index is not None else (), *chosen)
    every = [fragment for fragment, count in look.rows.items() if count]
    flat = () if options.fast else tuple(index.uncovered(look.rows) if index is not None else every)
    several = vector_rules.has_several(field)
    rescored = index is not None and (bool(flat) or options.refine_factor is not None) and not several
    work = replace(prepared.work, near=replace(near, flat=tuple(every) if several else flat), rescored=rescored)
    if request.vector.values is not None:
        values = vector_rules.as_vector(request.vector.values, field)
        vector_rules.check_direction(values, metric)
        work = replace(work, query=QueryVector.of(values))
    return replace(prepared, work=work, index=index, flat=flat, field=field)


def _with_text(prepared: PreparedSearch, query: TextQuery) -> PreparedSearch:
    look = prepared.look
    indexes = search_rules.text_indexes(look.indexes, _all_settings(look))
    bound = search_rules.bound_text(look.schema, query, list(indexes))
    phrases = {part.column for part in parts(bound) if isinstance(part, PhraseQuery)}
    search_rules.check_phrases(bound, indexes)
    gaps: list[TextGap] = []
    left = 0
    for column in map(str, columns_of(bound)):
        index = indexes.get(column)
        if index is not None:
            _check_words(look, index)
        if prepared.work.fast:
            if index is None:
                raise search_rules.no_index(column, find_column(look.schema, column).type, TEXT)
            continue
        missing = index.uncovered(look.rows) if index is not None else list(look.rows)
        rewritten = _maybe_former(look, column, index, missing) if index is not None else ()
        if index is not None and missing:
            index = replace(index, settings=look.settings(index.name) or {})
            if not index.settings:
                _tell_of_guesses(look, index, sum(look.rows[fragment] for fragment in missing))
        gap = search_rules.text_gap(column, index, look.rows, rewritten, column in phrases)
        gaps += [gap] if gap is not None else []
        left += sum(look.rows[fragment] for fragment in (gap.fragments if gap is not None else missing))
    work = replace(prepared.work, text=bound, gaps=tuple(gaps))
    return replace(prepared, work=work, text_bytes=left * _TEXT_WIDTH)


def _tell_of_guesses(look: Look, index: ColumnIndex, rows: int) -> None:
    """Warn that rows are found and ranked as pylance does by itself, beside an index of which nobody knows more."""
    warnings.warn(
        f"{counted(rows, 'row')} of {look.location.uri} that index '{index.name}' does not cover are found word by "
        "word and ranked approximately: the settings of the index are not recorded. "
        f"{hints.create_index(index.segments[0].columns[0], kind='inverted', replace=True)} builds it again.",
        LanceSparkWarning,
        stacklevel=2,
    )


def _maybe_former(look: Look, column: str, index: ColumnIndex, missing: Sequence[int]) -> Collection[int]:
    """Those of the fragments that an index lacks whose rows it may have with the words that they had before."""
    if look.contents.has_stable_row_ids and missing and has_changed_rows(look.location, look.pin, missing):
        return missing
    return look.rewritten(column, index.segments)


def _check_words(look: Look, index: ColumnIndex) -> None:
    """Raise Refused for an index with which pylance 14.0.2 finds changed rows by their former words.

    With stable row ids, a changed row is in a later segment, and also under the same id in the earlier one.
    """
    later = search_rules.later_fragments(index, look.rows) if look.contents.has_stable_row_ids else []
    if later and has_changed_rows(look.location, look.pin, later):
        raise Refused(
            f"The index '{index.name}' was extended after rows may have been changed: it would still find these by "
            "their former words.",
            hint=hints.of(
                hints.create_index(index.segments[0].columns[0], kind="inverted", replace=True),
                " rebuilds it, as does ",
                hints.OPTIMIZE_INDEXES,
                "; pylance's optimize_indices() does not.",
            ),
        )


def _all_settings(look: Look) -> dict[str, dict[str, Any]]:
    """The settings indexes were built with, as far as they are recorded."""
    found: dict[str, dict[str, Any]] = {}
    details = all_details(look.location, look.pin)
    for name, segments in look.indexes.items():
        kind = described_kind(segments[0].index_type)
        found[name] = (settings_of(kind, details.get(name, {})) if kind is not None else None) or {}
    return found


def found_schema(schema: pa.Schema, columns: Sequence[str], measures: Sequence[str]) -> pa.Schema:
    """The output of a search: columns, ids of rows and measures."""
    ids = {name: pa.field(name, pa.int64(), nullable=False) for name in (ROW_ID, ROW_ADDRESS)}
    shown = [ids[name] if name in ids else schema.field(name) for name in columns]
    return pa.schema([*shown, *(pa.field(name, pa.float32()) for name in measures)])


# --- Searches for near duplicates


def prepare_duplicates(
    location: DatasetLocation,
    pin: PinnedVersion,
    asked: tuple[str, tuple[str, ...], str | None],
    signer: Signer,
    threshold: float,
) -> DuplicatesWork:
    """Check the request: the text column, the columns to show, and a filter.

    Raises NotFound, SchemaMismatch and InvalidOption.
    """
    column, columns, where = asked
    schema = open_pinned(location, pin).schema
    if schema.get_field_index(column) < 0:
        raise unknown_column(column, schema.names)
    if not is_text(schema.field(column).type):
        raise SchemaMismatch(f"Column '{column}' is {schema.field(column).type} and does not hold text.")
    if where is not None:
        check_filter(Scan(location, pin, ScanColumns(()), where))
    if ROW_ADDRESS in columns:
        raise InvalidOption(f"Pairs have no {ROW_ADDRESS}.", hint=f"They always have {ROW_ID}.")
    names = tuple(name for name in search_rules.shown_columns(schema, columns, ()) if name != ROW_ID)
    row = found_schema(schema, (ROW_ID, *names), ())
    return DuplicatesWork(location, pin, column, where, names, signer, threshold, row)


def plan_texts(work: DuplicatesWork, cores: int) -> ReadPlan:
    read = PinnedRead(
        work.location, work.pin, ReadOptions(columns=(f"`{work.column}`",), filter=work.filter, with_row_id=True)
    )
    return plan_read(read, read_schema(read), cores)
