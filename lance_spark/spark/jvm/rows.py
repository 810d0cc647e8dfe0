"""Tables and scans of rows that are not stored: metadata tables, and what procedures return."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from lance_spark.schema.conform import conform
from lance_spark.spark.jvm import answers, names
from lance_spark.spark.jvm.local_rows import internal_rows
from lance_spark.spark.jvm.proxies import Implementation
from lance_spark.spark.types import to_spark, wire_schema

if TYPE_CHECKING:
    import pyarrow as pa

    from lance_spark.spark.jvm.answers import Answer
    from lance_spark.spark.jvm.bridge import Bridge

Batches = Callable[[], "Iterable[pa.RecordBatch]"]


class RowsTable(Implementation):
    """Spark's ``Table``, whose rows are made when a query asks for them."""

    interfaces: ClassVar = (names.TABLE, names.SUPPORTS_READ)

    def __init__(self, bridge: Bridge, name: str, schema: pa.Schema, rows: Batches) -> None:
        super().__init__(bridge)
        self._name, self._schema, self._rows = name, schema, rows

    def answered(self) -> dict[str, Answer]:
        """A table that can be read."""
        return {
            "name": answers.text(self._name),
            "schema": answers.schema(to_spark(self._schema)),
            "capabilities": answers.capabilities(("BATCH_READ",)),
        }

    def new_scan_builder(self, _options: Any) -> Any:
        """One for each query."""
        return _RowsScanBuilder(self.bridge, RowsScan(self.bridge, self._name, self._schema, self._rows)).java()


class _RowsScanBuilder(Implementation):
    """Spark's ``ScanBuilder``, to which nothing is pushed down."""

    interfaces: ClassVar = (names.SCAN_BUILDER,)

    def __init__(self, bridge: Bridge, scan: RowsScan) -> None:
        super().__init__(bridge)
        self._scan = scan

    def build(self) -> Any:
        """The scan."""
        return self._scan.java()


class RowsScan(Implementation):
    """Spark's ``LocalScan``: no job runs."""

    interfaces: ClassVar = (names.LOCAL_SCAN,)

    def __init__(self, bridge: Bridge, name: str, schema: pa.Schema, rows: Batches) -> None:
        super().__init__(bridge)
        self._name, self._columns, self._rows = name, to_spark(schema), rows

    def to_string(self) -> str:
        """Java's toString."""
        return self.description()

    def description(self) -> str:
        """What EXPLAIN shows of the scan."""
        return f"lance {self._name}"

    def answered(self) -> dict[str, Answer]:
        """The columns that come out."""
        return {"readSchema": answers.schema(self._columns), "description": answers.text(self.description())}

    def rows(self) -> Any:
        """The rows as Spark has them inside."""
        wire = wire_schema(self._columns)
        return internal_rows(self.bridge, [conform(batch, wire) for batch in self._rows()], self._columns)
