"""The join of a DataFrame's vectors with their neighbours in a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, NumericType, StructField, StructType

from lance_spark.actions.search import PreparedSearch
from lance_spark.errors import InvalidOption, SchemaMismatch
from lance_spark.schema.projection import unknown_column
from lance_spark.searching.binding import DISTANCE
from lance_spark.spark.failures import plainly
from lance_spark.spark.runner import SparkRunner, plain
from lance_spark.spark.shown import with_metadata
from lance_spark.spark.types import LIST_SIZE_KEY, to_spark, wire_schema
from lance_spark.store.search_batches import JoinWork, join_nearest


@dataclass(frozen=True)
class NearestJoin:
    """A function of a DataFrame, for ``transform``."""

    prepared: PreparedSearch
    column: str
    prefix: str
    tasks: int | None

    def __call__(self, queries: DataFrame) -> DataFrame:
        """The join. Raises NotFound, SchemaMismatch and InvalidOption."""
        prepared, field = self.prepared, self.prepared.field
        assert field is not None
        self._check(queries)
        shown = to_spark(prepared.schema)
        added = [StructField(self._name(each.name), each.dataType, each.nullable, each.metadata) for each in shown]
        whole = StructType([*queries.schema.fields, *added])
        search = replace(prepared.work, wire=wire_schema(shown))
        work = JoinWork(search, self.column, field, prepared.flat, tuple(each.name for each in added))
        given = wire_schema(queries.schema)

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            with plainly():
                yield from join_nearest(work, (plain(batch, given) for batch in batches))

        # Queries are few and small beside what is done for each: one partition of them would be one task.
        tasks = self.tasks or SparkRunner(queries.sparkSession, "nearest_join").parallelism
        return with_metadata(queries.repartition(tasks).mapInArrow(run, whole), whole)

    def _name(self, name: str) -> str:
        return name if name == DISTANCE else self.prefix + name

    def _check(self, queries: DataFrame) -> None:
        fields = {field.name: field for field in queries.schema.fields}
        if self.column not in fields:
            raise unknown_column(self.column, list(fields))
        field = fields[self.column]
        assert self.prepared.field is not None
        if not isinstance(field.dataType, ArrayType) or not isinstance(field.dataType.elementType, NumericType):
            raise SchemaMismatch(
                f"Column '{self.column}' is {field.dataType.simpleString()}, and holds no vectors.",
                hint="Vectors are arrays of numbers, such as array<float>.",
            )
        told, size = field.metadata.get(LIST_SIZE_KEY), self.prepared.field.type.list_size
        if told is not None and str(told) != str(size):
            raise SchemaMismatch(
                f"Column '{self.column}' has vectors of {told} numbers, and '{self.prepared.field.name}' of {size}.",
                hint="Embed the queries with the model that the column was made with.",
            )
        mine = {name.lower() for name in fields}
        both = [name for name in map(self._name, self.prepared.schema.names) if name.lower() in mine]
        if both:
            raise InvalidOption(
                f"Both sides have a column '{both[0]}'.",
                hint="Give prefix='found_', or name the table's columns that are wanted: columns=[...].",
            )
