"""``python -m benchmarks.tpch``: TPC-H in plain SQL, ours beside Parquet, the JVM connector and Delta; prints a table.

Each way has a session of its own in one Spark, in which the eight tables have the names that the queries use. Every
query is asked of everyone in turn. The first time is called cold: the session is warm, the query is new to it. The
others are warm, and their median counts. Planning is the time from the text to Spark's physical plan.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession

import lance_spark
from benchmarks import report
from benchmarks.changing.delta import SETTINGS as DELTA_SETTINGS
from benchmarks.data import HOME, made_once
from benchmarks.peers import OURS, session
from benchmarks.tpc import questions
from lance_spark import LanceCatalog

TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")
ORDER = {"lineitem": "l_shipdate", "orders": "o_orderdate"}
"""What a careful user sorts the two large tables by: the dates that most queries ask for."""
INDEXES = {
    "zonemap": {"lineitem": ("l_shipdate", "l_receiptdate", "l_quantity"), "orders": ("o_orderdate",)},
    "btree": {
        "lineitem": ("l_orderkey", "l_partkey", "l_suppkey"),
        "orders": ("o_orderkey", "o_custkey"),
        "part": ("p_partkey", "p_size"),
        "partsupp": ("ps_partkey", "ps_suppkey"),
        "customer": ("c_custkey",),
        "supplier": ("s_suppkey", "s_nationkey"),
    },
    "bitmap": {"part": ("p_brand", "p_container", "p_type"), "customer": ("c_mktsegment",)},
}
LAYOUTS = {
    "lineitem": "PARTITIONED BY (bucket(4, l_orderkey), cluster_by(l_shipdate))",
    "orders": "PARTITIONED BY (bucket(4, o_orderkey), cluster_by(o_orderdate))",
}
LAYOUT_SETTINGS = {
    "spark.sql.sources.v2.bucketing.enabled": "true",
    "spark.sql.cbo.enabled": "true",
    "spark.sql.cbo.joinReorder.enabled": "true",
}
"""For the way ``layout``: Spark 4.0 joins without a shuffle only where it is told to, and weighs costs only then."""
WAYS = {
    "ours": "ours",
    "parquet": "Parquet",
    "tuned": "ours, sorted and indexed",
    "sorted": "Parquet, sorted",
    "layout": "ours, with a layout",
    "jvm": "JVM connector",
    "delta": "Delta",
}
Row = tuple[Any, ...]


@dataclass
class Asked:
    """A query and a way: what each time took, and the last answer."""

    planning: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    """Planning included; the first one is cold."""
    rows: list[Row] = field(default_factory=list)
    problem: str | None = None

    @property
    def cold(self) -> float:
        return self.seconds[0]

    @property
    def warm(self) -> float:
        return median(self.seconds[1:] or self.seconds)

    @property
    def planned(self) -> float:
        return median(self.planning[1:] or self.planning)


Results = dict[int, dict[str, Asked]]


@dataclass(frozen=True)
class Place:
    """Where the tables of one scale are, for each way that was made."""

    home: Path

    def of(self, way: str) -> Path:
        return self.home / way


def main() -> None:
    arguments = _arguments()
    jars = [str(path.resolve()) for path in (*arguments.jvm_jar, *arguments.delta_jars)]
    spark = session(jars=jars, settings=DELTA_SETTINGS if arguments.delta_jars else {})
    spark.conf.set("spark.sql.ansi.enabled", arguments.ansi == "on")
    place = Place(HOME / f"tpch-{arguments.scale:g}")
    made_once(place.of("raw"), lambda home: _generate(home, arguments.scale))
    ways = {way: _session_of(spark, place, way) for way in arguments.ways or _possible(arguments)}
    results: Results = {}
    for number, text in questions("tpch").items():
        if arguments.queries and number not in arguments.queries:
            continue
        results[number] = _ask(text, ways, arguments.rounds, turn=number)
        # At once: a run of all queries takes long, and may be ended before its table is printed.
        print(f"Q{number}: " + ", ".join(_told(way, asked) for way, asked in results[number].items()), flush=True)
    facts = {**report.machine(), "scale": arguments.scale, "rounds": arguments.rounds, "ansi": arguments.ansi}
    facts["capabilities"] = str(lance_spark.capabilities(next(iter(ways.values()))))
    asked = f"scale {arguments.scale:g}, median of {arguments.rounds}, ANSI {arguments.ansi}"
    print(f"\n{report.machine_line(facts)}; {asked}")
    print(f"{facts['capabilities']}\n\n{table(results, list(ways))}\n\n{summary(results)}")
    _save(arguments.json, facts, results)
    print(f"\nall rounds: {arguments.json}")
    if any(asked.problem for answers in results.values() for asked in answers.values()):
        sys.exit("Some answers are missing or wrong; see above.")


def table(results: Results, ways: Sequence[str]) -> str:
    """Warm seconds of each way; planning of ours; and ours against each peer, where above 1 ours is faster."""
    ratios = [pair for pair in _PAIRS if pair[0] in ways and pair[1] in ways]
    heads = [WAYS[way] for way in ways] + ["our planning"] * ("ours" in ways) + ["ours, cold"] * ("ours" in ways)
    heads += [f"{WAYS[peer]} / {WAYS[ours]}" for ours, peer in ratios]
    lines = [f"| query | {' | '.join(heads)} |", f"|---|{'---:|' * len(heads)}"]
    for number, answers in results.items():
        cells = [_cell(answers[way]) for way in ways]
        if "ours" in ways:
            cells += (
                [f"{answers['ours'].planned:.3f}", f"{answers['ours'].cold:.2f}"]
                if not answers["ours"].problem
                else ["-"] * 2
            )
        cells += [_ratio_cell(answers, pair) for pair in ratios]
        lines.append(f"| Q{number} | {' | '.join(cells)} |")
    sums = [f"{sum(answers[way].warm for answers in results.values() if not answers[way].problem):.1f}" for way in ways]
    if "ours" in ways:
        right = [answers["ours"] for answers in results.values() if not answers["ours"].problem]
        sums += [f"{sum(asked.planned for asked in right):.2f}", f"{sum(asked.cold for asked in right):.1f}"]
    sums += [
        f"{geometric_mean(found):.2f}" if (found := list(_ratios(results, pair).values())) else "-" for pair in ratios
    ]
    lines.append(f"| sum; geometric mean | {' | '.join(sums)} |")
    return "\n".join(lines)


_PAIRS = (("ours", "parquet"), ("tuned", "sorted"), ("layout", "sorted"), ("ours", "jvm"), ("ours", "delta"))
_TARGETS = {("ours", "parquet"): 1.0, ("tuned", "sorted"): 1.3, ("layout", "sorted"): 1.3, ("ours", "jvm"): 1.0}
_WORST = 0.75
"""No query without indexes is to be slower than Parquet by more."""


def summary(results: Results) -> str:
    """What was to be reached, and whether it was."""
    lines = ["| geometric mean of | measured | to reach | reached |", "|---|---:|---:|---|"]
    for pair, wanted in _TARGETS.items():
        found = _ratios(results, pair)
        name = f"{WAYS[pair[1]]} / {WAYS[pair[0]]}"
        mean = geometric_mean(found.values()) if found else None
        lines.append(_line(name, mean, wanted))
        if pair == ("ours", "parquet") and found:
            worst = min(found, key=lambda number: found[number])
            lines.append(_line(f"the worst query, Q{worst}", found[worst], _WORST))
    return "\n".join(lines)


def _line(name: str, measured: float | None, wanted: float) -> str:
    if measured is None:
        return f"| {name} | - | {wanted:g} | not measured |"
    return f"| {name} | {measured:.2f} | {wanted:g} | {'yes' if measured >= wanted else 'no'} |"


def _ratios(results: Results, pair: tuple[str, str]) -> dict[int, float]:
    ours, peer = pair
    return {
        number: answers[peer].warm / answers[ours].warm
        for number, answers in results.items()
        if all(way in answers and not answers[way].problem for way in pair)
    }


def _ratio_cell(answers: Mapping[str, Asked], pair: tuple[str, str]) -> str:
    ours, peer = (answers[way] for way in pair)
    return "-" if ours.problem or peer.problem else f"{peer.warm / ours.warm:.2f}"


def _cell(asked: Asked) -> str:
    return f"FAILED: {asked.problem}" if asked.problem else f"{asked.warm:.2f}"


def _told(way: str, asked: Asked) -> str:
    return (
        f"{way} FAILED: {asked.problem}" if asked.problem else f"{way} {asked.warm:.2f} ({asked.planned:.3f} planning)"
    )


# --- asking


def _ask(text: str, ways: Mapping[str, SparkSession], rounds: int, turn: int) -> dict[str, Asked]:
    """Once cold and ``rounds`` times warm, everyone in turn; who begins changes with the query and the round."""
    answers = {way: Asked() for way in ways}
    for attempt in range(rounds + 1):
        order = list(ways)
        start = (turn + attempt) % len(order)
        for way in order[start:] + order[:start]:
            if answers[way].problem is None:
                _time(ways[way], text, answers[way])
    reference = next((answers[way] for way in ("parquet", "sorted") if way in answers), None)
    for asked in answers.values():
        if reference and not asked.problem and not same_rows(asked.rows, reference.rows):
            asked.problem = "gives another answer than Parquet"
    return answers


def _time(spark: SparkSession, text: str, asked: Asked) -> None:
    try:
        started = time.perf_counter()
        frame = spark.sql(text)
        _plan(frame)
        planned = time.perf_counter()
        asked.rows = [tuple(row) for row in frame.collect()]
        asked.seconds.append(time.perf_counter() - started)
        asked.planning.append(planned - started)
    except Exception as error:  # noqa: BLE001 - a way that fails is a finding, not the end of the run
        asked.problem = (str(error).strip().splitlines() or [type(error).__name__])[0][:160]


def _plan(frame: DataFrame) -> None:
    """Up to the physical plan, as ``collect`` makes it: Spark keeps it for the query's execution."""
    frame._jdf.queryExecution().executedPlan()


