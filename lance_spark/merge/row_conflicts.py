"""What only rows show: whether both sides have the same ones, and whether those of the result fit each other.

In: two sides, or a planned change. Out: what they agree on, where moved rows are, and conflicts. Only the rows and
columns in question are read, and only where files and versions do not tell.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import MAIN, PinnedVersion
from lance_spark.engine.local import Engine, Work
from lance_spark.errors import InvalidOption, NotCommittable
from lance_spark.format import row_ids
from lance_spark.format import versions as format_versions
from lance_spark.format.column_defaults import default_of, value_of
from lance_spark.format.contents import Field, Fragment
from lance_spark.format.operations import Steps, key_columns
from lance_spark.format.python_values import python_rows
from lance_spark.format.row_ids import Connected, Pairs, Rewrite
from lance_spark.format.row_values import HASHED, Hashes, equal_rows, hash_rows, hashed
from lance_spark.format.versions import Snapshot, by_file, columns, counterpart, delta, same_deletion
from lance_spark.merge import change_rules, conflict_rules
from lance_spark.merge.assembly_rules import LackingRows, SettingChange
from lance_spark.merge.change_rules import MergeChange, MergeConflict, Rows, Sides, Tree, trees
from lance_spark.merge.conflict_rules import (
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
from lance_spark.merge.option_rules import OURS, THEIRS, Side
from lance_spark.scan.fragment_reads import (
    FragmentRows,
    RowSource,
    blob_columns,
    deleted_offsets,
    read_rows,
    stored_schema,
)
from lance_spark.write.constraint_rules import Check, declared
from lance_spark.write.constraints import rows_breaking, with_columns

# --- Columns that both sides added, alike
# Read only if both sides have values of such a column in the same fragments.

_OFFSET = np.uint64(0xFFFF_FFFF)
Locations = tuple[DatasetLocation, DatasetLocation]
"""Where ours is, and where theirs is."""


def agreed_columns(locations: Locations, sides: Sides) -> frozenset[int]:
    """The ids of columns that both sides added with the same name, type and values."""
    if sides.is_fast_forward or sides.is_up_to_date:
        return frozenset()
    base, ours, theirs = (trees(fields) for fields in sides.fields)
    new = [tree for key, tree in ours.items() if key not in base and theirs.get(key) == tree]
    if not new:
        return frozenset()
    pairs = [*_pairs(sides)]
    return frozenset(entry.id for tree in new if _is_same(locations, sides, tree, pairs) for entry in tree)


def _pairs(sides: Sides) -> Iterator[tuple[Fragment, Fragment]]:
    """Fragments that both sides changed, as both have them."""
    here = by_file(after for _, after in delta(sides.base_ours, sides.ours).changed)
    for _, after in delta(sides.base_theirs, sides.theirs).changed:
        twin = counterpart(after, here)
        if twin is not None:
            yield twin, after


def _is_same(locations: Locations, sides: Sides, tree: Tree, pairs: list[tuple[Fragment, Fragment]]) -> bool:
    ids = frozenset(entry.id for entry in tree)
    for ours, theirs in pairs:
        mine, other = columns(ours, ids), columns(theirs, ids)
        if not mine or not other or mine == other:
            continue
        one = _values(locations[0], sides.ours, ours, tree[0].name)
        two = _values(locations[1], sides.theirs, theirs, tree[0].name)
        if any(two[row] != value for row, value in one.items() if row in two):
            return False
    return True


def _values(location: DatasetLocation, snapshot: Snapshot, fragment: Fragment, name: str) -> dict[int, int]:
    """A number for the value of each row, by its offset."""
    found: dict[int, int] = {}
    source = RowSource(location, snapshot.pin, (FragmentRows(fragment.id),))
    for batch in read_rows(source, [name]):
        offsets = batch.column("_rowaddr").to_numpy().astype(np.uint64) & _OFFSET
        hashes = hash_rows([batch.column(name)], batch.num_rows)
        found.update(zip(offsets.tolist(), hashes.tolist(), strict=True))
    return found


# --- Rows found by their values, where no version tells to which files they were moved
# That is so after an order (``sort_by``, ``zorder``), and after compactions whose versions were cleaned up. Only rows
# of files that a side no longer has are compared with rows of its new files, and only if the merge would be a conflict
# otherwise.


@dataclass(frozen=True)
class HashRows:
    """Hashes the rows of fragments of versions; runs on executors."""

    location: DatasetLocation
    columns: tuple[str, ...]
    keys: tuple[str, ...] = ()
    """Columns that identify a row."""

    def table(self, engine: Engine, pin: PinnedVersion, fragments: Sequence[Fragment]) -> pa.Table:
        """HASHED of the live rows of fragments of a version: 24 bytes for each row."""
        if not fragments:
            return HASHED.empty_table()
        runner = engine.for_work("merge", Work(read_bytes=sum(file.size for one in fragments for file in one.files)))
        found = runner.flat_map("compare rows", [(pin, fragment.id) for fragment in fragments], self, HASHED)
        return runner.collect("compare rows", found).cast(HASHED)

    def __call__(self, item: tuple[PinnedVersion, int]) -> Iterator[pa.RecordBatch]:
        pin, fragment = item
        for batch in read_rows(RowSource(self.location, pin, (FragmentRows(fragment),)), self.columns):
            yield hashed(batch, self.columns, self.keys)


def with_rows_found(locations: Locations, sides: Sides, engine: Engine) -> Sides | None:
    """The sides with what the values of their rows tell; None if that is nothing."""
    ours = _found(locations[0], sides.base_ours, sides.ours, sides.our_steps, engine)
    theirs = _found(locations[1], sides.base_theirs, sides.theirs, sides.their_steps, engine)
    if ours is None and theirs is None:
        return None
    return replace(
        sides,
        our_steps=replace(sides.our_steps, found=() if ours is None else (ours,)),
        their_steps=replace(sides.their_steps, found=() if theirs is None else (theirs,)),
    )


def have_equal_rows(locations: Locations, sides: Sides, engine: Engine) -> bool:
    """Whether a new row of one side has the values of a new one of the other, or they cannot be compared."""
    ours, theirs = delta(sides.base_ours, sides.ours), delta(sides.base_theirs, sides.theirs)
    names = [_columns(side) for side in (sides.base_ours, sides.ours, sides.theirs)]
    common = [key for key in names[0] if key in names[1] and key in names[2]]
    pins = sides.base_ours.pin, sides.ours.pin, sides.theirs.pin
    places = locations[0], *locations
    if not common or any(blob_columns(place, pin) for place, pin in zip(places, pins, strict=True)):
        return True
    # Both may have rewritten rows of the base.
    before, mine, other = (
        HashRows(place, tuple(known[key] for key in common)).table(engine, pin, fragments)["content"].to_numpy()
        for place, pin, known, fragments in zip(
            places, pins, names, (ours.removed, ours.added, theirs.added), strict=True
        )
    )
    return bool(np.setdiff1d(np.intersect1d(mine, other), before).size)


def _found(location: DatasetLocation, base: Snapshot, side: Snapshot, steps: Steps, engine: Engine) -> Rewrite | None:
    """Which rows of files that a side no longer has are in its new files."""
    change = delta(base, side)
    old = Connected(steps.rewrites).lost(change.removed, change.added)
    names = _columns(base), _columns(side)
    if not old or not change.added or names[0].keys() != names[1].keys() or blob_columns(location, side.pin):
        return None  # blobs are not read, and two rows may differ in nothing else
    before = HashRows(location, tuple(names[0].values())).table(engine, base.pin, old)
    after = HashRows(location, tuple(names[1][key] for key in names[0])).table(engine, side.pin, change.added)
    matched = equal_rows(before, after)
    if not len(matched[0]):
        return None
    pairs: Pairs = np.column_stack([*_placed(matched[0], old), *_placed(matched[1], change.added)])
    return Rewrite(tuple(old), tuple(change.added), pairs=pairs)


def _columns(snapshot: Snapshot) -> dict[tuple[int, str], str]:
    return {(entry.id, entry.type): entry.name for entry in snapshot.contents.fields if entry.parent_id < 0}


def _placed(addresses: np.ndarray, fragments: Sequence[Fragment]) -> list[np.ndarray]:
    """The positions of rows' fragments, and offsets in them."""
    ids = np.array([fragment.id for fragment in fragments], np.int64)
    order = np.argsort(ids)
    owners = (addresses >> np.uint64(32)).astype(np.int64)
    positions = order[np.searchsorted(ids[order], owners)]
    return [positions, (addresses & np.uint64(0xFFFF_FFFF)).astype(np.int64)]


