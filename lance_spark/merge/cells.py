"""Rows that both sides changed, merged cell by cell: finds them, decides their cells, and writes files with columns.

In: a change whose fragments are left open. Out: the same change without open fragments, or what prevents it; later, a
file for each new fragment whose rows get cells of the other side. Only contested rows are read, in batches, on the
engine; nothing is written before the whole merge is decided.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import MAIN
from lance_spark.engine.local import Engine, Work
from lance_spark.format.contents import DeletionFile, Fragment
from lance_spark.format.operations import Steps, key_columns
from lance_spark.format.row_ids import read_row_ids
from lance_spark.format.row_values import ADDRESS
from lance_spark.format.versions import Delta, Snapshot, by_file, counterpart, delta
from lance_spark.merge import cell_rules
from lance_spark.merge.cell_rules import (
    NOWHERE,
    STALE,
    CellColumn,
    CellPlan,
    Cells,
    Computed,
    Emptied,
    NumberedRows,
    Stale,
)
from lance_spark.merge.cells_pylance import PatchPlace, read_cells, write_patch
from lance_spark.merge.change_rules import CellPair, MergeChange, MergeConflict, Patch, Replacement, Rows, Sides
from lance_spark.merge.conflict_rules import NO_VALUES_OURS, NO_VALUES_THEIRS
from lance_spark.merge.following_rules import BITMAP
from lance_spark.merge.row_conflicts import Locations, examples
from lance_spark.scan.pylance import FragmentRows, RowSource, deleted_offsets, read_rows

_EXAMPLES = 5
_NONE: Rows = np.zeros(0, np.int64)
BOTH_CHANGED = "both sides changed column '{}' of the same rows"
_DELETED = "both sides deleted or updated the same rows"
_ELSEWHERE = "rows that theirs rewrote are in ours already"
AMBIGUOUS = "rows with a changed key cannot be told from deleted and new ones"
KEY_CHANGED = "one side changed the key column '{}' of rows of which the other changed other columns"
OPAQUE = "both sides changed rows, whose blobs or changed structs cannot be merged cell by cell"
NO_NULL = f"column '{{}}' cannot be null, and {STALE}"


class SettledCells(NamedTuple):
    """A change without open fragments."""

    change: MergeChange
    deletions: Mapping[int, tuple[int, ...]] = {}
    """Rows to delete where both sides removed rows: offsets in the fragment of ours, by its id."""
    conflicts: tuple[MergeConflict, ...] = ()
    cells: CellPlan | None = None


def settle_cells(
    locations: Locations, sides: Sides, change: MergeChange, engine: Engine, on: Sequence[str] = ()
) -> SettledCells:
    """Decide the open fragments of a change. ``on``: columns by which to match rows that have no stable ids."""
    if not change.cells:
        return SettledCells(change)
    return _CellSettling(locations, sides, change, engine, tuple(on)).run()


@dataclass(frozen=True)
class _CellSide:
    """One side, and the rows that it removed from fragments of the base."""

    location: DatasetLocation
    now: Snapshot
    base: Snapshot
    steps: Steps
    added: tuple[Fragment, ...]
    numbering: Snapshot | None
    """A version with the rows of the base under this side's stable ids."""
    same_below: int
    """Below this, the base's own ids mean the same rows."""
    changes: Delta

    @cached_property
    def _known(self) -> dict[str, Fragment]:
        return {} if self.numbering is None else by_file(self.numbering.contents.fragments())

    def ids(self, fragment: Fragment) -> Rows:
        """The stable ids of the rows of a base's fragment, NOWHERE where they are unknown.

        The version that took the base in has any ids for rows that were deleted there.
        """
        own = np.array(read_row_ids(fragment.row_ids), np.int64)
        if len(own) != fragment.physical_rows:
            return np.full(fragment.physical_rows, NOWHERE, np.int64)
        ids = np.where(own < self.same_below, own, NOWHERE)
        found = counterpart(fragment, self._known)
        if self.numbering is None or found is None or not (ids == NOWHERE).any():
            return ids
        there = np.array(read_row_ids(found.row_ids), np.int64)
        if len(there) == len(ids):
            there[self.dead(self.numbering, found)] = NOWHERE
            ids = np.where(ids == NOWHERE, there, ids)
        return ids

    @cached_property
    def candidates(self) -> list[NumberedRows] | None:
        """The new fragments with the ids of their rows; None if one of them does not have them."""
        found = []
        for entry in self.added:
            ids = np.array(read_row_ids(entry.row_ids), np.int64)
            if len(ids) != entry.physical_rows:
                return None
            found.append(NumberedRows(entry.id, ids, self.dead(self.now, entry)))
        return found

    def dead(self, snapshot: Snapshot, fragment: Fragment) -> Rows:
        """The deleted rows of a fragment."""
        return np.asarray(deleted_offsets(self.location, snapshot, fragment).to_numpy(), np.int64)

    def removed(self, base: Fragment, now: Fragment | None) -> Rows | None:
        """The rows of the base that a fragment lost; None if it has rows back."""
        before = self.dead(self.base, base)
        gone = np.arange(base.physical_rows, dtype=np.int64) if now is None else self.dead(self.now, now)
        return np.setdiff1d(gone, before) if np.isin(before, gone).all() else None

    def keys(self, snapshot: Snapshot, rows: Sequence[FragmentRows], names: Sequence[str]) -> pa.Table:
        """The keys of rows, with their addresses."""
        batches = read_rows(RowSource(self.location, snapshot.pin, tuple(rows)), names)
        tables = [pa.Table.from_batches([batch.select([*names, ADDRESS])]) for batch in batches]
        if not tables:
            return pa.table({name: pa.array([], pa.int64()) for name in (*names, "address")})
        found = pa.concat_tables(tables).rename_columns([*names, "address"])
        return found.set_column(len(names), "address", found["address"].cast(pa.int64()))


