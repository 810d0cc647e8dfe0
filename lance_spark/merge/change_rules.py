"""The vocabulary of a merge: sides, changes, conflicts, and the conflict matrix as data. Pure.

In: what theirs and ours did to the same fragment or column. Out: whose change wins, both, or a conflict. A side may
have changed a fragment or column in several ways. Then every pair of ways counts, and a single conflict makes the whole
a conflict. A change that both sides made counts for neither. docs/reference/merging.md shows both tables to users.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from lance_spark.core.show import Recorded
from lance_spark.errors import NotCommittable
from lance_spark.format.column_defaults import DEFAULT_KEY
from lance_spark.format.contents import Field, Fragment
from lance_spark.format.operations import PRIMARY_KEY, Steps
from lance_spark.format.row_ids import Rewrite
from lance_spark.format.versions import Snapshot, delta
from lance_spark.format.versions import columns as files_of
from lance_spark.merge.option_rules import Prefer


class Decision(NamedTuple):
    outcome: str
    """The change that the result has: that of ours, of theirs, both, or none for a conflict."""
    reason: str = ""
    """Why it is a conflict. For "both, if ...": the reason if the condition fails."""
    by_rows: str = ""
    """The outcome where rows are not compared cell by cell, if it differs."""

    @property
    def is_conflict(self) -> bool:
        """Whether the two never combine, unless cell by cell."""
        return (self.by_rows or self.outcome) == "conflict"

    @property
    def by_cells(self) -> bool:
        """Whether the two combine where their rows can be matched and no cell has two new values."""
        return self.outcome == _CELLS

    @property
    def if_other_rows(self) -> bool:
        """Whether the two combine if they are about different rows, which only deletion files show."""
        return (self.by_rows or self.outcome) == OTHER_ROWS.outcome


_CELLS = "by cells"


def _conflict(reason: str) -> Decision:
    return Decision("conflict", reason)


def _cells(otherwise: Decision) -> Decision:
    return Decision(_CELLS, otherwise.reason, otherwise.outcome)


class FragmentChange(Enum):
    """What a side did to a fragment of the base. The values are the headings in the documentation."""

    UNCHANGED = "unchanged"
    ROWS_DELETED = "rows deleted"
    ROWS_UPDATED = "rows updated"
    """Or may have been updated: a version in between is gone."""
    COLUMNS_WRITTEN = "columns written"
    COMPACTED = "compacted"
    """Its rows are known to be in another fragment."""
    GONE = "gone"
    """All its rows were deleted or updated, or their place is unknown."""


class ColumnEdit(Enum):
    """What a side did to a column of the base. The values are the headings in the documentation."""

    UNCHANGED = "unchanged"
    COMMENTED = "comment changed"
    """Any metadata of the column was changed."""
    ALTERED = "altered"
    DROPPED = "dropped or cast"


_OURS, _THEIRS, _BOTH = Decision("ours"), Decision("theirs"), Decision("both")
OTHER_ROWS = Decision("both, if other rows", "both sides deleted or updated the same rows")
OTHER_COLUMNS = Decision("both, if other columns", "both sides wrote the same column of the same rows")
# An updated row is a deleted one and a new one: the new copy would lack the values that the other side wrote.
_OURS_UPDATED = _conflict("ours updated rows in which theirs wrote a column")
_THEIRS_UPDATED = _conflict("theirs updated rows in which ours wrote a column")
UPDATED = (_OURS_UPDATED.reason, _THEIRS_UPDATED.reason)
COMPACTED_OURS = _conflict("theirs wrote a column of rows that ours compacted")
GONE_OURS = _conflict("rows that ours rewrote or removed were changed")
GONE_THEIRS = _conflict("both sides changed rows that theirs rewrote or removed")
BLANK = "rows that one side has back have no values in column"
"""The beginning of a reason that only rows show."""
BOTH_NEW = "both sides have a new column"
_COMMENTED = _conflict("the comment of column '{}' was changed on both sides")
_ALTERED = _conflict("column '{}' was altered on one side and altered or dropped on the other")

Kind = TypeVar("Kind", FragmentChange, ColumnEdit)
Matrix = Mapping[tuple[Kind, Kind], Decision]
"""Decisions by (change of theirs, change of ours)."""


def _matrix(rows: Mapping[Kind, tuple[Decision, ...]]) -> Matrix[Kind]:
    """Each row is a change of theirs. Its cells are changes of ours, in the same order."""
    return {(theirs, ours): cell for theirs, row in rows.items() for ours, cell in zip(rows, row, strict=True)}


_MOVED, _LOST, _GONE = _cells(COMPACTED_OURS), GONE_OURS, GONE_THEIRS  # short, so that the table fits
_SAME, _THEIR_ROWS, _OUR_ROWS = _cells(OTHER_ROWS), _cells(_THEIRS_UPDATED), _cells(_OURS_UPDATED)
_IN_OURS, _IN_THEIRS = _cells(_LOST), _cells(_GONE)
# fmt: off
FRAGMENTS: Matrix[FragmentChange] = _matrix({
    # of ours:                       UNCHANGED  ROWS_DELETED  ROWS_UPDATED   COLUMNS_WRITTEN   COMPACTED  GONE
    FragmentChange.UNCHANGED:       (_OURS,     _OURS,        _OURS,         _OURS,            _OURS,     _OURS),
    FragmentChange.ROWS_DELETED:    (_THEIRS,   OTHER_ROWS,   OTHER_ROWS,    _BOTH,            _BOTH,     _LOST),
    FragmentChange.ROWS_UPDATED:    (_THEIRS,   OTHER_ROWS,   _SAME,         _THEIR_ROWS,      _BOTH,     _IN_OURS),
    FragmentChange.COLUMNS_WRITTEN: (_THEIRS,   _BOTH,        _OUR_ROWS,     OTHER_COLUMNS,    _MOVED,    _IN_OURS),
    FragmentChange.COMPACTED:       (_THEIRS,   _BOTH,        _BOTH,         _BOTH,            _BOTH,     _OURS),
    FragmentChange.GONE:            (_THEIRS,   _GONE,        _IN_THEIRS,    _IN_THEIRS,       _BOTH,     _IN_THEIRS),
})
COLUMNS: Matrix[ColumnEdit] = _matrix({
    # of ours:                       UNCHANGED  COMMENTED      ALTERED         DROPPED
    ColumnEdit.UNCHANGED:           (_OURS,     _OURS,         _OURS,          _OURS),
    ColumnEdit.COMMENTED:           (_THEIRS,   _COMMENTED,    _BOTH,          _ALTERED),
    ColumnEdit.ALTERED:             (_THEIRS,   _BOTH,         _ALTERED,       _ALTERED),
    ColumnEdit.DROPPED:             (_THEIRS,   _ALTERED,      _ALTERED,       _ALTERED),
})
# fmt: on


def decide(matrix: Matrix[Kind], theirs: Collection[Kind], ours: Collection[Kind]) -> list[Decision]:
    """The decisions for everything that both sides did to one fragment or column, in matrix order."""
    return [decision for (their, our), decision in matrix.items() if their in theirs and our in ours]


# --- Three-way comparison of columns

Metadata = tuple[tuple[str, bytes], ...]
"""Metadata of a column, sorted by key; a comment is part of it."""


class InnerChange(NamedTuple):
    """What to change inside a struct of ours. Paths have dots, and begin with the name of the column in ours."""

    column: int
    """Its id."""
    drop: tuple[str, ...] = ()
    rename: tuple[tuple[str, str], ...] = ()
    """(path, new name of the field)."""
    add: tuple[str, ...] = ()
    """Paths in theirs."""


@dataclass(frozen=True)
class ColumnChanges:
    """What to change in the columns of ours to apply the changes of theirs."""

    drop: tuple[str, ...] = ()
    """Columns of ours, by their names there."""
    rename: tuple[tuple[str, str], ...] = ()
    """(name in ours, new name)."""
    nullable: tuple[tuple[str, bool], ...] = ()
    """(column or field inside one, by its new path with dots; whether it may be null from now on)."""
    add: tuple[str, ...] = ()
    """Columns of theirs."""
    comment: tuple[tuple[str, Metadata], ...] = ()
    """(column or field inside one, by its new path with dots; its metadata in theirs)."""
    inner: tuple[InnerChange, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.drop or self.rename or self.nullable or self.add or self.comment or self.inner)


@dataclass(frozen=True)
class ColumnMerge:
    """The outcome of a three-way comparison of columns."""

    changes: ColumnChanges = field(default_factory=ColumnChanges)
    conflicts: tuple[str, ...] = ()


Tree = tuple[Field, ...]
"""A column with the fields inside it, depth first."""
Trees = Mapping[int, Tree]
"""The columns of a version, by id."""


LastName = Callable[[str], str]
"""The last name of a column of the base that a side renamed."""


def merge_columns(
    base: Sequence[Field],
    ours: Sequence[Field],
    theirs: Sequence[Field],
    last: tuple[LastName, LastName] = (str, str),
) -> ColumnMerge:
    """Compare the columns of three versions by field id: a renamed column stays the same, a cast one does not."""
    before, mine, other = trees(base), trees(ours), trees(theirs)
    merged = [_merge_column(tree, mine.get(key), other.get(key)) for key, tree in before.items()]
    new = [tree[0] for key, tree in other.items() if key not in before and mine.get(key) != tree]
    changes = ColumnChanges(
        drop=tuple(name for column in merged for name in column.changes.drop),
        rename=tuple(names for column in merged for names in column.changes.rename),
        nullable=tuple(entry for column in merged for entry in column.changes.nullable),
        comment=tuple(comment for column in merged for comment in column.changes.comment),
        add=tuple(column.name for column in new),
        inner=tuple(entry for column in merged for entry in column.changes.inner),
    )
    conflicts = [reason for column in merged for reason in column.conflicts]
    conflicts += [_ALTERED.reason.format(name) for name in _dropped_and_cast(before, (mine, other), last)]
    kept = {tree[0].name for tree in mine.values()} - {*changes.drop, *(old for old, _ in changes.rename)}
    names = [*changes.add, *(name for _, name in changes.rename)]
    there = {tree[0].name for tree in other.values()}
    conflicts += [reason for name in names if (reason := _taken(name, kept, there)) is not None]
    return ColumnMerge(changes, tuple(conflicts))


def _taken(name: str, kept: Collection[str], theirs: Collection[str]) -> str | None:
    """Why a name of theirs cannot come to the columns that ours keeps: Spark ignores the case of names."""
    if name in kept:
        return f"{BOTH_NEW} '{name}'"
    folded = [other for other in kept if other.lower() == name.lower() and other not in theirs]
    return f"{BOTH_NEW} '{name}', which ours spells '{folded[0]}'" if folded else None


def _dropped_and_cast(before: Trees, sides: tuple[Trees, Trees], last: tuple[LastName, LastName]) -> Iterator[str]:
    """Columns that one side dropped and the other cast, or added again under the same name: they have another id."""
    new = [{tree[0].name for key, tree in side.items() if key not in before} for side in sides]
    for key, tree in before.items():
        cast = [name(tree[0].name) in names for names, name in zip(new, last, strict=True)]
        if key not in sides[0] and key not in sides[1] and cast[0] != cast[1]:
            yield tree[0].name


def _merge_column(base: Tree, ours: Tree | None, theirs: Tree | None) -> ColumnMerge:
    """The change to one column of the base, by the matrix."""
    before, kinds = base[0], _kinds(base, theirs, ours)
    reasons = [cell.reason for cell in decide(COLUMNS, kinds, _kinds(base, ours, theirs)) if cell.is_conflict]
    inner = _inner(base, theirs) if theirs is not None and ColumnEdit.ALTERED in kinds else None
    if inner is None and ColumnEdit.ALTERED in kinds:
        reasons = reasons or [_INSIDE]
    if reasons:
        return ColumnMerge(conflicts=tuple(reason.format(before.name) for reason in reasons))
    if ColumnEdit.DROPPED in kinds:
        return ColumnMerge(ColumnChanges(drop=(before.name,)))
    if ours is None or theirs is None:
        return ColumnMerge()
    after = theirs[0] if ColumnEdit.ALTERED in kinds else ours[0]
    changes = ColumnChanges(
        rename=((before.name, after.name),) if ours[0].name != after.name else (),
        nullable=_nullability(ours, theirs) if ColumnEdit.ALTERED in kinds else (),
        comment=(
            *(((after.name, theirs[0].metadata),) if ColumnEdit.COMMENTED in kinds else ()),
            *(_comments_inside(base, theirs, after.name) if ColumnEdit.ALTERED in kinds else ()),
        ),
        inner=(inner,) if inner is not None and any(inner[1:]) else (),
    )
    return ColumnMerge(changes)


def _comments_inside(base: Tree, theirs: Tree, column: str) -> Iterator[tuple[str, Metadata]]:
    """The fields inside a column whose metadata theirs changed, by their new paths."""
    before = {entry.id: entry.metadata for entry in base[1:]}
    for path, entry in _paths(theirs).items():
        if before.get(entry.id, entry.metadata) != entry.metadata:
            yield ".".join((column, *path[1:])), entry.metadata


def _kinds(base: Tree, side: Tree | None, other: Tree | None) -> set[ColumnEdit]:
    """What a side did to a column, except for changes that the other side also made."""
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
    """A column without its metadata."""
    return tree[0]._replace(metadata=()), *tree[1:]


_INSIDE = "the fields inside column '{}' were changed on one side and other columns on the other"


def _inner(base: Tree, theirs: Tree) -> InnerChange | None:
    """What theirs changed inside a column; None if pylance cannot do it in a table with other columns.

    It adds fields only to structs, and none that cannot be null.
    """
    before, after = {entry.id: entry for entry in base}, {entry.id: entry for entry in theirs}
    both = [(before[key], after[key]) for key in before.keys() & after.keys()]
    if any((one.type, one.parent_id) != (new.type, new.parent_id) for one, new in both):
        return None
    old_paths, new_paths = ({entry.id: path for path, entry in _paths(tree).items()} for tree in (base, theirs))
    dropped = [key for key, entry in before.items() if key not in after and entry.parent_id in after]
    added = [entry for key, entry in after.items() if key not in before]
    outermost = [entry for entry in added if entry.parent_id in before]
    reached = {parent for entry in (*outermost, *(before[key] for key in dropped)) for parent in _above(entry, before)}
    if not all(entry.nullable for entry in added) or any(before[key].type != "struct" for key in reached):
        return None
    renamed = [(one, new) for one, new in both if one.name != new.name and one.parent_id in before]
    return InnerChange(
        base[0].id,
        drop=tuple(".".join(old_paths[key]) for key in dropped),
        rename=tuple((".".join(old_paths[one.id]), new.name) for one, new in renamed),
        add=tuple(".".join(new_paths[entry.id]) for entry in outermost),
    )


def _above(entry: Field, fields: Mapping[int, Field]) -> Iterator[int]:
    while entry.parent_id in fields:
        yield entry.parent_id
        entry = fields[entry.parent_id]


def _nullability(ours: Tree, theirs: Tree) -> tuple[tuple[str, bool], ...]:
    """The fields of a column that may be null in theirs and not in ours, or the other way round."""
    before = {entry.id: entry.nullable for entry in ours}
    paths = {".".join(path): entry for path, entry in _paths(theirs).items()}
    known = ((path, entry) for path, entry in paths.items() if entry.id in before)
    return tuple((path, entry.nullable) for path, entry in known if before[entry.id] != entry.nullable)


def cast_columns(base: Sequence[Field], side: Sequence[Field]) -> list[str]:
    """Columns that kept their names but got new ids: their values were rewritten in another type.

    Not those that were renamed, so that another one could get their name.
    """
    known = {entry.id for entry in side}
    before = {tree[0].name: key for key, tree in trees(base).items() if key not in known}
    after = {tree[0].name: key for key, tree in trees(side).items()}
    return [name for name, key in before.items() if after.get(name, key) != key]


def default_in(entry: Field) -> str | None:
    """The SQL of a column's default; None without one."""
    return next((text.decode() for key, text in entry.metadata if key == DEFAULT_KEY), None)


