"""``python -m benchmarks.rows``: rows and columns changed on a branch, beside pylance, Delta and a rewritten table."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks import report
from benchmarks.changing.cases import measured
from benchmarks.changing.data import prepare
from benchmarks.changing.delta import SETTINGS
from benchmarks.changing.report import changes_table
from benchmarks.data import HOME
from benchmarks.merging.measure import problems
from benchmarks.peers import session


def main() -> None:
    arguments = _arguments()
    facts = {**report.machine(), "rows": arguments.rows, "rounds": arguments.rounds}
    jars = [str(path.resolve()) for path in arguments.delta_jars or ()]
    spark = session(jars=jars, settings=SETTINGS if jars else {})
    names = [name.lower() for name in arguments.changes]
    results = []
    for result in measured(
        spark,
        prepare(arguments.rows),
        bool(jars),
        lambda name: not names or any(part in name.lower() for part in names),
        arguments.rounds,
    ):
        results.append(result)
        # At once: a run of all changes takes long, and may be ended before its table is printed.
        print(f"{changes_table([result])}", flush=True)
    print(f"\n{report.headline(facts)}\n\n{changes_table(results)}\n")
    print("".join(f"{problem}\n" for problem in problems(results)))
    report.save(arguments.json, facts, results)
    print(f"all rounds: {arguments.json}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rows", description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000, help="2.3 kB each (default 10,000,000)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--changes", action="append", default=[], metavar="NAME", help="those with NAME in the name")
    parser.add_argument("--delta-jars", type=_paths, metavar="A,B", help="delta-spark and delta-storage, for Delta")
    parser.add_argument("--json", type=Path, default=HOME / "rows.json", metavar="FILE")
    return parser.parse_args()


def _paths(text: str) -> list[Path]:
    return [Path(part) for part in text.split(",")]


if __name__ == "__main__":
    main()
