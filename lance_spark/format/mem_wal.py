"""pylance's write-ahead log (MemWAL): rows that wait beside a table, in no version of it.

A writer of a shard logs rows below ``_mem_wal/<shard>/wal/``, and moves them, sorted by key, to small datasets, its
SSTables, which the newest manifest of the shard names. A version's index ``__lance_mem_wal`` records up to
which generation those of each shard were compacted into the table. Later ones, and what was logged since, wait.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from lance_spark.core.texts import counted, few
from lance_spark.errors import CorruptData, Refused
from lance_spark.format.contents import Field, IndexRecord
from lance_spark.format.manifest import parse, text

INDEX = "__lance_mem_wal"
DIRECTORY = "_mem_wal"
TOMBSTONE = "_tombstone"
"""The column of an SSTable that says which rows delete."""
_ENTRY = re.compile(r"([01]{64})\.\w+", re.ASCII)


class SsTable(NamedTuple):
    """A small dataset of rows that wait."""

    shard: str
    generation: int
    path: str
    """Relative to the root of the branch."""
    rows: int
    """Rows that were put and deleted; of several with one key, only the last one is in it."""


@dataclass(frozen=True)
class Waiting:
    tables: tuple[SsTable, ...] = ()
    """By shard, then in the order in which they were written."""
    logged: tuple[str, ...] = ()
    """Shards with entries of the log that no SSTable has: their writer is at work, or was killed."""

    def __bool__(self) -> bool:
        return bool(self.tables or self.logged)

    @property
    def rows(self) -> int:
        return sum(table.rows for table in self.tables)

    def __str__(self) -> str:
        told = [counted(self.rows, "row")] if self.tables else []
        return " and ".join([*told, *([f"the log of {counted(len(self.logged), 'shard')}"] if self.logged else [])])

    def beside(self, where: str) -> str:
        """The beginning of a sentence: what waits, of which table or branch."""
        several = self.tables and (self.logged or self.rows != 1)
        verb = "wait" if several else "waits"
        return f"{str(self).capitalize()} of {where} {verb} in pylance's write-ahead log (MemWAL), in no version"


def entry_number(name: str) -> int | None:
    """The number of a manifest or an entry of the log, whose name has its bits, the lowest first; None for others."""
    found = _ENTRY.fullmatch(name)
    return int(found.group(1)[::-1], 2) if found else None


def compacted(indexes: Iterable[IndexRecord]) -> dict[str, int] | None:
    """The last generation of each shard that a version has; None for a version without the index."""
    for index in indexes:
        if index.name == INDEX:
            entries = parse("MemWalDetails", index.details[1]).compacted if index.details else ()
            return {_shard(each.shard.uuid): each.generation for each in entries}
    return None


def waiting_of(shard: str, manifest: bytes, entries: Iterable[int], done: Mapping[str, int]) -> Waiting:
    """What waits in one shard, by its newest manifest and the numbers of its log's entries. Raises CorruptData."""
    parsed = parse("MemWalShard", manifest)
    tables = sorted((each.generation, text(each.path), each.rows) for each in parsed.tables)
    return Waiting(
        tuple(
            SsTable(shard, generation, f"{DIRECTORY}/{shard}/{path}", rows)
            for generation, path, rows in tables
            if generation > done.get(shard, 0)
        ),
        (shard,) if any(entry > parsed.replayed for entry in entries) else (),
    )


def columns_to_bring(waiting: Sequence[Field], table: Sequence[Field]) -> tuple[str, ...]:
    """The columns of an SSTable that the table has; those that were dropped since are left out.

    pylance may give the id of a dropped column to a new one, so an id under another name may be either a rename or
    another column. Raises Refused for it, and for changes inside a column: values would be lost, or in the wrong place.
    """
    there = _columns([field for field in waiting if field.name != TOMBSTONE])
    here = _columns(table)
    strange = [f"'{there[key][0][0]}'" for key in there.keys() & here.keys() if there[key] != here[key]]
    if strange:
        raise Refused(
            f"Rows of the write-ahead log have {few(sorted(strange), 5)} as it was before the table's columns were "
            "changed. They were not brought in.",
            hint="Give renamed columns their former names, compact the log, and rename them again.",
        )
    return tuple(there[key][0][0] for key in there if key in here)


def _columns(fields: Sequence[Field]) -> dict[int, list[tuple[str, str]]]:
    """Per column its name and type, and those of all fields inside it."""
    owner: dict[int, int] = {}
    found: dict[int, list[tuple[str, str]]] = {}
    for field in fields:
        owner[field.id] = owner.get(field.parent_id, field.id)
        found.setdefault(owner[field.id], []).append((field.name, field.type))
    return found


def _shard(content: bytes) -> str:
    if len(content) != 16:
        raise CorruptData("The index of the write-ahead log is damaged: a shard has no id.")
    return str(UUID(bytes=content))
