"""Indexes on any branch: creates, optimizes and drops them, each as one version or not at all; also describes them.

Requests come in. An engine builds segments; one commit makes them visible, or they are deleted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from lance_spark import errors
from lance_spark.columns.fill_rules import field_ids
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion, RefSpec
from lance_spark.core.show import Card
from lance_spark.engine.local import LOCAL, Engine, Runner, rewriting
from lance_spark.format.contents import Contents, Fragment
from lance_spark.format.metadata import Segment
from lance_spark.format.schema import share_of_row
from lance_spark.format.versions import columns
from lance_spark.indexes import index_rules, index_segments
from lance_spark.indexes.index_rules import BuildPlan, IndexInfo, IndexRequest, IndexResult, IndexStats, Kind, Rows
from lance_spark.indexes.index_segments import SegmentOrder
from lance_spark.log.log import or_why
from lance_spark.log.print_rules import unknown_card
from lance_spark.storage import versions
from lance_spark.storage.commits import attempts, overtaken, undone_on_failure
from lance_spark.storage.datasets import open_pinned, pin_latest
from lance_spark.storage.followers import check_mergeable
from lance_spark.storage.resolving import resolve


class _Decision(NamedTuple):
    name: str
    kind: str
    column: str
    plan: BuildPlan
    settings: Mapping[str, Any]
    known: frozenset[str] = frozenset()
    """Ids of the segments that the index had."""
    left: str = ""


def create_index(location: DatasetLocation, branch: str | None, request: IndexRequest, engine: Engine) -> IndexResult:
    """Create an index on a branch (None for main); concurrent commits are kept.

    An inherited index stays as it is, and only rows that it does not cover are indexed. Raises NotFound for an unknown
    column, InvalidOption for an unknown kind or setting, SchemaMismatch for a column that the kind does not fit,
    AlreadyExists if the name is taken, Refused if there is nothing to index or too few rows to train on, and Conflict;
    then nothing was changed.
    """
    kind = index_rules.find_kind(request.kind)
    settings = index_rules.check_settings(kind, request.settings)
    if not request.index_name or request.index_name.startswith("__"):
        raise errors.InvalidOption(
            f"'{request.index_name}' is not a valid index name.", hint="pylance reserves names with '__'."
        )
    return _changed(location, branch, engine, lambda look: _creation(look, request, kind, settings), request.message)


def optimize_indexes(
    location: DatasetLocation, branch: str | None, name: str | None, engine: Engine, message: str | None = None
) -> list[IndexResult]:
    """Index the rows that one index, or any index, does not cover; each index that lacks rows gets a version.

    Inherited segments are never read. Raises NotFound for an unknown name, and Conflict.
    """
    look = look_at(location, pin_latest(location, branch))
    names = [*look.indexes] if name is None else [index_rules.find_index(look.indexes, name)]
    return [
        _changed(location, branch, engine, lambda look, each=each: _optimization(look, each), message)  # type: ignore[misc]
        for each in names
    ]


def drop_index(location: DatasetLocation, branch: str | None, name: str, message: str | None = None) -> IndexResult:
    """Drop an index from a branch; older versions and other branches keep it. Raises NotFound, Conflict."""
    check_mergeable(location, branch)
    for left in attempts():
        look = look_at(location, pin_latest(location, branch))
        found = index_rules.find_index(look.indexes, name)
        segments = look.indexes[found]
        try:
            made = index_segments.commit_segments(
                location, look.pin, [], {segment.uuid for segment in segments}, message
            )
        except errors.Conflict:
            if not left:
                raise
            continue
        kind = index_rules.described_kind(segments[0].index_type)
        return IndexResult(made, found, kind.name if kind else segments[0].index_type, replaced=len(segments))
    raise overtaken(branch)


def _changed(
    location: DatasetLocation,
    branch: str | None,
    engine: Engine,
    decide: Callable[[Look], _Decision],
    message: str | None,
) -> IndexResult:
    check_mergeable(location, branch)
    builder = SegmentBuilder(location, branch, engine)
    undo = partial(index_segments.delete_segments, location, branch, builder.written)
    with undone_on_failure(undo, "files of the index"):
        for left in attempts():
            look = look_at(location, pin_latest(location, branch))
            todo = decide(look)
            order = SegmentOrder(location, look.pin, todo.column, todo.kind, todo.name, todo.settings)
            try:
                made = builder.segments(look, order, todo.plan.fragments)
            except index_rules.TooFewVectors as few:
                if not todo.known:
                    raise
                why = str(few).splitlines()[0].rstrip(".")
                todo, made = _without_build(todo, f"{why}: the rows are compared one by one"), []
            if not made and not todo.plan.removed:
                builder.done()
                return IndexResult(look.pin, todo.name, todo.kind, left=todo.left)
            index_segments.check_segments(location, branch, made)
            now = look_at(location, pin_latest(location, branch))
            if now.pin != look.pin and not _still_right(now, todo, builder):
                continue
            try:
                version = index_segments.commit_segments(location, now.pin, made, todo.plan.removed, message)
            except errors.Conflict:
                if not left:
                    raise
                continue
            builder.done()
            _check_column(location, now, version, todo)
            return IndexResult(
                version=version,
                name=todo.name,
                kind=todo.kind,
                rows=sum(look.rows[fragment] for fragment in todo.plan.fragments),
                segments=len(made),
                replaced=len(todo.plan.removed),
                bytes=sum(file.size_bytes for segment in made for file in segment.files or ()),
                ran_on=builder.ran_on,
                left=todo.left,
            )
        raise overtaken(branch)


def _still_right(now: Look, todo: _Decision, builder: SegmentBuilder) -> bool:
    """Whether the decision and the segments for one version are right for a later one; rows may have been added."""
    kept = [each for each in now.indexes.get(todo.name, ()) if each.uuid not in todo.plan.removed]
    there = {each.uuid for segments in now.indexes.values() for each in segments}
    return (
        builder.still_fit(now, todo.column)
        and todo.plan.removed <= there
        and not index_rules.covered(kept) & todo.plan.fragments
        and todo.known >= {each.uuid for each in kept}
    )


def _check_column(location: DatasetLocation, now: Look, made: PinnedVersion, todo: _Decision) -> None:
    """Remove the index again if its column was dropped just before the commit. Raises Conflict.

    pylance combines the two commits; after that, no filter of the table could be evaluated.
    """
    if made.version == now.pin.version + 1:
        return
    contents = versions.read_contents(location, made)
    top = todo.column if now.schema.get_field_index(todo.column) >= 0 else todo.column.split(".")[0]
    if field_ids(now.contents.fields, (top,)) != field_ids(contents.fields, (top,)):
        uuids = {each.uuid for each in contents.indexes if each.name == todo.name}
        index_segments.commit_segments(location, made, [], uuids)
        raise errors.Conflict(
            f"Column '{todo.column}' was altered or dropped while it was indexed.", hint="Run it again."
        )


def _creation(look: Look, request: IndexRequest, kind: Kind, settings: dict[str, Any]) -> _Decision:
    field = index_rules.find_column(look.schema, request.column)
    index_rules.check_type(kind, request.column, field.type)
    settings = index_rules.settings_for(kind, request.column, field.type, settings)
    name = request.index_name
    there = look.indexes.get(name, ())
    plan = index_rules.plan_create(request, kind.name, there, look.rows)
    if there and not request.replace:
        return _extended(look, _Decision(name, kind.name, request.column, plan, settings), kind)
    if not plan.fragments:
        raise errors.Refused("There are no rows to index.", hint="Write rows first.")
    if kind.is_vector:  # fail before any work
        index_rules.plan_training(kind, settings, field.type.list_size, sum(look.rows[each] for each in plan.fragments))
    return _Decision(name, kind.name, request.column, plan, settings, frozenset(each.uuid for each in there))


def _optimization(look: Look, name: str) -> _Decision:
    there = look.indexes[index_rules.find_index(look.indexes, name)]
    kind, column = index_rules.described_kind(there[0].index_type), ", ".join(there[0].columns)
    if kind is None or len(there[0].columns) != 1:
        missing = sum(look.rows.values()) - sum(look.rows.get(each, 0) for each in index_rules.covered(there))
        left = (
            f"{missing:,} rows are not covered, as this package cannot extend this kind: pylance's optimize_indices()"
        )
        left = left if missing else ""
        return _Decision(name, there[0].index_type, column, BuildPlan(frozenset()), {}, left=left)
    return _extended(look, _Decision(name, kind.name, column, index_rules.plan_optimize(there, look.rows), {}), kind)


def _extended(look: Look, todo: _Decision, kind: Kind) -> _Decision:
    """More rows for an existing index: built with its own settings, or not at all."""
    todo = todo._replace(known=frozenset(each.uuid for each in look.indexes[todo.name]))
    told = look.settings(todo.name)
    if not todo.plan.fragments:
        return todo
    if told is None:
        return _without_build(todo, "its settings are unknown: create it again with replace=True")
    other = sorted(key for key, value in todo.settings.items() if key in told and told[key] != value)
    if other:
        raise errors.AlreadyExists(
            f"The index '{todo.name}' has {other[0]} = {told[other[0]]}, not {todo.settings[other[0]]}.",
            hint=f"Omit {other[0]}, or rebuild the index for this branch: replace=True.",
        )
    if kind.mixes_up_updates and (
        look.contents.has_stable_row_ids or look.rewritten(todo.column, look.indexes[todo.name]) & todo.plan.fragments
    ):
        todo = todo._replace(plan=index_rules.whole(todo.plan, look.indexes[todo.name], look.rows))
    rows = sum(look.rows[fragment] for fragment in todo.plan.fragments)
    if kind.is_vector and rows < index_rules.least_rows(kind, told):
        few = f"too few rows to train on ({rows:,}, of at least {index_rules.least_rows(kind, told):,})"
        return _without_build(todo, f"{few}: they are compared one by one")
    return todo._replace(settings={**todo.settings, **told})


def _without_build(todo: _Decision, left: str) -> _Decision:
    """Without new segments, those that they would have replaced stay."""
    return todo._replace(plan=BuildPlan(frozenset()), left=left)


# --- Building the segments of one index on an engine; later attempts reuse them

OPERATION = "index"
_COMPARED = "usable vectors (without nulls, NaN and, for cosine, only zeros)"


class _Built(NamedTuple):
    segment: Any
    """As pylance describes it."""
    fragments: tuple[Fragment, ...]
    """The fragments as they were when they were indexed."""
    ids: frozenset[int]
    """Ids of the column's fields at that time."""


