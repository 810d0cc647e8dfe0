"""From the arguments of ``add_columns`` and ``update_columns`` to what computes the values; nothing runs but checks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lance_spark.backfill.columns import check_read, columns_in, existing_columns, new_columns
from lance_spark.backfill.options import BackfillOptions
from lance_spark.errors import InvalidOption, Refused, SchemaMismatch
from lance_spark.location import DatasetLocation
from lance_spark.options.text import names_of
from lance_spark.refs.model import PinnedVersion
from lance_spark.rows.narrow import set_where
from lance_spark.scan.plan import batch_rows
from lance_spark.schema.blobs import is_blob
from lance_spark.schema.projection import ROW_ADDRESS, unknown_column
from lance_spark.schema.width import row_width
from lance_spark.store.scanning import stored_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from lance_spark.backfill.model import ComputedColumns
    from lance_spark.spark.column_sources import ColumnTarget, FrameValues, FunctionValues, RowCondition, SqlValues

_FORMS = "Give a dict of SQL by column, a function with schema=..., or a DataFrame with on=..."


@dataclass(frozen=True)
class Asked:
    """The arguments that say which values."""

    values: Any
    """A dict of SQL, a function or its class, or a DataFrame."""
    on: str | Sequence[str] | None = None
    schema: Any = None
    """DDL, a StructType or an Arrow schema; of an update also a list of columns."""
    columns: str | Sequence[str] | None = None
    vector: Mapping[str, int] | None = None
    existing: bool = False
    """Whether the columns are there already."""
    where: str | None = None
    """Which rows get values, in SQL; the others keep theirs. None for all."""


def values_of(
    spark: SparkSession, location: DatasetLocation, pin: PinnedVersion, asked: Asked, options: BackfillOptions
) -> ComputedColumns:
    """What computes the values. Raises InvalidOption for arguments that do not go together, and what checks raise."""
    from lance_spark.spark.column_sources import ColumnTarget

    target = ColumnTarget(spark, location)
    if isinstance(asked.values, Mapping):
        _only(asked, "SQL", ("vector",), options)
        return _sql(target, pin, asked)
    if hasattr(asked.values, "columns") and hasattr(asked.values, "sparkSession"):
        _only(asked, "A DataFrame", ("on", "vector"), options)
        return _frame(target, pin, asked, options)
    if callable(asked.values):
        _only(asked, "A function", ("schema", "columns", "vector", "batch_size"), options)
        return _function(target, pin, asked, options)
    raise InvalidOption(f"{type(asked.values).__name__} gives no values.", hint=_FORMS)


def _only(asked: Asked, what: str, known: Sequence[str], options: BackfillOptions) -> None:
    given = {name: getattr(asked, name) for name in ("on", "schema", "columns", "vector")}
    given["batch_size"] = options.batch_size
    for name, value in given.items():
        if value is not None and name not in known:
            raise InvalidOption(f"{what} takes no {name}=.", hint=_FORMS)


def _sql(target: ColumnTarget, pin: PinnedVersion, asked: Asked) -> SqlValues:
    from lance_spark.spark.column_sources import SqlValues, evaluated, quoted
    from lance_spark.spark.probing import probe
    from lance_spark.spark.types import to_arrow

    expressions = dict(asked.values)
    for name, text in expressions.items():
        if not isinstance(text, str) or not text.strip():
            raise InvalidOption(f"Column '{name}' has no SQL.", hint='Text such as "distance / air_time".')
    texts = tuple(set_where(expressions, asked.where).values())
    seen = target.seen(pin)
    own = stored_schema(target.location, pin)
    read = columns_in(texts, own.names)
    rows = probe(target.spark, seen).select(*map(quoted, read), ROW_ADDRESS)
    given = to_arrow(rows.select(*evaluated(texts)).schema)
    named = pa.schema([given.field(place + 1).with_name(name) for place, name in enumerate(expressions)])
    return SqlValues(target, _columns(own, named, asked), read, texts)


def _frame(target: ColumnTarget, pin: PinnedVersion, asked: Asked, options: BackfillOptions) -> FrameValues:
    from lance_spark.spark.column_sources import FrameValues, repeated_key
    from lance_spark.spark.types import to_arrow

    if not asked.on:
        raise InvalidOption("A DataFrame needs the key that it shares with the table.", hint="on='flight_id'.")
    keys = names_of(asked.on)
    frame = asked.values
    own = stored_schema(target.location, pin)
    for key in keys:
        for names in (own.names, frame.columns):
            if key not in names:
                raise unknown_column(key, names)
    given = to_arrow(_without(frame.schema, keys))
    repeated = repeated_key(frame, keys)
    if repeated is not None:
        shown = ", ".join(f"{name} = {value!r}" for name, value in repeated.items())
        raise SchemaMismatch(
            f"The DataFrame has several rows with {shown}: which values the row gets is not said.",
            hint=f"Keep one for each key, e.g. df.dropDuplicates({list(keys)}).",
        )
    condition = _condition(target, pin, asked)
    identity = json.dumps(["frame", *keys, asked.where]) if options.tag else None
    return FrameValues(target, _columns(own, given, asked), keys, frame, asked.existing, identity, condition)


def _without(schema: StructType, keys: Sequence[str]) -> StructType:
    from pyspark.sql.types import StructType as Struct

    return Struct([field for field in schema if field.name not in keys])


def _function(target: ColumnTarget, pin: PinnedVersion, asked: Asked, options: BackfillOptions) -> FunctionValues:
    from lance_spark.spark.column_sources import FunctionValues

    own = stored_schema(target.location, pin)
    named = _schema_of(target.spark, own, asked)
    read = check_read(own, asked.columns)
    if not read:
        raise InvalidOption("The function reads no column.", hint="Name one in columns=[...].")
    width = row_width(pa.schema([own.field(name) for name in read]))
    size = options.batch_size or batch_rows(width)
    condition = _condition(target, pin, asked)
    if condition is not None and any(is_blob(own.field(name)) for name in read):
        raise Refused("With where=, the function cannot read blobs.", hint="Leave where= out, or name other columns.")
    return FunctionValues(target, _columns(own, named, asked), read, asked.values, size, condition)


def _condition(target: ColumnTarget, pin: PinnedVersion, asked: Asked) -> RowCondition | None:
    """Raises InvalidOption for what is no condition, and Spark's error for what it does not know."""
    from pyspark.sql.functions import expr

    from lance_spark.spark.column_sources import RowCondition, quoted
    from lance_spark.spark.probing import probe

    if asked.where is None:
        return None
    read = columns_in((asked.where,), stored_schema(target.location, pin).names)
    found = RowCondition(asked.where, read)
    rows = probe(target.spark, target.seen(pin)).select(*map(quoted, read), ROW_ADDRESS)
    kind = rows.select(ROW_ADDRESS, expr(asked.where)).schema[1].dataType.simpleString()
    if kind != "boolean":
        raise InvalidOption(f"where={asked.where!r} is {kind}, and no condition.", hint='Such as "day > 3".')
    return found


def _schema_of(spark: SparkSession, own: pa.Schema, asked: Asked) -> pa.Schema:
    from pyspark.sql.types import StructType as Struct

    from lance_spark.spark.types import to_arrow

    given = asked.schema
    if isinstance(given, pa.Schema):
        return given
    if asked.existing and given in own.names:
        given = names_of(given)
    if isinstance(given, str):
        given = spark.createDataFrame([], given).schema
    if isinstance(given, Struct):
        return to_arrow(given)
    if asked.existing and isinstance(given, Sequence) and given:
        return pa.schema([own.field(name) for name in check_read(own, given)])
    raise InvalidOption(
        "The function needs the columns that it returns.",
        hint='schema="emb array<float>"' + (', or schema=["emb"].' if asked.existing else "."),
    )


def _columns(own: pa.Schema, given: pa.Schema, asked: Asked) -> pa.Schema:
    columns = new_columns(given, asked.vector)
    return existing_columns(own, columns) if asked.existing else columns
