"""A version of a dataset as a table of Spark's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from lance_spark.schema.projection import ROW_COLUMNS
from lance_spark.spark.jvm import answers, names
from lance_spark.spark.jvm.proxies import Implementation
from lance_spark.spark.jvm.scan_builder import NativeScanBuilder

if TYPE_CHECKING:
    from lance_spark.spark.jvm.answers import Answer
    from lance_spark.spark.jvm.bridge import Bridge
    from lance_spark.spark.jvm.source import Source


class NativeTable(Implementation):
    """Spark's ``Table``.

    It tells Spark no version: a table that does is looked up again at each action of a DataFrame, which would then
    see what was committed after it was made.
    """

    interfaces: ClassVar[tuple[str, ...]] = (names.TABLE, names.SUPPORTS_READ, names.METADATA_COLUMNS)
    told: ClassVar = frozenset({"newScanBuilder"})
    same: ClassVar = True
    supported: ClassVar[tuple[str, ...]] = ("BATCH_READ",)
    """What Spark may do with it."""

    def __init__(self, bridge: Bridge, source: Source, name: str) -> None:
        super().__init__(bridge)
        self.source, self._name = source, name

    def to_string(self) -> str:
        """Java's toString; tables of the same read have the same, and are equal: what was cached is for all."""
        return f"NativeTable {self.source.key}"

    def answered(self) -> dict[str, Answer]:
        """What there is to say of a version."""
        return {
            "name": answers.text(self._name),
            "schema": answers.schema(self.source.schema),
            "capabilities": answers.capabilities(self.supported),
            "metadataColumns": answers.row_columns(ROW_COLUMNS),
        }

    def new_scan_builder(self, _options: dict[str, str]) -> Any:
        """One for each query."""
        return NativeScanBuilder(self.bridge, self.source).java()
