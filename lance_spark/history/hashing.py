"""One number for each row. Equal rows have equal numbers; different rows collide with a chance of 1 in 2**64.

All columns are worked through as arrays, never row by row in Python. Values that compare as equal hash alike: 0.0 and
-0.0, one NaN and another, a dictionary and its values. Null is a value of its own, and not the same as empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

Hashes = npt.NDArray[np.uint64]

_NULL, _SEED, _LENGTH, _STEP = (np.uint64(salt) for salt in (0x9AE1_6A3B, 0x2545_F491, 0x1B87_3593, 0xC2B2_AE3D))
_GOLDEN, _FIRST, _SECOND = (
    np.uint64(salt) for salt in (0x9E37_79B9_7F4A_7C15, 0xBF58_476D_1CE4_E5B9, 0x94D0_49BB_1331_11EB)
)
_BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def hash_rows(columns: Sequence[pa.Array], rows: int) -> Hashes:
    """A number per row, from columns in their order. Names do not count: a renamed column holds the same values."""
    hashes = np.full(rows, _SEED, np.uint64)
    for column in columns:
        hashes = _mixed(hashes * _GOLDEN + _hashed(column))
    return hashes


def _mixed(values: Hashes) -> Hashes:
    """Spreads every bit over all others (splitmix64)."""
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
    """A number per value; any number for those that are null."""
    kind = values.type
    if pt.is_null(kind):
        return np.full(len(values), _NULL, np.uint64)
    if pt.is_struct(kind):
        return hash_rows(values.flatten(), len(values))
    if pt.is_map(kind):
        entries = pa.StructArray.from_arrays([values.keys, values.items], names=["key", "value"])
        lengths = _lengths(_array(values.offsets).astype(np.int64))
        # Offsets of a slice count from the begin of what it was cut from; keys and items are not cut.
        first = values.offsets[0].as_py() if len(values) else 0
        return _sequences(_hashed(entries.slice(first, int(lengths.sum()))), lengths)
    if pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind):
        lengths = _array(pc.fill_null(pc.list_value_length(values), 0)).astype(np.int64)
        return _sequences(_hashed(values.flatten()), lengths)
    if pt.is_fixed_size_binary(kind) or pt.is_decimal(kind):
        return _fixed(values)
    if _is_text(kind):
        return _bytes(values)
    return _mixed(_words(values))


def _is_text(kind: pa.DataType) -> bool:
    return any(
        test(kind)
        for test in (
            pt.is_string,
            pt.is_large_string,
            pt.is_string_view,
            pt.is_binary,
            pt.is_large_binary,
            pt.is_binary_view,
        )
    )


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
    """Values of a fixed number of bytes, whatever they mean."""
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
        # Adding 0 makes 0.0 of -0.0.
        plain = np.where(np.isnan(floats), floats.dtype.type("nan"), floats + floats.dtype.type(0))
        whole = plain.astype(floats.dtype).view(_BITS[width])
    return whole.astype(np.uint64)


def _sequences(elements: Hashes, lengths: npt.NDArray[np.int64]) -> Hashes:
    """A number for each sequence, from its elements and their places; the sequences follow each other."""
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
