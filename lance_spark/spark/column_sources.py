"""Values of columns that Spark computes: by SQL over the table's own columns, or by a join with a DataFrame."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - the usual name for it
from pyspark.sql import types as st

from lance_spark.actions.read import PinnedRead, blob_names, read_schema
from lance_spark.backfill.keys import function_identity
from lance_spark.backfill.model import FILLED, FilledFile, FillOrder, temporary
from lance_spark.location import DatasetLocation
from lance_spark.options.read import ReadOptions
from lance_spark.refs.model import PinnedVersion
from lance_spark.scan.plan import ScanPartition, batch_rows
from lance_spark.schema.conform import conform
from lance_spark.schema.projection import ROW_ADDRESS
from lance_spark.schema.width import row_width
from lance_spark.spark.failures import plainly
from lance_spark.spark.runner import SparkRunner
from lance_spark.spark.types import to_spark, wire_schema
from lance_spark.store.column_conditions import CHOSEN, fill_chosen
from lance_spark.store.column_files import FillJob, fill_fragments
from lance_spark.store.column_functions import ColumnFunction, FunctionItem, fill_by_function
from lance_spark.store.scanning import Scan, ScanColumns, read_batches

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

Batches = Iterator[pa.RecordBatch]
OPERATION = "columns"
_STAGE = "compute"
_MOST_PARTITIONS = 2_000
"""Of a join: Spark sorts what a partition has of several fragments, and files are written one after the other."""
_KEY, _HIT = "__key_{}", "__hit"


@dataclass(frozen=True)
class ColumnTarget:
    """Where the columns go, and the session that computes them."""

    spark: SparkSession
    location: DatasetLocation

    @cached_property
    def runner(self) -> SparkRunner:
        """Runs the jobs, and names them."""
        return SparkRunner(self.spark, OPERATION)

    def seen(self, pin: PinnedVersion) -> st.StructType:
        """The table's columns as Spark sees them, and the address of the row."""
        read = PinnedRead(self.location, pin, ReadOptions())
        seen = to_spark(read_schema(read), blob_names(read))
        return st.StructType([*seen.fields, st.StructField(ROW_ADDRESS, st.LongType(), nullable=False)])

    def rows(self, pin: PinnedVersion, fragments: Sequence[int], names: Sequence[str]) -> DataFrame:
        """Columns and addresses of the rows of fragments: a task for each fragment, its rows in their order."""
        seen = {field.name: field for field in self.seen(pin)}
        schema = st.StructType([seen[name] for name in (*names, ROW_ADDRESS)])
        wire = wire_schema(schema)
        scan = Scan(
            self.location, pin, ScanColumns(tuple(names), with_row_address=True), batch_size=batch_rows(row_width(wire))
        )
        ids = list(fragments)

        def read(batches: Batches) -> Batches:
            with plainly():
                for batch in batches:
                    for place in batch["id"].to_pylist():
                        for rows in read_batches(scan, ScanPartition((ids[place],))):
                            yield conform(rows, wire)

        return self.spark.range(0, len(ids), 1, len(ids)).mapInArrow(read, schema)

    def written(self, job: FillJob, frame: DataFrame) -> list[FilledFile]:
        """Write the values of a DataFrame: addresses first, each fragment's together and in their order."""

        def write(batches: Batches) -> Batches:
            with plainly():
                yield from fill_fragments(job, batches)

        return self.files(frame.mapInArrow(write, to_spark(FILLED)))

    def files(self, frame: DataFrame) -> list[FilledFile]:
        """What tasks wrote. Raises this package's own errors where a task did."""
        return [FilledFile(**row) for row in self.runner.collect(_STAGE, frame).to_pylist()]


@dataclass(frozen=True)
class SqlValues:
    """Expressions over the columns of the same row."""

    target: ColumnTarget
    schema: pa.Schema
    inputs: tuple[str, ...]
    expressions: tuple[str, ...]
    """As many as columns."""
    at_once = False

    @property
    def identity(self) -> str:
        """The expressions, and the settings that they depend on."""
        return json.dumps(["sql", *self.expressions, *_settings(self.target.spark)])

    @property
    def parallelism(self) -> int:
        """Cores of the executors."""
        return self.target.runner.parallelism

    def compute(self, pin: PinnedVersion, fragments: Sequence[int], order: FillOrder) -> Sequence[FilledFile]:
        """Files for fragments of a version."""
        rows = self.target.rows(pin, fragments, self.inputs)
        job = FillJob(self.target.location, pin, self.schema, order)
        return self.target.written(job, rows.select(*evaluated(self.expressions)))


def _settings(spark: SparkSession) -> list[str | None]:
    """What expressions depend on beside their text."""
    return [spark.conf.get(name) for name in ("spark.sql.session.timeZone", "spark.sql.ansi.enabled")]


def evaluated(expressions: Sequence[str]) -> list[Column]:
    """The address of the row, and the values of expressions."""
    values = [F.expr(text).alias(temporary(place)) for place, text in enumerate(expressions)]
    return [F.col(ROW_ADDRESS), *values]


@dataclass(frozen=True)
class RowCondition:
    """Which rows get values; the others keep theirs."""

    sql: str
    columns: tuple[str, ...]
    """The table's columns that it may read."""

    def holds(self) -> Column:
        """Whether it is true; false where it is null."""
        return F.coalesce(F.expr(self.sql), F.lit(False))


