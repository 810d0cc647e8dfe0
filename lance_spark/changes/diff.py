"""``diff A..B``: from the state of one version to that of another.

Reads two manifests, and deletion files where they differ. Rows are read only on request, and only those of fragments
that differ. With stable row ids, their ids are compared first, which the manifests hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.changes import diff_rules
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.format import operations
from lance_spark.format.contents import Contents, Fragment, decode_contents
from lance_spark.format.python_values import python_rows
from lance_spark.format.row_values import ADDRESS, HASHED, RowChanges, compare_hashed, hashed
from lance_spark.scan import fragment_reads
from lance_spark.storage import refs, versions
from lance_spark.storage.files import THREADS
from lance_spark.storage.versions import has_version, read_manifest


def diff(
    location: DatasetLocation,
    a: PinnedVersion,
    b: PinnedVersion,
    rows: bool = False,
    limit: int = 20,
    counts_only: bool = False,
) -> diff_rules.Diff:
    """The differences from version ``a`` to version ``b``; with ``rows``, by comparing the rows that may differ.

    ``counts_only`` trusts the numbers in the manifests: a deletion file is read only if both versions delete rows of
    the same fragment. ``limit`` is the number of example rows of each kind. Raises NotFound if a version does not
    exist.
    """
    sides = _read(location, a, b)
    changes = operations.match(sides.before, sides.after)
    deletions = [_Deletions(sides, pair, counts_only) for pair in changes.changed if not pair.deletes_alike]
    row_changes = _RowChanges(sides, changes, deletions)
    counts, shown, notes = row_changes.compared(limit) if rows else row_changes.counted()
    return diff_rules.Diff(
        before=a,
        after=b,
        columns=operations.compare_columns(sides.before.fields, sides.after.fields),
        rows=counts,
        stat=replace(operations.stat(changes), rows_added=counts.added, rows_removed=counts.deleted),
        fragments=diff_rules.FragmentCounts(
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
class ComparedRows:
    """The rows that differ between two versions, to be read page by page."""

    counts: diff_rules.RowCounts
    notes: tuple[str, ...]
    before: fragment_reads.RowSource
    after: fragment_reads.RowSource
    changes: RowChanges

    @property
    def total(self) -> int:
        """How many rows differ: those that changed, then those that are gone, then the new ones."""
        return len(self.changes.changed_before) + len(self.changes.deleted) + len(self.changes.added)

    def page(self, start: int, count: int) -> tuple[diff_rules.RowExample, ...]:
        """``count`` of these rows with all their columns, from the ``start``-th one on."""
        changes = self.changes
        changed = slice(start, start + count)
        start, count = _rest(start, count, len(changes.changed_before))
        deleted = slice(start, start + count)
        start, count = _rest(start, count, len(changes.deleted))
        shown = RowChanges(
            deleted=changes.deleted[deleted],
            added=changes.added[start : start + count],
            changed_before=changes.changed_before[changed],
            changed_after=changes.changed_after[changed],
        )
        found = examples(self.before, self.after, shown, self.total)
        order = (diff_rules.CHANGED, diff_rules.DELETED, diff_rules.ADDED)
        return tuple(sorted(found, key=lambda example: order.index(example.kind)))


def _rest(start: int, count: int, length: int) -> tuple[int, int]:
    """What is left of a page behind a list of that length."""
    taken = max(0, min(length - start, count))
    return max(0, start - length), count - taken


def compare(location: DatasetLocation, a: PinnedVersion, b: PinnedVersion, on: Sequence[str] = ()) -> ComparedRows:
    """Compare the rows that may differ; raises as :func:`diff`.

    ``on`` are columns by which a changed row is recognized if neither stable ids nor a key of the table do that.
    """
    return _row_changes(location, a, b).compare(on)


def rows_to_compare(location: DatasetLocation, a: PinnedVersion, b: PinnedVersion) -> int:
    """How many rows :func:`compare` has to read, about; from the manifests alone."""
    return _row_changes(location, a, b).to_read


def _row_changes(location: DatasetLocation, a: PinnedVersion, b: PinnedVersion) -> _RowChanges:
    sides = _read(location, a, b)
    changes = operations.match(sides.before, sides.after)
    deletions = [_Deletions(sides, pair, False) for pair in changes.changed if not pair.deletes_alike]
    return _RowChanges(sides, changes, deletions)


@dataclass(frozen=True)
class ComparedVersions:
    location: DatasetLocation
    a: PinnedVersion
    b: PinnedVersion
    before: Contents
    after: Contents

    @property
    def counted(self) -> bool:
        """Whether the manifests record how many rows the fragments have."""
        return self.before.counts_rows and self.after.counts_rows


def _read(location: DatasetLocation, a: PinnedVersion, b: PinnedVersion) -> ComparedVersions:
    with ThreadPoolExecutor(2) as pool:
        before, after = pool.map(lambda pin: decode_contents(versions.read_manifest(location, pin)), (a, b))
    return ComparedVersions(location, a, b, before, after)


@dataclass(frozen=True)
class _Deletions:
    """Rows of one pair of fragments that are deleted in one version only."""

    sides: ComparedVersions
    pair: operations.FragmentPair
    trusted: bool
    """Whether the manifest's record of a deletion file suffices."""

    @property
    def counts(self) -> tuple[int, int]:
        """How many rows only the later version deletes, and how many only the earlier one."""
        before, after = self.pair.before.deletion, self.pair.after.deletion
        if self.needs_files:
            return len(self.deleted), len(self.undeleted)
        return after.rows if after is not None else 0, before.rows if before is not None else 0

    @property
    def needs_files(self) -> bool:
        """Whether the manifests are not enough: both versions delete rows, or the writer recorded no counts."""
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
            fragment_reads.deleted_offsets(
                sides.location, versions.snapshot_of(sides.location, pin, contents), fragment
            )
            for pin, contents, fragment in ((sides.a, sides.before, pair.before), (sides.b, sides.after, pair.after))
        )
        return _without(new, old), _without(old, new)


