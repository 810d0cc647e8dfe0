"""One number per row, and the comparison of two versions by those numbers: rows added, deleted and changed.

Equal rows have equal numbers; different rows collide with a probability of 1 in 2**64. All columns are processed as
arrays, never row by row in Python. Values that compare as equal hash alike: 0.0 and -0.0, any two NaNs, a dictionary
and its values. Null differs from empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lance_spark.format.blobs import without_places
from lance_spark.format.schema import is_binary, is_list, is_string

Hashes = npt.NDArray[np.uint64]

_NULL, _SEED, _LENGTH, _STEP = (np.uint64(salt) for salt in (0x9AE1_6A3B, 0x2545_F491, 0x1B87_3593, 0xC2B2_AE3D))
_GOLDEN, _FIRST, _SECOND = (
    np.uint64(salt) for salt in (0x9E37_79B9_7F4A_7C15, 0xBF58_476D_1CE4_E5B9, 0x94D0_49BB_1331_11EB)
)
_BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def hash_rows(columns: Sequence[pa.Array], rows: int) -> Hashes:
    """A number per row, from columns in order. Names do not count: a renamed column holds the same values."""
    hashes = np.full(rows, _SEED, np.uint64)
    for column in columns:
        hashes = _mixed(hashes * _GOLDEN + _hashed(column))
    return hashes


def _mixed(values: Hashes) -> Hashes:
    """Spread every bit over all others (splitmix64)."""
    values = values + _GOLDEN
    values = (values ^ (values >> np.uint64(30))) * _FIRST
    values = (values ^ (values >> np.uint64(27))) * _SECOND
    hashes: Hashes = values ^ (values >> np.uint64(31))
    return hashes


def _hashed(values: pa.Array) -> Hashes:
    """A number per value of any type."""
    if isinstance(values.type, pa.BaseExtensionType):
        values = values.storage
    if pt.is_dictionary(values.type):
        values = values.dictionary_decode()
    hashes = _of_valid(values)
    if values.null_count:
        hashes = np.where(_array(values.is_null()), _NULL, hashes)
    return hashes


def _of_valid(values: pa.Array) -> Hashes:
    """A number per value; an arbitrary number for nulls."""
    kind = values.type
    if pt.is_null(kind):
        return np.full(len(values), _NULL, np.uint64)
    if pt.is_struct(kind):
        return hash_rows(values.flatten(), len(values))
    if pt.is_map(kind):
        entries = pa.StructArray.from_arrays([values.keys, values.items], names=["key", "value"])
        lengths = _lengths(_array(values.offsets).astype(np.int64))
        # Offsets of a slice count from the beginning of the sliced array; keys and items are not sliced.
        first = values.offsets[0].as_py() if len(values) else 0
        return _sequences(_hashed(entries.slice(first, int(lengths.sum()))), lengths)
    if is_list(kind):
        lengths = _array(pc.fill_null(pc.list_value_length(values), 0)).astype(np.int64)
        return _sequences(_hashed(values.flatten()), lengths)
    if pt.is_fixed_size_binary(kind) or pt.is_decimal(kind):
        return _fixed(values)
    if is_string(kind) or is_binary(kind):
        return _bytes(values)
    return _mixed(_words(values))


def _bytes(values: pa.Array) -> Hashes:
    """Text and bytes of any length."""
    if pt.is_string_view(values.type):
        values = values.cast(pa.string())
    filled = pc.fill_null(values.cast(pa.large_binary()), b"")
    offsets = np.frombuffer(filled.buffers()[1], np.int64)[filled.offset : filled.offset + len(filled) + 1]
    content = filled.buffers()[2]
    if content is None or not len(filled):
        return _sequences(np.zeros(0, np.uint64), np.zeros(len(filled), np.int64))
    letters = np.frombuffer(content, np.uint8)[offsets[0] : offsets[-1]]
    return _sequences(_mixed(letters.astype(np.uint64)), _lengths(offsets))


def _fixed(values: pa.Array) -> Hashes:
    """Values with a fixed number of bytes, regardless of their meaning."""
    width = values.type.byte_width
    content = values.buffers()[1]
    if content is None or not len(values):
        return np.zeros(len(values), np.uint64)
    raw = np.frombuffer(content, np.uint8)[values.offset * width : (values.offset + len(values)) * width]
    return _sequences(_mixed(raw.astype(np.uint64)), np.full(len(values), width, np.int64))


def _words(values: pa.Array) -> Hashes:
    """Numbers, times and truth values as 64 bits."""
    if pt.is_boolean(values.type):
        return _array(pc.fill_null(values, False)).astype(np.uint64)
    content = values.buffers()[1]
    width = values.type.bit_width // 8
    if width not in _BITS:
        raw = (
            values.cast(pa.binary(width))
            if not content
            else pa.Array.from_buffers(
                pa.binary(width), len(values), [values.buffers()[0], content], offset=values.offset
            )
        )
        return _fixed(raw)
    if content is None or not len(values):
        return np.zeros(len(values), np.uint64)
    whole: npt.NDArray[Any] = np.frombuffer(content, _BITS[width])[values.offset : values.offset + len(values)]
    if pt.is_floating(values.type):
        floats = whole.view({2: np.float16, 4: np.float32, 8: np.float64}[width])
        # Adding 0 turns -0.0 into 0.0.
        plain = np.where(np.isnan(floats), floats.dtype.type("nan"), floats + floats.dtype.type(0))
        whole = plain.astype(floats.dtype).view(_BITS[width])
    return whole.astype(np.uint64)


def _sequences(elements: Hashes, lengths: npt.NDArray[np.int64]) -> Hashes:
    """A number for each sequence, from its elements and their positions; the sequences are adjacent."""
    ends = np.cumsum(lengths)
    starts = ends - lengths
    places = np.arange(len(elements), dtype=np.int64) - np.repeat(starts, lengths)
    placed = _mixed(elements ^ _mixed(places.astype(np.uint64) * _STEP))
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(placed, dtype=np.uint64)])
    return _mixed(sums[ends] - sums[starts] + _mixed(lengths.astype(np.uint64) + _LENGTH))


def _lengths(offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    lengths: npt.NDArray[np.int64] = offsets[1:] - offsets[:-1]
    return lengths


def _array(values: pa.Array) -> npt.NDArray[Any]:
    array: npt.NDArray[Any] = values.to_numpy(zero_copy_only=False)
    return array


# --- Comparing the rows of two versions by their hashes
# Rows are compared as multisets: their count matters, not their place. Hashes of batches can be made anywhere, also on
# executors. Only the hashes are ever held for all rows at once, 24 bytes each.

HASHED = pa.schema([("content", pa.uint64()), ("identity", pa.uint64()), ("address", pa.uint64())])
"""Hash of a row's values; hash of its identity, which survives a change of values, or null if it has none; and its row
address (fragment and offset)."""
ADDRESS = "_rowaddr"


@dataclass(frozen=True)
class RowChanges:
    """Row addresses; ``changed_before`` and ``changed_after`` correspond one to one."""

    deleted: pa.Array
    added: pa.Array
    changed_before: pa.Array
    changed_after: pa.Array


def hashed(
    batch: pa.RecordBatch, content: Sequence[str], identity: Sequence[str] = (), blobs: Sequence[str] = ()
) -> pa.RecordBatch:
    """HASHED of a batch that has ``_rowaddr``, from the values of some of its columns.

    ``blobs`` are columns with blobs, read as descriptions. Their place in a file changes whenever rows move, so only
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
    return without_places(column) if name in blobs else column


