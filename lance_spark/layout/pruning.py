"""The fragments of a version that a filter rules out, or matches as a whole, without reading them."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.layout.declaring import read_layout
from lance_spark.layout.fact_rules import watched
from lance_spark.layout.facts import fragment_bounds
from lance_spark.layout.filter_rules import columns_of, is_surely_true, may_be_true, parse_filter
from lance_spark.storage.datasets import open_pinned


class Judged(NamedTuple):
    """What is known of a filter without reading any row."""

    excluded: frozenset[int] = frozenset()
    """Fragments in which no row can match."""
    whole: frozenset[int] = frozenset()
    """Fragments of which every row matches."""


def judge(location: DatasetLocation, pin: PinnedVersion, sql: str) -> Judged:
    """What the facts of files tell of a filter; nothing of a table without a layout, and of files without facts."""
    return _judged(location, pin, sql) if read_layout(location, pin) else Judged()


def excluded(location: DatasetLocation, pin: PinnedVersion, sql: str) -> frozenset[int]:
    """Ids of the fragments in which no row can match the filter."""
    if not read_layout(location, pin):
        return frozenset()
    return (_judged if pin.stamp is None else _kept)(location, pin, sql).excluded


def _judged(location: DatasetLocation, pin: PinnedVersion, sql: str) -> Judged:
    buckets = {each.name: each.buckets for each in watched(read_layout(location, pin))}
    condition = parse_filter(sql, open_pinned(location, pin).schema, buckets)
    columns = columns_of(condition)
    if not columns:
        return Judged()
    known = fragment_bounds(location, pin, sorted(columns))
    return Judged(
        frozenset(key for key, bounds in known.items() if bounds and not may_be_true(condition, bounds)),
        frozenset(key for key, bounds in known.items() if bounds and is_surely_true(condition, bounds)),
    )


_kept = lru_cache(maxsize=64)(_judged)
"""A plan asks several times. Facts that come later only rule out more."""
