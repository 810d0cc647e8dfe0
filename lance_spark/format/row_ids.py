"""Row identity across versions: stable row ids, labeled runs of rows, and rows traced through compactions. Pure.

Each chain numbers its new rows itself, so two chains give one number to different rows. With two rows of one id, an
index returns the wrong row. So a fragment keeps our ids of the rows from the base, and the commit gives new ids to its
other rows (pylance numbers the rows that follow those with an id).
"""

from __future__ import annotations

import itertools
import json
import sys
from array import array
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lance_spark.core.records.stored_json import decode_json
from lance_spark.errors import CorruptData
from lance_spark.format.contents import Contents, DataFile, DeletionFile, Fragment
from lance_spark.format.manifest import message, parse
from lance_spark.format.versions import Deletions

_WIDTHS = {"narrow": "H", "wide": "I", "whole": "Q"}


def read_row_ids(sequence: bytes) -> list[int]:
    """The row ids of a fragment, in the order of its rows. Raises CorruptData."""
    ids: list[int] = []
    for segment in parse("RowIdSequence", sequence).segments:
        ids += _segment(segment)
    return ids


def write_row_ids(ids: Sequence[int]) -> bytes:
    """A sequence of row ids in the manifest's encoding: one range for each unbroken run."""
    sequence = message("RowIdSequence")
    for start, end in _runs(ids):
        segment = sequence.segments.add()
        segment.range.start, segment.range.end = start, end
    return bytes(sequence.SerializeToString())


def kept_row_ids(
    ids: Sequence[int], known: Callable[[int], int | None], dead: Collection[int] = frozenset()
) -> list[int] | None:
    """The ids that a fragment keeps, in our numbering: those of rows from before the base, which come first.

    ``known`` returns our id of a row; None for a new row. Rows at the positions ``dead`` are deleted: without a known
    id, they get ids that no row here has. The others keep theirs: by these a later merge tells which row an updated one
    was.
    The result is None if old and new rows are mixed, because the commit could not number the new ones.
    """
    known_ids = [known(row) for row in ids]
    new = next((at for at, row in enumerate(known_ids) if row is None and at not in dead), len(ids))
    if any(row is not None and at not in dead for at, row in enumerate(known_ids[new:], new)):
        return None
    if all(at in dead for at in range(new)):
        return []
    end = max(at + 1 for at, row in enumerate(known_ids[:new]) if row is not None)
    taken = {row for row in known_ids if row is not None}
    # The least ones: pylance calls a version corrupt that has an id which is not given out yet.
    free = (row for row in itertools.count() if row not in taken)
    return [next(free) if row is None else row for row in known_ids[:end]]


def matched_row_ids(theirs: bytes, ours: bytes) -> dict[int, int]:
    """Our ids of the rows of a shared fragment, by their ids in theirs."""
    return dict(zip(read_row_ids(theirs), read_row_ids(ours), strict=False))


def _segment(segment: Any) -> Iterable[int]:
    kind = next((field.name for field, _ in segment.ListFields()), None)
    if kind == "range":
        return range(segment.range.start, segment.range.end)
    if kind == "range_with_holes":
        span = segment.range_with_holes
        holes = frozenset(_array(span.holes))
        return [row for row in range(span.start, span.end) if row not in holes]
    if kind == "range_with_bitmap":
        span = segment.range_with_bitmap
        return [row for at, row in enumerate(range(span.start, span.end)) if span.bitmap[at >> 3] >> (at & 7) & 1]
    if kind in ("sorted_array", "array"):
        return _array(getattr(segment, kind))
    raise CorruptData("The row ids use an encoding that this release does not know.")


def _array(encoded: Any) -> list[int]:
    for width, offsets in encoded.ListFields():
        values = array(_WIDTHS[width.name])
        values.frombytes(offsets.values)
        if sys.byteorder == "big":
            values.byteswap()
        return [offsets.base + value for value in values]
    return []


