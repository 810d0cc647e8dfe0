"""From the answers of tasks to one answer. Pure: Arrow tables in and out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.schema.projection import ROW_ADDRESS, ROW_ID
from lance_spark.searching.binding import DISTANCE, RELEVANCE, SCORE

SOURCE, VALUE = "source", "value"
APPROXIMATE, EXACT, FOUND = 0, 1, 2
"""Distances as an index knows them, distances, scores of text."""
CANDIDATES = pa.schema(
    [
        pa.field(SOURCE, pa.int8(), nullable=False),
        pa.field(ROW_ID, pa.int64(), nullable=False),
        pa.field(ROW_ADDRESS, pa.int64(), nullable=False),
        pa.field(VALUE, pa.float32(), nullable=False),
    ]
)
"""What tasks answer: rows, and how near or good they are."""
_RRF = 60
"""What the first rank is divided by, minus one: as in the paper on reciprocal rank fusion, and in other tools."""
Rescore = Callable[[list[int]], npt.NDArray[np.float32]]
"""The exact distances of rows, by their ids."""


def best(table: pa.Table, count: int, largest: bool = False) -> pa.Table:
    """The first rows of CANDIDATES in order: by value, then by row id, as pylance orders. No row twice, no NaN."""
    table = table.filter(pc.is_finite(table[VALUE]))
    order = pc.sort_indices(table, sort_keys=[(VALUE, "descending" if largest else "ascending"), (ROW_ID, "ascending")])
    table = table.take(order)
    _, first = np.unique(table[ROW_ID].to_numpy(), return_index=True)
    if len(first) < table.num_rows:
        table = table.take(pa.array(np.sort(first)))
    return table.slice(0, count)


def nearest(table: pa.Table, count: int, kept: int, rescore: Rescore | None) -> pa.Table:
    """The nearest rows of all tasks.

    Of what an index found ``kept`` rows stay; with ``rescore`` these are compared with the others by their exact
    distances. Without, no other ones are there.
    """
    near = best(table.filter(pc.equal(table[SOURCE], APPROXIMATE)), kept)
    exact = table.filter(pc.equal(table[SOURCE], EXACT))
    if rescore is not None and near.num_rows:
        ids = near[ROW_ID].to_pylist()
        near = near.set_column(near.schema.get_field_index(VALUE), CANDIDATES.field(VALUE), pa.array(rescore(ids)))
    return best(pa.concat_tables([near, exact]), count)


def found(table: pa.Table, count: int) -> pa.Table:
    """The rows with the best scores of their text."""
    return best(table.filter(pc.equal(table[SOURCE], FOUND)), count, largest=True)


def measured(table: pa.Table, name: str) -> pa.Table:
    """CANDIDATES as what comes out: ids, and the measure by its name."""
    return table.select([ROW_ID, ROW_ADDRESS, VALUE]).rename_columns([ROW_ID, ROW_ADDRESS, name])


def fused(near: pa.Table, matching: pa.Table, count: int) -> pa.Table:
    """Both lists as one, by reciprocal ranks: a row has 1 / (60 + rank) of each list that it is in.

    Ties: the nearer row, then that with the better score, then by row id.
    """
    lists = [(near, DISTANCE), (matching, SCORE)]
    values: list[dict[int, float]] = []
    points: dict[int, float] = {}
    addresses: dict[int, int] = {}
    for table, _ in lists:
        ids = table[ROW_ID].to_pylist()
        values.append(dict(zip(ids, table[VALUE].to_pylist(), strict=True)))
        addresses.update(zip(ids, table[ROW_ADDRESS].to_pylist(), strict=True))
        for rank, row in enumerate(ids, 1):
            points[row] = points.get(row, 0.0) + 1.0 / (_RRF + rank)
    distances, scores = values

    def place(row: int) -> tuple[float, float, float, int]:
        return -points[row], distances.get(row, float("inf")), -scores.get(row, float("-inf")), row

    rows = sorted(points, key=place)[:count]
    return pa.table(
        {
            ROW_ID: pa.array(rows, pa.int64()),
            ROW_ADDRESS: pa.array([addresses[row] for row in rows], pa.int64()),
            DISTANCE: pa.array([distances.get(row) for row in rows], pa.float32()),
            SCORE: pa.array([scores.get(row) for row in rows], pa.float32()),
            RELEVANCE: pa.array([points[row] for row in rows], pa.float32()),
        }
    )
