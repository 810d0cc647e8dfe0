"""Merging cell by cell: which columns take part, which rows are the same, and whose value a cell gets. Pure.

In: the columns of three versions, what each side computed, and the values of rows that both sides changed. Out: the
values of the merged rows, the cells with two new values, and the cells that are left empty.

A row that both sides changed stays in a new fragment of one side, its home, which gets a file with the columns that
change: nothing else of the row is copied, and its id stays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.format.blobs import BLOB_EXTENSION, BLOB_KEY
from lance_spark.format.contents import Field, Fragment
from lance_spark.format.row_values import hash_rows
from lance_spark.format.versions import columns as files_of
from lance_spark.merge.change_rules import Computed, Patch, Rows, Sides, default_in, trees
from lance_spark.merge.conflict_rules import lacking, paths
from lance_spark.merge.option_rules import THEIRS, Side

Mask = npt.NDArray[np.bool_]
NOWHERE = -1
"""The address of a row that a version does not have."""
STALE = "was computed from values that changed on the other side"
"""The end of a reason."""


# --- Columns


class Form(Enum):
    """How the values of a column are compared, and whether a merged row may get those of the other side."""

    VALUES = "values"
    """As they are; only these can be written."""
    BYTES = "bytes"
    """A column of blobs: by what they hold."""
    FIELDS = "fields"
    """A struct whose fields changed: field by field, by those that the result has."""
    NEVER = "never"


class Inner(NamedTuple):
    """A field inside a struct of the result."""

    name: str
    names: tuple[str | None, str | None, str | None]
    """In the base, in ours and in theirs; None where it is missing, which counts as NULL."""
    inner: tuple[Inner, ...] = ()


class CellColumn(NamedTuple):
    """A column of the result, under its names in the versions that have it."""

    name: str
    base: str | None
    ours: str | None
    theirs: str | None
    nullable: bool
    """In both sides."""
    form: Form
    fields: frozenset[int]
    """The ids of its fields in the base, or in the side that added it."""
    strict: tuple[tuple[str, ...], ...] = ()
    """What cannot be null in the result: names inside the column, none for the column itself."""
    inner: tuple[Inner, ...] = ()
    """The fields by which its values are compared."""
    has_default: bool = False
    """Whether a side added it, with a default for the other rows of the other side's fragments."""

    def named(self, in_ours: bool) -> str | None:
        return self.ours if in_ours else self.theirs

    @property
    def is_opaque(self) -> bool:
        """Whether no file gets its values: a merged row keeps those that it has."""
        return self.form is not Form.VALUES


def cell_columns(sides: Sides) -> tuple[CellColumn, ...]:
    """The columns that the merged table has. Those that a side dropped or cast are left out."""
    before, mine, other = (trees(fields) for fields in sides.fields)
    found = []
    for key, tree in before.items():
        if key in mine and key in other:
            ours, theirs = mine[key][0], other[key][0]
            name = theirs.name if ours.name == tree[0].name else ours.name
            found.append(_column(name, (tree, mine[key], other[key])))
    new_mine = {tree[0].name: tree for key, tree in mine.items() if key not in before}
    new_other = {tree[0].name: tree for key, tree in other.items() if key not in before}
    for name in dict.fromkeys((*new_mine, *new_other)):
        found.append(_column(name, (None, new_mine.get(name), new_other.get(name))))
    return tuple(found)


Versions = tuple[tuple[Field, ...] | None, tuple[Field, ...] | None, tuple[Field, ...] | None]
"""A column, with the fields inside, in the base, in ours and in theirs."""


def _column(name: str, versions: Versions) -> CellColumn:
    known = [tree for tree in versions if tree is not None]
    base, ours, theirs = (None if tree is None else tree[0].name for tree in versions)
    nullable = all(tree[0].nullable for tree in versions[1:] if tree is not None)
    shapes = {(tree[0].type, *((entry.name, entry.type) for entry in tree[1:])) for tree in known}
    form, inner = Form.VALUES, tuple[Inner, ...]()
    if any(_is_blob(entry) for tree in known for entry in tree):
        form = Form.BYTES if all(_is_blob(tree[0]) for tree in known) else Form.NEVER
    elif len(shapes) > 1:
        roots = [None if tree is None else tree[0] for tree in versions]
        inner = _inner(versions, roots) if {tree[0].type for tree in known} == {_STRUCT} else ()
        form = Form.FIELDS if inner else Form.NEVER
    fields = frozenset(entry.id for entry in known[0])
    strict = _strict(versions) if form is Form.VALUES else ()
    has_default = base is None and any(default_in(tree[0]) is not None for tree in known)
    return CellColumn(name, base, ours, theirs, nullable, form, fields, strict, inner, has_default)