# --- Rows deleted on both sides, and rows that are back

_EXAMPLES = 5


def dead_rows(base: Rows, ours: Rows, theirs: Rows, kept: Rows | None = None) -> Rows:
    """The deleted rows of a fragment that takes what theirs deleted, and the rows that theirs has back.

    ``kept`` are those that are back in theirs, and nevertheless stay deleted.
    """
    back = np.setdiff1d(np.setdiff1d(base, theirs), _NONE if kept is None else kept)
    return np.setdiff1d(np.union1d(ours, np.setdiff1d(theirs, base)), back)


_NONE: Rows = np.zeros(0, np.int64)


class OtherRows(NamedTuple):
    """What becomes of a fragment in which both sides deleted rows, or have rows back."""

    deletions: tuple[int, ...] = ()
    """Rows to delete in ours."""
    dead: tuple[int, ...] | None = None
    """All deleted rows, if theirs has rows back; None if it has none."""
    conflicts: tuple[change_rules.MergeConflict, ...] = ()


def other_rows(locations: Locations, sides: change_rules.Sides, replacement: change_rules.Replacement) -> OtherRows:
    """The rows that theirs deleted in a fragment where ours deleted rows; a conflict if both deleted the same ones."""
    here, there = locations
    base = frozenset(deleted_offsets(here, _base(sides, replacement), replacement.base).to_pylist())
    ours_now = frozenset(deleted_offsets(here, sides.ours, replacement.ours).to_pylist())
    ours = ours_now - base
    theirs_now = frozenset(deleted_offsets(there, sides.theirs, replacement.theirs).to_pylist())
    theirs = theirs_now - base
    both = sorted(ours & theirs)
    if both:
        rows = examples(here, _base(sides, replacement), replacement.base, both[:_EXAMPLES])
        return OtherRows(conflicts=(sides.conflict(change_rules.OTHER_ROWS.reason, [replacement.ours.id], rows),))
    if base <= theirs_now:
        return OtherRows(tuple(sorted(theirs)))
    before, mine, other = (np.array(sorted(each), np.int64) for each in (base, ours_now, theirs_now))
    return OtherRows(dead=tuple(dead_rows(before, mine, other).tolist()))


