"""``python -m benchmarks.growth``: how verbs grow with their work, in steps of ten; each step in a process of its own.

A verb's series ends with the first step that fails or takes longer than the limit. Lines are printed as they are
measured. Exponents are the slopes of the logarithm of CPU seconds against that of the work.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa

from benchmarks.cataloging.data import fill_v2, name_of, ours
from benchmarks.cleanup_cases import KEEP_LATEST
from benchmarks.cleanup_data import AGED, add_orphans
from benchmarks.cleanup_data import history as aged_history
from benchmarks.cleanup_s3 import memory_store, storage_options
from benchmarks.data import HOME, made_once, many_fragments
from benchmarks.merging.data import BRANCH
from benchmarks.merging.growth import append_commit
from benchmarks.merging.history import long_history
from benchmarks.peers import session
from benchmarks.upkeeping.data import branches, files, small_fragments
from lance_spark import LanceTable
from lance_spark.catalog.lookup import list_tables, locate_table
from lance_spark.core.table_options import ReadOptions
from lance_spark.scan.read import PinnedRead, plan_read, read_schema
from lance_spark.storage.resolving import resolve

Run = Callable[[], object]
_LEAST_SECONDS = 0.005
"""Steps that take less CPU time do not count for an exponent: they measure the clock."""


@dataclass(frozen=True)
class Place:
    """A dataset or catalog to work on: on disk, or in the object store."""

    uri: str
    storage: dict[str, str] | None = None

    @property
    def table(self) -> LanceTable:
        return LanceTable.for_path(self.uri, self.storage)


@dataclass(frozen=True)
class Verb:
    """What grows, how it should, what is worked on, and how to get ready for the work on it, which is returned."""

    unit: str
    should: str
    data: Callable[[int], str]
    act: Callable[[Place], Run]
    sizes: tuple[int, ...]
    writes: bool = False
    """Whether it needs a copy of the data."""
    at_store: bool = True
    """Whether its requests are counted; not where the dataset names its own place."""
    counts_requests_up_to: int = 100_000


def _steps(first: int, last: int) -> tuple[int, ...]:
    return tuple(10**power for power in range(round(math.log10(first)), round(math.log10(last)) + 1))


_ROW = pa.table({"id": pa.array([1], pa.int64()), "value": pa.array([1.0])})


def _open(place: Place) -> Run:
    return lambda: place.table.version


def _plan(place: Place) -> Run:
    """What the driver does for a read of all rows, until tasks could begin."""

    def run() -> object:
        table = place.table
        read = PinnedRead(table.location, resolve(table.location, table.ref), ReadOptions())
        return plan_read(read, read_schema(read), 2)

    return run


def _append(place: Place) -> Run:
    """A commit of ours is one of pylance's: only the resolution before it is ours."""
    return append_commit(place.uri, _ROW, place.storage)


def _branch(place: Place) -> Run:
    table = place.table
    return lambda: table.branches.create("new")


def _merge(place: Place) -> Run:
    """A branch with one appended fragment, into a main that did not move."""
    made = lance.dataset(place.uri, storage_options=place.storage).create_branch(BRANCH)
    lance.write_dataset(_ROW, made.uri, mode="append", storage_options=place.storage)
    table = place.table
    return lambda: table.branches.merge(BRANCH)


def _log(count: int | None) -> Callable[[Place], Run]:
    def act(place: Place) -> Run:
        table = place.table
        return lambda: str(table.log(count))

    return act


def _versions(count: int) -> str:
    return long_history(count, 1).uri


def _branches(count: int) -> str:
    return long_history(max(100, count), count).uri


def _aged(versions: int, orphans: int = 0) -> str:
    pristine = Path(aged_history(10, versions).pristine)
    if not orphans:
        return str(pristine)

    def make(home: Path) -> None:
        shutil.copytree(pristine, home, copy_function=os.link)
        add_orphans(str(home), orphans, AGED)

    target = HOME / f"growth-orphans-{orphans}"
    made_once(target, make)
    return str(target)


def _cleanup(place: Place) -> Run:
    if place.storage is None:
        moment = time.time() - AGED.total_seconds()
        for path in Path(place.uri).rglob("*"):
            os.utime(path, (moment, moment))
    table = place.table
    return lambda: table.cleanup(KEEP_LATEST).apply()