def trees(fields: Sequence[Field]) -> dict[int, Tree]:
    """The columns of a flattened schema, by id."""
    columns: dict[int, list[Field]] = {}
    column_of: dict[int, int] = {}
    for entry in fields:
        column = entry.id if entry.parent_id < 0 else column_of[entry.parent_id]
        column_of[entry.id] = column
        columns.setdefault(column, []).append(entry)
    return {key: tuple(tree) for key, tree in columns.items()}


def of_whole_columns(ids: Collection[int], fields: Sequence[Field]) -> frozenset[int]:
    """These fields, and all others of the columns that they belong to.

    The index of a list is one of the list, but data files name the field of its elements only.
    """
    found = (tree for tree in trees(fields).values() if any(entry.id in ids for entry in tree))
    return frozenset(ids).union(entry.id for tree in found for entry in tree)


def renumbered(base: Sequence[Field], side: Sequence[Field]) -> list[str]:
    """Columns whose id means another one on a side after a merge: matched by it, values would change places."""
    before, after = trees(base), trees(side)
    names = {tree[0].name: key for key, tree in after.items()}
    return [
        tree[0].name
        for key, tree in before.items()
        if key in after and after[key][0].name != tree[0].name and names.get(tree[0].name, key) != key
    ]


def match_fields(theirs: Sequence[Field], result: Sequence[Field]) -> dict[int, int]:
    """Maps field ids of theirs to those of the result, by their paths of names."""
    there = {path: entry.id for path, entry in _paths(result).items()}
    return {entry.id: there[path] for path, entry in _paths(theirs).items() if path in there}


