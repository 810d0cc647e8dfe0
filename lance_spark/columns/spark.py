"""Column values that Spark computes: by SQL over the table's own columns, by a function, or by a join with a DataFrame.

The arguments of the verbs come in (``Asked``). What comes out can compute the files of fragments.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name for it
from pyspark.sql import types as st
from pyspark.sql.types import StructType

from lance_spark.columns import column_files
from lance_spark.columns.column_files import ColumnFunction, FillJob, FunctionItem
from lance_spark.columns.fill_rules import (
    FILLED,
    FRAME,
    SQL,
    Asked,
    BackfillOptions,
    ComputedColumns,
    FilledFile,
    FillOrder,
    check_read,
    columns_in,
    existing_columns,
    function_identity,
    new_columns,
    set_where,
    temporary,
)
from lance_spark.core.location import DatasetLocation
from lance_spark.core.options import names_of
from lance_spark.core.refs import PinnedVersion
from lance_spark.core.table_options import ReadOptions
from lance_spark.engine.session_spark import SparkRunner
from lance_spark.engine.types_spark import quoted, to_arrow, to_spark, wire_schema
from lance_spark.engine.workers_spark import plainly
from lance_spark.errors import InvalidOption, Refused, SchemaMismatch
from lance_spark.format.blobs import holds_blobs
from lance_spark.format.schema import ROW_ADDRESS, conform, row_width, unknown_column
from lance_spark.scan.fragment_reads import Scan, ScanColumns, read_batches, stored_schema
from lance_spark.scan.partition_rules import ScanPartition, batch_rows
from lance_spark.scan.read import PinnedRead, read_schema
from lance_spark.session.narrow_query import probe

Batches = Iterator[pa.RecordBatch]
OPERATION = "columns"
_STAGE = "compute"
_MOST_PARTITIONS = 2_000
"""The task size of a join: Spark sorts all rows of a partition, and writes the files of its fragments one by one."""
_KEY, _HIT = "__key_{}", "__hit"


@dataclass(frozen=True)
class ColumnTarget:
    """The table that gets the columns, and the session that computes them."""

    spark: SparkSession
    location: DatasetLocation

    @cached_property
    def runner(self) -> SparkRunner:
        return SparkRunner(self.spark, OPERATION)

    def seen(self, pin: PinnedVersion) -> st.StructType:
        """The table's columns as Spark sees them, and the address of the row."""
        read = PinnedRead(self.location, pin, ReadOptions())
        seen = to_spark(read_schema(read))
        return st.StructType([*seen.fields, st.StructField(ROW_ADDRESS, st.LongType(), nullable=False)])

    def rows(self, pin: PinnedVersion, fragments: Sequence[int], names: Sequence[str]) -> DataFrame:
        """Columns and addresses of the rows of fragments: one task per fragment, its rows in order."""
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
        """Write the values of a DataFrame: addresses first, each fragment's rows together and in order."""

        def write(batches: Batches) -> Batches:
            with plainly():
                yield from column_files.fill_fragments(job, batches)

        return self.files(frame.mapInArrow(write, to_spark(FILLED)))

    def files(self, frame: DataFrame) -> list[FilledFile]:
        """The files that tasks wrote. Raises this package's own errors if a task did."""
        return [FilledFile(**row) for row in self.runner.collect(_STAGE, frame).to_pylist()]


@dataclass(frozen=True)
class SparkValues:
    target: ColumnTarget
    schema: pa.Schema

    @property
    def parallelism(self) -> int:
        return self.target.runner.parallelism


@dataclass(frozen=True)
class SqlValues(SparkValues):
    """Expressions over the columns of the same row."""

    inputs: tuple[str, ...]
    expressions: tuple[str, ...]
    stated: bool = False
    """Whether a statement sets values, which then do not change with what they were computed from."""
    at_once = False

    @property
    def reads(self) -> tuple[str, ...]:
        """Its inputs, unless a statement sets the values."""
        return () if self.stated else self.inputs

    @property
    def identity(self) -> str:
        """The expressions, and the settings that they depend on."""
        return json.dumps(["sql", *self.expressions, *_settings(self.target.spark)])

    def compute(self, pin: PinnedVersion, fragments: Sequence[int], order: FillOrder) -> Sequence[FilledFile]:
        rows = self.target.rows(pin, fragments, self.inputs)
        job = FillJob(self.target.location, pin, self.schema, order)
        return self.target.written(job, rows.select(*evaluated(self.expressions)))


def _settings(spark: SparkSession) -> list[str | None]:
    """The settings that change the result of the same expressions."""
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
        """Whether it is true; false if it is null."""
        return F.coalesce(F.expr(self.sql), F.lit(False))


