"""Gives the columns of theirs the field ids that ours has for them, before anything is compared. Pure.

Lance knows a column by its id, and a merge cannot always keep it: a column that two branches added at the same time had
the same id as another one, so it got a new one in the branch that took it over. Compared by id, it would be a different
column from then on. The last common version is known on both sides, and the version that brought it into a branch has
its columns under the same names: this shows which id means which column. If all ids already mean the same, nothing is
translated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import NamedTuple

from lance_spark.core.refs import PinnedVersion
from lance_spark.format.contents import Field, renumbered_fragment
from lance_spark.format.operations import Step, Steps
from lance_spark.format.row_ids import Rewrite
from lance_spark.format.versions import Snapshot
from lance_spark.merge.change_rules import Tree, trees

Ids = Mapping[int, int]
Fields = Sequence[Field]


class Numbering(NamedTuple):
    """New ids, by old ones; empty if all stay."""

    base: Ids
    """Of the last common version."""
    theirs: Ids
    spare: frozenset[int] = frozenset()
    """Ids that no column of ours has."""


def is_known(base: Fields, side: Fields) -> bool:
    """Whether a side has the columns of the base under their own ids, so that no other version need be read."""
    known = {(entry.id, entry.parent_id, entry.name, entry.type) for entry in side}
    return all((entry.id, entry.parent_id, entry.name, entry.type) in known for entry in base)


def matched(base: Fields, taken: Fields) -> dict[int, int]:
    """Ids in the version that took the base in, by those of the base. Not for columns that it had dropped.

    By name; a column that was renamed there has another name, and the old id. One with another type was cast there.
    """
    there, here = _by_path(taken), _by_path(base)
    by_id = {entry.id: path for path, entry in there.items()}
    found = {
        entry.id: there[path].id for path, entry in here.items() if path in there and there[path].type == entry.type
    }
    given = set(found.values())
    for entry in here.values():
        if entry.id not in found and entry.id in by_id and by_id[entry.id] not in here and entry.id not in given:
            found[entry.id] = entry.id
    return found


def number(ours: Snapshot, base: Fields, theirs: Fields, ids: tuple[Ids | None, Ids | None]) -> Numbering:
    """The numbering by ours. ``ids``: of the base in ours, and in theirs; None where the base's own ids count.

    A new column of theirs has the id of a new column of ours that looks the same, otherwise one of its own.
    """
    in_ours, in_theirs = ids
    spare: list[int] = []
    free = _spare(ours, (*base, *theirs), spare)
    common = {entry.id: entry.id if in_ours is None else in_ours.get(entry.id, -1) for entry in base}
    numbered = {key: next(free) if new < 0 else new for key, new in common.items()}
    back = {entry.id: entry.id for entry in base} if in_theirs is None else {new: key for key, new in in_theirs.items()}
    found = {key: numbered[old] for key, old in back.items()}
    known = {*numbered.values()}
    by_name = {tree[0].name: tree for key, tree in trees(ours.contents.fields).items() if key not in known}
    taken = {*ours.live, *known}
    for tree in trees(theirs).values():
        twin = by_name.get(tree[0].name)
        if tree[0].id not in found and twin is not None and _looks(tree) == _looks(twin):
            found |= {entry.id: other.id for entry, other in zip(tree, twin, strict=True)}
        for entry in tree:
            if entry.id not in found:
                found[entry.id] = entry.id if entry.id not in taken else next(free)
    if all(key == new for each in (numbered, found) for key, new in each.items()):
        return Numbering({}, {})
    return Numbering(numbered, found, frozenset(spare))


def _spare(ours: Snapshot, fields: Fields, given: list[int]) -> Iterator[int]:
    """Ids above all that are in use, also in files, which are looked at only if an id is needed."""
    files = (key for fragment in ours.contents.fragments() for file in fragment.files for key in file.fields)
    for free in count(max((*ours.live, *(entry.id for entry in fields), *files), default=-1) + 1):
        given.append(free)
        yield free


def _by_path(fields: Fields) -> dict[tuple[str, ...], Field]:
    path_of: dict[int, tuple[str, ...]] = {}
    found = {}
    for entry in fields:
        path_of[entry.id] = (*path_of.get(entry.parent_id, ()), entry.name)
        found[path_of[entry.id]] = entry
    return found


def _looks(tree: Tree) -> list[tuple[object, ...]]:
    """What makes two columns the same one: names, types and nulls, also inside."""
    place = {entry.id: at for at, entry in enumerate(tree)}
    return [(place.get(entry.parent_id), entry.name, entry.type, entry.nullable) for entry in tree]


def renumbered(snapshot: Snapshot, ids: Ids) -> Snapshot:
    """A version with other field ids. Files keep an id only for columns that are known."""
    return replace(snapshot, contents=snapshot.contents.renumbered(ids)) if ids else snapshot


def renumbered_steps(steps: Steps, ids: Ids) -> Steps:
    """Steps whose columns and compacted fragments have other field ids."""
    return replace(steps, all=tuple(_step(step, ids) for step in steps.all)) if ids else steps


def since(steps: Steps, taken: PinnedVersion | None) -> Steps:
    """Steps without the columns of versions before the base was taken in: these say nothing about its columns."""
    if taken is None:
        return steps
    early = [step.branch != taken.branch or step.version < taken.version for step in steps.all]
    kept = (step._replace(fields=None) if older else step for step, older in zip(steps.all, early, strict=True))
    return replace(steps, all=tuple(kept))


def _step(step: Step, ids: Ids) -> Step:
    def other(each: Rewrite) -> Rewrite:
        old, new = (tuple(renumbered_fragment(entry, ids) for entry in several) for several in each[:2])
        return each._replace(old=old, new=new)

    fields = None if step.fields is None else frozenset(ids[key] for key in step.fields if key in ids)
    return step._replace(fields=fields, rewrites=tuple(map(other, step.rewrites)))