def _cleanup_planned(place: Place) -> Run:
    table = place.table
    return lambda: table.cleanup(KEEP_LATEST).report()


def _fsck(place: Place) -> Run:
    table = place.table

    def run() -> None:
        report = table.fsck()
        if report.findings:
            raise AssertionError(f"{len(report.findings)} findings in a sound dataset")

    return run


def _storage(place: Place) -> Run:
    table = place.table
    return lambda: str(table.storage())


def _rows(rows: int) -> str:
    """Keys and narrow vectors, with a BTREE."""

    def make(home: Path) -> None:
        random = np.random.default_rng(rows)
        for first in range(0, rows, 1_000_000):
            count = min(rows - first, 1_000_000)
            vectors = pa.array(random.random(count * _WIDTH, dtype=np.float32))
            ids = pa.array(np.arange(first, first + count))
            chunk = pa.table({"id": ids, "emb": pa.FixedSizeListArray.from_arrays(vectors, _WIDTH)})
            lance.write_dataset(chunk, str(home), mode="append" if first else "create")
        lance.dataset(str(home)).create_scalar_index("id", "BTREE")

    target = HOME / f"growth-rows-{rows}"
    made_once(target, make)
    return str(target)


_WIDTH = 8
"""Floats of a vector."""


def _look_up(place: Place) -> Run:
    table = place.table
    return lambda: table.count_rows("id = 5000")


def _index(place: Place) -> Run:
    table = place.table
    table.indexes.drop("id_idx")
    return lambda: table.indexes.create("id", "btree")


def _vector_index(place: Place) -> Run:
    table = place.table
    return lambda: table.indexes.create("emb", "ivf_flat", metric="l2", num_partitions=64)


def _on_spark(change: Callable[[LanceTable], object]) -> Callable[[Place], Run]:
    """Verbs that need a session; it is started before."""

    def act(place: Place) -> Run:
        table = LanceTable.for_path(place.uri, place.storage, spark=session())
        return lambda: change(table)

    return act


def _upsert(table: LanceTable) -> object:
    """A thousand rows by key, half of them new."""
    spark = session()
    size = table.count_rows()
    keys = spark.range(size - 500, size + 500)
    rows = keys.selectExpr("id", f"array_repeat(cast(0 as float), {_WIDTH}) emb")
    merge = table.merge(rows, on="id").when_matched_update_all().when_not_matched_insert_all()
    return merge.execute()


def _search(table: LanceTable) -> object:
    return table.search([0.5] * _WIDTH, k=10, columns=["id"]).collect()


def _optimize(place: Place) -> Run:
    table = place.table
    return lambda: table.optimize()


def _small(fragments: int) -> str:
    return small_fragments(fragments).pristine


def _files(count: int) -> str:
    return files(count).pristine


def _many_branches(count: int) -> str:
    """Branches name their parent's files by the path where they were made: this one."""
    kept = branches(count)
    shutil.rmtree(kept.place, ignore_errors=True)
    shutil.copytree(kept.pristine, kept.place, copy_function=os.link)
    return str(kept.place)


def _followed(count: int) -> str:
    """A clone that follows a dataset with this many branches."""
    target = HOME / f"growth-followed-{count}"
    shutil.rmtree(target, ignore_errors=True)
    LanceTable.for_path(_many_branches(count)).clone(str(target))
    return str(target)


def _push(place: Place) -> Run:
    """With nothing to push: what it looks at is what every push looks at."""
    table = place.table
    return lambda: table.remotes.push()


def _catalog(tables: int) -> str:
    def make(home: Path) -> None:
        fill_v2(home, tables)

    target = HOME / f"growth-catalog-{tables}"
    made_once(target, make)
    return str(target)


def _list(place: Place) -> Run:
    catalog = ours(place.uri, "v2", place.storage)
    return lambda: list_tables(catalog)


def _locate(place: Place) -> Run:
    catalog = ours(place.uri, "v2", place.storage)
    return lambda: locate_table(catalog, name_of(7))