def strange_fields(result: Collection[int], theirs: Collection[int], matched: Mapping[int, int]) -> set[int]:
    """Ids of a merged table that mean another column in files of theirs, or one that theirs dropped.

    Read by its id, a new column of the result would show the values of that other column. ``matched`` maps ids of
    theirs to ids in the result.
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


# --- The two sides of a merge, and the change that ours takes


@dataclass(frozen=True)
class ContestedRow(Recorded):
    """A row that both sides changed, with the cells in question."""

    row: str
    """By its key, ``id=3``, or where it is in the base."""
    base: Mapping[str, Any] | None
    """JSON values by column; None if the version does not have the row."""
    ours: Mapping[str, Any] | None
    theirs: Mapping[str, Any] | None

    def as_record(self) -> dict[str, Any]:
        sides = {"base": self.base, "ours": self.ours, "theirs": self.theirs}
        return {"row": self.row, **{name: None if cells is None else dict(cells) for name, cells in sides.items()}}

    def __str__(self) -> str:
        columns = [*dict.fromkeys(name for cells in (self.ours, self.theirs) for name in cells or ())]
        if self.ours is None or self.theirs is None:
            cells = self.ours or self.theirs or {}
            told = ", ".join(f"{name} is {shown_value(cells[name])}" for name in columns)
            gone, kept = ("ours", "theirs") if self.ours is None else ("theirs", "ours")
            return f"{self.row}: deleted in {gone}; in {kept} {told or 'changed'}"
        ours, theirs = self.ours, self.theirs
        told = "; ".join(
            f"{name} is {shown_value(ours.get(name))} in ours, {shown_value(theirs.get(name))} in theirs"
            for name in columns
        )
        return f"{self.row}: {told}" if told else self.row


_MOST_SHOWN = 60


def shown_value(value: object) -> str:
    """A value in a line of text."""
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


@dataclass(frozen=True)
class MergeConflict(Recorded):
    """A change on both sides that cannot be combined."""

    reason: str
    ours: str = ""
    """Versions of ours that may have made it."""
    theirs: str = ""
    fragments: tuple[int, ...] = ()
    rows: tuple[str, ...] = ()
    """Example rows, by the table's key if it has one."""
    contested: tuple[ContestedRow, ...] = ()
    """The first rows that both sides changed, with both values."""
    count: int = 0
    """How many there are, which a preference settles; 0 where they could not be compared."""
    on: tuple[str, ...] = ()
    """A column by which these rows could be matched."""

    def lines(self) -> Iterator[str]:
        yield str(self)
        yield from self.contested_lines()

    def contested_lines(self) -> Iterator[str]:
        """A line for each row that it names."""
        shown = [*map(str, self.contested)] or [*self.rows]
        yield from shown
        if self.contested and self.count > len(shown):
            yield f"and {self.count - len(shown):,} more rows"

    def __str__(self) -> str:
        where = f" (fragment {', '.join(map(str, self.fragments[:5]))})" if self.fragments else ""
        who = f": {self.ours} against {self.theirs}" if self.ours and self.theirs else ""
        return f"{self.reason}{where}{who}"


