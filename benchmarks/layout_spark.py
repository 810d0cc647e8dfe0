"""Joins, aggregates, MERGE and a week of small batches with Spark: ours beside Parquet, Delta and Iceberg."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median

import lance
from pyspark.sql import DataFrame, SparkSession

import lance_spark
from lance_spark import LanceCatalog

ICEBERG_SETTINGS = {
    "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.ice.type": "hadoop",
    "spark.sql.iceberg.planning.preserve-data-grouping": "true",
}
_BUCKETS = 4
_SETTINGS = {
    "spark.sql.sources.v2.bucketing.enabled": "true",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.lance.grouping": "always",
}
_SHARE = 10
"""One row of so many is in the source of a MERGE."""
_MOST = 2_000
"""Rows of the largest small batch."""


@dataclass(frozen=True)
class Way:
    """A way to keep tables: how one is made, and its name in SQL."""

    name: str
    create: Callable[[str, DataFrame], None]
    table: str
    """With ``{}`` for the table's own name."""
    merges: bool = True


@dataclass(frozen=True)
class Place:
    spark: SparkSession
    home: Path
    delta: bool
    iceberg: bool

    def ways(self) -> Iterator[Way]:
        """Bucketed and plain tables of ours, and those of others that can be."""
        bucket = f"bucket({_BUCKETS}, id)"
        yield Way(f"ours, {bucket}", lambda name, frame: self._sql(f"lake.b_{name}", bucket, frame), "lake.b_{}")
        yield Way("ours, no layout", lambda name, frame: self._sql(f"lake.p_{name}", "", frame), "lake.p_{}")
        yield Way("Parquet", self._parquet, "parquet.`" + f"{self.home}/parquet/" + "{}`", merges=False)
        if self.delta:
            yield Way("Delta", self._delta, "delta.`" + f"{self.home}/delta/" + "{}`")
        if self.iceberg:
            yield Way(f"Iceberg, {bucket}", lambda name, frame: self._sql(f"ice.{name}", bucket, frame), "ice.{}")

    def _sql(self, name: str, by: str, frame: DataFrame) -> None:
        frame.createOrReplaceTempView("rows_to_write")
        divided = f"PARTITIONED BY ({by}) " if by else ""
        self.spark.sql(f"CREATE TABLE {name} {divided}AS TABLE rows_to_write")

    def _parquet(self, name: str, frame: DataFrame) -> None:
        frame.write.parquet(f"{self.home}/parquet/{name}")

    def _delta(self, name: str, frame: DataFrame) -> None:
        frame.write.format("delta").save(f"{self.home}/delta/{name}")


def prepare(spark: SparkSession, home: Path, delta: bool, iceberg: bool) -> Place:
    for name, value in _SETTINGS.items():
        spark.conf.set(name, value)
    (home / "lake").mkdir()
    lance_spark.register(spark, "lance_py", catalog="lake", root=str(home / "lake"))
    if iceberg:
        spark.conf.set("spark.sql.catalog.ice.warehouse", str(home / "ice"))
    return Place(spark, home, delta, iceberg)


@dataclass
class Taken:
    """What each round took, and how often rows were moved by their values."""

    seconds: list[float] = field(default_factory=list)
    shuffles: int = 0
    answer: object = None


