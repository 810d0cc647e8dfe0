"""Publishers that are killed, writers, upkeep, tags and helpers at once on one lake: what each process does.

Every row has an id of its own, and so has every run of a publisher: what was published by half shows. The workers'
jobs and logs are those of ``storm``; ``lake_race_checks`` has the account.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import lance

from lance_spark import LanceCatalog
from lance_spark.catalog import journal as journals
from lance_spark.catalog.entry_rules import Entry as Row
from lance_spark.catalog.lookup import create_namespace
from lance_spark.catalog.publish_rules import Journal
from lance_spark.catalog.removing import drop_table
from lance_spark.catalog.tables import declare_table
from lance_spark.cleanup.cleanup import plan_cleanup
from lance_spark.cleanup.sweep_rules import DELETED
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import RefSpec
from lance_spark.engine.local import LocalRunner
from lance_spark.errors import AlreadyExists, NotFound, Refused
from lance_spark.lake import publish as publishing
from lance_spark.lake.manifest_rules import BranchRows
from lance_spark.merge.option_rules import PublishOptions
from lance_spark.refs.refs import create_branch, delete_branch
from lance_spark.storage.resolving import resolve
from support.lakes import pinned
from support.storm import LATE, SINCE, Place, Worker, policy, table_of, under_way
from support.storm_log import OK, Entry

TABLES = ("a", "air.b", "air.c", "d", "e")
HOT = tuple(range(5))
"""Rows of each table that several processes update."""
COLD = tuple(range(5, 10))
"""Rows that nobody changes: a merge knows by their files what a table was made from."""
SHARED = "shared"
"""A branch that one process writes to, and all publishers publish."""
SHARING = TABLES[:2]
"""Tables with that branch. The others are compacted: a merge of a branch that is older than a compaction needs the
versions since, and cleanups remove them."""
SAME = "same"
"""A new table that several publishers want to create."""
RUN, GENERATION = 1_000, 1_000_000
PUBLISHERS = (11, 12)
ROWS = 2
"""New rows of a run in each of its tables."""
ENGINE = LocalRunner()


def catalog_of(place: Place) -> LanceCatalog:
    return LanceCatalog(place.uri, place.storage)


def locations(place: Place) -> dict[str, DatasetLocation]:
    lake = catalog_of(place)
    return {name: lake.describe_table(name).location for name in TABLES}


def opened(location: DatasetLocation, branch: str | None = None, version: int | None = None) -> lance.LanceDataset:
    return lance.dataset(location.branch_uri(branch), version=version, storage_options=location.storage_options)


def append(location: DatasetLocation, branch: str | None, ids: Sequence[int]) -> int:
    uri = location.branch_uri(branch)
    return int(lance.write_dataset(table_of(ids), uri, mode="append", storage_options=location.storage_options).version)


def update_hot(location: DatasetLocation, branch: str | None, key: int, value: int) -> int:
    dataset = opened(location, branch)
    dataset.update({"v": str(value)}, where=f"id = {key}", conflict_retries=0)
    return int(dataset.version)


def make_lake(place: Place) -> None:
    catalog = catalog_of(place).catalog
    create_namespace(catalog, "air")
    for name in TABLES:
        declared = declare_table(catalog, name)
        uri, rows = declared.location.uri, table_of([*HOT, *COLD])
        lance.write_dataset(rows, uri, max_rows_per_file=len(HOT), storage_options=place.storage)
        if name in SHARING:
            create_branch(declared.location, SHARED, RefSpec())


# --- Processes that stand still between two steps of a publish, as long as others need to step in

_STEPS = (
    (publishing, ("publish_table", "take_back_table", "remember_publish", "_publish_rows", "_take_rows_back")),
    (journals, ("write_journal", "decide", "write_outcome")),
)
_dawdling: list[random.Random] = []


def dawdle(chance: random.Random) -> None:
    """Let this process hesitate before some steps, from now on."""
    if not _dawdling:
        for module, names in _STEPS:
            for name in names:
                setattr(module, name, _hesitating(getattr(module, name)))
    _dawdling[:] = [chance]


def _hesitating(step: Callable[..., Any]) -> Callable[..., Any]:
    def later(*given: Any, **named: Any) -> Any:
        if _dawdling[0].random() < 0.2:
            time.sleep(_dawdling[0].uniform(0, 0.1))
        return step(*given, **named)

    return later


# --- Publishers: each run has a branch of its own; they are killed at any moment, and begin again


def branch_of(first: int) -> str:
    return f"run/{first}"


def new_table(first: int) -> str:
    return f"new{first}"


def publish(place: Place, number: int, generation: int, end: float) -> None:
    """The process of a publisher. Whoever follows a killed one looks after what that left."""
    worker = Worker(place, f"publisher-{number}", number)
    worker.chance.seed(f"{place.seed} {number} {generation}")
    worker.end = end
    dawdle(worker.chance)
    lake, done, run = catalog_of(place), False, 0
    with worker.job():
        worker.attempt("recover", partial(_recover, lake))
    while worker.goes_on(done):
        run += 1
        first = number * 1_000_000_000 + generation * GENERATION + run * RUN
        if worker.chance.random() < 0.3:
            worker.attempt("publish shared", partial(_publish_shared, worker, lake))
        entry = worker.attempt("publish", partial(_publish_run, worker, lake, first))
        done = done or entry.outcome == OK
        if worker.chance.random() < 0.5:
            worker.attempt("drop branches", partial(_drop_branches, place, first))
        worker.rest(0.05)


def _recover(lake: LanceCatalog) -> dict[str, Any]:
    found = lake.recover()
    return {} if found is None else {"id": found.id, "state": found.state}


def _publish_shared(worker: Worker, lake: LanceCatalog) -> dict[str, Any]:
    with worker.job():
        found = lake.publish(SHARED)
    return {"id": found.id, "state": found.state}


def _publish_run(worker: Worker, lake: LanceCatalog, first: int) -> dict[str, Any]:
    """New rows in some tables, perhaps updated ones and a new table; then all of it at once."""
    chance, where = worker.chance, locations(worker.place)
    names = sorted(chance.sample(TABLES, chance.choice([2, 3, 4])))
    for name in names:
        create_branch(where[name], branch_of(first), RefSpec())
        append(where[name], branch_of(first), ids_of_run(first, name))
        if chance.random() < 0.4:
            update_hot(where[name], branch_of(first), chance.choice(HOT), first)
    kind, new = chance.random(), None
    if kind < 0.4:
        new = SAME if kind < 0.2 else new_table(first)
    with worker.job():
        if new is None:
            found = lake.publish(branch_of(first), tables=names, message=str(first))
            return {"first": first, "id": found.id, "state": found.state}
        return {"first": first, **_publish_with_new(lake, names, first, new)}


def _publish_with_new(lake: LanceCatalog, names: list[str], first: int, new: str) -> dict[str, Any]:
    catalog = lake.catalog
    path = f"{first:08x}_{new}"
    lance.write_dataset(table_of([first]), catalog.at(path).uri, storage_options=catalog.root.storage_options)

    def look() -> BranchRows:
        branch = publishing.branch_in_tables(catalog, branch_of(first), names)
        return replace(branch, rows=(*branch.rows, pinned(Row(new, "table", path), new=True)))

    found = publishing.publish(catalog, look, ENGINE, options=PublishOptions(str(first)))
    return {} if found is None else {"id": found.journal.id, "state": found.outcome.outcome}


def ids_of_run(first: int, name: str) -> list[int]:
    start = first + 10 * TABLES.index(name)
    return list(range(start, start + ROWS))


def _drop_branches(place: Place, first: int) -> dict[str, Any]:
    for location in locations(place).values():
        try:
            delete_branch(location, branch_of(first))
        except NotFound:
            continue
    return {}


# --- Everyone else


def warm_up(place: Place, *_: object) -> None:
    catalog_of(place).publishes()


def work(_: None, place: Place, run: Any, name: str, number: int) -> None:
    run(Worker(place, name, number))


def append_to_main(worker: Worker) -> None:
    where, done = locations(worker.place), False
    while worker.goes_on(done):
        name, ids = worker.chance.choice(TABLES), worker.fresh(5)

        def run(name: str = name, ids: Sequence[int] = ids) -> dict[str, Any]:
            return {"table": name, "version": append(where[name], None, ids)}

        with worker.job():
            done = worker.attempt("append", run, added=ids).outcome == OK or done
        worker.rest(worker.place.pause)


def append_to_shared(worker: Worker) -> None:
    """The only one that writes to that branch: the log has all of its versions."""
    where, done = locations(worker.place), False
    while worker.goes_on(done):
        name, ids = worker.chance.choice(SHARING), worker.fresh(3)

        def run(name: str = name, ids: Sequence[int] = ids) -> dict[str, Any]:
            return {"table": name, "version": append(where[name], SHARED, ids)}

        done = worker.attempt("append to shared", run, added=ids).outcome == OK or done
        worker.rest(4 * worker.place.pause)


def meddle(worker: Worker) -> None:
    """Changes on main what a publish changes as well, right after it was decided; and a row now and then."""
    lake, done, last = catalog_of(worker.place), False, 0
    manifest = lake.catalog.manifest
    while worker.goes_on(done):
        seen, last = last, max(journals.sequences(manifest), default=0)
        contested = None
        if last > seen and worker.chance.random() < 0.4:
            contested = _clash(worker, lake, journals.read_journal(manifest, last))
        elif worker.chance.random() < 0.05:
            worker.attempt("drop", partial(_drop_same, lake))
            contested = worker.chance.choice(TABLES), worker.chance.choice(HOT)
        if contested is not None:
            with worker.job():
                done = worker.attempt("update", partial(_meddle_with, worker, *contested)).outcome == OK or done
        worker.rest(0.02)


def _clash(worker: Worker, lake: LanceCatalog, journal: Journal) -> tuple[str, int] | None:
    """The row of a table that a publish updates; or the name of its new table is taken."""
    new = [str(change.known.identifier) for change in journal.rows]
    if new and worker.chance.random() < 0.5:
        worker.attempt("take name", partial(_take_name, lake, new[0]))
    for table in journal.tables if journal.message else ():
        location = lake.catalog.at(table.location)
        try:
            source = opened(location, table.branch, table.version)
            updated = source.to_table(columns=["id"], filter=f"v = {journal.message}")["id"].to_pylist()
        except (OSError, ValueError):  # the branch was dropped: the publish has ended
            return None
        if updated:
            return table.name, updated[0]
    return None


def _meddle_with(worker: Worker, name: str, key: int) -> dict[str, Any]:
    (stamp,) = worker.fresh(1)
    version = update_hot(locations(worker.place)[name], None, key, stamp)
    return {"table": name, "stamp": stamp, "version": version}


def _take_name(lake: LanceCatalog, name: str) -> dict[str, Any]:
    """A table without data, which has the name of the new one of a publish."""
    try:
        declare_table(lake.catalog, name)
    except AlreadyExists:
        return {"taken": False}
    if name != SAME:
        return {"taken": name}
    lake.deregister_table(name)
    return {"taken": False}


def _drop_same(lake: LanceCatalog) -> dict[str, Any]:
    try:
        drop_table(lake.catalog, SAME)
    except (NotFound, Refused):  # a tag of the lake pins it
        return {"dropped": False}
    return {"dropped": True}


def keep_up(worker: Worker) -> None:
    """Compactions, and cleanups of all that no job under way can need: ours, and pylance's."""
    where, removed = locations(worker.place), False
    # Not both cleanups on one table: once ours removed the first version of a branch, pylance's removes deletion files
    # of the version that the branch was made from.
    ours = [*(where[name] for name in TABLES if name not in SHARING), catalog_of(worker.place).catalog.manifest]
    while worker.goes_on(removed):
        with worker.job():
            name = worker.chance.choice([name for name in TABLES if name not in SHARING])
            worker.attempt("compact", partial(_compact, where[name]))
        clean: Callable[[Place, DatasetLocation], dict[str, Any]] = _clean
        location = worker.chance.choice(ours)
        if worker.chance.random() < 0.3:
            clean, location = _clean_by_pylance, where[worker.chance.choice(SHARING)]
        entry = worker.attempt("clean", partial(clean, worker.place, location))
        removed = removed or entry.facts.get("versions", 0) > 0
        worker.rest(0.2)


