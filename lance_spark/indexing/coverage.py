"""What the segments of an index cover, and what is to be built. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from lance_spark import hints
from lance_spark.errors import AlreadyExists, InvalidOption, NotFound
from lance_spark.indexing.kinds import described_kind
from lance_spark.indexing.model import IndexInfo, IndexRequest
from lance_spark.manifest.indexes import IndexRecord
from lance_spark.metadata.indexes import Segment

_INTERNAL = "__"
"""Prefix of the names of indexes that pylance keeps for itself."""
MOST_SEGMENTS = 8
"""Each query asks every segment."""
ROWS_PER_TASK = 100_000
"""Fewer are not worth a task of their own."""
Rows = Mapping[int, int]
"""Rows that are not deleted, by fragment."""


class BuildPlan(NamedTuple):
    """What is to be built, and which segments go."""

    fragments: frozenset[int]
    removed: frozenset[str] = frozenset()
    """Ids of segments whose place the new ones take, or that cover nothing any more."""


def by_name(segments: Iterable[Segment]) -> dict[str, list[Segment]]:
    """The segments of each index, by name; without pylance's own indexes."""
    found: dict[str, list[Segment]] = {}
    for segment in sorted(segments, key=lambda each: (each.name, each.uuid)):
        if not segment.name.startswith(_INTERNAL):
            found.setdefault(segment.name, []).append(segment)
    return found


def find_index(indexes: Mapping[str, Sequence[Segment]], name: str) -> str:
    """The name of an index, found by its name, or by its column if that has one index. Raises NotFound."""
    if name in indexes:
        return name
    on_column = [found for found, segments in indexes.items() if list(segments[0].columns) == [name]]
    if len(on_column) == 1:
        return on_column[0]
    if on_column:
        raise InvalidOption(f"Column '{name}' has {len(on_column)} indexes.", hint=f"Name one: {', '.join(on_column)}.")
    hint = (
        f"There are {', '.join(indexes)}."
        if indexes
        else hints.of("There are none; ", hints.create_index(), " makes one.")
    )
    raise NotFound(f"There is no index '{name}'.", hint=hint)


def covered(segments: Iterable[Segment]) -> frozenset[int]:
    """The fragments that segments cover; some may be gone."""
    return frozenset().union(*(segment.fragments for segment in segments))


def info(segments: Sequence[Segment], rows: Rows) -> IndexInfo:
    """The record of one index of a version with these rows."""
    first, known = segments[0], covered(segments)
    kind = described_kind(first.index_type)
    inside = sum(count for fragment, count in rows.items() if fragment in known)
    return IndexInfo(
        name=first.name,
        columns=tuple(first.columns),
        kind=kind.name if kind else first.index_type.lower(),
        rows_covered=inside,
        rows_uncovered=sum(rows.values()) - inside,
        segments=len(segments),
        inherited_segments=sum(segment.inherited for segment in segments),
        bytes=sum(segment.size_bytes or 0 for segment in segments),
    )


def plan_create(request: IndexRequest, kind: str, there: Sequence[Segment], rows: Rows) -> BuildPlan:
    """What a new index needs; ``there`` are the segments of the index of that name.

    An index that a branch inherited is kept: only what it does not cover is built. Raises AlreadyExists for any other
    one, and for one of another kind or on another column, unless it is to be replaced.
    """
    if request.replace or not there:
        return BuildPlan(_filled(rows), frozenset(segment.uuid for segment in there))
    have = described_kind(there[0].index_type)
    same = have is not None and have.name == kind and list(there[0].columns) == [request.column]
    if not same or not any(segment.inherited for segment in there):
        raise AlreadyExists(
            f"There is an index '{there[0].name}' already: {there[0].index_type} on {', '.join(there[0].columns)}.",
            hint=hints.of(
                hints.OPTIMIZE_INDEXES,
                " indexes what is new; ",
                hints.REPLACE,
                " builds it anew; or give another name.",
            ),
        )
    return BuildPlan(_filled(rows) - covered(there))


def plan_optimize(there: Sequence[Segment], rows: Rows) -> BuildPlan:
    """What an index lacks, built together with those of its own segments that are no larger.

    That way each row is built anew a few times at most, however often it runs, and segments stay few. Inherited
    segments are never read. Segments that cover no row any more go.
    """
    empty = {segment.uuid for segment in there if not segment.fragments & _filled(rows)}
    lacking = _filled(rows) - covered(there)
    if not lacking:
        return BuildPlan(frozenset(), frozenset(empty))
    folded: set[str] = set()
    building = set(lacking)
    own = [segment for segment in there if not segment.inherited and segment.uuid not in empty]
    for segment in sorted(own, key=lambda each: (_count(each.fragments, rows), each.uuid)):
        if _count(segment.fragments, rows) > _count(building, rows):
            break
        folded.add(segment.uuid)
        building |= segment.fragments & _filled(rows)
    return BuildPlan(frozenset(building), frozenset(empty | folded))


def whole(plan: BuildPlan, there: Sequence[Segment], rows: Rows) -> BuildPlan:
    """A plan that adds a segment to an index, as one that builds the index anew."""
    return BuildPlan(_filled(rows), frozenset(segment.uuid for segment in there)) if plan.fragments else plan


def task_groups(fragments: Collection[int], rows: Rows, tasks: int) -> list[list[int]]:
    """Fragments for each task, next to one another, with about as many rows in each group."""
    ordered = sorted(fragments)
    total = max(1, _count(ordered, rows))
    groups: dict[int, list[int]] = {}
    before = 0
    for fragment in ordered:
        middle = before + rows.get(fragment, 0) // 2
        groups.setdefault(min(tasks - 1, middle * tasks // total), []).append(fragment)
        before += rows.get(fragment, 0)
    return list(groups.values())


def task_count(fragments: Collection[int], rows: Rows, side_by_side: int, segments: int | None) -> int:
    """How many tasks build: as many as run side by side, as long as each has enough to do."""
    worth = max(1, _count(fragments, rows) // ROWS_PER_TASK)
    return max(1, min(len(fragments), max(segments or 1, min(side_by_side, worth))))


def merge_groups(built: int, segments: int | None) -> list[range]:
    """Which of the segments that tasks built are merged into one, by their places."""
    most = min(built, segments or MOST_SEGMENTS)
    return [range(built * at // most, built * (at + 1) // most) for at in range(most)]


def _filled(rows: Rows) -> frozenset[int]:
    return frozenset(fragment for fragment, count in rows.items() if count)


def _count(fragments: Iterable[int], rows: Rows) -> int:
    return sum(rows.get(fragment, 0) for fragment in fragments)


def lost_coverage(
    before: Iterable[IndexRecord], old: Collection[int], after: Iterable[IndexRecord], new: Collection[int]
) -> tuple[str, ...]:
    """Names of the indexes that knew rows of old fragments, and do not know all of the new ones that have them now."""
    known: dict[str, set[int]] = {}
    for index in after:
        known.setdefault(index.name, set()).update(index.fragments or ())
    names = {index.name for index in before if not index.is_internal and not (index.fragments or set()).isdisjoint(old)}
    return tuple(sorted(name for name in names if not known.get(name, set()).issuperset(new)))
