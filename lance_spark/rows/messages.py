"""What tasks tell one another and the driver of a change: a few small rows for each fragment. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lance_spark.errors import CorruptData

NEW = -1
"""Stands for the fragment in rows that tell of a new one."""

PARTS = pa.schema(
    [
        ("fragment", pa.int64()),
        ("deleted", pa.binary()),
        ("updated", pa.binary()),
        ("metadata", pa.string()),
        ("operation", pa.int32()),
        ("rows", pa.int64()),
        ("checksum", pa.int64()),
        ("twice", pa.int64()),
    ]
)
"""What one task found. Of a fragment of the table: bitmaps of the offsets to delete, and of those that were written
anew. Of a new fragment: pylance's JSON, the operation that it is for, and its rows. ``checksum`` adds up the addresses
of rows that were written anew; ``twice`` is the address of a row that would be changed twice."""

OUTCOMES = pa.schema(
    [
        ("fragment", pa.int64()),
        ("metadata", pa.string()),
        ("operation", pa.int32()),
        ("deleted", pa.int64()),
        ("updated", pa.int64()),
        ("rows", pa.int64()),
        ("checksum", pa.int64()),
        ("twice", pa.int64()),
    ]
)
"""What the driver gets: one row for each fragment that changes or is new. ``metadata`` is null where no row is left."""

_CHECKSUM = (1 << 63) - 1


def checksum(addresses: int) -> int:
    """A sum of addresses that fits into a bigint."""
    return addresses & _CHECKSUM


@dataclass(frozen=True)
class Prepared:
    """A change whose files are written. Nobody sees them before the commit."""

    changed: Mapping[int, str | None]
    """Fragments with fewer rows, by id, as pylance's JSON; None where no row is left."""
    written: tuple[str, ...]
    """New fragments, as pylance's JSON."""
    deleted: int
    updated: int
    inserted: int
    twice: int | None = None
    """Address of a row that the change would change twice."""

    @property
    def is_empty(self) -> bool:
        """Whether no row changes."""
        return not (self.changed or self.written)


def prepared(outcomes: Iterable[Mapping[str, Any]], update: int) -> Prepared:
    """What tasks did, summed up. ``update`` is the operation of rows that are written anew.

    Raises CorruptData if other rows were written anew than are deleted: a source that gives other rows each time it
    is read does that to a job in which a task ran again.
    """
    rows = list(outcomes)
    old = [row for row in rows if row["fragment"] != NEW]
    new = [row for row in rows if row["fragment"] == NEW]
    updated = sum(row["updated"] for row in old)
    again = [row for row in new if row["operation"] == update]
    twice = next((row["twice"] for row in rows if row["twice"] is not None), None)
    sums = [checksum(sum(row["checksum"] for row in part)) for part in (old, again)]
    if twice is None and (updated != sum(row["rows"] for row in again) or sums[0] != sums[1]):
        raise CorruptData(
            "The rows to be changed were not the same each time they were computed; nothing was changed.",
            hint="Store what the source gives first, in a table or with df.localCheckpoint(), and use that.",
        )
    return Prepared(
        changed={row["fragment"]: row["metadata"] for row in old},
        written=tuple(row["metadata"] for row in new),
        deleted=sum(row["deleted"] for row in old),
        updated=updated,
        inserted=sum(row["rows"] for row in new if row["operation"] != update),
        twice=twice,
    )
