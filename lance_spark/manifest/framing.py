"""Where the parts of a manifest file lie (specification, "Table Layout"): sections, manifest message, footer.

Every message is preceded by its length. The last 16 bytes are the position of the manifest message, the version
of the layout, and ``LANC``.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from lance_spark.errors import CorruptData

_FOOTER = struct.Struct("<qhh4s")
_LENGTH = struct.Struct("<I")
_MAGIC = b"LANC"


class Span(NamedTuple):
    """A stretch of a file, in bytes: from ``start`` to before ``end``."""

    start: int
    end: int


def manifest_span(content: bytes) -> Span:
    """Where the manifest message lies in its file.

    Raises CorruptData for a file that is empty, cut off, has other bytes at its end, or is no manifest.
    """
    size = len(content)
    if size < _FOOTER.size + _LENGTH.size:
        raise CorruptData(f"The manifest is cut off: it has {size} bytes.")
    position, _, _, magic = _FOOTER.unpack_from(content, size - _FOOTER.size)
    if magic != _MAGIC:
        raise CorruptData(f"The manifest is cut off or damaged: it ends in {magic!r}, not in {_MAGIC!r}.")
    last = size - _FOOTER.size
    if not 0 <= position <= last - _LENGTH.size:
        raise CorruptData(f"The manifest is cut off or damaged: its footer points to byte {position} of {size}.")
    span = _span_at(content, position)
    if span.end != last:
        raise CorruptData(f"The manifest is cut off or damaged: its message ends at byte {span.end}, not at {last}.")
    return span


def section_span(content: bytes, position: int, message: Span) -> Span:
    """Where the section at a position lies. Raises CorruptData if it is not in front of the manifest message."""
    last = message.start - _LENGTH.size
    if position <= last - _LENGTH.size:
        span = _span_at(content, position)
        if span.end <= last:
            return span
    raise CorruptData(f"The manifest is damaged: its index section at byte {position} does not end before {last}.")


def _span_at(content: bytes, position: int) -> Span:
    start = position + _LENGTH.size
    (length,) = _LENGTH.unpack_from(content, position)
    return Span(start, start + length)
