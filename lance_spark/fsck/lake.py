"""Checks a catalog: its own rows and directories, and its tables side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from lance_spark.catalog.doctor import examine
from lance_spark.catalog.name_rules import TABLE, Catalog, is_inside
from lance_spark.catalog.overview import overview
from lance_spark.cleanup.lake import find_tables
from lance_spark.cleanup.retention_rules import nanoseconds
from lance_spark.core.location import DatasetLocation
from lance_spark.core.texts import EPOCH
from lance_spark.engine.local import Engine, LocalRunner, Work
from lance_spark.errors import CorruptData, LanceSparkError, NotFound
from lance_spark.fsck.fsck import fsck
from lance_spark.fsck.option_rules import FsckOptions
from lance_spark.fsck.report import CHECKED, CatalogFsckReport, FsckReport, TableCheck, checked_row, worst_tables_first

_THREADS_OF_A_TASK = 4
_TASKS = 16
"""Tasks for each one that runs at a time."""


@dataclass(frozen=True)
class CheckTask:
    table: str
    location: DatasetLocation
    options: FsckOptions
    now_ns: int


def fsck_catalog(catalog: Catalog, options: FsckOptions, engine: Engine, now: datetime) -> CatalogFsckReport:
    """Check all tables of a catalog, and the catalog itself. Changes nothing.

    A table that cannot be checked is a row of the report. A declared table, which has no data yet, is left out. Raises
    only if the catalog itself cannot be read.
    """
    tasks, lost = _tables(catalog, options, nanoseconds(now - EPOCH))
    runner = engine.for_work("fsck", Work(tables=len(tasks)))
    count = max(1, min(len(tasks), _TASKS * runner.parallelism))
    dealt = [tasks[start::count] for start in range(count)] if tasks else []
    try:
        rows = runner.collect("check tables", runner.flat_map("check tables", dealt, check_some, CHECKED)).to_pylist()
    finally:
        runner.release()
    checks = [TableCheck.of(row) for row in rows] + lost
    problems = () if catalog.service is not None else examine(catalog, now)  # a service's own names are its own affair
    return CatalogFsckReport(catalog.uri, worst_tables_first(checks), problems, options.deep, runner.name)


def _tables(catalog: Catalog, options: FsckOptions, now_ns: int) -> tuple[list[CheckTask], list[TableCheck]]:
    if catalog.service is not None:
        found = find_tables(catalog).tables
        return [CheckTask(table.name, table.location, options, now_ns) for table in found], []
    tasks: dict[str, CheckTask] = {}
    lost = []
    for item in overview(catalog, recursive=True):
        if item.kind != TABLE:
            continue
        name = str(item.identifier)
        if item.path is None or not is_inside(item.path):
            error = "Its row leads to no directory below the catalog."
            lost.append(TableCheck(name, item.path or "", (), error=error, exit_code=CorruptData.exit_code))
        else:
            tasks.setdefault(item.path, CheckTask(name, catalog.at(item.path), options, now_ns))
    return list(tasks.values()), lost


def check_some(tasks: Sequence[CheckTask]) -> Iterator[pa.RecordBatch]:
    """CHECKED of some tables, one after the other; runs on executors."""
    for task in tasks:
        found: FsckReport | LanceSparkError
        try:
            found = fsck(task.location, task.options, LocalRunner(_THREADS_OF_A_TASK), task.now_ns)
        except NotFound:
            continue  # declared only, or dropped meanwhile; a row without files is a finding about the catalog
        except LanceSparkError as problem:
            found = problem
        yield pa.RecordBatch.from_pylist([checked_row(task.table, task.location.uri, found)], CHECKED)
