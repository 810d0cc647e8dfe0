"""Cleans up many tables in one job: each task first looks at a few whole tables, then plans and cleans them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from lance_spark.cleanup import report
from lance_spark.cleanup.cleanup import OPERATION, plan_cleanup
from lance_spark.cleanup.report import LOOKS, ROWS, CleanupReport, FleetReport
from lance_spark.cleanup.retention_rules import CleanupPolicy
from lance_spark.core.location import DatasetLocation, is_within
from lance_spark.core.refs import PinnedVersion
from lance_spark.engine.local import Engine, Item, LocalRunner, Runner, Work, told
from lance_spark.errors import Conflict, CorruptData, LanceSparkError, NotFound, PermissionDenied
from lance_spark.storage import versions as stored_versions
from lance_spark.survey.survey import ATTEMPTS, branch_directories

_THREADS_OF_A_TASK = 4
"""Few, because tables already run side by side."""
_TASKS = 64
"""Tasks for each one that runs at a time: enough to keep all cores busy until the end despite large tables. One task
for each table would make every task carry the names of all tables, which is too much for 50,000 of them."""


@dataclass(frozen=True)
class FleetTable:
    name: str
    location: DatasetLocation
    is_cleaned: bool = True
    """If False, it is only looked at: the files it reads from other tables are kept."""


@dataclass(frozen=True)
class FleetOptions:
    policy: CleanupPolicy
    execute: bool = False
    policies: Mapping[str, CleanupPolicy] | None = None
    """Other policies for some tables, by name."""
    max_deletes_per_second: float | None = None
    """For all tasks together."""


def clean_fleet(tables: Sequence[FleetTable], options: FleetOptions, engine: Engine, now_ns: int) -> FleetReport:
    """Clean up tables side by side; each is a row of the report, whatever happens to the others.

    A first pass looks at the manifests of all tables: files that another table reads are kept. If one table cannot be
    looked at, no other one is cleaned: it may be a clone of any of them. ``now_ns`` is the time that all ages are
    measured from, in nanoseconds since the epoch.
    """
    uris = {table.name: table.location.uri for table in tables}
    looks = looks_at(tables, engine)
    blind = report.unreadable(looks)
    if blind:
        rows = [
            report.failed(table.name, table.location.uri, *(blind.get(table.name) or report.held_back(blind)))
            for table in tables
            if table.is_cleaned
        ]
        return FleetReport(rows, options.execute)
    clones = report.clones_among(looks, uris)
    cleaned = [table for table in tables if table.is_cleaned]
    runner = engine.for_work(OPERATION, _work_of(cleaned, looks))
    share = options.max_deletes_per_second
    if share is not None:
        share /= max(1, min(runner.parallelism, len(cleaned)))
    shared = _Shared(options.execute, share, runner.name, now_ns)
    tasks = [_TableTask(table, _policy(table, options, clones[table.name]), shared) for table in cleaned]
    done = runner.collect("clean up", runner.flat_map("clean up", _dealt(tasks, runner), clean_some, ROWS)).to_pylist()
    return FleetReport(sorted(done, key=lambda row: row["table"]), options.execute, runner.name)


def looks_at(tables: Sequence[FleetTable], engine: Engine) -> list[dict[str, Any]]:
    """Rows of LOOKS about all tables."""
    runner = engine.for_work(OPERATION, Work(tables=len(tables)))
    looks = runner.flat_map("look for clones", _dealt(tables, runner), look_at, LOOKS)
    rows: list[dict[str, Any]] = runner.collect("look", looks).to_pylist()
    return rows


def _work_of(tables: Sequence[FleetTable], looks: Sequence[Mapping[str, Any]]) -> Work:
    """The work of cleaning the tables. Each version is at least two files, and at most one manifest to read."""
    names = {table.name for table in tables}
    versions, files = (sum(row[name] for row in looks if row["table"] in names) for name in ("versions", "files"))
    return Work(tables=len(tables), manifests=versions, files=2 * versions + files)


def _dealt(items: Sequence[Item], runner: Runner) -> list[Sequence[Item]]:
    """The items in as many parts as there are tasks; neighbors, which are often alike, go to different parts."""
    count = max(1, min(len(items), _TASKS * runner.parallelism))
    return [items[start::count] for start in range(count)] if items else []


@dataclass(frozen=True)
class _Shared:
    execute: bool
    max_deletes_per_second: float | None
    """For one task."""
    ran_on: str
    now_ns: int


@dataclass(frozen=True)
class _TableTask:
    table: FleetTable
    policy: CleanupPolicy
    shared: _Shared


def _policy(table: FleetTable, options: FleetOptions, clones: tuple[str, ...]) -> CleanupPolicy:
    policy = (options.policies or {}).get(table.name, options.policy)
    return replace(policy, clones=(*policy.clones, *clones))


def look_at(tables: Sequence[FleetTable]) -> Iterator[pa.RecordBatch]:
    """LOOKS: the outside places that tables read files from, and the tables' sizes; runs on executors.

    The newest version of every branch is enough: base paths stay in a manifest once they are registered.
    """
    nothing = {"base": "", "versions": 0, "files": 0, "error": "", "exit_code": 0}
    for table in tables:
        rows: list[dict[str, Any]]
        try:
            glances = [_look_at_branch(table.location, name) for name in (None, *branch_directories(table.location))]
            bases = {uri for glance in glances for uri in glance.bases if not is_within(uri, table.location.uri)}
            rows = [{"base": base} for base in sorted(bases)]
            versions, files = (sum(getattr(glance, name) for glance in glances) for name in ("versions", "files"))
            rows.append({"versions": versions, "files": files})
        except LanceSparkError as problem:
            rows = [{"error": told(problem), "exit_code": problem.exit_code}]
        yield pa.RecordBatch.from_pylist([{"table": table.name, **nothing, **row} for row in rows], LOOKS)


@dataclass(frozen=True)
class _BranchGlance:
    """What a look at one branch of a table shows without reading all its versions."""

    versions: int
    files: int = 0
    bases: frozenset[str] = frozenset()


def _look_at_branch(location: DatasetLocation, branch: str | None) -> _BranchGlance:
    """Look at the newest readable version. Unreadable versions need no files.

    A version that disappears meanwhile proves nothing: a newer one took its place and may read files of another table.
    Raises Conflict if that keeps happening.
    """
    for _ in range(ATTEMPTS):
        with suppress(NotFound):
            return _look_once(location, branch)
    raise Conflict(
        f"The versions of {location.branch_uri(branch)} changed during each of {ATTEMPTS} attempts to look at them.",
        hint="Run it again when fewer versions are committed and cleaned up at the same time.",
    )


def _look_once(location: DatasetLocation, branch: str | None) -> _BranchGlance:
    versions = stored_versions.version_numbers(location, branch)
    for version in reversed(versions):
        with suppress(CorruptData):
            snapshot = stored_versions.read_snapshot(location, PinnedVersion(branch, version))
            bases = frozenset(root.uri for root in snapshot.bases.values())
            return _BranchGlance(len(versions), snapshot.contents.fragment_count, bases)
    return _BranchGlance(len(versions))


def clean_some(tasks: Sequence[_TableTask]) -> Iterator[pa.RecordBatch]:
    """Plan the cleanup of tables and carry it out, one after the other; runs on executors."""
    for task in tasks:
        yield pa.RecordBatch.from_pylist([_cleaned(task)], ROWS)


def _cleaned(task: _TableTask) -> dict[str, Any]:
    location, name, shared = task.table.location, task.table.name, task.shared
    try:
        if not stored_versions.version_numbers(location, None):
            return report.empty(name, location.uri)
        plan = plan_cleanup(location, task.policy, LocalRunner(_THREADS_OF_A_TASK), shared.now_ns)
        done = plan.apply(shared.max_deletes_per_second) if shared.execute else plan.report()
    except LanceSparkError as problem:
        if _is_gone(location):
            return report.empty(name, location.uri)
        return report.failed(name, location.uri, told(problem), problem.exit_code)
    return _row(name, replace(done, ran_on=shared.ran_on))


def _is_gone(location: DatasetLocation) -> bool:
    """Whether a table was dropped or moved during its cleanup, which is not a failure."""
    try:
        return not stored_versions.version_numbers(location, None)
    except LanceSparkError:
        return False


def _row(name: str, done: CleanupReport) -> dict[str, Any]:
    files, size = done.count("deleted") if done.executed else done.to_delete
    state = "would" if not done.executed else "done" if done.complete else "partly" if files else "failed"
    return {
        **report.empty(name, done.dataset),
        "state": state,
        "versions": sum(counts.get("removed", 0) for counts in done.versions.values()),
        "files": files,
        "bytes": size,
        "failed": done.count("failed")[0],
        "error": done.failure,
        "exit_code": PermissionDenied.exit_code if done.is_denied else 0,
        "report": done.to_json(),
    }
