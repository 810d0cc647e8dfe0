"""Cleans up a whole catalog: all tables side by side, its own table, and directories that no row names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from lance_spark.catalog import manifest_commits
from lance_spark.catalog.directories import list_root
from lance_spark.catalog.lookup import list_tables, locate_table
from lance_spark.catalog.name_rules import MANIFEST, TABLE, Catalog, Identifier, Name, identify_namespace, is_inside
from lance_spark.catalog.others_rules import check_ours
from lance_spark.catalog.overview import overview
from lance_spark.catalog.removing import DATASET, INTERRUPTED, Orphan, collect_orphans, plan_orphans
from lance_spark.cleanup.many_tables import FleetOptions, FleetTable, clean_fleet
from lance_spark.cleanup.report import (
    ORPHAN,
    LakeReport,
    State,
    Upkeep,
    catalog_policy,
    failed,
    shared_warnings,
    why_nothing,
    without,
)
from lance_spark.cleanup.retention_rules import nanoseconds
from lance_spark.core.services import keeps_versions
from lance_spark.core.texts import EPOCH
from lance_spark.engine.local import Engine
from lance_spark.errors import CorruptData, LanceSparkError, NotFound, Refused
from lance_spark.storage.files import each

_ITSELF = "the catalog itself"
"""Its name in a report of many tables. No table has this name, as a name with blanks would have backticks."""
_WORTH = 4
"""Number of the catalog's own files that are worth compacting to one: each costs every reader a request on an object
store. The catalog compacts them itself when there are 12."""


@dataclass(frozen=True)
class Lake:
    tables: tuple[FleetTable, ...]
    readers: tuple[FleetTable, ...]
    """Directories that are not tables of the catalog but may be clones: deregistered or left over."""
    lost: tuple[str, ...]
    """Tables whose rows lead nowhere or outside the catalog."""
    notes: tuple[str, ...]


def clean_lake(catalog: Catalog, options: FleetOptions, engine: Engine, now: datetime) -> LakeReport:
    """Clean up all tables of a catalog, each a row of the report, whatever happens to the others; then its own table.

    The files that clones read are kept, including clones that are deregistered. Directories that no row names are
    removed after a day. Raises only if the catalog itself cannot be read, or its place is empty.
    """
    check_of_ours(catalog, "clean up")
    lake = find_tables(catalog)
    compacted, problem = _compact(catalog, options.execute)
    itself = [FleetTable(_ITSELF, catalog.manifest)] if catalog.has_manifest else []
    policies = {**(options.policies or {}), _ITSELF: catalog_policy(options.policy)}
    fleet = clean_fleet(
        [*lake.tables, *lake.readers, *itself], replace(options, policies=policies), engine, nanoseconds(now - EPOCH)
    )
    report, rows = without(fleet, _ITSELF)
    upkeep = [Upkeep.of_catalog(MANIFEST, row, compacted) for row in rows if row["state"] != "empty"]
    if problem is not None:
        upkeep = [replace(each, error=each.error or problem.message) for each in upkeep]
    notes = [*lake.notes, *shared_warnings(report), *why_nothing(report)]
    if report.rows and all(row["state"] == "failed" for row in report.rows):
        notes.append("directories that no row names were left alone, because the tables could not be cleaned")
    elif catalog.has_manifest:
        orphans, kept = _orphans(catalog, options.execute, now)
        upkeep += orphans
        notes += kept
    lost = [
        failed(name, "", "its row leads to no directory below the catalog", CorruptData.exit_code) for name in lake.lost
    ]
    return LakeReport(catalog.uri, replace(report, rows=[*report.rows, *lost]), upkeep, notes)


def check_of_ours(catalog: Catalog, verb: str) -> None:
    """Raise Refused for a catalog of another writer, which may need versions that no ref names."""
    if catalog.has_manifest:
        check_ours(manifest_commits.root_properties(catalog.manifest), f"{verb} {catalog.uri}")


def find_tables(catalog: Catalog, namespace: Name = "") -> Lake:
    """The content of a catalog's directory. With a namespace, only its tables are cleaned; the others are readers.

    Raises NotFound if the directory is empty or the namespace does not exist.
    """
    if catalog.service is not None:
        return _of_service(catalog, identify_namespace(namespace))
    tables: dict[str, FleetTable] = {}
    lost, notes = [], []
    for item in overview(catalog, identify_namespace(namespace), recursive=True):
        name = str(item.identifier)
        if item.kind != TABLE:
            continue
        if item.path is None or not is_inside(item.path):
            lost.append(name)
        elif item.path in tables:
            notes.append(f"'{name}' has the directory of '{tables[item.path].name}', which is cleaned once")
        else:
            tables[item.path] = FleetTable(name, catalog.at(item.path))
    directories, _ = list_root(catalog.root)
    if not directories:
        raise NotFound(f"There is nothing in {catalog.uri}.", hint="Check the catalog's path.")
    others = [name for name in directories if name not in tables and name != MANIFEST]
    readers = [
        FleetTable(f"the directory {name}", catalog.at(name), is_cleaned=False) for name in others if is_inside(name)
    ]
    return Lake(tuple(tables.values()), tuple(readers), tuple(lost), tuple(notes))


def _of_service(catalog: Catalog, within: Identifier) -> Lake:
    """The tables of a service; those outside the namespace may be clones that read the others."""

    def look(table: Identifier) -> FleetTable | str | None:
        try:
            location = locate_table(catalog, table)
        except NotFound:
            return None  # dropped meanwhile
        except Refused as refused:
            return refused.message
        inside = table.parts[: len(within.parts)] == within.parts and not keeps_versions(location)
        return FleetTable(str(table), location, is_cleaned=inside)

    found = each(catalog.root, look, list_tables(catalog, recursive=True))
    if not found:
        raise NotFound(f"There is no table in {catalog.uri}.", hint="Check its address and properties.")
    tables = {looked.location.uri: looked for looked in reversed(found) if isinstance(looked, FleetTable)}
    notes = [looked for looked in found if isinstance(looked, str)]
    notes += [
        f"'{looked.name}' is left alone: the catalog keeps its versions (managed_versioning)"
        for looked in found
        if isinstance(looked, FleetTable) and keeps_versions(looked.location)
    ]
    notes += [
        f"'{looked.name}' has the directory of '{tables[looked.location.uri].name}', which is cleaned once"
        for looked in found
        if isinstance(looked, FleetTable) and tables[looked.location.uri] is not looked
    ]
    known = tuple(table for table in found if isinstance(table, FleetTable) and tables[table.location.uri] is table)
    inside = tuple(table for table in known if table.is_cleaned)
    return Lake(inside, tuple(table for table in known if not table.is_cleaned), (), tuple(notes))


def clean_itself(
    catalog: Catalog, options: FleetOptions, engine: Engine, now: datetime
) -> tuple[list[Upkeep], list[str]]:
    """Clean up a catalog's own table and directories that no row names; returns the results, and notes."""
    if not catalog.has_manifest:
        return [], []
    compacted, problem = _compact(catalog, options.execute)
    policies = {_ITSELF: catalog_policy(options.policy)}
    itself = [FleetTable(_ITSELF, catalog.manifest)]
    fleet = clean_fleet(itself, replace(options, policies=policies), engine, nanoseconds(now - EPOCH))
    upkeep = [Upkeep.of_catalog(MANIFEST, row, compacted) for row in fleet.rows if row["state"] != "empty"]
    if problem is not None:
        upkeep = [replace(each, error=each.error or problem.message) for each in upkeep]
    orphans, notes = _orphans(catalog, options.execute, now)
    return [*upkeep, *orphans], notes