def joins(place: Place, rows: int, rounds: int) -> list[str]:
    """The lines of a table: two tables joined by their key, grouped by it, and a MERGE by it."""
    spark = place.spark
    large = spark.range(rows).selectExpr("id * 7919 % 1000003 * 16 + id % 16 AS id", "id % 1000 AS v", "hash(id) AS h")
    small = large.where("h % 2 = 0").selectExpr("id", "v AS w")
    source = large.where(f"h % {_SHARE} = 0").selectExpr("id", "v + 1 AS v", "h")
    ways = list(place.ways())
    for way in ways:
        for name, frame in (("a", large), ("b", small), ("s", source)):
            way.create(name, frame)
    lines = [f"| | {' | '.join(way.name for way in ways)} |", f"|---|{'---:|' * len(ways)}"]
    for what, text in _QUERIES.items():
        taken = _in_turn(ways, rounds, partial(_asked, spark, text))
        if len({str(each.answer) for each in taken.values()}) > 1:
            raise AssertionError(f"{what}: the ways give different answers")
        lines.append(f"| {what} | {' | '.join(_cell(taken.get(way.name)) for way in ways)} |")
    able = [way for way in ways if way.merges]
    taken = _in_turn(able, rounds, partial(_merged, spark))
    lines.append(f"| MERGE of {100 / _SHARE:g}% | {' | '.join(_cell(taken.get(way.name)) for way in ways)} |")
    return lines


_QUERIES = {
    "join by the key": "SELECT count(*), sum(a.v), sum(b.w) FROM {a} a JOIN {b} b ON a.id = b.id",
    "group by the key": "SELECT count(*), sum(n), sum(s) FROM "
    "(SELECT id, count(*) AS n, sum(v) AS s FROM {a} GROUP BY id)",
}
_MERGE = (
    "MERGE INTO {a} a USING {s} s ON a.id = s.id "
    "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (id, v, h) VALUES (s.id, s.v, s.h)"
)


def wide(place: Place, widths: Sequence[int], rounds: int) -> list[str]:
    """The lines of a table: a MERGE of 200 whole rows, of which half are new, into 10,000 rows of many columns."""
    spark, catalog = place.spark, LanceCatalog(str(place.home / "lake"), spark=place.spark)
    lines: list[str] = []
    for width in widths:
        columns = ["id", *(f"id + {at} AS c{at}" for at in range(width))]
        name, source = f"w{width}", spark.range(9_900, 10_100).selectExpr(*columns)
        source.createOrReplaceTempView("changed_rows")
        ways = [way for way in place.ways() if way.merges and not way.name.startswith("ours, bucket")]
        for way in ways:
            way.create(name, spark.range(10_000).selectExpr(*columns))
        ways.append(Way("ours, t.merge", lambda *_: None, f"p_{name}"))

        def once(way: Way) -> Taken:
            start = time.perf_counter()
            if way.name == "ours, t.merge":
                merge = catalog.table(way.table).merge(source, on="id")  # noqa: B023
                merge.when_matched_update_all().when_not_matched_insert_all().execute()
            else:
                spark.sql(_MERGE_ALL.format(way.table.format(name))).collect()  # noqa: B023
            return Taken([time.perf_counter() - start])

        taken = _in_turn(ways, rounds, once)
        if not lines:
            lines = [f"| columns | {' | '.join(way.name for way in ways)} |", f"|---|{'---:|' * len(ways)}"]
        lines.append(f"| {width:,} | {' | '.join(_cell(taken[way.name]) for way in ways)} |")
    return lines


_MERGE_ALL = (
    "MERGE INTO {} a USING changed_rows s ON a.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
)


def _in_turn(ways: list[Way], rounds: int, measure: Callable[[Way], Taken]) -> dict[str, Taken]:
    """Once to warm up, and then in rounds; who begins changes."""
    found = {way.name: Taken() for way in ways}
    for number in range(rounds + 1):
        for way in ways[number % len(ways) :] + ways[: number % len(ways)]:
            once = measure(way)
            kept = found[way.name]
            kept.shuffles, kept.answer = once.shuffles, once.answer
            kept.seconds += once.seconds if number else []
    return found


def _asked(spark: SparkSession, text: str, way: Way) -> Taken:
    query = text.format(**_names(way))
    plan = spark.sql(f"EXPLAIN {query}").collect()[0][0]
    start = time.perf_counter()
    answer = [tuple(row) for row in spark.sql(query).collect()]
    return Taken([time.perf_counter() - start], plan.count("Exchange hashpartitioning"), answer)


