"""A merge whose rows are found through an index on the key, where the source is small beside the table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import types as st

from lance_spark.refs.model import PinnedVersion
from lance_spark.rows.clauses import SOURCE, TARGET
from lance_spark.rows.lookup import Found, can_be_looked_up, estimated_bytes, uses_index
from lance_spark.schema.projection import ROW_ADDRESS
from lance_spark.schema.width import row_width
from lance_spark.spark.failures import plainly
from lance_spark.spark.rows.assignment import quoted
from lance_spark.spark.types import wire_schema
from lance_spark.store.row_lookup import Lookup, rows_outside, with_matches
from lance_spark.store.scanning import stored_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lance_spark.spark.rows.target import TargetRows


def is_worth_it(rows: TargetRows, pin: PinnedVersion, source: DataFrame, key: str) -> bool:
    """Whether the source's keys should be looked up one by one."""
    schema = rows.schema(pin)
    stored = stored_schema(rows.location, pin)
    if stored.get_field_index(key) < 0 or key not in source.columns or not _are_plain(source.columns, schema.names):
        return False
    if not can_be_looked_up(stored.field(key).type) or source.schema[key].dataType != schema[key].dataType:
        return False
    known = rows_outside(rows.location, pin, key)
    if known is None:
        return False
    try:
        given = wire_schema(source.schema)
    except PySparkException:
        return False  # a type that Spark hands to no Python function
    # The table knows how long its vectors are. Taken for short lists, a source of few rows seems to have very many.
    width = row_width(
        stored.field(name) if stored.get_field_index(name) >= 0 else given.field(name) for name in given.names
    )
    size = estimated_bytes(_explained(rows, source))
    return size is not None and uses_index(Found(known[0], known[1], size, width))


def _are_plain(source: Sequence[str], table: Sequence[str]) -> bool:
    """Whether columns beside the two sides, as structs, mean what they mean in a join."""
    folded = [name.lower() for name in source]
    return len({*folded}) == len(folded) and {SOURCE, TARGET}.isdisjoint([*folded, *(name.lower() for name in table)])


def _explained(rows: TargetRows, source: DataFrame) -> str:
    row = rows.spark.sql("EXPLAIN COST SELECT * FROM {source}", source=source).first()
    return "" if row is None else str(row[0])


def looked_up(rows: TargetRows, pin: PinnedVersion, source: DataFrame, key: str, columns: Sequence[str]) -> DataFrame:
    """The source's rows, each beside the table's rows that have its key, in structs named as the sides of a merge.

    Columns that only one side has can be named without it, as in a join. Of the table there are these columns and
    the address.
    """
    table = rows.schema(pin)
    fields = [field for field in table if field.name in {*columns, key}]
    target = st.StructType([*(st.StructField(field.name, field.dataType) for field in fields)])
    target = target.add(ROW_ADDRESS, st.LongType())
    lookup = Lookup(rows.location, pin, key, wire_schema(target))

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with plainly():
            yield from with_matches(lookup, (SOURCE, TARGET), batches)

    given = st.StructType([st.StructField(field.name, field.dataType) for field in source.schema])
    schema = st.StructType([st.StructField(SOURCE, given), st.StructField(TARGET, target)])
    found = source.mapInArrow(run, schema)
    own = [quoted(name, SOURCE).alias(name) for name in source.columns if name not in table.names]
    theirs = [quoted(name, TARGET).alias(name) for name in target.names if name not in source.columns]
    return found.select(SOURCE, TARGET, *own, *theirs)
