"""What is measured, of whom, and what the project promises for it (issue: "Speed, in a benchmark")."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from itertools import count
from pathlib import Path

import lance
from pyspark.sql import DataFrame

from benchmarks.data import FRAGMENTS, SELECTED_STATIONS, Tables, many_fragments
from benchmarks.measure import Answer, Case, Target, Work
from benchmarks.peers import OURS, Peers
from benchmarks.queries import arrow_totals, fetched, totals
from lance_spark import LanceTable
from lance_spark.scan import read as read_actions
from lance_spark.tables.read import pin_read

SELECTIVE = f"weather_id < {SELECTED_STATIONS}"


def cases(peers: Peers, tables: Tables) -> dict[str, Callable[[], Case]]:
    """The cases by name. Each is built when its turn comes, so that one that is skipped costs nothing."""
    point = f"id = {tables.rows // 3}"
    return {
        "full scan, 4 columns": lambda: _full_scan(peers, tables, "narrow"),
        "full scan, 30 columns": lambda: _full_scan(peers, tables, "flights"),
        "full scan, 512-float vectors": lambda: _full_scan(peers, tables, "vectors"),
        "two of thirty columns": lambda: _two_columns(peers, tables),
        "0.1 % of the rows, no index": lambda: _filtered(peers, tables, SELECTIVE, version=1),
        "0.1 % of the rows, BTREE": lambda: _filtered(peers, tables, SELECTIVE, *_FAST),
        "point look-up, BTREE": lambda: _filtered(peers, tables, point, *_FAST),
        "point look-up, loaded already": lambda: _look_up_again(peers, tables, point),
        "count of all rows": lambda: _count(peers, tables),
        "write, 4 columns": lambda: _write(peers, tables, "narrow"),
        "write, 30 columns": lambda: _write(peers, tables, "flights"),
        f"plan {FRAGMENTS:,} fragments": lambda: _planning(peers),
    }


_FAST = (Target("at least 20 x Parquet", "parquet", 20), Target("faster than the JVM connector", "jvm"))


def _full_scan(peers: Peers, tables: Tables, name: str) -> Case:
    uri, path = tables.lance(name), tables.parquet(name)
    floor = peers.floor(uri, tables.home)
    return Case(
        _known(
            peers,
            ours=lambda: totals(peers.ours(uri)),
            floor=lambda: totals(floor()),
            parquet=lambda: totals(peers.parquet(path)),
            jvm=lambda: totals(peers.jvm(uri)),
            pylance=lambda: arrow_totals(lance.dataset(uri).to_batches(batch_size=65_536)),
        ),
        (Target("at least 0.92 of the floor", "floor", 0.92),),
    )


def _two_columns(peers: Peers, tables: Tables) -> Case:
    columns = ["distance", "air_time"]
    uri, path = tables.lance("flights"), tables.parquet("flights")
    return Case(
        _known(
            peers,
            ours=lambda: totals(peers.ours(uri, columns=",".join(columns))),
            table_of_two=lambda: totals(peers.ours(tables.lance("pair"))),
            parquet=lambda: totals(peers.parquet(path).select(columns)),
            jvm=lambda: totals(peers.jvm(uri).select(columns)),
            pylance=lambda: arrow_totals(lance.dataset(uri).to_batches(columns=columns, batch_size=65_536)),
        ),
        (Target("within 1.3 of a two-column table", "table_of_two", 1 / 1.3),),
    )


def _filtered(peers: Peers, tables: Tables, predicate: str, *targets: Target, version: int = 3) -> Case:
    """All columns of the rows that match, in the driver; version 1 of the flights has no index, version 3 has both."""
    uri, path = tables.lance("flights"), tables.parquet("flights")
    floor = peers.floor(uri, tables.home, filter=predicate)
    return Case(
        _known(
            peers,
            ours=lambda: fetched(peers.ours(uri, version=version, filter=predicate)),
            floor=lambda: fetched(floor()),
            parquet=lambda: fetched(peers.parquet(path).where(predicate)),
            jvm=lambda: fetched(peers.jvm(uri, version=version).where(predicate)),
            pylance=lambda: arrow_totals(lance.dataset(uri, version=version).to_batches(filter=predicate)),
        ),
        targets,
    )


def _look_up_again(peers: Peers, tables: Tables, predicate: str) -> Case:
    """Only the query: the DataFrames were loaded, and planned, before."""
    ours = peers.ours(tables.lance("flights"), filter=predicate)
    parquet = peers.parquet(tables.parquet("flights")).where(predicate)
    jvm = cache(lambda: peers.jvm(tables.lance("flights")).where(predicate))
    return Case(
        _known(
            peers,
            ours=lambda: fetched(ours),
            parquet=lambda: fetched(parquet),
            jvm=lambda: fetched(jvm()),
        ),
        _FAST,
    )


def _count(peers: Peers, tables: Tables) -> Case:
    uri, path = tables.lance("flights"), tables.parquet("flights")
    table = LanceTable.for_path(uri, spark=peers.spark)
    return Case(
        _known(
            peers,
            ours=lambda: [table.count_rows()],
            parquet=lambda: [peers.parquet(path).count()],
            jvm=lambda: [peers.jvm(uri).count()],
            pylance=lambda: [lance.dataset(uri).count_rows()],
        ),
        (Target("from metadata, in milliseconds (below 0.05 s)", seconds=0.05),),
    )


def _write(peers: Peers, tables: Tables, name: str) -> Case:
    frame = peers.parquet(tables.parquet(name)).cache()
    frame.count()
    paths = _fresh_paths(tables.home)

    def ours() -> Answer:
        target = next(paths)
        frame.write.format(OURS).mode("append").save(target)
        return [lance.dataset(target).count_rows()]

    def parquet() -> Answer:
        target = next(paths)
        frame.write.parquet(target)
        return [peers.parquet(target).count()]

    def jvm() -> Answer:
        target = next(paths)
        frame.write.format("lance").save(target)
        return [lance.dataset(target).count_rows()]

    target = Target("at least 0.9 of Parquet", "parquet", 0.9)
    return Case(_known(peers, ours=ours, parquet=parquet, jvm=jvm), (target,))


def _fresh_paths(home: Path) -> Iterator[str]:
    """A new path each time; the one before is removed."""
    with tempfile.TemporaryDirectory(dir=home) as scratch:
        for number in count():
            target = Path(scratch) / f"written-{number}"
            yield str(target)
            shutil.rmtree(target, ignore_errors=True)


def _planning(peers: Peers) -> Case:
    """Through Spark, with the schema; and what of it is ours, in this process. Both open the dataset again."""
    uri = many_fragments()
    turn = count()

    def plan_read_alone() -> Answer:
        read = pin_read({"path": uri, "storage.turn": str(next(turn))})
        read_actions.plan_read(read, read_actions.read_schema(read), os.cpu_count() or 1)
        return [1]

    def through_spark(load: Callable[[str], DataFrame]) -> Answer:
        return [min(1, load(uri).rdd.getNumPartitions())]

    return Case(
        _known(
            peers,
            ours=lambda: through_spark(peers.ours),
            plan_read_alone=plan_read_alone,
            jvm=lambda: through_spark(peers.jvm),
        ),
        (Target("load and plan below 2 s", seconds=2),),
    )


def _known(peers: Peers, **work: Work) -> dict[str, Work]:
    return {name: do for name, do in work.items() if name != "jvm" or peers.has_jvm}