def compare_hashed(before: pa.Table, after: pa.Table, renumbered: bool = True) -> RowChanges:
    """The changes between two sets of HASHED rows.

    Rows that occur equally often on both sides are unchanged. Of the others, those with the same identity were changed;
    an identity shared by several of them proves nothing. Equal rows with different identities are unchanged too, unless
    ``renumbered`` is False.
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


def equal_rows(before: pa.Table, after: pa.Table) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """The addresses of rows with equal values in two sets of HASHED rows, one to one."""
    old, new = _Side.of(before), _Side.of(after)
    places = []
    for mine, theirs in ((old, new), (new, old)):
        order = np.argsort(mine.content, kind="stable")
        ranked, other = mine.content[order], np.sort(theirs.content)
        rank = np.arange(len(ranked)) - np.searchsorted(ranked, ranked, "left")
        there = np.searchsorted(other, ranked, "right") - np.searchsorted(other, ranked, "left")
        places.append(mine.address[order[rank < there]])
    return places[0], places[1]


@dataclass(frozen=True)
class _Side:
    content: Hashes
    identity: Hashes
    known: npt.NDArray[np.bool_]
    """Which rows have an identity."""
    address: Hashes

    @staticmethod
    def of(table: pa.Table) -> _Side:
        known = np.asarray(pc.is_valid(table["identity"]), dtype=bool)
        identity = pc.fill_null(table["identity"], pa.scalar(0, pa.uint64()))
        return _Side(_numbers(table["content"]), _numbers(identity), known, _numbers(table["address"]))

    @property
    def both(self) -> Hashes:
        salted: Hashes = self.content ^ (self.identity * np.uint64(0x9E37_79B9_7F4A_7C15))
        return np.where(self.known, salted, self.content)

    def only(self, rows: npt.NDArray[Any]) -> _Side:
        return _Side(self.content[rows], self.identity[rows], self.known[rows], self.address[rows])

    def without(self, rows: npt.NDArray[Any]) -> _Side:
        return self.only(np.setdiff1d(np.arange(len(self.content)), rows))


def _unmatched(old: Hashes, new: Hashes) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Positions of values that occur more often on one side than on the other: all beyond the common count."""
    return _beyond(old, new), _beyond(new, old)


def _beyond(mine: Hashes, theirs: Hashes) -> npt.NDArray[np.int64]:
    order = np.argsort(mine, kind="stable")
    ranked, other = mine[order], np.sort(theirs)
    rank = np.arange(len(ranked)) - np.searchsorted(ranked, ranked, "left")
    there = np.searchsorted(other, ranked, "right") - np.searchsorted(other, ranked, "left")
    return np.sort(order[rank >= there])


def _same(old: _Side, new: _Side) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Positions of rows whose identity exactly one row on each side has."""
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
