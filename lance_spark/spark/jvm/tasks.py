"""What runs on executors: the rows of one partition. Nothing here reaches for the JVM."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.types import StructType

from lance_spark.query.aggregates import AggregatePlan, aggregate
from lance_spark.scan.plan import ScanPartition
from lance_spark.schema.conform import conform
from lance_spark.spark.failures import plainly
from lance_spark.spark.types import wire_schema
from lance_spark.store.scanning import Scan, read_batches


@dataclass(frozen=True)
class ScanTask:
    """What every partition of a scan has in common."""

    scan: Scan
    output: pa.Schema
    """The batches that Spark gets, to the letter."""
    aggregate: AggregatePlan | None = None
    counted: bool = False
    """Whether Spark needs no column, only the number of rows: then the one of the output holds nulls."""

    def rows(self, part: ScanPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one partition."""
        batches: Iterable[pa.RecordBatch] = read_batches(self.scan, part) if part.fragment_ids else ()
        if self.aggregate is not None:
            batches = aggregate(self.aggregate, batches)
        if self.counted:
            batches = (self._nulls(batch.num_rows) for batch in batches)
        for batch in batches:
            yield conform(batch, self.output)

    def _nulls(self, count: int) -> pa.RecordBatch:
        # A batch without columns reaches Spark as one without rows.
        return pa.RecordBatch.from_arrays([pa.nulls(count, field.type) for field in self.output], schema=self.output)


def read_partitions(task: ScanTask, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Called by Spark's worker with the partition, pickled, in the only cell of the only batch."""
    for batch in batches:
        part = pickle.loads(batch.column(0)[0].as_py())
        with plainly():
            yield from task.rows(part)


def pickled_function(task: ScanTask, schema: StructType) -> bytes:
    """The function as Spark's worker takes it: with the schema of what it returns."""
    return bytes(cloudpickle.dumps((partial(read_partitions, task), schema)))


def output_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema of batches for Spark."""
    return wire_schema(schema)
