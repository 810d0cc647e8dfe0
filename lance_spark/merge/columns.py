"""What two sides did to the columns of a table, and whether both can be had."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from lance_spark.manifest.contents import Field


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

    def __bool__(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.drop or self.rename or self.relax or self.add)


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
    drop, rename, relax, conflicts = [], [], [], []
    for key, tree in before.items():
        here, there = mine.get(key), other.get(key)
        if there in (tree, here):
            continue
        problem = _clash(tree, here, there)
        if problem:
            conflicts.append(problem)
        elif there is None:
            drop.append(tree[0].name)
        else:
            if there[0].name != tree[0].name:
                rename.append((tree[0].name, there[0].name))
            if there[0].nullable and not tree[0].nullable:
                relax.append(there[0].name)
    new = [tree[0] for key, tree in other.items() if key not in before and mine.get(key) != tree]
    changes = ColumnChanges(tuple(drop), tuple(rename), tuple(relax), tuple(column.name for column in new))
    conflicts += [
        f"column '{column.name}', which cannot be null, was added on one side" for column in new if not column.nullable
    ]
    kept = {tree[0].name for tree in mine.values()} - {*drop, *(old for old, _ in rename)}
    wanted = [*changes.add, *(new_name for _, new_name in rename)]
    conflicts += [f"both sides have a new column '{name}'" for name in wanted if name in kept]
    return ColumnMerge(changes, tuple(conflicts))


def _clash(base: Tree, ours: Tree | None, theirs: Tree | None) -> str | None:
    """Why a column that theirs changed cannot be changed in ours; None if it can."""
    name = base[0].name
    if ours != base:
        return f"column '{name}' was altered on one side and altered or dropped on the other"
    if theirs is None:
        return None
    if base[1:] != theirs[1:] or base[0].type != theirs[0].type:
        return f"the fields inside column '{name}' were changed on one side and other columns on the other"
    return f"column '{name}' may not be null any more on one side" if base[0].nullable > theirs[0].nullable else None


def cast_columns(base: Sequence[Field], side: Sequence[Field]) -> list[str]:
    """Columns that have their names but not their ids any more: their values were written anew in another type."""
    before = {tree[0].name: key for key, tree in trees(base).items()}
    after = {tree[0].name: key for key, tree in trees(side).items()}
    return [name for name, key in before.items() if after.get(name, key) != key]


def trees(fields: Sequence[Field]) -> dict[int, Tree]:
    """The columns of a flattened schema, by id."""
    found: dict[int, list[Field]] = {}
    column_of: dict[int, int] = {}
    for entry in fields:
        column = entry.id if entry.parent_id < 0 else column_of[entry.parent_id]
        column_of[entry.id] = column
        found.setdefault(column, []).append(entry)
    return {key: tuple(tree) for key, tree in found.items()}


def renumbered(base: Sequence[Field], side: Sequence[Field]) -> list[str]:
    """Columns whose id means another column on a side: an earlier merge had to give them new ids.

    Taken by their ids, the values of one column would be read as those of another.
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


def _paths(fields: Sequence[Field]) -> dict[tuple[str, ...], Field]:
    path_of: dict[int, tuple[str, ...]] = {}
    found = {}
    for entry in fields:
        path = (*path_of.get(entry.parent_id, ()), entry.name)
        path_of[entry.id] = path
        found[path] = entry
    return found