def same_rows(left: Iterable[Row], right: Iterable[Row]) -> bool:
    """The same rows in any order; numbers that were summed in another order may differ in the last digits."""
    left, right = sorted(left, key=_sort_key), sorted(right, key=_sort_key)
    return len(left) == len(right) and all(
        len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))
        for a, b in zip(left, right, strict=True)
    )


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-9) or (math.isnan(left) and math.isnan(right))
    return bool(left == right)


def _sort_key(row: Row) -> list[str]:
    """By what is exact first, so that rows whose sums differ in the last digit meet each other."""
    exact = [str(value) for value in row if not isinstance(value, float | Decimal)]
    return exact + [f"{value:.4g}" for value in row if isinstance(value, float | Decimal)]


# --- tables


def _possible(arguments: argparse.Namespace) -> list[str]:
    missing = {"jvm"} if not arguments.jvm_jar else set()
    missing |= {"delta"} if not arguments.delta_jars else set()
    return [way for way in WAYS if way not in missing]


def _generate(home: Path, scale: float) -> None:
    home.mkdir(parents=True)
    command = [
        str(Path(sys.executable).with_name("tpchgen-cli")),
        "parquet",
        "-s",
        f"{scale:g}",
        "--output-dir",
        str(home),
    ]
    subprocess.run(command, check=True)


