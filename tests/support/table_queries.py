"""Queries over one table, as people write them, and what each needs of it.

``python -m support.table_queries classic|connect`` adds the plans that this Spark explains them with to
``recorded_plans.json``, which the tests of the text's meaning read.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

RECORDED = Path(__file__).with_name("recorded_plans.json")
ROWS = 400
ALL = ("id", "k", "x", "s", "d", "person", "never")

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("k", pa.int32()),
        ("x", pa.float64()),
        ("s", pa.string()),
        ("d", pa.date32()),
        ("person", pa.struct([("name", pa.string()), ("age", pa.int64())])),
        pa.field("never", pa.int64(), nullable=False),
    ]
)


def rows() -> pa.Table:
    """Nulls in some columns, a NaN, and strings that look like something else."""
    numbers = range(ROWS)
    odd = ["n3", "a,b", "x) AND (k#1 > 5", None, "a\n+- Project [id#1L]", "N3"]
    return pa.table(
        {
            "id": [None if i == 7 else i for i in numbers],
            "k": [None if i % 11 == 0 else i % 7 for i in numbers],
            "x": [float("nan") if i == 5 else i / ROWS for i in numbers],
            "s": [odd[i % len(odd)] for i in numbers],
            "d": [date.fromordinal(date(2013, 1, 1).toordinal() + i) for i in numbers],
            "person": [{"name": f"p{i % 3}", "age": i} for i in numbers],
            "never": list(numbers),
        },
        schema=SCHEMA,
    )


@dataclass(frozen=True)
class Needed:
    """A query and what it needs; None for all columns or all rows."""

    query: Callable[[DataFrame], DataFrame]
    columns: tuple[str, ...] | None
    filter: str | None = None
    limit: int | None = None


def _self_join(table: DataFrame) -> DataFrame:
    left, right = table.where("k = 1").alias("l"), table.where("k = 2").alias("r")
    return left.join(right, f.col("l.id") + 1 == f.col("r.id")).select("l.id", "r.id", "r.s")


def _star_join(table: DataFrame) -> DataFrame:
    days = table.sparkSession.range(3).withColumnRenamed("id", "day")
    return table.join(days, f.col("k") == f.col("day")).groupBy("s").agg(f.max("x"))


def _own_maximum(table: DataFrame) -> DataFrame:
    newest = table.groupBy().agg(f.max("id").alias("m"))
    return table.where("x > 0.5").join(newest, f.col("id") == f.col("m")).select("x")


def _sql(table: DataFrame) -> DataFrame:
    text = "SELECT k, count(*) FROM {t} WHERE x > (SELECT avg(id) / 800 FROM {t}) GROUP BY k"
    return table.sparkSession.sql(text, t=table)


def _view(table: DataFrame) -> DataFrame:
    table.createOrReplaceTempView("kept_by_the_query")
    return table.sparkSession.sql("SELECT k FROM kept_by_the_query WHERE id > 390")


def _runs(table: DataFrame) -> DataFrame:
    return table.orderBy("id").limit(table.where("k = 1").count())


def _batches(table: DataFrame) -> DataFrame:
    return table.mapInArrow(lambda batches: batches, table.schema).select("id")


_ABOVE = "((`x` > CAST('{0}' AS DOUBLE) OR `x` < CAST('-inf' AS DOUBLE)))"

QUERIES = {
    "aggregate": Needed(
        lambda t: t.where("x > 0.9").groupBy("K").agg(f.max("ID")), ("id", "k", "x"), _ABOVE.format(0.9)
    ),
    "all columns": Needed(lambda t: t.where("x > 0.9"), None, _ABOVE.format(0.9)),
    "count": Needed(lambda t: t.groupBy().count(), ()),
    "count of a column": Needed(lambda t: t.agg(f.count("never"), f.count("k")), ("k",)),
    "look-up": Needed(lambda t: t.where("id = 17"), None, "(`id` = 17)"),
    "string": Needed(
        lambda t: t.where("s = 'n3' AND NOT startswith(s, 'q')").select("id"),
        ("id", "s"),
        "((`s` = 'n3') AND (NOT starts_with(`s`, 'q')))",
    ),
    "strings": Needed(lambda t: t.where(f.col("s").isin("a,b", "q")).select("id"), ("id", "s")),
    "string like a condition": Needed(
        lambda t: t.where(f.col("s") == "x) AND (k#1 > 5").select("id"), ("id", "s", "k")
    ),
    "string like a plan": Needed(lambda t: t.where(f.col("s") == "a\n+- Project [id#1L]").select("id"), None),
    "constants": Needed(
        lambda t: t.where(
            "k IN (1, 2) AND id IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 30, 31) AND d >= DATE'2013-01-02' AND person.age < 90"
            " AND NOT (never = 4) AND id + 1 > 2 AND year(d) = 2013 AND s LIKE 'n%3' AND x < 1e30"
        ).select("id"),
        ALL,
        "(((`k` IN (1, 2))) AND ((`id` IN (1, 2, 3, 30, 31, 4, 5, 6, 7, 8, 9))) AND (`d` >= CAST(15707 AS DATE)) AND"
        " (`person`.`age` < 90) AND (`never` <> 4) AND ((`x` < CAST('1e+30' AS DOUBLE) AND `x` >= CAST('-inf' AS"
        " DOUBLE)) AND starts_with(`s`, 'n') AND ends_with(`s`, '3'))",
    ),
    "either": Needed(
        lambda t: t.where("k = 1 OR id < 5 AND d > DATE'2013-02-01'").select("id"),
        ("id", "k", "d"),
        "((`k` = 1) OR ((`id` < 5) AND (`d` > CAST(15737 AS DATE))))",
    ),
    "null-safe": Needed(
        lambda t: t.where("NOT (k <=> 3) AND s IS NULL").select("id"),
        ("id", "k", "s"),
        "(((`k` <> 3 OR `k` IS NULL)) AND (`s` IS NULL))",
    ),
    "nested": Needed(
        lambda t: t.where("person.name = 'p1'").select("person.age"), ("person",), "(`person`.`name` = 'p1')"
    ),
    "self-join": Needed(_self_join, ("id", "k", "s"), "((`k` = 1) OR (`k` = 2))"),
    "star join": Needed(_star_join, ("k", "x", "s")),
    "own maximum": Needed(_own_maximum, ("id", "x")),
    "sql": Needed(_sql, ("id", "k", "x")),
    "view": Needed(_view, None),
    "runs": Needed(_runs, None),
    "batches": Needed(_batches, None),
    "limit": Needed(lambda t: t.select("never").limit(500), ("never",), limit=500),
    "limit of matches": Needed(lambda t: t.where("k = 1").select("k").limit(3), ("k",), "(`k` = 1)"),
    "matches of a limit": Needed(lambda t: t.limit(400).where("k = 1").select("id"), ("id", "k"), limit=400),
    "top": Needed(lambda t: t.orderBy("x").limit(3).select("id"), ("id", "x")),
    "window": Needed(
        lambda t: t.selectExpr("id", "row_number() OVER (PARTITION BY k ORDER BY never) AS r").where("r = 2"),
        ("id", "k", "never"),
    ),
    "union": Needed(lambda t: t.select("id").union(t.where("id = 3").select("k")), ("id", "k")),
    "distinct": Needed(lambda t: t.select("k", "s").distinct(), ("k", "s")),
    "exploded": Needed(lambda t: t.selectExpr("id", "explode(split(s, 'n'))"), ("id", "s")),
    "dropped again": Needed(
        lambda t: t.withColumn("y", f.col("d")).drop("y").select("k", f.isnotnull("never")), ("k",)
    ),
    "function": Needed(lambda t: t.where(f.udf(lambda v: v == 3, "boolean")("k")).select("id"), ("id", "k")),
}


def main(kind: str) -> None:
    from pyspark.sql import SparkSession

    from lance_spark.engine.types_spark import to_spark
    from lance_spark.session.narrow_query import explained, probe

    builder = SparkSession.builder.config("spark.ui.enabled", "false")
    spark = (builder.remote("local[2]") if kind == "connect" else builder.master("local[2]")).getOrCreate()
    texts = {}
    for name, needed in QUERIES.items():
        if name != "runs":
            text = explained(spark, needed.query(probe(spark, to_spark(SCHEMA))))
            texts[name] = text[text.index("== Analyzed") : text.index("== Physical Plan ==") + 22].split("\n")
    known = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    known[f"{spark.version} {kind}"] = texts
    RECORDED.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
