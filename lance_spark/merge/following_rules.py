"""Follows contested rows through the compactions of both sides. Pure.

In: a change with a contest, and the deleted rows of its fragments. Out: the change without the contest. Ours keeps its
fragments. Rows that theirs deleted or updated are deleted where ours has them now. New fragments of theirs leave out
the rows that ours already has.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from lance_spark.errors import CorruptData
from lance_spark.format import row_ids as of_runs
from lance_spark.format.contents import DeletionFile, Fragment
from lance_spark.format.operations import Steps
from lance_spark.format.row_ids import NONE, Deleted, Offsets, Rewrite, Runs, Traced, read_row_ids, trace
from lance_spark.format.versions import Snapshot, by_file, columns, counterpart
from lance_spark.merge import change_rules

BITMAP = 1
"""Type of the deletion files that are written here."""
COLUMNS_COMPACTED = "theirs wrote a column of rows that were compacted"
BACK_TWICE = "theirs restored rows that ours also has, or whose fragment ours changed"
UNCERTAIN = "rows were compacted, and it is not certain where they are"
_OF_ROWS = (change_rules.GONE_OURS.reason, change_rules.GONE_THEIRS.reason)
"""Conflicts about rows whose places are known now: those that both sides changed are left open."""


class Clash(NamedTuple):
    """Why a fragment of the base cannot be settled, with example rows."""

    reason: str
    pair: change_rules.BasePair | None
    offsets: tuple[int, ...] = ()


class Settled(NamedTuple):
    """The change without the contest, and what prevents it."""

    change: change_rules.MergeChange
    clashes: tuple[Clash, ...]
    ours_old: Mapping[int, Runs]
    """Rows in new fragments of ours that come from contested fragments, by id."""


def settle(sides: change_rules.Sides, change: change_rules.MergeChange, deleted: Deleted) -> Settled:
    """Decide the contest of a change. ``deleted`` gives the deleted rows of each of its fragments."""
    contest = change.contest
    if contest is None:
        return Settled(change, (), {})
    start = [
        (pair.before, of_runs.live(of_runs.run(pair.before.physical_rows, at << 32), known(deleted, pair.before)))
        for at, pair in enumerate(contest.pairs)
    ]
    traced = trace(start, contest.rewrites, deleted)
    if traced.doubtful:
        return Settled(change, tuple(Clash(f"{UNCERTAIN}: {why}", None) for why in traced.doubtful), {})
    followers = [_Holding(traced, side, deleted) for side in (contest.ours, contest.theirs)]
    if any(side.is_double for side in followers):
        return Settled(change, (Clash(f"{UNCERTAIN}: a row would be in two fragments", None),), {})
    return _Settling(sides, change, contest, deleted, traced, (followers[0], followers[1])).run()


class _Holding:
    """Where one side has the rows of the contest."""

    def __init__(self, traced: Traced, fragments: Iterable[Fragment], deleted: Deleted) -> None:
        self.live: dict[int, Runs] = {}
        """Rows that are not deleted, by fragment."""
        self.fragments = {}
        for fragment in fragments:
            own = of_runs.live(traced.labels_of(fragment), known(deleted, fragment))
            if len(own):
                self.live[fragment.id], self.fragments[fragment.id] = own, fragment
        self.labels = of_runs.sorted_by_row([of_runs.by_label(own) for own in self.live.values()])

    @property
    def is_double(self) -> bool:
        return of_runs.overlap(self.labels)

    def places(self, labels: Runs) -> dict[int, Offsets]:
        found = {}
        for key, own in self.live.items():
            here = of_runs.within(of_runs.by_label(own), labels)
            if len(here):
                found[key] = np.sort(of_runs.rows_of(of_runs.by_label(here)))
        return found


class _Settling:
    def __init__(
        self,
        sides: change_rules.Sides,
        change: change_rules.MergeChange,
        contest: change_rules.Contest,
        deleted: Deleted,
        traced: Traced,
        followers: tuple[_Holding, _Holding],
    ) -> None:
        self.sides, self.change, self.contest, self.deleted, self.traced = sides, change, contest, deleted, traced
        self.ours, self.theirs = followers
        self.base = of_runs.sorted_by_row(
            [
                of_runs.by_label(
                    of_runs.live(of_runs.run(pair.base.physical_rows, at << 32), known(deleted, pair.base))
                )
                for at, pair in enumerate(contest.pairs)
            ]
        )
        self.gone_ours = of_runs.without(self.base, self.ours.labels)
        self.gone_theirs = of_runs.without(self.base, self.theirs.labels)
        self.back = {
            at: rows
            for at, pair in enumerate(contest.pairs)
            if pair.after is not None and len(rows := of_runs.rows_of(self._new(pair.after)))
        }
        """By pair: rows that are deleted in the base but not in theirs."""

    def _new(self, fragment: Fragment) -> Runs:
        """The live rows of a fragment of theirs that are not live in the base."""
        alive = of_runs.live(of_runs.run(fragment.physical_rows, 0), known(self.deleted, fragment))
        return of_runs.without(alive, self.traced.labels_of(fragment))

    def run(self) -> Settled:
        clashes: list[Clash] = []
        cells: dict[int, change_rules.CellPair] = {}
        for found in self._clashes():
            if isinstance(found, Clash):
                clashes.append(found)
            else:
                cells[found[0]] = found[1]
        tied = set(self.contest.tied)
        added = [entry for entry in self.change.added if entry not in tied]
        coming = [entry for entry in self.change.added if entry in tied]
        back = [pair.after for at, pair in enumerate(self.contest.pairs) if pair.after is not None and at in self.back]
        if self._are_in_ours([*coming, *back]):
            clashes.append(Clash(BACK_TWICE, None))
        masks: dict[int, tuple[int, ...]] = {}
        for fragment in (*coming, *back):
            new = self._new(fragment)
            if not len(new):
                continue
            mask = of_runs.rows_of(of_runs.without(of_runs.run(fragment.physical_rows, 0), new))
            if len(mask) > len(known(self.deleted, fragment)):
                masks[fragment.id] = tuple(mask.tolist())
                fragment = fragment._replace(deletion=DeletionFile(BITMAP, 0, 0, len(mask), None))
            added.append(fragment)
        deletions = {key: tuple(rows.tolist()) for key, rows in self.ours.places(self.gone_theirs).items()}
        row_ids = self._row_ids(added) if self.sides.ours.contents.has_stable_row_ids else {}
        change = replace(
            self.change,
            added=tuple(added),
            contest=None,
            cells=(*self.change.cells, *cells.values()),
            shared=self._left_open(cells),
            followed=change_rules.Followed(deletions, masks, row_ids=row_ids),
        )
        return Settled(change, tuple(clashes), self.ours.live)

    def _are_in_ours(self, fragments: Sequence[Fragment]) -> bool:
        """Whether ours already has rows that theirs would bring, or a fragment with the same files."""
        here = {self.traced.files.key(fragment) for fragment in self.contest.ours}
        if any(self.traced.files.key(fragment) in here for fragment in fragments):
            return True
        start = []
        for at, fragment in enumerate(fragments):
            new = self._new(fragment)
            start.append((fragment, np.column_stack([new[:, :2], new[:, 0] + (at << 32)])))
        traced = trace(start, self.contest.rewrites, self.deleted)
        return bool(traced.doubtful) or bool(_Holding(traced, self.contest.ours, self.deleted).live)

    def _clashes(self) -> Iterable[Clash | tuple[int, change_rules.CellPair]]:
        """What cannot be settled by rows: conflicts, and pairs that are left to be decided cell by cell."""
        sides = self.sides
        ours = self._written(self.contest.ours, sides.our_steps.rewrites, (sides.base_ours, sides.ours))
        theirs = self._written(self.contest.theirs, sides.their_steps.rewrites, (sides.base_theirs, sides.theirs))
        our_kinds = _Kinds(self, self.ours, self.gone_ours, (), self.sides.our_steps, ours)
        their_kinds = _Kinds(self, self.theirs, self.gone_theirs, self.back, self.sides.their_steps, theirs)
        both = of_runs.within(self.gone_theirs, self.gone_ours)
        for at, pair in enumerate(self.contest.pairs):
            here, there = our_kinds.of(at, pair), their_kinds.of(at, pair)
            rows_only = sides.settling and change_rules.FragmentChange.COLUMNS_WRITTEN not in here | there
            decisions = change_rules.decide(change_rules.FRAGMENTS, there, here)
            clashes = [
                Clash(each.reason, pair)
                for each in decisions
                if each.is_conflict and not (rows_only and each.reason in _OF_ROWS)
            ]
            if change_rules.FragmentChange.COLUMNS_WRITTEN in there:
                clashes.append(Clash(COLUMNS_COMPACTED, pair))
            shared = self._shared(both, at)
            if len(shared) and not sides.settling and change_rules.FragmentChange.GONE not in here | there:
                clashes.append(Clash(change_rules.OTHER_ROWS.reason, pair, tuple(shared[:5].tolist())))
            cells = self._cells(at, (here, there), clashes[0].reason) if clashes else None
            if cells is None:
                yield from clashes
            else:
                yield at, cells

    def _cells(
        self, at: int, kinds: tuple[set[change_rules.FragmentChange], ...], reason: str
    ) -> change_rules.CellPair | None:
        """A pair that is decided cell by cell; None if it cannot be.

        Which columns a side wrote before it compacted them, only its versions tell.
        """
        pair, (here, there) = self.contest.pairs[at], kinds
        places = self._at(self.ours, at), self._at(self.theirs, at)
        ours = self._in_place(self.ours, pair, places[0])
        wrote = [change_rules.FragmentChange.COLUMNS_WRITTEN in each for each in kinds]
        compacted = ours is None, pair.after is None or change_rules.FragmentChange.COMPACTED in there
        lost = any(
            wrote[at] and compacted[at] and steps.on_columns is None
            for at, steps in enumerate((self.sides.our_steps, self.sides.their_steps))
        )
        never = any(
            not each.by_cells and (each.is_conflict or each.if_other_rows)
            for each in change_rules.decide(change_rules.FRAGMENTS, there, here)
            if each != change_rules.OTHER_COLUMNS
        )
        if not self.sides.by_cells or at in self.back or lost or never:
            return None
        rows = of_runs.rows_of(_of_pair(self.base, at)) - (at << 32)
        traced = change_rules.TracedRows(
            rows, _addresses(places[0], rows), _addresses(places[1], rows), self.traced.complete
        )
        return change_rules.CellPair(
            pair.before, pair.base, ours, pair.after, reason, wrote[0], wrote[1], traced=traced
        )

    def _at(self, side: _Holding, at: int) -> dict[int, Runs]:
        """Where a side has the rows of a pair: by fragment, its rows labeled with the offsets in the base."""
        found = {}
        for key, own in side.live.items():
            mine = own[own[:, 2] >> 32 == at]
            if len(mine):
                found[key] = mine - np.array([0, 0, at << 32], np.int64)
        return found

    def _in_place(self, side: _Holding, pair: change_rules.BasePair, places: Mapping[int, Runs]) -> Fragment | None:
        """The fragment of a side that still has the files of the base, if all its rows of the pair are there."""
        own = [side.fragments[key] for key in places]
        key = self.traced.files.key(pair.before)
        return own[0] if len(own) == 1 and self.traced.files.key(own[0]) == key else None

    def _shared(self, both: Runs, at: int) -> Offsets:
        """The rows of a pair that both sides deleted or updated."""
        return of_runs.rows_of(_of_pair(both, at)) - (at << 32)

    def _left_open(self, cells: Collection[int]) -> tuple[tuple[change_rules.BasePair, tuple[int, ...]], ...]:
        """Rows that both sides deleted or updated, to be compared one by one, but for those of some pairs."""
        if not self.sides.settling:
            return ()
        both = of_runs.within(self.gone_theirs, self.gone_ours)
        found = ((pair, self._shared(both, at)) for at, pair in enumerate(self.contest.pairs))
        open_ones = (each for at, each in enumerate(found) if at not in cells)
        return tuple((pair, tuple(rows.tolist())) for pair, rows in open_ones if len(rows))

    def _written(
        self, now: Iterable[Fragment], rewrites: Iterable[Rewrite], versions: tuple[Snapshot, Snapshot]
    ) -> frozenset[int]:
        """The numbers of the pairs where a side wrote columns or restored dropped ones, from base to newest.

        Then a fragment has other files than before.
        """
        base, side = versions
        before = [pair.before for pair in self.contest.pairs]
        states: defaultdict[str, list[Fragment]] = defaultdict(list)
        for fragment in (*before, *now):
            states[self.traced.files.key(fragment)].append(fragment)
        relevant = set(map(id, self.contest.rewrites))
        for rewrite in rewrites:
            for fragment in (*rewrite.old, *rewrite.new) if id(rewrite) in relevant else ():
                states[self.traced.files.key(fragment)].append(fragment)
        in_base = {self.traced.files.key(fragment) for fragment in before}
        found: set[int] = set()
        for key, several in states.items():
            first = columns(several[0], side.live & base.live if key in in_base else side.live)
            if any(columns(other, side.live) != first or other.has_overlays for other in several):
                found.update(np.unique(self.traced.labels.get(key, NONE)[:, 2] >> 32).tolist())
        return frozenset(found)

    def _row_ids(self, added: Sequence[Fragment]) -> dict[int, int]:
        """Ids in ours of contested rows that new fragments of theirs contain."""
        wanted = np.array(sorted({row for entry in added for row in read_row_ids(entry.row_ids)}), np.int64)
        numbering = self.sides.numbering
        known_there = {} if numbering is None else by_file(numbering.contents.fragments())
        labels, rows = [NONE[:, 0]], [NONE[:, 0]]
        for at, pair in enumerate(self.contest.pairs):
            named = pair.before if numbering is None else counterpart(pair.before, known_there)
            ids = np.array(read_row_ids(named.row_ids) if named is not None else [], np.int64)
            offsets = np.flatnonzero(np.isin(ids, wanted))
            labels.append(offsets + (at << 32))
            rows.append(ids[offsets])
        label, row = np.concatenate(labels), np.concatenate(rows)
        found: dict[int, int] = {}
        for key, own in self.ours.live.items() if len(label) else ():
            ids_here = read_row_ids(self.ours.fragments[key].row_ids)
            for start, end, first in own.tolist():
                low, high = np.searchsorted(label, [first, first + end - start])
                places = (start + label[low:high] - first).tolist()
                found |= {
                    theirs: ids_here[place]
                    for theirs, place in zip(row[low:high].tolist(), places, strict=True)
                    if place < len(ids_here)
                }
        return found


class _Kinds:
    """What a side did to contested fragments, now that the places of their rows are known."""

    def __init__(
        self,
        settling: _Settling,
        side: _Holding,
        gone: Runs,
        back: Collection[int],
        steps: Steps,
        written: frozenset[int],
    ) -> None:
        self._base, self._gone, self._back, self._written = settling.base, gone, back, written
        only_deleted = steps.moves_no_rows and settling.traced.complete
        self._changed = (
            change_rules.FragmentChange.ROWS_DELETED if only_deleted else change_rules.FragmentChange.ROWS_UPDATED
        )
        files = settling.traced.files
        self._moved: defaultdict[int, set[str]] = defaultdict(set)
        for key, own in side.live.items():
            for pair in np.unique(own[:, 2] >> 32).tolist():
                self._moved[pair].add(files.key(side.fragments[key]))
        self._key = files.key

    def of(self, at: int, pair: change_rules.BasePair) -> set[change_rules.FragmentChange]:
        gone = _of_pair(self._gone, at)
        if of_runs.count(gone) == of_runs.count(_of_pair(self._base, at)) and at not in self._back:
            return {change_rules.FragmentChange.GONE}
        kinds = set()
        if self._moved[at] - {self._key(pair.before)}:
            kinds.add(change_rules.FragmentChange.COMPACTED)
        if len(gone) or at in self._back:
            kinds.add(self._changed)
        if at in self._written:
            kinds.add(change_rules.FragmentChange.COLUMNS_WRITTEN)
        return kinds or {change_rules.FragmentChange.UNCHANGED}


def _addresses(places: Mapping[int, Runs], rows: Offsets) -> Offsets:
    """The addresses of rows of the base; negative where a side does not have them."""
    found = np.full(len(rows), -1, np.int64)
    for key, runs in places.items():
        turned = of_runs.by_label(runs)
        found[np.searchsorted(rows, of_runs.rows_of(turned))] = (key << 32) + of_runs.rows_of(
            np.column_stack([turned[:, 2], turned[:, 2] + turned[:, 1] - turned[:, 0], turned[:, 0]])
        )
    return found


def known(deleted: Deleted, fragment: Fragment) -> Offsets:
    """The deleted rows of a fragment in an existing version. Raises CorruptData."""
    found = deleted(fragment)
    if found is None:
        raise CorruptData(f"The deleted rows of fragment {fragment.id} cannot be read.")
    return found


def _of_pair(labels: Runs, at: int) -> Runs:
    """The part of some labels that belongs to one pair; a run never spans two pairs."""
    start, end = np.searchsorted(labels[:, 0], [at << 32, (at + 1) << 32])
    return labels[start:end]