_STRUCT = "struct"


def _inner(versions: Versions, parents: Sequence[Field | None]) -> tuple[Inner, ...]:
    """The fields of a struct that no side dropped; none if they cannot be compared one by one."""
    children = [
        {} if tree is None or parent is None else {entry.id: entry for entry in tree if entry.parent_id == parent.id}
        for tree, parent in zip(versions, parents, strict=True)
    ]
    known = [parent is not None for parent in parents]
    found = []
    for key in dict.fromkeys(key for several in children for key in several):
        entries = [several.get(key) for several in children]
        if entries[0] is not None and any(entry is None and here for entry, here in zip(entries, known, strict=True)):
            continue  # dropped
        there = [entry for entry in entries if entry is not None]
        below = () if there[0].type != _STRUCT else _inner(versions, entries)
        looks = {_look(tree, entry) for tree, entry in zip(versions, entries, strict=True) if tree and entry}
        if len({entry.type for entry in there}) > 1 or (len(looks) > 1 and not below):
            return ()
        base, ours, theirs = (None if entry is None else entry.name for entry in entries)
        found.append(Inner((theirs if ours == base else ours) or there[0].name, (base, ours, theirs), below))
    return tuple(found) if len({each.name for each in found}) == len(found) else ()


def _look(tree: Sequence[Field], entry: Field) -> tuple[object, ...]:
    """What a field looks like, without its own name."""
    below = [entry.id]
    for each in tree:
        below += [each.id] if each.parent_id in below else []
    return (entry.type, *((each.name, each.type) for each in tree if each.id in below[1:]))


def aligned(inner: Sequence[Inner], versions: Sequence[pa.Array | None]) -> list[pa.Array | None]:
    """Structs of three versions, with the same fields."""
    fields = [
        {} if values is None else dict(zip((each.name for each in values.type), values.flatten(), strict=True))
        for values in versions
    ]
    columns = []
    for each in inner:
        parts = [None if name is None else known.get(name) for name, known in zip(each.names, fields, strict=True)]
        columns.append(aligned(each.inner, parts) if each.inner else parts)
    found: list[pa.Array | None] = []
    for at, values in enumerate(versions):
        if values is None:
            found.append(None)
            continue
        children = [
            part if (part := several[at]) is not None else pa.nulls(len(values), _type_of(several))
            for several in columns
        ]
        found.append(pa.StructArray.from_arrays(children, [each.name for each in inner], mask=values.is_null()))
    return found


def _type_of(versions: Iterable[pa.Array | None]) -> pa.DataType:
    return next((values.type for values in versions if values is not None), pa.null())


def _strict(versions: Versions) -> tuple[tuple[str, ...], ...]:
    """What cannot be null in the result: where only one side altered that, as it has it."""
    base, ours, theirs = (
        {path[1:]: entry.nullable for path, entry in zip(paths(tree).values(), tree, strict=True)} if tree else {}
        for tree in versions
    )
    found = []
    for path in {**ours, **theirs}:
        mine, other = ours.get(path, theirs.get(path)), theirs.get(path, ours.get(path))
        if not (other if mine == base.get(path, mine) else mine):
            found.append(path)
    return tuple(found)


def _is_blob(entry: Field) -> bool:
    metadata = dict(entry.metadata)
    return metadata.get(BLOB_KEY, b"").lower() == b"true" or BLOB_EXTENSION.encode() in metadata.values()


def written(base: Fragment, side: Fragment, columns: Sequence[CellColumn]) -> frozenset[int]:
    """The columns of the base, by place, that a side wrote in place in a fragment."""
    every = frozenset(key for column in columns if column.base is not None for key in column.fields)
    before, after = files_of(base, every), files_of(side, every)
    changed = {key for key, path in after.items() if before.get(key) != path}
    return frozenset(at for at, column in enumerate(columns) if column.base is not None and column.fields & changed)


# --- What a column was computed from

Reads = Mapping[int, frozenset[int]]
"""For each computed column, by place, the columns that it was computed from."""


