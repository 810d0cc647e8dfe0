"""Patches of Spark Connect's PySpark, in effect while a session is connected to the process beside its server.

``SparkSession.sql`` hands over what Spark does not execute itself for a Lance table: UPDATE, DELETE, MERGE, OPTIMIZE
and similar statements; so does ``MergeIntoWriter.merge``. ``saveAsTable``, like ``sql``, refuses Lance tables in
Spark's own catalog. ``DataFrameReader.load`` and ``DataFrameWriter.save`` of this package's formats are native. A
stream of a table by name takes no version, ``Catalog.listTables`` lists the root of a catalog, and ``tableExists``
takes a missing ref or path for no table. Spark's errors that are this package's come as those. All else is as before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.errors import ParseException, PySparkException
from pyspark.sql.connect.catalog import Catalog
from pyspark.sql.connect.client import core
from pyspark.sql.connect.merge import MergeIntoWriter
from pyspark.sql.connect.readwriter import DataFrameReader, DataFrameWriter
from pyspark.sql.connect.session import SparkSession
from pyspark.sql.connect.sql_formatter import SQLStringFormatter
from pyspark.sql.connect.streaming.readwriter import DataStreamReader

from lance_spark.connect.client import Connection, current, of_client
from lance_spark.core.catalog_options import OWN_NAME
from lance_spark.engine.errors_spark import PYTHON, Spoken, as_spark, recovered
from lance_spark.engine.session_spark import check_places
from lance_spark.errors import InvalidName, LanceSparkError, NotFound
from lance_spark.session.listing import tables_of_root
from lance_spark.session.patches import Patches
from lance_spark.sql.statement_rules import may_be_refused, may_change_rows, opened, refused_view

_PATCHES = Patches()
_names: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()
"""This package's format names, in lower case, by session."""


@_PATCHES.of(SparkSession, "sql")
def _sent_sql(original: Any, /, self: Any, sqlQuery: str, args: Any = None, **kwargs: Any) -> Any:  # noqa: N803
    found = current(self)
    if found is not None and may_be_refused(sqlQuery):
        found.check(text=sqlQuery)
    known = args is None or isinstance(args, dict | list)
    if found is None or not known or not (may_change_rows(sqlQuery) or opened(sqlQuery, args)):
        return original(self, sqlQuery, args, **kwargs)
    formatter, view = SQLStringFormatter(self), None
    text = formatter.format(sqlQuery, **kwargs) if kwargs else sqlQuery
    views = {name: frame for frame, name in formatter._temp_views}
    try:
        for name, frame in views.items():
            frame.createOrReplaceTempView(name)
        result, view = found.statement(text, args)
    finally:
        for name in views:
            self.catalog.dropTempView(name)
    if result is not None:
        return result
    with _naming(view, Spoken("sql")):
        return original(self, sqlQuery, args, **kwargs)


@contextmanager
def _naming(view: str | None, spoken: Spoken) -> Iterator[None]:
    try:
        yield
    except PySparkException as error:
        refused = None if view is None else refused_view(view, error)
        if refused is None:
            raise
        raise as_spark(refused, spoken) from error


@_PATCHES.of(DataFrameReader, "load")
def _sent_load(
    original: Any, /, self: Any, path: Any = None, format: str | None = None, schema: Any = None, **options: Any
) -> Any:
    found = current(self._client)
    ours = _is_ours(self._client, format or self._format or "")
    if found is None or not ours or isinstance(path, list | tuple):
        return original(self, path, format, schema, **options)
    if schema is not None:
        self.schema(schema)
    self.options(**options)
    given = {key: value for key, value in self._options.items() if value is not None}
    if path is not None:
        given["path"] = str(path)
    _check(self._client, given)
    return found.spark.table(found.load(given, self._schema or None))


