"""Streams out of a table by its name: Spark's own stream of Python data sources, with options that name the table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lance_spark.errors import InvalidOption
from lance_spark.options.catalog import OWN_NAME
from lance_spark.options.stream_read import parse_stream_options, split_stream_options
from lance_spark.spark.jvm import names

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from lance_spark.spark.jvm.bridge import Bridge
    from lance_spark.spark.jvm.places import Place


@dataclass(frozen=True)
class TableStream:
    """What a stream of a table needs to know, if a scan turns out to be one. Spark asks for a scan first."""

    bridge: Bridge
    place: Place
    given: Mapping[str, str]
    """The options of the read."""

    def micro_batches(self, schema: StructType, checkpoint: str) -> Any:
        """Spark's ``MicroBatchStream``. Raises Refused for what never changes, and InvalidOption."""
        branch = self.place.branch_to_change("follow it")
        own, rest = split_stream_options(self.given)
        if parse_stream_options(own, rest).changes:
            named = {name: value for name, value in self.place.options.items() if name in ("catalog", "path")}
            load = "".join(f".option({name!r}, {value!r})" for name, value in named.items() if name != "path")
            load += "" if branch is None else f".option('branch', {branch!r})"
            raise InvalidOption(
                "A change feed has more columns than its table, and cannot be read by the table's name.",
                hint=f"spark.readStream.format('lance'){load}.option('changes', 'true').load({named['path']!r}).",
            )
        bridge = self.bridge
        options = {**self.given, **self.place.options, **({} if branch is None else {"branch": branch})}
        source = bridge.new(names.PYTHON_SOURCE_V2)
        source.setShortName(OWN_NAME)
        table = source.getTable(bridge.schema(schema), bridge.empty(names.TRANSFORM), bridge.map({}))
        return table.newScanBuilder(bridge.options(options)).build().toMicroBatchStream(checkpoint)