def _read_files(deletions: Iterable[_Deletions]) -> None:
    """Read deletion files in parallel. Without this, each is read when first needed."""
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(lambda each: each.deleted, deletions))


def _without(offsets: pa.Array, others: pa.Array) -> pa.Array:
    return offsets.filter(pc.invert(pc.is_in(offsets, value_set=others)))


def _values(sides: ComparedVersions, pairs: Iterable[operations.FragmentPair]) -> tuple[diff_rules.ColumnValues, ...]:
    """Columns that both versions have and whose values were rewritten in place."""
    known = operations.common_fields(sides.before.fields, sides.after.fields)
    fragments: Counter[str] = Counter()
    rows: Counter[str] = Counter()
    for pair in pairs:
        for column in operations.top_level(sides.after.fields, pair.replaced_fields(known)):
            fragments[column] += 1
            rows[column] += pair.after.rows
    return tuple(diff_rules.ColumnValues(column, fragments[column], rows[column]) for column in sorted(fragments))


class _RowChanges:
    def __init__(
        self, sides: ComparedVersions, changes: operations.FragmentChanges, deletions: Sequence[_Deletions]
    ) -> None:
        self._sides = sides
        self._changes = changes
        self._deletions = deletions
        known = operations.common_fields(sides.before.fields, sides.after.fields)
        self._rewritten = [
            pair
            for pair in changes.changed
            if pair.replaced_fields(known) or pair.before.has_overlays or pair.after.has_overlays
        ]

    def counted(self) -> tuple[diff_rules.RowCounts, tuple[diff_rules.RowExample, ...], tuple[str, ...]]:
        """From fragments and deletion files, without reading rows."""
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
            return self._counts(added, deleted, None), (), (diff_rules.NOT_COMPARED,)
        # Comparing ids does not reveal values that were written in place.
        count = None if self._rewritten else len(changed.changed_before)
        return self._counts(len(changed.added), len(changed.deleted), count), (), ()

    @property
    def to_read(self) -> int:
        """How many rows a comparison reads, about."""
        pairs = [each for pair in self._rewritten for each in (pair.before, pair.after)]
        rows = sum(fragment.rows for fragment in (*self._changes.added, *self._changes.removed, *pairs))
        records = [each.pair.after.deletion or each.pair.before.deletion for each in self._deletions]
        return rows + sum(record.rows for record in records if record is not None)

    def compared(self, limit: int) -> tuple[diff_rules.RowCounts, tuple[diff_rules.RowExample, ...], tuple[str, ...]]:
        """From the rows that may differ."""
        found = self.compare()
        return found.counts, examples(found.before, found.after, found.changes, limit), found.notes

    def compare(self, on: Sequence[str] = ()) -> ComparedRows:
        """The rows that differ, from those that may; ``on`` as for the function."""
        sides = self._sides
        names = operations.common_columns(sides.before.fields, sides.after.fields)
        blobs = fragment_reads.blob_columns(sides.location, sides.a) | fragment_reads.blob_columns(
            sides.location, sides.b
        )
        _read_files(self._deletions)
        before, after = self._source(True, self._rewritten), self._source(False, self._rewritten)
        identity = self._identity()
        if on and not identity.is_known:
            identity = replace(identity, key=tuple(pair for pair in names if pair[1] in on))
        row_changes = compare_rows(before, after, names, identity, blobs)
        pairs_only = not self._changes.added and not self._changes.removed and not self._deletions
        known = identity.is_known or pairs_only or not (len(row_changes.added) and len(row_changes.deleted))
        counts = diff_rules.RowCounts(
            added=len(row_changes.added),
            deleted=len(row_changes.deleted),
            changed=len(row_changes.changed_before) if known else None,
            before=self._total(sides.a, sides.before),
            after=self._total(sides.b, sides.after),
            compared=True,
        )
        return ComparedRows(counts, self._notes(names, blobs), before, after, row_changes)

    def _notes(self, names: Sequence[tuple[str, str]], blobs: frozenset[str]) -> tuple[str, ...]:
        compared = {after for _, after in names}
        left_out = [
            column.name for column in self._sides.after.fields if column.parent_id == -1 and column.name not in compared
        ]
        notes = [f"Values of {', '.join(left_out)} are not compared: the columns differ."] if left_out else []
        return (*notes, diff_rules.BLOBS_BY_SIZE) if blobs & compared else tuple(notes)

    def _counts(self, added: int, deleted: int, changed: int | None) -> diff_rules.RowCounts:
        before = self._total(self._sides.a, self._sides.before)
        after = self._total(self._sides.b, self._sides.after)
        return diff_rules.RowCounts(added, deleted, changed, before, after, compared=False)

    def _source(self, old: bool, whole: Iterable[operations.FragmentPair]) -> fragment_reads.RowSource:
        """The rows of one side that may not be on the other. ``whole`` are pairs to read with all their rows."""
        sides, changes = self._sides, self._changes
        rows = [fragment_reads.FragmentRows(fragment.id) for fragment in (changes.removed if old else changes.added)]
        pairs = list(whole)
        rows += [fragment_reads.FragmentRows((pair.before if old else pair.after).id) for pair in pairs]
        read = {id(pair) for pair in pairs}
        for each in self._deletions:
            if id(each.pair) not in read:
                fragment = each.pair.before if old else each.pair.after
                rows.append(fragment_reads.FragmentRows(fragment.id, each.deleted if old else each.undeleted))
        return fragment_reads.RowSource(sides.location, sides.a if old else sides.b, tuple(rows))

    def _identity(self) -> Identity:
        sides = self._sides
        places = {pair.before.id: pair.after.id for pair in self._rewritten}
        return identity_of(sides.location, (sides.a, sides.before), (sides.b, sides.after), places)

    def _live(self, pin: PinnedVersion, fragments: Sequence[Fragment]) -> int:
        if self._sides.counted:
            return sum(fragment.rows for fragment in fragments)
        return sum(fragment_reads.live_rows(self._sides.location, pin, [each.id for each in fragments]).values())

    def _total(self, pin: PinnedVersion, contents: Contents) -> int:
        if contents.counts_rows:
            return sum(fragment.rows for fragment in contents.fragments())
        return fragment_reads.count_rows(self._sides.location, pin)