@dataclass(frozen=True)
class FunctionValues(SparkValues):
    columns: tuple[str, ...]
    function: ColumnFunction | type
    batch_size: int
    condition: RowCondition | None = None
    at_once = False

    @property
    def inputs(self) -> tuple[str, ...]:
        """The columns that the function gets; with a condition, also its columns and the values that stay."""
        if self.condition is None:
            return self.columns
        return tuple(dict.fromkeys((*self.columns, *self.condition.columns, *self.schema.names)))

    @property
    def reads(self) -> tuple[str, ...]:
        return self.inputs

    @property
    def identity(self) -> str:
        """The function's name and code, what it reads, and which rows it gets."""
        known = ["function", function_identity(self.function), *self.columns, self.batch_size]
        if self.condition is not None:
            known += ["where", self.condition.sql, *_settings(self.target.spark)]
        return json.dumps(known)

    def compute(self, pin: PinnedVersion, fragments: Sequence[int], order: FillOrder) -> Sequence[FilledFile]:
        job = FillJob(self.target.location, pin, self.schema, order)
        if self.condition is not None:
            return self._where(self.condition, job, fragments)
        items = [FunctionItem(job, fragment, self.columns, self.batch_size) for fragment in fragments]
        runner = self.target.runner
        return self.target.files(
            runner.flat_map(_STAGE, items, partial(column_files.fill_by_function, self.function), FILLED)
        )

    def _where(self, condition: RowCondition, job: FillJob, fragments: Sequence[int]) -> list[FilledFile]:
        """Spark selects the rows; tasks read the function's input themselves, in the table's own types."""
        function, columns, size = self.function, self.columns, self.batch_size

        def write(batches: Batches) -> Batches:
            with plainly():
                yield from column_files.fill_chosen(
                    function, lambda number: FunctionItem(job, number, columns, size), batches
                )

        rows = self.target.rows(job.pin, fragments, condition.columns)
        told = rows.select(F.col(ROW_ADDRESS), condition.holds().alias(column_files.CHOSEN))
        return self.target.files(told.mapInArrow(write, to_spark(FILLED)))


@dataclass(frozen=True)
class FrameValues(SparkValues):
    """Columns of a DataFrame, joined on a key that both sides have."""

    keys: tuple[str, ...]
    frame: DataFrame
    kept: bool
    """Whether rows missing from the DataFrame keep their values; otherwise they get nulls."""
    identity: str | None = None
    condition: RowCondition | None = None
    at_once = True
    reads = None
    """Unknown: the DataFrame may have been computed from any of the table's columns."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """The keys, the values that stay, and the condition's columns."""
        kept = self.schema.names if self.kept else ()
        return tuple(dict.fromkeys((*self.keys, *kept, *(self.condition.columns if self.condition else ()))))

    def compute(self, pin: PinnedVersion, fragments: Sequence[int], order: FillOrder) -> Sequence[FilledFile]:
        rows = self.target.rows(pin, fragments, self.inputs)
        names = self.schema.names
        theirs = self.frame.select(
            *[quoted(key).alias(_KEY.format(place)) for place, key in enumerate(self.keys)],
            *[quoted(name).alias(temporary(place)) for place, name in enumerate(names)],
            F.lit(True).alias(_HIT),
        )
        same = [quoted(key) == F.col(_KEY.format(place)) for place, key in enumerate(self.keys)]
        if self.condition is not None:
            rows = rows.withColumn(column_files.CHOSEN, self.condition.holds())
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
        hit = F.col(_HIT) if self.condition is None else F.col(_HIT) & F.col(column_files.CHOSEN)
        return F.when(hit, column.cast(rows[own].dataType)).otherwise(quoted(own)).alias(name)


def repeated_key(frame: DataFrame, keys: Sequence[str]) -> Mapping[str, object] | None:
    """A key that two rows of a DataFrame share, or None. Keys with a null match nothing, so they may repeat."""
    columns = [quoted(key) for key in keys]
    complete = frame.select(*columns).dropna()
    found = complete.groupBy(*columns).count().where("count > 1").first()
    return None if found is None else {key: found[key] for key in keys}


# --- From the arguments of the verbs to a computation; only checks run


def values_of(
    spark: SparkSession, location: DatasetLocation, pin: PinnedVersion, asked: Asked, options: BackfillOptions
) -> ComputedColumns:
    """The computation of the values. Raises InvalidOption for a missing argument, and the errors of checks."""
    target = ColumnTarget(spark, location)
    if asked.kind == SQL:
        return _sql(target, pin, asked, options)
    make = _frame if asked.kind == FRAME else _function
    return make(target, pin, asked, options)


