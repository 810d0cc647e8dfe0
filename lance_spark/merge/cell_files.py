"""The cells of rows that both sides changed: finds the rows, reads them in three versions, decides, and writes files.

In: a patch with the addresses of its rows, and the rule. Out: what was decided by column, and which rows clash; later,
a file for each patch that gets cells of the other side, which no version names before the commit. Rows are read a part
at a time on the engine, through pylance, only those in question; a caller who decides gets all of them at once.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timezone
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.engine.local import Engine, Work
from lance_spark.errors import CorruptData
from lance_spark.format.blobs import without_rows
from lance_spark.format.column_defaults import default_of, value_of
from lance_spark.format.contents import Fragment
from lance_spark.format.operations import Steps
from lance_spark.format.python_values import python_value
from lance_spark.format.row_ids import read_row_ids
from lance_spark.format.row_values import ADDRESS
from lance_spark.format.schema import row_width
from lance_spark.format.storable import safe_batches
from lance_spark.format.versions import Delta, Snapshot, by_file, counterpart
from lance_spark.merge import cell_rules
from lance_spark.merge.assembly_rules import LackingRows
from lance_spark.merge.cell_rules import (
    NOWHERE,
    ROW,
    CellColumn,
    CellPlan,
    CellRule,
    Cells,
    Form,
    Given,
    Mask,
    NumberedRows,
    aligned,
    decide_cells,
    differing,
)
from lance_spark.merge.change_rules import ContestedRow, Patch, Rows, Sides
from lance_spark.merge.resolve_rules import Resolve, asked, given_cells
from lance_spark.merge.row_conflicts import Locations
from lance_spark.scan.fragment_reads import (
    ROW_ID,
    FragmentRows,
    RowSource,
    Scan,
    ScanColumns,
    deleted_offsets,
    read_batches,
    read_rows,
    take_rows,
)
from lance_spark.scan.partition_rules import ScanPartition, batch_rows
from lance_spark.storage.credentials import for_pylance
from lance_spark.storage.datasets import open_pinned
from lance_spark.storage.failures import translated
from lance_spark.write.data_files import StableRowIds

if TYPE_CHECKING:
    from lance.fragment import FragmentMetadata


# --- One side, as its rows are looked for: by stable ids, by key, in new fragments and where rows are back


@dataclass(frozen=True)
class CellSide:
    """One side, and the rows that it removed from fragments of the base."""

    location: DatasetLocation
    now: Snapshot
    base: Snapshot
    steps: Steps
    added: tuple[Fragment, ...]
    numbering: Snapshot | None
    """A version with the rows of the base under this side's stable ids."""
    same_below: int
    """Below this, the base's own ids mean the same rows."""
    changes: Delta
    has_back: bool
    """Whether rows that are back count as changed ones."""

    @cached_property
    def _known(self) -> dict[str, Fragment]:
        return {} if self.numbering is None else by_file(self.numbering.contents.fragments())

    def ids(self, fragment: Fragment) -> Rows:
        """The stable ids of the rows of a base's fragment, NOWHERE where they are unknown.

        The version that took the base in has any ids for rows that were deleted there.
        """
        own = np.array(read_row_ids(fragment.row_ids), np.int64)
        if len(own) != fragment.physical_rows:
            return np.full(fragment.physical_rows, NOWHERE, np.int64)
        ids = np.where(own < self.same_below, own, NOWHERE)
        found = counterpart(fragment, self._known)
        if self.numbering is None or found is None or not (ids == NOWHERE).any():
            return ids
        there = np.array(read_row_ids(found.row_ids), np.int64)
        if len(there) == len(ids):
            there[self.dead(self.numbering, found)] = NOWHERE
            ids = np.where(ids == NOWHERE, there, ids)
        return ids

    @cached_property
    def candidates(self) -> list[NumberedRows] | None:
        """The new fragments with the ids of their rows; None if one of them does not have them."""
        found = []
        for entry, dead in self._new:
            ids = np.array(read_row_ids(entry.row_ids), np.int64)
            if len(ids) != entry.physical_rows:
                return None
            found.append(NumberedRows(entry.id, ids, self.dead(self.now, entry) if dead is None else dead))
        return found

    @cached_property
    def back(self) -> Mapping[int, tuple[Fragment, Rows]]:
        """Fragments of this side in which deleted rows of the base are back, with these rows, by id."""
        found = {}
        for before, after in self.changes.changed if self.has_back else ():
            rows = np.setdiff1d(self.dead(self.base, before), self.dead(self.now, after))
            if len(rows):
                found[after.id] = after, rows
        return found

    @property
    def _new(self) -> Iterator[tuple[Fragment, Rows | None]]:
        """Fragments in which rows of the base may be now, with offsets to leave out; None: those of deleted rows."""
        yield from ((entry, None) for entry in self.added)
        for entry, rows in self.back.values():
            yield entry, np.setdiff1d(np.arange(entry.physical_rows, dtype=np.int64), rows)

    def fragment(self, key: int) -> Fragment:
        """One of those in which rows of the base may be now."""
        return self.back[key][0] if key in self.back else next(entry for entry in self.added if entry.id == key)

    @property
    def places(self) -> list[FragmentRows]:
        """Where rows of the base may be now."""
        back = (FragmentRows(entry.id, pa.array(rows, pa.uint32())) for entry, rows in self.back.values())
        return [*(FragmentRows(entry.id) for entry in self.added), *back]

    @property
    def rewrote(self) -> bool:
        """Whether any of its rows may be a changed one."""
        appended = self.steps.appended if self.has_back else frozenset()
        return bool(self.back) or any(not any(file.path in appended for file in entry.files) for entry in self.added)

    def dead(self, snapshot: Snapshot, fragment: Fragment) -> Rows:
        return np.asarray(deleted_offsets(self.location, snapshot, fragment).to_numpy(), np.int64)

    def removed(self, base: Fragment, now: Fragment | None) -> Rows | None:
        """The rows of the base that a fragment lost; None if it has rows back that do not count as changed ones."""
        before = self.dead(self.base, base)
        gone = np.arange(base.physical_rows, dtype=np.int64) if now is None else self.dead(self.now, now)
        return np.setdiff1d(gone, before) if self.has_back or np.isin(before, gone).all() else None

    def keys(self, snapshot: Snapshot, rows: Sequence[FragmentRows], names: Sequence[str]) -> pa.Table:
        batches = read_rows(RowSource(self.location, snapshot.pin, tuple(rows)), names)
        tables = [pa.Table.from_batches([batch.select([*names, ADDRESS])]) for batch in batches]
        if not tables:
            return pa.table({name: pa.array([], pa.int64()) for name in (*names, "address")})
        found = pa.concat_tables(tables).rename_columns([*names, "address"])
        return found.set_column(len(names), "address", found["address"].cast(pa.int64()))