def reads_of(
    columns: Sequence[CellColumn], computed: Computed, names: Sequence[str | None], places: Iterable[int]
) -> Reads:
    """What the columns at these places were computed from, directly or through other computed columns.

    If nothing records it: all columns of the base. ``names`` are those of the columns in the side that computed them.
    """
    in_base = frozenset(at for at, column in enumerate(columns) if column.base is not None)
    known = {name: at for at, name in enumerate(names) if name is not None}
    found: dict[int, frozenset[int]] = {}
    for at in places:
        read = computed.reads.get(names[at] or "")
        certain = read is not None and read <= known.keys()
        found[at] = frozenset(known[name] for name in read or ()) if certain else in_base
    for _ in found:
        found = {at: read.union(*(found.get(each, ()) for each in read)) for at, read in found.items()}
    return {at: (read & in_base) - {at} for at, read in found.items()}


# --- Which rows are the same


class NumberedRows(NamedTuple):
    """A new fragment of a side, in which rows of the base may be found."""

    fragment: int
    ids: Rows
    """The stable id of each row."""
    dead: Rows


def find_ids(wanted: Rows, candidates: Iterable[NumberedRows]) -> Rows | None:
    """The address of each wanted id; NOWHERE if no candidate has it, None for all if one id is in two places."""
    found = np.full(len(wanted), NOWHERE, np.int64)
    order = np.argsort(wanted, kind="stable")
    ascending = wanted[order]
    for candidate in candidates:
        offsets = np.setdiff1d(np.arange(len(candidate.ids), dtype=np.int64), candidate.dead)
        ids = candidate.ids[offsets]
        at = np.minimum(np.searchsorted(ascending, ids), max(0, len(ascending) - 1))
        hit = ascending[at] == ids if len(ascending) else np.zeros(len(ids), bool)
        places = order[at[hit]]
        if (found[places] != NOWHERE).any() or len(np.unique(places)) < len(places):
            return None
        found[places] = (candidate.fragment << 32) + offsets[hit]
    return found


def find_keys(wanted: pa.Table, there: pa.Table, keys: Sequence[str]) -> Rows | None:
    """The address of each wanted key, in the order of ``wanted``; None if a key occurs twice.

    Both have the key's columns; ``there`` also ``address``. A key with a null is nowhere.
    """
    columns = [f"key{at}" for at in range(len(keys))]
    ours = wanted.select(keys).rename_columns(columns).append_column("place", pa.array(np.arange(wanted.num_rows)))
    theirs = there.select([*keys, "address"]).rename_columns([*columns, "address"])
    joined = ours.join(theirs, columns, join_type="inner")
    places = joined["place"].to_numpy()
    if len(np.unique(places)) < len(places) or _repeated(joined["address"]):
        return None
    found = np.full(wanted.num_rows, NOWHERE, np.int64)
    found[places] = joined["address"].to_numpy()
    return found


def _repeated(column: pa.ChunkedArray) -> bool:
    return bool(pc.count_distinct(column).as_py() < len(column))


# --- Whose value a cell gets


ROW, TWIN = -1, -2
"""In place of a column: the row as a whole, and a row that both sides added under one key."""


class Cells(NamedTuple):
    """Values of the same rows in three versions, by the places of columns; a version without a column lacks it."""

    base: Mapping[int, pa.Array]
    ours: Mapping[int, pa.Array]
    theirs: Mapping[int, pa.Array]
    rows: int
    new: Mask | None = None
    """Rows that the base does not have, and both sides added under one key; None if there are none."""
    names: Rows | None = None
    """The addresses by which the caller gives cells: in the base or, without it, in ours."""
    only_ours: Mask | None = None
    """Rows that theirs deleted."""
    only_theirs: Mask | None = None


class Given(NamedTuple):
    """Cells that the caller gave for rows that both sides changed."""

    names: Rows
    """The addresses of the rows, ascending: see :class:`Cells`."""
    values: Mapping[int, pa.Array]
    """By the places of columns; a column that is not there keeps what is decided."""
    deleted: Mask
    """Rows that the result does not have."""

    def find(self, names: Rows) -> tuple[Mask, Rows]:
        at = np.minimum(np.searchsorted(self.names, names), max(0, len(self.names) - 1))
        known: Mask = self.names[at] == names if len(self.names) else np.zeros(len(names), bool)
        return known, at

    def goes(self, names: Rows) -> Mask:
        """Which of some rows the result does not have."""
        known, at = self.find(names)
        gone: Mask = known.copy()
        gone[known] = self.deleted[at[known]]
        return gone


