"""A scan that Spark has planned: its schema, size, text and partitions."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from lance_spark.query.filters import translate
from lance_spark.query.types import as_spark_sends
from lance_spark.spark.jvm import names
from lance_spark.spark.jvm.execution import input_partitions, reader_factory
from lance_spark.spark.jvm.explained import described
from lance_spark.spark.jvm.expressions import expression
from lance_spark.spark.jvm.local_rows import internal_rows
from lance_spark.spark.jvm.planning import PlannedScan, narrowed
from lance_spark.spark.jvm.proxies import Implementation

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from lance_spark.query.filters import PushedFilter
    from lance_spark.scan.plan import ScanPartition
    from lance_spark.spark.jvm.bridge import Bridge
    from lance_spark.spark.jvm.streams import TableStream

MAX_RUNTIME_FILTER = 2**16
"""Characters of a filter that became known while the query ran: it goes to every task."""


def references(bridge: Bridge, columns: Sequence[str]) -> Any:
    """Spark's ``NamedReference[]`` of columns."""
    found = [bridge.call(f"{names.FIELD_REFERENCE}.apply", bridge.seq([name])) for name in columns]
    return bridge.array(names.NAMED_REFERENCE, found)


class _Scan(Implementation):
    """What scans have in common."""

    def __init__(self, bridge: Bridge, planned: PlannedScan, stream: TableStream | None = None) -> None:
        super().__init__(bridge)
        self.planned, self._stream = planned, stream

    @property
    def columns(self) -> StructType:
        """The columns that come out."""
        return self.planned.pushed.columns

    def to_string(self) -> str:
        """Java's toString."""
        return self.description()

    def read_schema(self) -> Any:
        """The columns that come out."""
        return self.bridge.schema(self.columns)

    def description(self) -> str:
        """What EXPLAIN shows of the scan."""
        raise NotImplementedError

    def estimate_statistics(self) -> Any:
        """Rows and bytes, for Spark to choose its joins by."""
        return NativeStatistics(self.bridge, self.planned).java()

    def reflects_fully_pushed_down_filters(self) -> bool:
        """Whether the statistics know of filters. If not, Spark 4.3 applies these again, to estimate what is left."""
        return True

    def supported_custom_metrics(self) -> Any:
        """Those of Spark's own Python sources, which our tasks report."""
        return self.bridge.python_source.createPythonMetrics()

    def report_driver_metrics(self) -> Any:
        """None."""
        return self.bridge.empty(names.TASK_METRIC)

    def to_micro_batch_stream(self, checkpoint: str) -> Any:
        """The stream of a table by its name."""
        if self._stream is None:
            return self.default("toMicroBatchStream", checkpoint)
        return self._stream.micro_batches(self.planned.source.schema, checkpoint)

    def columnar_support_mode(self) -> Any:
        """Rows only. Asked of the partitions instead, these would be planned before runtime filters are known."""
        return self.bridge.find(f"{names.SCAN}.ColumnarSupportMode.UNSUPPORTED")


class NativeLocalScan(_Scan):
    """Spark's ``LocalScan``: rows that the driver has already."""

    interfaces: ClassVar = (names.LOCAL_SCAN, names.REPORT_STATISTICS)

    def description(self) -> str:
        """What EXPLAIN shows of the scan."""
        rows = sum(batch.num_rows for batch in self.planned.local or ())
        return f"{described(self.planned)}, read by the driver: {rows} rows"

    def rows(self) -> Any:
        """The rows as Spark has them inside."""
        return internal_rows(self.bridge, self.planned.local or (), self.columns)


class NativeScan(_Scan):
    """Spark's ``Scan`` of partitions."""

    interfaces: ClassVar = (names.SCAN, names.REPORT_STATISTICS, names.RUNTIME_FILTERING)

    def __init__(self, bridge: Bridge, planned: PlannedScan, stream: TableStream | None = None) -> None:
        super().__init__(bridge, planned, stream)
        self._runtime: tuple[PushedFilter, ...] = ()

    def description(self) -> str:
        """What EXPLAIN shows of the scan."""
        return f"{described(self.planned)}, partitions: {len(self._parts)}"

    def filter_attributes(self) -> Any:
        """Columns by which rows may be left out while the query runs: all that come out and a filter can name."""
        source, pushed = self.planned.source, self.planned.pushed
        usable = []
        if source.takes_more and pushed.aggregate is None and pushed.limit is None and not pushed.offset:
            known = {field.name: field.type for field in source.stored}
            usable = [name for name in pushed.columns.names if name in known and as_spark_sends(known[name])]
        return references(self.bridge, usable)

    def filter(self, predicates: Any) -> None:
        """Leave out rows that a join does not need. What cannot be said in Lance is left to the join."""
        taken = []
        for predicate in predicates:
            condition = expression(self.bridge, predicate)
            pushed = None if condition is None else translate(condition, self.planned.source.stored)
            if pushed is not None and len(pushed.sql) <= MAX_RUNTIME_FILTER:
                taken.append(pushed)
        self._runtime = tuple(taken)

    def to_batch(self) -> Any:
        """The partitions. Spark asks again after it has filtered."""
        if not self._runtime:
            return NativeBatch(self.bridge, self.planned, self._parts).java()
        planned = narrowed(self.planned, self._runtime)
        parts = planned.parts(self.bridge.cores)
        if len(self._parts) <= 1 < len(parts):
            parts = planned.in_one  # Spark has planned for one partition, and moves no rows between more
        return NativeBatch(self.bridge, planned, parts).java()

    @cached_property
    def _parts(self) -> tuple[ScanPartition, ...]:
        return self.planned.parts(self.bridge.cores)


class NativeBatch(Implementation):
    """Spark's ``Batch``. Equal to another one of the same read, so that Spark may use one exchange for both."""

    interfaces: ClassVar = (names.BATCH,)

    def __init__(self, bridge: Bridge, planned: PlannedScan, parts: tuple[ScanPartition, ...]) -> None:
        super().__init__(bridge)
        self._planned, self._parts = planned, parts

    def to_string(self) -> str:
        """Java's toString; equal batches have the same."""
        return self._key

    @cached_property
    def _key(self) -> str:
        text = f"{self._planned.source.key} {self._planned.pushed!r} {self._planned.measured.options.filter}"
        return f"NativeBatch {hashlib.sha256(text.encode()).hexdigest()}"

    def equals(self, other: Any) -> bool:
        """Whether the other one reads the same."""
        return bool(other is not None and other.toString() == self._key)

    def hash_code(self) -> int:
        """Java's hashCode."""
        return int(self._key[-7:], 16)

    def plan_input_partitions(self) -> Any:
        """One for each task."""
        return input_partitions(self.bridge, self._parts, self._planned.measured.options.filter)

    def create_reader_factory(self) -> Any:
        """What makes the readers on executors."""
        return reader_factory(self.bridge, self._planned.task, self._planned.pushed.columns)


class NativeStatistics(Implementation):
    """Spark's ``Statistics``."""

    interfaces: ClassVar = (names.STATISTICS,)

    def __init__(self, bridge: Bridge, planned: PlannedScan) -> None:
        super().__init__(bridge)
        self._statistics = planned.statistics

    def size_in_bytes(self) -> Any:
        """Bytes of the columns that come out."""
        return self.bridge.long(self._statistics.bytes)

    def num_rows(self) -> Any:
        """Rows that come out at most."""
        return self.bridge.long(self._statistics.rows)
