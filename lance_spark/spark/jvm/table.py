"""A version of a dataset as a table of Spark's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from lance_spark.spark.jvm import names
from lance_spark.spark.jvm.proxies import Implementation
from lance_spark.spark.jvm.scan_builder import NativeScanBuilder

if TYPE_CHECKING:
    from lance_spark.spark.jvm.bridge import Bridge
    from lance_spark.spark.jvm.source import Source


class NativeTable(Implementation):
    """Spark's ``Table``. It has no version for Spark: one that has is looked up again at each action of a DataFrame,
    which would then see what was committed after it was made.
    """

    interfaces: ClassVar = (names.TABLE, names.SUPPORTS_READ)

    def __init__(self, bridge: Bridge, source: Source, name: str) -> None:
        super().__init__(bridge)
        self.source, self._name = source, name

    def to_string(self) -> str:
        return self.source.key

    def name(self) -> str:
        """Its name in plans."""
        return self._name

    def schema(self) -> Any:
        """All columns."""
        return self.bridge.schema(self.source.schema)

    def capabilities(self) -> Any:
        """What Spark may do with it."""
        found = self.bridge.new("java.util.HashSet")
        found.add(self.bridge.find(f"{names.CAPABILITY}.BATCH_READ"))
        return found

    def new_scan_builder(self, options: Any) -> Any:
        """One for each query."""
        return NativeScanBuilder(self.bridge, self.source).java()
