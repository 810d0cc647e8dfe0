"""Facts about data files: what columns hold, at least and at most, and in which bucket all of their values are.

A fact is about a column of a data file, by the file's name, which pylance generates and never uses again, and by the
column's place in it. Data files never change, so a fact cannot become wrong: not by deletions, updates in place (which
put the column into another file), compactions, merges, restored versions, or changes of other writers. Only what is
known about a fragment's present files counts; all other fragments are read.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lance_spark.core.layout import is_generated
from lance_spark.layout.hash_rules import bucket_of
from lance_spark.layout.key_rules import Key, counted, key_of, key_of_rows
from lance_spark.layout.layout_rules import BUCKET, IDENTITY, NO_LAYOUT, TableLayout, Transform

FACTS = "lance_spark.facts"
"""Key beside those of pylance in a fragment's JSON, on its way from the task that wrote it to the commit."""
KEY = "lance_spark.key"
"""The same for the key of its partition."""
_LONGEST = 64
"""Characters of the longest text that is kept as a bound."""
_VERSION = 1


class Bounds(NamedTuple):
    """What a column of a data file holds, of rows that were deleted since, too."""

    low: Any
    """The least value; None if there is none but null."""
    high: Any
    has_null: bool
    buckets: tuple[tuple[int, int], ...] = ()
    """(number of buckets, the only one that the values are in)."""

    def bucket(self, of: int) -> int | None:
        """The only bucket of that many; None if unknown."""
        return next((bucket for count, bucket in self.buckets if count == of), None)

    def joined(self, other: Bounds) -> Bounds:
        """Bounds of the values of both."""
        lows = [each for each in (self.low, other.low) if each is not None]
        highs = [each for each in (self.high, other.high) if each is not None]
        same = tuple(each for each in self.buckets if each in other.buckets)
        null = self.has_null or other.has_null
        return Bounds(min(lows, default=None), max(highs, default=None), null, same)

    def narrowed(self, other: Bounds) -> Bounds:
        """Bounds of the same values, of which both are known."""
        null, buckets = self.has_null and other.has_null, tuple(dict.fromkeys((*self.buckets, *other.buckets)))
        if self.low is None or other.low is None:
            return Bounds(None, None, null, buckets)
        return Bounds(max(self.low, other.low), min(self.high, other.high), null, buckets)


def tracked(kind: pa.DataType) -> bool:
    """Whether bounds of a type's values can be told."""
    return bool(
        pt.is_signed_integer(kind) or pt.is_boolean(kind) or pt.is_date32(kind) or pt.is_timestamp(kind)
        or pt.is_string(kind) or pt.is_large_string(kind) or pt.is_decimal128(kind)
        or pt.is_float32(kind) or pt.is_float64(kind)
    )  # fmt: skip


def bounds_of(values: pa.Array, buckets: Iterable[int] = ()) -> Bounds | None:
    """The bounds of values; None if they cannot be told: a NaN is among them, or a long text."""
    kind = values.type
    if not tracked(kind):
        return None
    if pt.is_floating(kind) and pc.any(pc.is_nan(values)).as_py():
        return None
    found = pc.min_max(counted(values))
    low, high = found["min"].as_py(), found["max"].as_py()
    if isinstance(low, str) and max(len(low), len(high)) > _LONGEST:
        return None
    only = [(count, np.unique(bucket_of(values, count))) for count in buckets]
    told = tuple((count, int(found[0])) for count, found in only if len(found) == 1)
    return Bounds(low, high, values.null_count > 0, told)


@dataclass(frozen=True)
class Watched:
    name: str
    buckets: tuple[int, ...] = ()


def watched(layout: TableLayout) -> tuple[Watched, ...]:
    counts = {name: [] for name in layout.columns}  # type: dict[str, list[int]]
    for each in layout.partition:
        if each.name == BUCKET and each.argument is not None:
            counts[each.column].append(each.argument)
    return tuple(Watched(name, tuple(dict.fromkeys(found))) for name, found in counts.items())


