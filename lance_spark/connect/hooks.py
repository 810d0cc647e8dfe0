"""Patches of Spark Connect's PySpark, in effect while a session is connected to the process beside its server.

``SparkSession.sql`` hands over what Spark does not execute itself for a Lance table: UPDATE, DELETE, MERGE, OPTIMIZE
and similar statements. ``DataFrameReader.load`` of this package's formats reads natively. All else is as before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pyspark.sql.connect.readwriter import DataFrameReader
from pyspark.sql.connect.session import SparkSession
from pyspark.sql.connect.sql_formatter import SQLStringFormatter

from lance_spark.connect.client import current
from lance_spark.core.options import OWN_NAME
from lance_spark.session.patches import Patches
from lance_spark.sql.statement_rules import may_change_rows, opened

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PATCHES = Patches()
_names: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()
"""This package's format names, in lower case, by session."""


@_PATCHES.of(SparkSession, "sql")
def _sent_sql(original: Any, /, self: Any, sqlQuery: str, args: Any = None, **kwargs: Any) -> Any:  # noqa: N803
    found = current(self)
    known = args is None or isinstance(args, dict | list)
    if found is None or not known or not (may_change_rows(sqlQuery) or opened(sqlQuery, args)):
        return original(self, sqlQuery, args, **kwargs)
    formatter = SQLStringFormatter(self)
    text = formatter.format(sqlQuery, **kwargs) if kwargs else sqlQuery
    views = {name: frame for frame, name in formatter._temp_views}
    try:
        for name, frame in views.items():
            frame.createOrReplaceTempView(name)
        result: DataFrame | None = found.statement(text, args)
    finally:
        for name in views:
            self.catalog.dropTempView(name)
    return original(self, sqlQuery, args, **kwargs) if result is None else result


@_PATCHES.of(DataFrameReader, "load")
def _sent_load(
    original: Any, /, self: Any, path: Any = None, format: str | None = None, schema: Any = None, **options: Any
) -> Any:
    found = current(self._client)
    name = format or self._format or ""
    ours = name.lower() in {OWN_NAME, *_names.get(self._client, ())}
    if found is None or not ours or isinstance(path, list | tuple):
        return original(self, path, format, schema, **options)
    if schema is not None:
        self.schema(schema)
    self.options(**options)
    given = {key: value for key, value in self._options.items() if value is not None}
    if path is not None:
        given["path"] = str(path)
    return found.spark.table(found.load(given, self._schema or None))


def install(spark: Any, name: str) -> None:
    _names.setdefault(spark, set()).add(name.lower())
    _PATCHES.install()


def forget(spark: Any) -> None:
    """Leave PySpark to itself, if this was the last session."""
    _names.pop(spark, None)
    if not _names:
        _PATCHES.remove()