# --- Values in three versions, and files, through pylance


_MOST = 8192
_BLOBS = 8


class PatchPlace(NamedTuple):
    here: DatasetLocation
    there: DatasetLocation
    base: PinnedVersion
    """In the chain of ours."""
    ours: PinnedVersion
    theirs: PinnedVersion


class _RowsOf:
    """Rows of one version, taken by address."""

    def __init__(
        self, location: DatasetLocation, pin: PinnedVersion, names: Mapping[int, str], blobs: Mapping[int, str]
    ) -> None:
        """``names`` and ``blobs`` are columns by their places."""
        self._location, self._pin, self._names, self._blobs = location, pin, names, blobs
        stable = open_pinned(location, pin).has_stable_row_ids
        self._ids = StableRowIds(location, pin) if stable else None

    def take(self, addresses: Rows) -> dict[int, pa.Array]:
        """The columns by place, with nulls for NOWHERE. Raises CorruptData for an address without a row."""
        if not (self._names or self._blobs):
            return {}
        missing = addresses == NOWHERE
        if missing.any():
            return self._with_nulls(missing, self.take(addresses[~missing]))
        names = tuple(dict.fromkeys(self._names.values()))
        ids = addresses if self._ids is None else self._ids.at(addresses)
        # In order, since pylance reads ascending rows faster; a deleted row of the same id is no longer found.
        values, places = np.unique(ids, return_inverse=True)
        if not len(values):
            schema = open_pinned(self._location, self._pin).schema
            none = dict.fromkeys(self._blobs, pa.array([], pa.string()))
            return {
                at: without_rows(pa.schema([schema.field(name)]))[0].combine_chunks()
                for at, name in self._names.items()
            } | none
        held = {at: self._held(name, values.tolist()).take(pa.array(places)) for at, name in self._blobs.items()}
        if not names:
            return held
        taken = pa.Table.from_batches(take_rows(Scan(self._location, self._pin, ScanColumns(names)), values.tolist()))
        if taken.num_rows != len(values):
            raise CorruptData(f"{len(values) - taken.num_rows} rows of {self._pin} cannot be read.")
        found = taken.take(pa.array(places)).combine_chunks()
        return {at: _whole(found[name]) for at, name in self._names.items()} | held

    def _held(self, name: str, ids: Sequence[int]) -> pa.Array:
        """What blobs hold, in a form that can be compared and shown."""
        dataset = open_pinned(self._location, self._pin)
        with translated(self._location, f"reading blobs of column '{name}'"):
            # take_blobs() of pylance looks for the marked bytes of inherited files in the branch's own directory.
            batches = dataset.scanner(
                columns=[name],
                filter=f"{ROW_ID} IN ({', '.join(map(str, ids))})",
                with_row_id=True,
                blob_handling="all_binary",
                batch_size=_BLOBS,
            ).to_batches()
            known = {
                key: None if blob is None else f"{len(blob):,} bytes with SHA-256 {sha256(blob).hexdigest()}"
                for batch in batches
                for key, blob in zip(batch[ROW_ID].to_pylist(), batch[name].to_pylist(), strict=True)
            }
        if len(known) != len(ids):
            raise CorruptData(f"{len(ids) - len(known)} blobs of column '{name}' of {self._pin} cannot be read.")
        return pa.array([known[key] for key in ids], pa.string())

    def _with_nulls(self, missing: Mask, taken: Mapping[int, pa.Array]) -> dict[int, pa.Array]:
        places = pa.array(np.cumsum(~missing) - 1, pa.int64(), mask=missing)
        return {at: values.take(places) for at, values in taken.items()}


