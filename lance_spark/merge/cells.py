"""Rows that both sides changed, merged cell by cell: finds them, decides their cells, and writes files with columns.

In: a change whose fragments are left open. Out: the same change without open fragments, or what prevents it; later, a
file for each new fragment whose rows get cells of the other side. Only contested rows are read, in batches, on the
engine; nothing is written before the whole merge is decided.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from lance_spark.core.refs import MAIN
from lance_spark.engine.local import Engine, Work
from lance_spark.format.contents import DeletionFile, Fragment
from lance_spark.format.operations import key_columns, key_fields, top_level
from lance_spark.format.versions import delta
from lance_spark.merge import cell_rules
from lance_spark.merge.cell_files import (
    DECIDE,
    OUTCOMES,
    CellSide,
    DecideItem,
    PatchPlace,
    by_fragment,
    compare_survivors,
    decide_part,
    parts,
    place_of,
    rows_of,
)
from lance_spark.merge.cell_rules import (
    NOWHERE,
    ROW,
    STALE,
    TWIN,
    CellPlan,
    CellRule,
    Emptied,
    Form,
    Given,
    SettledRows,
)
from lance_spark.merge.change_rules import (
    OTHER_COLUMNS,
    CellPair,
    Computed,
    MergeChange,
    MergeConflict,
    Patch,
    Replacement,
    Rows,
    Sides,
    computed_by,
)
from lance_spark.merge.conflict_rules import (
    AMBIGUOUS,
    BOTH_CHANGED,
    KEY_CHANGED,
    NO_NULLS,
    NO_VALUES_OURS,
    NO_VALUES_THEIRS,
    OPAQUE,
    SAME_KEY,
)
from lance_spark.merge.following_rules import BITMAP
from lance_spark.merge.option_rules import OURS, Prefer
from lance_spark.merge.row_conflicts import Locations, dead_rows, examples
from lance_spark.scan.fragment_reads import FragmentRows, stored_schema

_EXAMPLES = 5
_NONE: Rows = np.zeros(0, np.int64)
_DELETED = "both sides deleted or updated the same rows"
_ELSEWHERE = "rows that theirs rewrote are in ours already"
NO_NULL = f"column '{{}}' cannot be null, and {STALE}"


class SettledCells(NamedTuple):
    change: MergeChange
    deletions: Mapping[int, tuple[int, ...]] = {}
    """Rows to delete where both sides removed rows: offsets in the fragment of ours, by its id."""
    conflicts: tuple[MergeConflict, ...] = ()
    cells: CellPlan | None = None


Addresses = npt.NDArray[np.int64]
"""Of rows that are one row, in ours and in theirs: two columns."""
NO_TWINS: Addresses = np.zeros((0, 2), np.int64)


class Matching(NamedTuple):
    """Which rows are the same, beside what ids and the table's key tell."""

    on: tuple[str, ...] = ()
    """Columns by which to match rows that have no stable ids."""
    twins: Addresses = NO_TWINS
    """Rows that both sides added under one key."""
    asks: bool = False
    """Whether the caller decides about rows that nothing else settles."""
    given: Given | None = None
    """What the caller decided."""


def settle_cells(
    locations: Locations, sides: Sides, change: MergeChange, engine: Engine, matching: Matching
) -> SettledCells:
    """Decide the open fragments of a change."""
    if not (change.cells or change.shared or len(matching.twins)):
        return SettledCells(change)
    return _CellSettling(locations, sides, change, engine, matching).run()


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
        return bool(self.wanted(True).any() or self.wanted(False).any())

    def wrote(self, of_ours: bool) -> bool:
        """Whether a side wrote columns of rows that it still has."""
        wrote, here = (self.pair.wrote_ours, self.pair.ours) if of_ours else (self.pair.wrote_theirs, self.pair.theirs)
        return wrote and (here is not None or self.pair.traced is not None)

    def there(self, of_ours: bool, rows: Rows) -> Rows:
        """The addresses of rows that a side neither deleted nor rewrote."""
        if self.pair.traced is not None:
            return self.pair.traced.find(of_ours, rows)
        here = self.pair.ours if of_ours else self.pair.theirs
        return rows if here is None else (here.id << 32) + rows

    def is_known(self, of_ours: bool) -> bool:
        """Whether each row that a side no longer has here was deleted or rewritten, and not only moved."""
        if self.pair.traced is not None:
            return self.pair.traced.complete
        return (self.pair.ours if of_ours else self.pair.theirs) is not None

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


