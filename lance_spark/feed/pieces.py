"""What one version changed, from its manifest and the one before it: which fragments to read, and what for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lance_spark.feed.model import Commit, Piece, Side, VersionPieces
from lance_spark.history.fragments import FragmentPair, match
from lance_spark.manifest.contents import Field, Fragment
from lance_spark.manifest.transactions import Transaction
from lance_spark.merge.snapshot import Snapshot
from lance_spark.merge.trace import ACTION, BEGIN, REORDERED

_OPEN_COST = 64 * 2**10
"""Bytes charged for opening a fragment."""
_CHANGE_NO_ROWS = frozenset(
    {"CreateIndex", "Rewrite", "ReserveFragments", "UpdateConfig", "UpdateBases", "UpdateMemWalState"}
)
"""Operations after which the table has the same rows; of them a compaction has them in other files."""
_BRING_NO_ROWS_BACK = frozenset({"Append", "Delete", "Update"})
_REPLACES_ALL = "Overwrite"


def changes_no_rows(transaction: Transaction | None) -> bool:
    """Whether a version is known to have the rows of the one before it, so that its fragments need no look."""
    return transaction is not None and (
        transaction.operation in _CHANGE_NO_ROWS or transaction.properties.get(REORDERED) == "true"
    )


def begins_copy(transaction: Transaction | None) -> bool:
    """Whether a version is the first half of one that is copied from another dataset.

    It has no rows. The next one brings them, and is compared with what was before.
    """
    return transaction is not None and transaction.properties.get(ACTION) == BEGIN


class ColumnTrack(NamedTuple):
    """The columns of a feed in one version."""

    ids: tuple[int | None, ...]
    """Ids of their fields; None for a column that the version does not have."""
    names: tuple[str | None, ...]
    """What the version calls them."""
    fields: tuple[frozenset[int], ...]
    """Ids of all fields in them."""


def track(fields: Sequence[Field], columns: Sequence[str]) -> ColumnTrack:
    """The columns in a version, by their names."""
    ids = {field.name: field.id for field in fields if field.parent_id == -1}
    return _tracked([ids.get(name) for name in columns], fields)


def tracked_to(fields: Sequence[Field], here: ColumnTrack, columns: Sequence[str], replaced: bool) -> ColumnTrack:
    """The columns of a version in its neighbour, which has these fields.

    A renamed column keeps its id, one whose type was changed only its name. Ids of columns that were dropped may be
    given to others later, so they mean something between neighbours only, and nothing if the table was ``replaced``.
    ``columns`` are the names in the feed.
    """
    by_id = {field.id: field.name for field in fields if field.parent_id == -1}
    by_name = {name: field_id for field_id, name in by_id.items()}
    ids = [each if each in by_id and not replaced else None for each in here.ids]
    for candidates in (here.names, columns):
        for place, name in enumerate(candidates):
            found = None if name is None else by_name.get(name)
            if ids[place] is None and found not in ids:
                ids[place] = found
    return _tracked(ids, fields)


def _tracked(ids: Sequence[int | None], fields: Sequence[Field]) -> ColumnTrack:
    names = {field.id: field.name for field in fields if field.parent_id == -1}
    owner: dict[int, int] = {}
    inside: dict[int, set[int]] = {}
    for field in fields:
        owner[field.id] = owner.get(field.parent_id, field.id)
        inside.setdefault(owner[field.id], set()).add(field.id)
    return ColumnTrack(
        tuple(ids),
        tuple(None if each is None else names[each] for each in ids),
        tuple(frozenset() if each is None else frozenset(inside[each]) for each in ids),
    )


class StepReader:
    """Finds the pieces of steps between neighbouring versions, the one after the other away from ``until``."""

    def __init__(self, until: Sequence[Field], columns: Sequence[str], known: ColumnTrack | None = None) -> None:
        """``known``: where the columns are in ``until``, if not by their names."""
        self._columns = tuple(columns)
        self._fields, self._track = tuple(until), known or track(until, columns)

    def forward(self, before: Snapshot, after: Snapshot, commit: Commit, by: Transaction | None) -> VersionPieces:
        """What a version changed. Steps come newest first."""
        new = self._moved(after, replaced=False)
        old = self._moved(before, replaced=replaces_all(by))
        returns = by is None or ACTION in by.properties or by.operation not in _BRING_NO_ROWS_BACK
        step = _Step(before, after, commit, old, new)
        return VersionPieces(tuple(step.pieces(returns)), not replaces_all(by))

    def back(self, before: Snapshot, after: Snapshot, commit: Commit, by: Transaction | None) -> VersionPieces:
        """What takes back what a version changed. Steps come oldest first, after all that lead forward."""
        old = self._moved(before, replaced=False)
        new = self._moved(after, replaced=replaces_all(by))
        step = _Step(after, before, commit, new, old)
        return VersionPieces(tuple(step.pieces(True)))

    def _moved(self, snapshot: Snapshot, replaced: bool) -> ColumnTrack:
        fields = snapshot.contents.fields
        if fields != self._fields or replaced:
            self._fields, self._track = fields, tracked_to(fields, self._track, self._columns, replaced)
        return self._track


def whole_pieces(snapshot: Snapshot, commit: Commit, columns: ColumnTrack) -> Iterator[Piece]:
    """All fragments of a version, as if it had added them."""
    for fragment in snapshot.contents.fragments():
        side = Side(snapshot.pin, fragment.id, snapshot.deletions_of(fragment), columns.names)
        size = _size(fragment, columns.fields)
        yield Piece(commit, None, side, deletes=False, size=size, rows=fragment.rows)


def replaces_all(by: Transaction | None) -> bool:
    """Whether a version has nothing of the one before it, so that ids of columns mean something else."""
    return by is not None and by.operation == _REPLACES_ALL


class _Step:
    def __init__(
        self,
        before: Snapshot,
        after: Snapshot,
        commit: Commit,
        old: ColumnTrack,
        new: ColumnTrack,
    ) -> None:
        self._before, self._after, self._commit, self._old, self._new = before, after, commit, old, new

    def pieces(self, rows_may_return: bool) -> Iterator[Piece]:
        # A column that was dropped stays in its files, and in the records of the fragments.
        changes = match(self._before.contents, self._after.contents, every=self._old.ids != self._new.ids)
        for fragment in changes.removed:
            yield Piece(
                self._commit,
                self._side(fragment, old=True),
                None,
                inserts=False,
                size=_size(fragment, self._old.fields),
                rows=fragment.rows,
            )
        for fragment in changes.added:
            yield Piece(
                self._commit,
                None,
                self._side(fragment, old=False),
                deletes=False,
                size=_size(fragment, self._new.fields),
                rows=fragment.rows,
            )
        for pair in changes.changed:
            piece = self._changed(pair, rows_may_return)
            if piece.deletes or piece.inserts or piece.rewritten:
                yield piece

    def _changed(self, pair: FragmentPair, rows_may_return: bool) -> Piece:
        before, after = pair.before, pair.after
        rewritten = tuple(self._rewritten(pair))
        deletes = not pair.deletes_alike and after.deletion is not None
        inserts = not pair.deletes_alike and before.deletion is not None and rows_may_return
        whole = _size(before, self._old.fields) + _size(after, self._new.fields)
        gone = abs(before.rows - after.rows)
        part = whole if rewritten else whole * min(1.0, gone / max(1, before.physical_rows))
        return Piece(
            self._commit,
            self._side(before, old=True),
            self._side(after, old=False),
            rewritten,
            deletes,
            inserts,
            size=_OPEN_COST + int(part),
            rows=2 * after.rows + gone if rewritten else gone,
        )

    def _rewritten(self, pair: FragmentPair) -> Iterator[int]:
        """Columns of the feed that lie in different files, or under different overlays."""
        overlaid = pair.before.has_overlays or pair.after.has_overlays
        for place, (old, new) in enumerate(zip(self._old.fields, self._new.fields, strict=True)):
            if overlaid or _files(pair.before, old) != _files(pair.after, new):
                yield place

    def _side(self, fragment: Fragment, old: bool) -> Side:
        snapshot, names = (self._before, self._old.names) if old else (self._after, self._new.names)
        return Side(snapshot.pin, fragment.id, snapshot.deletions_of(fragment), names)


def _files(fragment: Fragment, fields: frozenset[int]) -> frozenset[str]:
    """The files that have values of fields."""
    return frozenset(file.path for file in fragment.files if not fields.isdisjoint(file.fields))


def _size(fragment: Fragment, fields: Sequence[frozenset[int]]) -> int:
    """Bytes of the files that have any of the columns."""
    every = frozenset().union(*fields)
    return _OPEN_COST + sum(file.size for file in fragment.files if not every.isdisjoint(file.fields))
