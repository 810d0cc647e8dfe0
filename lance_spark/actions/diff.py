"""``diff A..B``: from the state of one version to that of another.

Two manifests are read, and deletion files where they differ. Rows are read only if that is asked for, and only those of
fragments that differ; with stable row ids also their ids, which the manifests hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.actions.differing_rows import Identity, compare_ids, compare_rows, examples, identity_of
from lance_spark.history.columns import common_columns, common_fields, compare_columns, top_level
from lance_spark.history.difference import (
    BLOBS_BY_SIZE,
    NOT_COMPARED,
    ColumnValues,
    Diff,
    FragmentCounts,
    RowCounts,
    RowExample,
)
from lance_spark.history.fragments import FragmentChanges, FragmentPair, match, stat
from lance_spark.location import DatasetLocation
from lance_spark.manifest.contents import Contents, Fragment, decode_contents
from lance_spark.refs.model import PinnedVersion
from lance_spark.store import changes as stored
from lance_spark.store import version_reader
from lance_spark.store.changes import FragmentRows, RowSource
from lance_spark.store.deletions import deleted_offsets
from lance_spark.store.parallel import THREADS
from lance_spark.store.scanning import blob_columns, count_rows


def diff(
    location: DatasetLocation,
    a: PinnedVersion,
    b: PinnedVersion,
    rows: bool = False,
    limit: int = 20,
    counts_only: bool = False,
) -> Diff:
    """How to get from version ``a`` to version ``b``; with ``rows``, by comparing the rows that may differ.

    With ``counts_only`` the numbers of the manifests are taken as they are: a deletion file is read only where both
    versions delete rows of one fragment. ``limit`` is how many example rows of each kind are given. Raises NotFound
    for a version that is not there.
    """
    sides = _read(location, a, b)
    changes = match(sides.before, sides.after)
    deletions = [_Deletions(sides, pair, counts_only) for pair in changes.changed if not pair.deletes_alike]
    row_changes = _RowChanges(sides, changes, deletions)
    counts, shown, notes = row_changes.compared(limit) if rows else row_changes.counted()
    return Diff(
        before=a,
        after=b,
        columns=compare_columns(sides.before.fields, sides.after.fields),
        rows=counts,
        stat=replace(stat(changes), rows_added=counts.added, rows_removed=counts.deleted),
        fragments=FragmentCounts(
            same=sides.after.fragment_count - len(changes.added) - len(changes.changed),
            added=len(changes.added),
            removed=len(changes.removed),
            changed=len(changes.changed),
        ),
        values=_values(sides, changes.changed),
        examples=shown,
        notes=notes,
    )


@dataclass(frozen=True)
class ComparedVersions:
    """The two versions."""

    location: DatasetLocation
    a: PinnedVersion
    b: PinnedVersion
    before: Contents
    after: Contents

    @property
    def counted(self) -> bool:
        """Whether the manifests say how many rows fragments have."""
        return self.before.counts_rows and self.after.counts_rows


def _read(location: DatasetLocation, a: PinnedVersion, b: PinnedVersion) -> ComparedVersions:
    with ThreadPoolExecutor(2) as pool:
        before, after = pool.map(lambda pin: decode_contents(version_reader.read_manifest(location, pin)), (a, b))
    return ComparedVersions(location, a, b, before, after)


@dataclass(frozen=True)
class _Deletions:
    """Rows of one pair of fragments that are deleted in one version only."""

    sides: ComparedVersions
    pair: FragmentPair
    trusted: bool
    """Whether what the manifests say of a deletion file is enough."""

    @property
    def counts(self) -> tuple[int, int]:
        """How many rows only the later version deletes, and how many only the earlier one."""
        before, after = self.pair.before.deletion, self.pair.after.deletion
        if self.needs_files:
            return len(self.deleted), len(self.undeleted)
        return after.rows if after is not None else 0, before.rows if before is not None else 0

    @property
    def needs_files(self) -> bool:
        """Whether the manifests are not enough: both versions delete rows, or writers did not count."""
        both = self.pair.before.deletion is not None and self.pair.after.deletion is not None
        return both or not (self.trusted and self.sides.counted)

    @property
    def deleted(self) -> pa.Array:
        """Physical offsets of the rows that only the later version deletes."""
        return self._offsets[0]

    @property
    def undeleted(self) -> pa.Array:
        """Physical offsets of the rows that only the earlier version deletes."""
        return self._offsets[1]

    @cached_property
    def _offsets(self) -> tuple[pa.Array, pa.Array]:
        sides, pair = self.sides, self.pair
        old, new = (
            deleted_offsets(sides.location, version_reader.snapshot_of(sides.location, pin, contents), fragment)
            for pin, contents, fragment in ((sides.a, sides.before, pair.before), (sides.b, sides.after, pair.after))
        )
        return _without(new, old), _without(old, new)


def _read_files(deletions: Iterable[_Deletions]) -> None:
    """Read deletion files several at a time. Otherwise each is read when it is first needed."""
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(lambda each: each.deleted, deletions))


def _without(offsets: pa.Array, others: pa.Array) -> pa.Array:
    return offsets.filter(pc.invert(pc.is_in(offsets, value_set=others)))


def _values(sides: ComparedVersions, pairs: Iterable[FragmentPair]) -> tuple[ColumnValues, ...]:
    """Columns that both versions have and whose values were rewritten in place."""
    known = common_fields(sides.before.fields, sides.after.fields)
    fragments: Counter[str] = Counter()
    rows: Counter[str] = Counter()
    for pair in pairs:
        for column in top_level(sides.after.fields, pair.replaced_fields(known)):
            fragments[column] += 1
            rows[column] += pair.after.rows
    return tuple(ColumnValues(column, fragments[column], rows[column]) for column in sorted(fragments))


class _RowChanges:
    """What happened to the rows."""

    def __init__(self, sides: ComparedVersions, changes: FragmentChanges, deletions: Sequence[_Deletions]) -> None:
        self._sides = sides
        self._changes = changes
        self._deletions = deletions
        known = common_fields(sides.before.fields, sides.after.fields)
        self._rewritten = [
            pair
            for pair in changes.changed
            if pair.replaced_fields(known) or pair.before.has_overlays or pair.after.has_overlays
        ]

    def counted(self) -> tuple[RowCounts, tuple[RowExample, ...], tuple[str, ...]]:
        """By fragments and deletion files, without reading rows."""
        _read_files(each for each in self._deletions if each.needs_files)
        counts = [each.counts for each in self._deletions]
        added = self._live(self._sides.b, self._changes.added) + sum(undeleted for _, undeleted in counts)
        deleted = self._live(self._sides.a, self._changes.removed) + sum(deleted for deleted, _ in counts)
        if not (added and deleted):
            return self._counts(added, deleted, 0 if not self._rewritten else None), (), ()
        identity = self._identity()
        if identity.row_ids:
            _read_files(self._deletions)
        changed = compare_ids(self._source(True, ()), self._source(False, ()), identity) if identity.row_ids else None
        if changed is None:
            return self._counts(added, deleted, None), (), (NOT_COMPARED,)
        # Values written in place are not seen by looking at ids.
        count = None if self._rewritten else len(changed.changed_before)
        return self._counts(len(changed.added), len(changed.deleted), count), (), ()

    def compared(self, limit: int) -> tuple[RowCounts, tuple[RowExample, ...], tuple[str, ...]]:
        """By the rows that may differ."""
        sides = self._sides
        names = common_columns(sides.before.fields, sides.after.fields)
        blobs = blob_columns(sides.location, sides.a) | blob_columns(sides.location, sides.b)
        _read_files(self._deletions)
        before, after = self._source(True, self._rewritten), self._source(False, self._rewritten)
        identity = self._identity()
        row_changes = compare_rows(before, after, names, identity, blobs)
        pairs_only = not self._changes.added and not self._changes.removed and not self._deletions
        known = identity.is_known or pairs_only or not (len(row_changes.added) and len(row_changes.deleted))
        counts = RowCounts(
            added=len(row_changes.added),
            deleted=len(row_changes.deleted),
            changed=len(row_changes.changed_before) if known else None,
            before=self._total(sides.a, sides.before),
            after=self._total(sides.b, sides.after),
            compared=True,
        )
        return counts, examples(before, after, row_changes, limit), self._notes(names, blobs)

    def _notes(self, names: Sequence[tuple[str, str]], blobs: frozenset[str]) -> tuple[str, ...]:
        compared = {after for _, after in names}
        left_out = [
            column.name for column in self._sides.after.fields if column.parent_id == -1 and column.name not in compared
        ]
        notes = [f"Values of {', '.join(left_out)} are not compared: the columns differ."] if left_out else []
        return (*notes, BLOBS_BY_SIZE) if blobs & compared else tuple(notes)

    def _counts(self, added: int, deleted: int, changed: int | None) -> RowCounts:
        before = self._total(self._sides.a, self._sides.before)
        after = self._total(self._sides.b, self._sides.after)
        return RowCounts(added, deleted, changed, before, after, compared=False)

    def _source(self, old: bool, whole: Iterable[FragmentPair]) -> RowSource:
        """The rows of one side that may not be on the other. ``whole`` are pairs to read with all their rows."""
        sides, changes = self._sides, self._changes
        rows = [FragmentRows(fragment.id) for fragment in (changes.removed if old else changes.added)]
        pairs = list(whole)
        rows += [FragmentRows((pair.before if old else pair.after).id) for pair in pairs]
        read = {id(pair) for pair in pairs}
        for each in self._deletions:
            if id(each.pair) not in read:
                fragment = each.pair.before if old else each.pair.after
                rows.append(FragmentRows(fragment.id, each.deleted if old else each.undeleted))
        return RowSource(sides.location, sides.a if old else sides.b, tuple(rows))

    def _identity(self) -> Identity:
        sides = self._sides
        places = {pair.before.id: pair.after.id for pair in self._rewritten}
        return identity_of(sides.location, (sides.a, sides.before), (sides.b, sides.after), places)

    def _live(self, pin: PinnedVersion, fragments: Sequence[Fragment]) -> int:
        if self._sides.counted:
            return sum(fragment.rows for fragment in fragments)
        return sum(stored.live_rows(self._sides.location, pin, [each.id for each in fragments]).values())

    def _total(self, pin: PinnedVersion, contents: Contents) -> int:
        if contents.counts_rows:
            return sum(fragment.rows for fragment in contents.fragments())
        return count_rows(self._sides.location, pin)