def _merged(spark: SparkSession, way: Way) -> Taken:
    query = _MERGE.format(**_names(way))
    plan = spark.sql(f"EXPLAIN {query}").collect()[0][0] if way.name.startswith("ours") else ""
    start = time.perf_counter()
    spark.sql(query).collect()
    return Taken([time.perf_counter() - start], plan.count("Exchange hashpartitioning"))


def _names(way: Way) -> Mapping[str, str]:
    return {name: way.table.format(name) for name in "abs"}


def _cell(taken: Taken | None) -> str:
    if taken is None:
        return "-"
    return f"{median(taken.seconds):.2f}" + (f", {taken.shuffles} shuffles" if taken.shuffles else "")


# --- A week of small batches


def week(place: Place, batches: int, seed: int = 7) -> list[str]:
    """The lines of a table: files and seconds per batch, at the beginning and at the end."""
    spark = place.spark
    sizes = [random.Random(seed + number).randint(1, _MOST) for number in range(batches)]
    starts = [sum(sizes[:number]) for number in range(batches)]
    lines = [
        "| | files after a tenth | most | at the end | seconds per batch, first tenth | last tenth | reading all |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name, append, files, read in _sinks(place):
        seconds, counts = [], []
        for start, size in zip(starts, sizes, strict=True):
            frame = spark.range(start, start + size, 1, 1).selectExpr(
                "id", "CAST(id % 288 AS INT) AS slot", "hash(id) AS v"
            )
            began = time.perf_counter()
            append(frame)
            seconds.append(time.perf_counter() - began)
            counts.append(files())
        began = time.perf_counter()
        if tuple(read().selectExpr("count(*)", "sum(id)").collect()[0]) != (sum(sizes), sum(range(sum(sizes)))):
            raise AssertionError(f"{name} lost rows")
        reading, tenth = time.perf_counter() - began, max(1, batches // 10)
        cells = (counts[tenth - 1], max(counts), counts[-1])
        times = (median(seconds[:tenth]), median(seconds[-tenth:]), reading)
        lines.append(f"| {name} | {' | '.join(f'{c:,}' for c in cells)} | {' | '.join(f'{t:.2f}' for t in times)} |")
    return lines


Sink = tuple[str, Callable[[DataFrame], None], Callable[[], int], Callable[[], DataFrame]]


def _sinks(place: Place) -> Iterator[Sink]:
    spark, catalog = place.spark, LanceCatalog(str(place.home / "lake"), spark=place.spark)
    for name, value in (("ours, auto_compact", "true"), ("ours", "false")):
        table = f"week_{value}"
        spark.sql(f"CREATE TABLE lake.{table} (id BIGINT, slot INT, v INT) TBLPROPERTIES (auto_compact = '{value}')")
        uri = catalog.table(table).location.uri
        yield (
            name,
            partial(_append, f"lake.{table}"),
            partial(_fragments, uri),
            partial(spark.table, f"lake.{table}"),
        )
    path = f"{place.home}/week.parquet"
    yield (
        "Parquet",
        lambda frame: frame.write.mode("append").parquet(path),
        lambda: len(list(Path(path).glob("*.parquet"))),
        lambda: spark.read.parquet(path),
    )
    if place.delta:
        spark.conf.set("spark.databricks.delta.autoCompact.enabled", "true")
        delta = f"{place.home}/week.delta"
        yield (
            "Delta, autoCompact",
            lambda frame: frame.write.format("delta").mode("append").save(delta),
            lambda: len(spark.read.format("delta").load(delta).inputFiles()),
            lambda: spark.read.format("delta").load(delta),
        )
    if place.iceberg:
        spark.sql("CREATE TABLE ice.week (id BIGINT, slot INT, v INT)")
        yield (
            "Iceberg",
            partial(_append, "ice.week"),
            lambda: spark.table("ice.week.files").count(),
            lambda: spark.table("ice.week"),
        )


def _append(table: str, frame: DataFrame) -> None:
    frame.writeTo(table).append()


def _fragments(uri: str) -> int:
    return len(lance.dataset(uri).get_fragments())
