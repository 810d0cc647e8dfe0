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
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

from benchmarks.cataloging.data import fill_v2, name_of, ours
from benchmarks.cleanup_cases import ours as clean_up
from benchmarks.cleanup_data import AGED, add_orphans
from benchmarks.cleanup_data import history as aged_history
from benchmarks.data import HOME, made_once, many_fragments
from benchmarks.merging.data import BRANCH
from benchmarks.merging.growth import append_commit
from benchmarks.merging.growth import ours as merging
from benchmarks.merging.history import long_history
from benchmarks.upkeeping.data import branches, files
from lance_spark import LanceTable
from lance_spark.catalog.lookup import list_tables, locate_table

Run = Callable[[], object]
_LEAST_SECONDS = 0.005
"""Steps that take less CPU time do not count for an exponent: they measure the clock."""


@dataclass(frozen=True)
class Verb:
    """What grows, how it should, and how to get ready for a step: its work is what ``prepare`` returns."""

    unit: str
    should: str
    prepare: Callable[[int], Run]
    sizes: tuple[int, ...]


def _steps(first: int, last: int) -> tuple[int, ...]:
    return tuple(10**power for power in range(round(math.log10(first)), round(math.log10(last)) + 1))


def _scratch(pristine: str) -> str:
    """A copy, of hard links, that may be written to."""
    target = f"{HOME}/growth-copy-{os.getpid()}/table.lance"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(pristine, target, copy_function=os.link)
    return target


def _open(fragments: int) -> Run:
    uri = many_fragments(fragments)
    return lambda: LanceTable.for_path(uri).version


def _append(fragments: int) -> Run:
    """A commit of ours is one of pylance's: only the resolution before it is ours."""
    uri = _scratch(many_fragments(fragments))
    return append_commit(uri, pa.table({"id": pa.array([1], pa.int64()), "value": pa.array([1.0])}))


def _branch(fragments: int) -> Run:
    table = LanceTable.for_path(_scratch(many_fragments(fragments)))
    return lambda: table.branches.create("new")


def _branch_among(count: int) -> Run:
    table = LanceTable.for_path(_scratch(long_history(max(100, count), count).uri))
    return lambda: table.branches.create("new")


def _merge(fragments: int) -> Run:
    """A branch with one appended fragment, into a main that did not move."""
    uri = _scratch(many_fragments(fragments))
    rows = pa.table({"id": pa.array([1], pa.int64()), "value": pa.array([1.0])})
    lance.write_dataset(rows, lance.dataset(uri).create_branch(BRANCH).uri, mode="append")
    return merging(uri)


def _log(count: int | None) -> Callable[[int], Run]:
    def prepare(versions: int) -> Run:
        table = LanceTable.for_path(long_history(versions, 1).uri)
        return lambda: str(table.log(count))

    return prepare


def _cleanup_versions(versions: int) -> Run:
    uri = _scratch(str(aged_history(10, versions).pristine))
    _age(uri)
    return lambda: clean_up(uri)


def _cleanup_files(count: int) -> Run:
    uri = _scratch(str(aged_history(10, 10).pristine))
    _age(uri)
    add_orphans(uri, count, AGED)
    return lambda: clean_up(uri)


def _age(uri: str) -> None:
    moment = time.time() - AGED.total_seconds()
    for path in Path(uri).rglob("*"):
        os.utime(path, (moment, moment))


def _fsck(count: int) -> Run:
    table = LanceTable.for_path(files(count).pristine)

    def run() -> None:
        report = table.fsck()
        if report.findings:
            raise AssertionError(f"{len(report.findings)} findings in a sound dataset")

    return run


def _storage(count: int) -> Run:
    kept = branches(count)
    # Branches name their parent's files by the path where they were made.
    shutil.rmtree(kept.place, ignore_errors=True)
    shutil.copytree(kept.pristine, kept.place, copy_function=os.link)
    table = LanceTable.for_path(str(kept.place))
    return lambda: str(table.storage())


def _rows(rows: int) -> str:
    def make(home: Path) -> None:
        for first in range(0, rows, 1_000_000):
            ids = pa.array(range(first, min(rows, first + 1_000_000)), pa.int64())
            lance.write_dataset(pa.table({"id": ids}), str(home), mode="append" if first else "create")
        lance.dataset(str(home)).create_scalar_index("id", "BTREE")

    target = HOME / f"growth-rows-{rows}"
    made_once(target, make)
    return str(target)


