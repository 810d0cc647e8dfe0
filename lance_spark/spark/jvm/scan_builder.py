"""What Spark's planner talks to while it decides what to leave to a scan."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.sql.types import StructField, StructType

from lance_spark.query.filters import translate
from lance_spark.spark.jvm import names
from lance_spark.spark.jvm.bridge import from_java
from lance_spark.spark.jvm.expressions import expression
from lance_spark.spark.jvm.proxies import Implementation
from lance_spark.spark.jvm.scan import NativeScan
from lance_spark.spark.jvm.source import Pushed, Source

if TYPE_CHECKING:
    from lance_spark.spark.jvm.bridge import Bridge


class NativeScanBuilder(Implementation):
    """Spark's ``ScanBuilder``: one for each time a table is in a query."""

    interfaces: ClassVar = (names.PUSH_FILTERS, names.PUSH_COLUMNS, names.PUSH_LIMIT)

    def __init__(self, bridge: Bridge, source: Source) -> None:
        super().__init__(bridge)
        self._source = source
        self._pushed = Pushed(source.schema)
        self._pushed_predicates: list[Any] = []

    def push_predicates(self, predicates: Any) -> Any:
        """Take what Lance can filter by; returns what Spark has to apply, also again."""
        left = []
        for predicate in predicates:
            found = self._translated(predicate)
            if found is not None:
                self._pushed = replace(self._pushed, filters=(*self._pushed.filters, found))
                self._pushed_predicates.append(predicate)
            if found is None or not found.exact:
                left.append(predicate)
        return self.bridge.array(names.PREDICATE, left)

    def pushed_predicates(self) -> Any:
        """What was taken."""
        return self.bridge.array(names.PREDICATE, self._pushed_predicates)

    def _translated(self, predicate: Any) -> Any:
        if self._source.read.options.limit is not None:
            return None  # the limit comes first
        found = expression(predicate)
        return None if found is None else translate(found, self._source.arrow)

    def prune_columns(self, schema: Any) -> None:
        """Keep these columns, and of structs these fields."""
        columns = from_java(schema)
        if columns.names:
            self._pushed = replace(self._pushed, columns=columns)
        else:
            self._pushed = replace(self._pushed, columns=_placeholder(self._source.schema), counted=True)

    def push_limit(self, limit: int) -> bool:
        """Take a limit. Spark applies it again."""
        if self._source.read.options.limit is None:
            self._pushed = replace(self._pushed, limit=limit)
            return True
        return False

    def is_partially_pushed(self) -> bool:
        """Spark applies limits again: each partition returns that many rows at most."""
        return True

    def build(self) -> Any:
        """The scan."""
        return NativeScan(self.bridge, self._source, self._pushed).java()


def _placeholder(schema: StructType) -> StructType:
    """One column for a scan whose rows are only counted: nobody looks at its values, which are nulls."""
    first = schema.fields[0]
    return StructType([StructField(first.name, first.dataType, True)])
