"""Conflicts of a replay that only the rows of its result show: nulls, keys, constraints, values of dropped columns.

In: a planned change. Out: conflicts. Each side vouches for its own version, so only rows that one side brings are read,
and of these only the columns in question: nothing is read where no column lost its nulls, no key is declared and no
column is dropped.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import MAIN
from lance_spark.errors import InvalidOption, NotCommittable
from lance_spark.format import row_ids
from lance_spark.format.contents import Field, Fragment
from lance_spark.format.operations import key_columns
from lance_spark.format.row_values import Hashes
from lance_spark.format.versions import Snapshot, columns, delta, same_deletion
from lance_spark.merge import result_rules
from lance_spark.merge.change_rules import MergeChange, MergeConflict, Sides
from lance_spark.merge.option_rules import OURS, THEIRS, Side
from lance_spark.merge.result_rules import (
    BROKEN,
    NO_NULLS,
    NOT_CHECKED,
    SAME_KEY,
    TWICE,
    WRITTEN,
    LostField,
    NullChange,
    ResultField,
)
from lance_spark.scan.fragment_reads import FragmentRows, RowSource, deleted_offsets, read_rows, stored_schema
from lance_spark.write.constraint_rules import Check, declared
from lance_spark.write.constraints import rows_breaking

_EXAMPLES = 5
_NO_TWINS = np.zeros((0, 2), np.int64)
_SHOWN = 4
"""Columns of an example row, in a table without a key."""
Locations = tuple[DatasetLocation, DatasetLocation]
"""Where ours is, and where theirs is."""


class _BroughtRows(NamedTuple):
    fragment: Fragment
    without: npt.NDArray[np.int64] | None = None
    only: npt.NDArray[np.int64] | None = None


@dataclass(frozen=True)
class ResultRows:
    """A planned change, whose result is looked at."""

    locations: Locations
    sides: Sides
    change: MergeChange
    deletions: Mapping[int, Sequence[int]]
    """Rows that the plan deletes where both sides deleted rows, by fragment of ours."""
    ours_old: Mapping[int, row_ids.Runs]
    """Rows of the base in new fragments of ours, by fragment."""
    settles: bool = False
    """Whether rows that both sides changed are settled cell by cell."""
    made: bool = False
    """Whether such cells have values that no side has: null, or what the caller gives."""

    def conflicts(self) -> list[MergeConflict]:
        if self.sides.is_up_to_date:
            return []  # the result is ours
        if self.sides.is_fast_forward:
            return [*self._constraints()]  # the result is theirs, under the constraints of ours
        return [*self._nulls(), *self._keys(), *self._lost(), *self._constraints()]

    def null_change(self, one_version: bool) -> NullChange:
        """Which fields of ours may be null afterwards, or no longer.

        Raises NotCommittable if that needs a version of its own, and ``one_version`` or nulls exclude it.
        """
        nulls = result_rules.null_change(self.sides, self.change, self.fields)
        if nulls.fields and not nulls.is_all and (one_version or self._leaves_nulls()):
            raise NotCommittable(
                f"Whether column '{nulls.fields[0][0]}' may be null was changed on one side, and other things as well; "
                "pylance cannot commit both at once.",
                hint="Merge in steps: first the version before the column was altered, then the one that altered it, "
                "then the branch.",
            )
        return nulls

    def _leaves_nulls(self) -> bool:
        """Whether rows of ours without a value leave, in a column that cannot be null afterwards."""
        for entry in result_rules.strict_fields(self.fields, OURS):
            if entry.ours is not None:
                path = result_rules.paths(self.sides.ours.contents.fields)[entry.ours.id]
                for batch in self.read(OURS, self._leaving(), path[:1]):
                    column = batch.column(batch.schema.get_field_index(path[0]))
                    if result_rules.lacking(column, path[1:]).any():
                        return True
        return False

    @cached_property
    def fields(self) -> tuple[ResultField, ...]:
        return result_rules.result_fields(self.sides, self.change)

    # --- Which rows a side brings

    def _ours(self, ids: Collection[int], old: bool = True) -> Iterator[_BroughtRows]:
        """Rows of ours whose values in some fields the base does not have; without ``old``, no moved ones."""
        change, live = self.change, frozenset(ids)
        gone = {fragment.id for _, fragment in change.removed}
        found = delta(self.sides.base_ours, self.sides.ours)
        for fragment in found.added:
            if fragment.id not in gone:
                moved = () if old or fragment.id not in self.ours_old else row_ids.rows_of(self.ours_old[fragment.id])
                yield _BroughtRows(fragment, _sorted(moved, change.followed.deletions.get(fragment.id, ())))
        for before, after in found.changed:
            if after.id in gone:
                continue
            if columns(before, live) != columns(after, live):
                yield _BroughtRows(after)
            elif before.deletion is not None and not same_deletion(before, after):
                here = self._deleted(OURS, after)
                back = np.setdiff1d(_offsets(self.locations[0], self.sides.base_ours, before), here)
                yield _BroughtRows(after, only=back)

    def _theirs(self, ids: Collection[int]) -> Iterator[_BroughtRows]:
        """Rows that theirs brings, with values in some fields that ours does not have."""
        live = frozenset(ids)
        for fragment in self.change.added:
            yield _BroughtRows(fragment, _sorted(self.change.followed.masks.get(fragment.id, ())))
        for each in self.change.replaced:
            if each.files and columns(each.base, live) != columns(each.theirs, live):
                yield _BroughtRows(each.theirs, self._deleted(OURS, each.ours) if not each.deletion else None)
            elif each.deletion and not each.both_deleted and each.ours.deletion is not None:
                left = self.change.followed.back.get(each.ours.id)
                gone = self._deleted(THEIRS, each.theirs) if left is None else np.array(left, np.int64)
                yield _BroughtRows(each.theirs, only=np.setdiff1d(self._deleted(OURS, each.ours), gone))

    def _staying(self, ids: Collection[int]) -> Iterator[_BroughtRows]:
        """All rows of ours that the result has with the same values in some fields."""
        live, change = frozenset(ids), self.change
        replaced = {each.ours.id: each for each in change.replaced}
        gone = {fragment.id for _, fragment in change.removed}
        for fragment in self.sides.ours.contents.fragments():
            each = replaced.get(fragment.id)
            if fragment.id in gone or (each and each.files and columns(each.base, live) != columns(each.theirs, live)):
                continue
            left: list[Iterable[int]] = [
                change.followed.deletions.get(fragment.id, ()),
                self.deletions.get(fragment.id, ()),
            ]
            if each is not None and each.deletion and not each.both_deleted:
                left.append(change.followed.back.get(fragment.id, self._deleted(THEIRS, each.theirs)))
            yield _BroughtRows(fragment, _sorted(*left))

    def _leaving(self) -> Iterator[_BroughtRows]:
        """Rows of ours that the result does not have."""
        gone = {fragment.id for _, fragment in self.change.removed}
        staying = {part.fragment.id: part for part in self._staying(())}
        for fragment in self.sides.ours.contents.fragments():
            if fragment.id in gone:
                yield _BroughtRows(fragment)
            elif fragment.id in staying and (left := staying[fragment.id].without) is not None and len(left):
                yield _BroughtRows(fragment, only=left)

    def _deleted(self, side: Side, fragment: Fragment) -> npt.NDArray[np.int64]:
        snapshot = self.sides.ours if side == OURS else self.sides.theirs
        return _offsets(self.locations[side == THEIRS], snapshot, fragment)

    def read(self, side: Side, parts: Iterable[_BroughtRows], names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Some columns of rows that a side brings."""
        snapshot = self.sides.ours if side == OURS else self.sides.theirs
        return _rows(self.locations[side == THEIRS], snapshot, parts, names)

    # --- Nulls in columns that cannot be null

    def _nulls(self) -> Iterator[MergeConflict]:
        """Columns that cannot be null in the result, and lack a value in rows that a side brings."""
        for side in (OURS, THEIRS):
            done: set[str] = set()
            for entry in result_rules.strict_fields(self.fields, side):
                if entry.path[:-1] and ".".join(entry.path[:-1]) in done:
                    continue
                rows = [*self._without_value(side, entry)]
                if rows:
                    done.add(entry.name)
                    yield self.sides.conflict(
                        f"column '{entry.name}' {NO_NULLS}, and {side} has rows without it", rows=tuple(rows)
                    )

    def _without_value(self, side: Side, entry: ResultField) -> Iterator[str]:
        """Some rows that a side brings without a value."""
        own = self.sides.ours.contents.fields if side == OURS else self.sides.theirs.contents.fields
        field = entry.on(side)
        around = field if field is not None else self._parent(side, entry)
        if around is None and entry.path[1:]:
            return  # the whole struct is null there
        path = result_rules.paths(own)[around.id] if around is not None else ()
        inside = entry.path[-1:] if field is None else ()
        ids = {around.id} if around is not None else set()
        parts = self._ours(ids) if side == OURS else self._theirs(ids)
        shown, count = _shown_columns(self._schema(side), own), 0
        for batch in self.read(side, parts, [*dict.fromkeys([*path[:1], *shown])]):
            if path:
                column = batch.column(batch.schema.get_field_index(path[0]))
                found = np.flatnonzero(result_rules.lacking(column, (*path[1:], *inside)))
            else:
                found = np.arange(batch.num_rows)
            for row in batch.take(pa.array(found[: _EXAMPLES - count])).to_pylist():
                yield _row(row, shown)
            count += len(found)
            if count >= _EXAMPLES:
                return

    def _parent(self, side: Side, entry: ResultField) -> Field | None:
        """The field around another one, as a side has it."""
        parents = (each for each in self.fields if each.path == entry.path[:-1])
        return next((each.on(side) for each in parents), None)

    def _schema(self, side: Side) -> pa.Schema:
        snapshot = self.sides.ours if side == OURS else self.sides.theirs
        return stored_schema(self.locations[side == THEIRS], snapshot.pin)

    # --- Keys that more than one row has

    def twins(self) -> npt.NDArray[np.int64]:
        """The addresses, in ours and in theirs, of new rows that both sides have under one key."""
        found = self._key_rows()
        if found is None:
            return _NO_TWINS
        question, here, there = found
        if not (question.ours_vouches and question.theirs_vouches and here.parts and there.parts):
            return _NO_TWINS
        return result_rules.twins(here.addressed(), there.addressed())

    def _key_rows(self) -> tuple[result_rules.KeyQuestion, _KeyRows, _KeyRows] | None:
        """The question of keys, and the rows that each side brings; None if the result has no key."""
        question = result_rules.key_question(self.fields, self.sides)
        if question is None:
            return None
        mine = question.paths(OURS, self.sides.ours.contents.fields)
        other = question.paths(THEIRS, self.sides.theirs.contents.fields)
        kinds = [result_rules.type_at(self._schema(OURS), path) for path in mine]
        here = _KeyRows(self, OURS, [*self._ours(question.ids(OURS), old=False)], mine, kinds)
        there = _KeyRows(self, THEIRS, [*self._theirs(question.ids(THEIRS))], other, kinds)
        return question, here, there

    def _keys(self) -> list[MergeConflict]:
        found = self._key_rows()
        if found is None:
            return []
        question, here, there = found
        if (question.ours_vouches and not there.parts) or (question.theirs_vouches and not here.parts):
            return []
        if question.ours_vouches and question.theirs_vouches:
            twice = there.counted_in([here]).above(0)
            return [self.sides.conflict(SAME_KEY, rows=there.examples(twice))] if len(twice) else []
        staying = replace(here, parts=[*self._staying(question.ids(OURS))])
        suspects = there if question.ours_vouches else here if question.theirs_vouches else staying
        twice = suspects.counted_in([staying, there]).above(1)
        if not len(twice) and not (question.ours_vouches or question.theirs_vouches):
            suspects, twice = there, there.counted_in([there]).above(1)
        return [self.sides.conflict(TWICE, rows=suspects.examples(twice))] if len(twice) else []

    # --- Constraints, which are those of ours

    def _constraints(self) -> Iterator[MergeConflict]:
        """Constraints that rows of the result break, or might break where two sides meet in a row."""
        sides, there = self.sides, self.locations[1]
        mine = declared(sides.ours.contents.config)
        vouched = {*declared(sides.theirs.contents.config)} if mine else set()
        for constraint in mine:
            try:
                check = Check(constraint, self._schema(THEIRS))
            except InvalidOption:
                yield sides.conflict(f"{constraint} of {OURS} {NOT_CHECKED}: {THEIRS} has other columns")
                continue
            if constraint not in vouched:
                found = delta(sides.base_theirs, sides.theirs)
                brought = [each.id for each in (*found.added, *(after for _, after in found.changed))]
                rows = tuple(islice(rows_breaking(there, sides.theirs.pin, check, brought), _EXAMPLES))
                if rows:
                    yield sides.conflict(f"{constraint} {BROKEN}", rows=rows)
            if self._meet(check):
                yield sides.conflict(f"{constraint} {NOT_CHECKED}: rows of the result have values of both sides")

    def _meet(self, check: Check) -> bool:
        """Whether a row of the result may have columns of a constraint from both sides, or values of neither."""
        if self.settles and (self.made or len(check.columns) > 1):
            return True
        ids = frozenset(entry.id for entry in self.sides.theirs.contents.fields if entry.name in check.columns)
        return len(check.columns) > 1 and any(
            columns(each.base, ids) not in (columns(each.ours, ids), columns(each.theirs, ids))
            for each in self.change.replaced
            if each.files
        )

    # --- Values in columns that the other side dropped

    def _lost(self) -> Iterator[MergeConflict]:
        for side in (OURS, THEIRS):
            for entry in result_rules.lost_fields(self.sides, self.fields, side):
                base = self.sides.base_ours if side == OURS else self.sides.base_theirs
                if not entry.ids & base.live:
                    continue  # new on this side: nobody dropped it
                fragments, rows = self._written(side, entry)
                if fragments or rows:
                    yield self.sides.conflict(f"column '{entry.name}' {WRITTEN}", fragments, rows)

    def notes(self) -> list[str]:
        """What new rows lose: values in columns that the result does not have."""
        if self.sides.is_fast_forward or self.sides.is_up_to_date:
            return []
        found = []
        sides = self.sides
        for side, base, now, steps in (
            (OURS, sides.base_ours, sides.ours, sides.our_steps),
            (THEIRS, sides.base_theirs, sides.theirs, sides.their_steps),
        ):
            names = [each.name for each in result_rules.lost_fields(sides, self.fields, side) if each.ids & base.live]
            if names and any(file.path in steps.appended for each in delta(base, now).added for file in each.files):
                branch = steps.branch or MAIN
                found.append(f"rows that '{branch}' added lose their values in dropped columns: {', '.join(names)}")
        return found

    def _written(self, side: Side, entry: LostField) -> tuple[list[int], tuple[str, ...]]:
        """Fragments in which a side wrote a column since the base, and rows that it rewrote with other values.

        Rows that it appended do not count: a dropped column is gone for new rows as well.
        """
        sides, location = self.sides, self.locations[side == THEIRS]
        base, now, steps = (
            (sides.base_ours, sides.ours, sides.our_steps)
            if side == OURS
            else (sides.base_theirs, sides.theirs, sides.their_steps)
        )
        found = delta(base, now)
        fragments = [
            after.id for before, after in found.changed if columns(before, entry.ids) != columns(after, entry.ids)
        ]
        if fragments or steps.moves_no_rows:
            return fragments, ()
        appended = steps.appended
        rewritten = [
            _BroughtRows(each) for each in found.added if not any(file.path in appended for file in each.files)
        ]
        gone, back = [_BroughtRows(each) for each in found.removed], []
        for before, after in found.changed:
            if not same_deletion(before, after):
                here, there = _offsets(location, now, after), _offsets(location, base, before)
                gone.append(_BroughtRows(before, only=np.setdiff1d(here, there)))
                back.append(_BroughtRows(after, only=np.setdiff1d(there, here)))
        # Rows that only came back have the values that they always had. In the place of others they undo an update.
        rewritten += back if any(each.only is None or len(each.only) for each in gone) else []
        if not rewritten:
            return [], ()
        key = self._key_of(base, now)
        names, known_as = [*dict.fromkeys([entry.path[0], *key])], entry.in_version(base.contents.fields)
        old_names = [*dict.fromkeys([known_as.path[0], *key])]
        old = _FieldValues(known_as, old_names, _rows(location, base, gone, old_names))
        new = _FieldValues(entry, names, _rows(location, now, rewritten, names))
        wrong = np.flatnonzero(new.beyond(old))
        if not len(wrong):
            return [], ()
        shown = _shown_columns(stored_schema(location, now.pin), now.contents.fields)
        where = [new.addresses[at] for at in wrong[:_EXAMPLES].tolist()]
        known = {each.fragment.id: each.fragment for each in rewritten}
        parts = [
            _BroughtRows(known[key], only=np.array([at & 0xFFFFFFFF for at in where if at >> 32 == key], np.int64))
            for key in dict.fromkeys(at >> 32 for at in where)
        ]
        wanted = [*dict.fromkeys([*shown, entry.path[0]])]
        batches = _rows(location, now, parts, wanted)
        return [], tuple(_row(row, wanted) for batch in batches for row in batch.to_pylist())

    def _key_of(self, base: Snapshot, now: Snapshot) -> tuple[str, ...]:
        """The key by which rows of two versions can be matched; none if there is none."""
        key = key_columns(base.contents.fields)
        return key if key == key_columns(now.contents.fields) else ()


