"""The columns that a replay will leave, beside those of both sides, and which rows may not fit them. Pure.

In: the two sides, the change, and batches of rows. Out: the fields of the result, those in which a side may have a null
although the result allows none, and keys that more than one row would have. Each side vouches for its own version: a
column that cannot be null there has no null there, and a key that it declares is unique there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lance_spark.errors import NotCommittable
from lance_spark.format.contents import Field
from lance_spark.format.operations import key_fields
from lance_spark.format.row_values import Hashes, hash_rows
from lance_spark.format.schema import is_list
from lance_spark.merge.change_rules import MergeChange, Sides, trees
from lance_spark.merge.option_rules import OURS, Side

NO_NULLS = "cannot be null"
SAME_KEY = "both sides have new rows with the same key"
TWICE = "more than one row would have the same key"
BROKEN = "would be broken by rows of theirs"
NOT_CHECKED = "cannot be checked by the merge"
WRITTEN = "was dropped on one side, and the other one wrote values into it"


class ResultField(NamedTuple):
    """A column of the result, or a field inside one."""

    path: tuple[str, ...]
    """Names in the result, from the column down."""
    field: Field
    ours: Field | None
    """The same field in ours; None if ours does not have it."""
    theirs: Field | None

    @property
    def name(self) -> str:
        return ".".join(self.path)

    def on(self, side: Side) -> Field | None:
        """The same field on a side; None if it does not have it."""
        return self.ours if side == OURS else self.theirs


def result_fields(sides: Sides, change: MergeChange) -> tuple[ResultField, ...]:
    """The fields of the result, parents first."""
    base, ours, theirs = sides.fields
    if change.columns_of_theirs:
        return tuple(_beside(theirs, _counterparts(ours, theirs, base), {entry.id: entry for entry in theirs}))
    there = _counterparts(theirs, ours, base)
    found = [*_beside([*_changed(ours, theirs, change)], {entry.id: entry for entry in ours}, there)]
    new = [tree for tree in trees(theirs).values() if tree[0].name in change.columns.add]
    for tree in new:
        found += _beside(tree, {}, {entry.id: entry for entry in tree})
    return tuple(found)


def _counterparts(side: Sequence[Field], other: Sequence[Field], base: Sequence[Field]) -> dict[int, Field]:
    """The fields of a side by the ids of the other side's. Two new ones are the same only if they look the same."""
    common, known = {entry.id for entry in base}, {entry.id: entry for entry in side}
    pairs = ((entry, known[entry.id]) for entry in other if entry.id in known)
    return {
        entry.id: found
        for entry, found in pairs
        if entry.id in common or (entry.name, entry.type) == (found.name, found.type)
    }


def _changed(ours: Sequence[Field], theirs: Sequence[Field], change: MergeChange) -> Iterator[Field]:
    """The fields of ours that stay, with the changes of theirs."""
    columns = change.columns
    names, nullable, comments = dict(columns.rename), dict(columns.nullable), dict(columns.comment)
    other, inside = trees(theirs), {entry.column for entry in columns.inner}
    for key, tree in trees(ours).items():
        if tree[0].name in columns.drop:
            continue
        if key in inside:
            tree = (tree[0], *other[key][1:])
        column = names.get(tree[0].name, tree[0].name)
        for entry, path in zip(tree, paths(tree).values(), strict=True):
            where = ".".join((column, *path[1:]))
            changed = entry._replace(
                nullable=nullable.get(where, entry.nullable), metadata=comments.get(where, entry.metadata)
            )
            yield changed._replace(name=column) if entry is tree[0] else changed


def _beside(fields: Sequence[Field], ours: Mapping[int, Field], theirs: Mapping[int, Field]) -> Iterator[ResultField]:
    for entry, path in zip(fields, paths(fields).values(), strict=True):
        yield ResultField(path, entry, ours.get(entry.id), theirs.get(entry.id))


def paths(fields: Sequence[Field]) -> dict[int, tuple[str, ...]]:
    """The names of each field, from its column down, by id."""
    found: dict[int, tuple[str, ...]] = {}
    for entry in fields:
        found[entry.id] = (*found.get(entry.parent_id, ()), entry.name)
    return found


