"""More workers for the night's everything-at-once run: our verbs that change rows and files beside those of pylance."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from lance_spark import LanceCatalog, LanceTable
from lance_spark.engine.local import LocalRunner
from lance_spark.maintenance.report import MaintenanceReport
from lance_spark.rows.rows import delete_where
from lance_spark.streams.sink import commit_stream, plan_stream
from lance_spark.tables.write import finish
from lance_spark.write.data_files import write_rows
from support.branched_lakes import begin_table, delete_row
from support.branched_lakes import ids as ids_at
from support.storm import SCHEMA, Place, Worker, opened, table_of
from support.storm_log import OK, Entry
from support.storm_workers import Workers, among
from support.stream_sources import Query

LEDGER = "ledger"
"""The second table of the lake, which has what was published and nothing else."""
WINDOW = "900s"
"""Longer than any job takes, even an upsert on Spark: this cleanup does not look at what is under way."""
POLICY = {
    "fsck": {"every": "0s"},
    "compaction": {"small_fragments": 4, "target_rows": 1_000},
    "cleanup": {"older_than": "0s", "commit_window": WINDOW, "unverified_age": WINDOW},
}


def _table(place: Place, spark: Any = None) -> LanceTable:
    return LanceTable.for_path(place.uri, place.storage, spark=spark)


def _repeated(worker: Worker, longest: float, step: Callable[[], bool]) -> None:
    """Until the end; longer where no step has done what the worker is there for."""
    done = False
    while worker.goes_on(done):
        done = step() or done
        worker.rest(longest)


def delete_by_us(worker: Worker) -> None:
    """Deletes rows that were there a moment ago; concurrent commits are kept."""

    def step() -> bool:
        with worker.job():
            there = opened(worker.place).to_table(columns=["id"])["id"].to_pylist()
            ids = worker.chance.sample(there, min(len(there) // 2, worker.chance.randint(1, 6)))
            worker.hesitate()
            entry = worker.attempt("delete by us", partial(_delete, worker.place, among(ids)), deleted=ids)
        return entry.outcome == OK

    _repeated(worker, 0.3, step)


def _delete(place: Place, predicate: str) -> dict[str, Any]:
    result = delete_where(place.location, None, predicate, LocalRunner())
    return {"version": str(result.version), "told": result.rows}


def sort(worker: Worker) -> None:
    """Puts all rows into another order."""

    def step() -> bool:
        with worker.job():
            entry = worker.attempt("sort", lambda: _sort(worker.place, worker.chance.choice(["v", "id"])))
        return bool(entry.facts.get("fragments"))

    _repeated(worker, 2, step)


def _sort(place: Place, column: str) -> dict[str, Any]:
    result = _table(place).optimize(sort_by=column, target_rows=500, run_on="local")
    return {"fragments": result.fragments_removed, "conflicts": len(result.conflicts)}


def index(worker: Worker) -> None:
    """Builds a BTREE, brings it up to date and drops it; in between, it has to find what a scan finds."""
    done: set[str] = set()

    def step() -> bool:
        indexes = _table(worker.place).indexes
        with worker.job():
            there = "id_idx" in indexes
            action = worker.chance.choice(["optimize index"] * 3 + ["drop index"]) if there else "create index"
            entry = worker.attempt(action, partial(_index, worker.place, action))
        if entry.outcome == OK:
            done.add(action)
        with worker.job():
            worker.attempt("look up", lambda: _look_up(worker))
        return len(done) == 3

    _repeated(worker, 0.3, step)


def _index(place: Place, action: str) -> dict[str, Any]:
    indexes = _table(place).indexes
    if action == "create index":
        return {"rows": indexes.create("id", run_on="local").rows}
    if action == "drop index":
        indexes.drop("id_idx")
        return {}
    return {"rows": sum(result.rows for result in indexes.optimize(run_on="local"))}


def _look_up(worker: Worker) -> dict[str, Any]:
    dataset = opened(worker.place)
    there = dataset.to_table(columns=["id"])["id"].to_pylist()
    wanted = [*worker.chance.sample(there, min(5, len(there))), -1]
    found = dataset.to_table(columns=["id"], filter=among(wanted))["id"].to_pylist()
    if sorted(found) != sorted(wanted[:-1]):
        raise ValueError(f"Version {dataset.version} has {wanted[:-1]}, but the index finds {found}.")
    return {"version": dataset.version, "rows": len(found)}


def stream_in(worker: Worker) -> None:
    """The batches of a query, which runs each again until it is told that it is done, and at times once more."""
    checkpoint = Path(worker.place.notes, "stream-in")
    checkpoint.mkdir()
    Path(checkpoint, "metadata").write_text(json.dumps({"id": "storm"}))
    number, ids = 0, worker.fresh(8)

    def step() -> bool:
        nonlocal number, ids
        send = partial(_batch, worker.place, str(checkpoint), number, ids)
        with worker.job():
            entry = worker.attempt("batch", send, added=ids)
        if entry.outcome != OK:
            return False
        if worker.chance.random() < 0.3:
            with worker.job():
                worker.attempt("batch again", send)
        number, ids = number + 1, worker.fresh(8)
        return True

    _repeated(worker, 0.3, step)


def _batch(place: Place, checkpoint: str, number: int, ids: list[int]) -> dict[str, Any]:
    options = {"path": place.uri, "checkpointLocation": checkpoint, "optimize_every": "7"}
    options |= {f"storage.{key}": value for key, value in place.storage.items()}
    stream = plan_stream(options, SCHEMA, False)
    commit_stream(stream, write_rows(stream.job, table_of(ids).to_batches()), number)
    return {"batch": number}


def stream_out(worker: Worker) -> None:
    """Reads what is appended, batch by batch, and writes down the rows: each once."""
    storage = {f"storage.{key}": value for key, value in worker.place.storage.items()}
    query = Query(worker.place.uri, query_id="storm-reader", skip_change_commits=True, **storage)
    committed = 0

    def batch() -> dict[str, Any]:
        query.restart()
        if committed == len(query.planned) and not query.plan():
            return {"rows": []}
        rows = [row["id"] for row in query.run()]
        query.commit()
        return {"rows": rows}

    def step() -> bool:
        nonlocal committed
        with worker.job():
            entry = worker.attempt("stream", batch)
        if entry.outcome == OK:
            committed = len(query.planned)
        return bool(entry.facts.get("rows"))

    _repeated(worker, 0.3, step)


def maintain(worker: Worker) -> None:
    """Every step of maintenance: nothing may be called corrupt, and nothing fail."""

    def step() -> bool:
        with worker.job():
            run = lambda: _maintained(_table(worker.place).maintain(POLICY, "local").apply())  # noqa: E731
            entry = worker.attempt("maintain", run)
        return entry.outcome == OK

    _repeated(worker, 5, step)


def _maintained(report: MaintenanceReport) -> dict[str, Any]:
    if not report.complete:
        raise RuntimeError(f"maintenance was not complete: {report}")
    (table,) = report.tables
    return {step.name: step.state for step in table.steps}


def upsert(worker: Worker) -> None:
    """Merges rows by key on Spark: those of a moment ago get their values again, and new ones come."""
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()

    def step() -> bool:
        with worker.job():
            there = opened(worker.place).to_table(columns=["id"])["id"].to_pylist()
            own = worker.fresh(6)
            # Deletions and sorts hit most of these before they are committed; with none, only new rows come.
            ids = [*worker.chance.sample(there, min(worker.chance.randint(0, 3), len(there))), *own]
            rows = spark.createDataFrame(table_of(ids))
            change = partial(_upsert, _table(worker.place, spark), rows, own[0])
            entry = worker.attempt("upsert", change, added=own)
        return entry.outcome == OK

    _repeated(worker, 0.5, step)
    spark.stop()


def _upsert(table: LanceTable, rows: Any, first: int) -> dict[str, Any]:
    merge = table.merge(rows, on="id").when_matched_update_all()
    # A row that was deleted since is not there to be matched. It must not come back as a new one.
    result = merge.when_not_matched_insert_all(f"source.id >= {first}").execute()
    return {"inserted": result.rows_inserted, "updated": result.rows_updated}


def publish(worker: Worker) -> None:
    """Publishes branches of a lake with two tables, this one and one of its own: both get the rows, or none does."""
    lake, number = _lake(worker.place), 0
    lake.migrate()
    _write(lake, LEDGER, [])

    def step() -> bool:
        nonlocal number
        number += 1
        name, ids = f"etl/{number}", worker.fresh(6)
        with worker.job():
            there = opened(worker.place).to_table(columns=["id"])["id"].to_pylist()
            others = worker.chance.sample(there, worker.chance.choice([0, 0, 1])) if len(there) > 9 else []
            change = partial(_publish, worker, name, ids, others)
            entry = worker.attempt("publish", change, added=ids, deleted=others)
            worker.attempt("delete branch of the lake", partial(_forget, lake, name))
        return entry.outcome == OK

    _repeated(worker, 0.5, step)


def _publish(worker: Worker, name: str, ids: list[int], deleted: list[int]) -> dict[str, Any]:
    lake, own = _lake(worker.place), Path(worker.place.uri).stem
    lake.branches.create(name)
    branch = lake.checkout(branch=name)
    _write(branch, own, ids)
    _write(branch, LEDGER, ids)
    for key in deleted:
        delete_row(branch, own, key)
    worker.hesitate()

    def audit(merged: LanceCatalog) -> bool:
        return all(set(ids) <= set(ids_at(merged, table)) for table in (own, LEDGER))

    found = lake.branches.merge(name, audit, run_on="local")
    return {"branch": name, "state": found.state}


def _forget(lake: LanceCatalog, name: str) -> dict[str, Any]:
    lake.branches.delete(name, purge=True)
    return {"branch": name}


def _lake(place: Place) -> LanceCatalog:
    return LanceCatalog(str(Path(place.uri).parent), place.storage)


def _write(lake: LanceCatalog, name: str, ids: list[int]) -> None:
    """Append rows on the branch of the lake that is checked out."""
    finish(*begin_table(lake, name, table_of(ids)))


MORE_WORKERS: Workers = (
    (delete_by_us, "deleter-b"),
    (sort, "sorter"),
    (index, "indexer"),
    (stream_in, "stream-in"),
    (stream_out, "stream-out"),
    (maintain, "maintainer"),
    (upsert, "upserter"),
    (publish, "publisher"),
)
MORE_THINGS = (
    "delete by us",
    "sort",
    "create index",
    "optimize index",
    "drop index",
    "look up",
    "batch",
    "batch again",
    "stream",
    "maintain",
    "upsert",
    "publish",
)


def streamed_wrong(entries: Iterable[Entry]) -> list[str]:
    """What is wrong with the rows that the query read: each appended row once, up to the last batch."""
    entries = list(entries)
    batches = [entry for entry in entries if entry.action == "stream" and entry.outcome == OK]
    rows = [key for entry in batches for key in entry.facts["rows"]]
    deleted = {key for entry in entries for key in entry.deleted}
    last = max((entry.began for entry in batches), default=0.0)
    appends = [entry for entry in entries if entry.action in ("append", "batch") and entry.outcome == OK]
    missing = {key for entry in appends if entry.ended < last for key in entry.added} - set(rows) - deleted
    twice = len(rows) - len(set(rows))
    wrong = [f"the stream read {twice} rows twice"] if twice else []
    return [*wrong, f"the stream missed {sorted(missing)[:20]}"] if missing else wrong


def published_wrong(place: Place, entries: Iterable[Entry]) -> list[str]:
    """What is wrong with the second table of the lake: it has the rows of each publish once, and no other."""
    publishes = [entry for entry in entries if entry.action == "publish"]
    if not publishes:
        return []
    expected = sorted(key for entry in publishes if entry.outcome == OK for key in entry.added)
    there = ids_at(_lake(place), LEDGER)
    more, less = sorted((Counter(there) - Counter(expected)).elements()), sorted({*expected} - {*there})
    return [f"the ledger has {more[:20]} more, and lacks {less[:20]}"] if more or less else []
