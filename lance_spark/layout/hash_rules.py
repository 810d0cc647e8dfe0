"""The hash of buckets: Murmur3 with 32 bits and seed 0 of a value in Spark's form, as the JVM connector has it.

So tables of that connector and ours with as many buckets agree. Iceberg widens whole numbers to 64 bits first: its
buckets are others.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

_Words = npt.NDArray[np.uint32]
_C1, _C2, _M, _N = (np.uint32(each) for each in (0xCC9E2D51, 0x1B873593, 5, 0xE6546B64))


def bucket_of(values: pa.Array, buckets: int) -> npt.NDArray[np.int32]:
    """The bucket of each value. Nulls are in bucket 0."""
    hashed = hashed_words(values) & np.uint32(0x7FFFFFFF)
    found: npt.NDArray[np.int32] = (hashed % np.uint32(buckets)).astype(np.int32)
    if values.null_count:
        found[values.is_null().to_numpy(zero_copy_only=False)] = 0
    return found


def hashed_words(values: pa.Array) -> _Words:
    """The hash of each value; that of a null is not to be used."""
    kind = values.type
    if pt.is_boolean(kind):
        return _words(values.cast(pa.int8()).fill_null(0).to_numpy().astype(np.int32).view(np.uint32))
    if pt.is_date32(kind):
        return _words(values.cast(pa.int32()).fill_null(0).to_numpy().view(np.uint32))
    if pt.is_timestamp(kind):
        micros = values if kind.unit == "us" else values.cast(pa.timestamp("us", kind.tz), safe=False)
        return _longs(micros.cast(pa.int64()).fill_null(0).to_numpy())
    if pt.is_int64(kind):
        return _longs(values.fill_null(0).to_numpy())
    if pt.is_integer(kind):
        return _words(values.fill_null(0).to_numpy().astype(np.int32).view(np.uint32))
    if pt.is_float32(kind):
        return _words(_settled(values.fill_null(0).to_numpy(), np.float32).view(np.uint32))
    if pt.is_float64(kind):
        return _longs(_settled(values.fill_null(0).to_numpy(), np.float64).view(np.int64))
    return _texts(values)


def _settled(values: npt.NDArray[np.floating], kind: type) -> npt.NDArray[np.floating]:
    """One zero, and one NaN, as Spark has them."""
    found: npt.NDArray[np.floating] = values.astype(kind) + kind(0)
    found[np.isnan(found)] = np.nan
    return found


def _words(words: _Words) -> _Words:
    return _ended(_mixed(np.zeros(len(words), np.uint32), words), np.full(len(words), 4, np.uint32))


def _longs(values: npt.NDArray[np.int64]) -> _Words:
    bits = values.astype(np.int64).view(np.uint64)
    low, high = (bits & np.uint64(0xFFFFFFFF)).astype(np.uint32), (bits >> np.uint64(32)).astype(np.uint32)
    mixed = _mixed(_mixed(np.zeros(len(bits), np.uint32), low), high)
    return _ended(mixed, np.full(len(bits), 8, np.uint32))


def _texts(values: pa.Array) -> _Words:
    """Words of four bytes in little-endian order; each of the bytes that are left is a word, with its sign."""
    plain = values.cast(pa.large_binary()).fill_null(b"")
    _, offsets, data = plain.buffers()
    ends = np.frombuffer(offsets, np.int64, len(plain) + 1 + plain.offset)[plain.offset :]
    content = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)
    starts, lengths = ends[:-1], np.diff(ends)
    found = np.zeros(len(plain), np.uint32)
    for word in range(int(lengths.max(initial=0)) // 4):
        has = np.flatnonzero(lengths >= 4 * (word + 1))
        at = starts[has] + 4 * word
        parts = [content[at + byte].astype(np.uint32) << np.uint32(8 * byte) for byte in range(4)]
        found[has] = _mixed(found[has], parts[0] | parts[1] | parts[2] | parts[3])
    for byte in range(3):
        has = np.flatnonzero(lengths % 4 > byte)
        at = starts[has] + lengths[has] // 4 * 4 + byte
        found[has] = _mixed(found[has], content[at].view(np.int8).astype(np.int32).view(np.uint32))
    return _ended(found, lengths.astype(np.uint32))


def _rotated(words: _Words, bits: int) -> _Words:
    found: _Words = (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))
    return found


def _mixed(state: _Words, words: _Words) -> _Words:
    found: _Words = _rotated(state ^ (_rotated(words * _C1, 15) * _C2), 13) * _M + _N
    return found


def _ended(state: _Words, lengths: _Words) -> _Words:
    found: _Words = state ^ lengths
    found = (found ^ (found >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    found = (found ^ (found >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    found ^= found >> np.uint32(16)
    return found
