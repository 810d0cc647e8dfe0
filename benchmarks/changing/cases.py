"""What is changed, by everyone in their own words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import lance
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from benchmarks.changing.data import INDEXED, PLAIN, LancePlace, Tables
from benchmarks.changing.delta import DeltaPlace
from benchmarks.measure import Result, Target
from benchmarks.merging.measure import Run, Work, measure
from lance_spark import LanceTable

FEW, SOME = "weather_id < 100", "weather_id < 1000"
"""0.1 % of the rows, and 1 %, spread over all files."""
_GAIN = "dep_delay - arr_delay + 1"
_SPEED = "distance / nullif(air_time, 0) * 60"


@dataclass(frozen=True)
class Change:
    """One thing to do to the table."""

    name: str
    ours: Callable[[LanceTable, Tables], object]
    pylance: Callable[[lance.LanceDataset, Tables], object] | None = None
    delta: Callable[[str, Tables], list[str]] | None = None
    """Statements of SQL, for the clone at a path."""
    rewriting: Callable[[DataFrame, Tables], DataFrame] | None = None
    """All rows as they should be, from those that there are."""
    tag: str = PLAIN
    targets: tuple[Target, ...] = ()
    before: Callable[[LanceTable], object] | None = None
    """What happens first and is not measured."""


def changes(spark: SparkSession) -> list[Change]:
    """All of them."""

    def source(tables: Tables) -> DataFrame:
        return spark.read.parquet(tables.upserts)

    def upsert(name: str, tag: str, factor: float) -> Change:
        return Change(
            name,
            lambda t, tables: (
                t.merge(source(tables), on="id").when_matched_update_all().when_not_matched_insert_all().execute()
            ),
            lambda d, tables: _merge_insert(d, tables),
            lambda path, tables: [
                f"MERGE INTO delta.`{path}` t USING parquet.`{tables.upserts}` s ON t.id = s.id "
                "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
            ],
            lambda frame, tables: frame.join(source(tables), "id", "left_anti").unionByName(source(tables)),
            tag=tag,
            targets=(Target(f"{factor:g} x Delta", "delta", factor),),
        )

    def appended(frame: DataFrame) -> DataFrame:
        return frame.withColumn("extra", f.lit(1.5))

    return [
        Change(
            "delete 0.1 %",
            lambda t, _: t.delete(FEW),
            lambda d, _: d.delete(FEW),
            lambda path, _: [f"DELETE FROM delta.`{path}` WHERE {FEW}"],
            lambda frame, _: frame.where(f"NOT ({FEW})"),
        ),
        Change(
            "update one column of 1 %",
            lambda t, _: t.update({"gain": _GAIN}, where=SOME),
            lambda d, _: d.update({"gain": _GAIN}, where=SOME),
            lambda path, _: [f"UPDATE delta.`{path}` SET gain = {_GAIN} WHERE {SOME}"],
            lambda frame, _: frame.withColumn("gain", f.when(f.expr(SOME), f.expr(_GAIN)).otherwise(f.col("gain"))),
        ),
        upsert("upsert 1 %, no index", PLAIN, 1.5),
        upsert("upsert 1 %, BTREE", INDEXED, 3),
        Change(
            "backfill a column",
            lambda t, _: t.add_columns({"speed2": _SPEED}),
            lambda d, _: d.add_columns({"speed2": _SPEED}),
            lambda path, _: [
                f"ALTER TABLE delta.`{path}` ADD COLUMN speed2 double",
                f"UPDATE delta.`{path}` SET speed2 = {_SPEED}",
            ],
            lambda frame, _: frame.withColumn("speed2", f.expr(_SPEED)),
        ),
        Change(
            "append with a new column",
            lambda t, tables: t.write(appended(source(tables)), merge_schema="true"),
            None,
            lambda path, tables: [
                f"ALTER TABLE delta.`{path}` ADD COLUMN extra double",
                f"INSERT INTO delta.`{path}` SELECT *, 1.5D AS extra FROM parquet.`{tables.upserts}`",
            ],
        ),
        Change(
            "changes of 1 %",
            lambda t, _: t.changes(since=t.version - 1).write.format("noop").mode("overwrite").save(),
            before=lambda t: t.update({"gain": _GAIN}, where=SOME),
        ),
    ]


def measured(
    spark: SparkSession, tables: Tables, delta: bool, wanted: Callable[[str], bool], rounds: int
) -> Iterator[Result]:
    """Each change by each way, on a branch or clone of its own."""
    for change in changes(spark):
        if wanted(change.name):
            yield measure(change.name, _work(spark, tables, change, delta), change.targets, rounds)


def _work(spark: SparkSession, tables: Tables, change: Change, delta: bool) -> Mapping[str, Work]:
    place = LancePlace(tables, change.tag)
    work = {"ours": Work(place, lambda branch: _ours(spark, tables, change, branch))}
    if change.pylance is not None:
        work["pylance"] = Work(place, lambda branch: _pylance(tables, change, branch))
    if change.rewriting is not None:
        work["rewriting"] = Work(place, lambda branch: _rewriting(spark, tables, change, branch))
    if delta and change.delta is not None:
        for name, vectors in (("delta", True), ("delta_no_vectors", False)):
            work[name] = Work(DeltaPlace(spark, tables, vectors), lambda path: _delta(spark, tables, change, path))
    return work


def _ours(spark: SparkSession, tables: Tables, change: Change, branch: str) -> Run:
    table = LanceTable.for_path(tables.lance, spark=spark).checkout(branch=branch)
    if change.before is not None:
        change.before(table)
    return lambda: _done(change.ours(table, tables))


def _pylance(tables: Tables, change: Change, branch: str) -> Run:
    dataset = lance.dataset(f"{tables.lance}/tree/{branch}")
    call = change.pylance
    assert call is not None
    return lambda: _done(call(dataset, tables))


def _rewriting(spark: SparkSession, tables: Tables, change: Change, branch: str) -> Run:
    table = LanceTable.for_path(tables.lance, spark=spark).checkout(branch=branch)
    call = change.rewriting
    assert call is not None
    return lambda: _done(table.write(call(table.to_df(), tables), mode="overwrite", overwrite_schema="true"))


def _delta(spark: SparkSession, tables: Tables, change: Change, path: str) -> Run:
    statements = change.delta(path, tables) if change.delta is not None else []
    return lambda: _done([spark.sql(statement).collect() for statement in statements])


def _merge_insert(dataset: lance.LanceDataset, tables: Tables) -> object:
    rows: pa.Table = pq.read_table(tables.upserts).cast(dataset.schema)
    return dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows)


def _done(_: object) -> None:
    """What a call returned is no detail."""