@dataclass(frozen=True)
class Replacement:
    """A fragment of ours that takes files or deletions of theirs."""

    base: Fragment
    ours: Fragment
    theirs: Fragment
    files: bool
    deletion: bool
    both_deleted: bool = False
    """Whether ours also deleted rows. They must be different rows."""


@dataclass(frozen=True)
class Kinship:
    """The history of rows that ours may have, where a single version is picked or reverted.

    The defaults describe a merge: the base is all that both sides have in common.
    """

    shares: bool = False
    """Whether ours took in versions that theirs has and the base lacks."""
    has_base: bool = True
    earlier: Steps = field(default_factory=lambda: Steps(None))
    """The versions before the base that ours did not take in."""


@dataclass(frozen=True)
class Sides:
    """The two sides. ``base_ours`` and ``base_theirs`` are one version, as the chain of each side has it."""

    base_ours: Snapshot
    ours: Snapshot
    base_theirs: Snapshot
    theirs: Snapshot
    our_steps: Steps
    their_steps: Steps
    kinship: Kinship = field(default_factory=Kinship)
    numbering: Snapshot | None = None
    """A version with rows of the base under their ids in theirs; None if both sides number them in the same way."""
    their_ids: Mapping[int, int] = field(default_factory=dict)
    """Field ids in this comparison, by those in the files and the schema of theirs; empty if they are the same."""
    spare_ids: frozenset[int] = frozenset()
    """Those that ours does not use."""
    certain_ids: bool = False
    """Whether a field id certainly means the same column in all versions."""
    agreed: frozenset[int] = frozenset()
    """Columns that both sides added, with the same values in rows that both have."""
    our_numbering: Snapshot | None = None
    """A version with rows of the base under their ids in ours; None if there is none."""
    same_below: int = 0
    """Below this, a stable row id means the same row on both sides: both chains were forked with it."""
    their_same_below: int = 0
    """Below this, a stable row id means the same row in theirs and in ``base_theirs``, for the same reason."""
    keeps_ids: bool = True
    """Whether rows that ours has keep their stable ids in new fragments."""
    by_cells: bool = False
    """Whether rows that both sides changed combine where they changed different columns."""
    settling: bool = False
    """Whether the rows of fragments that conflict are compared one by one: to list them, and to settle what may be."""
    prefer: Prefer = field(default_factory=Prefer)
    """Whose value is taken where both sides changed the same cell, or with rows the same row."""
    unshared: bool = False
    """Whether certainly neither side has rows of the other that the base lacks."""

    @property
    def is_fast_forward(self) -> bool:
        """Whether ours is the base: then the result is theirs, and nothing can conflict."""
        return _is_same_version(self.ours, self.base_ours) or self.our_steps.only_registers_bases

    @property
    def is_up_to_date(self) -> bool:
        """Whether theirs is the base: then there is nothing to take."""
        return _is_same_version(self.theirs, self.base_theirs)

    @property
    def is_backwards(self) -> bool:
        """Whether theirs is older than the base, as in a revert."""
        base, theirs = self.base_theirs.pin, self.theirs.pin
        return base.branch == theirs.branch and theirs.version < base.version

    @property
    def rewrites(self) -> tuple[Rewrite, ...]:
        return (*self.our_steps.rewrites, *self.their_steps.rewrites, *self.kinship.earlier.rewrites)

    @cached_property
    def fields(self) -> tuple[tuple[Field, ...], tuple[Field, ...], tuple[Field, ...]]:
        """The columns of the base, of ours and of theirs.

        What both sides allow to be null, or both do not, counts as if it had been so in the base: a replay commits its
        nulls before its rows, and must find then what it had planned.
        """
        ours, theirs = self.ours.contents.fields, self.theirs.contents.fields
        mine, other = ({entry.id: entry.nullable for entry in side} for side in (ours, theirs))
        agreed = {key: nullable for key, nullable in mine.items() if other.get(key) == nullable}
        base = self.base_theirs.contents.fields
        return tuple(entry._replace(nullable=agreed.get(entry.id, entry.nullable)) for entry in base), ours, theirs

    def conflict(self, reason: str, fragments: Iterable[int] = (), rows: tuple[str, ...] = ()) -> MergeConflict:
        """A conflict, with the versions of both sides that may have caused it."""
        ours, theirs = self.our_steps.described(), self.their_steps.described()
        return MergeConflict(reason, ours, theirs, tuple(sorted(fragments)), rows)