def _session_of(spark: SparkSession, place: Place, way: str) -> SparkSession:
    """A session in which the tables of that way have the names of TPC-H; they are made if they are missing."""
    here = spark.newSession()
    here.conf.set("spark.sql.ansi.enabled", spark.conf.get("spark.sql.ansi.enabled") or "true")
    _OPEN[way](here, place)
    here.sql("SELECT count(*) FROM region JOIN nation ON n_regionkey = r_regionkey").collect()
    return here


def _open_catalog(spark: SparkSession, place: Place, way: str, make: Callable[[LanceCatalog, Place], None]) -> None:
    made_once(place.of(way), lambda home: make(_catalog(spark, home), place))
    lance_spark.register(spark, OURS, catalog=way, root=str(place.of(way)))
    spark.catalog.setCurrentCatalog(way)


def _catalog(spark: SparkSession, home: Path) -> LanceCatalog:
    home.mkdir(parents=True)
    lance_spark.register(spark, OURS)
    return LanceCatalog(str(home), spark=spark)


def _write_catalog(catalog: LanceCatalog, place: Place) -> None:
    for name in TABLES:
        catalog.write_table(catalog.spark.read.parquet(_raw(place, name)), name)


def _tune_catalog(catalog: LanceCatalog, place: Place) -> None:
    _write_catalog(catalog, place)
    for name, column in ORDER.items():
        catalog.table(name).optimize(sort_by=[column])
    for kind, tables in INDEXES.items():
        for name, columns in tables.items():
            for column in columns:
                catalog.table(name).indexes.create(column, kind)