_FRAGMENTS, _ROWS, _TABLES = _steps(100, 1_000_000), _steps(10_000, 10_000_000), (*_steps(10, 10_000), 50_000)
VERBS = {
    "open": Verb("fragments", "O(manifest)", many_fragments, _open, _FRAGMENTS),
    "plan a scan": Verb("fragments", "O(manifest)", many_fragments, _plan, _FRAGMENTS),
    "append": Verb("fragments", "O(manifest)", many_fragments, _append, _FRAGMENTS, True),
    "branch": Verb("fragments", "O(manifest)", many_fragments, _branch, _FRAGMENTS, True),
    "branch, among others": Verb("branches", "O(1)", _branches, _branch, _steps(10, 10_000), True),
    "branch merge": Verb("fragments", "O(manifest)", many_fragments, _merge, _FRAGMENTS, True),
    "log of 30": Verb("versions", "O(shown), one listing", _versions, _log(30), _steps(100, 100_000)),
    "log of all": Verb("versions", "O(versions)", _versions, _log(None), _steps(100, 100_000)),
    "cleanup, versions": Verb("versions", "O(versions)", _aged, _cleanup, _steps(100, 10_000), True),
    "cleanup, files": Verb(
        "files", "O(files)", lambda count: _aged(10, count), _cleanup, _steps(1_000, 1_000_000), True, False
    ),
    "fsck": Verb("files", "O(files)", _files, _fsck, _steps(1_000, 1_000_000), counts_requests_up_to=10_000),
    "cleanup, branches": Verb(
        "branches", "O(branches)", _many_branches, _cleanup_planned, _steps(10, 10_000), at_store=False
    ),
    "fsck, branches": Verb("branches", "O(branches)", _many_branches, _fsck, _steps(10, 10_000), at_store=False),
    "storage": Verb("branches", "O(branches)", _many_branches, _storage, _steps(10, 10_000), at_store=False),
    "push, branches": Verb("branches", "O(branches)", _followed, _push, _steps(10, 1_000), at_store=False),
    "optimize": Verb("fragments", "O(bytes)", _small, _optimize, (10, 100, 1_000, 5_000), True, False),
    "look-up, BTREE": Verb("rows", "O(log n)", _rows, _look_up, _ROWS),
    "index, BTREE": Verb("rows", "O(n log n)", _rows, _index, _ROWS, True),
    "index, IVF": Verb("rows", "O(n)", _rows, _vector_index, _ROWS, True),
    "search, no index": Verb("rows", "O(n)", _rows, _on_spark(_search), _ROWS),
    "delete a row": Verb("rows", "O(log n)", _rows, _on_spark(lambda table: table.delete("id = 5000")), _ROWS, True),
    "upsert 1,000 rows": Verb("rows", "O(delta log n)", _rows, _on_spark(_upsert), _ROWS, True),
    "catalog list": Verb("tables", "O(tables)", _catalog, _list, _TABLES),
    "catalog look-up": Verb("tables", "O(log n)", _catalog, _locate, _TABLES),
}


def main() -> None:
    arguments = _arguments()
    if arguments.step:
        print(json.dumps(_measured(VERBS[arguments.step], int(arguments.size), arguments.limit)))
        return
    print("| verb | work | s | CPU s | peak MiB | grown MiB | a task's MiB | requests | should be | exponent |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---|---:|", flush=True)
    for name, verb in VERBS.items():
        if not arguments.only or any(part in name for part in arguments.only):
            _series(name, verb, arguments.limit, arguments.largest)


def _series(name: str, verb: Verb, limit: int, largest: int) -> None:
    points: list[tuple[int, float]] = []
    for size in verb.sizes:
        if size > largest:
            return
        told = _in_a_process(name, size, limit)
        if isinstance(told, str):
            print(f"| {name} | {size:,} {verb.unit} | {told} | | | | | | {verb.should} | |", flush=True)
            return
        points.append((size, told["cpu"]))
        slope = exponent(points)
        cells = f"{told['seconds']:.3f} | {told['cpu']:.3f} | {told['peak']:,} | {told['grown']:,}"
        tasks, asked = ("" if told[key] is None else f"{told[key]:,}" for key in ("tasks", "requests"))
        last = f"{slope:.2f}" if slope is not None else ""
        print(f"| {name} | {size:,} {verb.unit} | {cells} | {tasks} | {asked} | {verb.should} | {last} |", flush=True)