class _Untraceable(Exception):
    """Rows of a side cannot be matched."""


@dataclass
class _Pair:
    """An open fragment, with the rows that each side removed and where they are now."""

    pair: CellPair
    ours: Rows
    theirs: Rows
    at_ours: Rows = field(default_factory=lambda: _NONE)
    at_theirs: Rows = field(default_factory=lambda: _NONE)

    @property
    def is_open(self) -> bool:
        """Whether any row must be found."""
        return bool(self.wanted(True).any() or self.wanted(False).any())

    def wanted(self, of_ours: bool) -> npt.NDArray[np.bool_]:
        """Which of the rows that a side removed must be found: those that the other side also changed."""
        mine, others = (self.ours, self.theirs) if of_ours else (self.theirs, self.ours)
        all_changed = self.pair.wrote_theirs if of_ours else self.pair.wrote_ours
        return np.ones(len(mine), bool) if all_changed else np.isin(mine, others)


class _Home(NamedTuple):
    """Rows that both sides changed, in a new fragment of one of them."""

    rows: list[Rows]
    base: list[Rows]
    other: list[Rows]
    written: set[int]
    """The columns that the other side wrote in place."""
    rewritten: list[bool]
    """Whether the other side rewrote rows."""


class _CellSettling:
    def __init__(
        self, locations: Locations, sides: Sides, change: MergeChange, engine: Engine, on: tuple[str, ...]
    ) -> None:
        self.locations, self.sides, self.change, self.engine = locations, sides, change, engine
        here, there = locations
        mine, other = delta(sides.base_ours, sides.ours), delta(sides.base_theirs, sides.theirs)
        numbering = sides.numbering or sides.base_theirs
        below = sides.same_below
        self.ours = _CellSide(
            here, sides.ours, sides.base_ours, sides.our_steps, mine.added, sides.our_numbering, below, mine
        )
        self.theirs = _CellSide(
            there, sides.theirs, sides.base_theirs, sides.their_steps, other.added, numbering, below, other
        )
        self.columns = cell_rules.cell_columns(sides)
        fields = [key_columns(snapshot.contents.fields) for snapshot in (sides.ours, sides.theirs)]
        self.keys = on or next((names for names in fields if names), ())
        self.conflicts: list[MergeConflict] = []

    def run(self) -> SettledCells:
        pairs = self._pairs()
        try:
            self._locate(pairs, self.ours)
            self._locate(pairs, self.theirs)
        except _Untraceable as why:
            return self._refused([(each.pair, str(why)) for each in pairs if each.is_open])
        if self.conflicts:
            return SettledCells(replace(self.change, cells=()), conflicts=tuple(self.conflicts))
        homes, masks = self._homes(pairs)
        self._check_deletions(pairs)
        if self.conflicts:
            return SettledCells(replace(self.change, cells=()), conflicts=tuple(self.conflicts))
        stale = self._stale()
        patches = [*self._patches(homes, stale), *self._in_place(pairs, stale)]
        patches, emptied = self._decided(patches, stale)
        rows = sum(len(each) for home in homes.values() for each in home.rows)
        change, deletions = self._change(pairs, masks, patches)
        change = replace(change, notes=self._notes(change, homes))
        plan = CellPlan(self.columns, stale, rows, emptied)
        return SettledCells(change, deletions, tuple(self.conflicts), plan)

    def _refused(self, pairs: Iterable[tuple[CellPair, str]]) -> SettledCells:
        reasons: defaultdict[str, list[int]] = defaultdict(list)
        for pair, why in pairs:
            reasons[why or pair.reason].append((pair.ours or pair.base).id)
        conflicts = tuple(self.sides.conflict(reason, fragments) for reason, fragments in reasons.items())
        return SettledCells(replace(self.change, cells=()), conflicts=conflicts)

    # --- Which rows each side removed from a fragment, and where they are now

    def _pairs(self) -> list[_Pair]:
        found = []
        for pair in self.change.cells:
            ours, theirs = self.ours.removed(pair.base, pair.ours), self.theirs.removed(pair.before, pair.theirs)
            if ours is None or theirs is None:
                self.conflicts.append(self.sides.conflict(pair.reason, [(pair.ours or pair.base).id]))
                continue
            found.append(_Pair(pair, ours, theirs))
        return found

    def _locate(self, pairs: Sequence[_Pair], side: _CellSide) -> None:
        """Find the rows that a side removed: in its new fragments, or nowhere. Raises _Untraceable."""
        mine = side is self.ours
        wanted = [each.wanted(mine) for each in pairs]
        removed = [
            (each.pair.base if mine else each.pair.before, (each.ours if mine else each.theirs)[chosen])
            for each, chosen in zip(pairs, wanted, strict=True)
        ]
        # Rows that left a fragment were deleted if no version rewrites rows. Those of a fragment that is gone may have
        # come into others by a merge, without any version of this side that moved them.
        left = [
            each.pair.ours if mine else each.pair.theirs
            for each, chosen in zip(pairs, wanted, strict=True)
            if chosen.any()
        ]
        stayed = side.steps.moves_no_rows and None not in left
        if stayed or not any(len(rows) for _, rows in removed):
            found = [np.full(len(rows), NOWHERE, np.int64) for _, rows in removed]
        else:
            found = self._by_id(side, removed) or self._by_key(side, removed)
        for each, chosen, addresses in zip(pairs, wanted, found, strict=True):
            places = np.full(len(chosen), NOWHERE, np.int64)
            places[chosen] = addresses
            if mine:
                each.at_ours = places
            else:
                each.at_theirs = places

    def _by_id(self, side: _CellSide, removed: Sequence[tuple[Fragment, Rows]]) -> list[Rows] | None:
        if not side.now.contents.has_stable_row_ids:
            return None
        wanted = [side.ids(fragment)[rows] if len(rows) else _NONE for fragment, rows in removed]
        if any((own == NOWHERE).any() for own in wanted) or side.candidates is None:
            return None
        found = cell_rules.find_ids(np.concatenate(wanted), side.candidates)
        return None if found is None else _split(found, wanted)

    def _by_key(self, side: _CellSide, removed: Sequence[tuple[Fragment, Rows]]) -> list[Rows]:
        names = [column.base for column in self.columns]
        here = [column.ours if side is self.ours else column.theirs for column in self.columns]
        if not self.keys or not set(self.keys) <= set(names):
            raise _Untraceable
        renamed = dict(zip(names, here, strict=True))
        now = [renamed[key] or "" for key in self.keys]
        there = side.keys(side.now, [FragmentRows(entry.id) for entry in side.added], now).rename_columns(
            [*self.keys, "address"]
        )
        found = [self._matched(side, fragment, rows, there) for fragment, rows in removed]
        if any((addresses == NOWHERE).any() for addresses in found):
            self._check_same_keys(side, there)
        return found

    def _matched(self, side: _CellSide, fragment: Fragment, rows: Rows, there: pa.Table) -> Rows:
        """The addresses of rows of a base's fragment, by key. Raises _Untraceable."""
        if not len(rows) or not there.num_rows:
            return np.full(len(rows), NOWHERE, np.int64)
        wanted = side.keys(side.base, [FragmentRows(fragment.id, pa.array(rows, pa.uint32()))], self.keys)
        found = cell_rules.find_keys(wanted.sort_by("address"), there, self.keys)
        if found is None or len(found) != len(rows):
            raise _Untraceable("several rows have the same key")
        return found

    def _check_same_keys(self, side: _CellSide, there: pa.Table) -> None:
        """Raise _Untraceable if a row that seems to be deleted may be one of the new ones, under another key."""
        gone = [(before, side.removed(before, after)) for before, after in side.changes.changed]
        gone += [(before, side.removed(before, None)) for before in side.changes.removed]
        matched = 0
        for fragment, rows in gone:
            if rows is not None:
                matched += int((self._matched(side, fragment, rows, there) != NOWHERE).sum())
        if matched < there.num_rows:
            raise _Untraceable(AMBIGUOUS)

    # --- Rows that both sides changed

    def _homes(self, pairs: Sequence[_Pair]) -> tuple[dict[tuple[bool, int], _Home], dict[int, list[Rows]]]:
        """The rows of each new fragment that get cells of the other side, and those of theirs that ours has."""
        homes: dict[tuple[bool, int], _Home] = {}
        masks: defaultdict[int, list[Rows]] = defaultdict(list)

        def put(of_ours: bool, at: Rows, rows: Rows, other: Rows, each: _Pair, rewritten: bool) -> None:
            pair = each.pair
            side = (pair.before, pair.theirs) if of_ours else (pair.base, pair.ours)
            wrote = side[1] is not None and (pair.wrote_theirs if of_ours else pair.wrote_ours)
            written = cell_rules.written(side[0], side[1], self.columns) if wrote and side[1] else frozenset()
            for key in np.unique(at >> 32).tolist():
                here = at >> 32 == key
                home = homes.setdefault((of_ours, key), _Home([], [], [], set(), []))
                home.rows.append(at[here] & 0xFFFFFFFF)
                home.base.append((pair.base.id << 32) + rows[here])
                home.other.append(other[here])
                home.written.update(written)
                home.rewritten.append(rewritten)

        for each in pairs:
            both, in_ours, in_theirs = np.intersect1d(each.ours, each.theirs, return_indices=True)
            at_ours, at_theirs = each.at_ours[in_ours], each.at_theirs[in_theirs]
            merged = (at_ours != NOWHERE) & (at_theirs != NOWHERE)
            put(True, at_ours[merged], both[merged], at_theirs[merged], each, True)
            for key in np.unique(at_theirs[merged] >> 32).tolist():
                masks[key].append(at_theirs[merged][at_theirs[merged] >> 32 == key] & 0xFFFFFFFF)
            pair = each.pair
            if pair.wrote_theirs and pair.theirs is not None:
                only = ~np.isin(each.ours, each.theirs) & (each.at_ours != NOWHERE)
                put(True, each.at_ours[only], each.ours[only], (pair.theirs.id << 32) + each.ours[only], each, False)
            if pair.wrote_ours and pair.ours is not None:
                only = ~np.isin(each.theirs, each.ours) & (each.at_theirs != NOWHERE)
                put(
                    False,
                    each.at_theirs[only],
                    each.theirs[only],
                    (pair.ours.id << 32) + each.theirs[only],
                    each,
                    False,
                )
        return homes, masks

    def _check_deletions(self, pairs: Sequence[_Pair]) -> None:
        """A row that one side deleted and the other updated is a conflict."""
        for each in pairs:
            both, in_ours, in_theirs = np.intersect1d(each.ours, each.theirs, return_indices=True)
            gone = (each.at_ours[in_ours] == NOWHERE, each.at_theirs[in_theirs] == NOWHERE)
            clash = both[gone[0] != gone[1]] if self.sides.by_cells else both
            if len(clash):
                rows = examples(self.locations[0], self.sides.base_ours, each.pair.base, clash[:_EXAMPLES].tolist())
                # A side that only moved all rows of a fragment changed none: their values may tell.
                moved = each.pair.ours is None or each.pair.theirs is None
                reason = each.pair.reason if moved else _DELETED
                self.conflicts.append(self.sides.conflict(reason, [(each.pair.ours or each.pair.base).id], rows))

    # --- Columns, and the decision

    def _stale(self) -> Stale:
        """What each side computed, and from which columns."""
        pairs = self.change.cells
        wrote_ours, wrote_theirs = set[int](), set[int]()
        for pair in pairs:
            if pair.wrote_ours and pair.ours is not None:
                wrote_ours |= cell_rules.written(pair.base, pair.ours, self.columns)
            if pair.wrote_theirs and pair.theirs is not None:
                wrote_theirs |= cell_rules.written(pair.before, pair.theirs, self.columns)
        ours, theirs = Computed.of(self.sides.our_steps), cell_rules.computed_by_theirs(self.sides)
        names_ours = [column.ours for column in self.columns]
        names_theirs = [column.theirs for column in self.columns]
        return Stale(
            cell_rules.reads_of(self.columns, ours, names_ours, wrote_ours | self._new(True)),
            cell_rules.reads_of(self.columns, theirs, names_theirs, wrote_theirs | self._new(False)),
        )

    def _new(self, in_ours: bool) -> set[int]:
        """The columns that a side added."""
        return {
            at
            for at, column in enumerate(self.columns)
            if column.base is None and (column.ours if in_ours else column.theirs) is not None
        }

    def _patches(self, homes: Mapping[tuple[bool, int], _Home], stale: Stale) -> list[Patch]:
        patches = []
        fragments = {(True, entry.id): entry for entry in self.ours.added}
        fragments |= {(False, entry.id): entry for entry in self.change.added}
        for (of_ours, key), home in homes.items():
            if (of_ours, key) not in fragments:
                self.conflicts.append(self.sides.conflict(_ELSEWHERE))
                continue
            decided, compared = self._places(of_ours, home, stale)
            if any(self.columns[at].is_opaque for at in decided):
                self.conflicts.append(self.sides.conflict(OPAQUE, [key] if of_ours else []))
                continue
            rows = np.concatenate(home.rows)
            order = np.argsort(rows)
            base, other = np.concatenate(home.base)[order], np.concatenate(home.other)[order]
            places = tuple(sorted(at for at in compared if not self.columns[at].is_opaque))
            patches.append(
                Patch(of_ours, fragments[of_ours, key], rows[order], base, other, tuple(sorted(decided)), False, places)
            )
        return patches

    def _in_place(self, pairs: Sequence[_Pair], stale: Stale) -> Iterator[Patch]:
        """Fragments in which both sides wrote columns, where one column is of both or was computed from the other."""
        for each in pairs:
            pair = each.pair
            if not (pair.wrote_ours and pair.wrote_theirs) or pair.ours is None or pair.theirs is None:
                continue
            mine = cell_rules.written(pair.base, pair.ours, self.columns)
            other = cell_rules.written(pair.before, pair.theirs, self.columns)
            decided = (mine & other).union(
                (at for at, read in stale.theirs.items() if read & mine),
                (at for at, read in stale.ours.items() if read & other),
            )
            if not decided:
                continue
            if any(self.columns[at].is_opaque for at in decided):
                self.conflicts.append(self.sides.conflict(OPAQUE, [pair.ours.id]))
                continue
            gone = np.concatenate([self.ours.dead(self.sides.base_ours, pair.base), each.ours, each.theirs])
            rows = np.setdiff1d(np.arange(pair.base.physical_rows, dtype=np.int64), gone)
            keys = {at for at, column in enumerate(self.columns) if column.base in self.keys}
            compared = decided.union(
                keys, *(found.get(at, ()) for at in decided for found in (stale.ours, stale.theirs))
            )
            places = tuple(sorted(at for at in compared if not self.columns[at].is_opaque))
            base, theirs = (pair.base.id << 32) + rows, (pair.theirs.id << 32) + rows
            if len(rows):
                both = tuple(sorted(mine & other))
                yield Patch(True, pair.ours, rows, base, theirs, tuple(sorted(decided)), True, places, both)

    def _places(self, of_ours: bool, home: _Home, stale: Stale) -> tuple[set[int], set[int]]:
        """The columns to decide in a home, and those to read for that."""
        every = set(range(len(self.columns)))
        mine, other = (stale.ours, stale.theirs) if of_ours else (stale.theirs, stale.ours)
        if any(home.rewritten):
            return every, every
        decided = home.written | self._new(not of_ours)
        decided |= {at for at, read in mine.items() if read & home.written}
        keys = {at for at, column in enumerate(self.columns) if column.base in self.keys}
        reads = (found.get(at, frozenset()) for at in decided for found in (mine, other))
        return decided, decided.union(keys, *reads)

    def _decided(self, patches: Sequence[Patch], stale: Stale) -> tuple[list[Patch], tuple[Emptied, ...]]:
        """The patches with the columns that they write; adds conflicts. Nothing is written."""
        items = [
            DecideItem(self._place, self.columns, stale, part, at, self.keys)
            for at, patch in enumerate(patches)
            for part in _parts(patch)
        ]
        rows = sum(len(patch.rows) for patch in patches)
        runner = self.engine.for_work("merge", Work(read_bytes=3 * 64 * rows * max(1, len(self.columns))))
        found = runner.collect(_DECIDE, runner.flat_map(_DECIDE, items, decide_part, _OUTCOMES)).to_pylist()
        columns = {at: set(patch.columns) for at, patch in enumerate(patches)}
        for row in found:
            columns[row["patch"]] |= {row["place"]} if row["differs"] else set()
        kept = [replace(patch, columns=tuple(sorted(columns[at]))) for at, patch in enumerate(patches) if columns[at]]
        self._note_clashes(found, patches)
        self._check_keys(kept)
        return kept, self._emptied(found)

    def _note_clashes(self, found: Sequence[Mapping[str, Any]], patches: Sequence[Patch]) -> None:
        shown: defaultdict[int, list[str]] = defaultdict(list)
        fragments: defaultdict[int, set[int]] = defaultdict(set)
        for row in found:
            if row["clashes"]:
                patch = patches[row["patch"]]
                shown[row["place"]] += row["examples"]
                fragments[row["place"]] |= {patch.home.id} if patch.of_ours else set()
        for place, rows in shown.items():
            reason = BOTH_CHANGED.format(self.columns[place].name)
            self.conflicts.append(self.sides.conflict(reason, fragments[place], tuple(rows[:_EXAMPLES])))

    def _check_keys(self, patches: Iterable[Patch]) -> None:
        """A merged row with another key may have that of a third row: whether keys are unique is decided elsewhere."""
        keyed = {name for side in (self.sides.ours, self.sides.theirs) for name in key_columns(side.contents.fields)}
        for column in (self.columns[at] for at in sorted({at for patch in patches for at in patch.columns})):
            if {column.ours, column.theirs} & keyed:
                self.conflicts.append(self.sides.conflict(KEY_CHANGED.format(column.name)))

    def _emptied(self, found: Iterable[Mapping[str, Any]]) -> tuple[Emptied, ...]:
        """How many cells are left empty; a conflict for a column that cannot be null."""
        counts: Counter[tuple[int, bool]] = Counter()
        for row in found:
            for name, of_ours in (("emptied_ours", True), ("emptied_theirs", False)):
                counts[row["place"], of_ours] += row[name]
        told = []
        for (place, of_ours), count in sorted(counts.items()):
            column = self.columns[place]
            if count and not column.nullable:
                self.conflicts.append(self.sides.conflict(NO_NULL.format(column.name)))
            elif count and not (self.sides.by_cells or self.sides.is_backwards):
                self.conflicts.append(self.sides.conflict(f"column '{column.name}' {STALE}"))
            elif count:
                told.append(Emptied(column.name, count, self._branch(of_ours)))
        return tuple(told)

    def _branch(self, of_ours: bool) -> str:
        return (self.sides.our_steps if of_ours else self.sides.their_steps).branch or MAIN

    @property
    def _place(self) -> PatchPlace:
        return place_of(self.locations, self.sides)

    # --- The change

    def _change(
        self, pairs: Sequence[_Pair], masks: Mapping[int, list[Rows]], patches: Sequence[Patch]
    ) -> tuple[MergeChange, dict[int, tuple[int, ...]]]:
        replaced, removed = list(self.change.replaced), list(self.change.removed)
        deletions = {}
        for each in pairs:
            pair = each.pair
            if pair.ours is None:
                continue
            if pair.theirs is None:
                removed.append((pair.before, pair.ours))
                continue
            more = np.setdiff1d(each.theirs, each.ours)
            both = bool(len(more) and len(each.ours))
            if both:
                deletions[pair.ours.id] = tuple(more.tolist())
            if pair.wrote_theirs or len(more):
                found = Replacement(pair.base, pair.ours, pair.theirs, pair.wrote_theirs, bool(len(more)), both)
                replaced.append(found)
        added, hidden = self._masked(masks)
        kept = {entry.id for entry in added}
        followed = replace(self.change.followed, masks={**self.change.followed.masks, **hidden})
        merged = replace(
            self.change,
            added=tuple(added),
            replaced=tuple(replaced),
            removed=tuple(removed),
            cells=(),
            patches=tuple(patch for patch in patches if patch.of_ours or patch.home.id in kept),
            followed=followed,
        )
        return merged, deletions

    def _masked(self, masks: Mapping[int, list[Rows]]) -> tuple[list[Fragment], dict[int, tuple[int, ...]]]:
        """New fragments of theirs without the rows that are merged into fragments of ours."""
        added, hidden = [], {}
        for entry in self.change.added:
            if entry.id in masks:
                known = self.change.followed.masks.get(entry.id)
                dead = self.theirs.dead(self.sides.theirs, entry) if known is None else np.array(known, np.int64)
                mask = np.unique(np.concatenate([dead, *masks[entry.id]]))
                if len(mask) == entry.physical_rows:
                    continue
                hidden[entry.id] = tuple(mask.tolist())
                entry = entry._replace(deletion=DeletionFile(BITMAP, 0, 0, len(mask), None))
            added.append(entry)
        return added, hidden

    def _notes(self, change: MergeChange, homes: Mapping[tuple[bool, int], _Home]) -> tuple[str, ...]:
        """Notes of the comparison that still hold."""
        merged = {key: sum(map(len, home.rows)) for key, home in homes.items()}
        gone = set()
        if all(merged.get((True, entry.id)) == entry.rows for entry in self.ours.added):
            gone.add(NO_VALUES_OURS.format(self._branch(True)))
        if all(merged.get((False, entry.id)) == entry.rows for entry in change.added):
            gone.add(NO_VALUES_THEIRS.format(self._branch(False)))
        return tuple(note for note in change.notes if note not in gone)


