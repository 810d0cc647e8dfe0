"""The functions of a layout's key that have one value in each fragment of a read, by the facts about its files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.layout.declaring import read_layout
from lance_spark.layout.fact_rules import Bounds
from lance_spark.layout.facts import fragment_bounds
from lance_spark.layout.grouping_rules import Grouping, candidates, grouping_of
from lance_spark.storage.datasets import open_pinned


def grouping(
    location: DatasetLocation,
    pin: PinnedVersion,
    fragments: Sequence[int],
    output: Iterable[str],
    plain: Iterable[str],
) -> Grouping | None:
    """See :func:`lance_spark.layout.grouping_rules.grouping_of`. None for a table that is not partitioned."""
    layout = read_layout(location, pin)
    if not layout.partition or not fragments:
        return None
    stored = open_pinned(location, pin).schema
    transforms = candidates(layout, stored, output, plain)
    if not transforms:
        return None
    columns = tuple(dict.fromkeys(each.column for each in transforms))
    place = location, pin, columns
    bounds = _kept.get(place) or fragment_bounds(location, pin, columns)
    found = grouping_of(transforms, stored, bounds, fragments)
    if found is not None and pin.stamp is not None:
        _kept[place] = bounds
        while len(_kept) > _MOST:
            _kept.pop(next(iter(_kept)), None)
    return found


_MOST = 16
_kept: dict[tuple[DatasetLocation, PinnedVersion, tuple[str, ...]], dict[int, dict[str, Bounds]]] = {}
"""Each plan asks, and a listing takes a request. Only what was enough: more may come later; facts are never wrong."""
