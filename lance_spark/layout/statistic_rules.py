"""Statistics of columns for Spark's optimizer: of groups of data files, which never change, and of versions.

A group has the numbers of distinct values as HyperLogLog sketches, which merge: those of any version, on any branch,
come from the groups of its files. Deleted rows still count, and files that no group has are estimated from those that
one has. So these are estimates, for plans alone. The sketch is that of Flajolet et al. with 4,096 registers and hashes
of 32 bits, read by Ertl's estimator (https://arxiv.org/abs/1702.01284): libraries for it take one value at a time.
"""

from __future__ import annotations

import base64
import math
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lance_spark.format.blobs import holds_blobs
from lance_spark.format.kept_types import is_plain
from lance_spark.layout.fact_rules import Bounds, as_json, bounds_of, from_json, sealed, tracked, unsealed
from lance_spark.layout.filter_rules import All, Compared, Condition, OneOf, columns_of
from lance_spark.layout.hash_rules import hashed_words
from lance_spark.layout.histogram_rules import (
    POINTS,
    Distribution,
    distribution_from,
    distribution_of,
    distribution_text,
    evenly_around,
    has_distribution,
    joined_distributions,
)

_PLACES = 12
_REGISTERS = 1 << _PLACES
_LEFT = 32 - _PLACES
"""Bits of a hash that say how rare it is."""
_HASHES = 2.0**32
_ODD = np.uint64(0x9E3779B97F4A7C15)
Registers = npt.NDArray[np.uint8]


def countable(schema: pa.Schema) -> tuple[str, ...]:
    """The columns whose distinct values can be counted."""
    return tuple(
        field.name
        for field in schema
        if (tracked(field.type) or pt.is_binary(field.type) or pt.is_large_binary(field.type))
        and is_plain(field)
        and not holds_blobs(field)
    )


def registers_of(values: pa.Array) -> Registers:
    """The sketch of the values that are not null."""
    found: Registers = np.zeros(_REGISTERS, np.uint8)
    known = values.drop_null()
    if not len(known):
        return found
    hashes = hashed_words(_plain(known))
    rest = (hashes >> np.uint32(_PLACES)).astype(np.float64)
    # The position of the highest bit that is set: exact, as doubles have more digits than these numbers.
    rank = np.where(rest > 0, _LEFT - np.frexp(rest)[1] + 1, _LEFT + 1).astype(np.uint8)
    np.maximum.at(found, hashes & np.uint32(_REGISTERS - 1), rank)
    return found


def _plain(values: pa.Array) -> pa.Array:
    """As many distinct values of a type that is hashed quickly."""
    if not pt.is_decimal(values.type):
        return values if values.type.num_buffers == 2 else values.unique()
    words = np.frombuffer(values.buffers()[1], np.uint64)[2 * values.offset :][: 2 * len(values)]
    return pa.array((words[::2] + words[1::2] * _ODD).view(np.int64))


def distinct_of(registers: Registers) -> int:
    """About how many values a sketch has seen; 2 of 3 times within 1.6 percent."""
    counts = np.bincount(registers, minlength=_LEFT + 2).astype(float)
    total = _REGISTERS * _tau(1 - counts[_LEFT + 1] / _REGISTERS)
    for at in range(_LEFT, 0, -1):
        total = (total + counts[at]) / 2
    total += _REGISTERS * _sigma(counts[0] / _REGISTERS)
    hashes = _REGISTERS**2 / (2 * math.log(2)) / total if math.isfinite(total) and total else 0.0
    return round(-_HASHES * math.log1p(-min(hashes, 0.999 * _HASHES) / _HASHES))


def _sigma(share: float) -> float:
    if share == 1.0:
        return math.inf
    found, weight, before = share, 1.0, -1.0
    while found != before:
        share *= share
        before = found
        found += share * weight
        weight += weight
    return found


def _tau(share: float) -> float:
    if share in (0.0, 1.0):
        return 0.0
    found, weight, before = 1 - share, 1.0, -1.0
    while found != before:
        share = math.sqrt(share)
        before = found
        weight /= 2
        found -= (1 - share) ** 2 * weight
    return found / 3


# --- What is known of a column of a group of files


@dataclass(frozen=True)
class Sketched:
    """A column of a group of files."""

    rows: int
    nulls: int
    bytes: int
    """Of all values together."""
    longest: int
    bounds: Bounds | None
    registers: Registers
    distribution: Distribution | None = None
    """None if it was not measured."""