def _split(rows: Rows, like: Sequence[Rows]) -> list[Rows]:
    return np.split(rows, np.cumsum([len(each) for each in like])[:-1])


def place_of(locations: Locations, sides: Sides) -> PatchPlace:
    """Where the three versions of a merge are."""
    here, there = locations
    return PatchPlace(here, there, sides.base_ours.pin, sides.ours.pin, sides.theirs.pin)


# --- The decision, on the engine: a part of a patch at a time

_DECIDE = "compare rows"
_PART = 100_000
"""Rows of one item."""
_OUTCOMES = pa.schema(
    [
        ("patch", pa.int64()),
        ("place", pa.int64()),
        ("differs", pa.bool_()),
        ("emptied_ours", pa.int64()),
        ("emptied_theirs", pa.int64()),
        ("clashes", pa.int64()),
        ("examples", pa.list_(pa.string())),
    ]
)


class DecideItem(NamedTuple):
    """Rows of a patch to decide; runs on executors."""

    place: PatchPlace
    columns: tuple[CellColumn, ...]
    stale: Stale
    patch: Patch
    number: int
    keys: tuple[str, ...]


def _parts(patch: Patch) -> Iterator[Patch]:
    for start in range(0, len(patch.rows), _PART):
        part = slice(start, start + _PART)
        yield replace(patch, rows=patch.rows[part], base=patch.base[part], other=patch.other[part])


