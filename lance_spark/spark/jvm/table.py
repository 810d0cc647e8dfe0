"""A version of a dataset as a table of Spark's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.sql.types import LongType

from lance_spark.schema.projection import ROW_COLUMNS
from lance_spark.spark.jvm import names
from lance_spark.spark.jvm.proxies import Implementation
from lance_spark.spark.jvm.scan_builder import NativeScanBuilder

if TYPE_CHECKING:
    from lance_spark.spark.jvm.bridge import Bridge
    from lance_spark.spark.jvm.source import Source


class NativeTable(Implementation):
    """Spark's ``Table``.

    It tells Spark no version: a table that does is looked up again at each action of a DataFrame, which would then
    see what was committed after it was made.
    """

    interfaces: ClassVar[tuple[str, ...]] = (names.TABLE, names.SUPPORTS_READ, names.METADATA_COLUMNS)

    def __init__(self, bridge: Bridge, source: Source, name: str) -> None:
        super().__init__(bridge)
        self.source, self._name = source, name

    def to_string(self) -> str:
        """Java's toString; tables of the same read have the same, and are equal."""
        return f"NativeTable {self.source.key}"

    def equals(self, other: Any) -> bool:
        """Whether the other one is the same version: then what was cached of it holds for this one."""
        return bool(other is not None and other.toString() == self.to_string())

    def hash_code(self) -> int:
        """Java's hashCode."""
        return hash(self.to_string()) & 0x7FFFFFFF

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

    def partitioning(self) -> Any:
        """None."""
        return self.bridge.empty(names.TRANSFORM)

    def metadata_columns(self) -> Any:
        """Columns that are there for those who ask for them."""
        found = [RowColumn(self.bridge, name).java() for name in ROW_COLUMNS]
        return self.bridge.array(names.METADATA_COLUMN, found)

    def new_scan_builder(self, _options: Any) -> Any:
        """One for each query."""
        return NativeScanBuilder(self.bridge, self.source).java()


class RowColumn(Implementation):
    """Spark's ``MetadataColumn``."""

    interfaces: ClassVar = (names.METADATA_COLUMN,)

    def __init__(self, bridge: Bridge, name: str) -> None:
        super().__init__(bridge)
        self._name = name

    def name(self) -> str:
        """The column's name."""
        return self._name

    def data_type(self) -> Any:
        """The column's type."""
        return self.bridge.call(f"{names.DATA_TYPE}.fromJson", LongType().json())

    def is_nullable(self) -> bool:
        """Every row has one."""
        return False