def _compact(location: DatasetLocation) -> dict[str, Any]:
    dataset = opened(location)
    return {"fragments": dataset.optimize.compact_files(target_rows_per_fragment=1_000).fragments_removed}


def _window(place: Place) -> timedelta:
    now = time.time_ns()
    return timedelta(seconds=(now - min([now, *under_way(place, SINCE)])) / 1e9 + place.margin)


def _clean(place: Place, location: DatasetLocation) -> dict[str, Any]:
    now, window = time.time_ns(), _window(place)
    plan = plan_cleanup(location, policy(commit_window=window, unverified_age=window), ENGINE, time.time_ns())
    if plan.facts.created_ns - now > LATE * 1e9:
        return {"late": True}  # this process stood still: jobs may be under way for longer than the window by now
    report = plan.apply()
    removed = sum(counts["removed"] for counts in report.versions.values())
    return {"window": window.total_seconds(), "versions": removed, "files": report.count(DELETED)[0]}


def _clean_by_pylance(place: Place, location: DatasetLocation) -> dict[str, Any]:
    window = _window(place)
    try:
        stats = opened(location).cleanup_old_versions(older_than=window, error_if_tagged_old_versions=False)
    except OSError as problem:  # it fails when a tag that it listed is deleted
        return {"failed": str(problem)}
    return {"window": window.total_seconds(), "versions": stats.old_versions}