@dataclass(frozen=True)
class FunctionValues:
    """A Python function over batches of rows."""

    target: ColumnTarget
    schema: pa.Schema
    columns: tuple[str, ...]
    """What the function gets."""
    function: ColumnFunction | type
    batch_size: int
    condition: RowCondition | None = None
    at_once = False

    @property
    def inputs(self) -> tuple[str, ...]:
        """What the function gets; with a condition its columns, and the values that stay, as well."""
        if self.condition is None:
            return self.columns
        return tuple(dict.fromkeys((*self.columns, *self.condition.columns, *self.schema.names)))

    @property
    def identity(self) -> str:
        """The function's name and code, what it reads, and which rows it gets."""
        known = ["function", function_identity(self.function), *self.columns, self.batch_size]
        if self.condition is not None:
            known += ["where", self.condition.sql, *_settings(self.target.spark)]
        return json.dumps(known)

    @property
    def parallelism(self) -> int:
        """Cores of the executors."""
        return self.target.runner.parallelism

    def compute(self, pin: PinnedVersion, fragments: Sequence[int], order: FillOrder) -> Sequence[FilledFile]:
        """Files for fragments of a version."""
        job = FillJob(self.target.location, pin, self.schema, order)
        if self.condition is not None:
            return self._where(self.condition, job, fragments)
        items = [FunctionItem(job, fragment, self.columns, self.batch_size) for fragment in fragments]
        runner = self.target.runner
        return self.target.files(runner.flat_map(_STAGE, items, partial(fill_by_function, self.function), FILLED))

    def _where(self, condition: RowCondition, job: FillJob, fragments: Sequence[int]) -> list[FilledFile]:
        """Spark tells the rows, and tasks read what the function gets by themselves, in the table's own types."""
        function, columns, size = self.function, self.columns, self.batch_size

        def write(batches: Batches) -> Batches:
            with plainly():
                yield from fill_chosen(function, lambda number: FunctionItem(job, number, columns, size), batches)

        rows = self.target.rows(job.pin, fragments, condition.columns)
        told = rows.select(F.col(ROW_ADDRESS), condition.holds().alias(CHOSEN))
        return self.target.files(told.mapInArrow(write, to_spark(FILLED)))


@dataclass(frozen=True)
class FrameValues:
    """Columns of a DataFrame, by a key that both have."""

    target: ColumnTarget
    schema: pa.Schema
    keys: tuple[str, ...]
    frame: DataFrame
    kept: bool
    """Whether rows that the DataFrame does not have keep the values that they have; else they get nulls."""
    identity: str | None = None
    condition: RowCondition | None = None
    at_once = True

    @property
    def inputs(self) -> tuple[str, ...]:
        """The keys, the values that stay, and what the condition reads."""
        kept = self.schema.names if self.kept else ()
        return tuple(dict.fromkeys((*self.keys, *kept, *(self.condition.columns if self.condition else ()))))

    @property
    def parallelism(self) -> int:
        """Cores of the executors."""
        return self.target.runner.parallelism

    def compute(self, pin: PinnedVersion, fragments: Sequence[int], order: FillOrder) -> Sequence[FilledFile]:
        """Files for fragments of a version, by one join."""
        rows = self.target.rows(pin, fragments, self.inputs)
        names = self.schema.names
        theirs = self.frame.select(
            *[quoted(key).alias(_KEY.format(place)) for place, key in enumerate(self.keys)],
            *[quoted(name).alias(temporary(place)) for place, name in enumerate(names)],
            F.lit(True).alias(_HIT),
        )
        same = [quoted(key) == F.col(_KEY.format(place)) for place, key in enumerate(self.keys)]
        if self.condition is not None:
            rows = rows.withColumn(CHOSEN, self.condition.holds())
        joined = rows.join(theirs, same, "left")
        values = [self._value(place, rows.schema) for place in range(len(names))]
        chosen = joined.select(F.col(ROW_ADDRESS), *values)
        fragment = F.shiftright(ROW_ADDRESS, 32)
        placed = chosen.repartition(min(len(fragments), _MOST_PARTITIONS), fragment).sortWithinPartitions(ROW_ADDRESS)
        return self.target.written(FillJob(self.target.location, pin, self.schema, order), placed)

    def _value(self, place: int, rows: st.StructType) -> Column:
        name, column = temporary(place), F.col(temporary(place))
        if not self.kept:
            return column
        own = self.schema.names[place]
        hit = F.col(_HIT) if self.condition is None else F.col(_HIT) & F.col(CHOSEN)
        return F.when(hit, column.cast(rows[own].dataType)).otherwise(quoted(own)).alias(name)


def repeated_key(frame: DataFrame, keys: Sequence[str]) -> Mapping[str, object] | None:
    """A key that two rows of a DataFrame have, or None. Keys with a null match nothing, so they may repeat."""
    columns = [quoted(key) for key in keys]
    complete = frame.select(*columns).dropna()
    found = complete.groupBy(*columns).count().where("count > 1").first()
    return None if found is None else {key: found[key] for key in keys}


def quoted(name: str) -> Column:
    """A column by its name, whatever is in it."""
    return F.col("`" + name.replace("`", "``") + "`")
