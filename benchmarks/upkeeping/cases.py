"""What is measured: compaction, orders, indexes, what branches cost, a check of many files, merges after compaction,
and where each of them is faster, on threads or on Spark."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import lance
from pyspark.sql import SparkSession

from benchmarks.measure import Result, Target
from benchmarks.merging.data import Shape
from benchmarks.merging.data import table as merging_table
from benchmarks.merging.growth import ours as merging
from benchmarks.merging.measure import Details, Run, Work, measure
from benchmarks.one_core import on_one_core
from benchmarks.peers import OURS
from benchmarks.upkeeping.data import Kept, branches, documents, files, numbers, small_fragments
from benchmarks.upkeeping.delta import DeltaPlace, statement
from lance_spark import LanceTable
from lance_spark.engine.session_spark import RunOn

TARGET_ROWS = 1_000_000
_FACTOR = 1.6
_ONE_DAY = "day = DATE '2013-07-04'"
_MERGED_FRAGMENTS = (100, 1_000, 10_000)
_MERGED_ROWS = 100
"""Of each of these fragments."""
_INDEXES = {"btree": "id", "ivf_pq": "emb", "inverted": "text"}
"""Kinds, and the columns that they are on."""
_BY_ONE = (
    Target(f"{_FACTOR} x pylance in one process", "pylance", _FACTOR),
    Target(f"{_FACTOR} x pylance with one executor's core", "pylance_one_core", _FACTOR),
)


@dataclass(frozen=True)
class Cases:
    """The cases at one scale."""

    start: Callable[[], SparkSession]
    scale: float
    rounds: int
    delta: bool

    @cached_property
    def spark(self) -> SparkSession:
        return self.start()

    def _of(self, number: int) -> int:
        return max(10, round(number * self.scale))

    def _measured(self, name: str, work: dict[str, Work], targets: tuple[Target, ...] = ()) -> Result:
        return measure(name, work, targets, self.rounds)

    def compaction(self) -> Iterator[Result]:
        """5,000 small fragments, and how long it takes to read them before and after."""
        small = small_fragments(self._of(5_000))
        name = f"{self._of(5_000):,} fragments"
        work = {
            "ours": Work(small, partial(self._optimize, {})),
            "on_spark": Work(small, partial(self._optimize, {}, run_on="spark")),
            "pylance": Work(small, partial(partial, _compact)),
            "pylance_one_core": Work(small, lambda uri: lambda: on_one_core(_compact, uri)),
            **self._delta(small, self._of(5_000), "OPTIMIZE delta.`{}`"),
        }
        yield self._measured(f"compact {name}", work, _BY_ONE)
        reads = {
            "ours": Work(small, lambda uri: self._read(uri, compacted=True), check=False),
            "before": Work(small, lambda uri: self._read(uri, compacted=False), check=False),
        }
        yield self._measured(f"read them, compacted or before, {name}", reads)

    def order(self) -> Iterator[Result]:
        """The same fragments, by two columns; then a question about one day."""
        small = small_fragments(self._of(5_000))
        for name, given in (("sorted", {"sort_by": ["day", "carrier"]}), ("z-order", {"zorder": ["day", "carrier"]})):
            work = {
                "ours": Work(small, partial(self._optimize, given)),
                "rewriting": Work(small, self._rewriting),
                **self._delta(small, self._of(5_000), "OPTIMIZE delta.`{}` ZORDER BY (day, carrier)"),
            }
            yield self._measured(f"{name}, {self._of(5_000):,} fragments", work, (Target("Delta", "delta", 1.0),))
        asks = {
            "ours": Work(small, lambda uri: self._ask(uri, {"sort_by": ["day", "carrier"]}), check=False),
            "z_order": Work(small, lambda uri: self._ask(uri, {"zorder": ["day", "carrier"]}), check=False),
            "compacted": Work(small, lambda uri: self._ask(uri, {}), check=False),
        }
        yield self._measured("sum over one day, from sorted rows or others", asks)

    def indexes(self) -> Iterator[Result]:
        """A BTREE, an IVF_PQ and a text index."""
        table = documents(self._of(1_000_000))
        for kind in _INDEXES:
            given = _settings(kind, table)
            work = {
                "ours": Work(table, partial(self._index, kind, given)),
                "on_spark": Work(table, partial(self._index, kind, given, run_on="spark")),
                "pylance": Work(table, partial(partial, _pylance_index, kind, given)),
                "pylance_one_core": Work(table, partial(partial, _index_on_one_core, kind, given)),
            }
            told = "".join(f", {key} {value}" for key, value in given.items())
            yield self._measured(f"{kind}, {table.rows:,} rows{told}", work, _BY_ONE)

    def usage(self) -> Iterator[Result]:
        """What 1,000 branches cost."""
        table = branches(self._of(1_000))
        work = {
            "ours": Work(table, lambda uri: lambda: self._told(uri), check=False),
            "files_alone": Work(table, lambda uri: lambda: _listed(uri), check=False),
        }
        yield self._measured(f"storage of {self._of(1_000):,} branches", work)

    def check(self) -> Iterator[Result]:
        """fsck of 1,000,000 files."""
        table = files(self._of(1_000_000))
        work = {
            "ours": Work(table, lambda uri: lambda: self._checked(uri), check=False),
            "files_alone": Work(table, lambda uri: lambda: _listed(uri), check=False),
        }
        yield self._measured(f"fsck of {self._of(1_000_000):,} files", work)

    def merges(self) -> Iterator[Result]:
        """One delta, merged into a main that was compacted since: cost follows the delta."""
        for fragments in dict.fromkeys(self._of(number) for number in _MERGED_FRAGMENTS):
            table = merging_table(Shape(fragments, _MERGED_ROWS))
            work = {"ours": Work(table, _merge_after_compaction), "not_compacted": Work(table, merging)}
            yield self._measured(f"merge into {fragments:,} fragments that were compacted", work)

    def border(self) -> Iterator[Result]:
        """Small and large work of each verb on threads, on Spark, and where ``auto`` sends it."""
        for fragments in (20, 200, 1_000, 5_000):
            small = small_fragments(self._of(fragments))
            name = f"{self._of(fragments):,} fragments"
            yield self._on_each(f"compact {name}", small, partial(self._optimize, {}))
            yield self._on_each(f"sort {name}", small, partial(self._optimize, {"sort_by": ["day", "carrier"]}))
            yield self._on_each(f"cast a column of {name}", numbers(self._of(fragments)), self._cast)
        for rows in (10_000, 100_000, 1_000_000):
            table = documents(self._of(rows))
            for kind in _INDEXES:
                given = _settings(kind, table)
                yield self._on_each(f"{kind}, {table.rows:,} rows", table, partial(self._index, kind, given))
        for count in (10_000, 100_000):
            table = files(self._of(count))
            yield self._on_each(f"fsck of {self._of(count):,} files", table, self._fsck, check=False)
        for count in (100, 1_000):
            table = branches(self._of(count))
            yield self._on_each(f"storage of {self._of(count):,} branches", table, self._storage, check=False)

    def _on_each(self, name: str, table: Kept, act: Callable[..., Run], check: bool = True) -> Result:
        work = {place: Work(table, partial(act, run_on=place), check=check) for place in ("auto", "local", "spark")}
        return self._measured(name, {"ours": work.pop("auto"), **work})

    def _cast(self, uri: str, run_on: RunOn) -> Run:
        table = self._table(uri)

        def run() -> None:
            table.alter_columns({"number": "bigint"}, run_on=run_on)

        return run

    def _fsck(self, uri: str, run_on: RunOn) -> Run:
        return lambda: {"findings": len(self._table(uri).fsck(run_on=run_on).findings)}

    def _storage(self, uri: str, run_on: RunOn) -> Run:
        return lambda: {"characters": len(str(self._table(uri).storage(run_on=run_on)))}

    def _table(self, uri: str) -> LanceTable:
        return LanceTable.for_path(uri, spark=self.spark)

    def _told(self, uri: str) -> Details:
        return {"characters": len(str(self._table(uri).storage()))}

    def _checked(self, uri: str) -> Details:
        return {"findings": len(self._table(uri).fsck().findings)}

    def _optimize(self, given: dict[str, Any], uri: str, run_on: RunOn = "auto") -> Run:
        table = self._table(uri)

        def run() -> Details:
            result = table.optimize(target_rows=TARGET_ROWS, run_on=run_on, **given)
            return {"fragments": result.fragments_added, "depth": result.depth, "depth_before": result.plan.depth}

        return run

    def _rewriting(self, uri: str) -> Run:
        """What one does without: the whole table sorted by Spark, and written anew."""
        table = self._table(uri)

        def run() -> None:
            parts = max(1, lance.dataset(uri).count_rows() // TARGET_ROWS)
            rows = table.to_df().repartitionByRange(parts, "day", "carrier").sortWithinPartitions("day", "carrier")
            table.write(rows, mode="overwrite")

        return run

    def _read(self, uri: str, compacted: bool) -> Run:
        if compacted:
            self._table(uri).optimize(target_rows=TARGET_ROWS)
        frame = self.spark.read.format(OURS).load(uri)

        def run() -> None:
            frame.write.format("noop").mode("overwrite").save()

        return run

    def _ask(self, uri: str, given: dict[str, Any]) -> Run:
        self._table(uri).optimize(target_rows=TARGET_ROWS // 10, **given)
        self._table(uri).indexes.create("day", "zonemap")

        def run() -> None:
            self._table(uri).to_df(filter=_ONE_DAY).selectExpr("sum(x0)", "sum(x1)").collect()

        return run

    def _index(self, kind: str, settings: dict[str, Any], uri: str, run_on: RunOn = "auto") -> Run:
        table = self._table(uri)

        def run() -> None:
            table.indexes.create(_INDEXES[kind], kind, run_on=run_on, **settings)

        return run

    def _delta(self, table: Kept, number: int, text: str) -> dict[str, Work]:
        if not self.delta:
            return {}
        place = DeltaPlace(self.spark, table, number)
        return {"delta": Work(place, lambda path: statement(self.spark, text.format(path)))}


def _settings(kind: str, table: Kept) -> dict[str, Any]:
    """The settings of an index of that kind."""
    partitions = max(2, min(256, table.rows // 1_000))
    return {"num_partitions": partitions, "num_sub_vectors": 8} if kind == "ivf_pq" else {}


def _compact(uri: str) -> None:
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=TARGET_ROWS)


def _pylance_index(kind: str, settings: dict[str, Any], uri: str) -> None:
    dataset = lance.dataset(uri)
    if settings:
        dataset.create_index(_INDEXES[kind], kind.upper(), **settings)
    else:
        dataset.create_scalar_index(_INDEXES[kind], kind.upper())


def _index_on_one_core(kind: str, settings: dict[str, Any], uri: str) -> None:
    on_one_core(_pylance_index, kind, settings, uri)


def _merge_after_compaction(uri: str) -> Run:
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=TARGET_ROWS)
    return merging(uri)


def _listed(uri: str) -> Details:
    """Look at each file, and understand nothing: the floor."""
    count = size = 0
    for directory, _, names in os.walk(uri):
        for name in names:
            count, size = count + 1, size + os.stat(os.path.join(directory, name)).st_size
    return {"files": count, "bytes": size}