class SegmentBuilder:
    """The segments of one call. A segment is valid as long as its fragments have the values it was built from."""

    def __init__(self, location: DatasetLocation, branch: str | None, engine: Engine) -> None:
        self._location, self._branch, self._engine = location, branch, engine
        self._made: list[_Built] = []
        self.written: set[str] = set()
        """Ids of the segments whose files exist and that no version names yet."""
        self._order: SegmentOrder | None = None
        self.ran_on = ""

    def segments(self, look: Look, order: SegmentOrder, wanted: Collection[int]) -> list[Any]:
        """Segments for fragments of a version, as pylance describes them; missing ones are built."""
        ids = self._ids(look, order.column)
        self._made = [
            built
            for built in self._made
            if self._fits(built, look, ids) and all(fragment.id in wanted for fragment in built.fragments)
        ]
        have = {fragment.id for built in self._made for fragment in built.fragments}
        rest = {fragment.id: fragment for fragment in look.contents.fragments() if fragment.id in {*wanted} - have}
        if rest:
            for segment in self._build(look, order, [*rest.values()]):
                covered = tuple(rest[key] for key in sorted(segment.fragment_ids))
                self._made.append(_Built(segment, covered, ids))
        return [built.segment for built in self._made]

    def still_fit(self, look: Look, column: str) -> bool:
        """Whether everything that was built is also right for a later version."""
        ids = self._ids(look, column)
        return all(self._fits(built, look, ids) for built in self._made)

    def done(self) -> None:
        """Delete the segments that were merged into others or turned out unusable."""
        used = {str(built.segment.uuid) for built in self._made}
        index_segments.discard_segments(self._location, self._branch, self.written - used)
        self.written.clear()

    def _build(self, look: Look, order: SegmentOrder, fragments: Sequence[Fragment]) -> list[Any]:
        rows = {fragment.id: look.rows[fragment.id] for fragment in fragments}
        share = share_of_row(look.schema, [index_rules.find_column(look.schema, order.column).type])
        work = rewriting((fragment.size for fragment in fragments), share)
        runner = self._engine.for_work(OPERATION, work)
        self.ran_on = runner.name
        order = self._trained(look, order, rows)
        asked = order.settings.get("num_segments")
        # On one machine pylance uses all cores itself, for one segment at a time, or builds it within a blink.
        cores = (os.cpu_count() or 1) if index_rules.find_kind(order.kind).leaves_cores_idle else 1
        side_by_side = cores if runner.name == LOCAL else runner.parallelism
        groups = index_rules.task_groups(rows, rows, index_rules.task_count(rows, rows, side_by_side, asked))
        places = index_rules.merge_groups(len(groups), asked)
        whole = len(places) == len(groups)
        built = self._run(runner, "build segments", groups, partial(index_segments.build_segment, order, whole=whole))
        if not whole:
            parts = [tuple(built[at] for at in place) for place in places]
            ready = [] if index_rules.find_kind(order.kind).is_staged else [part[0] for part in parts if len(part) == 1]
            left = [part for part in parts if part[0] not in ready]
            built = ready + self._run(runner, "merge segments", left, partial(index_segments.merge_built, order))
        return [index_segments.unpack(segment) for segment in built]

    def _run(self, runner: Runner, stage: str, items: Sequence[Any], function: Any) -> list[bytes]:
        frame = runner.flat_map(stage, items, function, index_segments.BUILT)
        built: list[bytes] = runner.collect(stage, frame)["segment"].to_pylist()
        self.written |= {str(index_segments.unpack(segment).uuid) for segment in built}
        return built

    def _trained(self, look: Look, order: SegmentOrder, rows: dict[int, int]) -> SegmentOrder:
        kind = index_rules.find_kind(order.kind)
        if not kind.is_vector:
            return order
        if self._order is None:
            dimension = index_rules.find_column(look.schema, order.column).type.list_size
            plan = partial(index_rules.plan_training, kind, order.settings, dimension)
            training = plan(sum(rows.values()))
            model = index_segments.train(order, training, rows)
            if model is None:  # most rows have no vector yet
                training = plan(index_segments.count_vectors(order, training.metric, rows), _COMPARED)
                model = index_segments.train(order, training, rows)
            if model is None:
                raise index_rules.TooFewVectors(f"pylance finds too few {_COMPARED} to train on.")
            self._order = order._replace(model=model)
        return order._replace(model=self._order.model)

    def _fits(self, built: _Built, look: Look, ids: frozenset[int]) -> bool:
        now = {fragment.id: fragment for fragment in look.contents.fragments()}
        return built.ids == ids and all(
            fragment.id in now
            and columns(now[fragment.id], ids) == columns(fragment, ids)
            and now[fragment.id].row_ids == fragment.row_ids
            for fragment in built.fragments
        )

    def _ids(self, look: Look, column: str) -> frozenset[int]:
        schema = look.schema
        top = column if schema.get_field_index(column) >= 0 else column.split(".")[0]
        return frozenset(field_ids(look.contents.fields, (top,)).get(top, ()))


