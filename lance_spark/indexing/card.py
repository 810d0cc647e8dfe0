"""How the indexes of a version show themselves. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from lance_spark.indexing.model import IndexInfo
from lance_spark.show.card import Card, Grid
from lance_spark.show.words import counted, readable

_HEADER = ("index", "kind", "columns", "covered", "rows left", "segments", "size")


def indexes_card(what: str, uri: str, version: str, indexes: Sequence[IndexInfo]) -> Card:
    """A card with a line for each index."""
    rows = tuple(
        (
            index.name,
            index.kind,
            ", ".join(index.columns),
            f"{int(index.percent * 10) / 10:.1f}%",
            f"{index.rows_uncovered:,}",
            f"{index.segments:,}",
            readable(index.bytes),
        )
        for index in indexes
    )
    summary = f"{counted(len(indexes), 'index', 'indexes')} of {version}"
    return Card(what, uri, summary, grids=(Grid(_HEADER, rows, frozenset({3, 4, 5, 6})),))
