"""Asks the caller about rows that nothing else settles.

In: a plan with such rows. Out: what the caller decided. Only these rows are read, all at once, in the calling process.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from lance_spark.merge.cell_files import PatchPlace, read_cells
from lance_spark.merge.cell_rules import CellPlan, Cells, Given, Mask, decide_cells
from lance_spark.merge.resolve_rules import Resolve, asked, given_cells


def resolved(place: PatchPlace, cells: CellPlan, keys: tuple[str, ...], resolve: Resolve) -> Given:
    """What the caller decided. Raises InvalidOption for an answer that does not fit, and what ``resolve`` raises."""
    question = asked(cells.columns, keys, _parts(place, cells))
    return given_cells(question, cells.columns, resolve(question.table))


def _parts(place: PatchPlace, cells: CellPlan) -> Iterator[tuple[Cells, Mapping[int, Mask]]]:
    every = tuple(at for at, column in enumerate(cells.columns) if not column.is_opaque)
    for patch in cells.open:
        for found, _ in read_cells(place, cells.columns, replace(patch, compared=every)):
            yield found, decide_cells(cells.columns, every, found, cells.rule).clashes