@dataclass(frozen=True)
class _KeyRows:
    """Rows of a side, of which only the keys count."""

    result: ResultRows
    side: Side
    parts: list[_BroughtRows]
    paths: list[tuple[str, ...]]
    """Of the key's fields, from the column down."""
    kinds: list[pa.DataType]
    """Types of the key in ours."""

    @property
    def names(self) -> list[str]:
        return [*dict.fromkeys(path[0] for path in self.paths)]

    def hashes(self) -> Iterator[tuple[pa.RecordBatch, Hashes]]:
        """The rows with a number for the key of each."""
        for batch in self.result.read(self.side, self.parts, self.names):
            yield batch, result_rules.key_hashes(batch, self.paths, self.kinds)

    def addressed(self) -> tuple[Hashes, npt.NDArray[np.int64]]:
        """A number for the key of each row, and its address."""
        keys, addresses = [np.zeros(0, np.uint64)], [np.zeros(0, np.int64)]
        for batch, own in self.hashes():
            keys.append(own)
            at = batch.column(batch.schema.get_field_index("_rowaddr"))
            addresses.append(at.to_numpy(zero_copy_only=False).astype(np.int64))
        return np.concatenate(keys), np.concatenate(addresses)

    def counted_in(self, others: Iterable[_KeyRows]) -> result_rules.KeyCounts:
        """How often the keys of these rows occur in some rows."""
        counts = result_rules.KeyCounts(np.concatenate([np.zeros(0, np.uint64), *(own for _, own in self.hashes())]))
        for each in others:
            for _, keys in each.hashes():
                counts.add(keys)
        return counts

    def examples(self, keys: Hashes) -> tuple[str, ...]:
        """Some of the rows with these keys, each key once."""
        seen: dict[str, None] = {}
        for batch, own in self.hashes():
            found = batch.take(pa.array(np.flatnonzero(np.isin(own, keys))))
            seen |= dict.fromkeys(_row(row, self.names) for row in found.to_pylist())
            if len(seen) >= _EXAMPLES:
                break
        return tuple([*seen][:_EXAMPLES])