def _is_same_version(one: Snapshot, other: Snapshot) -> bool:
    return one.pin.reference == other.pin.reference and one.root == other.root


# --- What a side computed

_FORMER = "\0"
"""Before the name of a column that was dropped: a later one of that name is another column."""


@dataclass(frozen=True)
class Computed:
    """What a side computed, as its versions record it."""

    reads: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By column, the columns that its values were computed from. Columns without an entry: unknown."""
    unknown: frozenset[str] = frozenset()
    """Columns that were computed from something unknown."""

    @classmethod
    def of(cls, steps: Steps) -> Computed:
        """The records of the versions since the base; nothing if one of them may have changed columns without one."""
        told = steps.on_columns
        if told is None:
            return cls()
        reads: dict[str, frozenset[str]] = {}
        unknown: set[str] = set()
        for step in told:
            names = {old: new or f"{_FORMER}{old}" for old, new in step.renames or ()}
            if names:
                reads = {
                    names.get(name, name): frozenset(names.get(each, each) for each in reads[name]) for name in reads
                }
                unknown = {names.get(name, name) for name in unknown}
            for name, read in step.computed or ():
                reads[name] = reads.get(name, frozenset()) | frozenset(read or ())
                unknown |= {name} if read is None else set()
        return cls({name: read for name, read in reads.items() if name not in unknown}, frozenset(unknown))

    @property
    def record(self) -> dict[str, frozenset[str] | None]:
        """What a version that takes the side over tells about its columns; None where it is unknown."""
        found = {**self.reads, **dict.fromkeys(self.unknown)}
        return {name: read for name, read in found.items() if not name.startswith(_FORMER)}


def computed_by(sides: Sides, is_ours: bool) -> Computed:
    """What a side computed. A revert computes nothing: it brings older values back.

    If the side's versions do not tell, because another tool made or removed one of them, any column that it added or
    wrote in place may be computed, from anything: none of these values may stay where its input might have changed.
    """
    if not is_ours and sides.is_backwards:
        return Computed({entry.name: frozenset() for entry in sides.theirs.contents.fields if entry.parent_id < 0})
    steps = sides.our_steps if is_ours else sides.their_steps
    if steps.on_columns is not None:
        return Computed.of(steps)
    before, mine, other = (trees(fields) for fields in sides.fields)
    side, kept = mine if is_ours else other, [key for key in before if key in mine and key in other]
    changes = delta(sides.base_ours, sides.ours) if is_ours else delta(sides.base_theirs, sides.theirs)
    every = frozenset(entry.id for key in kept for entry in before[key])
    files = [(files_of(old, every), files_of(new, every)) for old, new in changes.changed]
    wrote = {key for old, new in files for key, path in new.items() if old.get(key) != path}
    names = {tree[0].name for key, tree in side.items() if key not in before}
    names |= {side[key][0].name for key in kept if not wrote.isdisjoint(entry.id for entry in before[key])}
    return Computed(unknown=frozenset(names))


Rows = npt.NDArray[np.int64]
"""Offsets in a fragment, or addresses: the fragment's id in the upper 32 bits, and the offset."""