def check_taken(sides: Sides, change: MergeChange) -> None:
    """Raise NotCommittable for a new column, or field inside one, under the name of another one in ours.

    That one goes or gets another name in theirs. A Merge of pylance 14 takes both at once only if each fragment has the
    new values in a file.
    """
    mine = set(paths(sides.ours.contents.fields).values())
    new = [entry for entry in result_fields(sides, change) if entry.ours is None and entry.path in mine]
    ids = {entry.field.id: entry for entry in new if entry.field.type != "struct"}
    if not ids:
        return
    kept = {each.ours.id: each for each in change.replaced if each.files}
    gone = {ours.id for _, ours in change.removed}
    written = [set[int]() for entry in sides.ours.contents.fragments() if entry.id not in gone and entry.id not in kept]
    for fragment in (*change.added, *(each.theirs for each in kept.values())):
        written.append({key for file in fragment.files for key in file.fields})
    for key, entry in ids.items():
        if any(key not in fields for fields in written):
            raise NotCommittable(
                f"Column '{entry.name}' of {sides.ours.pin} is dropped or renamed, and another one is added under its "
                "name; pylance cannot commit both at once.",
                hint=f"Merge in two steps: first a version in which '{entry.name}' is free, then the branch.",
            )


# --- Nulls


class NullChange(NamedTuple):
    """Fields of ours that become nullable, or no longer are. pylance commits it only as a version of its own."""

    fields: tuple[tuple[str, bool], ...] = ()
    """(path in ours, with dots; whether it may be null)."""
    is_all: bool = False
    """Whether the replay changes nothing else."""
    are_columns: bool = False
    """Whether it changes nothing else about columns."""


def null_change(sides: Sides, change: MergeChange, fields: Sequence[ResultField]) -> NullChange:
    """What a replay changes about which fields may be null."""
    own, path_of = sides.ours.contents.fields, paths(sides.ours.contents.fields)
    pairs = [(entry.ours, entry.field) for entry in fields if entry.ours is not None]
    changed = tuple((".".join(path_of[one.id]), new.nullable) for one, new in pairs if one.nullable != new.nullable)
    rows = change.added or change.replaced or change.removed or change.followed.deletions
    alike = len(fields) == len(pairs) == len(own) and all(
        one._replace(nullable=new.nullable) == new for one, new in pairs
    )
    return NullChange(changed, not rows and alike, alike)


def strict_fields(fields: Iterable[ResultField], side: Side) -> list[ResultField]:
    """Fields that cannot be null in the result, although new rows of a side may have nulls there."""
    found = []
    for entry in fields:
        own = entry.on(side)
        if not entry.field.nullable and (own is None or own.nullable):
            found.append(entry)
    return found


def without_nulls(change: MergeChange, nulls: NullChange) -> MergeChange:
    """What is left of a change once a version of its own has changed which fields may be null."""
    if not nulls.fields or nulls.is_all:
        return change
    if not change.columns_of_theirs:
        return replace(change, columns=replace(change.columns, nullable=()))
    return replace(change, columns_of_theirs=not nulls.are_columns)


