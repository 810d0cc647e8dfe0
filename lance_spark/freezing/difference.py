"""What differs between two frozen sets: rows that came, went, or are in another split."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.errors import Refused
from lance_spark.show.card import Card, Grid, Shown

if TYPE_CHECKING:
    from collections.abc import Mapping

ADDED, REMOVED, MOVED, KEPT = "added", "removed", "moved", "kept"
ENTRIES = (pa.field("split", pa.string()), pa.field("row_id", pa.int64()))
"""What is known of a row of a set beside ``local``, which tells the same row in both."""
DIFFERENCES = pa.schema(
    [
        pa.field("change", pa.string()),
        pa.field("split_before", pa.string()),
        pa.field("split_after", pa.string()),
        pa.field("row_id_before", pa.int64()),
        pa.field("row_id_after", pa.int64()),
    ]
)
"""One row for each row of either set."""
COUNTS = pa.schema(
    [("change", pa.string()), ("split_before", pa.string()), ("split_after", pa.string()), ("rows", pa.int64())]
)


def compare(before: pa.Table, after: pa.Table) -> pa.Table:
    """The rows of both sets, each once, with what happened to them. Both have ``local`` and ENTRIES.

    Raises Refused where ``local`` does not tell rows from one another.
    """
    for side in (before, after):
        if pc.count_distinct(side["local"]).as_py() < side.num_rows:
            raise Refused(
                "Several rows of a frozen set have the same key: which rows are the same is not known.",
                hint="Name the columns that tell each row from all others, as in key=['id'].",
            )
    names = ["split", "row_id"]
    joined = before.select(["local", *names]).join(
        after.select(["local", *names]), "local", join_type="full outer", left_suffix="_before", right_suffix="_after"
    )
    old, new = joined["split_before"], joined["split_after"]
    change = pc.if_else(
        pc.is_null(old), ADDED, pc.if_else(pc.is_null(new), REMOVED, pc.if_else(pc.equal(old, new), KEPT, MOVED))
    )
    return pa.table([change, old, new, joined["row_id_before"], joined["row_id_after"]], schema=DIFFERENCES)


def changed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Only rows that are not in the same split of both."""
    for batch in batches:
        yield batch.filter(pc.not_equal(batch["change"], KEPT))


def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """How many rows of a partition did what."""
    for batch in batches:
        keys = ["change", "split_before", "split_after"]
        found = pa.Table.from_batches([batch]).group_by(keys).aggregate([([], "count_all")])
        columns = [found[key] for key in keys] + [found["count_all"]]
        yield from pa.table(columns, schema=COUNTS).to_batches()


@dataclass(frozen=True, repr=False)
class FrozenDiff(Shown):
    """What differs between two frozen sets."""

    before: str
    after: str
    counts: Mapping[tuple[str, str | None, str | None], int]
    """Rows by what happened to them (added, removed, moved, kept), split before and split after."""
    frame: Any = field(default=None, compare=False)
    """The rows that were added, removed or moved: a DataFrame, or an Arrow table where there is no session. Columns:
    change, split_before, split_after, row_id_before, row_id_after (ids at the sets' own versions)."""

    def _sum(self, change: str) -> int:
        return sum(rows for (kind, _, _), rows in self.counts.items() if kind == change)

    @property
    def added(self) -> int:
        """Rows that only the second set has."""
        return self._sum(ADDED)

    @property
    def removed(self) -> int:
        """Rows that only the first set has."""
        return self._sum(REMOVED)

    @property
    def moved(self) -> int:
        """Rows of both sets that are in another split."""
        return self._sum(MOVED)

    @property
    def kept(self) -> int:
        """Rows that are in the same split of both sets."""
        return self._sum(KEPT)

    def _card(self) -> Card:
        summary = f"{self.added:,} added, {self.removed:,} removed, {self.moved:,} moved, {self.kept:,} kept"
        rows = tuple(
            (change, old or "", new or "", f"{rows:,}")
            for (change, old, new), rows in sorted(self.counts.items(), key=lambda item: tuple(map(str, item[0])))
        )
        grid = Grid(("change", "split before", "split after", "rows"), rows, frozenset({3}))
        return Card(type(self).__name__, f"{self.before} to {self.after}", summary, grids=(grid,))