class TracedRows(NamedTuple):
    """The rows of a fragment of the base in both sides, traced through compactions."""

    rows: Rows
    """Offsets in the base, ascending."""
    at_ours: Rows
    """Their addresses in ours; negative if ours has deleted or rewritten them."""
    at_theirs: Rows
    complete: bool
    """Whether every compaction could be followed."""

    def gone(self, of_ours: bool) -> Rows:
        """The rows that a side deleted or rewrote."""
        found: Rows = self.rows[(self.at_ours if of_ours else self.at_theirs) < 0]
        return found

    def has_moved(self, of_ours: bool, fragment: int) -> bool:
        """Whether a side has any of the rows in another fragment."""
        at = self.at_ours if of_ours else self.at_theirs
        return bool(((at >= 0) & (at >> 32 != fragment)).any())

    def find(self, of_ours: bool, rows: Rows) -> Rows:
        """The addresses of some of the rows in a side."""
        found: Rows = (self.at_ours if of_ours else self.at_theirs)[np.searchsorted(self.rows, rows)]
        return found


class CellPair(NamedTuple):
    """A fragment of the base whose rows both sides changed in ways that combine cell by cell."""

    before: Fragment
    """In the base, as the chain of theirs has it."""
    base: Fragment
    """In the base, as the chain of ours has it."""
    ours: Fragment | None
    """None if ours has no fragment with its files."""
    theirs: Fragment | None
    reason: str
    """Why it is a conflict if rows cannot be matched."""
    wrote_ours: bool = False
    wrote_theirs: bool = False
    is_moved: bool = False
    """Whether either side moved its rows to other fragments. Only the rows that both sides changed are left open."""
    is_strict: bool = False
    """Whether rows that both sides deleted are a conflict."""
    traced: TracedRows | None = None
    """Where its rows are, if either side compacted them. What only one side changed is decided then."""