def _whole(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    return column.combine_chunks() if column.num_chunks else pa.array([], column.type)


class _CellReader:
    """Reads the rows of a patch in all three versions."""

    def __init__(self, place: PatchPlace, columns: Sequence[CellColumn], patch: Patch) -> None:
        def rows_of(location: DatasetLocation, pin: PinnedVersion, names: Sequence[str | None]) -> _RowsOf:
            known = {at: name for at in patch.compared if (name := names[at]) is not None}
            blobs = {at: name for at, name in known.items() if columns[at].form is Form.BYTES}
            return _RowsOf(location, pin, {at: name for at, name in known.items() if at not in blobs}, blobs)

        self._patch = patch
        self._base = rows_of(place.here, place.base, [column.base for column in columns])
        self._ours = rows_of(place.here, place.ours, [column.ours for column in columns])
        self._theirs = rows_of(place.there, place.theirs, [column.theirs for column in columns])
        self._inner = {at: columns[at].inner for at in patch.compared if columns[at].inner}
        schema = open_pinned(place.here, place.ours).schema
        self.most = min(_MOST, batch_rows(3 * row_width(schema)))

    def cells(self, part: Patch) -> Cells:
        home = (part.home.id << 32) + part.rows
        ours, theirs = (home, part.other) if part.of_ours else (part.other, home)
        found = self._base.take(part.base), self._ours.take(ours), self._theirs.take(theirs)
        for at, inner in self._inner.items():
            for version, values in zip(found, aligned(inner, [each.get(at) for each in found]), strict=True):
                if values is not None:
                    version[at] = values
        named = np.where(part.base == NOWHERE, ours, part.base)
        return Cells(
            *found,
            len(part.rows),
            new=part.base == NOWHERE,
            names=named,
            only_ours=theirs == NOWHERE,
            only_theirs=ours == NOWHERE,
        )


def _slices(patch: Patch, most: int) -> Iterator[Patch]:
    for start in range(0, len(patch.rows), most):
        yield patch.part(slice(start, start + most))


def read_cells(place: PatchPlace, columns: Sequence[CellColumn], patch: Patch) -> Iterator[tuple[Cells, Patch]]:
    """The values of a patch's rows, batch by batch, each with its part of the patch."""
    reader = _CellReader(place, columns, patch)
    for part in _slices(patch, reader.most):
        yield reader.cells(part), part


# --- Writing a patch: one file with its columns, for all rows of its home


def write_patch(item: WriteItem) -> dict[str, Any]:
    """Write the file below the root of ours; returns pylance's JSON of it, with field ids of its own.

    Rows that are not contested keep what they have; in new columns they have defaults, or nulls.
    """
    schema = _schema(item.place, item.columns, item.patch)
    return _written(item.place, schema, _batches(item, schema), item.patch.home)


def _written(place: PatchPlace, schema: pa.Schema, batches: Iterator[pa.RecordBatch], home: Fragment) -> dict[str, Any]:
    """Write columns for all physical rows of a fragment; returns pylance's JSON of the file."""
    from lance.fragment import write_fragments

    ours, rows = open_pinned(place.here, place.ours), max(1, home.physical_rows)
    with translated(place.here, "writing merged columns"):
        # As if for a new table: the commit gives its fields the ids that the columns have in the merged one.
        written: Sequence[FragmentMetadata] = write_fragments(
            pa.RecordBatchReader.from_batches(schema, safe_batches(batches, rows)),
            ours,
            schema=schema,
            mode="overwrite",
            data_storage_version=str(ours.data_storage_version),
            max_rows_per_file=rows,
            max_rows_per_group=min(1024, rows),
            max_bytes_per_file=2**62,
            **for_pylance(place.here),
        )
    found = [entry.to_json() for entry in written]
    if len(found) != 1 or found[0]["physical_rows"] != home.physical_rows:
        raise CorruptData(f"The merged columns of fragment {home.id} have other rows than it.")
    file: dict[str, Any] = found[0]["files"][0]
    return file


def _schema(place: PatchPlace, columns: Sequence[CellColumn], patch: Patch) -> pa.Schema:
    ours = open_pinned(place.here, place.ours).schema
    theirs = open_pinned(place.there, place.theirs).schema
    fields = []
    for at in patch.columns:
        column = columns[at]
        field = ours.field(column.ours) if column.ours is not None else theirs.field(column.theirs)
        fields.append(field.with_name(column.name))
    return pa.schema(fields)


def _batches(item: WriteItem, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """All physical rows of the home, in order. Deleted rows repeat a neighbor, as no column may lack a value."""
    place, columns, rule, patch = item.place, item.columns, item.rule, item.patch
    reader = _CellReader(place, columns, patch)
    decided = tuple(patch.columns)
    location, pin = (place.here, place.ours) if patch.of_ours else (place.there, place.theirs)
    own = {at: columns[at].ours if patch.of_ours else columns[at].theirs for at in decided}
    names = tuple(name for name in own.values() if name is not None)
    scan = Scan(location, pin, ScanColumns(names, with_row_address=True), batch_size=reader.most)
    reached = 0
    last: pa.RecordBatch | None = None
    for batch in read_batches(scan, ScanPartition((patch.home.id,))):
        offsets: Rows = np.asarray(batch.column(ADDRESS).to_numpy(zero_copy_only=False), np.int64) & 0xFFFFFFFF
        values = [
            _absent(item, field, batch.num_rows) if own[at] is None else batch.column(own[at])
            for at, field in zip(decided, schema, strict=True)
        ]
        low, high = np.searchsorted(patch.rows, [offsets[0], offsets[-1] + 1])
        if high > low:
            part = patch.part(slice(low, high))
            found = decide_cells(columns, decided, reader.cells(part), rule).values
            places = np.searchsorted(offsets, part.rows)
            values = [_put(old, places, found[at]) for old, at in zip(values, decided, strict=True)]
        last = pa.RecordBatch.from_arrays(values, schema=schema)
        end = int(offsets[-1]) + 1
        yield _spread(last, offsets, reached, end)
        reached = end
    if last is not None and reached < patch.home.physical_rows:
        gap = np.full(patch.home.physical_rows - reached, last.num_rows - 1)
        yield last.take(pa.array(gap))


def _absent(item: WriteItem, field: pa.Field, rows: int) -> pa.Array:
    """A column that the home does not have, in rows that are not contested."""
    default = default_of(field) if field.name in item.filled else None
    return pa.nulls(rows, field.type) if default is None else pa.repeat(value_of(default, field, item.moment), rows)


def _put(old: pa.Array, places: Rows, new: pa.Array) -> pa.Array:
    """The column with new values at some places."""
    at = np.arange(len(old), dtype=np.int64)
    at[places] = len(old) + np.arange(len(places))
    return pa.concat_arrays([old, new.cast(old.type)]).take(pa.array(at))


def _spread(batch: pa.RecordBatch, offsets: Rows, start: int, end: int) -> pa.RecordBatch:
    """The rows at their offsets, and in between repetitions of the next one."""
    if end - start == batch.num_rows:
        return batch
    return batch.take(pa.array(np.searchsorted(offsets, np.arange(start, end))))


def numbered(file: Mapping[str, Any], ids: Sequence[Sequence[int]]) -> dict[str, Any]:
    """A written file with the ids that its columns have in the merged table; fields inside a column follow it."""
    flat = [key for column in ids for key in column]
    return {**file, "fields": [flat[key] for key in file["fields"]]}


MOST = 20
_COMPARE = "compare rows"
_LONGEST = 200
"""Characters of a text that a conflict tells."""


# --- What a conflict tells of a row: its cells as JSON


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
        return ", ".join(f"{columns[place].base}={python_value(known[place][row])!r}" for place in at_keys)
    address = part.base[row] if part.base[row] != NOWHERE else (part.home.id << 32) + part.rows[row]
    return f"row {address & 0xFFFFFFFF} of fragment {address >> 32}"


def json_value(value: pa.Scalar) -> Any:
    """A cell as JSON: a number or a short text as it is, anything else as text."""
    found = python_value(value)
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
            known["differs"] |= changed if patch.in_place else cell_rules.differs(columns[at], values, home.get(at))
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
    filled: tuple[str, ...]
    """Columns with a default that the home lacks."""
    moment: datetime
    """Of the merge, for defaults that are the moment of a write."""


def write_patches(
    locations: Locations,
    sides: Sides,
    patches: Sequence[Patch],
    cells: CellPlan | None,
    lacking: Iterable[LackingRows],
    engine: Engine,
) -> dict[tuple[bool, int], dict[str, Any]]:
    """Write the files of a decided change: pylance's JSON, with the file's own field ids, by side and fragment.

    They are below the root of ours, and no version names them before the commit.
    """
    if not patches or cells is None:
        return {}
    place, moment = place_of(locations, sides), datetime.now(timezone.utc)
    filled = {(each.of_ours, each.fragment.id): each.columns for each in lacking}
    items = [
        WriteItem(
            place,
            cells.columns,
            cells.rule,
            _with_less(patch, cells),
            filled.get((patch.of_ours, patch.home.id), ()),
            moment,
        )
        for patch in patches
    ]
    size = sum(patch.home.physical_rows * 64 * len(patch.columns) for patch in patches)
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
    yield _file_row(item.patch.of_ours, item.patch.home, write_patch(item))


def _file_row(of_ours: bool, home: Fragment, written: Mapping[str, Any]) -> pa.RecordBatch:
    row = {"of_ours": of_ours, "fragment": home.id, "file": json.dumps(written)}
    return pa.RecordBatch.from_pylist([row], _FILES)


class DefaultItem(NamedTuple):
    """Rows that get defaults of the other side's columns; runs on executors."""

    place: PatchPlace
    rows: LackingRows
    moment: datetime


def write_defaults(
    locations: Locations, sides: Sides, lacking: Sequence[LackingRows], engine: Engine
) -> dict[tuple[bool, int], dict[str, Any]]:
    """Write the defaults that rows get; returns what ``write_patches`` does."""
    if not lacking:
        return {}
    place, moment = place_of(locations, sides), datetime.now(timezone.utc)
    items = [DefaultItem(place, rows, moment) for rows in lacking]
    runner = engine.for_work("merge", Work(rewrites=len(items)))
    found = runner.collect(_WRITE, runner.flat_map(_WRITE, items, write_default, _FILES)).to_pylist()
    return {(row["of_ours"], row["fragment"]): json.loads(row["file"]) for row in found}


def write_default(item: DefaultItem) -> Iterator[pa.RecordBatch]:
    place, rows = item.place, item.rows
    other = open_pinned(*((place.there, place.theirs) if rows.of_ours else (place.here, place.ours))).schema
    schema = pa.schema([other.field(name) for name in rows.columns])
    values = [value_of(str(default_of(field)), field, item.moment) for field in schema]

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, rows.fragment.physical_rows, _PART):
            count = min(_PART, rows.fragment.physical_rows - start)
            yield pa.RecordBatch.from_arrays([pa.repeat(value, count) for value in values], schema=schema)

    yield _file_row(rows.of_ours, rows.fragment, _written(place, schema, batches(), rows.fragment))


# --- Rows that a caller decides


def resolved(place: PatchPlace, cells: CellPlan, keys: tuple[str, ...], resolve: Resolve) -> Given:
    """What the caller decided. Raises InvalidOption for an answer that does not fit, and what ``resolve`` raises."""
    question = asked(cells.columns, keys, _parts(place, cells))
    return given_cells(question, cells.columns, resolve(question.table))


def _parts(place: PatchPlace, cells: CellPlan) -> Iterator[tuple[Cells, Mapping[int, Mask]]]:
    every = tuple(at for at, column in enumerate(cells.columns) if not column.is_opaque)
    for patch in cells.open:
        for found, _ in read_cells(place, cells.columns, replace(patch, compared=every)):
            yield found, decide_cells(cells.columns, every, found, cells.rule).clashes
