"""``python -m benchmarks.upkeep``: compaction, orders, indexes, storage, fsck and merges after compaction."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from benchmarks import report
from benchmarks.changing.delta import SETTINGS
from benchmarks.changing.report import changes_table
from benchmarks.data import HOME
from benchmarks.merging.measure import problems
from benchmarks.peers import session
from benchmarks.upkeeping.cases import Cases

CASES = {
    "a": Cases.compaction,
    "b": Cases.order,
    "c": Cases.indexes,
    "d": Cases.usage,
    "e": Cases.check,
    "f": Cases.merges,
    "g": Cases.border,
}


def main() -> None:
    arguments = _arguments()
    facts = {**report.machine(), "scale": arguments.scale, "rounds": arguments.rounds}
    jars = [str(path.resolve()) for path in arguments.delta_jars or ()]
    start = partial(session, jars=jars, settings=SETTINGS if jars else {})
    cases = Cases(start, arguments.scale, arguments.rounds, bool(jars))
    results = []
    for case in arguments.only:
        for result in CASES[case](cases):
            results.append(result)
            # At once: a run of all cases takes long, and may be ended before its table is printed.
            print(f"{changes_table([result])}\n{_details(result.details)}", flush=True)
    print(f"\n{report.machine_line(facts)}; sizes x {arguments.scale:g}, median of {arguments.rounds}\n")
    print(f"{changes_table(results)}\n")
    print("".join(f"{problem}\n" for problem in problems(results)))
    report.save(arguments.json, facts, results)
    print(f"all rounds: {arguments.json}")


def _details(details: dict[str, dict[str, object]]) -> str:
    return "\n".join(f"  {who}: {told}" for who, told in details.items())


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.upkeep", description=__doc__)
    parser.add_argument("--only", type=_cases, default=tuple(CASES), metavar="A,B", help=f"cases: {','.join(CASES)}")
    parser.add_argument("--scale", type=float, default=1.0, help="a fraction of the sizes: does it work, not how fast")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--delta-jars", type=_paths, metavar="A,B", help="delta-spark and delta-storage, for Delta")
    parser.add_argument("--json", type=Path, default=HOME / "upkeep.json", metavar="FILE")
    return parser.parse_args()


def _cases(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if unknown := set(names) - set(CASES):
        raise argparse.ArgumentTypeError(f"no such case: {', '.join(sorted(unknown))}")
    return names


def _paths(text: str) -> list[Path]:
    return [Path(part) for part in text.split(",")]


if __name__ == "__main__":
    main()