# --- The indexes of a version, and the rows they cover


@dataclass(frozen=True)
class Look:
    location: DatasetLocation
    pin: PinnedVersion
    contents: Contents
    rows: Rows
    indexes: Mapping[str, Sequence[Segment]]

    @property
    def schema(self) -> Any:
        return open_pinned(self.location, self.pin).schema

    def settings(self, name: str) -> dict[str, Any] | None:
        """The settings an index was built with; None if an old writer recorded none, or for kinds not built here."""
        kind = index_rules.described_kind(self.indexes[name][0].index_type)
        return (
            None
            if kind is None
            else index_rules.settings_of(kind, index_segments.index_details(self.location, self.pin, name))
        )

    def rewritten(self, column: str, segments: Sequence[Segment]) -> frozenset[int]:
        """Fragments that segments do not cover, but may have covered before the column was filled anew."""
        top = column if self.schema.get_field_index(column) >= 0 else column.split(".")[0]
        ids = field_ids(self.contents.fields, (top,)).get(top, ())
        return index_rules.maybe_rewritten(self.contents.fragments(), index_rules.covered(segments), ids)


def look_at(location: DatasetLocation, pin: PinnedVersion) -> Look:
    """A version and its indexes; costs some metadata requests."""
    contents = versions.read_contents(location, pin)
    if contents.counts_rows:
        rows = {fragment.id: fragment.rows for fragment in contents.fragments()}
    else:
        rows = {each.fragment_id: each.count_rows() for each in open_pinned(location, pin).get_fragments()}
    return Look(location, pin, contents, rows, index_rules.by_name(index_segments.describe_segments(location, pin)))