def blank_rows(
    locations: Locations, sides: change_rules.Sides, replaced: Iterable[change_rules.Replacement]
) -> list[change_rules.MergeConflict]:
    """Conflicts about rows that one side has back, in fragments in which the other side wrote columns meanwhile.

    In such a file a deleted row has the values of a row beside it: pylance has to put something there. They would come
    back with the row.
    """
    here, there = locations
    conflicts = []
    for each in replaced:
        written = (_written(sides.ours, each.ours, each.base), _written(sides.theirs, each.theirs, each.base))
        if each.base.deletion is None or not any(written):
            continue
        base = frozenset(deleted_offsets(here, _base(sides, each), each.base).to_pylist())
        ours = base & frozenset(deleted_offsets(here, sides.ours, each.ours).to_pylist())
        theirs = base & frozenset(deleted_offsets(there, sides.theirs, each.theirs).to_pylist())
        for back, names in ((ours - theirs, written[0]), (theirs - ours, written[1])):
            if back and names:
                rows = examples(here, _base(sides, each), each.base, sorted(back)[:_EXAMPLES])
                reason = f"{change_rules.BLANK} '{names[0]}', which was written while they were deleted"
                conflicts.append(sides.conflict(reason, [each.ours.id], rows))
    return conflicts


def _base(sides: change_rules.Sides, each: change_rules.Replacement) -> format_versions.Snapshot:
    """The version that the fragment of the base was read in: ours itself, if ours still has all rows of the base."""
    return sides.ours if each.base == each.ours else sides.base_ours


def _written(side: format_versions.Snapshot, fragment: Fragment, base: Fragment) -> list[str]:
    """The names of the columns that a side wrote in a fragment of the base."""
    before, after = (format_versions.columns(entry, side.live) for entry in (base, fragment))
    names = {entry.id: tree[0].name for tree in change_rules.trees(side.contents.fields).values() for entry in tree}
    return [names[key] for key, path in after.items() if before.get(key) != path]