def _look_up(rows: int) -> Run:
    table = LanceTable.for_path(_rows(rows))
    return lambda: table.count_rows(f"id = {rows // 2}")


def _index(rows: int) -> Run:
    table = LanceTable.for_path(_scratch(_rows(rows)))
    table.indexes.drop("id_idx")
    return lambda: table.indexes.create("id", "btree")


def _catalog(tables: int) -> str:
    def make(home: Path) -> None:
        fill_v2(home, tables)

    target = HOME / f"growth-catalog-{tables}"
    made_once(target, make)
    return str(target)


def _list(tables: int) -> Run:
    catalog = ours(_catalog(tables), "v2")
    return lambda: list_tables(catalog)


def _locate(tables: int) -> Run:
    catalog = ours(_catalog(tables), "v2")
    return lambda: locate_table(catalog, name_of(tables // 2))


VERBS = {
    "open": Verb("fragments", "O(manifest)", _open, _steps(100, 1_000_000)),
    "append": Verb("fragments", "O(manifest)", _append, _steps(100, 1_000_000)),
    "branch": Verb("fragments", "O(manifest)", _branch, _steps(100, 1_000_000)),
    "branch, among others": Verb("branches", "O(1)", _branch_among, _steps(10, 1_000)),
    "branch merge": Verb("fragments", "O(manifest)", _merge, _steps(100, 1_000_000)),
    "log of 30": Verb("versions", "O(shown), one listing", _log(30), _steps(100, 10_000)),
    "log of all": Verb("versions", "O(versions)", _log(None), _steps(100, 10_000)),
    "cleanup, versions": Verb("versions", "O(versions)", _cleanup_versions, _steps(100, 10_000)),
    "cleanup, files": Verb("files", "O(files)", _cleanup_files, _steps(1_000, 1_000_000)),
    "fsck": Verb("files", "O(files)", _fsck, _steps(1_000, 1_000_000)),
    "storage": Verb("branches", "O(branches)", _storage, _steps(10, 1_000)),
    "look-up, BTREE": Verb("rows", "O(log n)", _look_up, _steps(10_000, 10_000_000)),
    "index, BTREE": Verb("rows", "O(n log n)", _index, _steps(10_000, 10_000_000)),
    "catalog list": Verb("tables", "O(tables)", _list, (*_steps(10, 10_000), 50_000)),
    "catalog look-up": Verb("tables", "O(log n)", _locate, (*_steps(10, 10_000), 50_000)),
}


def main() -> None:
    arguments = _arguments()
    if arguments.step:
        print(json.dumps(_measured(VERBS[arguments.step], int(arguments.size), arguments.limit)))
        return
    print("| verb | work | s | CPU s | peak MiB | of it the verb's | should be | exponent |")
    print("|---|---:|---:|---:|---:|---:|---|---:|", flush=True)
    for name, verb in VERBS.items():
        if not arguments.only or any(part in name for part in arguments.only):
            _series(name, verb, arguments.limit)


def _series(name: str, verb: Verb, limit: int) -> None:
    points: list[tuple[int, float]] = []
    for size in verb.sizes:
        told = _in_a_process(name, size, limit)
        if isinstance(told, str):
            print(f"| {name} | {size:,} {verb.unit} | {told} | | | | {verb.should} | |", flush=True)
            return
        points.append((size, told["cpu"]))
        slope = exponent(points)
        cells = f"{told['seconds']:.3f} | {told['cpu']:.3f} | {told['peak']:,} | {told['grown']:,}"
        last = f"{slope:.2f}" if slope is not None else ""
        print(f"| {name} | {size:,} {verb.unit} | {cells} | {verb.should} | {last} |", flush=True)


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
    verb.prepare(verb.sizes[0])()
    run = verb.prepare(size)
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = _peak()
    started, worked = time.perf_counter(), time.process_time()
    with _no_longer_than(limit):
        run()
    seconds, cpu, peak = time.perf_counter() - started, time.process_time() - worked, _peak()
    return {"seconds": seconds, "cpu": cpu, "peak": peak, "grown": peak - before}


@contextmanager
def _no_longer_than(limit: int) -> Iterator[None]:
    """The signal ends the process also while native code runs."""
    signal.alarm(limit)
    yield
    signal.alarm(0)


def _peak() -> int:
    """MiB."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) // 1024


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="verbs with NAME in the name")
    parser.add_argument("--limit", type=int, default=60, help="seconds that a step may take (default 60)")
    parser.add_argument("--step", choices=tuple(VERBS), help=argparse.SUPPRESS)
    parser.add_argument("--size", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
