"""Looks after a dataset, or after all tables of a catalog: check, compaction, indexes, expiry of refs, cleanup."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from lance_spark.actions.catalog.cleanup import clean_itself, find_tables
from lance_spark.actions.cleanup.multi_table import FleetOptions, FleetTable, looks_at
from lance_spark.actions.upkeep.job import Job, UpkeepOptions, UpkeepTable
from lance_spark.actions.upkeep.running import RunningReport
from lance_spark.actions.upkeep.tables import maintain_tables
from lance_spark.catalog.model import Catalog
from lance_spark.cleanup.multi_table import clones_among, held_back, unreadable
from lance_spark.errors import CorruptData, NotFound
from lance_spark.location import DatasetLocation
from lance_spark.runner.interface import Engine
from lance_spark.show.moments import moment_at
from lance_spark.store import version_listing
from lance_spark.upkeep.memory import remember
from lance_spark.upkeep.policy import CLEANUP
from lance_spark.upkeep.records import TableRecord
from lance_spark.upkeep.report import CatalogRecord, MaintenanceReport


def maintain(catalog: Catalog, options: UpkeepOptions, engine: Engine, now_ns: int) -> MaintenanceReport:
    """Look after what is in a directory: one dataset, or the tables of a catalog; see the functions below."""
    if version_listing.version_numbers(catalog.root, None):
        return maintain_dataset(catalog.root, options, engine, now_ns)
    return maintain_catalog(catalog, options, engine, now_ns)


def maintain_dataset(
    location: DatasetLocation, options: UpkeepOptions, engine: Engine, now_ns: int
) -> MaintenanceReport:
    """Look after one dataset, which policies and reports know by the name of its directory.

    ``now_ns`` is the time, nanoseconds since the epoch, by which all ages are counted. Whatever goes wrong is in the
    report. Raises NotFound if there is no dataset, or it is not a wanted one, StorageFailure if the store does not
    answer.
    """
    began = time.monotonic()
    if not version_listing.version_numbers(location, None):
        raise NotFound(f"There is no dataset in {location.uri}.", hint="Check the path.")
    name = location.uri.rpartition("/")[2].removesuffix(".lance")
    options.selection.check([name])
    job = _telling(Job(options, engine, now_ns), location.uri, 1, began)
    records = maintain_tables(job, [UpkeepTable(name, location)])
    return _report(location.uri, options, records, now_ns, began)


def maintain_catalog(catalog: Catalog, options: UpkeepOptions, engine: Engine, now_ns: int) -> MaintenanceReport:
    """Look after all tables of a catalog side by side, then after the catalog's own table and stray directories.

    Nothing of one table stops another, except that nothing is deleted while a table cannot be looked at: it may be a
    clone that reads any other one. Raises only if the catalog itself cannot be read, or if nothing is there.
    """
    began = time.monotonic()
    lake = find_tables(catalog)
    options.selection.check([*(table.name for table in lake.tables), *lake.lost])
    wanted = [table for table in lake.tables if options.selection.has(table.name)]
    job = _job(options, engine, now_ns, (*lake.tables, *lake.readers))
    job = _telling(job, catalog.uri, len(wanted), began)
    records = maintain_tables(job, [UpkeepTable(table.name, table.location) for table in wanted])
    records += [
        TableRecord(name, "", error="its row leads to no directory below the catalog", exit_code=CorruptData.exit_code)
        for name in lake.lost
        if options.selection.has(name)
    ]
    report = _report(catalog.uri, options, records, now_ns, began)
    steps = options.selection.steps - options.policy.everywhere.skip
    whole = len(wanted) == len(lake.tables) and CLEANUP in steps
    if job.held_back:
        return replace(report, notes=(*lake.notes, f"nothing was deleted: every table is {job.held_back}"))
    if not whole or (options.time_left is not None and not options.time_left()):
        return replace(report, notes=lake.notes)
    fleet = FleetOptions(options.policy.cleanup, options.execute, max_deletes_per_second=options.max_deletes_per_second)
    upkeep, notes = clean_itself(catalog, fleet, engine, moment_at(now_ns))
    told = tuple(
        CatalogRecord(each.kind, each.name, each.state, each.files, each.bytes, each.what, each.error)
        for each in upkeep
    )
    seconds = round(time.monotonic() - began, 3)
    return replace(report, catalog=told, notes=(*lake.notes, *notes), seconds=seconds)


def _job(options: UpkeepOptions, engine: Engine, now_ns: int, tables: tuple[FleetTable, ...]) -> Job:
    """With what tables need of one another."""
    looks = looks_at(tables, engine)
    bases = frozenset(row["base"] for row in looks if row["base"])
    blind = unreadable(looks)
    if blind:
        return Job(options, engine, now_ns, bases=bases, held_back=held_back(blind)[0])
    clones = clones_among(looks, {table.name: table.location.uri for table in tables})
    return Job(options, engine, now_ns, clones, bases)


def _telling(job: Job, root: str, tables: int, began: float) -> Job:
    """The job, which tells its report while it runs if somebody wants to know."""
    options = job.options
    if options.progress is None:
        return job
    running = RunningReport(
        lambda records: replace(_report(root, options, records, job.now_ns, began), expected=tables), options.progress
    )
    return replace(job, told=running.add)


def _report(
    root: str, options: UpkeepOptions, records: Sequence[TableRecord], now_ns: int, began: float
) -> MaintenanceReport:
    return MaintenanceReport(
        root=root,
        executed=options.execute,
        tables=tuple(records),
        started=moment_at(now_ns),
        seconds=round(time.monotonic() - began, 3),
        memory=remember(options.memory, records, now_ns) if options.execute else options.memory,
    )