def _runs(ids: Sequence[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for row in ids:
        if runs and runs[-1][1] == row:
            runs[-1] = (runs[-1][0], row + 1)
        else:
            runs.append((row, row + 1))
    return runs


# --- Labeled rows of a fragment, as runs: a compaction of a million rows takes a handful of numbers
# Runs are an array with a row for each: its start, its end, and the label of its first row; subsequent labels go up by
# one. They ascend and do not overlap.

Runs = npt.NDArray[np.int64]
Offsets = npt.NDArray[np.int64]
"""Ascending."""
NONE: Runs = np.zeros((0, 3), np.int64)


def run(rows: int, label: int) -> Runs:
    """The runs of a fragment whose rows are all labeled."""
    return np.array([[0, rows, label]], np.int64) if rows else NONE


def of_rows(rows: Sequence[int] | Offsets, label: int = 0) -> Runs:
    """The runs of some rows, ascending; a row's label is its number plus ``label``."""
    own = np.asarray(rows, np.int64)
    return joined(np.column_stack([own, own + 1, own + label]))


def count(runs: Runs) -> int:
    return int((runs[:, 1] - runs[:, 0]).sum())


def live(runs: Runs, deleted: Offsets) -> Runs:
    if not len(runs) or not len(deleted):
        return runs
    pieces = _cut(runs, np.concatenate([deleted, deleted + 1]))
    return pieces[~_contains(deleted, pieces[:, 0])]


def ranked(runs: Runs, deleted: Offsets) -> Runs:
    """The runs without deleted rows, renumbered by counting only rows that are not deleted."""
    pieces = live(runs, deleted).copy()
    pieces[:, :2] -= np.searchsorted(deleted, pieces[:, 0])[:, None]
    return joined(pieces)


def unranked(runs: Runs, deleted: Offsets, rows: int) -> Runs:
    """The inverse of :func:`ranked`, in a fragment with that many rows."""
    if not len(runs) or not len(deleted):
        return runs
    starts, ends = np.concatenate([[0], deleted + 1]), np.concatenate([deleted, [rows]])
    starts, ends = starts[starts < ends], ends[starts < ends]
    ranks = np.cumsum(np.concatenate([[0], ends - starts]))[:-1]
    pieces = _cut(runs, ranks)
    shift = starts - ranks
    pieces[:, :2] += shift[np.searchsorted(ranks, pieces[:, 0], "right") - 1][:, None]
    return joined(pieces)


def moved(runs: Runs, by: int) -> Runs:
    return runs + np.array([by, by, 0], np.int64)


def part(runs: Runs, start: int, end: int) -> Runs:
    """The runs between two rows, relative to the first of them."""
    pieces = _cut(runs, np.array([start, end], np.int64))
    return moved(pieces[(pieces[:, 0] >= start) & (pieces[:, 1] <= end)], -start)


def joined(runs: Runs) -> Runs:
    """The same rows in as few runs as possible."""
    if len(runs) < 2:
        return runs
    follows = (runs[1:, 0] == runs[:-1, 1]) & (runs[1:, 2] - runs[:-1, 2] == runs[:-1, 1] - runs[:-1, 0])
    first = np.concatenate([[True], ~follows])
    last = np.concatenate([~follows, [True]])
    return np.column_stack([runs[first, 0], runs[last, 1], runs[first, 2]])


def united(one: Runs, other: Runs) -> Runs | None:
    """The labels of both; None if a row's labels differ."""
    if not len(one) or not len(other):
        return one if len(one) else other
    one, other = _cut(one, other[:, :2].ravel()), _cut(other, one[:, :2].ravel())
    at = np.searchsorted(one[:, 0], other[:, 0])
    known = _contains(one[:, 0], other[:, 0])
    if not (one[at[known], 2] == other[known, 2]).all():
        return None
    both = np.concatenate([one, other[~known]])
    return joined(both[np.argsort(both[:, 0])])


def sorted_by_row(several: Sequence[Runs]) -> Runs:
    """Runs of different rows, combined."""
    found = np.concatenate([NONE, *several])
    return found[np.argsort(found[:, 0], kind="stable")]


def by_label(runs: Runs) -> Runs:
    """The runs with labels and rows swapped. Each label must occur once."""
    length = runs[:, 1] - runs[:, 0]
    turned = np.column_stack([runs[:, 2], runs[:, 2] + length, runs[:, 0]])
    return turned[np.argsort(turned[:, 0])]


def overlap(runs: Runs) -> bool:
    """Whether a row, or after :func:`by_label` a label, occurs twice. The runs must ascend."""
    return bool((runs[1:, 0] < runs[:-1, 1]).any())


def without(runs: Runs, others: Runs) -> Runs:
    return _chosen(runs, others, False)


def within(runs: Runs, others: Runs) -> Runs:
    return _chosen(runs, others, True)


def _chosen(runs: Runs, others: Runs, inside: bool) -> Runs:
    if not len(runs) or not len(others):
        return NONE if inside else runs
    pieces = _cut(runs, others[:, :2].ravel())
    at = np.searchsorted(others[:, 0], pieces[:, 0], "right") - 1
    known = (at >= 0) & (pieces[:, 0] < others[at, 1])
    return joined(pieces[known == inside])


def rows_of(runs: Runs) -> Offsets:
    lengths = runs[:, 1] - runs[:, 0]
    first = np.repeat(runs[:, 0] - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths) if len(runs) else NONE[:, 0]
    found: Offsets = first + np.arange(int(lengths.sum()), dtype=np.int64)
    return found


def _cut(runs: Runs, at: Offsets) -> Runs:
    """The same rows, with a new run at each of these positions."""
    if not len(runs):
        return runs
    bounds = np.unique(np.concatenate([runs[:, 0], runs[:, 1], at]))
    starts, ends = bounds[:-1], bounds[1:]
    own = np.searchsorted(runs[:, 0], starts, "right") - 1
    inside = (own >= 0) & (starts < runs[own, 1])
    starts, ends, own = starts[inside], ends[inside], own[inside]
    return np.column_stack([starts, ends, runs[own, 2] + starts - runs[own, 0]])


def _contains(ascending: Offsets, values: Offsets) -> npt.NDArray[np.bool_]:
    if not len(ascending):
        return np.zeros(len(values), bool)
    at = np.minimum(np.searchsorted(ascending, values), len(ascending) - 1)
    return np.asarray(ascending[at] == values)


# --- Compactions as statements about rows: equal rows in old and new files
# A data file never changes. So its file and position identify a row, and a compaction states that the live rows of some
# files, in order, are the live rows of others. A branch merge combines the statements of both sides and of earlier
# branch merges: a row is searched in all files that a statement connects.

REWRITES = "lance_spark.rewrites"
"""Transaction property: the compactions that a version took over. Its own operation does not show them."""
_MOST = 4 * 1024 * 1024
"""Maximum length of that property in characters. Without it, later branch merges find fewer rows, and report it."""

DeletionKey = tuple[str, int, int, int]
"""A deletion file: data file of the fragment, version that was read, number, rows."""


Pairs = npt.NDArray[np.int64]
"""A row for each pair of equal rows: the position of the old fragment, the offset in it; the same of the new one."""


class Rewrite(NamedTuple):
    """One compaction: the live rows of ``old``, in order, are those of ``new``."""

    old: tuple[Fragment, ...]
    """Their state right before."""
    new: tuple[Fragment, ...]
    deletions: Mapping[DeletionKey, Deletions] = {}
    """The present or former places of these fragments' deletion files."""
    pairs: Pairs | None = None
    """Only these rows, in any order, as their values tell; None for all live rows, in order."""

    @property
    def paths(self) -> set[str]:
        return {file.path for entry in (*self.old, *self.new) for file in entry.files}


def deletion_key(fragment: Fragment) -> DeletionKey | None:
    """The key of a fragment's deletion file, unique wherever the file is; None if no row is deleted."""
    deletion = fragment.deletion
    if deletion is None:
        return None
    return fragment.files[0].path, deletion.read_version, deletion.id, deletion.rows


class Files:
    """Which data files have the same rows: those of one fragment, and of all fragments that share a file with it."""

    def __init__(self, fragments: Iterable[Fragment]) -> None:
        self._names: dict[str, str] = {}
        for fragment in fragments:
            for file in fragment.files:
                self._join(fragment.files[0].path, file.path)

    def _find(self, path: str) -> str:
        while (above := self._names.get(path, path)) != path:
            path = above
        return path

    def _join(self, one: str, other: str) -> None:
        self._names.setdefault(one, one)
        first, second = self._find(one), self._find(other)
        if first != second:
            self._names[second] = first

    def key(self, fragment: Fragment) -> str:
        known = next((file.path for file in fragment.files if file.path in self._names), None)
        return self._find(fragment.files[0].path if known is None else known)

    def paths(self, keys: Collection[str]) -> set[str]:
        """The data files of the fragments with these names."""
        return {path for path in self._names if self._find(path) in keys}

    def join(self, fragments: Sequence[Fragment]) -> None:
        for fragment in fragments[1:]:
            self._join(self.key(fragments[0]), self.key(fragment))


@dataclass(frozen=True)
class Connected:
    """Groups of fragments that compactions connect."""

    rewrites: tuple[Rewrite, ...]

    @cached_property
    def _groups(self) -> Files:
        groups = Files(entry for each in self.rewrites for entry in (*each.old, *each.new))
        for each in self.rewrites:
            groups.join([*each.old, *each.new])
        return groups

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(path for each in self.rewrites for path in each.paths)

    def group(self, fragment: Fragment) -> str | None:
        """The group of compactions that a fragment belongs to; None if there is none."""
        path = next((file.path for file in fragment.files if file.path in self._known), None)
        return None if path is None else self._groups.key(fragment)

    def lost(self, old: Iterable[Fragment], new: Iterable[Fragment]) -> list[Fragment]:
        """The old fragments that no compaction connects with a new one."""
        known = {group for entry in new if (group := self.group(entry)) is not None}
        return [entry for entry in old if self.group(entry) not in known]

    def of(self, groups: Collection[str]) -> tuple[Rewrite, ...]:
        return tuple(each for each in self.rewrites if self.group((*each.old, *each.new)[0]) in groups)


@dataclass(frozen=True)
class Traced:
    """The places of labeled rows, by the name of a fragment's rows."""

    files: Files
    labels: dict[str, Runs] = field(default_factory=dict)
    doubtful: tuple[str, ...] = ()
    """The reason why no row is certain; empty if there is no contradiction."""
    complete: bool = True
    """False if deletion files are gone, so that some compactions do not count and rows look updated."""

    def labels_of(self, fragment: Fragment) -> Runs:
        """The labels of a fragment's rows, including deleted ones."""
        return self.labels.get(self.files.key(fragment), NONE)


Deleted = Callable[[Fragment], "Offsets | None"]
"""The deleted rows of a fragment; None if unknown."""


def trace(start: Sequence[tuple[Fragment, Runs]], rewrites: Sequence[Rewrite], deleted: Deleted) -> Traced:
    """Find labeled rows in all files that compactions moved them to or from. No two labels share a row."""
    files = Files([*(each for each, _ in start), *(entry for each in rewrites for entry in (*each.old, *each.new))])
    bijections = [
        _Bijection.of(each, files, deleted) if each.pairs is None else _Matched.of(each, files) for each in rewrites
    ]
    doubtful = [each for each in bijections if isinstance(each, str)]
    labels = {files.key(fragment): runs for fragment, runs in start}
    if not doubtful and not _spread([each for each in bijections if isinstance(each, _Bijection | _Matched)], labels):
        doubtful.append("two compactions contradict each other about a row")
    return Traced(files, labels, tuple(doubtful), None not in bijections)


def _spread(bijections: Sequence[_Bijection | _Matched], labels: dict[str, Runs]) -> bool:
    """Spread labels until nothing changes; False if they contradict."""
    changed = True
    while changed:
        changed = False
        for each in bijections:
            found = each.spread(labels)
            if found is None:
                return False
            changed = changed or found
    return True


class _Member(NamedTuple):
    key: str
    rows: int
    deleted: Offsets

    @property
    def live(self) -> int:
        return self.rows - len(self.deleted)


@dataclass(frozen=True)
class _Bijection:
    old: tuple[_Member, ...]
    new: tuple[_Member, ...]

    @classmethod
    def of(cls, rewrite: Rewrite, files: Files, deleted: Deleted) -> _Bijection | str | None:
        """None if deletion files are gone; a reason if counts or ids of rows do not agree."""
        sides = []
        for side in (rewrite.old, rewrite.new):
            gone = [deleted(entry) for entry in side]
            if any(entry is None for entry in gone):
                return None
            sides.append(
                tuple(
                    _Member(files.key(entry), entry.physical_rows, offsets)
                    for entry, offsets in zip(side, gone, strict=True)
                    if offsets is not None
                )
            )
        if sum(entry.live for entry in sides[0]) != sum(entry.live for entry in sides[1]):
            return "a compaction changed the number of rows"
        if not _same_ids(rewrite, sides):
            return "a compaction changed row ids"
        return cls(*sides)

    def spread(self, labels: dict[str, Runs]) -> bool | None:
        """Give the rows of one side the other side's labels. Whether any was new; None if labels contradict."""
        both = united(_sequence(self.old, labels), _sequence(self.new, labels))
        if both is None:
            return None
        total, changed = count(both), False
        for side in (self.old, self.new):
            if count(_sequence(side, labels)) == total:
                continue
            changed, start = True, 0
            for member in side:
                own = unranked(part(both, start, start + member.live), member.deleted, member.rows)
                more = united(labels.get(member.key, NONE), own)
                if more is None:
                    return None
                labels[member.key] = more
                start += member.live
        return changed


@dataclass(frozen=True)
class _Matched:
    """Rows whose values tell where they are."""

    keys: tuple[tuple[str, ...], tuple[str, ...]]
    """Names of the rows of old and new fragments."""
    pairs: Pairs

    @classmethod
    def of(cls, rewrite: Rewrite, files: Files) -> _Matched:
        keys = (tuple(map(files.key, rewrite.old)), tuple(map(files.key, rewrite.new)))
        return cls(keys, np.zeros((0, 4), np.int64) if rewrite.pairs is None else rewrite.pairs)

    def spread(self, labels: dict[str, Runs]) -> bool | None:
        """Give the rows of one side the other side's labels. Whether any was new; None if labels contradict."""
        old, new = (self._labels(side, labels) for side in (0, 1))
        if ((old >= 0) & (new >= 0) & (old != new)).any():
            return None
        changed = False
        for side, known, others in ((0, old, new), (1, new, old)):
            for at, key in enumerate(self.keys[side]):
                rows = (self.pairs[:, 2 * side] == at) & (known < 0) & (others >= 0)
                if not rows.any():
                    continue
                offsets, found = self.pairs[rows, 2 * side + 1], others[rows]
                order = np.argsort(offsets)
                own = joined(np.column_stack([offsets[order], offsets[order] + 1, found[order]]))
                more = united(labels.get(key, NONE), own)
                if more is None:
                    return None
                labels[key], changed = more, True
        return changed

    def _labels(self, side: int, labels: Mapping[str, Runs]) -> Offsets:
        """The label of each pair's row on a side; -1 for none."""
        found = np.full(len(self.pairs), -1, np.int64)
        for at, key in enumerate(self.keys[side]):
            runs = labels.get(key, NONE)
            rows = np.flatnonzero(self.pairs[:, 2 * side] == at)
            if not len(runs) or not len(rows):
                continue
            offsets = self.pairs[rows, 2 * side + 1]
            own = np.maximum(np.searchsorted(runs[:, 0], offsets, "right") - 1, 0)
            inside = (runs[own, 0] <= offsets) & (offsets < runs[own, 1])
            found[rows[inside]] = (runs[own, 2] + offsets - runs[own, 0])[inside]
        return found


def _sequence(side: Sequence[_Member], labels: Mapping[str, Runs]) -> Runs:
    """The labels of a side's live rows, in order."""
    pieces, start = [NONE], 0
    for member in side:
        if member.key in labels:
            pieces.append(moved(ranked(labels[member.key], member.deleted), start))
        start += member.live
    return joined(np.concatenate(pieces))


def _same_ids(rewrite: Rewrite, sides: Sequence[Sequence[_Member]]) -> bool:
    """Whether row ids, if they are stable and known, agree."""
    if not all(entry.row_ids for entry in (*rewrite.old, *rewrite.new)):
        return True
    old, new = (_live_ids(*side) for side in zip((rewrite.old, rewrite.new), sides, strict=True))
    return old is not None and new is not None and np.array_equal(old, new)


def _live_ids(fragments: Sequence[Fragment], members: Sequence[_Member]) -> Offsets | None:
    """The ids of live rows; None if a fragment does not have one for each row."""
    found = [np.zeros(0, np.int64)]
    for fragment, member in zip(fragments, members, strict=True):
        ids = np.array(read_row_ids(fragment.row_ids), np.int64)
        if len(ids) != member.rows:
            return None
        found.append(np.delete(ids, member.deleted))
    return np.concatenate(found)


def taken_over(rewrites: Sequence[Rewrite], base: Contents) -> tuple[Rewrite, ...]:
    """The compactions that affect rows of the base, each once: later branch merges need them."""
    if not rewrites:
        return ()
    connected = Connected(rewrites=tuple(rewrites))
    touched = base.fragments_with({path for each in rewrites for path in each.paths})
    found = connected.of({group for entry in touched if (group := connected.group(entry)) is not None})
    found = tuple(each for each in found if each.pairs is None)
    return tuple({tuple(tuple(map(_identity, side)) for side in each[:2]): each for each in found}.values())


def _identity(fragment: Fragment) -> tuple[Any, ...]:
    return tuple(file.path for file in fragment.files), deletion_key(fragment)


def write_rewrites(rewrites: Iterable[Rewrite]) -> dict[str, str]:
    """Compactions as a transaction property; empty if there are none, or far too many."""
    listed = [[[_plain(entry, each) for entry in side] for side in (each.old, each.new)] for each in rewrites]
    written = json.dumps(listed, separators=(",", ":")) if listed else ""
    return {REWRITES: written} if 0 < len(written) <= _MOST else {}


def _plain(fragment: Fragment, rewrite: Rewrite) -> list[Any]:
    files = [[file.path, list(file.fields)] for file in fragment.files]
    deletion, key = fragment.deletion, deletion_key(fragment)
    if deletion is None or key is None:
        return [fragment.id, fragment.physical_rows, files]
    where = rewrite.deletions.get(key)
    place = [where.root, where.path] if where is not None else None
    return [
        fragment.id,
        fragment.physical_rows,
        files,
        [deletion.file_type, deletion.read_version, deletion.id, deletion.rows, place],
    ]


def read_rewrites(properties: Mapping[str, str]) -> tuple[Rewrite, ...]:
    """The compactions in transaction properties; none if they cannot be read."""
    try:
        listed = decode_json(properties.get(REWRITES, "[]"))
        return tuple(_rewrite(old, new) for old, new in listed)
    except (ValueError, TypeError, IndexError):
        return ()


def _rewrite(old: list[Any], new: list[Any]) -> Rewrite:
    places: dict[DeletionKey, Deletions] = {}
    return Rewrite(tuple(_read(each, places) for each in old), tuple(_read(each, places) for each in new), places)


def _read(plain: list[Any], places: dict[DeletionKey, Deletions]) -> Fragment:
    number, rows, files, *more = plain
    named = tuple(DataFile(path, tuple(fields), 0, None) for path, fields in files)
    fragment = Fragment(number, named, None, rows, b"", False)
    for kind, version, identity, gone, place in more:
        fragment = fragment._replace(deletion=DeletionFile(kind, version, identity, gone, None))
        key = deletion_key(fragment)
        if place and key is not None:
            places[key] = Deletions(*place)
    return fragment