@dataclass(frozen=True)
class Patch:
    """A fragment whose rows get cells of the other side, in a file with columns."""

    of_ours: bool
    """Whether it is a fragment of ours."""
    home: Fragment
    rows: Rows
    """Offsets of the rows that both sides changed, ascending."""
    base: Rows
    """Their addresses in the base, as the chain of ours has it."""
    other: Rows
    """Their addresses in the other side."""
    decided: tuple[int, ...]
    """The places of the columns whose cells are decided."""
    in_place: bool
    """Whether it is a fragment that both sides still have, and in which both wrote columns."""
    compared: tuple[int, ...]
    """The places of the columns to read for that."""
    columns: tuple[int, ...] = ()
    """The places of the columns to write."""

    def part(self, rows: slice | npt.NDArray[np.bool_]) -> Patch:
        return replace(self, rows=self.rows[rows], base=self.base[rows], other=self.other[rows])


class BasePair(NamedTuple):
    """A fragment of the base that theirs changed, compacted or removed."""

    before: Fragment
    """As the chain of theirs has it."""
    base: Fragment
    """As the chain of ours has it."""
    after: Fragment | None
    """In theirs; None if no fragment there has its files."""


@dataclass(frozen=True)
class Contest:
    """Fragments that both sides changed and one of them compacted: their rows must be traced one by one."""

    pairs: tuple[BasePair, ...]
    tied: tuple[Fragment, ...]
    """New fragments of theirs that may have rows of the pairs."""
    ours: tuple[Fragment, ...]
    """Fragments of ours that may have rows of the pairs."""
    theirs: tuple[Fragment, ...]
    rewrites: tuple[Rewrite, ...]


