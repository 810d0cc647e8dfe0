"""``python -m benchmarks.lake``: branches of a whole lake, as the number of tables grows; prints tables.

Each lake has tables of three rows. On its branch, one row is appended to some tables; then the branch is merged. The
window is the time between the first and the last commit to main of a merge: in it, a plain reader can see some tables
new and some old. On the object store it is also given in requests in a row: its seconds by those of one request.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import lance
import pyarrow as pa

from benchmarks import report
from benchmarks.cataloging.data import name_of, scratch
from benchmarks.cleanup_s3 import DELAY, memory_store, storage_options
from benchmarks.data import HOME
from lance_spark import LanceCatalog
from lance_spark.catalog import manifest_commits
from lance_spark.catalog.entry_rules import AddTables
from lance_spark.catalog.lake import table_branch
from lance_spark.catalog.name_rules import identify_table

PLACES = ("local", "s3")
SMALL = 100
"""How many tables change in the middle of the series."""
BRANCH, FEW, TAG = "etl/nightly", "etl/few", "2026-11-25"
_THREADS = 32
_ROW = pa.table({"id": pa.array([9], pa.int64())})


@dataclass(frozen=True)
class Step:
    """What one verb cost on one lake."""

    place: str
    tables: int
    changed: int
    verb: str
    seconds: float
    cpu_seconds: float
    requests: dict[str, int]
    window: float | None = None
    """Seconds."""


@dataclass(frozen=True)
class Lake:
    """A lake and how to ask its store; ``direct`` is the way to it that takes no time and is not counted."""

    place: str
    lake: LanceCatalog
    direct: LanceCatalog
    requests: Callable[[], dict[str, int]]
    commits: Callable[[], list[float]]
    """When main of each table was changed since the last time, in seconds."""


@contextmanager
def local_lake(tables: int) -> Iterator[Lake]:
    with scratch() as root:
        _fill(root, tables)
        lake = LanceCatalog(str(root), mode="v2")
        begun = time.time()

        def commits() -> list[float]:
            manifests = (path.stat().st_mtime for path in root.glob("*.lance/_versions/*.manifest"))
            return [moment for moment in manifests if moment > begun]

        yield Lake("local", lake, lake, dict, commits)


@contextmanager
def distant_lake(tables: int) -> Iterator[Lake]:
    with scratch() as root, memory_store() as store:
        _fill(root, 0, tables)
        store.load(str(root / "__manifest"), ["lake/__manifest"])
        store.load(str(_template(root)), [f"lake/{name_of(number)}.lance" for number in range(tables)])
        slow, direct = (
            LanceCatalog("s3://bench/lake", storage_options(end), mode="v2") for end in (store.slow, store.direct)
        )

        def commits() -> list[float]:
            return [moment for moment, key in store.commits() if key.count("/") == 3 and ".lance/" in key]

        yield Lake("S3", slow, direct, store.requests, commits)


def _fill(root: Path, directories: int, rows: int | None = None) -> None:
    """The catalog's rows, and directories of tables, of hard links."""
    count = directories if rows is None else rows
    catalog = LanceCatalog(str(root), mode="v2").catalog
    manifest_commits.apply(catalog.manifest, AddTables({name_of(n): f"{name_of(n)}.lance" for n in range(count)}))
    template = _template(root)
    for number in range(directories):
        shutil.copytree(template, root / f"{name_of(number)}.lance", copy_function=os.link)


def _template(root: Path) -> Path:
    path = root / "template"
    if not path.exists():
        lance.write_dataset(pa.table({"id": pa.array(range(3), pa.int64())}), str(path))
    return path


