"""Writes manifests byte by byte, without protobuf, so that reader and writer cannot be wrong in the same way."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from uuid import UUID

from lance_spark.format.manifest import BasePath

LAST_FOUR = b"LANC"
COLUMN = ("id", 0)
SECOND = 1_000_000_000


def varint(value: int) -> bytes:
    low, rest = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


def field(number: int, value: int | str | bytes | None) -> bytes:
    """One field; nothing for None. A number is written even if it is 0."""
    if value is None:
        return b""
    if isinstance(value, int):
        return varint(number << 3) + varint(value % 2**64)
    content = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(content)) + content


def data_file(path: str, base: int | None = None) -> bytes:
    return b"".join([field(1, path), field(2, b"\0"), field(4, 2), field(6, 1000), field(7, base)])


def deletion_file(read_version: int, number: int, kind: int = 0, base: int | None = None) -> bytes:
    return b"".join([field(1, kind or None), field(2, read_version), field(3, number), field(4, 1), field(7, base)])


def fragment(number: int, files: Iterable[bytes], deletion: bytes | None = None, more: bytes = b"") -> bytes:
    """A fragment record, with its tag and length. Its id is left out if it is 0, as writers do."""
    parts = [field(1, number or None), *(field(2, file) for file in files), field(3, deletion), field(4, 10), more]
    return field(2, b"".join(parts))


def column(name: str, number: int) -> bytes:
    return field(1, b"".join([field(2, name), field(3, number), field(5, "int64")]))


def index(identifier: UUID, base: int | None = None) -> bytes:
    return field(1, b"".join([field(1, field(1, identifier.bytes)), field(3, "an index"), field(9, base)]))


def head(
    version: int = 1,
    flags: tuple[int, int] = (0, 0),
    transaction: str | None = None,
    bases: Mapping[int, BasePath] | None = None,
    more: bytes = b"",
) -> bytes:
    """Those fields of a manifest message that follow the fragments."""
    base_paths = [
        field(18, b"".join([field(1, key or None), field(3, int(base.is_dataset_root) or None), field(4, base.path)]))
        for key, base in (bases or {}).items()
    ]
    when = field(7, field(1, 1_700_000_000) + field(2, version))
    words = field(9, flags[0] or None) + field(10, flags[1] or None)
    return b"".join([field(3, version), when, words, field(12, transaction), *base_paths, more])


def manifest_file(message: bytes, indices: bytes | None = None, prefix: bytes = b"") -> bytes:
    """A whole file: sections, the message, the footer. ``message`` is told where the index section is."""
    front = prefix
    if indices is not None:
        message += field(6, len(front))
        front += struct.pack("<I", len(indices)) + indices
    return front + struct.pack("<I", len(message)) + message + struct.pack("<qhh", len(front), 0, 2) + LAST_FOUR