def _sql(target: ColumnTarget, pin: PinnedVersion, asked: Asked, options: BackfillOptions) -> SqlValues:
    expressions = dict(asked.values)
    names_of(expressions)
    for name, text in expressions.items():
        if not isinstance(text, str) or not text.strip():
            raise InvalidOption(f"Column '{name}' has no SQL.", hint='Text such as "distance / air_time".')
    texts = tuple(set_where(expressions, asked.where).values())
    seen = target.seen(pin)
    own = stored_schema(target.location, pin)
    read = columns_in(texts, own.names)
    rows = probe(target.spark, seen).select(*map(quoted, read), ROW_ADDRESS)
    given = to_arrow(rows.select(*evaluated(texts)).schema)
    named = pa.schema([given.field(place + 1).with_name(name) for place, name in enumerate(expressions)])
    return SqlValues(target, _columns(own, named, asked, options.incremental), read, texts)


def _frame(target: ColumnTarget, pin: PinnedVersion, asked: Asked, options: BackfillOptions) -> FrameValues:
    if not asked.on:
        raise InvalidOption("A DataFrame needs the key that it shares with the table.", hint="on='flight_id'.")
    keys = names_of(asked.on)
    frame = asked.values
    own = stored_schema(target.location, pin)
    for key in keys:
        for names in (own.names, frame.columns):
            if key not in names:
                raise unknown_column(key, names)
    given = to_arrow(StructType([field for field in frame.schema if field.name not in keys]))
    repeated = repeated_key(frame, keys)
    if repeated is not None:
        shown = ", ".join(f"{name} = {value!r}" for name, value in repeated.items())
        raise SchemaMismatch(
            f"The DataFrame has several rows with {shown}, so the values for that row are ambiguous.",
            hint=f"Keep one for each key, e.g. df.dropDuplicates({list(keys)}).",
        )
    condition = _condition(target, pin, asked)
    identity = json.dumps(["frame", *keys, asked.where]) if options.tag else None
    return FrameValues(
        target, _columns(own, given, asked, options.incremental), keys, frame, asked.existing, identity, condition
    )


def _function(target: ColumnTarget, pin: PinnedVersion, asked: Asked, options: BackfillOptions) -> FunctionValues:
    own = stored_schema(target.location, pin)
    named = _schema_of(target.spark, own, asked)
    read = check_read(own, asked.columns)
    if not read:
        raise InvalidOption("The function reads no column.", hint="Name one in columns=[...].")
    width = row_width(pa.schema([own.field(name) for name in read]))
    size = options.batch_size or batch_rows(width)
    condition = _condition(target, pin, asked)
    if condition is not None and any(holds_blobs(own.field(name)) for name in read):
        raise Refused("With where=, the function cannot read blobs.", hint="Omit where=, or name other columns.")
    return FunctionValues(target, _columns(own, named, asked, options.incremental), read, asked.values, size, condition)


def _condition(target: ColumnTarget, pin: PinnedVersion, asked: Asked) -> RowCondition | None:
    """Raises InvalidOption unless it is a condition, and Spark's error if Spark cannot analyze it."""
    if asked.where is None:
        return None
    read = columns_in((asked.where,), stored_schema(target.location, pin).names)
    found = RowCondition(asked.where, read)
    rows = probe(target.spark, target.seen(pin)).select(*map(quoted, read), ROW_ADDRESS)
    kind = rows.select(ROW_ADDRESS, F.expr(asked.where)).schema[1].dataType.simpleString()
    if kind != "boolean":
        raise InvalidOption(f"where={asked.where!r} is {kind}, not a condition.", hint='Such as "day > 3".')
    return found


def _schema_of(spark: SparkSession, own: pa.Schema, asked: Asked) -> pa.Schema:
    given = asked.schema
    if isinstance(given, pa.Schema):
        return given
    if asked.existing and given in own.names:
        given = names_of(given)
    if isinstance(given, str):
        given = spark.createDataFrame([], given).schema
    if isinstance(given, StructType):
        return to_arrow(given)
    if asked.existing and isinstance(given, Sequence) and given:
        return pa.schema([own.field(name) for name in check_read(own, given)])
    raise InvalidOption(
        "The function needs a schema of the columns that it returns.",
        hint='schema="emb array<float>"' + (', or schema=["emb"].' if asked.existing else "."),
    )


def _columns(own: pa.Schema, given: pa.Schema, asked: Asked, incremental: bool) -> pa.Schema:
    columns = new_columns(given, asked.vector, asked.blobs, incremental)
    return existing_columns(own, columns) if asked.existing else columns
