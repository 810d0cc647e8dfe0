"""Reads and writes through the actions as Spark's reader and writer do, and what lies in a directory."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

from lance_spark.core.refs import PinnedVersion
from lance_spark.format.schema import conform
from lance_spark.scan.fragment_reads import read_batches
from lance_spark.scan.read import plan_read, read_schema
from lance_spark.tables.read import pin_read
from lance_spark.tables.write import begin, finish, plan_write
from lance_spark.write.data_files import write_rows
from lance_spark.write.plan_rules import WriteJob


def numbers(count: int, start: int = 0) -> pa.Table:
    """A table of one bigint column: start, start + 1, ..."""
    return pa.table({"id": pa.array(range(start, start + count), pa.int64())})


def make_dataset(uri: str, *batches: pa.Table, **arguments: Any) -> lance.LanceDataset:
    """A dataset with one version per table, written by pylance."""
    for number, batch in enumerate(batches or (numbers(3),)):
        lance.write_dataset(batch, uri, mode="append" if number else "create", **arguments)
    return lance.dataset(uri)


def scan(uri: str, cores: int = 2, **options: object) -> list[list[dict[str, Any]]]:
    """The rows of each Spark partition."""
    read = pin_read({"path": uri, **{key: str(value) for key, value in options.items()}})
    schema = read_schema(read)
    plan = plan_read(read, schema, cores)
    return [
        [row for batch in read_batches(plan.scan, part) for row in conform(batch, schema).to_pylist()]
        for part in plan.partitions
    ]


def rows(uri: str, **options: Any) -> list[dict[str, Any]]:
    """All rows in the order Spark sees them."""
    return [row for part in scan(uri, **options) for row in part]


def ids(uri: str, **options: object) -> list[int]:
    return [row["id"] for row in rows(uri, **options)]


def pin(uri: str, **options: object) -> PinnedVersion:
    return pin_read({"path": uri, **{key: str(value) for key, value in options.items()}}).pin


def prepare(uri: str, *tables: pa.Table, overwrite: bool = False, **options: object) -> tuple[WriteJob, list[str]]:
    """A write job up to its commit: one task per table."""
    given = {"path": uri, **{key: str(value) for key, value in options.items()}}
    job = begin(plan_write(given, tables[0].schema, overwrite))
    return job, [fragment for table in tables for fragment in write_rows(job, table.to_batches())]


def write(uri: str, *tables: pa.Table, overwrite: bool = False, **options: object) -> int | None:
    """A whole write job; returns the version it made."""
    return finish(*prepare(uri, *tables, overwrite=overwrite, **options))


def contents(directory: str | Path) -> dict[str, str]:
    """Hash of every file below a directory, by relative path."""
    root = Path(directory)
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in root.rglob("*")
        if path.is_file()
    }


def written_since(before: dict[str, str], directory: str | Path) -> set[str]:
    """Files that were added, changed or removed since ``contents`` was taken."""
    now = contents(directory)
    return {path for path in before.keys() | now.keys() if before.get(path) != now.get(path)}
