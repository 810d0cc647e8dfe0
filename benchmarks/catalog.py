"""``python -m benchmarks.catalog``: the catalog beside pylance's ``DirectoryNamespace``; prints tables."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks import report
from benchmarks.cataloging.places import Measured, local, object_store, rest
from benchmarks.cataloging.report import local_table, missed, problems, store_table
from benchmarks.data import HOME
from benchmarks.measure import Result

PLACES = ("local", "s3", "rest")


def main() -> None:
    arguments = _arguments()
    facts = {**report.machine(), "rounds": arguments.rounds}
    tables: list[str] = []
    measured: list[Measured] = []
    if "local" in arguments.only:
        measured += local(arguments.tables, arguments.rounds)
        tables.append(local_table(measured))
    if "s3" in arguments.only:
        there = list(object_store(arguments.tables, arguments.rounds))
        tables.append(store_table(there))
        measured += there
    if "rest" in arguments.only:
        served = list(rest(arguments.tables, arguments.rounds))
        tables.append(store_table(served, "REST"))
        measured += served
    print(f"\n{report.machine_line(facts)}; median of {arguments.rounds}\n")
    print("\n\n".join([*tables, *missed(measured), *problems(measured)]) + "\n")
    requests = [{"operation": each.operation, "tables": each.tables, **each.requests} for each in measured]
    report.save(arguments.json, {**facts, "requests": requests}, [_named(each) for each in measured])
    print(f"all rounds: {arguments.json}")


def _named(each: Measured) -> Result:
    each.result.name = f"{each.place}: {each.tables} tables: {each.operation} x {each.times}"
    return each.result


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.catalog", description=__doc__)
    parser.add_argument("--only", type=_places, default=PLACES, metavar="A,B", help=f"places: {','.join(PLACES)}")
    parser.add_argument("--tables", type=_sizes, default=(1_000, 5_000, 50_000), metavar="N,M", help="sizes")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, default=HOME / "catalog.json", metavar="FILE")
    return parser.parse_args()


def _places(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if unknown := set(names) - set(PLACES):
        raise argparse.ArgumentTypeError(f"no such place: {', '.join(sorted(unknown))}")
    return names


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(int(part.replace("_", "")) for part in text.split(","))


if __name__ == "__main__":
    main()
