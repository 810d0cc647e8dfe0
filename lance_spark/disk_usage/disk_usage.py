"""Measures what each ref of a dataset costs: survey, mark, list, attribute. Changes nothing.

The tables of a catalog are measured one by one, or as tasks if there are many.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lance_spark.catalog.lake import list_refs
from lance_spark.catalog.lake_rules import BRANCH, TAG
from lance_spark.catalog.name_rules import Catalog, Name
from lance_spark.cleanup.cleanup import Marking, about_rows, list_all, work_of_all
from lance_spark.cleanup.lake import find_tables
from lance_spark.cleanup.many_tables import FleetTable, looks_at
from lance_spark.cleanup.report import clones_among
from lance_spark.cleanup.retention_rules import CleanupPolicy, RunClock, Verdict
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.disk_usage.holder_rules import ATTRIBUTED, Costs, Holders, attribute, holders_of, portions
from lance_spark.disk_usage.report import (
    TABLE_USAGE,
    CatalogStorage,
    StorageReport,
    lake_usage,
    nothing_there,
    usage_row,
)
from lance_spark.engine.local import LOCAL, Engine, LocalRunner, Work
from lance_spark.errors import CorruptData, LanceSparkError
from lance_spark.format.blob_references import Referring
from lance_spark.scan.blob_reads import count_references
from lance_spark.storage import versions
from lance_spark.survey.chain_rules import Survey
from lance_spark.survey.survey import take_survey


def storage(location: DatasetLocation, policy: CleanupPolicy, engine: Engine) -> StorageReport:
    """What a dataset takes, by ref and by kind of file.

    Only ``clones``, ``clones_from`` and ``known_bases`` of ``policy`` count. Concurrent writes may be missing from the
    report, or be counted as named by no version. Raises CorruptData, NotFound, Conflict and StorageFailure if the
    dataset cannot be read.
    """
    survey = take_survey(location, policy.clones, policy.clones_from)
    runner = engine.for_work("storage", work_of_all(survey))
    marking = Marking(survey, policy, runner, lenient=True)
    everything = tuple(Verdict((True,) * len(chain.files), {}) for chain in survey.chains)
    marking.mark_the_rest(everything, RunClock(0))
    holders = holders_of(survey)
    sums = runner.match(
        "attribute files",
        (list_all(survey, runner), marking.marks()),
        Attribute(holders, tuple(chain.root for chain in survey.chains)),
        ATTRIBUTED,
        about_rows(survey),
    )
    elsewhere, unread = _elsewhere(survey)
    costs = Costs(survey, holders, portions(runner.collect("attribute files", sums)))
    report = StorageReport(
        dataset=location.uri,
        refs=costs.refs(),
        kinds=costs.by_kind(),
        warnings=(*_warnings(survey, marking), *unread),
        elsewhere=elsewhere,
        ran_on=runner.name,
        costs=costs,
        holders=holders.all,
    )
    runner.release()
    return report


@dataclass(frozen=True)
class Attribute:
    """Attributes files to the holders that need them; runs on executors."""

    holders: Holders
    roots: tuple[str, ...]

    def __call__(self, files: pa.Table, marks: pa.Table) -> pa.Table:
        return attribute(files, marks, self.holders, self.roots)


def _warnings(survey: Survey, marking: Marking) -> list[str]:
    found = [
        f"A version reads files from the base path '{base}', but {why}. If the path leads here under another name, "
        "every file with a name that it needs is counted."
        for base, why in sorted(marking.lost_bases.items())
    ]
    uris = {location.uri for location in survey.repositories}
    found += [
        f"Tag '{tag}' protects a clone at {uri}, which is gone or cannot be read from here."
        for tag, uri in sorted(survey.recorded_clones.items())
        if uri not in uris
    ]
    return found


def _elsewhere(survey: Survey) -> tuple[dict[str, Referring], list[str]]:
    """The blobs of the newest version of main and of each branch that refer to objects elsewhere; what was not read."""
    found, unread = {}, []
    for chain in survey.chains:
        if chain.repository or not chain.versions or not (chain.has_ref or chain.branch is None):
            continue
        pin = PinnedVersion(chain.branch, chain.versions[-1].version)
        try:
            count = count_references(survey.repositories[0], pin)
        except LanceSparkError as problem:
            unread.append(f"The blobs elsewhere of '{chain.name}' were not counted: {problem.message}")
            continue
        if count.blobs:
            found[chain.name] = count
    return found, unread


# --- All tables of a catalog


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
    return CatalogStorage(catalog.uri, rows, runner.name, lake_usage(rows, _lake_refs(catalog)))


def _lake_refs(catalog: Catalog) -> dict[str, tuple[str, str]]:
    """Kind and name of the refs of the whole lake, by id."""
    if not catalog.has_manifest:
        return {}
    return {ref.id: (kind, ref.name) for kind in (BRANCH, TAG) for ref in list_refs(catalog, kind) if ref.id}


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
