"""How long it takes to plan a query over many fragments, once the DataFrame is there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

from pyspark.sql import DataFrame, SparkSession

from benchmarks import measure
from benchmarks.data import many_fragments
from benchmarks.measure import Answer, Case, Result, Target, Work
from benchmarks.peers import OURS
from benchmarks.reading.ways import PLAIN
from lance_spark.scan import fragment_reads

SIZES = {1_000: 0.02, 100_000: 0.5}
"""Fragments, and seconds to stay below."""


def planning(spark: SparkSession, rounds: int) -> Iterator[Result]:
    """From the DataFrame to the division among tasks; each query is another one.

    Once with what a session keeps of a version, and once as the first query of that version.
    """
    for fragments, seconds in SIZES.items():
        uri = many_fragments(fragments)
        print(f"measuring: planning, {fragments:,} fragments", flush=True)
        for moment, before in {"": _nothing, ", first use": _forget}.items():
            ways = {"ours": OURS, "plain": PLAIN}
            work = {who: _planned(spark.read.format(name).load(uri), before) for who, name in ways.items()}
            case = Case(work, (Target(f"{seconds * 1000:g} ms", seconds=seconds),))
            yield measure.run(f"plan {fragments:,} fragments{moment}", case, rounds)


def _nothing() -> None:
    pass


def _forget() -> None:
    fragment_reads._kept_fragments.cache_clear()
    fragment_reads._kept_schema_of.cache_clear()


def _planned(frame: DataFrame, before: Callable[[], None]) -> Work:
    turn = count()

    def once() -> Answer:
        before()
        query = frame.where(f"value > {next(turn)} - 1000").select("id")
        return [min(1, query.rdd.getNumPartitions())]

    return once
