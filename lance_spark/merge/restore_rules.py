"""Restoring an older version as a replay: fragments and indexes. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from lance_spark.core.location import is_within
from lance_spark.format.contents import Contents, Fragment, IndexRecord
from lance_spark.format.versions import (
    Copy,
    Root,
    columns,
    same_deletion,
)
from lance_spark.merge.assembly_rules import InPlacePolicy, ReplayPlan, place
from lance_spark.merge.change_rules import of_whole_columns

# The base is the newest version and theirs the older one, so everything since then is undone. pylance's own restore
# does more (settings, the order of fragments), but conflicts with nothing: it silently covers a concurrent commit.

HARMLESS = frozenset({"Rewrite", "ReserveFragments", "CreateIndex", "UpdateBases"})
"""Operations that keep a table's rows: a restore may be planned again on top of them."""


def needs_pylance(plan: ReplayPlan) -> bool:
    """Whether pylance's own restore is needed, because a replay could not make the same version.

    This is so if columns differ (a commit cannot bring a dropped one back), if settings differ, or if the table is now
    empty.
    """
    now, then = plan.ours.contents, plan.sides.theirs.contents
    return (
        bool(plan.conflicts or plan.placed.new_bases)
        or not now.fragment_count
        or now.fields != then.fields
        or _settings(now) != _settings(then)
        or _internal(now) != _internal(then)
    )


def _settings(contents: Contents) -> tuple[Mapping[str, object], ...]:
    return contents.config, contents.table_metadata, contents.schema_metadata


def _internal(contents: Contents) -> set[str]:
    """Ids of pylance's own indexes, which describe how to read other indexes."""
    return {index.uuid for index in contents.indexes if index.name.startswith("__")}


def given_up(plan: ReplayPlan, uri: str) -> set[Root]:
    """Places outside the dataset at ``uri`` that the older version read and the newest does not.

    The dataset may have been there before it was moved. A relocation changes the newest version only.
    """
    outside = {root for root in plan.sides.theirs.bases.values() if not is_within(root.uri, uri)}
    if not outside:
        return outside
    return outside - {plan.ours.root_of(file) for fragment in plan.ours.contents.fragments() for file in fragment.files}


def moved(plan: ReplayPlan, targets: Mapping[int | None, Root]) -> ReplayPlan:
    """The plan with the current places of its files, by base id."""
    theirs = plan.sides.theirs
    theirs = replace(theirs, bases={**theirs.bases, **targets})
    placed = place(plan.change, plan.ours, theirs, InPlacePolicy(everything=True), sidecars=False)
    return replace(plan, sides=replace(plan.sides, theirs=theirs), placed=placed)


def with_own_ids(plan: ReplayPlan) -> ReplayPlan:
    """Gives returning fragments their former ids, by which their deletion files and indexes know them.

    Two kinds of ids are not reused: 0, which pylance reads as "no id", and an id that an index has learned since. That
    index may cover other values, which the fragment had in between.
    """
    now = plan.ours.contents
    then = {index.uuid: index.fragments for index in plan.sides.theirs.contents.indexes}
    taken = {fragment.id for fragment in now.fragments()}
    taken |= {key for index in now.indexes for key in index.fragments - then.get(index.uuid, frozenset())}
    free = max(now.max_fragment_id, *(fragment.id for fragment in plan.change.added), -1) + 1
    ids = {
        fragment.id: fragment.id if fragment.id and fragment.id not in taken else free + count
        for count, fragment in enumerate(plan.change.added)
    }
    planned = {_deletion_path(fragment) for fragment in plan.change.added}
    kept = [copy for copy in plan.copies if copy.path not in planned]
    renamed = [
        Copy(plan.sides.theirs.root_of(fragment.deletion), _deletion_path(fragment), _deletion_path(fragment, new))
        for fragment in plan.change.added
        if fragment.deletion is not None and (new := ids[fragment.id]) != fragment.id
    ]
    return replace(plan, placed=replace(plan.placed, ids=ids, copies=(*kept, *renamed)))


def _deletion_path(fragment: Fragment, number: int | None = None) -> str:
    if fragment.deletion is None:
        return ""
    return fragment.deletion.path_for(fragment.id if number is None else number)


@dataclass(frozen=True)
class IndexChange:
    """What to register so that indexes answer as in the restored version."""

    new: tuple[IndexRecord, ...] = ()
    removed: tuple[IndexRecord, ...] = ()
    lacking: tuple[str, ...] = ()
    """Names of indexes that no longer cover all fragments that they covered then."""


def index_change(
    then: Contents, old: Collection[IndexRecord], now: Contents, current: Collection[IndexRecord]
) -> IndexChange:
    """How the indexes of a restored version come back. Newer indexes stay as they are.

    ``old`` are those of the restored version, as the newest one would name them.
    """
    fragments = {fragment.id: fragment for fragment in now.fragments()}
    same = {
        fragment.id: fragment
        for fragment in then.fragments()
        if fragment.id in fragments and same_deletion(fragment, fragments[fragment.id])
    }
    new: list[IndexRecord] = []
    removed: list[IndexRecord] = []
    lacking = []
    for name in sorted({index.name for index in then.indexes if not index.name.startswith("__")}):
        segments = [index for index in old if index.name == name and index.fragments is not None]
        mine = [index for index in current if index.name == name]
        valid = [_valid(index, of_whole_columns(index.fields, then.fields), same, fragments) for index in segments]
        if not _known(valid) <= _known(mine) & fragments.keys():
            new += valid
            removed += mine
        knew = {key for index in then.indexes if index.name == name for key in index.fragments}
        if not knew & {fragment.id for fragment in then.fragments()} <= _known(valid):
            lacking.append(name)
    return IndexChange(tuple(new), tuple(removed), tuple(lacking))


def _valid(
    index: IndexRecord, live: frozenset[int], then: Mapping[int, Fragment], now: Mapping[int, Fragment]
) -> IndexRecord:
    """A segment limited to fragments whose rows and values are the same as then."""
    kept = {
        key
        for key, fragment in then.items()
        if key in (index.fragments or ())
        and columns(fragment, live) == columns(now[key], live)
        and fragment.row_ids == now[key].row_ids
    }
    return index._replace(fragments=frozenset(kept))


def _known(indexes: Iterable[IndexRecord]) -> set[int]:
    return {key for index in indexes for key in index.fragments or ()}