class _FieldValues:
    """The values of some rows in one field, each with the key of its row."""

    def __init__(self, entry: LostField, names: Sequence[str], batches: Iterable[pa.RecordBatch]) -> None:
        values, keys, valid, addresses = [np.zeros(0, np.uint64)], [np.zeros(0, np.uint64)], [np.zeros(0, np.bool_)], []
        key = names[1:] if names[0] == entry.path[0] else names
        for batch in batches:
            column = batch.column(batch.schema.get_field_index(entry.path[0]))
            found, has = result_rules.value_hashes(column, entry.path[1:])
            kinds = [batch.schema.field(name).type for name in key]
            own = result_rules.key_hashes(batch, key, kinds)
            values.append(found)
            keys.append(own)
            valid.append(has)
            addresses += batch.column(batch.schema.get_field_index("_rowaddr")).to_pylist()
        self.has_key = bool(key)
        self.addresses = addresses
        self.values, self.keys, self.valid = np.concatenate(values), np.concatenate(keys), np.concatenate(valid)

    def beyond(self, old: _FieldValues) -> npt.NDArray[np.bool_]:
        """Which rows have a value that the same row did not have before; without a key, that no row had.

        A row with a new key was inserted.
        """
        if not self.has_key:
            found = result_rules.beyond(self.values, old.values)
            return found & self.valid
        pairs, before = (_paired(each.keys, each.values) for each in (self, old))
        wrong: npt.NDArray[np.bool_] = self.valid & np.isin(self.keys, old.keys) & ~np.isin(pairs, before)
        return wrong


