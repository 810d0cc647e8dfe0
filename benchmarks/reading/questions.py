"""The questions: plain DataFrame code, the same for everyone who is asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from benchmarks.measure import Answer, Target

Query: TypeAlias = "Callable[[DataFrame, DataFrame], DataFrame]"
"""Of a table and of the stations."""
_REGION = "region = 7"


@dataclass(frozen=True)
class Question:
    """What is asked of one table, and what ours is to reach."""

    name: str
    table: str
    query: Query
    targets: tuple[Target, ...] = ()
    counted_only: bool = False
    """Whether any rows are right."""
    export: bool = False
    """Whether the rows are thrown away inside Spark."""


def _times(factor: float) -> Target:
    return Target(f"{factor:g} x Parquet", "parquet", factor)


def questions(rows: int) -> list[Question]:
    """All of them, for tables of so many rows."""
    middle, share = rows // 2, max(1, rows // 1_000)
    exported = min(rows, 1_000_000)
    look_up = (_times(4), Target("60 ms", seconds=0.06))

    def some(table: DataFrame) -> DataFrame:
        return table.where(f"id BETWEEN {middle} AND {middle + share - 1}").select("id", "delay", "carrier")

    return [
        Question("aggregate over a full scan", "narrow", lambda t, _: _grouped(t), (_times(1.2),)),
        Question("aggregate over 4 of 24 columns", "wide", lambda t, _: _grouped(t), (_times(1.3),)),
        Question("filtered aggregate", "narrow", lambda t, _: _grouped(t.where("delay > 1.5")), (_times(1),)),
        Question("filtered aggregate", "wide", lambda t, _: _grouped(t.where("delay > 1.5")), (_times(1),)),
        Question("count()", "narrow", lambda t, _: t.groupBy().count(), (_times(3),)),
        Question("count()", "wide", lambda t, _: t.groupBy().count(), (_times(3),)),
        Question("look-up by an indexed key", "narrow", lambda t, _: t.where(f"id = {middle}"), look_up),
        Question("look-up by an indexed key", "wide", lambda t, _: t.where(f"id = {middle}"), look_up),
        Question("range of 0.1 %", "narrow", lambda t, _: some(t), (_times(2),)),
        Question("range of 0.1 %", "wide", lambda t, _: some(t), (_times(2),)),
        Question("limit(10)", "narrow", lambda t, _: t.limit(10), (_times(3),), counted_only=True),
        Question("limit(10)", "wide", lambda t, _: t.limit(10), (_times(3),), counted_only=True),
        Question("star join with a selective dimension", "narrow", _star, (_times(1),)),
        Question("star join with a selective dimension", "wide", _star, (_times(1),)),
        Question(
            f"export of {exported:,} rows",
            "narrow",
            lambda t, _: t.where(f"id < {exported}"),
            (Target("0.9 x the channel's floor", "floor", 0.9),),
            export=True,
        ),
        Question("full scan", "vectors", lambda t, _: t.agg(f.sum(f.element_at("vector", 1)))),
        Question("aggregate over labels", "vectors", lambda t, _: t.groupBy("label").agg(f.max("id"))),
        Question("limit(10)", "vectors", lambda t, _: t.limit(10), counted_only=True),
    ]


def ask(question: Question, frame: DataFrame) -> Answer:
    """Run the query: how many rows came, and the sum of their numbers."""
    if question.export:
        frame.write.format("noop").mode("overwrite").save()
        return []
    rows = frame.collect()
    if question.counted_only:
        return [len(rows)]
    return [len(rows), sum(value for row in rows for value in row if isinstance(value, int | float))]


def _grouped(table: DataFrame) -> DataFrame:
    return table.groupBy("carrier").agg(f.avg("delay"), f.sum("station"), f.max("id"))


def _star(table: DataFrame, stations: DataFrame) -> DataFrame:
    return table.join(stations.where(_REGION), "station").groupBy("region").agg(f.count("*"), f.sum("delay"))