def joined_sketches(parts: Sequence[Sketched]) -> Sketched:
    """The column of all of them, of which there is at least one."""
    if len(parts) == 1:
        return parts[0]
    bounds = [each.bounds for each in parts if each.bounds is not None]
    spread = [each.distribution for each in parts if each.distribution is not None]
    return Sketched(
        sum(each.rows for each in parts),
        sum(each.nulls for each in parts),
        sum(each.bytes for each in parts),
        max(each.longest for each in parts),
        reduce(Bounds.joined, bounds) if len(bounds) == len(parts) else None,
        reduce(np.maximum, [each.registers for each in parts]),
        joined_distributions(spread) if len(spread) == len(parts) else None,
    )


def sketch_of(values: pa.Array, histogram: bool = False) -> Sketched:
    """What a column's values have; with ``histogram`` how they are distributed, too, for types that can tell."""
    kind = values.type
    if pt.is_string(kind) or pt.is_large_string(kind) or pt.is_binary(kind) or pt.is_large_binary(kind):
        lengths = pc.binary_length(values)
        size, longest = pc.sum(lengths).as_py() or 0, pc.max(lengths).as_py() or 0
        bounds = None  # Spark makes no use of those of texts
    else:
        longest = max(1, kind.bit_width // 8)
        size, bounds = longest * (len(values) - values.null_count), bounds_of(values)
    spread = distribution_of(values) if histogram and has_distribution(kind) else None
    return Sketched(len(values), values.null_count, size, longest, bounds, registers_of(values), spread)


@dataclass(frozen=True)
class Group:
    """Files that have the same columns in the same places, and what is known of these columns."""

    files: tuple[str, ...]
    columns: Mapping[int, Sketched]
    """By the column's place in each file."""
    names: Mapping[int, str]

    @property
    def shape(self) -> tuple[tuple[int, str, bool], ...]:
        """The columns, and which of them have distributions: joined with others, these would be lost."""
        return tuple(
            (place, name, self.columns[place].distribution is not None) for place, name in sorted(self.names.items())
        )


def joined(groups: Iterable[Group]) -> list[Group]:
    """Groups with the same columns in the same places become one."""
    found: dict[tuple[tuple[int, str, bool], ...], list[Group]] = {}
    for each in groups:
        found.setdefault(each.shape, []).append(each)
    return [_all_of(each) for each in found.values()]


def _all_of(groups: Sequence[Group]) -> Group:
    files = tuple(dict.fromkeys(file for each in groups for file in each.files))
    columns = {place: joined_sketches([each.columns[place] for each in groups]) for place in groups[0].columns}
    return Group(files, columns, groups[0].names)


def group_json(group: Group) -> dict[str, Any]:
    return {
        "files": list(group.files),
        "columns": {
            str(place): [
                known.rows,
                known.nulls,
                known.bytes,
                known.longest,
                None if known.bounds is None else as_json(known.bounds),
                base64.b85encode(zlib.compress(known.registers.tobytes())).decode(),
                group.names[place],
            ]
            for place, known in group.columns.items()
        },
        "distributions": {  # apart from the columns: versions of this package before it can read them
            str(place): distribution_text(known.distribution)
            for place, known in group.columns.items()
            if known.distribution is not None
        },
    }


def group_from(told: Mapping[str, Any]) -> Group:
    """Raises ValueError and others for anything else."""
    columns, names = {}, {}
    spread = {int(place): distribution_from(text) for place, text in told.get("distributions", {}).items()}
    for place, (rows, nulls, size, longest, bounds, text, name) in told["columns"].items():
        registers = np.frombuffer(zlib.decompress(base64.b85decode(text)), np.uint8)
        if len(registers) != _REGISTERS or registers.max() > _LEFT + 1:
            raise ValueError("no sketch")
        known = None if bounds is None else from_json(bounds)
        numbers = int(rows), int(nulls), int(size), int(longest)
        columns[int(place)] = Sketched(*numbers, known, registers, spread.get(int(place)))
        names[int(place)] = str(name)
    return Group(tuple(map(str, told["files"])), columns, names)


def encoded_groups(groups: Sequence[Group]) -> bytes:
    """The content of a file of statistics."""
    return sealed({"groups": [group_json(each) for each in groups]})


def decoded_groups(content: bytes) -> tuple[Group, ...]:
    """The groups in a file; none in one that is damaged, or of a later version."""
    try:
        return tuple(map(group_from, unsealed(content)["groups"]))
    except (ValueError, KeyError, TypeError, IndexError, ArithmeticError, zlib.error):
        return ()


# --- What that tells of a version

_FEWEST = 0.5
"""The part of a version's rows that has to be known."""
_REPEATED = 10
"""How often a value occurs, at least, in a column to which new rows are expected to bring no new values."""


class Places(NamedTuple):
    """Where a version has a column: for each fragment the rows, and the file and the place in it, if it is known."""

    rows: int
    file: str | None
    place: int


class Measured(NamedTuple):
    """What is known of the fragments of a version."""

    groups: Counter[int]
    """Rows by the group that knows them, by its number."""
    missing: tuple[int, ...]
    """Fragments, by their numbers, of which too little is known; not those without a file of the column."""
    without: tuple[int, ...]
    """The same, and fragments of which no distribution is known."""


class KnownGroups:
    """The groups of a dataset, by file."""

    def __init__(self, groups: Sequence[Group]) -> None:
        self.groups = groups
        self._by_file: dict[str, list[int]] = {}
        for number, each in enumerate(groups):
            for file in each.files:
                self._by_file.setdefault(file, []).append(number)

    def measured(self, places: Sequence[Places]) -> Measured:
        """Which group tells of each fragment: of several, the one of which the version has the largest part.

        One with a distribution comes before those without, if the version has enough of it. One that was measured
        after deletions has too little of a version from before, as of one that was restored.
        """
        found = [self._of(each) for each in places]
        live = Counter(number for numbers in found for number in numbers)
        held = Counter[int]()
        for numbers, each in zip(found, places, strict=True):
            held.update(dict.fromkeys(numbers, each.rows))
        short = {
            number
            for numbers, each in zip(found, places, strict=True)
            for number in numbers
            if held[number] > self.groups[number].columns[each.place].rows
        }
        shares = {
            number: 0.0 if number in short else count / len(self.groups[number].files) for number, count in live.items()
        }
        chosen: Counter[int] = Counter()
        missing, without = [], []
        for at, (numbers, each) in enumerate(zip(found, places, strict=True)):
            told = {number: self.groups[number].columns[each.place].distribution is not None for number in numbers}
            ranks = {number: (told[number] and shares[number] >= _FEWEST, shares[number], number) for number in numbers}
            best = max(numbers, key=ranks.__getitem__, default=None)
            if best is not None:
                chosen[best] += each.rows
            if each.file is not None and (best is None or shares[best] < _FEWEST):
                missing.append(at)
            if each.file is not None and (best is None or not ranks[best][0]):
                without.append(at)
        return Measured(chosen, tuple(missing), tuple(without))

    def _of(self, place: Places) -> list[int]:
        numbers = self._by_file.get(place.file, ()) if place.file is not None else ()
        return [number for number in numbers if place.place in self.groups[number].columns]


@dataclass(frozen=True)
class ColumnEstimate:
    """A column of a version, or of the rows that a filter keeps."""

    distinct: int
    nulls: int
    average: int
    """Bytes of a value, at least 1."""
    longest: int
    low: Any = None
    """In the form of :class:`lance_spark.layout.fact_rules.Bounds`; None if unknown."""
    high: Any = None
    measured: tuple[Any, Any] | None = None
    """The least and the greatest value of files that somebody has measured, if others may have more."""
    distribution: Distribution | None = None
    """Of all values; guessed for files that nobody has measured."""


def estimate_of(known: Sequence[tuple[Sketched, int]], rows: int) -> ColumnEstimate | None:
    """A column of a version with that many rows, from groups and how many rows of the version are theirs.

    None if nothing is known of half of the rows.
    """
    covered = sum(count for _, count in known)
    seen = sum(min(count, each.rows) for each, count in known)
    if not known or covered < _FEWEST * rows or not rows:
        return None
    whole = joined_sketches([replace(each, distribution=None) for each, _ in known])
    nulls = sum(each.nulls / max(1, each.rows) * count for each, count in known) * rows / max(1, covered)
    distinct: float = distinct_of(whole.registers)
    if distinct * _REPEATED > whole.rows - whole.nulls:  # nearly a key: so it goes on
        distinct *= max(1.0, rows / max(1, seen))
    measured = None if whole.bounds is None else (whole.bounds.low, whole.bounds.high)
    low, high, measured = (None, None, measured) if seen < rows or measured is None else (*measured, None)
    average = max(1, round(whole.bytes / max(1, whole.rows - whole.nulls)))
    numbers = min(round(distinct), rows - round(nulls)), round(nulls), average, whole.longest
    return ColumnEstimate(*numbers, low, high, measured, _distribution(known, covered, rows))


def _distribution(known: Sequence[tuple[Sketched, int]], covered: int, rows: int) -> Distribution | None:
    """That of the groups which have one, each with the rows that the version has of it; None for less than half.

    Rows of files that nobody has measured are spread evenly, and go as far beyond both ends as these are apart.
    """
    parts = [
        (each.distribution.scaled(count / max(1, each.rows)), count)
        for each, count in known
        if each.distribution is not None
    ]
    if not parts or sum(count for _, count in parts) < _FEWEST * covered:
        return None
    found = joined_distributions([each for each, _ in parts])
    others = found.count * (rows - covered) / max(1, covered)
    return found if others <= 0 else joined_distributions([found, evenly_around(found, others)])


def share_of(condition: Condition, columns: Mapping[str, ColumnEstimate], rows: int) -> float:
    """About which part of the rows a filter keeps.

    By the rules of Spark's own optimizer: values are evenly spread where no distribution is known, columns are
    independent, and what is unknown keeps all rows.
    """
    if condition is None or not rows:
        return 1.0
    if isinstance(condition, All):
        ranges = [each for each in condition.parts if isinstance(each, Compared) and each.operator in _RANGES]
        others = [each for each in condition.parts if each not in ranges]
        shares = [_ranged([each for each in ranges if each.column == name], columns.get(name), rows)
                  for name in dict.fromkeys(each.column for each in ranges)]  # fmt: skip
        return math.prod((*shares, *(share_of(each, columns, rows) for each in others)))
    if isinstance(condition, OneOf):
        return 1.0 - math.prod(1.0 - share_of(each, columns, rows) for each in condition.parts)
    known = columns.get(condition.column)
    return 1.0 if known is None else _compared(condition, known, rows)


_RANGES = ("<", "<=", ">", ">=")


def _ranged(ends: Sequence[Compared], known: ColumnEstimate | None, rows: int) -> float:
    """The part between the ends of a range of one column."""
    if known is None:
        return 1.0
    least, most = 0.0, 1.0
    for each in ends:
        part = _below(each.values[0], known, each.operator)
        if part is None:
            return math.prod(_compared(one, known, rows) for one in ends)
        least, most = (max(least, part), most) if each.operator in (">", ">=") else (least, min(most, part))
    return (1.0 - known.nulls / rows) * max(0.0, most - least)


def _compared(condition: Compared, known: ColumnEstimate, rows: int) -> float:
    nulls = known.nulls / rows
    if condition.operator in ("IS NULL", "IS NOT NULL"):
        return nulls if condition.operator == "IS NULL" else 1.0 - nulls
    one = 1.0 / max(1, known.distinct)
    if condition.operator in ("=", "IN"):
        values = [each for each in {*condition.values} if _inside(each, known)]
        return (1.0 - nulls) * min(1.0, sum(_equal(each, known, one) for each in values))
    if condition.operator == "<>":
        return (1.0 - nulls) * (1.0 - _equal(condition.values[0], known, one))
    part = _below(condition.values[0], known, condition.operator) if condition.operator != "STARTS" else None
    if part is None:
        return 1.0
    return (1.0 - nulls) * (part if condition.operator in ("<", "<=") else 1.0 - part)


def _inside(value: Any, known: ColumnEstimate) -> bool:
    return known.low is None or type(value) is not type(known.low) or known.low <= value <= known.high


def _equal(value: Any, known: ColumnEstimate, otherwise: float) -> float:
    """The part of the values that are a value: a frequent one is a point of the distribution."""
    here = _number(value)
    if known.distribution is None or here is None or not known.distribution.count:
        return otherwise
    less, most = known.distribution.counts([here])
    return float(most[0] - less[0]) / known.distribution.count or min(otherwise, 1.0 / POINTS)


def _number(value: Any) -> float | None:
    try:
        here = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return here if math.isfinite(here) else None


def _below(value: Any, known: ColumnEstimate, operator: str) -> float | None:
    """The part of the values below a value, or up to it for ``<=`` and ``>``; None if unknown."""
    here = _number(value)
    if known.distribution is not None and here is not None and known.distribution.count:
        less, most = known.distribution.counts([here])
        return float((most if operator in ("<=", ">") else less)[0]) / known.distribution.count
    low, high = _number(known.low), _number(known.high)
    if low is None or high is None or here is None:
        return None
    if low == high or not math.isfinite(high - low):
        return float(here >= high) if math.isfinite(high - low) else None
    return min(1.0, max(0.0, (here - low) / (high - low)))


def within(condition: Condition, name: str, known: ColumnEstimate, rows: int, before: int) -> ColumnEstimate:
    """A column among the rows that a filter keeps.

    It has fewer values where the filter is about it, and otherwise as many as if the rows were drawn at random.
    """
    if rows >= before:
        return known
    parts = condition.parts if isinstance(condition, All) else (condition,)
    about = [each for each in parts if columns_of(each) == {name}]
    share = share_of(All(tuple(about)), {name: replace(known, nulls=0, distribution=None)}, before)
    most = max(1.0, known.distinct * share)
    left = most * -math.expm1(-rows / most)
    nulls = 0 if about else round(known.nulls * rows / max(1, before))
    # Of the values in a range that a filter names, nothing tells the distribution without it.
    spread = None if about else known.distribution
    return replace(
        known, distinct=max(min(1, known.distinct), min(round(left), rows)), nulls=nulls, distribution=spread
    )
