"""The rows of a table that may change, as DataFrames with their addresses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from lance_spark.actions.read import PinnedRead, blob_names, read_schema
from lance_spark.location import DatasetLocation
from lance_spark.options.catalog import OWN_NAME
from lance_spark.options.read import ReadOptions
from lance_spark.options.storage import PREFIX
from lance_spark.refs.model import PinnedVersion
from lance_spark.refs.names import MAIN
from lance_spark.scan.plan import ScanPartition
from lance_spark.schema.conform import conform
from lance_spark.schema.projection import ROW_ADDRESS
from lance_spark.spark.narrow_query import needs, read_options, with_all_columns
from lance_spark.spark.runner import SparkRunner
from lance_spark.spark.types import to_spark, wire_schema
from lance_spark.store.row_values import kept_columns
from lance_spark.store.scanning import Scan, ScanColumns, read_batches, stored_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class TargetRows:
    """A table whose rows are to change."""

    spark: SparkSession
    location: DatasetLocation

    def schema(self, pin: PinnedVersion) -> StructType:
        """The table's columns in Spark's types, without the row's address."""
        read = self._read(pin)
        return to_spark(read_schema(read), blob_names(read))

    def kept(self, pin: PinnedVersion, sets: frozenset[str] | None) -> frozenset[str]:
        """The columns that updates leave as they are, and that action frames need not have."""
        return frozenset(kept_columns(stored_schema(self.location, pin), sets))

    def select(self, pin: PinnedVersion, query: Callable[[DataFrame], DataFrame]) -> DataFrame:
        """A query over all rows of a version, reading only what it needs; ``_rowaddr`` is a column.

        The function may be called several times, as that of ``LanceTable.query``. The session is one of a handle, or
        of a statement in SQL: its own name of the format is registered.
        """
        from lance_spark.spark.jvm.detection import connected

        if self.spark in connected:
            return query(self._load(pin, {"with_row_address": True}))
        read = self._read(pin, with_row_address=True)
        own = read_schema(read)
        seen = to_spark(own, blob_names(read))
        found = needs(self.spark, query, seen, own)
        options = read_options(found, seen)
        columns = options.pop("columns", None)
        if isinstance(columns, list):
            # The address is known by its plain name only.
            named = [name for name in columns if name.strip("`") != ROW_ADDRESS]
            options["columns"] = ",".join([*named, ROW_ADDRESS])
        else:
            options["with_row_address"] = True
        return query(with_all_columns(self._load(pin, options), found, seen))

    def needed(self, pin: PinnedVersion, query: Callable[[DataFrame], DataFrame]) -> list[str] | None:
        """The columns that a query needs, if Spark's plan tells, and if none of them holds blobs."""
        read = self._read(pin, with_row_address=True)
        own = read_schema(read)
        found = needs(self.spark, query, to_spark(own, blob_names(read)), own).columns
        if found is None or not blob_names(read).isdisjoint(found):
            return None
        return [name for name in found if name != ROW_ADDRESS]

    def fragments(self, pin: PinnedVersion, fragments: Sequence[int]) -> DataFrame:
        """All rows of some fragments of a version."""
        read = self._read(pin, with_row_address=True)
        own = read_schema(read)
        schema = to_spark(own, blob_names(read))
        wire = wire_schema(schema)
        names = tuple(name for name in own.names if name != ROW_ADDRESS)
        columns = ScanColumns(names, with_row_address=True)
        if read.options.blob_handling == "bytes":
            columns = replace(columns, blobs="all_binary")
        scan = Scan(self.location, pin, columns)

        def rows(fragment: int) -> Iterator[pa.RecordBatch]:
            for batch in read_batches(scan, ScanPartition((fragment,))):
                yield conform(batch, wire)

        return SparkRunner(self.spark, "read").flat_map("read new rows", list(fragments), rows, wire)

    def _read(self, pin: PinnedVersion, with_row_address: bool = False) -> PinnedRead:
        plain = PinnedRead(self.location, pin, ReadOptions())
        handling = "bytes" if blob_names(plain) else "descriptions"
        options = ReadOptions(with_row_address=with_row_address, blob_handling=handling)  # type: ignore[arg-type]
        return PinnedRead(self.location, pin, options)

    def _load(self, pin: PinnedVersion, options: dict[str, object]) -> DataFrame:
        read = self._read(pin)
        given = {**options, "branch": pin.branch or MAIN, "version": pin.version}
        given["blob_handling"] = read.options.blob_handling
        reader = self.spark.read.format(OWN_NAME)
        for key, value in given.items():
            reader = reader.option(key, str(value))
        for key, secret in self.location.options:
            reader = reader.option(PREFIX + key, secret)
        return reader.load(self.location.uri)
