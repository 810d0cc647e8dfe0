"""``python -m benchmarks.cleanup``: cleanups, ours beside pylance's; prints tables and writes a JSON file."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks import cleanup_cases, cleanup_data, report
from benchmarks.cleanup_large import large
from benchmarks.cleanup_measure import Scenario, measure
from benchmarks.cleanup_s3 import slow_store
from benchmarks.data import HOME
from benchmarks.measure import Result
from benchmarks.peers import session

CASES = ("a", "b", "c", "d", "e")
_LEAST = 10
"""Nothing is made smaller than this."""


@dataclass(frozen=True)
class Sizes:
    """The sizes of the issue, times a scale."""

    scale: float
    rounds: int

    def of(self, number: int) -> int:
        return max(_LEAST, round(number * self.scale))

    @cached_property
    def spark(self) -> SparkSession:
        """A session that has cleaned up before: starting it is not measured."""
        spark = session()
        dataset = cleanup_data.history(_LEAST, _LEAST)
        with dataset.copy() as uri:
            cleanup_cases.ours_on_spark(spark, uri)
        return spark


def main() -> None:
    arguments = _arguments()
    sizes = Sizes(arguments.scale, arguments.rounds)
    results = list(_results(arguments.only, sizes))
    facts = {**report.machine(), "scale": sizes.scale, "rounds": sizes.rounds}
    print(f"\n{report.machine_line(facts)}; sizes x {sizes.scale:g}, median of {sizes.rounds}\n")
    print(report.table(results) + "\n")
    print(_details_table(results) + "\n")
    report.save(arguments.json, facts, results)
    print(f"all rounds: {arguments.json}")


def _results(only: Sequence[str], sizes: Sizes) -> Iterator[Result]:
    _warm_up()
    if "a" in only:
        yield _history("(a)", "aged", sizes)
    if "b" in only:
        yield _history("(b)", "fresh", sizes)
    if "c" in only:
        branches, versions = sizes.of(50), max(2 * cleanup_data.BRANCH_FRAGMENTS, sizes.of(100))
        scenario = cleanup_cases.lineages(
            cleanup_data.lineages(branches, versions), cleanup_data.branch_names(branches)
        )
        yield _measured(f"(c) {branches} branches x {versions} versions, aged", scenario, sizes)
    if "d" in only:
        yield _on_s3("aged", sizes)
        yield _on_s3("fresh", sizes)
    if "e" in only:
        print("measuring: (e)", flush=True)
        yield large(sizes.of(1_000_000), sizes.of(10_000))


def _history(letter: str, age: str, sizes: Sizes) -> Result:
    fragments, versions = sizes.of(5_000), sizes.of(2_000)
    dataset = cleanup_data.history(fragments, versions, cleanup_data.AGES[age])
    scenario = cleanup_cases.histories(dataset, sizes.spark)
    return _measured(f"{letter} {fragments:,} fragments x {versions:,} versions, {age}", scenario, sizes)


def _on_s3(age: str, sizes: Sizes) -> Result:
    fragments, versions = sizes.of(300), sizes.of(1_000)
    dataset = cleanup_data.history(fragments, versions, cleanup_data.AGES[age])
    with slow_store(dataset.modified) as store:
        name = f"(d) S3, 30 ms a request, {fragments:,} fragments x {versions:,} versions, {age}"
        return _measured(name, cleanup_cases.on_s3(dataset, store), sizes)


def _measured(name: str, scenario: Scenario, sizes: Sizes) -> Result:
    print(f"measuring: {name}", flush=True)
    return measure(name, scenario, sizes.rounds)


def _warm_up() -> None:
    """Imports and the like, of everyone."""
    dataset = cleanup_data.history(_LEAST, _LEAST)
    for clean in (cleanup_cases.ours, cleanup_cases.reference):
        with dataset.copy() as uri:
            clean(uri)


def _details_table(results: Sequence[Result]) -> str:
    """How many files were there and how many went, and what else a case tells."""
    lines = ["| case | who | files | removed | also |", "|---|---|---:|---:|---|"]
    for result in results:
        for who, details in result.details.items():
            rest = {key: value for key, value in details.items() if key not in ("files", "removed")}
            also = "; ".join(f"{key.replace('_', ' ')}: {_readable(value)}" for key, value in rest.items())
            name = who.replace("_", " ")
            lines.append(f"| {result.name} | {name} | {details['files']:,} | {details['removed']:,} | {also} |")
    return "\n".join(lines)


def _readable(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{count} {name}" for name, count in value.items())
    if isinstance(value, list):
        return ", ".join(f"{name} {seconds} s" for name, seconds in value)
    return str(value)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cleanup", description=__doc__)
    parser.add_argument("--only", type=_cases, default=CASES, metavar="A,B", help=f"cases: {','.join(CASES)}")
    parser.add_argument("--scale", type=float, default=1.0, help="a fraction of the sizes: does it work, not how fast")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, default=HOME / "cleanup.json", metavar="FILE")
    return parser.parse_args()


def _cases(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if unknown := set(names) - set(CASES):
        raise argparse.ArgumentTypeError(f"no such case: {', '.join(sorted(unknown))}")
    return names


if __name__ == "__main__":
    main()