def help_others(worker: Worker) -> None:
    """Ends publishes that it finds unfinished, of dead publishers and of living ones."""
    dawdle(worker.chance)
    lake, done = catalog_of(worker.place), False
    while worker.goes_on(done):
        with worker.job():
            done = worker.attempt("recover", partial(_recover, lake)).outcome == OK or done
        worker.rest(0.5)


def tag(worker: Worker) -> None:
    lake, done, number = catalog_of(worker.place), False, 0
    while worker.goes_on(done):
        number += 1
        name = f"t{number}"
        with worker.job():
            created = worker.attempt("tag", partial(_tag, lake, name)).outcome == OK
        done = created or done
        if created and worker.chance.random() < 0.5:
            worker.attempt("delete tag", partial(_delete_tag, lake, name))
        worker.rest(0.4)


def _tag(lake: LanceCatalog, name: str) -> dict[str, Any]:
    return {"tag": lake.tags.create(name).name}


def _delete_tag(lake: LanceCatalog, name: str) -> dict[str, Any]:
    lake.tags.delete(name)
    return {"tag": name}


MOMENTS = ("published", "tag of a moment", "branch of a moment", "clone of a moment")


def watch(worker: Worker) -> None:
    """Reads all tables as of the last complete publish; or keeps a moment of the lake, and reads that."""
    lake, done, number = catalog_of(worker.place), False, 0
    while worker.goes_on(done):
        number += 1
        kind, name = worker.chance.choices(MOMENTS, (10, 2, 2, 1))[0], f"{worker.name}-{number}"
        with worker.job():
            done = worker.attempt(kind, partial(_moment, worker, lake, kind, name)).outcome == OK or done
        worker.rest(0.05)


