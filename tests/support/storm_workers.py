"""The workers of the everything-at-once run: what each process does until its time is over."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import lance

from lance_spark.cleanup.cleanup import plan_cleanup
from lance_spark.cleanup.sweep_rules import DELETED
from lance_spark.core.refs import RefSpec
from lance_spark.engine.local import LocalRunner
from lance_spark.merge.merge import merge
from lance_spark.merge.option_rules import MergeOptions
from lance_spark.refs.refs import create_branch, create_tag, delete_branch, delete_tag, list_branches, move_tag
from lance_spark.storage.datasets import pin_latest
from lance_spark.tables.write import begin, finish, plan_write
from lance_spark.write.data_files import write_rows
from support import storm
from support.storm_log import OK, UNKNOWN


def warm_up(place: storm.Place, *_: object) -> None:
    """Import all that a first look takes: seconds, on a busy machine and an object store."""
    storm.opened(place)
    list_branches(place.location)


def work(_: None, place: storm.Place, run: Callable[[storm.Worker], None], name: str, number: int) -> None:
    run(storm.Worker(place, name, number))


def append_by_pylance(worker: storm.Worker) -> None:
    _append(worker, lambda place, ids: {"version": _append_to(place, None, ids)})


def append_by_us(worker: storm.Worker) -> None:
    _append(worker, _write)


def _append(worker: storm.Worker, write: Callable[[storm.Place, list[int]], Mapping[str, Any]]) -> None:
    done = False
    while worker.goes_on(done):
        ids = worker.fresh(8)
        with worker.job():
            entry = worker.attempt("append", partial(write, worker.place, ids), added=ids)
        done = done or entry.outcome == OK
        worker.rest(worker.place.pause)


def _append_to(place: storm.Place, branch: str | None, ids: Sequence[int]) -> int:
    uri = place.location.branch_uri(branch)
    return int(lance.write_dataset(storm.table_of(ids), uri, mode="append", storage_options=place.storage).version)


def _write(place: storm.Place, ids: Sequence[int]) -> dict[str, Any]:
    options = {"path": place.uri, **{f"storage.{key}": value for key, value in place.storage.items()}}
    job = begin(plan_write(options, storm.SCHEMA, overwrite=False))
    return {"version": finish(job, write_rows(job, storm.table_of(ids).to_batches()))}


def delete(worker: storm.Worker) -> None:
    """Deletes rows of any worker, through a version that gets old."""
    done = False
    while worker.goes_on(done):
        with worker.job():
            dataset = storm.opened(worker.place)
            there = dataset.to_table(columns=["id"])["id"].to_pylist()
            ids = worker.chance.sample(there, min(len(there) // 2, worker.chance.randint(1, 12 + 10 * _excess(there))))
            worker.hesitate()

            def run(dataset: Any = dataset, ids: Sequence[int] = ids) -> dict[str, Any]:
                return {"read": dataset.version, "told": dataset.delete(among(ids)), "version": dataset.version}

            entry = worker.attempt("delete", run, deleted=ids)
        done = done or entry.outcome == OK
        worker.rest(0.2)


def _excess(rows: Sequence[int]) -> int:
    return max(0, len(rows) - storm.ENOUGH) // 100


def among(ids: Sequence[int]) -> str:
    return f"id in ({', '.join(map(str, ids)) or 'null'})"


def compact(worker: storm.Worker) -> None:
    done = False
    while worker.goes_on(done):
        with worker.job():
            dataset = storm.opened(worker.place)
            target = worker.chance.choice([100, 1_000, 1_000_000])
            worker.hesitate()

            def run(dataset: Any = dataset, target: int = target) -> dict[str, Any]:
                read = dataset.version
                metrics = dataset.optimize.compact_files(target_rows_per_fragment=target)
                return {"read": read, "version": dataset.version, "fragments": metrics.fragments_removed}

            entry = worker.attempt("compact", run)
        done = done or entry.facts.get("fragments", 0) > 0
        worker.rest(0.4)


def branch_and_merge(worker: storm.Worker) -> None:
    """Makes a branch, changes it, merges it once or twice, and drops it; one is left at the end."""
    number, done = 0, False
    while worker.goes_on(done):
        name = f"exp/{worker.name}-{number}"
        done = _use_branch(worker, name) or done
        worker.attempt("drop branch", partial(_drop, worker.place, name))
        number += 1
        worker.rest(0.1)
    name = f"exp/{worker.name}-last"
    _use_branch(worker, name)
    rows = storm.opened(worker.place, name).to_table(columns=["id"])["id"].to_pylist()
    worker.log.add("leave branch", OK, time.time(), facts={"name": name, "rows": storm.digest(rows)})


def _use_branch(worker: storm.Worker, name: str) -> bool:
    """Whether any of its merges was done."""
    place, merges = worker.place, []
    added: list[int] = []
    deleted: list[int] = []
    with worker.job():
        entry = worker.attempt("create branch", lambda: _create(place, name))
    for _ in range(worker.chance.choice([1, 1, 2])):
        if entry.outcome == UNKNOWN:
            break
        with worker.job():
            own, others = _change(worker, name)
            added, deleted = added + own, deleted + others
            entry = worker.attempt("merge", lambda: _merge(place, name), added=added, deleted=deleted)
        merges.append(entry.outcome)
        if entry.outcome == OK:
            added, deleted = [], []  # else the next merge takes these in as well
    return OK in merges


def _create(place: storm.Place, name: str) -> dict[str, Any]:
    return {"name": name, "from": create_branch(place.location, name, RefSpec()).parent_version}


def _drop(place: storm.Place, name: str) -> dict[str, Any]:
    delete_branch(place.location, name)
    return {"name": name}


def _change(worker: storm.Worker, name: str) -> tuple[list[int], list[int]]:
    """Append to a branch and delete from it, which no other process should disturb."""
    place, own = worker.place, worker.fresh(6)
    there = storm.opened(place, name).to_table(columns=["id"])["id"].to_pylist()
    others = worker.chance.sample(there, worker.chance.choice([0, 0, 1, 2])) if len(there) > 9 else []

    def change() -> dict[str, Any]:
        version = _append_to(place, name, own)
        if others:
            storm.opened(place, name).delete(among(others))
        return {"name": name, "version": version, "+": own, "-": others}

    worker.attempt("change branch", change)
    return own, others


def _merge(place: storm.Place, name: str) -> dict[str, Any]:
    result = merge(place.location, pin_latest(place.location, name), None, MergeOptions(), LocalRunner())
    return {"name": name, "version": result.version, "base": result.base}


def tag(worker: storm.Worker) -> None:
    """Creates, moves and deletes tags on versions that were the newest a moment ago."""
    there: list[str] = []
    done: set[str] = set()
    while worker.goes_on(len(done) == 3):
        name = worker.chance.choice(storm.TAGS)
        action = "create tag" if name not in there else worker.chance.choice(["move tag", "move tag", "delete tag"])
        with worker.job():
            dataset = storm.opened(worker.place)
            facts = {"name": name, "version": dataset.version, "rows": ""}
            if action != "delete tag":
                facts["rows"] = storm.digest(dataset.to_table(columns=["id"])["id"].to_pylist())
            entry = worker.attempt(action, partial(_tag, worker.place, action, facts))
        if entry.outcome == OK:
            done.add(action)
            there = [other for other in there if other != name] + ([] if action == "delete tag" else [name])
        worker.rest(0.2)


def _tag(place: storm.Place, action: str, facts: dict[str, Any]) -> dict[str, Any]:
    target = RefSpec(version=facts["version"])
    if action == "delete tag":
        delete_tag(place.location, facts["name"])
    elif action == "move tag":
        move_tag(place.location, facts["name"], target)
    else:
        create_tag(place.location, facts["name"], target)
    return facts


def read(worker: storm.Worker) -> None:
    """Reads the newest version in full, as it gets old."""
    done = False
    while worker.goes_on(done):
        with worker.job():
            entry = worker.attempt("read", lambda: _read(worker))
        done = done or entry.outcome == OK
        worker.rest(0.2)


def _read(worker: storm.Worker) -> dict[str, Any]:
    dataset = storm.opened(worker.place)
    worker.hesitate()
    rows = dataset.to_table()
    ids = rows["id"].to_pylist()
    if len(set(ids)) < len(ids) or rows["v"].to_pylist() != [storm.value_of(key) for key in ids]:
        raise ValueError(f"Version {dataset.version} has rows twice, or values that no writer wrote.")
    return {"version": dataset.version, "rows": len(ids)}


def clean(worker: storm.Worker) -> None:
    """Removes all versions but the newest, and every file that none names, that no job under way can need."""
    removed = False
    while worker.goes_on(removed):
        entry = worker.attempt("clean", lambda: _clean(worker.place))
        removed = removed or (entry.facts.get("versions", 0) > 0 and entry.facts.get("files", 0) > 0)
        worker.rest(0.2)


def _clean(place: storm.Place) -> dict[str, Any]:
    now = time.time_ns()
    since = min([now, *storm.under_way(place, storm.SINCE)])
    window = timedelta(seconds=(now - since) / 1e9 + place.margin)
    plan = plan_cleanup(
        place.location, storm.policy(commit_window=window, unverified_age=window), LocalRunner(), time.time_ns()
    )
    if plan.facts.created_ns - now > storm.LATE * 1e9:
        return {"late": True}  # this process stood still: jobs may be under way for longer than the window by now
    report = plan.apply()
    if not report.complete:
        raise RuntimeError(f"incomplete: {report}")
    versions = sum(counts["removed"] for counts in report.versions.values())
    return {"window": window.total_seconds(), "versions": versions, "files": report.count(DELETED)[0]}


Workers = tuple[tuple[Callable[[storm.Worker], None], str], ...]
"""What each process runs, and its name."""
WORKERS: Workers = (
    (append_by_pylance, "appender-a"),
    (append_by_us, "appender-b"),
    (delete, "deleter"),
    (compact, "compactor"),
    (branch_and_merge, "brancher-a"),
    (branch_and_merge, "brancher-b"),
    (tag, "tagger"),
    (read, "reader"),
    (clean, "cleaner"),
)