@dataclass(frozen=True)
class Followed:
    deletions: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Rows to delete in fragments of ours, by id."""
    masks: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Rows to leave out of new fragments, by their ids in theirs: ours already has them."""
    back: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """All deleted rows of fragments of ours in which theirs has rows back and either side deleted others, by id."""
    row_ids: Mapping[int, int] = field(default_factory=dict)
    """Stable row ids in ours, by those in theirs."""
    dead: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Deleted rows of other new fragments, by id in theirs, where stable ids depend on them."""


@dataclass(frozen=True)
class MergeChange:
    """What ours takes. The places of files are decided later."""

    added: tuple[Fragment, ...] = ()
    """Of theirs."""
    replaced: tuple[Replacement, ...] = ()
    removed: tuple[tuple[Fragment, Fragment], ...] = ()
    """(in the base of theirs, in ours)."""
    columns: ColumnChanges = field(default_factory=ColumnChanges)
    columns_of_theirs: bool = False
    """Whether the result has exactly the columns of theirs."""
    conflicts: tuple[MergeConflict, ...] = ()
    notes: tuple[str, ...] = ()
    contest: Contest | None = None
    """What remains to be decided row by row."""
    cells: tuple[CellPair, ...] = ()
    """What remains to be decided cell by cell."""
    shared: tuple[tuple[BasePair, tuple[int, ...]], ...] = ()
    """Rows of a contest that both sides changed, which remain to be decided."""
    patches: tuple[Patch, ...] = ()
    """What was decided cell by cell."""
    followed: Followed = field(default_factory=Followed)

    def __bool__(self) -> bool:
        rows = self.added or self.replaced or self.removed or self.followed.deletions or self.patches
        return bool(rows or self.columns or self.columns_of_theirs)


def with_rows_back(change: MergeChange, back: Mapping[int, tuple[int, ...]]) -> MergeChange:
    """The change with all deleted rows of fragments of ours in which theirs has rows back, by id."""
    replaced = tuple(
        replace(each, deletion=True, both_deleted=False) if each.ours.id in back else each for each in change.replaced
    )
    return replace(change, replaced=replaced, followed=replace(change.followed, back=back))


# --- The pylance operation that commits a change
# Each operation detects a concurrent commit that it cannot be combined with. Pure.

Operation = Literal["Update", "Merge", "Overwrite"]


def operation_for(
    change: MergeChange, ours: Snapshot, emptied: bool = False, hint: Callable[[], str] | None = None
) -> Operation:
    """The operation: Update for rows, Merge for columns, Overwrite if nothing of ours is left and columns differ.

    ``emptied``: a fragment that stays has no rows left. ``hint`` says how to merge what is refused. Raises
    NotCommittable for a change that pylance 14.0.2 cannot commit: its Merge takes no removed fragments, and its
    Overwrite no deletion files.
    """
    if not (change.columns or change.columns_of_theirs):
        return "Update"
    replaces_all = len(change.removed) == ours.contents.fragment_count > 0 and not change.replaced
    if replaces_all and change.columns_of_theirs and not any(fragment.deletion for fragment in change.added):
        return "Overwrite"
    if change.removed or emptied:
        raise NotCommittable(
            "Columns were changed and fragments compacted or removed since the last common version; pylance cannot "
            "commit both at once.",
            hint=hint and hint(),
        )
    return "Merge"


def check_names(sides: Sides, change: MergeChange) -> None:
    """Raise NotCommittable for a column that takes the name of another one, which a Merge of pylance 14 refuses."""
    _, ours, theirs = sides.fields
    taken = {(column.parent_id, column.name): column.id for column in ours}
    known = {column.id: column.name for column in ours}
    renamed = [
        (known[column.id], column.name)
        for column in (theirs if change.columns_of_theirs else ())
        if taken.get((column.parent_id, column.name), column.id) != column.id and column.id in known
    ]
    renamed += [(old, new) for old, new in change.columns.rename if (-1, new) in taken]
    if renamed:
        old, new = renamed[0]
        raise NotCommittable(
            f"Column '{old}' of {sides.ours.pin} gets the name '{new}', which another column has there; pylance cannot "
            "commit both at once.",
            hint=f"Merge in two steps: first a version in which '{new}' is free, then the branch. To undo a rename, "
            "restore the version before it.",
        )


def check_key(sides: Sides, change: MergeChange) -> None:
    """Raise NotCommittable for a change of a key that ours declares: pylance 14 allows it in no table."""
    before = {".".join(path): dict(entry.metadata) for path, entry in _paths(sides.ours.contents.fields).items()}
    old = {new: name for name, new in change.columns.rename}
    for name, metadata in change.columns.comment:
        column, dot, inside = name.partition(".")
        declared = before.get(name) or before.get(f"{old.get(column, column)}{dot}{inside}", {})
        wanted = dict(metadata)
        if any(key.startswith(PRIMARY_KEY) and wanted.get(key) != value for key, value in declared.items()):
            raise NotCommittable(
                f"Column '{name}' is part of the table's key in {sides.ours.pin}; pylance cannot change a key that is "
                "declared.",
                hint="Keep the key, and take over or revert the other versions one by one. To undo the declaration, "
                "restore the version before it.",
            )


def check_supported(sides: Sides, change: MergeChange) -> None:
    """Raise NotCommittable for fragments that this release cannot take over."""
    touched = [*change.added, *(each.theirs for each in change.replaced), *(each.ours for each in change.replaced)]
    for fragment in touched:
        if fragment.has_overlays:
            raise NotCommittable(f"Fragment {fragment.id} has overlays, which this release cannot take over.")
    stable = sides.ours.contents.has_stable_row_ids
    if stable != sides.theirs.contents.has_stable_row_ids:
        raise NotCommittable(f"Only one of {sides.ours.pin} and {sides.theirs.pin} has stable row ids.")
    if stable and any(not fragment.row_ids for fragment in change.added):
        raise NotCommittable("The row ids of new rows are in separate files, which this release cannot take over.")
