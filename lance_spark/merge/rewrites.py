"""Compactions as statements about rows: which rows of old files and of new ones are the same. Pure.

A data file never changes. So a row is known by its file and its place in it, and a compaction says: the live rows of
these files, one after the other, are the live rows of those. Statements of both sides of a merge, and of merges before
it, are put together: a row is looked for in all files that it is said to be in.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from lance_spark.manifest.contents import Contents, DataFile, DeletionFile, Fragment
from lance_spark.merge.row_ids import read_row_ids
from lance_spark.merge.runs import (
    NONE,
    Offsets,
    Runs,
    count,
    joined,
    moved,
    part,
    ranked,
    united,
    unranked,
)
from lance_spark.merge.snapshot import Deletions

REWRITES = "lance_spark.rewrites"
"""Transaction property: the compactions that a version took over. Its own operation does not tell them."""
_MOST = 4 * 1024 * 1024
"""Characters of that property. Without it later merges find fewer rows, and say so."""

DeletionKey = tuple[str, int, int, int]
"""A deletion file: data file of the fragment, version that was read, number, rows."""


class Rewrite(NamedTuple):
    """One compaction: the live rows of ``old``, one after the other, are those of ``new``."""

    old: tuple[Fragment, ...]
    """As they were right before."""
    new: tuple[Fragment, ...]
    deletions: Mapping[DeletionKey, Deletions] = {}
    """Where deletion files of these fragments are, or were."""

    @property
    def paths(self) -> set[str]:
        """All data files."""
        return {file.path for entry in (*self.old, *self.new) for file in entry.files}


def deletion_key(fragment: Fragment) -> DeletionKey | None:
    """What tells the deletion file of a fragment from all others, wherever it is; None where no row is deleted."""
    deletion = fragment.deletion
    if deletion is None:
        return None
    return fragment.files[0].path, deletion.read_version, deletion.id, deletion.rows


class Files:
    """Which data files have the same rows: those of one fragment, as long as one of them is among its files."""

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
        """The name of the fragment's rows."""
        known = next((file.path for file in fragment.files if file.path in self._names), None)
        return self._find(fragment.files[0].path if known is None else known)

    def paths(self, keys: Collection[str]) -> set[str]:
        """The data files of the fragments with these names."""
        return {path for path in self._names if self._find(path) in keys}

    def join(self, fragments: Sequence[Fragment]) -> None:
        """Let fragments have one name."""
        for fragment in fragments[1:]:
            self._join(self.key(fragments[0]), self.key(fragment))


@dataclass(frozen=True)
class Connected:
    """Fragments by the compactions that connect them."""

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
        """What names the compactions that a fragment is connected with; None if there is none."""
        path = next((file.path for file in fragment.files if file.path in self._known), None)
        return None if path is None else self._groups.key(fragment)

    def of(self, groups: Collection[str]) -> tuple[Rewrite, ...]:
        """The compactions of some groups."""
        return tuple(each for each in self.rewrites if self.group((*each.old, *each.new)[0]) in groups)


@dataclass(frozen=True)
class Traced:
    """Where labelled rows are: by the name of a fragment's rows."""

    files: Files
    labels: dict[str, Runs] = field(default_factory=dict)
    doubtful: tuple[str, ...] = ()
    """Why no row is certain; empty if nothing contradicts."""
    complete: bool = True
    """False if deletion files are gone, so that some compactions do not count: rows look as if they were updated."""

    def labels_of(self, fragment: Fragment) -> Runs:
        """The labels of a fragment's rows, deleted ones among them."""
        return self.labels.get(self.files.key(fragment), NONE)


Deleted = Callable[[Fragment], "Offsets | None"]
"""The deleted rows of a fragment; None if nobody knows them any more."""


def trace(start: Sequence[tuple[Fragment, Runs]], rewrites: Sequence[Rewrite], deleted: Deleted) -> Traced:
    """Look for labelled rows in all files that compactions moved them to or from. No two labels are of one row."""
    files = Files([*(each for each, _ in start), *(entry for each in rewrites for entry in (*each.old, *each.new))])
    bijections = [_Bijection.of(each, files, deleted) for each in rewrites]
    doubtful = [each for each in bijections if isinstance(each, str)]
    labels = {files.key(fragment): runs for fragment, runs in start}
    if not doubtful and not _spread([each for each in bijections if isinstance(each, _Bijection)], labels):
        doubtful.append("two compactions say different things about a row")
    return Traced(files, labels, tuple(doubtful), None not in bijections)


def _spread(bijections: Sequence[_Bijection], labels: dict[str, Runs]) -> bool:
    """Spread labels until nothing is new; False if they contradict."""
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
        """None if deletion files are gone; a reason if numbers or ids of rows do not agree."""
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
            return "a compaction has another number of rows after it than before"
        if not _same_ids(rewrite, sides):
            return "a compaction has other row ids after it than before"
        return cls(*sides)

    def spread(self, labels: dict[str, Runs]) -> bool | None:
        """Give rows of one side the labels of the other. Whether any was new; None if labels contradict."""
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


def _sequence(side: Sequence[_Member], labels: Mapping[str, Runs]) -> Runs:
    """The labels of the live rows of a side, one after the other."""
    pieces, start = [NONE], 0
    for member in side:
        if member.key in labels:
            pieces.append(moved(ranked(labels[member.key], member.deleted), start))
        start += member.live
    return joined(np.concatenate(pieces))


def _same_ids(rewrite: Rewrite, sides: Sequence[Sequence[_Member]]) -> bool:
    """Whether row ids, where they are stable and known, are those of the same rows."""
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
    """The compactions that concern rows of the base: later merges have to know them. Each is there once."""
    if not rewrites:
        return ()
    connected = Connected(rewrites=tuple(rewrites))
    touched = base.fragments_with({path for each in rewrites for path in each.paths})
    found = connected.of({group for entry in touched if (group := connected.group(entry)) is not None})
    return tuple({tuple(tuple(map(_identity, side)) for side in each[:2]): each for each in found}.values())


def _identity(fragment: Fragment) -> tuple[Any, ...]:
    return tuple(file.path for file in fragment.files), deletion_key(fragment)


def write_rewrites(rewrites: Iterable[Rewrite]) -> dict[str, str]:
    """Compactions as a transaction property; nothing if there are none, or far too many."""
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
        listed = json.loads(properties.get(REWRITES, "[]"))
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