class CellRule(NamedTuple):
    ours: Reads
    """What ours computed: a value goes if the other side changed what it was computed from."""
    theirs: Reads
    wins: Mapping[int, Side] = {}
    """The preferred side of columns, by place: it gets the cells that both sides changed."""
    is_whole: bool = False
    """Whether a row is taken from one side as a whole, by the preference for the rest."""
    rest: Side | None = None
    given: Given | None = None
    """What the caller gave."""


class Decided(NamedTuple):
    """The outcome for some rows, by the places of columns."""

    values: dict[int, pa.Array]
    clashes: dict[int, Mask]
    """Where both sides have a new value, not the same one, and none is preferred."""
    settled: dict[int, Mask]
    """Where one of the two is preferred."""
    emptied_ours: dict[int, Mask]
    """Where a value that ours computed is left out."""
    emptied_theirs: dict[int, Mask]

    def lacking(self, columns: Sequence[CellColumn], at: int) -> Mask:
        """Which rows have no value in a column, or inside it, that cannot be null. What is emptied does not count."""
        found: Mask = np.zeros(len(self.values[at]), bool)
        for path in columns[at].strict:
            found |= lacking(self.values[at], path)
        return found & ~self.emptied_ours[at] & ~self.emptied_theirs[at]


def decide_cells(columns: Sequence[CellColumn], places: Collection[int], cells: Cells, rule: CellRule) -> Decided:
    """Take each cell from the side that changed it, and from the preferred one if both did.

    A computed value whose input the other side changed is left out: the result is null there.
    """
    nothing = np.zeros(cells.rows, bool)
    changed_ours = differing(columns, cells.base, cells.ours)
    changed_theirs = differing(columns, cells.base, cells.theirs)
    decided = Decided({}, {}, {}, {}, {})
    if rule.is_whole:
        changed_ours, changed_theirs = _in_whole_rows(cells, changed_ours, changed_theirs)
    for at in places:
        ours, theirs = cells.ours.get(at), cells.theirs.get(at)
        if ours is None and theirs is None:
            continue
        mine, other = changed_ours.get(at, nothing), changed_theirs.get(at, nothing)
        if at not in cells.base:
            mine, other = _given(ours, nothing), _given(theirs, nothing)
        if cells.new is not None and cells.new.any():
            mine, other = mine | cells.new, other | cells.new
        alone = nothing if cells.only_theirs is None else cells.only_theirs
        if cells.only_ours is not None:
            mine, other = mine & ~alone, (other | alone) & ~cells.only_ours
        same = nothing if ours is None or theirs is None else ~_differ(ours, theirs)
        both, wins = mine & other & ~same, rule.rest if rule.is_whole else rule.wins.get(at)
        takes = other & (~mine | both) if wins == THEIRS else other & ~mine
        value = _chosen(ours, theirs, takes)
        filled = np.asarray(value.is_valid()) & ~same & ~both
        empty_theirs = filled & other & ~mine & _any(changed_ours, rule.theirs.get(at, ()), nothing)
        empty_ours = filled & mine & ~other & _any(changed_theirs, rule.ours.get(at, ()), nothing)
        if empty_theirs.any() or empty_ours.any():
            value = pc.if_else(pa.array(empty_ours | empty_theirs), pa.scalar(None, value.type), value)
        decided.values[at] = value
        decided.clashes[at] = nothing if wins else both
        decided.settled[at] = both if wins else nothing
        decided.emptied_ours[at], decided.emptied_theirs[at] = empty_ours, empty_theirs
    if rule.given is not None and cells.names is not None:
        _take_given(decided, rule.given, cells.names)
    return decided


def _take_given(decided: Decided, given: Given, names: Rows) -> None:
    """Put in what the caller gave. A row that goes has nothing left to decide."""
    known, at = given.find(names)
    goes = given.goes(names)
    for place, value in decided.values.items():
        done = known if place in given.values else goes
        if place in given.values and known.any():
            both = pa.concat_arrays([value, given.values[place].cast(value.type)])
            places = np.where(known, at + len(value), np.arange(len(value)))
            decided.values[place] = both.take(pa.array(places))
        decided.clashes[place] = decided.clashes[place] & ~done
        decided.emptied_ours[place] = decided.emptied_ours[place] & ~done
        decided.emptied_theirs[place] = decided.emptied_theirs[place] & ~done


