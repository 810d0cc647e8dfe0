"""How a value of a row looks on a page: text that folds, images, vectors, bytes. Pure."""

from __future__ import annotations

import base64
import json
import math
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time
from typing import Any

from lance_spark.core.texts import counted, readable, visible

NULL, TEXT, NUMBER, IMAGE, VECTOR, BYTES, NESTED = "null", "text", "number", "image", "vector", "bytes", "nested"

SHORT = 120
"""Characters of a text that are shown before it is unfolded."""
LONGEST = 20_000
"""Characters that unfolding shows: a page with fifty rows must stay a page."""
LARGEST_IMAGE = 256 * 1024
"""Bytes of an image that a page has in it."""
_FEW = 8
"""Numbers in a list that is shown as a list; a longer one of floats is a vector."""
_POINTS = 64
"""Points of a vector's picture."""
WIDTH, HEIGHT = 96, 20
"""Size of that picture in pixels."""


@dataclass(frozen=True)
class Cell:
    """A value as a page shows it. All texts are the user's data: templates escape them."""

    kind: str
    text: str
    full: str = ""
    """What unfolding shows; empty if ``text`` is all."""
    image: str = ""
    points: str = ""
    """Of a vector, the points of its picture in SVG's notation."""
    mark: str = ""
    """``changed`` in a row of a difference."""


@dataclass(frozen=True)
class Pair:
    """A cell of a row that two versions have; ``after`` alone if nothing changed."""

    after: Cell
    before: Cell | None = None

    @property
    def changed(self) -> bool:
        return self.before is not None


def cell(value: Any) -> Cell:
    """A value of a row, as pyarrow hands it out."""
    if value is None:
        return Cell(NULL, "null")
    if isinstance(value, bool):
        return Cell(TEXT, str(value).lower())
    if isinstance(value, int | float):
        return Cell(NUMBER, str(value))
    if isinstance(value, str):
        return _text(TEXT, value)
    if isinstance(value, bytes | bytearray | memoryview):
        return _bytes(bytes(value))
    if isinstance(value, datetime | date | time):
        return Cell(TEXT, value.isoformat(" ") if isinstance(value, datetime) else value.isoformat())
    if isinstance(value, Sequence) and len(value) > _FEW and all(isinstance(item, float) for item in value):
        return _vector(value)
    if isinstance(value, Mapping | Sequence):
        return _text(NESTED, json.dumps(_plain(value), ensure_ascii=False, default=str))
    return _text(TEXT, str(value))


def cells(row: Mapping[str, Any], names: Sequence[str]) -> tuple[Cell, ...]:
    return tuple(cell(row.get(name)) for name in names)


def pairs(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, names: Sequence[str]) -> tuple[Pair, ...]:
    """The cells of a row in two versions, of which one may not have it; those that differ have both."""
    if before is None or after is None:
        return tuple(Pair(cell((before or after or {}).get(name))) for name in names)
    found = []
    for name in names:
        old, new = before.get(name), after.get(name)
        same = name in before and name in after and equal(old, new)
        found.append(Pair(cell(new)) if same else Pair(replace(cell(new), mark="changed"), cell(old)))
    return tuple(found)


def equal(one: Any, other: Any) -> bool:
    """Whether two values are the same; NaN is NaN, at any depth."""
    if isinstance(one, float) and isinstance(other, float):
        return one == other or (math.isnan(one) and math.isnan(other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(equal, one, other))
    return type(one) is type(other) and bool(one == other)


def _text(kind: str, value: str) -> Cell:
    value = visible(value)
    if len(value) <= SHORT and "\n" not in value.strip():
        return Cell(kind, value)
    first = value.strip().partition("\n")[0][:SHORT]
    rest = len(value) - LONGEST
    full = value if rest <= 0 else f"{value[:LONGEST]}\n… and {counted(rest, 'more character')}"
    return Cell(kind, f"{first}… ({counted(len(value), 'character')})", full)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, bytes | bytearray | memoryview):
        return f"<{counted(len(value), 'byte')}>"
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _vector(values: Sequence[float]) -> Cell:
    norm = math.sqrt(math.fsum(value * value for value in values if math.isfinite(value)))
    first = ", ".join(f"{value:.3g}" for value in values[:4])
    text = f"{len(values):,} floats: {first}, …; length {norm:.4g}"
    step = max(1, math.ceil(len(values) / _POINTS))
    shown = [value if math.isfinite(value) else 0.0 for value in values[::step]]
    low, high = min(shown), max(shown)
    span = (high - low) or 1.0
    across = max(1, len(shown) - 1)
    points = " ".join(
        f"{WIDTH * at / across:.1f},{HEIGHT - 1 - (HEIGHT - 2) * ((value - low) / span):.1f}"
        for at, value in enumerate(shown)
    )
    return Cell(
        VECTOR, text, json.dumps([float(f"{value:.6g}") for value in values[:2000]], allow_nan=True), "", points
    )


def _bytes(value: bytes) -> Cell:
    kind = image_kind(value)
    if kind is None:
        start = value[:16].hex(" ")
        return Cell(
            BYTES, f"{counted(len(value), 'byte')}" + (f": {start}{' …' if len(value) > 16 else ''}" if value else "")
        )
    said = f"{kind.rpartition('/')[2].upper()} image, {readable(len(value))}"
    if len(value) > LARGEST_IMAGE:
        return Cell(BYTES, f"{said}; too large to show here")
    return Cell(IMAGE, said, "", f"data:{kind};base64,{base64.b64encode(value).decode()}")


def image_kind(value: bytes) -> str | None:
    """The media type of a whole image that browsers show; None for anything else.

    What merely begins like an image would be a broken picture. SVG is text, which could have scripts in it.
    """
    if value.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png" if _is_png(value) else None
    if value.startswith(b"\xff\xd8\xff"):
        return "image/jpeg" if value.rstrip(b"\0").endswith(b"\xff\xd9") else None
    if value[:6] in (b"GIF87a", b"GIF89a"):
        return "image/gif" if value.endswith(b";") else None
    if value[:4] == b"RIFF" and value[8:12] == b"WEBP":
        return "image/webp" if struct.unpack("<I", value[4:8])[0] + 8 <= len(value) else None
    return None


def _is_png(value: bytes) -> bool:
    """Whether all its parts are there and have their checksums."""
    at, end = 8, False
    while at + 12 <= len(value):
        size = int.from_bytes(value[at : at + 4], "big")
        part, check = value[at + 4 : at + 8 + size], value[at + 8 + size : at + 12 + size]
        if len(check) < 4 or zlib.crc32(part) != int.from_bytes(check, "big"):
            return False
        end = part[:4] == b"IEND"
        at += 12 + size
    return end
