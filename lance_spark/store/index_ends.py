"""What indexes say of the smallest and largest values of columns, through pylance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lance_spark.location import DatasetLocation
from lance_spark.query.extremes import IndexEnds
from lance_spark.refs.model import PinnedVersion
from lance_spark.store.datasets import open_pinned
from lance_spark.store.failures import translated

_SORTED = "BTree"
_UNKNOWN = "NULL"


def index_ends(
    location: DatasetLocation, pin: PinnedVersion, columns: Iterable[str]
) -> Mapping[str, list[IndexEnds]] | None:
    """The ends of each segment of the index on each column, from its statistics; None unless all have a sorted one."""
    dataset = open_pinned(location, pin)
    with translated(location, "reading what indexes say of their values"):
        names = {
            index.field_names[0]: index.name
            for index in dataset.describe_indices()
            if index.index_type == _SORTED and len(index.field_names) == 1
        }
        if not names.keys() >= set(columns):
            return None
        told = {column: dataset.stats.index_stats(names[column]).get("indices", ()) for column in columns}
    return {
        column: [(entry.get("min", _UNKNOWN), entry.get("max", _UNKNOWN)) for entry in segments]
        for column, segments in told.items()
    }