def list_indexes(location: DatasetLocation, pin: PinnedVersion) -> list[IndexInfo]:
    look = look_at(location, pin)
    return [index_rules.info(segments, look.rows) for segments in look.indexes.values()]


def index_stats(location: DatasetLocation, pin: PinnedVersion, name: str) -> IndexStats:
    """One index in detail, by its name or column. Raises NotFound."""
    look = look_at(location, pin)
    found = index_rules.find_index(look.indexes, name)
    segments = look.indexes[found]
    told = tuple(
        index_rules.SegmentInfo(
            uuid=segment.uuid,
            rows=sum(count for fragment, count in look.rows.items() if fragment in segment.fragments),
            fragments=tuple(sorted(segment.fragments)),
            bytes=segment.size_bytes or 0,
            inherited=segment.inherited,
            created_at=segment.created_at,
        )
        for segment in segments
    )
    return IndexStats(index_rules.info(segments, look.rows), look.settings(found) or {}, told)


def look_at_indexes(what: str, location: DatasetLocation, ref: RefSpec) -> Card:
    """The indexes as a card; if the store does not answer, the card shows why."""

    def look() -> Card:
        pin = resolve(location, ref)
        return index_rules.indexes_card(what, location.uri, str(pin), list_indexes(location, pin))

    return or_why(look, lambda why: unknown_card(what, location.uri, why, ref))
