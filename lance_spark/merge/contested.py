"""Rows that both sides changed, one by one: what a conflict tells of them, and rows that only one side still has.

In: rows with their places in the base and in a side. Out: their values as JSON, and which of them changed at all. Only
contested rows are read, in batches, on the engine.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from lance_spark.engine.local import Engine, Work
from lance_spark.merge.cell_files import PatchPlace, read_cells
from lance_spark.merge.cell_rules import NOWHERE, CellColumn, Cells, Form, Mask, differing
from lance_spark.merge.change_rules import ContestedRow, Patch, Rows

MOST = 20
_COMPARE = "compare rows"
_LONGEST = 200
"""Characters of a text that a conflict tells."""


# --- A row with its cells


def told_row(
    columns: Sequence[CellColumn], keys: Sequence[str], found: Cells, part: Patch, row: int, places: Iterable[int]
) -> str:
    """A row with its cells in some columns, as JSON."""
    here = [*places]
    lacks = {"base": part.base[row] == NOWHERE, **_lacking(part, row)}
    sides = {
        name: None if lacks[name] else {columns[at].name: json_value(cells[at][row]) for at in here if at in cells}
        for name, cells in (("base", found.base), ("ours", found.ours), ("theirs", found.theirs))
    }
    return json.dumps({"row": _named(columns, keys, found, part, row), **sides})


def _lacking(part: Patch, row: int) -> dict[str, bool]:
    home, other = ("ours", "theirs") if part.of_ours else ("theirs", "ours")
    return {home: False, other: bool(part.other[row] == NOWHERE)}


def _named(columns: Sequence[CellColumn], keys: Sequence[str], found: Cells, part: Patch, row: int) -> str:
    known = found.base if part.base[row] != NOWHERE else found.ours
    at_keys = [place for place, column in enumerate(columns) if column.base in keys and place in known]
    if at_keys:
        return ", ".join(f"{columns[place].base}={known[place][row].as_py()!r}" for place in at_keys)
    address = part.base[row] if part.base[row] != NOWHERE else (part.home.id << 32) + part.rows[row]
    return f"row {address & 0xFFFFFFFF} of fragment {address >> 32}"


def json_value(value: pa.Scalar) -> Any:
    """A cell as JSON: a number or a short text as it is, anything else as text."""
    found = value.as_py()
    if isinstance(found, float) and not math.isfinite(found):
        return str(found)
    if found is None or isinstance(found, bool | int | float):
        return found
    if isinstance(found, datetime | date):
        return found.isoformat()
    if isinstance(found, bytes):
        found = found.hex()
    text = found if isinstance(found, str) else str(found)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def rows_of(told: Iterable[str]) -> tuple[ContestedRow, ...]:
    return tuple(ContestedRow(**json.loads(each)) for each in [*told][:MOST])


# --- Rows that one side deleted, and the other one still has


class SurvivorItem(NamedTuple):
    """Rows of a fragment that the other side deleted; runs on executors."""

    place: PatchPlace
    columns: tuple[CellColumn, ...]
    keys: tuple[str, ...]
    patch: Patch
    """``other`` is NOWHERE for each row."""
    number: int


_SURVIVORS = pa.schema([("number", pa.int64()), ("changed", pa.list_(pa.int64())), ("told", pa.list_(pa.string()))])


class Survivors(NamedTuple):
    """Rows of one fragment that one side deleted and the other one still has."""

    patch: Patch
    changed: Mask
    """Which of them have other values than in the base."""
    told: tuple[str, ...]


def compare_survivors(
    place: PatchPlace, columns: tuple[CellColumn, ...], keys: tuple[str, ...], patches: Sequence[Patch], engine: Engine
) -> list[Survivors]:
    """Which rows the side that has them changed; where none did, deleting them is the only change."""
    items = [SurvivorItem(place, columns, keys, patch, at) for at, patch in enumerate(patches)]
    size = sum(len(patch.rows) for patch in patches) * 2 * 64 * max(1, len(columns))
    runner = engine.for_work("merge", Work(read_bytes=size))
    found: Mapping[int, dict[str, Any]] = (
        {
            row["number"]: row
            for row in runner.collect(
                _COMPARE, runner.flat_map(_COMPARE, items, look_at_survivors, _SURVIVORS)
            ).to_pylist()
        }
        if items
        else {}
    )
    outcomes = []
    for at, patch in enumerate(patches):
        changed = np.zeros(len(patch.rows), bool)
        changed[np.array(found[at]["changed"], np.int64)] = True
        outcomes.append(Survivors(patch, changed, tuple(found[at]["told"])))
    return outcomes


def look_at_survivors(item: SurvivorItem) -> Iterator[pa.RecordBatch]:
    changed: list[int] = []
    told: list[str] = []
    start = 0
    for found, part in read_cells(item.place, item.columns, item.patch):
        home = found.ours if item.patch.of_ours else found.theirs
        masks = differing(item.columns, found.base, home)
        any_of = np.full(found.rows, any(column.form is Form.NEVER for column in item.columns))  # it may have changed
        for mask in masks.values():
            any_of |= mask
        for row in np.flatnonzero(any_of).tolist():
            changed.append(start + row)
            if len(told) < MOST:
                places = [at for at, mask in masks.items() if mask[row]]
                told.append(told_row(item.columns, item.keys, found, part, row, places))
        start += found.rows
    yield pa.RecordBatch.from_pylist([{"number": item.number, "changed": changed, "told": told}], _SURVIVORS)


def by_fragment(addresses: Rows) -> Iterator[tuple[int, Mask]]:
    """The fragments of some addresses, each with which of them are in it."""
    for key in np.unique(addresses >> 32).tolist():
        yield key, addresses >> 32 == key
