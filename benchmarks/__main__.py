"""``python -m benchmarks``: makes the data once, measures every case, prints a table and writes a JSON file."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks import data, report
from benchmarks.cases import cases
from benchmarks.measure import run
from benchmarks.peers import Peers, jvm_package, session, why_no_jvm


def main() -> None:
    arguments = _arguments()
    rows = arguments.rows or (200_000 if arguments.quick else 10_000_000)
    rounds = 3 if arguments.quick else 5
    tables = data.prepare(rows)
    package = jvm_package()
    no_jvm = "left out with --no-jvm" if arguments.no_jvm else why_no_jvm(package, tables.lance("narrow"))
    peers = Peers(session([] if no_jvm else [package]), has_jvm=no_jvm is None)
    facts = {**report.machine(), "rows": rows, "rounds": rounds, "jvm_connector": no_jvm or package}
    results = []
    for name, build in cases(peers, tables).items():
        if not arguments.only or any(part.lower() in name.lower() for part in arguments.only):
            print(f"measuring: {name}", flush=True)
            results.append(run(name, build(), rounds))
    print("\n" + report.headline(facts))
    print(f"JVM connector: {f'not available ({no_jvm})' if no_jvm else package}\n")
    print(report.table(results))
    report.save(arguments.json, facts, results)
    print(f"\nall rounds: {arguments.json}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rows", type=int, help="rows of the flights (default 10,000,000; with --quick 200,000)")
    parser.add_argument("--quick", action="store_true", help="small tables, three rounds: does it work, not how fast")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="cases with NAME in their name")
    parser.add_argument("--no-jvm", action="store_true", help="leave the JVM connector out")
    parser.add_argument("--json", type=Path, default=data.HOME / "results.json", metavar="FILE")
    return parser.parse_args()


if __name__ == "__main__":
    main()