# --- Comparing the rows of two versions, batch by batch, with examples

_OFFSET_BITS = 32
_UNKNOWN_TO_OTHERS = 2**62
"""Added to version numbers after a fork: main@7 and exp@7 are two different commits."""


@dataclass(frozen=True)
class Identity:
    """How a row is recognized after its values changed."""

    key: tuple[tuple[str, str], ...] = ()
    """(column before, column after) of the table's key."""
    row_ids: bool = False
    below: int | None = None
    """From this id on, two branches gave the same row ids to different rows; None if all ids are reliable."""
    fork_version: int | None = None
    """The common ancestor of both versions; None for two versions of one branch."""
    places: Mapping[int, int] = field(default_factory=dict)
    """Fragments that are in both versions: their ids before, and after. Rows at the same place are the same row."""

    @property
    def is_known(self) -> bool:
        return bool(self.key) or self.row_ids


def identity_of(
    location: DatasetLocation,
    before: tuple[PinnedVersion, Contents],
    after: tuple[PinnedVersion, Contents],
    places: Mapping[int, int],
) -> Identity:
    """Stable row ids if they are reliable, otherwise the table's key, otherwise only the places of rows."""
    (a, old), (b, new) = before, after
    if old.has_stable_row_ids and new.has_stable_row_ids:
        if a.branch == b.branch:
            return Identity(row_ids=True, places=places)
        fork = _fork(location, a, b)
        if fork is not None:
            return Identity(row_ids=True, below=fork.next_row_id, fork_version=fork.head.version, places=places)
    keys = set(operations.key_columns(old.fields)) & set(operations.key_columns(new.fields))
    both = tuple(names for names in operations.common_columns(old.fields, new.fields) if names[1] in keys)
    return Identity(key=both if len(both) == len(operations.key_columns(new.fields)) else (), places=places)


