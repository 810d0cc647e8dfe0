"""The reading half of the data source. It deliberately lacks ``pushFilters``.

Spark's JVM side plans a Python read once and reuses it, with its pushed filters, for every later query on the same
DataFrame: on Spark 4.1 to 4.3, ``df.where(...).count()`` and then ``df.count()`` gave 10 rows out of 100. Predicates
reach the scan through the ``filter`` option, which belongs to the relation.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from lance_spark.engine.types_spark import wire_schema
from lance_spark.engine.workers_spark import plainly
from lance_spark.format.schema import conform
from lance_spark.scan.fragment_reads import read_batches
from lance_spark.scan.partition_rules import ScanPartition
from lance_spark.scan.read import PinnedRead, plan_read, read_for_spark


class LancePartition(InputPartition):
    """One partition of the plan, in the form that Spark sends to an executor."""

    def __init__(self, part: ScanPartition) -> None:
        super().__init__(part)
        self.part = part


class LanceReader(DataSourceReader):
    """Plans and reads one pinned version."""

    def __init__(self, read: PinnedRead, schema: StructType) -> None:
        # State set in partitions() never reaches read(): Spark pickles the reader first. So everything is planned here.
        self._wire = wire_schema(schema)
        with plainly():
            plan = plan_read(read, read_for_spark(read, self._wire), os.cpu_count() or 1)
        self._scan, self._partitions = plan.scan, plan.partitions

    def __getstate__(self) -> dict[str, Any]:
        """Each executor gets its own partition; otherwise every task would also carry the whole plan."""
        return {**self.__dict__, "_partitions": ()}

    def partitions(self) -> list[InputPartition]:
        """One entry per Spark task."""
        return [LancePartition(part) for part in self._partitions]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one partition as Arrow batches of exactly Spark's schema."""
        # Even with no partitions, Spark calls read once, with a bare InputPartition(None).
        if not isinstance(partition, LancePartition):
            return
        with plainly():
            for batch in read_batches(self._scan, partition.part):
                yield conform(batch, self._wire)
