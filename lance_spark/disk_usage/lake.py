"""Measures the tables of a catalog: few of them one by one, many of them as tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lance_spark.catalog.rules import Catalog, Name
from lance_spark.cleanup.lake import find_tables
from lance_spark.cleanup.many_tables import FleetTable, looks_at
from lance_spark.cleanup.report import clones_among
from lance_spark.cleanup.rules import CleanupPolicy
from lance_spark.disk_usage.disk_usage import storage
from lance_spark.disk_usage.report import TABLE_USAGE, CatalogStorage, nothing_there, usage_row
from lance_spark.engine.local import LOCAL, Engine, LocalRunner, Work
from lance_spark.errors import CorruptData, LanceSparkError
from lance_spark.storage import versions

_SIDE_BY_SIDE = 4
_TASKS = 16
"""Tasks for each one that runs at a time: enough to keep all cores busy until the end despite a large table."""


def catalog_storage(catalog: Catalog, engine: Engine, namespace: Name = "") -> CatalogStorage:
    """The usage of each table of a catalog, or of a namespace and those below it.

    Tables that read files of one another count as clones. A table that cannot be examined is a row with its error.
    Raises NotFound if the catalog is empty or the namespace does not exist.
    """
    lake = find_tables(catalog, namespace)
    runner = engine.for_work("storage", Work(tables=len(lake.tables)))
    known = (*lake.tables, *lake.readers)
    clones = clones_among(looks_at(known, engine), {table.name: table.location.uri for table in known})
    items = [_Item(table, clones.get(table.name, ())) for table in lake.tables]
    if runner.name == LOCAL:
        with ThreadPoolExecutor(_SIDE_BY_SIDE, "storage") as pool:
            rows = list(pool.map(lambda item: _row(item, engine), items))
    else:
        frame = runner.flat_map(
            "storage of tables", _dealt(items, _TASKS * runner.parallelism), look_at_some, TABLE_USAGE
        )
        rows = runner.collect("storage of tables", frame).to_pylist()
    lost = "its row leads to no directory below the catalog"
    rows += [nothing_there(name, "", lost, CorruptData.exit_code) for name in lake.lost]
    rows.sort(key=lambda row: (-row["bytes"], row["table"]))
    return CatalogStorage(catalog.uri, rows, runner.name)


@dataclass(frozen=True)
class _Item:
    table: FleetTable
    clones: tuple[str, ...]


def _dealt(items: Sequence[_Item], most: int) -> list[Sequence[_Item]]:
    count = max(1, min(len(items), most))
    return [items[start::count] for start in range(count)] if items else []


def look_at_some(items: Sequence[_Item]) -> Iterator[pa.RecordBatch]:
    """TABLE_USAGE of a few tables; runs on executors."""
    for item in items:
        yield pa.RecordBatch.from_pylist([_row(item, LocalRunner(_SIDE_BY_SIDE))], TABLE_USAGE)


def _row(item: _Item, engine: Engine) -> dict[str, Any]:
    name, location = item.table.name, item.table.location
    try:
        if not versions.version_numbers(location, None):
            return nothing_there(name, location.uri)
        return usage_row(name, storage(location, CleanupPolicy(clones=item.clones), engine))
    except LanceSparkError as problem:
        return nothing_there(name, location.uri, problem.message, problem.exit_code)