def _lay_out_catalog(catalog: LanceCatalog, place: Place) -> None:
    """The large tables by their keys, each file sorted by its date; all columns are measured."""
    spark = catalog.spark
    made, root = f"layout_{uuid4().hex[:8]}", catalog.catalog.root
    assert root is not None
    lance_spark.register(spark, OURS, catalog=made, root=root.uri)
    for name in TABLES:
        spark.read.parquet(_raw(place, name)).createOrReplaceTempView("rows_to_write")
        spark.sql(f"CREATE TABLE {made}.{name} {LAYOUTS.get(name, '')} AS TABLE rows_to_write")
        catalog.table(name).analyze()


def _open_layout(spark: SparkSession, place: Place) -> None:
    _open_catalog(spark, place, "layout", _lay_out_catalog)
    for name, value in LAYOUT_SETTINGS.items():
        spark.conf.set(name, value)


def _open_files(spark: SparkSession, place: Place, way: str, format: str) -> None:
    made_once(place.of(way), lambda home: _write_files(spark, place, home, format, ORDER if way == "sorted" else {}))
    for name in TABLES:
        spark.read.format(format).load(str(place.of(way) / name)).createOrReplaceTempView(name)


def _write_files(spark: SparkSession, place: Place, home: Path, format: str, order: Mapping[str, str]) -> None:
    for name in TABLES:
        frame = spark.read.parquet(_raw(place, name))
        frame = frame.orderBy(order[name]) if name in order else frame
        frame.write.format(format).save(str(home / name))


def _open_jvm(spark: SparkSession, place: Place) -> None:
    """The JVM connector reads the files that we wrote."""
    if not place.of("ours").exists():
        _OPEN["ours"](spark.newSession(), place)
    lake = LanceCatalog(str(place.of("ours")))
    for name in TABLES:
        spark.read.format("lance").load(lake.table(name).location.uri).createOrReplaceTempView(name)


def _raw(place: Place, name: str) -> str:
    return str(place.of("raw") / f"{name}.parquet")


_OPEN: Mapping[str, Callable[[SparkSession, Place], None]] = {
    "ours": lambda spark, place: _open_catalog(spark, place, "ours", _write_catalog),
    "tuned": lambda spark, place: _open_catalog(spark, place, "tuned", _tune_catalog),
    "parquet": lambda spark, place: _open_files(spark, place, "parquet", "parquet"),
    "sorted": lambda spark, place: _open_files(spark, place, "sorted", "parquet"),
    "delta": lambda spark, place: _open_files(spark, place, "delta", "delta"),
    "layout": _open_layout,
    "jvm": _open_jvm,
}


# --- the command


def _save(path: Path, facts: Mapping[str, Any], results: Results) -> None:
    queries = {
        number: {
            way: {"seconds": asked.seconds, "planning": asked.planning, "problem": asked.problem}
            for way, asked in answers.items()
        }
        for number, answers in results.items()
    }
    path.write_text(json.dumps({"machine": facts, "queries": queries}, indent=2) + "\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tpch", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="1 is a gigabyte of text (default 1)")
    parser.add_argument("--rounds", type=int, default=3, help="warm ones; there is a cold one before (default 3)")
    parser.add_argument("--queries", type=_numbers, default=[], metavar="1,6", help="these only")
    parser.add_argument("--ways", type=_ways, default=[], metavar="A,B", help=f"of {','.join(WAYS)}")
    parser.add_argument("--ansi", choices=("on", "off"), default="on", help="Spark 4's default is on")
    parser.add_argument("--jvm-jar", type=_paths, default=[], metavar="FILE", help="the JVM connector's bundle")
    parser.add_argument("--delta-jars", type=_paths, default=[], metavar="A,B", help="delta-spark and delta-storage")
    parser.add_argument("--json", type=Path, default=HOME / "tpch.json", metavar="FILE")
    return parser.parse_args()


def _paths(text: str) -> list[Path]:
    return [Path(part) for part in text.split(",")]


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def _ways(text: str) -> list[str]:
    names = text.split(",")
    if unknown := set(names) - set(WAYS):
        raise argparse.ArgumentTypeError(f"no such way: {', '.join(sorted(unknown))}")
    return names


if __name__ == "__main__":
    main()
