"""An inventory of a bucket as a listing: paths made relative, files of other datasets left out. Pure."""

from __future__ import annotations

from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.errors import SchemaMismatch

COLUMNS = ("path", "size", "last_modified")
_TIME = pa.timestamp("us", "UTC")


def to_listing(batch: pa.RecordBatch, uri: str) -> pa.Table:
    """Rows of an inventory (``path``, ``size``, ``last_modified``) as a listing of the dataset at ``uri``.

    A path is absolute, a URI or a local path, or relative to the dataset. Text for the time is ISO 8601 in UTC.
    Raises SchemaMismatch, which names the column, for a column that is missing or has a type that cannot be used.
    """
    missing = [name for name in COLUMNS if name not in batch.schema.names]
    if missing:
        raise SchemaMismatch(
            f"The inventory has no column '{missing[0]}'.", hint=f"It needs the columns {', '.join(COLUMNS)}."
        )
    root = unquote(uri) if "://" in uri else uri
    paths = [_relative(path, root) for path in batch["path"].to_pylist()]
    columns = [pa.array(paths, pa.string()), _cast(batch, "size", pa.int64()), _cast(batch, "last_modified", _TIME)]
    listing = pa.table(columns, names=list(COLUMNS))
    return listing.filter(pc.is_valid(listing["path"]))


def _relative(path: str | None, root: str) -> str | None:
    if path is None:
        return None
    whole = path.replace("s3a://", "s3://", 1).replace("s3n://", "s3://", 1)
    if whole.startswith(f"{root}/"):
        return whole[len(root) + 1 :]
    return None if "://" in whole or whole.startswith("/") else whole


def _cast(batch: pa.RecordBatch, name: str, kind: pa.DataType) -> pa.Array:
    column = batch[name]
    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(column.type) and column.type.tz is None:
        column = pc.assume_timezone(column, "UTC")
    try:
        return column.cast(kind, safe=False) if pa.types.is_timestamp(kind) else column.cast(kind)
    except pa.ArrowInvalid as problem:
        raise SchemaMismatch(f"Column '{name}' of the inventory is {column.type}: {problem}.") from None