def decide_part(item: DecideItem) -> Iterator[pa.RecordBatch]:
    """_OUTCOMES of some rows, one for each column that is decided."""
    columns, patch = item.columns, item.patch
    outcomes: dict[int, dict[str, Any]] = {}
    for found, part in read_cells(item.place, columns, patch):
        decided = cell_rules.decide_cells(columns, patch.decided, found, item.stale)
        home = found.ours if patch.of_ours else found.theirs
        for at, values in decided.values.items():
            blank = {"patch": item.number, "place": at, "differs": False, "clashes": 0, "examples": []}
            known = outcomes.setdefault(at, {**blank, "emptied_ours": 0, "emptied_theirs": 0})
            emptied = bool(decided.emptied_ours[at].any() or decided.emptied_theirs[at].any())
            known["differs"] |= emptied if patch.in_place else cell_rules.differs(values, home.get(at))
            known["emptied_ours"] += int(decided.emptied_ours[at].sum())
            known["emptied_theirs"] += int(decided.emptied_theirs[at].sum())
            clashing = np.flatnonzero(decided.clashes[at])
            known["clashes"] += len(clashing)
            for row in clashing[: max(0, _EXAMPLES - len(known["examples"]))].tolist():
                known["examples"].append(_shown(item, found, part, at, row))
    yield pa.RecordBatch.from_pylist(list(outcomes.values()), _OUTCOMES)


