"""A catalog of what ``load`` read: a client of Spark Connect names each read by a number."""

from __future__ import annotations

from typing import Any

from lance_spark.jvm.bridge import Bridge, java_error
from lance_spark.jvm.names import NO_SUCH_TABLE
from lance_spark.native.catalog import PathCatalog
from lance_spark.native.places import parts_of
from lance_spark.native.scan import Source
from lance_spark.native.tables import NativeTable


class LoadedCatalog(PathCatalog):
    """Its tables are numbers, each with a version that stays."""

    def __init__(self, bridge: Bridge, name: str) -> None:
        super().__init__(bridge, name, {})
        self._sources: list[Source] = []

    def add(self, source: Source) -> int:
        """The number of a read; an equal one has the same."""
        for number, known in enumerate(self._sources):
            if known == source:
                return number
        self._sources.append(source)
        return len(self._sources) - 1

    def load_table(self, wanted: Any, at: Any = None) -> Any:  # noqa: ARG002 - the version is in the read
        """The table of a number. Raises Spark's error for an unknown one."""
        (number,) = parts_of(wanted)
        if not number.isdecimal() or int(number) >= len(self._sources):
            raise java_error(self.bridge.new(NO_SUCH_TABLE, wanted))
        source = self._sources[int(number)]
        return NativeTable(self.bridge, source, source.name).java()

    def table_exists(self, wanted: Any) -> bool:
        parts = parts_of(wanted)
        return len(parts) == 1 and parts[0].isdecimal() and int(parts[0]) < len(self._sources)