def exponent(points: Sequence[tuple[int, float]]) -> float | None:
    """The slope of log(CPU seconds) against log(work), of the steps that are long enough; None for less than two."""
    logs = [(math.log(size), math.log(cpu)) for size, cpu in points if cpu >= _LEAST_SECONDS]
    if len(logs) < 2:
        return None
    mean_x, mean_y = (sum(values) / len(logs) for values in zip(*logs, strict=True))
    slope: float = sum((x - mean_x) * (y - mean_y) for x, y in logs) / sum((x - mean_x) ** 2 for x, _ in logs)
    return slope


def _in_a_process(name: str, size: int, limit: int) -> dict[str, Any] | str:
    command = [sys.executable, "-m", "benchmarks.growth", "--step", name, "--size", str(size), "--limit", str(limit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == -signal.SIGALRM:
        return f"more than {limit} s"
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        return f"FAILED: {lines[-1][:200]}"
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def _measured(verb: Verb, size: int, limit: int) -> dict[str, Any]:
    """Once on the smallest size, which imports what there is to import, and then once on the size."""
    with _worked_on(verb, verb.data(verb.sizes[0])) as place:
        verb.act(place)()
    data = verb.data(size)
    with _worked_on(verb, data) as place:
        run = verb.act(place)
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        before = _peak()
        started, worked = time.perf_counter(), _cpu_seconds()
        with _no_longer_than(limit):
            run()
        seconds, cpu, peak = time.perf_counter() - started, _cpu_seconds() - worked, _peak()
        tasks = _peak_of_tasks()
    requests = _requests(verb, data) if verb.at_store and size <= verb.counts_requests_up_to else None
    told = {"seconds": seconds, "cpu": cpu, "peak": peak, "grown": peak - before, "tasks": tasks}
    return {**told, "requests": requests}


@contextmanager
def _worked_on(verb: Verb, data: str) -> Iterator[Place]:
    """The data, or a copy of hard links that may be written to."""
    if not verb.writes:
        yield Place(data)
        return
    with tempfile.TemporaryDirectory(dir=HOME, prefix="growth-copy-") as directory:
        target = f"{directory}/table.lance"
        shutil.copytree(data, target, copy_function=os.link)
        yield Place(target)


def _requests(verb: Verb, data: str) -> int:
    """How many requests the same takes on an object store."""
    with memory_store(0) as store:
        store.load(data, ["table.lance"])
        run = verb.act(Place("s3://bench/table.lance", storage_options(store.slow)))
        store.requests()
        run()
        return sum(store.requests().values())


def _started() -> Iterator[tuple[Path, list[str]]]:
    """The processes that this one started and that have not ended, Spark's JVM and workers, with their ``stat``."""
    known = {os.getpid()}
    for path in sorted(Path("/proc").glob("[0-9]*"), key=lambda path: int(path.name)):
        with suppress(OSError):  # it has just ended
            fields = (path / "stat").read_text().rpartition(")")[2].split()
            if int(fields[1]) in known:
                known.add(int(path.name))
                yield path, fields


def _cpu_seconds() -> float:
    """Of this process, and of those that it started and that have not ended."""
    ticks = sum(int(fields[11]) + int(fields[12]) for _, fields in _started())
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


def _peak_of_tasks() -> int | None:
    """MiB of the largest of Spark's Python workers, which run the tasks; None without any."""
    found = []
    for path, _ in _started():
        with suppress(OSError):
            if "python" in (path / "comm").read_text():
                found.append(_peak(path / "status"))
    return max(found, default=None)


@contextmanager
def _no_longer_than(limit: int) -> Iterator[None]:
    """The signal ends the process also while native code runs."""
    signal.alarm(limit)
    yield
    signal.alarm(0)


def _peak(status_of: Path = Path("/proc/self/status")) -> int:
    """MiB."""
    with status_of.open() as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) // 1024


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="verbs with NAME in the name")
    parser.add_argument("--limit", type=int, default=60, help="seconds that a step may take (default 60)")
    parser.add_argument("--largest", type=int, default=10**9, metavar="N", help="sizes up to N")
    parser.add_argument("--step", choices=tuple(VERBS), help=argparse.SUPPRESS)
    parser.add_argument("--size", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
