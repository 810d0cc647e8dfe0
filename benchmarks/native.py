"""``python -m benchmarks.native``: plain DataFrame code, read natively and in every other way; prints tables."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks import measure, report
from benchmarks.cleanup_s3 import DELAY, slow_store, storage_options
from benchmarks.data import HOME
from benchmarks.measure import Case, Result
from benchmarks.reading.data import Tables, prepare
from benchmarks.reading.planning import planning
from benchmarks.reading.questions import questions
from benchmarks.reading.report import problems, reading_table
from benchmarks.reading.ways import Connect, Jars, connect, floor, loads, work

PARTS = ("local", "s3", "planning")


@dataclass(frozen=True)
class Run:
    """What all parts need."""

    spark: SparkSession
    jars: Jars
    connect: Connect | None
    rounds: int
    wanted: Callable[[str], bool]


def main() -> None:
    arguments = _arguments()
    jars = Jars(arguments.jvm_jar, tuple(arguments.s3a_jars or ()))
    facts = {**report.machine(), "rows": arguments.rows, "rounds": arguments.rounds}
    results: dict[str, list[Result]] = {}
    with ExitStack() as stack:
        client = None if arguments.no_connect else stack.enter_context(connect())
        run = Run(jars.start(), jars, client, arguments.rounds, _wanted(arguments.questions))
        if "local" in arguments.only:
            name = f"local disk, {arguments.rows:,} rows"
            results[name] = list(_measured(run, prepare(arguments.rows), {}))
        if "s3" in arguments.only:
            name = f"S3, {arguments.latency:g} ms a request, {arguments.s3_rows:,} rows"
            results[name] = list(_object_store(run, prepare(arguments.s3_rows), arguments.latency / 1000))
        if "planning" in arguments.only:
            results["planning, DataFrame loaded"] = list(planning(run.spark, arguments.rounds))
    print(f"\n{report.headline(facts)}")
    for name, measured in results.items():
        print(f"\n{name}\n\n{reading_table(measured)}")
        print("".join(f"\n{problem}" for problem in problems(measured)))
    everything = [result for measured in results.values() for result in measured]
    report.save(arguments.json, facts, everything)
    print(f"\nall rounds: {arguments.json}")


def _measured(run: Run, tables: Tables, storage: Mapping[str, str]) -> Iterator[Result]:
    ways = loads(run.spark, tables, storage, run.jars)
    for number, question in enumerate(questions(tables.rows)):
        name = f"{question.name}, {question.table}"
        if not run.wanted(name):
            continue
        print(f"measuring: {name}", flush=True)
        asked = work(question, ways)
        if run.connect is not None:
            asked["connect"] = run.connect.work(number, tables, storage, native=False)
            asked["connected"] = run.connect.work(number, tables, storage, native=True)
        if question.export and not storage:
            asked["floor"] = floor(run.spark, tables, question)
        yield _told(measure.run(name, Case(asked, question.targets), run.rounds))


def _told(result: Result) -> Result:
    """At once: a run of all questions takes long, and may be ended before its table is printed."""
    print("  " + ", ".join(f"{who} {seconds:.3f}" for who, seconds in result.medians.items()), flush=True)
    for problem in problems([result]):
        print(f"  {problem}", flush=True)
    return result


def _object_store(run: Run, tables: Tables, delay: float) -> Iterator[Result]:
    with slow_store(time.time(), delay) as store, store.copy(Path(tables.home)) as uri:
        yield from _measured(run, Tables(uri, tables.rows), storage_options(store.slow))


def _wanted(names: list[str]) -> Callable[[str], bool]:
    return lambda name: not names or any(part.lower() in name.lower() for part in names)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.native", description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000, help="on the local disk (default 10,000,000)")
    parser.add_argument("--s3-rows", type=int, default=1_000_000, help="on the object store (default 1,000,000)")
    parser.add_argument("--latency", type=float, default=DELAY * 1000, metavar="MS", help="of a request there")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", type=_parts, default=PARTS, metavar="A,B", help=f"parts: {','.join(PARTS)}")
    parser.add_argument("--questions", action="append", default=[], metavar="NAME", help="those with NAME in the name")
    parser.add_argument("--jvm-jar", type=Path, metavar="FILE", help="the JVM connector's bundle")
    parser.add_argument("--s3a-jars", type=_paths, metavar="A,B", help="hadoop-aws and its jars, for Parquet on S3")
    parser.add_argument("--no-connect", action="store_true", help="leave Spark Connect out")
    parser.add_argument("--json", type=Path, default=HOME / "native.json", metavar="FILE")
    return parser.parse_args()


def _paths(text: str) -> list[Path]:
    return [Path(part) for part in text.split(",")]


def _parts(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if unknown := set(names) - set(PARTS):
        raise argparse.ArgumentTypeError(f"no such part: {', '.join(sorted(unknown))}")
    return names


if __name__ == "__main__":
    main()