class Collector:
    """Collects the bounds of watched columns, batch by batch, of rows that are written one after the other."""

    def __init__(self, columns: Sequence[Watched], layout: TableLayout = NO_LAYOUT) -> None:
        """With a ``layout``, for rows that all have one key of it."""
        self._columns, self._layout = columns, layout
        self._key: Key | None = None
        self._seen: list[tuple[int, dict[str, Bounds | None]]] = []

    def watch(self, batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        """The batches, unchanged."""
        for batch in batches:
            known = {
                each.name: bounds_of(batch.column(each.name), each.buckets)
                for each in self._columns
                if each.name in batch.schema.names
            }
            self._seen.append((batch.num_rows, known))
            if self._key is None and self._layout.partition:
                self._key = key_of_rows(self._layout, batch)
            yield batch

    def give(self, fragments: Sequence[dict[str, Any]], ids: Mapping[str, int]) -> None:
        """Add the facts to fragments, pylance's JSON, that hold these rows in order. ``ids`` are those of the columns.

        A batch that two fragments share counts for both.
        """
        for fragment in fragments if self._key is not None else ():
            fragment[KEY] = key_json(self._key or ())
        if sum(each["physical_rows"] for each in fragments) != sum(rows for rows, _ in self._seen):
            return
        start = 0
        for fragment in fragments:
            end = start + fragment["physical_rows"]
            found: dict[str, Bounds | None] = {}
            here = 0
            for rows, known in self._seen:
                if here < end and here + rows > start:
                    for name, bounds in known.items():
                        before = found.get(name, bounds)
                        found[name] = None if before is None or bounds is None else before.joined(bounds)
                here += rows
            facts = _placed(fragment, found, ids)
            if facts:
                fragment[FACTS] = facts
            start = end


def _placed(
    fragment: Mapping[str, Any], found: Mapping[str, Bounds | None], ids: Mapping[str, int]
) -> dict[str, dict[str, Any]]:
    """By file, and by the column's place in it."""
    placed: dict[str, dict[str, Any]] = {}
    for file in fragment["files"]:
        if not is_generated(file["path"]):
            continue
        places = dict(zip(file["fields"], file["column_indices"], strict=False))
        for name, bounds in found.items():
            place = places.get(ids.get(name))
            if bounds is not None and place is not None and place >= 0:
                placed.setdefault(file["path"], {})[str(place)] = as_json(bounds)
    return placed


def inherited(
    fragments: Sequence[Mapping[str, Any]], sources: Sequence[Mapping[str, Bounds]], ids: Mapping[str, int]
) -> dict[str, dict[str, Any]]:
    """Facts of new fragments, pylance's JSON, that hold rows of others: the bounds of all of those, where known."""
    found: dict[str, Bounds | None] = {}
    for name in ids:
        known = [each.get(name) for each in sources]
        if known and all(each is not None for each in known):
            found[name] = reduce(Bounds.joined, [each for each in known if each is not None])
    facts: dict[str, dict[str, Any]] = {}
    for fragment in fragments:
        facts |= _placed(fragment, found, ids)
    return facts


def as_json(bounds: Bounds) -> list[Any]:
    ends = [{"d": str(end)} if isinstance(end, Decimal) else end for end in (bounds.low, bounds.high)]
    return [*ends, bounds.has_null, [list(each) for each in bounds.buckets]]


def key_json(key: Key) -> list[Any]:
    return [{"d": str(value)} if isinstance(value, Decimal) else value for value in key]


def keys_in(fragments: Sequence[str]) -> set[Key]:
    """The keys of new fragments, pylance's JSON as texts, as tasks sent them along."""
    told = (json.loads(text).get(KEY) for text in fragments)
    return {
        tuple(Decimal(value["d"]) if isinstance(value, dict) else value for value in key)
        for key in told
        if key is not None
    }


def from_json(entry: Sequence[Any]) -> Bounds:
    low, high = (Decimal(end["d"]) if isinstance(end, dict) else end for end in entry[:2])
    return Bounds(low, high, bool(entry[2]), tuple((int(count), int(only)) for count, only in entry[3]))


# --- The file of the facts that one commit brings


def taken(fragments: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
    """Fragments without their facts, and the facts by file. Fragments are pylance's JSON, as texts."""
    plain_fragments, facts = [], {}
    for text in fragments:
        if FACTS not in text and KEY not in text:
            plain_fragments.append(text)
            continue
        entry = json.loads(text)
        facts.update(entry.pop(FACTS, {}))
        entry.pop(KEY, None)
        plain_fragments.append(json.dumps(entry))
    return plain_fragments, facts


def sealed(told: Mapping[str, Any]) -> bytes:
    """The content of a file, with a checksum: a damaged one counts for nothing."""
    content = json.dumps({"version": _VERSION, **told}, separators=(",", ":")).encode()
    return b"%08x" % zlib.crc32(content) + content


def unsealed(content: bytes) -> dict[str, Any]:
    """What a file says. Raises ValueError for one that is damaged, or of a later version."""
    told: dict[str, Any] = json.loads(content[8:]) if int(content[:8], 16) == zlib.crc32(content[8:]) else {}
    if told.get("version") != _VERSION:
        raise ValueError("damaged, or of a later version")
    return told


def encoded(facts: Mapping[str, Any]) -> bytes:
    """The content of a file of facts."""
    return sealed({"files": facts})


def decoded(content: bytes) -> dict[str, dict[int, Bounds]]:
    """The facts in a file; none in one that is damaged, or of a later version."""
    try:
        told = unsealed(content)
        return {
            name: {int(place): from_json(entry) for place, entry in columns.items()}
            for name, columns in told["files"].items()
        }
    except (ValueError, KeyError, TypeError, IndexError, ArithmeticError):
        return {}


def together(parts: Iterable[Mapping[str, Mapping[int, Bounds]]]) -> dict[str, Mapping[int, Bounds]]:
    """The facts of several files of them. Two may tell of one data file: other columns, or other buckets."""
    facts: dict[str, Mapping[int, Bounds]] = {}
    for found in parts:
        twice = {file: _both(facts[file], found[file]) for file in facts.keys() & found.keys()}
        facts.update(found)
        facts.update(twice)
    return facts


def _both(some: Mapping[int, Bounds], others: Mapping[int, Bounds]) -> Mapping[int, Bounds]:
    return {**some, **others, **{place: some[place].narrowed(others[place]) for place in some.keys() & others.keys()}}


# --- The key of all rows of a fragment


def only_key(
    transforms: Sequence[Transform], bounds: Mapping[str, Bounds], kinds: Mapping[str, pa.DataType]
) -> Key | None:
    """The key that all rows of a fragment have; None if they may have several."""
    found: list[Any] = []
    for each in transforms:
        known = bounds.get(each.column)
        if known is None:
            return None
        if each.name == BUCKET:
            bucket = known.bucket(int(each.argument or 1))
            if bucket is None:
                return None
            found.append(bucket)
            continue
        if known.low is None:
            found.append(None)
            continue
        if known.has_null:
            return None
        if each.name == IDENTITY:
            ends = [known.low, known.high]
        else:  # none of them decreases where its column grows
            ends = [key_of(each, kinds[each.column], end) for end in (known.low, known.high)]
        if ends[0] != ends[1]:
            return None
        found.append(ends[0])
    return tuple(found)
