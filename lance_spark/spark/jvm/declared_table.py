"""A table of a catalog that is only declared: it has a name and no columns yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.sql.types import StructType

from lance_spark.errors import NotFound
from lance_spark.spark.jvm import names
from lance_spark.spark.jvm.proxies import Implementation
from lance_spark.spark.jvm.writing import NativeWriteBuilder, capabilities

if TYPE_CHECKING:
    from lance_spark.spark.jvm.bridge import Bridge
    from lance_spark.spark.jvm.places import Place


class DeclaredTable(Implementation):
    """Spark's ``Table`` that takes its first rows, whatever their columns; or is replaced, or dropped."""

    interfaces: ClassVar = (names.TABLE, names.SUPPORTS_READ, names.SUPPORTS_WRITE)

    def __init__(self, bridge: Bridge, name: str, place: Place, properties: Callable[[], Mapping[str, str]]) -> None:
        super().__init__(bridge)
        self._name, self._place, self._properties = name, place, properties

    def name(self) -> str:
        """Its name in plans."""
        return self._name

    def schema(self) -> Any:
        """No columns."""
        return self.bridge.schema(StructType())

    def capabilities(self) -> Any:
        """What Spark may do with it."""
        supported = capabilities(self.bridge)
        supported.add(self.bridge.find(f"{names.CAPABILITY}.ACCEPT_ANY_SCHEMA"))
        return supported

    def properties(self) -> Any:
        """For DESCRIBE and SHOW."""
        return self.bridge.map(self._properties())

    def new_scan_builder(self, _options: Any) -> Any:
        """Raises NotFound."""
        raise NotFound(
            f"Table {self._name} has no data yet: a job is writing it, or was killed at that.",
            hint="Append to it, replace it with CREATE OR REPLACE TABLE, or drop it.",
        )

    def new_write_builder(self, info: Any) -> Any:
        """The first rows."""
        return NativeWriteBuilder(self.bridge, info, self._place.options).java()