def _compact(catalog: Catalog, execute: bool) -> tuple[str, LanceSparkError | None]:
    """Compact the catalog's own table to one file if that pays; returns what was done, and the error if it failed."""
    if not catalog.has_manifest:
        return "", None
    files = manifest_commits.fragment_count(catalog.manifest)
    if files < _WORTH:
        return "", None
    if not execute:
        return f"{files} files would become one", None
    try:
        done = manifest_commits.compact(catalog.manifest, _WORTH)
    except LanceSparkError as problem:
        return "", problem
    return f"{files} files became one" if done else "", None


def _orphans(catalog: Catalog, execute: bool, now: datetime) -> tuple[list[Upkeep], list[str]]:
    """Clean up directories that no row names; returns the results, and notes on those that stay."""
    try:
        plan = plan_orphans(catalog, now)
        done = collect_orphans(plan) if execute else None
    except LanceSparkError as problem:
        return [Upkeep(ORPHAN, "directories", "failed", error=problem.message, exit_code=problem.exit_code)], []
    if done is None:
        return [_orphan(orphan, "would") for orphan in plan.orphans], list(_kept(plan.kept))
    reasons = dict(done.failed)
    upkeep = [
        _undone(orphan, reasons[orphan.directory]) if orphan.directory in reasons else _orphan(orphan, "done")
        for orphan in plan.orphans
        if orphan.directory not in done.spared
    ]
    return upkeep, list(_kept(plan.kept))


def _orphan(orphan: Orphan, state: State) -> Upkeep:
    return Upkeep(ORPHAN, orphan.directory, state, orphan.files, orphan.bytes, what=f"of no table: {orphan.kind}")


def _undone(orphan: Orphan, problem: LanceSparkError) -> Upkeep:
    made = _orphan(orphan, "failed")
    return replace(made, files=0, bytes=0, error=problem.message, exit_code=problem.exit_code)


def _kept(orphans: Iterable[Orphan]) -> Iterable[str]:
    for orphan in orphans:
        if orphan.kind == DATASET:
            yield f"{orphan.directory} is a dataset that no row names; it stays: register it or delete it"
        elif orphan.kind == INTERRUPTED:
            yield f"{orphan.directory} was to be renamed when the job ended; it stays: lance-catalog doctor --mend"
        else:
            yield f"{orphan.directory} belongs to no table but is younger than a day; it stays"
