"""Creates, optimizes and drops indexes on any branch. Each is one version, or none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from lance_spark.actions.attempts import attempts, overtaken
from lance_spark.actions.indexes.build import SegmentBuilder
from lance_spark.actions.indexes.look import Look, look_at
from lance_spark.actions.sync.write_guards import check_mergeable
from lance_spark.backfill.keys import field_ids
from lance_spark.errors import AlreadyExists, Conflict, InvalidOption, Refused
from lance_spark.indexing.coverage import BuildPlan, covered, find_index, plan_create, plan_optimize, whole
from lance_spark.indexing.kinds import (
    Kind,
    check_settings,
    check_type,
    described_kind,
    find_column,
    find_kind,
    settings_for,
)
from lance_spark.indexing.model import IndexRequest, IndexResult
from lance_spark.indexing.training import least_rows, plan_training
from lance_spark.location import DatasetLocation
from lance_spark.refs.model import PinnedVersion
from lance_spark.runner.interface import Engine
from lance_spark.store import version_reader
from lance_spark.store.datasets import pin_latest
from lance_spark.store.index_build import SegmentOrder
from lance_spark.store.index_commit import commit_segments


class _Decision(NamedTuple):
    """What to do to one index of a version."""

    name: str
    kind: str
    column: str
    plan: BuildPlan
    settings: Mapping[str, Any]
    known: frozenset[str] = frozenset()
    """Ids of the segments that the index had."""
    left: str = ""


def create_index(location: DatasetLocation, branch: str | None, request: IndexRequest, engine: Engine) -> IndexResult:
    """Make an index on a branch (None for main); commits made meanwhile are kept.

    An index that the branch inherited stays as it is, and only rows that it does not cover are indexed. Raises NotFound
    for an unknown column, InvalidOption for an unknown kind or setting, SchemaMismatch for a column that the kind does
    not fit, AlreadyExists if the name is taken, Refused if there is nothing to index or too few rows to train on, and
    Conflict; then nothing was changed.
    """
    kind = find_kind(request.kind)
    settings = check_settings(kind, request.settings)
    if not request.index_name or request.index_name.startswith("__"):
        raise InvalidOption(f"An index cannot be named '{request.index_name}'.", hint="pylance keeps names with '__'.")
    return _changed(location, branch, engine, lambda look: _creation(look, request, kind, settings), request.message)


def optimize_indexes(
    location: DatasetLocation, branch: str | None, name: str | None, engine: Engine, message: str | None = None
) -> list[IndexResult]:
    """Index the rows that an index, or each of all, does not cover; each that lacks rows gets a version.

    Inherited segments are never read. Raises NotFound for an unknown name, and Conflict.
    """
    look = look_at(location, pin_latest(location, branch))
    names = [*look.indexes] if name is None else [find_index(look.indexes, name)]
    return [
        _changed(location, branch, engine, lambda look, each=each: _optimization(look, each), message)  # type: ignore[misc]
        for each in names
    ]


def drop_index(location: DatasetLocation, branch: str | None, name: str, message: str | None = None) -> IndexResult:
    """Drop an index from a branch; older versions and other branches keep it. Raises NotFound, Conflict."""
    check_mergeable(location, branch)
    for left in attempts():
        look = look_at(location, pin_latest(location, branch))
        found = find_index(look.indexes, name)
        segments = look.indexes[found]
        try:
            made = commit_segments(location, look.pin, [], {segment.uuid for segment in segments}, message)
        except Conflict:
            if not left:
                raise
            continue
        kind = described_kind(segments[0].index_type)
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
    with builder.discarding():
        for left in attempts():
            look = look_at(location, pin_latest(location, branch))
            todo = decide(look)
            order = SegmentOrder(location, look.pin, todo.column, todo.kind, todo.name, todo.settings)
            made = builder.segments(look, order, todo.plan.fragments)
            if not made and not todo.plan.removed:
                builder.done()
                return IndexResult(look.pin, todo.name, todo.kind, left=todo.left)
            now = look_at(location, pin_latest(location, branch))
            if now.pin != look.pin and not _still_right(now, todo, builder):
                continue
            try:
                version = commit_segments(location, now.pin, made, todo.plan.removed, message)
            except Conflict:
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
    """Whether what was decided and built for one version is right for a later one; more rows may have come."""
    kept = [each for each in now.indexes.get(todo.name, ()) if each.uuid not in todo.plan.removed]
    there = {each.uuid for segments in now.indexes.values() for each in segments}
    return (
        builder.still_fit(now, todo.column)
        and todo.plan.removed <= there
        and not covered(kept) & todo.plan.fragments
        and todo.known >= {each.uuid for each in kept}
    )


def _check_column(location: DatasetLocation, now: Look, made: PinnedVersion, todo: _Decision) -> None:
    """Take the index out again if its column was dropped in the moment before the commit. Raises Conflict.

    pylance combines the two, and from then on no filter of the table can be read.
    """
    if made.version == now.pin.version + 1:
        return
    contents = version_reader.read_contents(location, made)
    top = todo.column if now.schema.get_field_index(todo.column) >= 0 else todo.column.split(".")[0]
    if field_ids(now.contents.fields, (top,)) != field_ids(contents.fields, (top,)):
        uuids = {each.uuid for each in contents.indexes if each.name == todo.name}
        commit_segments(location, made, [], uuids)
        raise Conflict(f"Column '{todo.column}' was altered or dropped while it was indexed.", hint="Run it again.")


def _creation(look: Look, request: IndexRequest, kind: Kind, settings: dict[str, Any]) -> _Decision:
    field = find_column(look.schema, request.column)
    check_type(kind, request.column, field.type)
    settings = settings_for(kind, request.column, field.type, settings)
    name = request.index_name
    there = look.indexes.get(name, ())
    plan = plan_create(request, kind.name, there, look.rows)
    if there and not request.replace:
        return _extended(look, _Decision(name, kind.name, request.column, plan, settings), kind)
    if not plan.fragments:
        raise Refused("There are no rows to index.", hint="Write rows first.")
    if kind.is_vector:  # before any work
        plan_training(kind, settings, field.type.list_size, sum(look.rows[each] for each in plan.fragments))
    return _Decision(name, kind.name, request.column, plan, settings, frozenset(each.uuid for each in there))


def _optimization(look: Look, name: str) -> _Decision:
    there = look.indexes[find_index(look.indexes, name)]
    kind, column = described_kind(there[0].index_type), ", ".join(there[0].columns)
    if kind is None or len(there[0].columns) != 1:
        left = "not a kind that is built here: pylance's optimize_indices() builds it"
        return _Decision(name, there[0].index_type, column, BuildPlan(frozenset()), {}, left=left)
    return _extended(look, _Decision(name, kind.name, column, plan_optimize(there, look.rows), {}), kind)


def _extended(look: Look, todo: _Decision, kind: Kind) -> _Decision:
    """More rows for an index that is there: built with its own settings, or not at all."""
    todo = todo._replace(known=frozenset(each.uuid for each in look.indexes[todo.name]))
    told = look.settings(todo.name)
    if not todo.plan.fragments:
        return todo
    if told is None:
        return _without_build(todo, "what it was made with is not known: create it again with replace=True")
    other = sorted(key for key, value in todo.settings.items() if key in told and told[key] != value)
    if other:
        raise AlreadyExists(
            f"The index '{todo.name}' has {other[0]} = {told[other[0]]}, not {todo.settings[other[0]]}.",
            hint=f"Leave {other[0]} out, or build it anew for this branch: replace=True.",
        )
    if kind.mixes_up_updates and look.contents.has_stable_row_ids:
        todo = todo._replace(plan=whole(todo.plan, look.indexes[todo.name], look.rows))
    rows = sum(look.rows[fragment] for fragment in todo.plan.fragments)
    if kind.is_vector and rows < least_rows(kind, told):
        few = (
            f"too few rows to train on ({rows:,}, of at least {least_rows(kind, told):,}): they are searched one by one"
        )
        return _without_build(todo, few)
    return todo._replace(settings={**todo.settings, **told})


def _without_build(todo: _Decision, left: str) -> _Decision:
    """Segments whose place the new ones would have taken stay as well."""
    return todo._replace(plan=BuildPlan(frozenset()), left=left)
