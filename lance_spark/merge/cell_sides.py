"""One side of a merge, as its rows are looked for: by stable ids, by key, in new fragments and where rows are back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from lance_spark.core.location import DatasetLocation
from lance_spark.format.contents import Fragment
from lance_spark.format.operations import Steps
from lance_spark.format.row_ids import read_row_ids
from lance_spark.format.row_values import ADDRESS
from lance_spark.format.versions import Delta, Snapshot, by_file, counterpart
from lance_spark.merge.cell_rules import NOWHERE, NumberedRows
from lance_spark.merge.change_rules import Rows
from lance_spark.scan.fragment_reads import FragmentRows, RowSource, deleted_offsets, read_rows


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
