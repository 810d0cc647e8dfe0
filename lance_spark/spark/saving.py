"""Writes a DataFrame to a table of a catalog, through the data source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, get_args

from pyspark.errors import PySparkException

from lance_spark.actions.catalog.lookup import table_exists
from lance_spark.errors import AlreadyExists, InvalidOption
from lance_spark.options.catalog import OWN_NAME
from lance_spark.options.storage import PREFIX
from lance_spark.spark.datasource import register
from lance_spark.spark.failures import own_error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lance_spark.catalog.model import Catalog
    from lance_spark.catalog.names import Identifier

SaveMode = Literal["errorifexists", "error", "ignore", "append", "overwrite"]


def write_table(
    catalog: Catalog, frame: DataFrame, table: Identifier, mode: SaveMode, options: Mapping[str, object]
) -> None:
    """Write a DataFrame as one version. Raises this package's own errors where the data source did."""
    if mode not in get_args(SaveMode):
        raise InvalidOption(f"{mode!r} is no save mode.", hint=f"Choose one of {', '.join(get_args(SaveMode))}.")
    if mode == "ignore" and table_exists(catalog, table):
        return
    new = mode not in ("append", "overwrite")
    settings = {PREFIX + key: value for key, value in catalog.root.options}
    settings |= {key: str(value) for key, value in options.items()}
    settings |= {"catalog": catalog.uri, "catalog_mode": catalog.mode, **({"create_table": "true"} if new else {})}
    register(frame.sparkSession, OWN_NAME)
    writer = frame.write.format(OWN_NAME).mode("overwrite" if mode == "overwrite" else "append")
    try:
        writer.options(**settings).save(str(table))
    except PySparkException as problem:
        known = own_error(str(problem))
        if mode == "ignore" and isinstance(known, AlreadyExists):
            return
        raise known or problem from None
