"""A table of a catalog that is only declared: it has a name and no columns yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.sql.types import StructType

from lance_spark.errors import NotFound
from lance_spark.spark.jvm import answers, names
from lance_spark.spark.jvm.proxies import Implementation
from lance_spark.spark.jvm.writing import WRITABLE, NativeWriteBuilder

if TYPE_CHECKING:
    from lance_spark.spark.jvm.answers import Answer
    from lance_spark.spark.jvm.bridge import Bridge
    from lance_spark.spark.jvm.places import Place


class DeclaredTable(Implementation):
    """Spark's ``Table`` that takes its first rows, whatever their columns; or is replaced, or dropped."""

    interfaces: ClassVar = (names.TABLE, names.SUPPORTS_READ, names.SUPPORTS_WRITE)

    def __init__(self, bridge: Bridge, name: str, place: Place, properties: Callable[[], Mapping[str, str]]) -> None:
        super().__init__(bridge)
        self._name, self._place, self._properties = name, place, properties

    def answered(self) -> dict[str, Answer]:
        """A table without columns."""
        return {
            "name": answers.text(self._name),
            "schema": answers.schema(StructType()),
            "capabilities": answers.capabilities((*WRITABLE, "ACCEPT_ANY_SCHEMA")),
        }

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
