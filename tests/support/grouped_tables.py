"""Random partitioned tables with everything that happens to one, and random queries that a grouping may serve."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
from pyspark.errors import PySparkException

from lance_spark.errors import LanceSparkError

COLUMNS = """
    CAST(if({r} % 17 = 0, NULL, {r} % 30) AS BIGINT) AS id,
    CAST(if({r} % 13 = 0, NULL, {r} % 4 - 1) AS INT) AS day,
    CAST({r} % 5 AS SMALLINT) AS s,
    if({r} % 11 = 0, NULL, timestamp_seconds({r} % 24 * 5000 - 60000)) AS ts,
    CAST(timestamp_seconds({r} % 24 * 5000 - 60000) AS TIMESTAMP_NTZ) AS n,
    date_add(DATE'1969-12-20', CAST({r} % 20 AS INT)) AS d,
    element_at(array('a', 'A', 'b', 'B', '', NULL, 'ab', 'abc', 'ä'), CAST({r} % 9 + 1 AS INT)) AS c,
    element_at(array('a', 'A', 'b', 'B', 'x'), CAST({r} % 5 + 1 AS INT)) COLLATE UTF8_LCASE AS k,
    element_at(array(0.0D, -0.0D, double('NaN'), 1.5D, NULL), CAST({r} % 5 + 1 AS INT)) AS f,
    CAST({r} % 6 / 4 AS DECIMAL(6, 2)) AS x,
    if({r} % 19 = 0, NULL, CAST({r} % 6 / 4 AS DECIMAL(18, 3))) AS y,
    CAST({r} % 5 / 4 - 1 AS DECIMAL(38, 10)) AS w,
    element_at(array(DATE'1500-02-28', DATE'1582-10-04', DATE'1582-10-15', DATE'1969-12-31', NULL), {e}) AS e,
    element_at(array(TIMESTAMP'1500-01-01 00:00:00Z', TIMESTAMP'1582-10-10 00:00:00Z', TIMESTAMP'1969-12-31 22:00:00Z',
        TIMESTAMP'1969-12-31 23:59:59.999999Z', TIMESTAMP'1970-01-01 00:00:00Z'), {e}) AS m,
    element_at(array('😀', '😀a', 'ab', 'ab ', ' ab', '\uffff', ''), CAST({r} % 7 + 1 AS INT)) AS u,
    element_at(array(X'', X'61', X'FF', X'6100', NULL), {e}) AS b,
    element_at(array(float(0.1), float('-0.0'), float('NaN'), float(0), NULL, float('-Infinity')),
        CAST({r} % 6 + 1 AS INT)) AS h,
    CAST({r} % 7 - 3 AS TINYINT) AS i,
    {r} % 2 = 0 AS o,
    {r} AS v
