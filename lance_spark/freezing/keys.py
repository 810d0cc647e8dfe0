"""The hashes of a frozen set. They are the format of a promise: the same call gives the same rows everywhere, for good.

Two hashes of 64 bits, unsigned:

- of a row: ``mix(mix(id + k0) ^ k1)``, where ``id`` is ``_rowid``, additions wrap, ``mix`` is the last step of
  SplitMix64, and k0 and k1 are the two halves, little-endian, of ``blake2b("lance_spark.freeze/1/PURPOSE/SEED")`` of 16
  bytes. PURPOSE is ``order``, or ``split`` for rows without a group; SEED is decimal.
- of a group: ``blake2b`` of 8 bytes, little-endian, of the canonical bytes of its values one after the other, keyed
  with ``blake2b("lance_spark.freeze/1/group/SEED")`` of 16 bytes.

Canonical bytes of a value are a letter, the length of what follows (4 bytes, little-endian), and the value: one value
has the same bytes in every type that holds it exactly, whatever its width, unit or encoding.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from decimal import Decimal
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lance_spark.errors import InvalidOption

Hashes = npt.NDArray[np.uint64]
_NAMESPACE = "lance_spark.freeze/1"
_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def hash_row_ids(ids: Hashes, seed: int, purpose: str) -> Hashes:
    """The hashes of rows. Different rows never have the same one: each step can be undone."""
    secret = blake2b(f"{_NAMESPACE}/{purpose}/{seed}".encode(), digest_size=16).digest()
    first, second = np.frombuffer(secret, "<u8").astype(np.uint64)
    return _mixed(_mixed(ids + first) ^ second)


def _mixed(values: Hashes) -> Hashes:
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Hashes = values ^ (values >> np.uint64(31))
    return mixed


def hash_groups(columns: Sequence[pa.Array], seed: int) -> Hashes:
    """The hashes of groups, by the values of their columns in each row; none of the values is null."""
    secret = blake2b(f"{_NAMESPACE}/group/{seed}".encode(), digest_size=16).digest()
    if len(columns) == 1:
        values = pc.dictionary_encode(_plain(columns[0]))
        hashes = [_hash(key, secret) for key in canonical_bytes(values.dictionary)]
        return np.array(hashes, np.uint64)[np.asarray(values.indices, np.int64)]
    each = [canonical_bytes(column) for column in columns]
    return np.array([_hash(b"".join(keys), secret) for keys in zip(*each, strict=True)], np.uint64)


def _hash(key: bytes, secret: bytes) -> int:
    return int.from_bytes(blake2b(key, digest_size=8, key=secret).digest(), "little")


def check_key_type(name: str, kind: pa.DataType) -> None:
    """Raise InvalidOption for a column whose values have no canonical bytes."""
    try:
        canonical_bytes(pa.array([], kind))
    except (InvalidOption, pa.ArrowException, NotImplementedError):
        raise InvalidOption(
            f"Column '{name}' is {kind}, by which rows cannot be grouped.",
            hint="Group by numbers, text, bytes, booleans, dates or times.",
        ) from None


def canonical_bytes(values: pa.Array) -> list[bytes]:
    """The bytes of each value. Raises InvalidOption for a type that has none."""
    values = _plain(values)
    kind = values.type
    if pt.is_boolean(kind):
        return [_told(b"t", b"\1" if value else b"\0") for value in values.to_pylist()]
    if pt.is_integer(kind):
        return [_told(b"i", b"%d" % value) for value in values.to_pylist()]
    if pt.is_floating(kind):
        return [_told(b"f", _float(value)) for value in values.cast(pa.float64()).to_pylist()]
    if pt.is_decimal(kind):
        return [_told(b"n", _decimal(value)) for value in values.to_pylist()]
    if pt.is_string(kind) or pt.is_large_string(kind):
        return [_told(b"s", value.encode()) for value in values.to_pylist()]
    if pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_fixed_size_binary(kind):
        return [_told(b"b", value) for value in values.to_pylist()]
    return _temporal(values)


def _plain(values: Any) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if isinstance(values.type, pa.BaseExtensionType):
        values = values.storage
    if pt.is_dictionary(values.type):
        values = values.dictionary_decode()
    if str(values.type) in ("string_view", "binary_view"):
        values = values.cast(pa.large_string() if str(values.type) == "string_view" else pa.large_binary())
    return values


def _temporal(values: pa.Array) -> list[bytes]:
    kind = values.type
    if pt.is_date32(kind):
        return _counted(b"d", values.cast(pa.int32()), 1)
    if pt.is_date64(kind):
        return _counted(b"d", values.cast(pa.date32()).cast(pa.int32()), 1)
    if pt.is_timestamp(kind):
        letter = b"T" if kind.tz is None else b"Z"
        return _counted(letter, values.cast(pa.int64()), _NANOSECONDS[kind.unit])
    if pt.is_time(kind):
        width = pa.int32() if pt.is_time32(kind) else pa.int64()
        return _counted(b"h", values.cast(width), _NANOSECONDS[kind.unit])
    if pt.is_duration(kind):
        return _counted(b"u", values.cast(pa.int64()), _NANOSECONDS[kind.unit])
    raise InvalidOption(f"Rows cannot be grouped by values of type {kind}.")


def _counted(letter: bytes, values: pa.Array, factor: int) -> list[bytes]:
    return [_told(letter, b"%d" % (value * factor)) for value in values.to_pylist()]


def _told(letter: bytes, value: bytes) -> bytes:
    return letter + len(value).to_bytes(4, "little") + value


def _float(value: float) -> bytes:
    """Zeros are one value, and so are all that are not a number."""
    return struct.pack(">d", float("nan") if value != value else value + 0.0)


def _decimal(value: Decimal) -> bytes:
    """Without zeros at its end: 1.50 and 1.5 are one value, in exact digits."""
    sign, digits, exponent = value.as_tuple()
    text = "".join(map(str, digits)).lstrip("0")
    kept = text.rstrip("0")
    if not kept:
        return b"0e0"
    return f"{'-' if sign else ''}{kept}e{int(exponent) + len(text) - len(kept)}".encode()
