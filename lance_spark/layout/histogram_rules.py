"""How the values of a column are distributed, in a form that merges; and equi-height histograms, which Spark takes.

A distribution counts exactly how many values are less than some points of the axis, and how many are not greater.
Between two points it is a straight line. Points are chosen so that at most one part in ``POINTS`` of the values is
between two of them: so a count is at most that far off for values of a batch, and by as much again for each time that
distributions are joined. Joins take up to ``_AT_ONCE`` of them in one step, so that the steps are few.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

POINTS = 512
_AT_ONCE = 32
Numbers = npt.NDArray[np.float64]


def has_distribution(kind: pa.DataType) -> bool:
    """Whether a type's values have a distribution: those of which Spark takes histograms."""
    return bool(
        pt.is_signed_integer(kind) or pt.is_date32(kind) or pt.is_decimal128(kind)
        or pt.is_float32(kind) or pt.is_float64(kind) or (pt.is_timestamp(kind) and kind.tz is not None)
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Distribution:
    """Of values as numbers: days of dates, timestamps in their own unit."""

    points: Numbers
    """Ascending, and all different; the first and the last are the least and the greatest value."""
    below: Numbers
    """How many values are less than each point."""
    upto: Numbers
    """How many are not greater."""

    @property
    def count(self) -> float:
        return float(self.upto[-1]) if len(self.upto) else 0.0

    def counts(self, values: npt.ArrayLike) -> tuple[Numbers, Numbers]:
        """How many values are less than each of these, and how many are not greater."""
        values = np.asarray(values, np.float64)
        if not len(self.points):
            return np.zeros(len(values)), np.zeros(len(values))
        after = np.searchsorted(self.points, values, side="right")
        at = np.clip(after - 1, 0, None)
        to = np.clip(after, None, len(self.points) - 1)
        hit = (after > 0) & (self.points[at] == values)
        part = _part(self.points[at], self.points[to], values)
        between = np.where(
            after == 0, 0.0, np.where(to == at, self.count, self.upto[at] + part * (self.below[to] - self.upto[at]))
        )
        return np.where(hit, self.below[at], between), np.where(hit, self.upto[at], between)

    def at(self, counts: Numbers) -> Numbers:
        """The value that as many have at most; for 0 the least."""
        steps = np.column_stack((self.below, self.upto)).ravel()
        found = np.clip(np.searchsorted(steps, counts, side="left"), 0, len(steps) - 1)
        point, inside = found // 2, found % 2 == 1
        before = np.clip(point - 1, 0, None)
        part = _part(self.upto[before], self.below[point], counts)
        left, right = self.points[before], self.points[point]
        between = np.where(part < 1, left * (1 - part) + right * part, right)
        return np.where(inside | (before == point), right, np.clip(between, left, right))

    def scaled(self, factor: float) -> Distribution:
        """With that many times as many values."""
        return Distribution(self.points, self.below * factor, self.upto * factor)


_NOTHING = Distribution(np.zeros(0), np.zeros(0), np.zeros(0))


def _part(low: Numbers, high: Numbers, here: Numbers) -> Numbers:
    """Which part of the way from one number to another has been gone; without overflow of great numbers."""
    whole = high / 2 - low / 2
    return np.clip(np.divide(here / 2 - low / 2, whole, out=np.zeros(len(here)), where=whole > 0), 0.0, 1.0)


def distribution_of(values: pa.Array) -> Distribution:
    """The distribution of the values that are finite numbers. For types of which ``has_distribution`` says so."""
    known = values.drop_null()
    if pt.is_date32(known.type) or pt.is_timestamp(known.type):
        known = known.cast(pa.int32() if pt.is_date32(known.type) else pa.int64())
    numbers = pc.cast(known, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    ordered = np.sort(numbers[np.isfinite(numbers)])
    if not len(ordered):
        return _NOTHING
    starts = np.concatenate(([0], np.flatnonzero(ordered[1:] != ordered[:-1]) + 1))
    if len(starts) > POINTS + 1:
        starts = np.linspace(0, len(ordered) - 1, POINTS + 1).round().astype(np.int64)
    points = np.unique(ordered[starts])
    return Distribution(
        points,
        np.searchsorted(ordered, points, side="left").astype(np.float64),
        np.searchsorted(ordered, points, side="right").astype(np.float64),
    )


def evenly_around(known: Distribution, count: float) -> Distribution:
    """That of values which are spread evenly over three times the range of others."""
    if not len(known.points):
        return _NOTHING
    low, high, most = float(known.points[0]), float(known.points[-1]), float(np.finfo(np.float64).max)
    wider = max(high - low, 1.0)
    points = np.array([max(low - wider, -most), min(high + wider, most)])
    return Distribution(points, np.array([0.0, count]), np.array([0.0, count]))


def joined_distributions(parts: Sequence[Distribution]) -> Distribution:
    """The distribution of the values of all of them."""
    while len(parts) > 1:
        parts = [_sum(parts[first : first + _AT_ONCE]) for first in range(0, len(parts), _AT_ONCE)]
    return parts[0] if parts else _NOTHING


def _sum(parts: Sequence[Distribution]) -> Distribution:
    parts = [each for each in parts if len(each.points)]
    if len(parts) < 2:
        return parts[0] if parts else _NOTHING
    points = np.unique(np.concatenate([each.points for each in parts]))
    counts = [each.counts(points) for each in parts]
    whole = _rising(points, np.sum([low for low, _ in counts], axis=0), np.sum([up for _, up in counts], axis=0))
    if len(points) <= POINTS + 1:
        return whole
    points = np.unique(whole.at(np.linspace(0.0, whole.count, POINTS + 1)))
    return _rising(points, *whole.counts(points))


def _rising(points: Numbers, below: Numbers, upto: Numbers) -> Distribution:
    """A distribution whose counts do not fall by an error of rounding."""
    steps = np.maximum.accumulate(np.column_stack((below, upto)).ravel())
    return Distribution(points, steps[::2], steps[1::2])


# --- Spark's histograms


class Bin(NamedTuple):
    """A part of the values, as many as in each of the others."""

    low: float
    high: float
    distinct: int


def bins_of(known: Distribution, count: int, distinct: int, whole: bool) -> tuple[Bin, ...]:
    """The bins of an equi-height histogram; none without values.

    ``distinct`` values are all together. Those that the distribution has as points of their own are counted as they
    are, and the others divided by the widths between points, no more to each than it has rows, or, where values are
    ``whole`` numbers, room for.
    """
    if not len(known.points) or count < 1:
        return ()
    edges = known.at(np.linspace(0.0, known.count, count + 1))
    edges[0], edges[-1] = known.points[0], known.points[-1]
    edges = np.maximum.accumulate(edges)
    single, between = _distinct(known, distinct, whole)
    steps = np.cumsum(single)
    at = np.searchsorted(known.points, edges, side="right")
    points_to = np.where(at > 0, steps[np.clip(at - 1, 0, None)], 0.0)
    gaps = np.concatenate(([0.0], np.cumsum(between)))
    place = np.clip(at - 1, 0, len(known.points) - 1)
    after = np.clip(place + 1, None, len(known.points) - 1)
    part = _part(known.points[place], known.points[after], edges)
    gaps_to = gaps[place] + part * np.where(after > place, np.append(between, 0.0)[place], 0.0)
    values_to = points_to + gaps_to
    values_to[0] = 0.0  # the first bin has its lower end, and each other one only its upper end
    found = np.diff(values_to)
    found = np.where(edges[1:] == edges[:-1], 1, np.clip(found.round(), 1, None))
    return tuple(
        Bin(float(low), float(high), int(number))
        for low, high, number in zip(edges[:-1], edges[1:], found, strict=True)
    )


def _distinct(known: Distribution, distinct: int, whole: bool) -> tuple[Numbers, Numbers]:
    """About how many different values each point has, one or none, and each gap between two points."""
    single = (known.upto > known.below).astype(np.float64)
    rows = np.clip(known.below[1:] - known.upto[:-1], 0.0, None)
    widths = known.points[1:] / 2 - known.points[:-1] / 2
    room = np.minimum(rows, np.clip(2 * widths - 1, 0.0, None)) if whole else rows
    left = max(0.0, distinct - float(single.sum()))
    found, open_ = np.zeros(len(room)), room > 0
    shares = np.maximum(widths / widths.max(initial=1e-300), 1e-12)
    for _ in range(len(room)):  # until all are divided, and no gap has more than its room
        if left <= 0 or not open_.any():
            break
        given = left * shares[open_] / shares[open_].sum()
        fits = given <= room[open_]
        if fits.all():
            found[open_] = given
            break
        full = np.flatnonzero(open_)[~fits]
        found[full] = room[full]
        left -= float(room[full].sum())
        open_[full] = False
    return single, found


# --- As text


def distribution_text(known: Distribution) -> str:
    """For a file of statistics."""
    content = np.concatenate((known.points, known.below, known.upto)).astype("<f8").tobytes()
    return base64.b85encode(zlib.compress(content)).decode()


def distribution_from(text: Any) -> Distribution:
    """Raises ValueError and others for anything else."""
    found = np.frombuffer(zlib.decompress(base64.b85decode(text)), "<f8").astype(np.float64)
    if len(found) % 3:
        raise ValueError("no distribution")
    points, below, upto = found.reshape(3, -1)
    steps = np.column_stack((below, upto)).ravel()
    if not np.isfinite(found).all() or (np.diff(points) <= 0).any() or (np.diff(steps) < 0).any() or (steps < 0).any():
        raise ValueError("no distribution")
    return Distribution(points, below, upto)