"""
LAYOUTS = (
    "day", "bucket(4, id)", "bucket(8, id)", "day, bucket(4, id)", "c", "bucket(3, c)", "days(ts)", "hours(n)",
    "months(d)", "years(ts)", "truncate(1, c)", "truncate(2, day)", "s", "x", "o", "bucket(4, f)", "bucket(2, day), o",
    "d", "ts", "n", "days(d)", "bucket(4, s)", "bucket(4, ts)", "bucket(4, k)", "k", "y", "w", "e", "years(e)", "m",
    "days(m)", "u", "truncate(1, u)", "bucket(4, u)", "bucket(2, o)", "bucket(4, d)", "bucket(4, n)", "bucket(4, e), o",
    "bucket(4, h)", "i", "bucket(3, i)", "truncate(3, i)",
)  # fmt: skip
KEYS = ("id", "day", "s", "ts", "n", "d", "c", "k", "f", "x", "o", "y", "w", "e", "m", "u", "b", "h", "i")


def rows(spark: Any, seed: int, count: int) -> Any:
    """Some rows of every kind: nulls, NaN, two zeros, texts that a collation takes for one, moments before 1970."""
    shuffled = f"CAST((id * 7919 + {seed}) % 1009 AS BIGINT)"
    return (
        spark.range(count)
        .selectExpr(f"{shuffled} AS r")
        .selectExpr(*_split(COLUMNS.format(r="r", e="CAST(r % 5 + 1 AS INT)")))
    )


def _split(columns: str) -> list[str]:
    found, depth, start = [], 0, 0
    for at, sign in enumerate(columns):
        depth += {"(": 1, ")": -1}.get(sign, 0)
        if sign == "," and depth == 0:
            found.append(columns[start:at])
            start = at + 1
    return [*found, columns[start:]]


def attempted(change: Callable[[], None]) -> str:
    """What was done: the name of the change, and why it was refused."""
    try:
        change()
    except (PySparkException, LanceSparkError, OSError, ValueError) as refused:
        return f"{change.__name__} refused: {str(refused)[:80]}"
    return change.__name__


class Random:
    """One table of the catalog ``lake``, and its changes by everybody who may change it."""

    def __init__(self, spark: Any, lake: Any, name: str, choose: random.Random) -> None:
        self.spark, self.lake, self.name, self.choose = spark, lake, name, choose
        self.layout = choose.choice(LAYOUTS)
        rows(spark, choose.randrange(1000), choose.choice([40, 200])).createOrReplaceTempView("new_rows")
        try:
            spark.sql(f"CREATE TABLE lake.ns1.{name} PARTITIONED BY ({self.layout}) AS TABLE new_rows")
        except PySparkException:  # a layout that its columns do not allow
            self.layout = "bucket(4, id)"
            spark.sql(f"CREATE TABLE lake.ns1.{name} PARTITIONED BY ({self.layout}) AS TABLE new_rows")
        self.done: list[str] = []
        changes: list[Callable[[], None]] = [
            self.append, self.append, self.append_by_another, self.delete, self.delete_by_another, self.move_keys,
            self.merge, self.update_by_another, self.compact_by_another, self.optimize, self.lose_facts,
            self.damage_facts, self.declare_another, self.analyze, self.compact_and_append, self.rename_by_another,
        ]  # fmt: skip
        for _ in range(choose.choice([0, 1, 1, 2, 3, 4])):
            self.done.append(attempted(choose.choice(changes)))

    @property
    def uri(self) -> str:
        return str(self.lake.table(f"ns1.{self.name}").location.uri)

    def append(self) -> None:
        rows(self.spark, self.choose.randrange(1000), 30).createOrReplaceTempView("new_rows")
        self.spark.sql(f"INSERT INTO lake.ns1.{self.name} TABLE new_rows")

    def append_by_another(self) -> None:
        taken = lance.dataset(self.uri).to_table(limit=25)
        lance.write_dataset(taken, self.uri, mode="append")

    def delete(self) -> None:
        self.spark.sql(f"DELETE FROM lake.ns1.{self.name} WHERE v % {self.choose.choice([2, 3, 7])} = 0")

    def delete_by_another(self) -> None:
        lance.dataset(self.uri).delete("day = 1 OR v > 900")

    def move_keys(self) -> None:
        put = self.choose.choice(
            ["id = id + 1", "day = day + 1, id = NULL", "c = 'b'", "ts = ts + INTERVAL 1 DAY", "f = -0.0D"]
        )
        self.spark.sql(f"UPDATE lake.ns1.{self.name} SET {put} WHERE v % 4 = 1")

    def merge(self) -> None:
        rows(self.spark, self.choose.randrange(1000), 30).createOrReplaceTempView("new_rows")
        self.spark.sql(
            f"MERGE INTO lake.ns1.{self.name} t USING (SELECT DISTINCT * FROM new_rows WHERE id IS NOT NULL) s "
            "ON t.v = s.v AND t.id = s.id AND 1 = 0 WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )

    def update_by_another(self) -> None:
        lance.dataset(self.uri).update({"id": "id + 2", "day": "day - 1"}, where="v % 3 = 0")

    def compact_by_another(self) -> None:
        lance.dataset(self.uri).optimize.compact_files()

    def compact_and_append(self) -> None:
        self.compact_by_another()
        self.append()

    def optimize(self) -> None:
        self.lake.table(f"ns1.{self.name}").optimize()

    def analyze(self) -> None:
        self.lake.table(f"ns1.{self.name}").layout.analyze()

    def declare_another(self) -> None:
        table = self.lake.table(f"ns1.{self.name}")
        table.layout.partition_by(self.choose.choice(LAYOUTS))
        if self.choose.random() < 0.5:
            self.append()

    def rename_by_another(self) -> None:
        lance.dataset(self.uri).alter_columns({"path": "id", "name": "v2"})
        lance.dataset(self.uri).add_columns({"id": "v2 + 1"})

    def lose_facts(self) -> None:
        for file in self._facts():
            if self.choose.random() < 0.5:
                os.remove(file)

    def damage_facts(self) -> None:
        for file in self._facts()[:1]:
            content = bytearray(file.read_bytes())
            content[self.choose.randrange(len(content))] ^= 1
            file.write_bytes(bytes(content))

    def _facts(self) -> list[Path]:
        return sorted(Path(self.uri, "_facts").glob("*.json"))


def queries(choose: random.Random) -> list[str]:
    """Queries over the views ``a`` and ``b``."""
    key, other = choose.choice(KEYS), choose.choice(KEYS)
    kind = choose.choice(["JOIN", "LEFT JOIN", "FULL JOIN", "RIGHT JOIN"])
    half = choose.choice(["LEFT SEMI JOIN", "LEFT ANTI JOIN"])
    narrow = choose.choice(["v % 2 = 0", "day = 1", "id < 20", "c = 'a'", "f > 0", "ts > TIMESTAMP'1970-01-02'"])
    counted = "count(*), sum(a.v), sum(b.v)"
    return [
        f"SELECT {counted} FROM a {kind} b ON a.{key} = b.{key}",
        f"SELECT {counted} FROM a {kind} b ON a.{key} <=> b.{key} AND a.{other} = b.{other}",
        f"SELECT a.{key}, {counted} FROM a JOIN b ON a.{key} = b.{key} GROUP BY a.{key}",
        f"SELECT count(*), sum(v) FROM a {half} b ON a.{key} = b.{key}",
        f"SELECT {counted} FROM a JOIN b ON CAST(a.{key} AS STRING) = CAST(b.{key} AS STRING)",
        f"SELECT {counted} FROM (SELECT * FROM a WHERE {narrow}) a {kind} b ON a.{key} = b.{key}",
        f"SELECT {key}, count(*), sum(v) FROM a GROUP BY {key}",
        f"SELECT {key}, {other}, count(*), max(v) FROM a GROUP BY {key}, {other}",
        f"SELECT {key}, v, count(*) OVER (PARTITION BY {key}) FROM a",
        f"SELECT count(*), count(DISTINCT {key}) FROM a",
        f"SELECT {key} FROM a INTERSECT SELECT {key} FROM b",
        f"SELECT {key} FROM a EXCEPT SELECT {key} FROM b",
        f"SELECT {counted} FROM a JOIN b ON a.{key} = b.{key} "
        f"JOIN (SELECT DISTINCT {key} AS q FROM b WHERE {narrow}) e ON a.{key} = e.q",
        f"SELECT x1.{key}, x1.n, x2.m FROM (SELECT {key}, count(*) AS n FROM a GROUP BY {key}) x1 "
        f"FULL JOIN (SELECT {key}, max(v) AS m FROM b GROUP BY {key}) x2 ON x1.{key} = x2.{key}",
    ]


SETTINGS = {
    "spark.sql.sources.v2.bucketing.enabled": ("true",),
    "spark.sql.sources.v2.bucketing.pushPartValues.enabled": ("true", "false"),
    "spark.sql.sources.v2.bucketing.partiallyClusteredDistribution.enabled": ("false", "true"),
    "spark.sql.sources.v2.bucketing.allowCompatibleTransforms.enabled": ("false", "true"),
    "spark.sql.sources.v2.bucketing.shuffle.enabled": ("false", "true"),
    "spark.sql.requireAllClusterKeysForCoPartition": ("true", "false"),
    "spark.sql.sources.v2.bucketing.allowKeysSubsetOfPartitionKeys.enabled": ("false", "true"),
    "spark.sql.sources.v2.bucketing.allowJoinKeysSubsetOfPartitionKeys.enabled": ("false", "true"),
    "spark.sql.adaptive.enabled": ("true", "false"),
    "spark.sql.session.timeZone": ("UTC", "America/St_Johns", "Asia/Kathmandu"),
    "spark.sql.autoBroadcastJoinThreshold": ("-1", "-1", "10MB"),
    "spark.lance.grouping": ("auto", "always"),
}


def told(value: Any) -> str:
    """A row's text: all zeros are one, and so are all NaN."""
    if isinstance(value, float):
        return repr(value + 0.0)
    return repr(value)


def as_texts(frame: Any) -> list[tuple[str, ...]]:
    """The rows of a result, in an order of their own."""
    return sorted(tuple(told(value) for value in row) for row in frame.collect())


def parquet_copy(spark: Any, uri: str, path: str, expected: Any) -> Any:
    """A copy in Parquet of what the frame has, which has as many rows as pylance finds."""
    expected.write.parquet(path)
    copy = spark.read.parquet(path)
    assert copy.count() == lance.dataset(uri).count_rows()
    return copy
