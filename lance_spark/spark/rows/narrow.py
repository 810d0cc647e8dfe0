"""Updates of narrow columns of wide tables: files with these columns only, where that writes less than whole rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow.types as pt
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - the usual name for it
from pyspark.sql import types as st

from lance_spark.actions.backfill import update_filled_columns
from lance_spark.backfill.options import BackfillOptions
from lance_spark.errors import LanceSparkError
from lance_spark.location import DatasetLocation
from lance_spark.refs.model import PinnedVersion
from lance_spark.rows.narrow import UpdateSize, columns_are_cheaper, columns_may_be_cheaper, quoted_name
from lance_spark.rows.result import ChangeResult
from lance_spark.schema.width import row_width
from lance_spark.spark.column_values import Asked, values_of
from lance_spark.spark.probing import probe
from lance_spark.spark.rows.target import TargetRows
from lance_spark.store.datasets import pin_latest
from lance_spark.store.fragment_sizes import fragment_sizes
from lance_spark.store.index_descriptions import describe_segments
from lance_spark.store.scanning import stored_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lance_spark.backfill.model import ComputedColumns


@dataclass(frozen=True)
class NarrowUpdate:
    """An update in SQL that may be done column by column."""

    spark: SparkSession
    location: DatasetLocation
    branch: str | None
    values: Mapping[str, str]
    where: str | None

    def run(self, message: str | None) -> ChangeResult | None:
        """Do it, if that writes less than whole rows would; None if rows are to be written."""
        start = pin_latest(self.location, self.branch)
        size = self._size(start)
        if size is None or not columns_may_be_cheaper(size):
            return None
        options = BackfillOptions(resume=False, message=message)
        computed = self._computed(start, options)
        if computed is None:
            return None
        matched = self._matched(start)
        if not columns_are_cheaper(size, matched):
            return None
        result = update_filled_columns(self.location, self.branch, computed, options)
        read = PinnedVersion(self.branch, result.version.version - 1)
        if read.version != start.version:
            matched = self._matched(read)  # of the version on which the values were computed at last
        return ChangeResult(result.version, rows_updated=matched, files=result.fragments, bytes=result.bytes)

    def _size(self, start: PinnedVersion) -> UpdateSize | None:
        """None where columns do not do: nested ones, and those that an index would have to learn anew."""
        schema = stored_schema(self.location, start)
        if any(schema.get_field_index(name) < 0 for name in self.values):
            return None
        fields = [schema.field(name) for name in self.values]
        if any(pt.is_nested(field.type) or field.metadata for field in fields):
            return None
        indexed = {name for segment in describe_segments(self.location, start) for name in segment.columns}
        if indexed & self.values.keys():
            return None
        fragments = fragment_sizes(self.location, start)
        rows = sum(fragment.live_rows for fragment in fragments)
        return UpdateSize(sum(fragment.stored_bytes for fragment in fragments), rows, row_width(fields))

    def _computed(self, start: PinnedVersion, options: BackfillOptions) -> ComputedColumns | None:
        """None for values that have to be cast, or that Spark does not compute row by row: the other way says why."""
        try:
            schema = TargetRows(self.spark, self.location).schema(start)
            rows = probe(self.spark, schema)
            for name, text in self.values.items():
                both = rows.select(F.expr(text), F.expr(f"CASE WHEN true THEN ({text}) ELSE {quoted_name(name)} END"))
                if not _fits(both, schema[name].dataType):
                    return None
            asked = Asked(self.values, existing=True, where=self.where)
            return values_of(self.spark, self.location, start, asked, options)
        except (LanceSparkError, PySparkException):
            return None

    def _matched(self, pin: PinnedVersion) -> int:
        where = self.where
        rows = TargetRows(self.spark, self.location)
        if where is None:
            return sum(fragment.live_rows for fragment in fragment_sizes(self.location, pin))

        def counted(target: DataFrame) -> DataFrame:
            return target.where(where).agg(F.count("*"))

        (row,) = rows.select(pin, counted).collect()
        return int(row[0])


def _fits(both: DataFrame, wanted: st.DataType) -> bool:
    given, joined = (field.dataType for field in both.schema)
    numbers = isinstance(given, st.NumericType) and isinstance(wanted, st.NumericType)
    return given == wanted or (numbers and joined == wanted)
