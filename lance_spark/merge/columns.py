"""What two sides did to the columns of a table, and whether the two combine. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from lance_spark.manifest.contents import Field
from lance_spark.merge.matrix import COLUMNS, ColumnEdit, decide

Metadata = tuple[tuple[str, bytes], ...]
"""Metadata of a column, sorted by key; a comment is part of it."""


@dataclass(frozen=True)
class ColumnChanges:
    """What to do to the columns of ours so that they have the changes of theirs as well."""

    drop: tuple[str, ...] = ()
    """Columns of ours, by their names there."""
    rename: tuple[tuple[str, str], ...] = ()
    """(name in ours, new name)."""
    relax: tuple[str, ...] = ()
    """Columns, by new name, that may be null from now on."""
    add: tuple[str, ...] = ()
    """Columns of theirs."""
    comment: tuple[tuple[str, Metadata], ...] = ()
    """(column, by new name; its metadata in theirs)."""

    def __bool__(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.drop or self.rename or self.relax or self.add or self.comment)


@dataclass(frozen=True)
class ColumnMerge:
    """The outcome of a three-way comparison of columns."""

    changes: ColumnChanges = field(default_factory=ColumnChanges)
    conflicts: tuple[str, ...] = ()


Tree = tuple[Field, ...]
"""A column with the fields inside it, depth first."""


def merge_columns(base: Sequence[Field], ours: Sequence[Field], theirs: Sequence[Field]) -> ColumnMerge:
    """Compare the columns of three versions, by field id: a renamed column is the same one, a cast one is not."""
    before, mine, other = trees(base), trees(ours), trees(theirs)
    merged = [_merge_column(tree, mine.get(key), other.get(key)) for key, tree in before.items()]
    new = [tree[0] for key, tree in other.items() if key not in before and mine.get(key) != tree]
    changes = ColumnChanges(
        drop=tuple(name for column in merged for name in column.changes.drop),
        rename=tuple(names for column in merged for names in column.changes.rename),
        relax=tuple(name for column in merged for name in column.changes.relax),
        comment=tuple(comment for column in merged for comment in column.changes.comment),
        add=tuple(column.name for column in new),
    )
    conflicts = [reason for column in merged for reason in column.conflicts]
    conflicts += [
        f"column '{column.name}', which cannot be null, was added on one side" for column in new if not column.nullable
    ]
    kept = {tree[0].name for tree in mine.values()} - {*changes.drop, *(old for old, _ in changes.rename)}
    names = [*changes.add, *(name for _, name in changes.rename)]
    conflicts += [f"both sides have a new column '{name}'" for name in names if name in kept]
    return ColumnMerge(changes, tuple(conflicts))


def _merge_column(base: Tree, ours: Tree | None, theirs: Tree | None) -> ColumnMerge:
    """What to do to one column of the base, by the matrix."""
    before, kinds = base[0], _kinds(base, theirs, ours)
    reasons = [cell.reason for cell in decide(COLUMNS, kinds, _kinds(base, ours, theirs)) if cell.is_conflict]
    if theirs is not None and ColumnEdit.ALTERED in kinds:
        reasons = reasons or _impossible(base, theirs)
    if reasons:
        return ColumnMerge(conflicts=tuple(reason.format(before.name) for reason in reasons))
    if ColumnEdit.DROPPED in kinds:
        return ColumnMerge(ColumnChanges(drop=(before.name,)))
    if ours is None or theirs is None:
        return ColumnMerge()
    after = theirs[0] if ColumnEdit.ALTERED in kinds else ours[0]
    changes = ColumnChanges(
        rename=((before.name, after.name),) if ours[0].name != after.name else (),
        relax=(after.name,) if after.nullable and not ours[0].nullable else (),
        comment=((after.name, theirs[0].metadata),) if ColumnEdit.COMMENTED in kinds else (),
    )
    return ColumnMerge(changes)


def _kinds(base: Tree, side: Tree | None, other: Tree | None) -> set[ColumnEdit]:
    """What a side did to a column, except for what the other side did as well."""
    if side is None:
        return {ColumnEdit.UNCHANGED if other is None else ColumnEdit.DROPPED}
    known = [tree for tree in (base, other) if tree is not None]
    kinds = set()
    if all(side[0].metadata != tree[0].metadata for tree in known):
        kinds.add(ColumnEdit.COMMENTED)
    if all(_shape(side) != _shape(tree) for tree in known):
        kinds.add(ColumnEdit.ALTERED)
    return kinds or {ColumnEdit.UNCHANGED}


def _shape(tree: Tree) -> Tree:
    """All of a column except for its metadata."""
    return tree[0]._replace(metadata=()), *tree[1:]


def _impossible(base: Tree, theirs: Tree) -> list[str]:
    """Why pylance cannot alter a column in this way if ours has changed other columns."""
    if base[1:] != theirs[1:] or base[0].type != theirs[0].type:
        return ["the fields inside column '{}' were changed on one side and other columns on the other"]
    return ["column '{}' may not be null any more on one side"] if base[0].nullable > theirs[0].nullable else []


def cast_columns(base: Sequence[Field], side: Sequence[Field]) -> list[str]:
    """Columns that kept their names but got new ids: their values were rewritten in another type."""
    before = {tree[0].name: key for key, tree in trees(base).items()}
    after = {tree[0].name: key for key, tree in trees(side).items()}
    return [name for name, key in before.items() if after.get(name, key) != key]


def trees(fields: Sequence[Field]) -> dict[int, Tree]:
    """The columns of a flattened schema, by id."""
    columns: dict[int, list[Field]] = {}
    column_of: dict[int, int] = {}
    for entry in fields:
        column = entry.id if entry.parent_id < 0 else column_of[entry.parent_id]
        column_of[entry.id] = column
        columns.setdefault(column, []).append(entry)
    return {key: tuple(tree) for key, tree in columns.items()}


def renumbered(base: Sequence[Field], side: Sequence[Field]) -> list[str]:
    """Columns whose id means another column on a side: an earlier merge had to give them new ids.

    By their ids, the values of one column would be read as those of another.
    """
    before, after = trees(base), trees(side)
    names = {tree[0].name: key for key, tree in after.items()}
    return [
        tree[0].name
        for key, tree in before.items()
        if key in after and after[key][0].name != tree[0].name and names.get(tree[0].name, key) != key
    ]


def match_fields(theirs: Sequence[Field], result: Sequence[Field]) -> dict[int, int]:
    """Field ids of theirs to those of the result, by the path of names."""
    there = {path: entry.id for path, entry in _paths(result).items()}
    return {entry.id: there[path] for path, entry in _paths(theirs).items() if path in there}


def strange_fields(result: Collection[int], theirs: Collection[int], matched: Mapping[int, int]) -> set[int]:
    """Ids of a merged table that mean another column in files of theirs, or one that theirs dropped.

    Read by its id, a new column of the result would have the values of that one. ``matched`` are ids of theirs to those
    in the result.
    """
    given = set(matched.values())
    return {key for key in result if key not in matched and (key in given or key not in theirs)}


def _paths(fields: Sequence[Field]) -> dict[tuple[str, ...], Field]:
    path_of: dict[int, tuple[str, ...]] = {}
    fields_by_path = {}
    for entry in fields:
        path = (*path_of.get(entry.parent_id, ()), entry.name)
        path_of[entry.id] = path
        fields_by_path[path] = entry
    return fields_by_path
