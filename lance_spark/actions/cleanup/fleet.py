"""Cleaning up many tables in one job: each task looks at, or plans and cleans, a few whole tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from lance_spark.actions.cleanup.apply import apply_plan
from lance_spark.actions.cleanup.plan import plan_cleanup
from lance_spark.cleanup.fleet import BASES, ROWS, FleetReport, clones_among, empty, failed, held_back, unreadable
from lance_spark.cleanup.policy import CleanupPolicy
from lance_spark.cleanup.report import CleanupReport
from lance_spark.errors import CorruptData, LanceSparkError, NotFound
from lance_spark.location import DatasetLocation, is_within
from lance_spark.refs.model import PinnedVersion
from lance_spark.runner.interface import Item, Runner
from lance_spark.runner.local import LocalRunner
from lance_spark.store import chains
from lance_spark.store.survey import branch_directories

_THREADS = 4
"""In one task: tables are side by side already."""
_TASKS = 64
"""For each that runs at a time: enough that large tables do not leave cores without work at the end. One for each table
would make every task carry the names of all, which 50,000 tables do not survive."""


@dataclass(frozen=True)
class FleetTable:
    """One table of many."""

    name: str
    location: DatasetLocation
    is_cleaned: bool = True
    """Else it is only looked at: what it reads of the others is kept."""


@dataclass(frozen=True)
class FleetOptions:
    """How to clean."""

    policy: CleanupPolicy
    execute: bool = False
    policies: Mapping[str, CleanupPolicy] | None = None
    """Other policies for some tables, by name."""
    max_deletes_per_second: float | None = None
    """Of all tasks together."""


def clean_fleet(tables: Sequence[FleetTable], options: FleetOptions, runner: Runner) -> FleetReport:
    """Clean up tables; each is a row of the report, whatever becomes of the others.

    First the manifests of all are looked at: where one reads files of another, they are kept. While a table cannot be
    looked at, no other one is cleaned: it may be a clone of any of them.
    """
    uris = {table.name: table.location.uri for table in tables}
    bases = runner.collect(
        "look", runner.flat_map("look for clones", _dealt(tables, runner), bases_of, BASES)
    ).to_pylist()
    blind = unreadable(bases)
    if blind:
        rows = [
            failed(table.name, table.location.uri, *(blind.get(table.name) or held_back(blind)))
            for table in tables
            if table.is_cleaned
        ]
        return FleetReport(rows, options.execute)
    clones = clones_among(bases, uris)
    cleaned = [table for table in tables if table.is_cleaned]
    share = options.max_deletes_per_second
    if share is not None:
        share /= max(1, min(runner.parallelism, len(cleaned)))
    work = [_Work(table, _policy(table, options, clones[table.name]), options.execute, share) for table in cleaned]
    done = runner.collect("clean up", runner.flat_map("clean up", _dealt(work, runner), clean_some, ROWS)).to_pylist()
    return FleetReport(sorted(done, key=lambda row: row["table"]), options.execute)


def _dealt(items: Sequence[Item], runner: Runner) -> list[Sequence[Item]]:
    """The items in as many parts as there are tasks; neighbours, which are often alike, in different ones."""
    count = max(1, min(len(items), _TASKS * runner.parallelism))
    return [items[start::count] for start in range(count)] if items else []


@dataclass(frozen=True)
class _Work:
    """What one task gets."""

    table: FleetTable
    policy: CleanupPolicy
    execute: bool
    max_deletes_per_second: float | None


def _policy(table: FleetTable, options: FleetOptions, clones: tuple[str, ...]) -> CleanupPolicy:
    policy = (options.policies or {}).get(table.name, options.policy)
    return replace(policy, clones=(*policy.clones, *clones))


def bases_of(tables: Sequence[FleetTable]) -> Iterator[pa.RecordBatch]:
    """The places outside of themselves that tables read files from; runs on executors.

    The newest version of every branch tells: base paths stay in a manifest once they are registered.
    """
    for table in tables:
        rows: list[dict[str, Any]]
        try:
            rows = [{"table": table.name, "base": base, "error": ""} for base in sorted(_bases(table.location))]
        except LanceSparkError as problem:
            rows = [{"table": table.name, "base": "", "error": problem.message, "exit_code": problem.exit_code}]
        yield pa.RecordBatch.from_pylist(rows, BASES)


def _bases(location: DatasetLocation) -> set[str]:
    found: set[str] = set()
    for branch in (None, *branch_directories(location)):
        found |= _bases_of_chain(location, branch)
    return {uri for uri in found if not is_within(uri, location.uri)}


def _bases_of_chain(location: DatasetLocation, branch: str | None) -> set[str]:
    """Of its newest version that can be understood. Nobody can read the others, so they need nothing."""
    for version in reversed(chains.version_names(location, branch)):
        with suppress(CorruptData, NotFound):
            bases = chains.read_snapshot(location, PinnedVersion(branch, version)).bases
            return {root.uri for root in bases.values()}
    return set()


def clean_some(works: Sequence[_Work]) -> Iterator[pa.RecordBatch]:
    """Plan the cleanup of tables, and carry it out, one after the other; runs on executors."""
    for work in works:
        yield pa.RecordBatch.from_pylist([_cleaned(work)], ROWS)


def _cleaned(work: _Work) -> dict[str, Any]:
    location, name = work.table.location, work.table.name
    try:
        if not chains.version_names(location, None):
            return empty(name, location.uri)
        plan = plan_cleanup(location, work.policy, LocalRunner(_THREADS))
        report = apply_plan(plan, work.max_deletes_per_second) if work.execute else plan.report()
    except LanceSparkError as problem:
        if _is_gone(location):
            return empty(name, location.uri)
        return failed(name, location.uri, problem.message, problem.exit_code)
    return _row(name, report)


def _is_gone(location: DatasetLocation) -> bool:
    """Whether somebody dropped or moved a table while it was cleaned: that is no problem of the cleanup's."""
    try:
        return not chains.version_names(location, None)
    except LanceSparkError:
        return False


def _row(name: str, report: CleanupReport) -> dict[str, Any]:
    files, size = report.count("deleted") if report.executed else report.to_delete
    return {
        "table": name,
        "uri": report.dataset,
        "state": "done" if report.executed else "would",
        "versions": sum(counts.get("removed", 0) for counts in report.versions.values()),
        "files": files,
        "bytes": size,
        "failed": report.count("failed")[0],
        "error": "",
        "exit_code": 0,
        "report": report.to_json(),
    }