def _moment(worker: Worker, lake: LanceCatalog, kind: str, name: str) -> dict[str, Any]:
    """Of which runs each table has rows."""
    keeps = worker.chance.random() < 0.3
    if kind == MOMENTS[0]:
        reader = lake.checkout(published=True)
        assert reader.catalog.ref is not None
        try:
            return {"sequence": getattr(reader.catalog.ref, "sequence"), "runs": _runs_of(reader)}  # noqa: B009
        except (NotFound, OSError, ValueError):  # nothing is kept from cleanups for such a reader
            return {}
    if kind == MOMENTS[3]:
        return {"runs": _runs_of(lake.clone(f"{worker.place.uri}-clones/{name}"))}
    refs: Any = lake.tags if kind == MOMENTS[1] else lake.branches
    refs.create(name)
    there = lake.checkout(tag=name) if kind == MOMENTS[1] else lake.checkout(branch=name)
    runs = _runs_of(there)
    if not keeps:
        refs.delete(name)
    return {"runs": runs}


def _runs_of(lake: LanceCatalog) -> dict[str, list[int]]:
    found = {}
    for name in TABLES:
        handle = lake.table(name)
        pin = resolve(handle.location, handle.ref)
        keys = opened(handle.location, pin.branch, pin.version).to_table(columns=["id"])["id"].to_pylist()
        found[name] = sorted({key // RUN * RUN for key in keys if key >= PUBLISHERS[0] * 1_000_000_000})
    return found


WORKERS = (
    (append_to_main, "appender-1"),
    (append_to_main, "appender-2"),
    (append_to_shared, "sharer"),
    (meddle, "meddler"),
    (keep_up, "keeper"),
    (help_others, "helper"),
    (tag, "tagger"),
    (watch, "watcher-1"),
    (watch, "watcher-2"),
)


def told(entries: Sequence[Entry], *actions: str) -> list[Entry]:
    return [entry for entry in entries if entry.action in actions]
