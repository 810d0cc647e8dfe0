"""A scan that Spark has planned: its schema, size, text and partitions."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from lance_spark.query.statistics import estimate
from lance_spark.spark.jvm import names
from lance_spark.spark.jvm.execution import input_partitions, reader_factory
from lance_spark.spark.jvm.proxies import Implementation
from lance_spark.spark.jvm.source import Planned, Pushed, Source, plan

if TYPE_CHECKING:
    from lance_spark.spark.jvm.bridge import Bridge


class NativeScan(Implementation):
    """Spark's ``Scan``."""

    interfaces: ClassVar = (names.SCAN,)

    def __init__(self, bridge: Bridge, source: Source, pushed: Pushed) -> None:
        super().__init__(bridge)
        self.source, self.pushed = source, pushed

    def to_string(self) -> str:
        return self.description()

    def read_schema(self) -> Any:
        """The columns that come out."""
        return self.bridge.schema(self.pushed.columns)

    def description(self) -> str:
        """What EXPLAIN shows of the scan."""
        return describe(self.source, self.pushed)

    def columnar_support_mode(self) -> Any:
        """Rows only. Asked of the partitions instead, these would be planned before runtime filters are known."""
        return self.bridge.find(f"{names.SCAN}.ColumnarSupportMode.UNSUPPORTED")

    def to_batch(self) -> Any:
        """The partitions, which are planned when Spark asks for them."""
        return NativeBatch(self.bridge, self.source, self.pushed).java()


class NativeBatch(Implementation):
    """Spark's ``Batch``. Equal to another one of the same read, so that Spark may use one exchange for both."""

    interfaces: ClassVar = (names.BATCH,)

    def __init__(self, bridge: Bridge, source: Source, pushed: Pushed) -> None:
        super().__init__(bridge)
        self.source, self.pushed = source, pushed

    def to_string(self) -> str:
        key = f"{self.source.key} {self.pushed!r}"
        return f"NativeBatch {hashlib.sha256(key.encode()).hexdigest()}"

    def plan_input_partitions(self) -> Any:
        """One for each task."""
        return input_partitions(self.bridge, self._planned)

    def create_reader_factory(self) -> Any:
        """What makes the readers on executors."""
        return reader_factory(self.bridge, self._planned, self.pushed.columns)

    @cached_property
    def _planned(self) -> Planned:
        return plan(self.source, self.pushed, self.bridge.cores)


def describe(source: Source, pushed: Pushed) -> str:
    """A scan in one line."""
    parts = [f"lance {source.name}", f"columns: [{', '.join(pushed.columns.names)}]"]
    if pushed.filters:
        parts.append(f"filter: {' AND '.join(each.sql for each in pushed.filters)}")
    if pushed.limit is not None:
        parts.append(f"limit: {pushed.limit}")
    return ", ".join(parts)
