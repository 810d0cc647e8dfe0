"""The fragments of a version that a filter rules out, without reading them."""

from __future__ import annotations

from functools import lru_cache

from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.layout.declaring import read_layout
from lance_spark.layout.fact_rules import watched
from lance_spark.layout.facts import fragment_bounds
from lance_spark.layout.filter_rules import columns_of, may_be_true, parse_filter
from lance_spark.storage.datasets import open_pinned


def excluded(location: DatasetLocation, pin: PinnedVersion, sql: str) -> frozenset[int]:
    """Ids of the fragments in which no row can match the filter; none of a table without a layout.

    A fragment without facts is never among them.
    """
    layout = read_layout(location, pin)
    if not layout:
        return frozenset()
    return (_excluded if pin.stamp is None else _kept)(location, pin, sql)


def _excluded(location: DatasetLocation, pin: PinnedVersion, sql: str) -> frozenset[int]:
    layout = read_layout(location, pin)
    condition = parse_filter(
        sql, open_pinned(location, pin).schema, {each.name: each.buckets for each in watched(layout)}
    )
    columns = columns_of(condition)
    if not columns:
        return frozenset()
    known = fragment_bounds(location, pin, sorted(columns))
    return frozenset(key for key, bounds in known.items() if bounds and not may_be_true(condition, bounds))


_kept = lru_cache(maxsize=64)(_excluded)
"""A plan asks several times. Facts that come later only rule out more."""