def _fork(location: DatasetLocation, a: PinnedVersion, b: PinnedVersion) -> Contents | None:
    """The last version that both have in their history; None if it is gone."""
    table = refs.read_ref_files(location)
    lines = []
    for pin in (a, b):
        line = {pin.branch: pin.version}
        while pin.branch is not None and (branch := table.branches.get(pin.branch)) is not None:
            pin = PinnedVersion(branch.parent_branch, branch.parent_version)
            line[pin.branch] = pin.version
        lines.append(line)
    shared = [branch for branch in lines[0] if branch in lines[1]]
    if not shared:
        return None
    fork = PinnedVersion(shared[0], min(lines[0][shared[0]], lines[1][shared[0]]))
    if not has_version(location, fork):
        return None
    return decode_contents(read_manifest(location, fork))


def compare_ids(
    before: fragment_reads.RowSource, after: fragment_reads.RowSource, identity: Identity
) -> RowChanges | None:
    """Which rows were added, deleted and changed, from their ids and the version of their last update; reads no value.

    None without stable row ids.
    """
    if not identity.row_ids:
        return None
    sides = []
    for number, source in enumerate((before, after)):
        batches = [
            _by_id(batch, identity, number)
            for batch in fragment_reads.read_rows(source, [fragment_reads.UPDATED, fragment_reads.ROW_ID])
        ]
        sides.append(pa.Table.from_batches(batches, HASHED))
    return compare_hashed(*sides)


def _by_id(batch: pa.RecordBatch, identity: Identity, side: int) -> pa.RecordBatch:
    updated = pc.fill_null(batch.column(fragment_reads.UPDATED).cast(pa.int64()), 0)
    if identity.fork_version is not None:
        late = pc.greater(updated, identity.fork_version)
        updated = pc.if_else(late, pc.add(updated, _UNKNOWN_TO_OTHERS + side * 2**61), updated)
    wide = pa.record_batch(
        [updated, batch.column(fragment_reads.ROW_ID), batch.column(ADDRESS)],
        names=[fragment_reads.UPDATED, fragment_reads.ROW_ID, ADDRESS],
    )
    return _trusted(
        hashed(wide, [fragment_reads.UPDATED, fragment_reads.ROW_ID], [fragment_reads.ROW_ID]), batch, identity
    )