def lacking(values: pa.Array, path: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Which rows of a column have no value in the field with that path, although everything around it has one.

    A field that the column does not have lacks a value wherever the struct around it is not null.
    """
    if isinstance(values.type, pa.BaseExtensionType):
        values = values.storage
    here: npt.NDArray[np.bool_] = np.asarray(values.is_null())
    if not path:
        return here
    kind, rest = values.type, path[1:]
    if pt.is_struct(kind):
        at = kind.get_field_index(path[0])
        inside = lacking(values.field(at), rest) if at >= 0 else np.ones(len(values), np.bool_)
        return ~here & inside
    if is_list(kind):
        items, parents = values.flatten(), np.asarray(pc.list_parent_indices(values))
        found = np.zeros(len(values), np.bool_)
        found[parents[lacking(items, rest)]] = True
        return found
    return np.zeros(len(values), np.bool_)


# --- Keys


class KeyQuestion(NamedTuple):
    """Which rows may have a key twice."""

    columns: tuple[ResultField, ...]
    ours_vouches: bool
    """Whether ours declares the key, or a part of it: then no two of its rows have the same one."""
    theirs_vouches: bool

    def paths(self, side: Side, fields: Sequence[Field]) -> list[tuple[str, ...]]:
        """The fields of the key, from the column down, as a side calls them."""
        known = paths(fields)
        return [known[field.id] for entry in self.columns if (field := entry.on(side)) is not None]

    def ids(self, side: Side) -> list[int]:
        return [field.id for entry in self.columns if (field := entry.on(side)) is not None]


def key_question(fields: Sequence[ResultField], sides: Sides) -> KeyQuestion | None:
    """The key of the result, and who vouches for it; None if the result has no key, or lacks it on a side."""
    key = key_fields([entry.field for entry in fields])
    columns = tuple(entry for entry in fields if entry.field in key)
    if not columns or any(entry.ours is None or entry.theirs is None for entry in columns):
        return None
    _, ours, theirs = sides.fields
    return KeyQuestion(
        columns,
        _vouches(ours, {entry.ours.id for entry in columns if entry.ours}),
        _vouches(theirs, {entry.theirs.id for entry in columns if entry.theirs}),
    )


def _vouches(fields: Sequence[Field], ids: Collection[int]) -> bool:
    own = {field.id for field in key_fields(fields)}
    return bool(own) and own <= set(ids)


def key_hashes(batch: pa.RecordBatch, names: Iterable[str | tuple[str, ...]], types: Sequence[pa.DataType]) -> Hashes:
    """A number for the key of each row, the same on both sides; a part is a column, or a path from a column down."""
    columns = [_at(batch, (name,) if isinstance(name, str) else name) for name in names]
    alike = [column.cast(kind) if column.type != kind else column for column, kind in zip(columns, types, strict=True)]
    return hash_rows(alike, batch.num_rows)


def type_at(schema: pa.Schema, path: Sequence[str]) -> pa.DataType:
    """The type of a field, given from its column down."""
    kind = schema.field(path[0]).type
    for name in path[1:]:
        kind = kind.field(name).type
    return kind


def _at(batch: pa.RecordBatch, path: Sequence[str]) -> pa.Array:
    column = batch.column(batch.schema.get_field_index(path[0]))
    return pc.struct_field(column, [*path[1:]]) if path[1:] else column


class KeyCounts:
    """Counts how often some keys occur, without keeping the others."""

    def __init__(self, keys: Hashes) -> None:
        self._keys = np.unique(keys)
        self._counts = np.zeros(len(self._keys), np.int64)

    def add(self, keys: Hashes) -> None:
        if len(self._keys):
            at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
            self._counts += np.bincount(at[self._keys[at] == keys], minlength=len(self._keys))

    def above(self, limit: int) -> Hashes:
        """Those that occur more often than that."""
        return self._keys[self._counts > limit]


Addressed = tuple[Hashes, npt.NDArray[np.int64]]
"""Keys of rows, and the addresses of these."""


def twins(ours: Addressed, theirs: Addressed) -> npt.NDArray[np.int64]:
    """The addresses of rows with one key, in ours and in theirs; nothing if a side has a key twice."""
    keys, places = [], []
    for own, addresses in (ours, theirs):
        names, first = np.unique(own, return_index=True)
        if len(names) < len(own):
            return np.zeros((0, 2), np.int64)
        keys.append(names)
        places.append(addresses[first])
    _, one, other = np.intersect1d(keys[0], keys[1], return_indices=True)
    return np.column_stack([places[0][one], places[1][other]])


# --- Columns that the result lacks


class LostField(NamedTuple):
    """A column of a side, or a field inside one, that the other side dropped."""

    path: tuple[str, ...]
    """In the side that still has it."""
    ids: frozenset[int]
    """Of the field and of everything inside it."""

    @property
    def name(self) -> str:
        return ".".join(self.path)

    def in_version(self, fields: Sequence[Field]) -> LostField:
        """The same field under its names in another version, in which it may have others."""
        known = paths(fields)
        there = (known[entry.id] for entry in fields if entry.id in self.ids and entry.parent_id not in self.ids)
        return self._replace(path=next(there, self.path))


def lost_fields(sides: Sides, fields: Sequence[ResultField], side: Side) -> list[LostField]:
    """What a side has and the result does not: only the outermost field, and none that was cast."""
    own = sides.ours.contents.fields if side == OURS else sides.theirs.contents.fields
    kept = {found.id for entry in fields if (found := entry.on(side)) is not None}
    named, path_of = {entry.path for entry in fields}, paths(own)
    parents = {entry.id: entry.parent_id for entry in own}
    lost: dict[int, set[int]] = {}
    outermost: dict[int, int] = {}
    for entry in own:
        above = outermost.get(entry.parent_id)
        if above is None and (entry.id in kept or path_of[entry.id] in named):
            continue
        outermost[entry.id] = entry.id if above is None else above
        lost.setdefault(outermost[entry.id], set()).add(entry.id)
    return [LostField(path_of[key], frozenset(ids)) for key, ids in lost.items() if parents[key] in (-1, *kept)]


def value_hashes(values: pa.Array, path: Sequence[str]) -> tuple[Hashes, npt.NDArray[np.bool_]]:
    """A number for each row's value in a field of a column, and which rows have one.

    Inside lists the whole list counts.
    """
    for name in path:
        if not pt.is_struct(values.type):
            break
        values = pc.struct_field(values, [name])
    return hash_rows([values], len(values)), np.asarray(values.is_valid())


def beyond(new: Hashes, old: Hashes) -> npt.NDArray[np.bool_]:
    """Which of the new numbers are not, as often, among the old ones: an update that keeps a value has it in both."""
    names, place, counts = np.unique(new, return_inverse=True, return_counts=True)
    known, times = np.unique(old, return_counts=True)
    at = np.minimum(np.searchsorted(known, names), max(0, len(known) - 1))
    before = np.where(known[at] == names, times[at], 0) if len(known) else np.zeros(len(names), np.int64)
    found: npt.NDArray[np.bool_] = (counts > before)[place]
    return found
