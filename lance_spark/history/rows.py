"""Compares the rows of two versions by their hashes: which were added, deleted and changed.

Rows are compared as multisets: what counts is how often a row is there, not where. Hashes of batches can be made
anywhere, also on executors; only they are ever held for all rows at once, 24 bytes each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.history.hashing import Hashes, hash_rows

HASHED = pa.schema([("content", pa.uint64()), ("identity", pa.uint64()), ("address", pa.uint64())])
"""Hash of the values of a row; hash of what makes it the same row although its values changed, null where nothing does;
and its row address (fragment and offset)."""
ADDRESS = "_rowaddr"
_BLOB_PARTS = ("size", "blob_uri")


@dataclass(frozen=True)
class RowChanges:
    """Row addresses; ``changed_before`` and ``changed_after`` belong together one by one."""

    deleted: pa.Array
    added: pa.Array
    changed_before: pa.Array
    changed_after: pa.Array


def hashed(
    batch: pa.RecordBatch, content: Sequence[str], identity: Sequence[str] = (), blobs: Sequence[str] = ()
) -> pa.RecordBatch:
    """HASHED of a batch that has ``_rowaddr``, from the values of some of its columns.

    ``blobs`` are columns that were read as descriptions. Their place in a file changes whenever rows are moved, so only
    size and URI count.
    """
    arrays = {name: _whole(batch, name, blobs) for name in {*content, *identity}}
    values = hash_rows([arrays[name] for name in content], batch.num_rows)
    key = pa.array(hash_rows([arrays[name] for name in identity], batch.num_rows)) if identity else None
    columns = [
        pa.array(values),
        pa.nulls(batch.num_rows, pa.uint64()) if key is None else key,
        batch.column(ADDRESS).cast(pa.uint64()),
    ]
    return pa.record_batch(columns, schema=HASHED)


def _whole(batch: pa.RecordBatch, name: str, blobs: Sequence[str]) -> pa.Array:
    column = batch.column(name)
    if name not in blobs or not pa.types.is_struct(column.type):
        return column
    parts = [part for part in _BLOB_PARTS if column.type.get_field_index(part) >= 0]
    mask = column.is_null() if column.null_count else None
    return pa.StructArray.from_arrays([pc.struct_field(column, part) for part in parts], names=parts, mask=mask)


def compare_hashed(before: pa.Table, after: pa.Table, renumbered: bool = True) -> RowChanges:
    """The changes between two sets of HASHED rows.

    Rows that are equal on both sides, as often as they are, are none. Of the others those with the same identity were
    changed; an identity that several of them have says nothing. Equal rows of different identity are no change either,
    unless ``renumbered`` is False.
    """
    old, new = _Side.of(before), _Side.of(after)
    left, right = _unmatched(old.both, new.both)
    old, new = old.only(left), new.only(right)
    changed_old, changed_new = _same(old, new)
    by_place = np.argsort(old.address[changed_old])
    changed = (old.address[changed_old][by_place], new.address[changed_new][by_place])
    old, new = old.without(changed_old), new.without(changed_new)
    if renumbered:
        left, right = _unmatched(old.content, new.content)
        old, new = old.only(left), new.only(right)
    return RowChanges(
        deleted=pa.array(np.sort(old.address)),
        added=pa.array(np.sort(new.address)),
        changed_before=pa.array(changed[0]),
        changed_after=pa.array(changed[1]),
    )


@dataclass(frozen=True)
class _Side:
    content: Hashes
    identity: Hashes
    known: npt.NDArray[np.bool_]
    """Which identities are there."""
    address: Hashes

    @staticmethod
    def of(table: pa.Table) -> _Side:
        known = np.asarray(pc.is_valid(table["identity"]), dtype=bool)
        identity = pc.fill_null(table["identity"], pa.scalar(0, pa.uint64()))
        return _Side(_numbers(table["content"]), _numbers(identity), known, _numbers(table["address"]))

    @property
    def both(self) -> Hashes:
        """Content and identity in one."""
        salted: Hashes = self.content ^ (self.identity * np.uint64(0x9E37_79B9_7F4A_7C15))
        return np.where(self.known, salted, self.content)

    def only(self, rows: npt.NDArray[Any]) -> _Side:
        return _Side(self.content[rows], self.identity[rows], self.known[rows], self.address[rows])

    def without(self, rows: npt.NDArray[Any]) -> _Side:
        return self.only(np.setdiff1d(np.arange(len(self.content)), rows))


def _unmatched(old: Hashes, new: Hashes) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Places of the values that are on one side more often than on the other: all beyond the common number."""
    return _beyond(old, new), _beyond(new, old)


def _beyond(mine: Hashes, theirs: Hashes) -> npt.NDArray[np.int64]:
    order = np.argsort(mine, kind="stable")
    ranked, other = mine[order], np.sort(theirs)
    rank = np.arange(len(ranked)) - np.searchsorted(ranked, ranked, "left")
    there = np.searchsorted(other, ranked, "right") - np.searchsorted(other, ranked, "left")
    return np.sort(order[rank >= there])


def _same(old: _Side, new: _Side) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Places of rows with an identity that exactly one row on each side has."""
    mine, theirs = _once(old), _once(new)
    _, first, second = np.intersect1d(old.identity[mine], new.identity[theirs], return_indices=True)
    return mine[first], theirs[second]


def _once(side: _Side) -> npt.NDArray[np.int64]:
    places = np.flatnonzero(side.known)
    _, first, counts = np.unique(side.identity[places], return_index=True, return_counts=True)
    single: npt.NDArray[np.int64] = places[first[counts == 1]]
    return single


def _numbers(column: pa.ChunkedArray) -> Hashes:
    hashes: Hashes = column.to_numpy().astype(np.uint64, copy=False)
    return hashes