def _trusted(rows: pa.RecordBatch, batch: pa.RecordBatch, identity: Identity) -> pa.RecordBatch:
    """The identities, without those that two branches gave to different rows."""
    if identity.below is None:
        return rows
    mine = pc.greater_equal(
        batch.column(fragment_reads.ROW_ID).cast(pa.uint64()), pa.scalar(identity.below, pa.uint64())
    )
    known = pc.if_else(mine, pa.scalar(None, pa.uint64()), rows.column("identity"))
    return pa.record_batch([rows.column("content"), known, rows.column("address")], schema=HASHED)


def compare_rows(
    before: fragment_reads.RowSource,
    after: fragment_reads.RowSource,
    names: Sequence[tuple[str, str]],
    identity: Identity,
    blobs: Collection[str] = (),
) -> RowChanges:
    """Which rows were added, deleted and changed, from the values of columns given by two names: before, and after."""
    sides = []
    for side, source in enumerate((before, after)):
        content = [pair[side] for pair in names]
        key = [fragment_reads.ROW_ID] if identity.row_ids else [pair[side] for pair in identity.key]
        columns = [*content, *key]
        batches = []
        for batch in fragment_reads.read_rows(source, list(dict.fromkeys(columns))):
            rows = hashed(batch, content, key, tuple(blobs))
            if identity.row_ids:
                rows = _trusted(rows, batch, identity)
            batches.append(_placed(rows, identity, side))
        sides.append(pa.Table.from_batches(batches, HASHED))
    return compare_hashed(*sides)


def _placed(rows: pa.RecordBatch, identity: Identity, side: int) -> pa.RecordBatch:
    """As a last resort, rows of fragments that are in both versions are recognized by their places."""
    if identity.is_known or not identity.places or not rows.num_rows:
        return rows
    fragments = pc.shift_right(rows.column("address"), pa.scalar(_OFFSET_BITS, pa.uint64()))
    offsets = pc.bit_wise_and(rows.column("address"), pa.scalar(2**_OFFSET_BITS - 1, pa.uint64()))
    olds = pa.array(identity.places.keys() if side == 0 else identity.places.values(), pa.uint64())
    news = pa.array(identity.places.values(), pa.uint64())
    there = pc.take(news, pc.index_in(fragments, value_set=olds))
    place = pc.add(pc.shift_left(there, pa.scalar(_OFFSET_BITS, pa.uint64())), offsets)
    return pa.record_batch([rows.column("content"), place, rows.column("address")], schema=HASHED)


def examples(
    before: fragment_reads.RowSource, after: fragment_reads.RowSource, changes: RowChanges, limit: int
) -> tuple[diff_rules.RowExample, ...]:
    """Up to ``limit`` rows of each kind, with all their columns."""
    deleted, added = changes.deleted[:limit].to_pylist(), changes.added[:limit].to_pylist()
    old, new = changes.changed_before[:limit].to_pylist(), changes.changed_after[:limit].to_pylist()
    earlier, later = _at(before, [*deleted, *old]), _at(after, [*added, *new])
    return (
        *(diff_rules.RowExample(diff_rules.DELETED, before=earlier[address]) for address in deleted),
        *(diff_rules.RowExample(diff_rules.ADDED, after=later[address]) for address in added),
        *(
            diff_rules.RowExample(diff_rules.CHANGED, earlier[one], later[other])
            for one, other in zip(old, new, strict=True)
        ),
    )


def _at(source: fragment_reads.RowSource, addresses: Iterable[int]) -> dict[int, dict[str, Any]]:
    offsets: dict[int, list[int]] = {}
    for address in addresses:
        offsets.setdefault(address >> _OFFSET_BITS, []).append(address & (2**_OFFSET_BITS - 1))
    if not offsets:
        return {}
    parts = tuple(
        fragment_reads.FragmentRows(number, pa.array(places, pa.uint32())) for number, places in offsets.items()
    )
    selected = fragment_reads.RowSource(source.location, source.pin, parts)
    names = list(fragment_reads.stored_schema(source.location, source.pin).names)
    rows = [row for batch in fragment_reads.read_rows(selected, names) for row in python_rows(batch)]
    return {row.pop(ADDRESS): row for row in rows}