def _paired(keys: Hashes, values: Hashes) -> Hashes:
    mixed: Hashes = keys * np.uint64(0x9E37_79B9_7F4A_7C15) + values
    return mixed


def _rows(
    location: DatasetLocation, snapshot: Snapshot, parts: Iterable[_BroughtRows], names: Iterable[str]
) -> Iterator[pa.RecordBatch]:
    rows = []
    for part in parts:
        if part.only is not None:
            rows.append(FragmentRows(part.fragment.id, pa.array(part.only, pa.uint32())))
        elif part.without is None or not len(part.without):
            rows.append(FragmentRows(part.fragment.id))
        else:
            left = np.setdiff1d(np.arange(part.fragment.physical_rows), part.without)
            rows.append(FragmentRows(part.fragment.id, pa.array(left, pa.uint32())))
    return read_rows(RowSource(location, snapshot.pin, tuple(rows)), [*names])


def _offsets(location: DatasetLocation, snapshot: Snapshot, fragment: Fragment) -> npt.NDArray[np.int64]:
    found: npt.NDArray[np.int64] = deleted_offsets(location, snapshot, fragment).to_numpy().astype(np.int64)
    return found


def _sorted(*several: Iterable[int]) -> npt.NDArray[np.int64]:
    return np.array(sorted({int(row) for each in several for row in each}), np.int64)


def _shown_columns(schema: pa.Schema, fields: Sequence[Any]) -> list[str]:
    """The columns by which a row is shown: the key, or the first ones with short values."""
    keys = key_columns(fields)
    if keys:
        return [*keys]
    plain = [
        entry.name
        for entry in schema
        if not (pt.is_nested(entry.type) or pt.is_binary(entry.type) or pt.is_large_binary(entry.type))
        and not isinstance(entry.type, pa.BaseExtensionType)
    ]
    return plain[:_SHOWN]


def _row(row: Mapping[str, Any], names: Iterable[str]) -> str:
    return ", ".join(f"{name}={_short(row[name])}" for name in names)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
