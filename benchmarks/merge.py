"""``python -m benchmarks.merge``: merges and lance-git beside what people do without; prints tables."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks import report
from benchmarks.data import HOME
from benchmarks.measure import Result
from benchmarks.merging.growth import growth, growth_table
from benchmarks.merging.history import history, history_table
from benchmarks.merging.measure import problems
from benchmarks.merging.peers import peers, peers_table
from benchmarks.merging.requests import Requests, requests, requests_table
from benchmarks.peers import session

CASES = ("a", "b", "c", "d")
_LEAST = 10
"""Nothing is made smaller than this."""


def main() -> None:
    arguments = _arguments()
    facts = {**report.machine(), "scale": arguments.scale, "rounds": arguments.rounds}
    results: list[Result] = []
    counted: list[Requests] = []
    tables: list[str] = []
    for case in arguments.only:
        if case == "d":
            counted = list(requests(arguments.rounds))
            tables.append(requests_table(counted))
        else:
            measured, table = _PARTS[case](arguments.scale, arguments.rounds)
            results += measured
            tables.append(table)
    print(f"\n{report.machine_line(facts)}; sizes x {arguments.scale:g}, median of {arguments.rounds}\n")
    print("\n\n".join([*tables, *problems(results)]) + "\n")
    report.save(arguments.json, {**facts, "requests": [asdict(each) for each in counted]}, results)
    print(f"all rounds: {arguments.json}")


def _growth(scale: float, rounds: int) -> tuple[Sequence[Result], str]:
    results = list(growth(_of(100, scale), rounds))
    return results, growth_table(results)


def _peers(scale: float, rounds: int) -> tuple[Sequence[Result], str]:
    result = peers(_of(10_000_000, scale), _spark, rounds)
    return [result], peers_table(result)


def _history(scale: float, rounds: int) -> tuple[Sequence[Result], str]:
    results = list(history(_of(10_000, scale), _of(1_000, scale), rounds))
    return results, history_table(results)


_PARTS: dict[str, Callable[[float, int], tuple[Sequence[Result], str]]] = {"a": _growth, "b": _peers, "c": _history}


def _of(number: int, scale: float) -> int:
    return max(_LEAST, round(number * scale))


@cache
def _spark() -> SparkSession:
    """Starting the session is not measured."""
    return session()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.merge", description=__doc__)
    parser.add_argument("--only", type=_cases, default=CASES, metavar="A,B", help=f"cases: {','.join(CASES)}")
    parser.add_argument("--scale", type=float, default=1.0, help="a fraction of the sizes: does it work, not how fast")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, default=HOME / "merge.json", metavar="FILE")
    return parser.parse_args()


def _cases(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if unknown := set(names) - set(CASES):
        raise argparse.ArgumentTypeError(f"no such case: {', '.join(sorted(unknown))}")
    return names


if __name__ == "__main__":
    main()