def clashing(decided: Decided, cells: Cells, rule: CellRule) -> dict[int, Mask]:
    """Where nothing is decided: by column, for ROW if rows are taken as a whole, and for TWIN."""
    new = np.zeros(cells.rows, bool) if cells.new is None else cells.new
    whole = np.zeros(cells.rows, bool)
    for mask in decided.clashes.values():
        whole |= mask
    found = {ROW: whole & ~new} if rule.is_whole else {at: mask & ~new for at, mask in decided.clashes.items()}
    return {at: mask for at, mask in {**found, TWIN: whole & new}.items() if mask.any()}


def settled_rows(decided: Decided, rows: int) -> int:
    """In how many rows the preferred side got a cell."""
    found = np.zeros(rows, bool)
    for mask in decided.settled.values():
        found |= mask
    return int(found.sum())


def _in_whole_rows(
    cells: Cells, ours: Mapping[int, Mask], theirs: Mapping[int, Mask]
) -> tuple[dict[int, Mask], dict[int, Mask]]:
    """The changes of each side as those of its rows: a side that changed a cell of a row changed all of them."""
    places = {*cells.ours, *cells.theirs}
    found = []
    for side, changed in ((cells.ours, ours), (cells.theirs, theirs)):
        whole = np.zeros(cells.rows, bool)
        for at in places:
            whole |= changed.get(
                at, np.asarray(side[at].is_valid(), bool) if at in side and at not in cells.base else whole
            )
        found.append(dict.fromkeys(places, whole))
    return found[0], found[1]


def differing(
    columns: Sequence[CellColumn], base: Mapping[int, pa.Array], side: Mapping[int, pa.Array]
) -> dict[int, Mask]:
    """Where a side has other values than the base, by the places of columns that both have."""
    return {at: _differ(values, side[at]) for at, values in base.items() if at in side and columns[at].base is not None}


def _differ(one: pa.Array, other: pa.Array) -> Mask:
    """Where two columns have different values. Null differs from every value."""
    if len(one) != len(other):
        raise ValueError("columns of different rows")
    return np.asarray(hash_rows([one], len(one)) != hash_rows([other], len(other)), bool)


def _given(values: pa.Array | None, nothing: Mask) -> Mask:
    return nothing if values is None else np.asarray(values.is_valid(), bool)


def _any(changed: Mapping[int, Mask], places: Iterable[int], nothing: Mask) -> Mask:
    """Where one of the columns changed. A column that was not compared counts as changed: it may have."""
    found: Mask = nothing.copy()
    for at in places:
        found |= changed.get(at, ~nothing)
    return found


def _chosen(ours: pa.Array | None, theirs: pa.Array | None, takes: Mask) -> pa.Array:
    if ours is None or theirs is None:
        return theirs if ours is None else ours
    if not takes.any():
        return ours
    both = pa.concat_arrays([ours, theirs.cast(ours.type)])
    at = np.arange(len(ours), dtype=np.int64)
    return both.take(pa.array(np.where(takes, at + len(ours), at)))


def differs(column: CellColumn, values: pa.Array, home: pa.Array | None) -> bool:
    """Whether a home needs other values than it has. What it lacks is null in it, unless it gets the default."""
    if home is None:
        return column.has_default or bool(values.is_valid().true_count)
    return bool(_differ(values, home).any())


class Emptied(NamedTuple):
    """Values that a merge left out, because they were computed from values that the other side changed."""

    column: str
    rows: int
    branch: str
    """The branch that computed them."""


class SettledRows(NamedTuple):
    """Conflicts that were settled, in rows."""

    rows: int
    by: str
    """The preference as it is typed, or ``resolve``."""


@dataclass(frozen=True)
class CellPlan:
    """What the files of the patches are made from."""

    columns: tuple[CellColumn, ...]
    rule: CellRule
    rows: int
    emptied: tuple[Emptied, ...] = ()
    open: tuple[Patch, ...] = ()
    """Rows that nothing settles yet, by the fragment that has them."""
    keys: tuple[str, ...] = ()
    """The columns of the base by which rows are named."""
    settled: SettledRows | None = None
    """Which rows the preference, or the caller, settled."""


def told(emptied: Iterable[Emptied]) -> Iterable[str]:
    """Notes on the cells that are left empty, with the call that fills them."""
    for column, rows, branch in emptied:
        count = "1 row has" if rows == 1 else f"{rows:,} rows have"
        yield (
            f"{count} no value in column '{column}', which '{branch}' computed from values that changed; fill with "
            f't.update_columns({{"{column}": "..."}}, where="{column} IS NULL")'
        )