def examples(
    location: DatasetLocation, base: format_versions.Snapshot, fragment: Fragment, offsets: Sequence[int]
) -> tuple[str, ...]:
    """The keys of some rows in the base; none if the table declares no key."""
    keys = key_columns(base.contents.fields)
    if not keys or not offsets:
        return ()
    source = RowSource(location, base.pin, (FragmentRows(fragment.id, pa.array(offsets, pa.uint32())),))
    return tuple(_shown(row) for batch in read_rows(source, keys) for row in python_rows(batch.select(keys)))


def _shown(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in row.items())


# --- Rows of the result: nulls, keys, constraints, values of dropped columns
# Each side vouches for its own version, so only rows that one side brings are read, and of these only the columns in
# question: nothing is read where no column lost its nulls, no key is declared and no column is dropped.

_NO_TWINS = np.zeros((0, 2), np.int64)
_SHOWN = 4
"""Columns of an example row, in a table without a key."""


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
    settings: SettingChange
    """Those of theirs that ours takes over."""
    deletions: Mapping[int, Sequence[int]]
    """Rows that the plan deletes where both sides deleted rows, by fragment of ours."""
    ours_old: Mapping[int, row_ids.Runs]
    """Rows of the base in new fragments of ours, by fragment."""
    settles: bool = False
    """Whether rows that both sides changed are settled cell by cell."""
    made: bool = False
    """Whether such cells have values that no side has: null, or what the caller gives."""
    lacking: tuple[LackingRows, ...] = ()
    """Rows that get defaults of columns that the other side added."""

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
        nulls = conflict_rules.null_change(self.sides, self.change, self.fields)
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
        for entry in conflict_rules.strict_fields(self.fields, OURS):
            if entry.ours is not None:
                path = conflict_rules.paths(self.sides.ours.contents.fields)[entry.ours.id]
                for batch in self.read(OURS, self._leaving(), path[:1]):
                    column = batch.column(batch.schema.get_field_index(path[0]))
                    if conflict_rules.lacking(column, path[1:]).any():
                        return True
        return False

    @cached_property
    def fields(self) -> tuple[ResultField, ...]:
        return conflict_rules.result_fields(self.sides, self.change)

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
            for entry in conflict_rules.strict_fields(self.fields, side):
                if entry.on(side) is None and change_rules.default_in(entry.field) and not self._unsure(side, entry):
                    continue
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
        path = conflict_rules.paths(own)[around.id] if around is not None else ()
        inside = entry.path[-1:] if field is None else ()
        ids = {around.id} if around is not None else set()
        parts = self._ours(ids) if side == OURS else self._theirs(ids)
        shown, count = _shown_columns(self._schema(side), own), 0
        for batch in self.read(side, parts, [*dict.fromkeys([*path[:1], *shown])]):
            if path:
                column = batch.column(batch.schema.get_field_index(path[0]))
                found = np.flatnonzero(conflict_rules.lacking(column, (*path[1:], *inside)))
            else:
                found = np.arange(batch.num_rows)
            for row in python_rows(batch.take(pa.array(found[: _EXAMPLES - count]))):
                yield _row(row, shown)
            count += len(found)
            if count >= _EXAMPLES:
                return

    def _unsure(self, side: Side, entry: ResultField) -> bool:
        """Whether some rows that a side brings do not get the default of a column of the other side."""
        filled = {each.fragment.id for each in self.lacking if entry.name in each.columns}
        parts = self._ours(()) if side == OURS else self._theirs(())
        return any(part.fragment.id not in filled for part in parts)

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
        return conflict_rules.twins(here.addressed(), there.addressed())

    def _key_rows(self) -> tuple[conflict_rules.KeyQuestion, _KeyRows, _KeyRows] | None:
        """The question of keys, and the rows that each side brings; None if the result has no key."""
        question = conflict_rules.key_question(self.fields, self.sides)
        if question is None:
            return None
        mine = question.paths(OURS, self.sides.ours.contents.fields)
        other = question.paths(THEIRS, self.sides.theirs.contents.fields)
        kinds = [conflict_rules.type_at(self._schema(OURS), path) for path in mine]
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

    # --- Constraints: those of ours, and those that come with the merge

    def _constraints(self) -> Iterator[MergeConflict]:
        """Constraints that rows of the result break, or might break where two sides meet in a row.

        Each side vouches for the rows of its own version, under its own constraints.
        """
        sides = self.sides
        wanted = declared(self.settings.on(sides.ours.contents.config))
        for constraint in wanted:
            checks = []
            for side, now in ((OURS, sides.ours), (THEIRS, sides.theirs)):
                try:
                    check = Check(constraint, self._with_nulls(side))
                except InvalidOption:
                    yield sides.conflict(f"{constraint} {NOT_CHECKED}: {side} has other columns")
                    break
                checks.append(check)
                if constraint not in declared(now.contents.config):
                    rows = tuple(islice(self._breaking(side, check), _EXAMPLES))
                    if rows:
                        yield sides.conflict(f"{constraint} {BROKEN.format(side)}", rows=rows)
            if len(checks) > 1 and self._meet(checks[1]):
                yield sides.conflict(f"{constraint} {NOT_CHECKED}: rows of the result have values of both sides")

    def _with_nulls(self, side: Side) -> pa.Schema:
        """The columns of a side, and those that its rows get from the other one, without values."""
        mine, other = (self._schema(each) for each in ((OURS, THEIRS) if side == OURS else (THEIRS, OURS)))
        found = {entry.path[0] for entry in self.fields if len(entry.path) == 1}
        return with_columns(mine, pa.schema([each for each in other if each.name in found]))

    def _breaking(self, side: Side, check: Check) -> Iterator[str]:
        """Rows that a side brings, and that break a constraint."""
        sides = self.sides
        base, now = (sides.base_ours, sides.ours) if side == OURS else (sides.base_theirs, sides.theirs)
        found = delta(base, now)
        names = {each.fragment.id: each.columns for each in self.lacking if each.of_ours == (side == OURS)}
        brought: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
        for each in (*found.added, *(after for _, after in found.changed)):
            brought[names.get(each.id, ())].append(each.id)
        moment, fields = datetime.now(timezone.utc), self._with_nulls(side)
        for filled, fragments in brought.items():
            given = {name: value_of(str(default_of(fields.field(name))), fields.field(name), moment) for name in filled}
            yield from rows_breaking(self.locations[side == THEIRS], now.pin, check.given(given), fragments)

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
            for entry in conflict_rules.lost_fields(self.sides, self.fields, side):
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
            names = [each.name for each in conflict_rules.lost_fields(sides, self.fields, side) if each.ids & base.live]
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
        return [], tuple(_row(row, wanted) for batch in batches for row in python_rows(batch))

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
            yield batch, conflict_rules.key_hashes(batch, self.paths, self.kinds)

    def addressed(self) -> tuple[Hashes, npt.NDArray[np.int64]]:
        """A number for the key of each row, and its address."""
        keys, addresses = [np.zeros(0, np.uint64)], [np.zeros(0, np.int64)]
        for batch, own in self.hashes():
            keys.append(own)
            at = batch.column(batch.schema.get_field_index("_rowaddr"))
            addresses.append(at.to_numpy(zero_copy_only=False).astype(np.int64))
        return np.concatenate(keys), np.concatenate(addresses)

    def counted_in(self, others: Iterable[_KeyRows]) -> conflict_rules.KeyCounts:
        """How often the keys of these rows occur in some rows."""
        counts = conflict_rules.KeyCounts(np.concatenate([np.zeros(0, np.uint64), *(own for _, own in self.hashes())]))
        for each in others:
            for _, keys in each.hashes():
                counts.add(keys)
        return counts

    def examples(self, keys: Hashes) -> tuple[str, ...]:
        """Some of the rows with these keys, each key once."""
        seen: dict[str, None] = {}
        for batch, own in self.hashes():
            found = batch.take(pa.array(np.flatnonzero(np.isin(own, keys))))
            seen |= dict.fromkeys(_row(row, self.names) for row in python_rows(found))
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
            found, has = conflict_rules.value_hashes(column, entry.path[1:])
            kinds = [batch.schema.field(name).type for name in key]
            own = conflict_rules.key_hashes(batch, key, kinds)
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
            found = conflict_rules.beyond(self.values, old.values)
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