class _CellSettling:
    def __init__(
        self, locations: Locations, sides: Sides, change: MergeChange, engine: Engine, matching: Matching
    ) -> None:
        self.locations, self.sides, self.change, self.engine = locations, sides, change, engine
        here, there = locations
        mine, other = delta(sides.base_ours, sides.ours), delta(sides.base_theirs, sides.theirs)
        numbering = sides.numbering or sides.base_theirs
        below = sides.same_below
        self.ours = CellSide(
            here,
            sides.ours,
            sides.base_ours,
            sides.our_steps,
            mine.added,
            sides.our_numbering,
            below,
            mine,
            sides.settling,
        )
        self.theirs = CellSide(
            there,
            sides.theirs,
            sides.base_theirs,
            sides.their_steps,
            other.added,
            numbering,
            below,
            other,
            sides.settling,
        )
        self.columns = cell_rules.cell_columns(sides)
        fields = [key_columns(snapshot.contents.fields) for snapshot in (sides.ours, sides.theirs)]
        self.twins = matching.twins
        self.keys = matching.on or next((names for names in fields if names), ())
        self.asks, self.given = matching.asks, matching.given
        self.open: list[Patch] = []
        """Rows that nothing settles, if the caller decides about them."""
        self.by_key_alone = sides.settling and bool(sides.prefer or matching.asks)
        """Whether a row with another key is another row, and not perhaps the same one."""
        self.conflicts: list[MergeConflict] = []
        self.deleted: defaultdict[int, list[Rows]] = defaultdict(list)
        """Rows of ours that go because theirs deleted them, by fragment."""
        self.settled = 0
        """Rows in which the preferred side won."""

    def run(self) -> SettledCells:
        pairs = self._pairs()
        try:
            self._locate(pairs, self.ours)
            self._locate(pairs, self.theirs)
        except _Untraceable as why:
            refused = self._refused([(each.pair, str(why)) for each in pairs if each.is_open])
            column = self._telling_column(pairs) if self.sides.settling and not self.keys else ()
            return refused._replace(conflicts=tuple(replace(each, on=column) for each in refused.conflicts))
        if self.conflicts:
            return SettledCells(replace(self.change, cells=()), conflicts=tuple(self.conflicts))
        homes, masks = self._homes(pairs)
        self._add_twins(homes, masks)
        if self.sides.settling:
            self._settle_deletions(pairs, homes, masks)
            self._let_go(homes, masks)
        else:
            self._check_deletions(pairs)
            if self.conflicts:
                return SettledCells(replace(self.change, cells=()), conflicts=tuple(self.conflicts))
        rule = self._rule()
        patches = [*self._patches(homes, rule), *self._in_place(pairs, rule)]
        patches, emptied = self._decided(patches, rule)
        rows = sum(len(each) for home in homes.values() for each in home.rows)
        change, deletions = self._change(pairs, masks, patches)
        change = replace(change, notes=self._notes(change, homes))
        settled = SettledRows(self.settled, self.sides.prefer.text) if self.by_key_alone else None
        plan = CellPlan(self.columns, rule, rows, emptied, tuple(self.open), self.keys, settled)
        return SettledCells(change, deletions, tuple(self.conflicts), plan)

    def _telling_column(self, pairs: Sequence[_Pair]) -> tuple[str, ...]:
        """A column that tells which rows both sides changed, and that neither changed in any row; the first one."""
        names = [each.base for each in self.columns if each.base and each.ours and each.theirs and not each.is_opaque]
        schema = stored_schema(self.locations[0], self.sides.base_ours.pin)
        self.by_key_alone = False  # a column that a side changed finds none of its rows, and must not count
        for name in names:
            kind = schema.field(name).type
            if not (pt.is_integer(kind) or pt.is_string(kind) or pt.is_large_string(kind)):
                continue
            self.keys = (name,)
            with suppress(_Untraceable):
                self._locate(pairs, self.ours)
                self._locate(pairs, self.theirs)
                return self.keys
        return ()

    # --- Rows that both sides added, or that one side deleted

    def _add_twins(self, homes: dict[tuple[bool, int], _Home], masks: defaultdict[int, list[Rows]]) -> None:
        """Rows that both sides added under one key: one of them stays, at its place in ours."""
        for key, here in by_fragment(self.twins[:, 0]):
            rows, other = self.twins[here, 0] & 0xFFFFFFFF, self.twins[here, 1]
            home = homes.setdefault((True, key), _Home([], [], [], set(), []))
            home.rows.append(rows)
            home.base.append(np.full(len(rows), NOWHERE, np.int64))
            home.other.append(other)
            home.rewritten.append(True)
        for key, there in by_fragment(self.twins[:, 1]):
            masks[key].append(self.twins[there, 1] & 0xFFFFFFFF)

    def _let_go(self, homes: Mapping[tuple[bool, int], _Home], masks: defaultdict[int, list[Rows]]) -> None:
        """Rows of both sides that go because the caller says so."""
        for (of_ours, key), home in homes.items() if self.given is not None else ():
            assert self.given is not None
            rows, base = np.concatenate(home.rows), np.concatenate(home.base)
            names = np.where(base == NOWHERE, (key << 32) + rows, base)
            self.settled += int(self.given.find(names)[0].sum())
            goes = self.given.goes(names)
            if goes.any():
                (self.deleted if of_ours else masks)[key].append(rows[goes])

    def _settle_deletions(
        self, pairs: Sequence[_Pair], homes: dict[tuple[bool, int], _Home], masks: defaultdict[int, list[Rows]]
    ) -> None:
        """Rows that one side deleted and the other changed go to the preferred side.

        What the other side only moved, it did not change: the deletion is the only change.
        """
        wins, told, count = self.sides.prefer.side(), list[str](), 0
        for found in compare_survivors(self._place, self.columns, self.keys, self._survivors(pairs), self.engine):
            patch, lost = found.patch, ~found.changed
            if wins is not None:
                lost |= found.changed & ((wins == OURS) != patch.of_ours)
                self.settled += int(found.changed.sum())
            elif self.given is not None:
                home = homes.setdefault((patch.of_ours, patch.home.id), _Home([], [], [], set(), []))
                home.rows.append(patch.rows[found.changed])
                home.base.append(patch.base[found.changed])
                home.other.append(patch.other[found.changed])
                home.rewritten.append(True)
            else:
                self.open += [patch.part(found.changed)] if self.asks else []
                told += found.told
                count += int(found.changed.sum())
            rows = patch.rows[lost]
            if len(rows):
                (self.deleted if patch.of_ours else masks)[patch.home.id].append(rows)
        if count:
            self.conflicts.append(self._contested(_DELETED, (), told, count))
        self._settle_twice_deleted(pairs)

    def _survivors(self, pairs: Sequence[_Pair]) -> list[Patch]:
        """Rows that one side deleted, where the other one has them now."""
        rows: defaultdict[tuple[bool, int], list[Rows]] = defaultdict(list)
        base: defaultdict[tuple[bool, int], list[Rows]] = defaultdict(list)
        for each in pairs:
            both, in_ours, in_theirs = np.intersect1d(each.ours, each.theirs, return_indices=True)
            at_ours, at_theirs = each.at_ours[in_ours], each.at_theirs[in_theirs]
            for of_ours, here, there in ((True, at_ours, at_theirs), (False, at_theirs, at_ours)):
                alone = (here != NOWHERE) & (there == NOWHERE)
                for key, inside in by_fragment(here[alone]):
                    rows[of_ours, key].append(here[alone][inside] & 0xFFFFFFFF)
                    base[of_ours, key].append((each.pair.base.id << 32) + both[alone][inside])
        found = []
        places = self._comparable(range(len(self.columns)))
        for (of_ours, key), several in rows.items():
            home = self.ours.fragment(key) if of_ours else self.theirs.fragment(key)
            offsets = np.concatenate(several)
            order = np.argsort(offsets)
            addresses, nowhere = np.concatenate(base[of_ours, key])[order], np.full(len(order), NOWHERE, np.int64)
            found.append(Patch(of_ours, home, offsets[order], addresses, nowhere, places, False, places))
        return found

    def _settle_twice_deleted(self, pairs: Sequence[_Pair]) -> None:
        """Rows that both sides deleted are a conflict, unless one side is preferred: then both had their way."""
        for each in pairs:
            both, in_ours, in_theirs = np.intersect1d(each.ours, each.theirs, return_indices=True)
            gone = both[(each.at_ours[in_ours] == NOWHERE) & (each.at_theirs[in_theirs] == NOWHERE)]
            if not len(gone) or not each.pair.is_strict:
                continue
            if self.sides.prefer.side() is not None or self.asks:
                self.settled += len(gone)
                continue
            rows = examples(self.locations[0], self.sides.base_ours, each.pair.base, gone[:_EXAMPLES].tolist())
            conflict = self.sides.conflict(_DELETED, [(each.pair.ours or each.pair.base).id], rows)
            self.conflicts.append(replace(conflict, count=len(gone)))

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
            if pair.traced is not None:
                found.append(_Pair(pair, pair.traced.gone(True), pair.traced.gone(False)))
                continue
            ours, theirs = self.ours.removed(pair.base, pair.ours), self.theirs.removed(pair.before, pair.theirs)
            if ours is None or theirs is None:
                self.conflicts.append(self.sides.conflict(pair.reason, [(pair.ours or pair.base).id]))
                continue
            found.append(_Pair(pair, ours, theirs))
        for each, offsets in self.change.shared:
            moved = CellPair(each.before, each.base, None, None, _DELETED, is_moved=True, is_strict=True)
            found.append(_Pair(moved, np.array(offsets, np.int64), np.array(offsets, np.int64)))
        return found

    def _locate(self, pairs: Sequence[_Pair], side: CellSide) -> None:
        """Find the rows that a side removed: in its new fragments, or nowhere. Raises _Untraceable."""
        mine = side is self.ours
        wanted = [each.wanted(mine) for each in pairs]
        removed = [
            (each.pair.base if mine else each.pair.before, (each.ours if mine else each.theirs)[chosen])
            for each, chosen in zip(pairs, wanted, strict=True)
        ]
        # Rows that left a fragment were deleted if no version rewrites rows. Those of a fragment that is gone may have
        # come into others by a merge, without any version of this side that moved them.
        known = [each.is_known(mine) for each, chosen in zip(pairs, wanted, strict=True) if chosen.any()]
        stayed = (side.steps.moves_no_rows and all(known)) or (self.sides.settling and not side.rewrote)
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

    def _by_id(self, side: CellSide, removed: Sequence[tuple[Fragment, Rows]]) -> list[Rows] | None:
        if not side.now.contents.has_stable_row_ids:
            return None
        wanted = [side.ids(fragment)[rows] if len(rows) else _NONE for fragment, rows in removed]
        if any((own == NOWHERE).any() for own in wanted) or side.candidates is None:
            return None
        found = cell_rules.find_ids(np.concatenate(wanted), side.candidates)
        return None if found is None else _split(found, wanted)

    def _by_key(self, side: CellSide, removed: Sequence[tuple[Fragment, Rows]]) -> list[Rows]:
        names = [column.base for column in self.columns]
        here = [column.ours if side is self.ours else column.theirs for column in self.columns]
        if not self.keys or not set(self.keys) <= set(names):
            raise _Untraceable
        renamed = dict(zip(names, here, strict=True))
        now = [renamed[key] or "" for key in self.keys]
        there = side.keys(side.now, side.places, now).rename_columns([*self.keys, "address"])
        found = [self._matched(side, fragment, rows, there) for fragment, rows in removed]
        if any((addresses == NOWHERE).any() for addresses in found) and not self.by_key_alone:
            self._check_same_keys(side, there)
        return found

    def _matched(self, side: CellSide, fragment: Fragment, rows: Rows, there: pa.Table) -> Rows:
        """The addresses of rows of a base's fragment, by key. Raises _Untraceable."""
        if not len(rows) or not there.num_rows:
            return np.full(len(rows), NOWHERE, np.int64)
        wanted = side.keys(side.base, [FragmentRows(fragment.id, pa.array(rows, pa.uint32()))], self.keys)
        found = cell_rules.find_keys(wanted.sort_by("address"), there, self.keys)
        if found is None or len(found) != len(rows):
            raise _Untraceable("several rows have the same key")
        return found

    def _check_same_keys(self, side: CellSide, there: pa.Table) -> None:
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

    def _homes(self, pairs: Sequence[_Pair]) -> tuple[dict[tuple[bool, int], _Home], defaultdict[int, list[Rows]]]:
        """The rows of each new fragment that get cells of the other side, and those of theirs that ours has."""
        homes: dict[tuple[bool, int], _Home] = {}
        masks: defaultdict[int, list[Rows]] = defaultdict(list)

        def put(of_ours: bool, at: Rows, rows: Rows, other: Rows, each: _Pair, rewritten: bool) -> None:
            pair, written = each.pair, self._written(each.pair, not of_ours)
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
            if each.wrote(False):
                only = ~np.isin(each.ours, each.theirs) & (each.at_ours != NOWHERE)
                rows = each.ours[only]
                put(True, each.at_ours[only], rows, each.there(False, rows), each, False)
                if pair.traced is not None:  # these rows are in fragments that ours compacted
                    moved = (pair.traced.at_ours >= 0) & (pair.traced.at_theirs >= 0)
                    rows = pair.traced.rows[moved]
                    put(True, pair.traced.at_ours[moved], rows, pair.traced.at_theirs[moved], each, False)
            if each.wrote(True):
                only = ~np.isin(each.theirs, each.ours) & (each.at_theirs != NOWHERE)
                rows = each.theirs[only]
                put(False, each.at_theirs[only], rows, each.there(True, rows), each, False)
        return homes, masks

    def _written(self, pair: CellPair, by_ours: bool) -> frozenset[int]:
        """The columns of the base, by place, that a side wrote in place; all where it compacted them afterwards."""
        wrote, before, here = (
            (pair.wrote_ours, pair.base, pair.ours) if by_ours else (pair.wrote_theirs, pair.before, pair.theirs)
        )
        if not wrote or (here is None and pair.traced is None):
            return frozenset()
        if here is None or (pair.traced is not None and pair.traced.has_moved(by_ours, here.id)):
            return frozenset(at for at, column in enumerate(self.columns) if column.base is not None)
        return cell_rules.written(before, here, self.columns)

    def _check_deletions(self, pairs: Sequence[_Pair]) -> None:
        """A row that one side deleted and the other updated is a conflict."""
        for each in pairs:
            both, in_ours, in_theirs = np.intersect1d(each.ours, each.theirs, return_indices=True)
            gone = (each.at_ours[in_ours] == NOWHERE, each.at_theirs[in_theirs] == NOWHERE)
            clash = both[gone[0] != gone[1]] if self.sides.by_cells else both
            if len(clash):
                rows = examples(self.locations[0], self.sides.base_ours, each.pair.base, clash[:_EXAMPLES].tolist())
                # A side that only moved all rows of a fragment changed none: their values may tell.
                moved = not (each.is_known(True) and each.is_known(False))
                reason = each.pair.reason if moved else _DELETED
                self.conflicts.append(self.sides.conflict(reason, [(each.pair.ours or each.pair.base).id], rows))

    # --- Columns, and the decision

    def _rule(self) -> CellRule:
        """What each side computed, and from which columns."""
        ours, theirs = (computed_by(self.sides, is_ours) for is_ours in (True, False))
        names_ours, names_theirs = ([column.named(is_ours) for column in self.columns] for is_ours in (True, False))
        prefer = self.sides.prefer if self.sides.settling else Prefer()
        sides = {at: prefer.side(each.name, each.ours, each.theirs, each.base) for at, each in enumerate(self.columns)}
        return CellRule(
            cell_rules.reads_of(self.columns, ours, names_ours, self._computed(True, ours)),
            cell_rules.reads_of(self.columns, theirs, names_theirs, self._computed(False, theirs)),
            wins={at: side for at, side in sides.items() if side is not None},
            is_whole=self.sides.settling and not self.sides.by_cells,
            rest=prefer.rest,
            given=self.given,
        )

    def _new(self, in_ours: bool) -> set[int]:
        return {at for at, column in enumerate(self.columns) if column.base is None and column.named(in_ours)}

    def _computed(self, by_ours: bool, computed: Computed) -> set[int]:
        """The columns that a side added or may have computed.

        A row that is updated after a column of it was computed moves to a new file, which does not tell: so what the
        versions record counts for all rows, whatever became of the files.
        """
        told = (at for at, column in enumerate(self.columns) if column.named(by_ours) in computed.record)
        in_place = (self._written(pair, by_ours) for pair in self.change.cells if pair.traced is None)
        return self._new(by_ours).union(told, *in_place)

    def _patches(self, homes: Mapping[tuple[bool, int], _Home], rule: CellRule) -> list[Patch]:
        patches = []
        fragments = {(True, entry.id): entry for entry in self.sides.ours.contents.fragments()} if homes else {}
        fragments |= {(False, entry.id): entry for entry in self.change.added}
        for (of_ours, key), home in homes.items():
            if (of_ours, key) not in fragments:
                self.conflicts.append(self.sides.conflict(_ELSEWHERE))
                continue
            decided, compared = self._places(of_ours, home, rule)
            if any(self.columns[at].form is Form.NEVER for at in decided):
                self.conflicts.append(self.sides.conflict(OPAQUE, [key] if of_ours else []))
                continue
            rows = np.concatenate(home.rows)
            order = np.argsort(rows)
            base, other = np.concatenate(home.base)[order], np.concatenate(home.other)[order]
            where = fragments[of_ours, key], rows[order], base, other
            patches.append(Patch(of_ours, *where, tuple(sorted(decided)), False, self._comparable(compared)))
        return patches

    def _comparable(self, places: Iterable[int]) -> tuple[int, ...]:
        return tuple(sorted(at for at in places if self.columns[at].form is not Form.NEVER))

    def _in_place(self, pairs: Sequence[_Pair], rule: CellRule) -> Iterator[Patch]:
        """Fragments in which both sides wrote columns, where one column is of both or was computed from the other."""
        for each in pairs:
            pair = each.pair
            if not (pair.wrote_ours and pair.wrote_theirs) or pair.ours is None or pair.theirs is None or pair.traced:
                continue
            mine = cell_rules.written(pair.base, pair.ours, self.columns)
            other = cell_rules.written(pair.before, pair.theirs, self.columns)
            decided = (mine & other).union(
                (at for at, read in rule.theirs.items() if read & mine),
                (at for at, read in rule.ours.items() if read & other),
            )
            if not decided:
                continue
            if any(self.columns[at].is_opaque for at in decided):
                self.conflicts.append(self.sides.conflict(OPAQUE, [pair.ours.id]))
                continue
            gone = np.concatenate([self.ours.dead(self.sides.base_ours, pair.base), each.ours, each.theirs])
            rows = np.setdiff1d(np.arange(pair.base.physical_rows, dtype=np.int64), gone)
            keys = {at for at, column in enumerate(self.columns) if column.base in self.keys}
            compared = decided.union(keys, *(found.get(at, ()) for at in decided for found in (rule.ours, rule.theirs)))
            places = self._comparable(compared)
            base, theirs = (pair.base.id << 32) + rows, (pair.theirs.id << 32) + rows
            if len(rows):
                both = tuple(sorted(mine & other))
                yield Patch(True, pair.ours, rows, base, theirs, tuple(sorted(decided)), True, places, both)

    def _places(self, of_ours: bool, home: _Home, rule: CellRule) -> tuple[set[int], set[int]]:
        """The columns to decide in a home, and those to read for that."""
        every = set(range(len(self.columns)))
        if rule.is_whole:
            return every, every
        mine, other = (rule.ours, rule.theirs) if of_ours else (rule.theirs, rule.ours)
        if any(home.rewritten):
            return every, every
        decided = home.written | self._new(not of_ours)
        decided |= {at for at, read in mine.items() if read & home.written}
        keys = {at for at, column in enumerate(self.columns) if column.base in self.keys}
        reads = (found.get(at, frozenset()) for at in decided for found in (mine, other))
        return decided, decided.union(keys, *reads)

    def _decided(self, patches: Sequence[Patch], rule: CellRule) -> tuple[list[Patch], tuple[Emptied, ...]]:
        """The patches with the columns that they write; adds conflicts. Nothing is written."""
        items = [
            DecideItem(self._place, self.columns, rule, each, at, self.keys, self.asks and self.given is None)
            for at, patch in enumerate(patches)
            for each in parts(patch)
        ]
        rows = sum(len(patch.rows) for patch in patches)
        runner = self.engine.for_work("merge", Work(read_bytes=3 * 64 * rows * max(1, len(self.columns))))
        found = runner.collect(DECIDE, runner.flat_map(DECIDE, items, decide_part, OUTCOMES)).to_pylist()
        columns = {at: set(patch.columns) for at, patch in enumerate(patches)}
        opaque: list[Patch] = []
        for row in found:
            if row["differs"] and self.columns[row["place"]].is_opaque:
                opaque.append(patches[row["patch"]])
            elif row["differs"]:
                columns[row["patch"]].add(row["place"])
            self.settled += row["settled"]
            if row["open"]:
                patch = patches[row["patch"]]
                self.open.append(patch.part(np.isin(patch.rows, row["open"])))
        if opaque:
            self.conflicts.append(self.sides.conflict(OPAQUE, {each.home.id for each in opaque if each.of_ours}))
        kept = [replace(patch, columns=tuple(sorted(columns[at]))) for at, patch in enumerate(patches) if columns[at]]
        self._note_clashes(found, patches)
        self._check_keys(kept)
        return kept, self._emptied(found)

    def _note_clashes(self, found: Sequence[Mapping[str, Any]], patches: Sequence[Patch]) -> None:
        told: defaultdict[str, list[str]] = defaultdict(list)
        fragments: defaultdict[str, set[int]] = defaultdict(set)
        counts: Counter[str] = Counter()
        for row in found:
            if row["clashes"] or row["nulls"]:
                patch = patches[row["patch"]]
                reasons = [(self._reason(row["place"], patch), "told", row["clashes"])] if row["clashes"] else []
                if row["nulls"]:
                    name = self.columns[row["place"]].name
                    reason = f"column '{name}' {NO_NULLS}, and merged rows have no value in it"
                    reasons.append((reason, "lacking", row["nulls"]))
                for reason, name, count in reasons:
                    told[reason] += row[name]
                    counts[reason] += count
                    fragments[reason] |= {patch.home.id} if patch.of_ours else set()
        for reason, rows in told.items():
            self.conflicts.append(self._contested(reason, fragments[reason], rows, counts[reason]))

    def _reason(self, place: int, patch: Patch) -> str:
        """Why rows of a patch clash: in a column, as a whole, or as two new ones."""
        if place == TWIN:
            return SAME_KEY
        if place == ROW:
            return OTHER_COLUMNS.reason if patch.in_place else _DELETED
        return BOTH_CHANGED.format(self.columns[place].name)

    def _contested(self, reason: str, fragments: Iterable[int], told: Sequence[str], count: int) -> MergeConflict:
        """A conflict with rows that both sides changed."""
        rows = rows_of(told)
        conflict = self.sides.conflict(reason, fragments, tuple(map(str, rows[:_EXAMPLES])))
        return replace(conflict, contested=rows, count=count)

    def _check_keys(self, patches: Iterable[Patch]) -> None:
        """A merged row with another key may have that of a third row: whether keys are unique is decided elsewhere."""
        both = (self.sides.ours.contents.fields, self.sides.theirs.contents.fields)
        keyed = {name for each in both for name in top_level(each, (entry.id for entry in key_fields(each)))}
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
            elif count and not (self.sides.by_cells or self.sides.is_backwards or self.sides.prefer):
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
            if pair.ours is None or pair.traced is not None:
                continue  # also if its rows were moved: then the comparison knows already what becomes of it
            if pair.theirs is None:
                removed.append((pair.before, pair.ours))
                continue
            more = np.setdiff1d(each.theirs, each.ours)
            both = bool(len(more) and len(each.ours))
            if both:
                deletions[pair.ours.id] = tuple(more.tolist())
            if pair.wrote_theirs or len(more) or pair.theirs.id in self.theirs.back:
                found = Replacement(pair.base, pair.ours, pair.theirs, pair.wrote_theirs, bool(len(more)), both)
                replaced.append(found)
        replaced, back = self._with_back(replaced, masks)
        deletions = {key: rows for key, rows in deletions.items() if key not in back}
        added, hidden = self._masked(masks)
        kept = {entry.id for entry in added}
        before = self.change.followed
        followed = replace(
            before,
            masks={**before.masks, **hidden},
            deletions={**before.deletions, **self._more_deletions(before.deletions)},
            back=back,
        )
        merged = replace(
            self.change,
            added=tuple(added),
            replaced=tuple(replaced),
            removed=tuple(removed),
            cells=(),
            shared=(),
            patches=tuple(patch for patch in patches if patch.of_ours or patch.home.id in kept),
            followed=followed,
        )
        return merged, deletions

    def _more_deletions(self, known: Mapping[int, Sequence[int]]) -> dict[int, tuple[int, ...]]:
        """Rows of ours that go because theirs deleted them, beside those that go already."""
        return {
            key: tuple(sorted({*known.get(key, ()), *np.concatenate(rows).tolist()}))
            for key, rows in self.deleted.items()
        }

    def _with_back(
        self, replaced: Iterable[Replacement], masks: Mapping[int, list[Rows]]
    ) -> tuple[list[Replacement], dict[int, tuple[int, ...]]]:
        """The fragments of ours that change, and all deleted rows of those in which theirs has rows back.

        Rows that are merged into other fragments of ours do not come back.
        """
        left, back = [], {}
        for each in replaced:
            if each.theirs.id in self.theirs.back:
                mine = self.ours.dead(self.sides.ours, each.ours)
                kept = np.concatenate([_NONE, *masks.get(each.theirs.id, ())])
                before = self.ours.dead(self.sides.base_ours, each.base)
                dead = dead_rows(before, mine, self.theirs.dead(self.sides.theirs, each.theirs), kept)
                if np.array_equal(dead, mine):
                    if each.files:
                        left.append(replace(each, deletion=False, both_deleted=False))
                    continue
                back[each.ours.id] = tuple(dead.tolist())
                each = replace(each, deletion=True, both_deleted=False)
            left.append(each)
        return left, back

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