def measured(there: Lake, tables: int, changed: int) -> Iterator[Step]:
    """Every verb once, on a new lake."""
    few = [name_of(number) for number in range(min(SMALL, tables) // 10 or 1)]
    lake, branches = there.lake, there.lake.branches

    def step(verb: str, work: Callable[[], object], windowed: bool = False) -> Step:
        print(f"measuring: {there.place}, {tables:,} tables, {changed:,} changed: {verb}", file=sys.stderr, flush=True)
        there.requests()
        there.commits()
        start, cpu = time.perf_counter(), time.process_time()
        work()
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        requests, commits = there.requests(), sorted(there.commits())
        window = commits[-1] - commits[0] if windowed else None
        return Step(there.place, tables, changed, verb, seconds, cpu, requests, window)

    yield step(f"create, tables= {len(few)}", lambda: branches.create(FEW, tables=few))
    branches.delete(FEW, purge=True)
    yield step("create", lambda: branches.create(BRANCH))
    _append(there.direct, changed)
    yield step("diff", lambda: _check(len(branches.diff(BRANCH).changes), changed))
    yield step("merge --dry-run", lambda: branches.merge(BRANCH, dry_run=True))
    yield step("merge", lambda: branches.merge(BRANCH), windowed=True)
    _check_published(there.direct, tables, changed)
    yield step("list tables, published", lambda: lake.checkout(published=True).list_tables())
    yield step("create a tag", lambda: lake.tags.create(TAG))
    yield step("delete the tag", lambda: lake.tags.delete(TAG))
    yield step("delete the branch", lambda: branches.delete(BRANCH))


def _append(lake: LanceCatalog, changed: int) -> None:
    """One row to each of the first tables, on the branch."""
    branch = lake.checkout(branch=BRANCH).catalog

    def append(number: int) -> None:
        name = name_of(number)
        own = table_branch(branch, identify_table(name), "append")
        location = branch.at(f"{name}.lance")
        lance.write_dataset(
            _ROW, location.branch_uri(own), mode="append", storage_options=location.storage_options or None
        )

    append(0)
    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(append, range(1, changed)))


def _check_published(lake: LanceCatalog, tables: int, changed: int) -> None:
    """pylance reads the rows of the first, of the last changed, and of the last table."""
    for number in {0, changed - 1, tables - 1}:
        location = lake.catalog.at(f"{name_of(number)}.lance")
        dataset = lance.dataset(location.uri, storage_options=location.storage_options or None)
        _check(dataset.count_rows(), 4 if number < changed else 3)


def _check(found: int, expected: int) -> None:
    if found != expected:
        raise AssertionError(f"{found} instead of {expected}")


def table(steps: Sequence[Step]) -> str:
    """A Markdown table."""
    lines = [
        "| place | tables | changed | verb | seconds | CPU seconds | requests | window | in a row |",
        "|---|---:|---:|---|---:|---:|---:|---:|---:|",
    ]
    for each in steps:
        requests = f"{sum(each.requests.values()):,}" if each.requests else ""
        window = "" if each.window is None else f"{each.window:.2f} s"
        row = f"{each.window / DELAY:,.0f}" if each.window is not None and each.requests else ""
        lines.append(
            f"| {each.place} | {each.tables:,} | {each.changed:,} | {each.verb} | {each.seconds:.2f} | "
            f"{each.cpu_seconds:.2f} | {requests} | {window} | {row} |"
        )
    return "\n".join(lines)


def main() -> None:
    arguments = _arguments()
    makers = {"local": local_lake, "s3": distant_lake}
    steps: list[Step] = []
    for place in arguments.only:
        for tables in arguments.tables:
            counts = sorted({min(tables, count) for count in (arguments.changed or (SMALL, tables))})
            for changed in counts:
                with makers[place](tables) as there:
                    steps += measured(there, tables, changed)
                print(table(steps[-9:]), flush=True)
    facts = report.machine()
    print(f"\n{report.machine_line(facts)}; {1000 * DELAY:.0f} ms a request on S3\n\n{table(steps)}\n")
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps({"machine": facts, "steps": [vars(each) for each in steps]}, indent=2) + "\n")
    print(f"all figures, with requests by type: {arguments.json}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lake", description=__doc__)
    parser.add_argument("--only", type=lambda text: tuple(text.split(",")), default=PLACES, metavar="A,B")
    parser.add_argument("--tables", type=_numbers, default=(10, 1_000, 10_000), metavar="N,M", help="sizes of the lake")
    parser.add_argument("--changed", type=_numbers, metavar="N,M", help="changed tables (100, and all of them)")
    parser.add_argument("--json", type=Path, default=HOME / "lake.json", metavar="FILE")
    return parser.parse_args()


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part.replace("_", "")) for part in text.split(","))


if __name__ == "__main__":
    main()
