"""A scan that Spark has planned: its schema, size, text and partitions."""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from lance_spark.query.filters import translate
from lance_spark.query.types import as_spark_sends
from lance_spark.spark.jvm import answers, names
from lance_spark.spark.jvm.execution import input_partitions, reader_factory
from lance_spark.spark.jvm.explained import described
from lance_spark.spark.jvm.local_rows import few_rows, internal_rows
from lance_spark.spark.jvm.plain_values import expression
from lance_spark.spark.jvm.planning import PlannedScan, narrowed
from lance_spark.spark.jvm.proxies import Implementation

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from lance_spark.query.filters import PushedFilter
    from lance_spark.scan.plan import ScanPartition
    from lance_spark.spark.jvm.answers import Answer
    from lance_spark.spark.jvm.bridge import Bridge
    from lance_spark.spark.jvm.streams import TableStream

MAX_RUNTIME_FILTER = 2**16
"""Characters of a filter that became known while the query ran: it goes to every task."""


class _Scan(Implementation):
    """What scans have in common."""

    kept: ClassVar = frozenset({"description"})

    def __init__(self, bridge: Bridge, planned: PlannedScan, stream: TableStream | None = None) -> None:
        super().__init__(bridge)
        self.planned, self._stream, self._streams = planned, stream, False

    @property
    def columns(self) -> StructType:
        """The columns that come out."""
        return self.planned.pushed.columns

    def to_string(self) -> str:
        """Java's toString."""
        return self.description()

    def description(self) -> str:
        """What EXPLAIN shows of the scan."""
        raise NotImplementedError

    @property
    def text(self) -> str | None:
        """As the description, which takes planning the partitions."""
        return None

    def answered(self) -> dict[str, Answer]:
        """What Spark asks of every scan.

        It gets rows and bytes to choose its joins by. These know of filters: if they did not, Spark 4.3 would apply
        filters again to estimate what is left. Whether there are batches is not asked of the partitions, as these would
        be planned before runtime filters are known. A stream's are read by Spark's own reader, which has rows.
        """
        return {
            "readSchema": answers.schema(self.columns),
            "estimateStatistics": answers.statistics(self.planned.statistics),
            "reflectsFullyPushedDownFilters": answers.flag(True),
            "supportedCustomMetrics": answers.PYTHON_METRICS,
            "columnarSupportMode": answers.columnar(self.bridge.batches and not self._streams),
        }

    def to_micro_batch_stream(self, checkpoint: str) -> Any:
        """The stream of a table by its name."""
        if self._stream is None:
            return self.default("toMicroBatchStream", checkpoint)
        self._streams = True
        return self._stream.micro_batches(self.planned.source.schema, checkpoint)


class NativeLocalScan(_Scan):
    """Spark's ``LocalScan``: rows that the driver has already."""

    interfaces: ClassVar = (names.LOCAL_SCAN, names.REPORT_STATISTICS)

    def description(self) -> str:
        """What EXPLAIN shows of the scan."""
        rows = sum(batch.num_rows for batch in self.planned.local or ())
        return f"{described(self.planned)}, read by the driver: {rows} rows"

    def answered(self) -> dict[str, Answer]:
        """What is known of every scan, and the rows, where they are few."""
        few = few_rows(self.planned.local or (), self.columns, self.bridge.maker is not None)
        return super().answered() if few is None else {**super().answered(), "rows": few}

    def rows(self) -> Any:
        """The rows as Spark has them inside."""
        return internal_rows(self.bridge, self.planned.local or (), self.columns)


class NativeScan(_Scan):
    """Spark's ``Scan`` of partitions."""

    interfaces: ClassVar = (names.SCAN, names.REPORT_STATISTICS, names.RUNTIME_FILTERING)
    told: ClassVar = frozenset({"filter"})

    def __init__(self, bridge: Bridge, planned: PlannedScan, stream: TableStream | None = None) -> None:
        super().__init__(bridge, planned, stream)
        self._runtime: tuple[PushedFilter, ...] = ()

    def description(self) -> str:
        """What EXPLAIN shows of the scan."""
        return f"{described(self.planned)}, partitions: {len(self._parts)}"

    def answered(self) -> dict[str, Answer]:
        """What is known of every scan; and the columns by which rows may be left out while the query runs.

        These are all that come out and a filter can name.
        """
        source, pushed = self.planned.source, self.planned.pushed
        usable = []
        if source.takes_more and pushed.aggregate is None and pushed.limit is None and not pushed.offset:
            known = {field.name: field.type for field in source.stored}
            usable = [name for name in pushed.columns.names if name in known and as_spark_sends(known[name])]
        return {**super().answered(), "filterAttributes": answers.references(usable)}

    def filter(self, predicates: Any) -> None:
        """Leave out rows that a join does not need. What cannot be said in Lance is left to the join."""
        taken = []
        for predicate in predicates:
            condition = expression(predicate)
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
    same: ClassVar = True

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

    def answered(self) -> dict[str, Answer]:
        """A partition for each task, and what makes the readers on executors."""
        planned = self._planned
        return {
            "planInputPartitions": input_partitions(self._parts, planned.measured.options.filter),
            "createReaderFactory": reader_factory(planned.task, planned.pushed.columns, self.bridge.batches),
        }
