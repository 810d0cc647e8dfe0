"""Cells on the engine: decides patches, a part at a time, and writes a file for each that has cells of the other side.

In: patches with the addresses of their rows, and the rule. Out: what was decided by column, and which rows
clash; later, files that no version names before the commit.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from lance_spark.engine.local import Engine, Work
from lance_spark.merge import cell_rules
from lance_spark.merge.cell_files import PatchPlace, read_cells, write_patch
from lance_spark.merge.cell_rules import ROW, CellColumn, CellPlan, CellRule
from lance_spark.merge.change_rules import MergeChange, Patch, Sides
from lance_spark.merge.contested import MOST, told_row
from lance_spark.merge.row_conflicts import Locations


def place_of(locations: Locations, sides: Sides) -> PatchPlace:
    """Where the three versions of a merge are."""
    here, there = locations
    return PatchPlace(here, there, sides.base_ours.pin, sides.ours.pin, sides.theirs.pin)


# --- The decision, on the engine: a part of a patch at a time

DECIDE = "compare rows"
_PART = 100_000
OUTCOMES = pa.schema(
    [
        ("patch", pa.int64()),
        ("place", pa.int64()),
        ("differs", pa.bool_()),
        ("emptied_ours", pa.int64()),
        ("emptied_theirs", pa.int64()),
        ("clashes", pa.int64()),
        ("settled", pa.int64()),
        ("told", pa.list_(pa.string())),
        ("open", pa.list_(pa.int64())),
        ("nulls", pa.int64()),
        ("lacking", pa.list_(pa.string())),
    ]
)


class DecideItem(NamedTuple):
    """Rows of a patch to decide; runs on executors."""

    place: PatchPlace
    columns: tuple[CellColumn, ...]
    rule: CellRule
    patch: Patch
    number: int
    keys: tuple[str, ...]
    lists_open: bool = False
    """Whether to name each row that clashes, by its offset."""


def parts(patch: Patch) -> Iterator[Patch]:
    for start in range(0, len(patch.rows), _PART):
        yield patch.part(slice(start, start + _PART))


def decide_part(item: DecideItem) -> Iterator[pa.RecordBatch]:
    """OUTCOMES of some rows, one for each column that is decided, and for ROW."""
    columns, patch = item.columns, item.patch
    outcomes: dict[int, dict[str, Any]] = {}

    def outcome(at: int) -> dict[str, Any]:
        counts = {"emptied_ours": 0, "emptied_theirs": 0, "clashes": 0, "settled": 0, "nulls": 0}
        blank = {"patch": item.number, "place": at, "differs": False, **counts, "told": [], "open": [], "lacking": []}
        return outcomes.setdefault(at, blank)

    for found, part in read_cells(item.place, columns, patch):
        decided = cell_rules.decide_cells(columns, patch.decided, found, item.rule)
        home = found.ours if patch.of_ours else found.theirs
        for at, values in decided.values.items():
            known = outcome(at)
            emptied = bool(decided.emptied_ours[at].any() or decided.emptied_theirs[at].any())
            changed = emptied or bool(decided.settled[at].any())
            known["differs"] |= changed if patch.in_place else cell_rules.differs(values, home.get(at))
            known["emptied_ours"] += int(decided.emptied_ours[at].sum())
            known["emptied_theirs"] += int(decided.emptied_theirs[at].sum())
            nulls = np.flatnonzero(decided.lacking(columns, at))
            known["nulls"] += len(nulls)
            for row in nulls[: max(0, MOST - len(known["lacking"]))].tolist():
                known["lacking"].append(told_row(columns, item.keys, found, part, row, [at]))
        outcome(ROW)["settled"] += cell_rules.settled_rows(decided, found.rows)
        clashes = cell_rules.clashing(decided, found, item.rule)
        if item.lists_open:
            outcome(ROW)["open"] += sorted({row for mask in clashes.values() for row in part.rows[mask].tolist()})
        for at, mask in clashes.items():
            known, rows = outcome(at), np.flatnonzero(mask)
            known["clashes"] += len(rows)
            for row in rows[: max(0, MOST - len(known["told"]))].tolist():
                places = [at] if at >= 0 else [each for each, clash in decided.clashes.items() if clash[row]]
                known["told"].append(told_row(columns, item.keys, found, part, row, places))
    yield pa.RecordBatch.from_pylist(list(outcomes.values()), OUTCOMES)


# --- Files for the patches, on the engine: one for each new fragment whose rows get cells

_WRITE = "write merged columns"
_FILES = pa.schema([("of_ours", pa.bool_()), ("fragment", pa.int64()), ("file", pa.string())])


class WriteItem(NamedTuple):
    """A patch to write; runs on executors."""

    place: PatchPlace
    columns: tuple[CellColumn, ...]
    rule: CellRule
    patch: Patch


def write_patches(
    locations: Locations, sides: Sides, change: MergeChange, cells: CellPlan | None, engine: Engine
) -> dict[tuple[bool, int], dict[str, Any]]:
    """Write the files of a decided change: pylance's JSON, with the file's own field ids, by side and fragment.

    They are below the root of ours, and no version names them before the commit.
    """
    if not change.patches or cells is None:
        return {}
    place = place_of(locations, sides)
    items = [WriteItem(place, cells.columns, cells.rule, _with_less(patch, cells)) for patch in change.patches]
    size = sum(patch.home.physical_rows * 64 * len(patch.columns) for patch in change.patches)
    runner = engine.for_work("merge", Work(rewrites=len(items), rewritten_bytes=size))
    found = runner.collect(_WRITE, runner.flat_map(_WRITE, items, write_one, _FILES)).to_pylist()
    return {(row["of_ours"], row["fragment"]): json.loads(row["file"]) for row in found}


def _with_less(patch: Patch, cells: CellPlan) -> Patch:
    """The patch without columns, such as blobs, that are neither written nor decide about what is."""
    if cells.rule.is_whole:
        return patch
    reads = (found.get(at, frozenset()) for at in patch.columns for found in (cells.rule.ours, cells.rule.theirs))
    needed = frozenset(patch.columns).union(*reads)
    compared = tuple(at for at in patch.compared if at in needed or not cells.columns[at].is_opaque)
    return replace(patch, compared=compared)


def write_one(item: WriteItem) -> Iterator[pa.RecordBatch]:
    written = write_patch(item.place, item.columns, item.patch, item.rule)
    row = {"of_ours": item.patch.of_ours, "fragment": item.patch.home.id, "file": json.dumps(written)}
    yield pa.RecordBatch.from_pylist([row], _FILES)