_MOST_SHOWN = 60


def _shown(item: DecideItem, found: Cells, part: Patch, at: int, row: int) -> str:
    keys = [place for place, column in enumerate(item.columns) if column.base in item.keys and place in found.base]
    name = item.columns[at].name
    if keys:
        who = ", ".join(f"{item.columns[place].base}={found.base[place][row].as_py()!r}" for place in keys)
    else:
        who = f"row {part.base[row] & 0xFFFFFFFF} of fragment {part.base[row] >> 32}"
    ours, theirs = (_short(side[at][row].as_py()) for side in (found.ours, found.theirs))
    return f"{who}: {name} is {ours} in ours, {theirs} in theirs"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


# --- Files for the patches, on the engine: one for each new fragment whose rows get cells

_WRITE = "write merged columns"
_FILES = pa.schema([("of_ours", pa.bool_()), ("fragment", pa.int64()), ("file", pa.string())])


class WriteItem(NamedTuple):
    """A patch to write; runs on executors."""

    place: PatchPlace
    columns: tuple[CellColumn, ...]
    stale: Stale
    patch: Patch


def write_patches(
    locations: Locations, sides: Sides, change: MergeChange, cells: CellPlan | None, engine: Engine
) -> dict[tuple[bool, int], dict[str, Any]]:
    """Write the files of a decided change: pylance's JSON, with the file's own field ids, by side and fragment.

    They are below the root of ours, and no version names them before the commit.
    """
    if not change.patches or cells is None:
        return {}
    place = place_of(locations, sides)
    items = [WriteItem(place, cells.columns, cells.stale, patch) for patch in change.patches]
    size = sum(patch.home.physical_rows * 64 * len(patch.columns) for patch in change.patches)
    runner = engine.for_work("merge", Work(rewrites=len(items), rewritten_bytes=size))
    found = runner.collect(_WRITE, runner.flat_map(_WRITE, items, write_one, _FILES)).to_pylist()
    return {(row["of_ours"], row["fragment"]): json.loads(row["file"]) for row in found}


def write_one(item: WriteItem) -> Iterator[pa.RecordBatch]:
    """_FILES of one patch."""
    written = write_patch(item.place, item.columns, item.patch, item.stale)
    row = {"of_ours": item.patch.of_ours, "fragment": item.patch.home.id, "file": json.dumps(written)}
    yield pa.RecordBatch.from_pylist([row], _FILES)