class _Merging:
    """PySpark's client while a ``mergeInto`` is executed: the process gets the command, or else the server."""

    def __init__(self, client: Any, connection: Connection) -> None:
        self._client, self._connection = client, connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def execute_command(self, command: Any, *rest: Any) -> Any:
        """In place of the client's."""
        done, view = self._connection.merge(command.merge_into_table_command.SerializeToString())
        if done:
            return None, None, None
        with _naming(view, PYTHON):
            return self._client.execute_command(command, *rest)


@_PATCHES.of(MergeIntoWriter, "merge")
def _sent_merge(original: Any, /, self: Any) -> None:
    client, found = self._client, of_client(self._client)
    if found is not None:
        self._client = _Merging(client, found)
    try:
        original(self)
    finally:
        self._client = client


@_PATCHES.of(DataFrameWriter, "save")
def _sent_save(
    original: Any,
    /,
    self: Any,
    path: str | None = None,
    format: str | None = None,
    mode: str | None = None,
    partitionBy: Any = None,  # noqa: N803
    **options: Any,
) -> None:
    found, write = current(self._spark), self._write
    name = format or write.source or ""
    if found is None or not _is_ours(self._spark, name) or write.num_buckets > 0 or write.sort_cols:
        original(self, path, format, mode, partitionBy, **options)
        return
    self.mode(mode).options(**options)
    if partitionBy is not None:
        self.partitionBy(partitionBy)
    to = {"format": name, "mode": write.mode, "path": path, "partitions": [*write.partitioning_cols]}
    given = {key: value for key, value in write.options.items() if value is not None}
    _check(self._spark, given if path is None else {**given, "path": path})
    found.save(write._child.plan(self._spark.client).SerializeToString(), to, given)


@_PATCHES.of(DataFrameWriter, "saveAsTable")
def _sent_save_as_table(
    original: Any, /, self: Any, name: str, format: str | None = None, *args: Any, **kwargs: Any
) -> None:
    found, source = current(self._spark), format or self._write.source
    if found is not None and (source is None or _is_ours(self._spark, source)):
        found.check(table=name, format=source)
    original(self, name, format, *args, **kwargs)


def _check(spark: Any, options: Mapping[str, str]) -> None:
    """Raise InvalidOption for a relative path: the process on the server is in another directory.

    With a catalog the path is the name of a table in it.
    """
    given = {key.lower(): value for key, value in options.items()}
    try:
        check_places(spark, given.get("catalog", given.get("path", "")))
    except LanceSparkError as error:
        raise as_spark(error) from None


@_PATCHES.of(DataStreamReader, "table")
def _sent_stream_table(original: Any, /, self: Any, tableName: str) -> Any:  # noqa: N803
    found = current(self._client)
    if found is not None and self._options:
        found.check(stream=tableName, options=[*self._options])
    return original(self, tableName)


@_PATCHES.of(Catalog, "tableExists")
def _sent_table_exists(original: Any, /, self: Any, tableName: str, dbName: str | None = None) -> Any:  # noqa: N803
    try:
        return original(self, tableName, dbName)
    except (NotFound, InvalidName):  # the error that explains a missing ref or path to a query
        return False


@_PATCHES.of(Catalog, "listTables")
def _sent_list_tables(original: Any, /, self: Any, dbName: Any = None, pattern: Any = None) -> Any:  # noqa: N803
    try:
        return original(self, dbName, pattern)
    except ParseException as problem:
        found = current(self._sparkSession)
        catalogs = () if found is None else found.state["catalogs"]
        return tables_of_root(self, self._sparkSession, catalogs, problem, dbName, pattern)


@_PATCHES.of(core, "convert_exception")
def _recovering(original: Any, /, *args: Any, **kwargs: Any) -> Exception:
    return recovered(original(*args, **kwargs))


def _is_ours(spark: Any, name: str) -> bool:
    return name.lower() in {OWN_NAME, *_names.get(spark, ())}


def install(spark: Any, name: str) -> None:
    _names.setdefault(spark, set()).add(name.lower())
    _PATCHES.install()


def forget(spark: Any) -> None:
    """Leave PySpark to itself, if this was the last session."""
    _names.pop(spark, None)
    if not _names:
        _PATCHES.remove()
