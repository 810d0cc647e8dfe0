"""Brings rows that wait in pylance's write-ahead log (MemWAL) into the table, as its specification describes."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow.compute as pc

from lance_spark import hints
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.core.show import ShownInOneLine
from lance_spark.core.texts import counted
from lance_spark.errors import Refused
from lance_spark.format.mem_wal import TOMBSTONE, SsTable, columns_to_bring
from lance_spark.format.operations import key_columns, key_fields
from lance_spark.storage.credentials import dataset_at
from lance_spark.storage.datasets import open_latest, pin_latest
from lance_spark.storage.failures import translated
from lance_spark.storage.followers import check_writable
from lance_spark.storage.mem_wal import waiting_rows
from lance_spark.storage.versions import read_contents


@dataclass(frozen=True, repr=False)
class WalResult(ShownInOneLine):
    """Rows of the write-ahead log that are in the table now."""

    version: PinnedVersion
    tables: int = 0
    """SSTables of the log that were compacted."""
    rows_written: int = 0
    rows_deleted: int = 0
    logged: tuple[str, ...] = ()
    """Shards with entries of the log that no SSTable has yet. Their writer moves them there when it is closed."""

    def __str__(self) -> str:
        if not self.tables:
            told = f"{self.version}: no SSTable of the write-ahead log waits"
        else:
            told = (
                f"{self.version}: {counted(self.tables, 'SSTable')} compacted, {counted(self.rows_written, 'row')} "
                f"written, {counted(self.rows_deleted, 'row')} deleted"
            )
        return f"{told}; the log of {counted(len(self.logged), 'shard')} waits for its writer" if self.logged else told


def compact_wal(location: DatasetLocation, branch: str | None) -> WalResult:
    """Compact all SSTables, each in one version, or in two if it deletes rows; a killed call can be repeated.

    Raises Refused for a table without a primary key, and for a branch that may not be written to; NotFound, Conflict,
    StorageFailure.
    """
    check_writable(location, branch)
    head = pin_latest(location, branch)
    found = waiting_rows(location, head)
    fields = read_contents(location, head).fields
    keys = key_columns(fields)
    if found.tables and not keys:
        lacks = "lies inside of a column" if key_fields(fields) else "is missing"
        raise Refused(
            f"Rows of the write-ahead log are matched by the table's primary key, which {lacks}. Nothing was changed.",
            hint=hints.python_only("Read its SSTables with lance.mem_wal.LsmScanner, and append their rows."),
        )
    written = deleted = 0
    for table in found.tables:
        rows, gone = _compact(location, branch, table, list(keys))
        written, deleted = written + rows, deleted + gone
    return WalResult(pin_latest(location, branch), len(found.tables), written, deleted, found.logged)


def _compact(location: DatasetLocation, branch: str | None, table: SsTable, keys: list[str]) -> tuple[int, int]:
    from lance.mem_wal import CompactedSsTable

    done = [CompactedSsTable(table.shard, table.generation)]
    dataset = open_latest(location, branch)
    with translated(location, "compacting the write-ahead log"):
        there = DatasetLocation(f"{location.branch_uri(branch)}/{table.path}", location.options)
        held = read_contents(there, pin_latest(there, None)).fields
        names = columns_to_bring(held, read_contents(location, pin_latest(location, branch)).fields)
        rows = dataset_at(there, there.uri).to_table([*names, TOMBSTONE])
        deletes = rows[TOMBSTONE]
        gone = rows.filter(deletes).select(keys)
        new = rows.filter(pc.invert(deletes)).drop_columns([TOMBSTONE])
        if gone.num_rows:
            # Progress is recorded by the last commit only: whoever dies in between does it again, with the same result.
            deletion = dataset.merge_insert(keys).when_matched_delete()
            if not new.num_rows:
                deletion.mark_sstables_as_compacted(done)
            deletion.execute(gone)
        if new.num_rows or not gone.num_rows:
            upsert = dataset.merge_insert(keys).when_matched_update_all().when_not_matched_insert_all()
            upsert.mark_sstables_as_compacted(done).execute(new)
    return new.num_rows, gone.num_rows
