"""Where PySpark itself is changed, for as long as a session is registered.

Functions of classic PySpark: ``DataFrameReader.format``, which for names of ours in a registered session gives a reader
that loads natively; ``SparkSession.sql`` and ``MergeIntoWriter.merge``, which carry out an UPDATE, DELETE or MERGE of a
table of ours, and the former also OPTIMIZE, VACUUM and their like; ``DataFrameWriter.saveAsTable``, which like ``sql``
makes no table of ours in Spark's own catalog; ``DataFrameWriter.save``, whose rows go to Python as columns;
``Catalog.listTables``, which lists the root of a catalog; and the conversion of Java's exceptions, which recognizes
ours. For everything else all of them do what they did. They are put back when the last session is unregistered.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import wraps
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.errors.exceptions import captured
from pyspark.sql import SparkSession
from pyspark.sql.catalog import Catalog
from pyspark.sql.merge import MergeIntoWriter
from pyspark.sql.readwriter import DataFrameReader, DataFrameWriter
from pyspark.sql.sql_formatter import SQLStringFormatter

from lance_spark.columns.rules import quoted_name
from lance_spark.core.options import OWN_NAME, path_as_name, refused_table
from lance_spark.errors import LanceSparkError
from lance_spark.jvm.bridge import PYTHON, Spoken, as_spark, from_java, recovered
from lance_spark.jvm.names import MAYBE_CREATES
from lance_spark.native.creating import FORMAT, other_format
from lance_spark.native.row_statements import Change, RowStatement, may_change_rows, may_make_tables
from lance_spark.native.scan import Source
from lance_spark.native.session import current
from lance_spark.native.statements import data_frame
from lance_spark.native.writes import shape_of
from lance_spark.sql.rules import opened
from lance_spark.tables.read import pin_read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.catalog import Table

    from lance_spark.native.session import Room

_format = DataFrameReader.format
_sql, _merge, _list_tables = SparkSession.sql, MergeIntoWriter.merge, Catalog.listTables
_save_as_table, _save = DataFrameWriter.saveAsTable, DataFrameWriter.save
_convert: Any = captured.convert_exception
_names: WeakKeyDictionary[SparkSession, set[str]] = WeakKeyDictionary()
"""Names of our format, in lower case, of each session."""


class NativeReader(DataFrameReader):
    """A reader of this format. Until ``load`` it is as any other one."""

    def __init__(self, reader: DataFrameReader, room: Room) -> None:
        self._jreader = reader._jreader
        self._spark = reader._spark
        self._room = room

    def format(self, source: str) -> DataFrameReader:
        """Another format is for another reader."""
        reader = DataFrameReader.__new__(DataFrameReader)
        reader._jreader, reader._spark = self._jreader, self._spark
        return reader.format(source)

    def load(self, path: Any = None, format: str | None = None, schema: Any = None, **options: Any) -> DataFrame:
        """The DataFrame, of the version that its options name now."""
        if format is not None or isinstance(path, list | tuple):
            return super().load(path, format, schema, **options)
        if schema is not None:
            self.schema(schema)
        self.options(**options)
        given = self._given()
        if path is not None:
            given["path"] = path
        wanted = self._jreader.userSpecifiedSchema()
        try:
            source = Source(pin_read(given), from_java(wanted.get()) if wanted.isDefined() else None)
            return data_frame(self._room.bridge, source)
        except LanceSparkError as error:
            raise as_spark(error) from None

    def _given(self) -> dict[str, str]:
        bridge = self._room.bridge
        options = bridge.call("scala.jdk.javaapi.CollectionConverters.asJava", self._jreader.extraOptions())
        return {str(entry.getKey()): entry.getValue() for entry in options.entrySet()}


def _native_format(self: DataFrameReader, source: str) -> DataFrameReader:
    reader = _format(self, source)
    spark = getattr(self, "_spark", None)
    if spark is None or source.lower() not in _names.get(spark, ()):
        return reader
    room = current(spark)
    return reader if room is None else NativeReader(reader, room)


@wraps(_sql)
def _native_sql(self: SparkSession, sqlQuery: str, args: Any = None, **kwargs: Any) -> DataFrame:  # noqa: N803
    room = current(self)
    if room is not None and may_make_tables(sqlQuery):
        try:
            check_statement(room, sqlQuery, _names.get(self, ()))
        except LanceSparkError as error:
            raise as_spark(error) from None
    known = args is None or isinstance(args, dict | list)
    if room is None or not known or not (may_change_rows(sqlQuery) or opened(sqlQuery, args)):
        return _sql(self, sqlQuery, args, **kwargs)
    formatter = SQLStringFormatter(self)
    try:
        text = formatter.format(sqlQuery, **kwargs) if kwargs else sqlQuery
        found = _looked_after(room, text, args)
        if found is None and may_change_rows(text) and room.bridge.no_row_changes is None:
            found = _executed(RowStatement(room.bridge, text, args))
        if found is not None:
            return found
    finally:
        if kwargs:
            formatter.clear()
    return _sql(self, sqlQuery, args, **kwargs)


@wraps(_merge)
def _native_merge(self: MergeIntoWriter) -> None:
    room = current(self._spark)
    known = room is not None and room.bridge.no_row_changes is None and room.bridge.plans_merges
    if room is None or not known or _executed(RowStatement(room.bridge, "", plan=self._jwriter.mergeCommand())) is None:
        _merge(self)


@wraps(_list_tables)
def _native_list_tables(self: Catalog, dbName: str | None = None, pattern: str | None = None) -> list[Table]:  # noqa: N803
    try:
        return _list_tables(self, dbName, pattern)
    except ParseException as problem:
        # Spark reads the name of each table's namespace as SQL, which the name of a catalog's root, "", is not.
        catalog = self.currentCatalog() if dbName is None else dbName.strip("`")
        room = current(self._sparkSession)
        if room is None or catalog not in room.catalogs or problem.getCondition() != "PARSE_EMPTY_STATEMENT":
            raise
    like = "" if pattern is None else " LIKE '" + pattern.replace("\\", "\\\\").replace("'", "\\'") + "'"
    found = _sql(self._sparkSession, f"SHOW TABLES IN {quoted_name(catalog)}{like}").collect()
    return [self.getTable(f"{quoted_name(catalog)}.{quoted_name(row.tableName)}") for row in found]


def _looked_after(room: Room, text: str, args: Any) -> DataFrame | None:
    """What a statement did that Spark's parser does not know; None for every other one."""
    try:
        opening = opened(text, args)
        if opening is None:
            return None
        from lance_spark.native.statements import look_after  # register does not wait for all that it imports

        return look_after(room, opening, args)
    except LanceSparkError as error:
        raise error if isinstance(error, AnalysisException) else as_spark(error) from None


@wraps(_save_as_table)
def _native_save_as_table(
    self: DataFrameWriter, name: str, format: str | None = None, *args: Any, **kwargs: Any
) -> None:
    room = current(self._spark)
    if room is not None:
        try:
            check_save(room, name, format or str(self._jwrite.source()), _names.get(self._spark, ()))
        except LanceSparkError as error:
            raise as_spark(error) from None
    _save_as_table(self, name, format, *args, **kwargs)


@wraps(_save)
def _native_save(
    self: DataFrameWriter,
    path: str | None = None,
    format: str | None = None,
    mode: str | None = None,
    partitionBy: str | list[str] | None = None,  # noqa: N803
    **options: Any,
) -> None:
    room = current(self._spark)
    name = "" if room is None else format or str(self._jwrite.source())
    ours = room is not None and name.lower() in {OWN_NAME, *_names.get(self._spark, ())}
    shape = shape_of(room.bridge, self._df.schema) if room is not None and ours else None
    if shape is None:
        _save(self, path, format, mode, partitionBy, **options)
        return
    self.mode(mode).options(**options)
    if partitionBy is not None:
        self.partitionBy(partitionBy)
    shape.save(self._jwrite, path, name)


def _executed(statement: RowStatement) -> DataFrame | None:
    """What a statement did; None for what is Spark's, also to say what is wrong with it."""
    try:
        found = None if statement.verb is None else statement.analyze({})
    except (PySparkException, Py4JError):
        return None
    try:
        return None if found is None else Change(statement, found).execute()
    except LanceSparkError as error:
        if isinstance(error, AnalysisException):
            raise
        raise as_spark(error, Spoken("sql") if statement.text else PYTHON) from None


def _recovering(exception: Any) -> Any:
    return recovered(_convert(exception))


def install(spark: SparkSession, name: str) -> None:
    """Read this name natively in a session."""
    _names.setdefault(spark, set()).add(name.lower())
    DataFrameReader.format = _native_format  # type: ignore[method-assign]
    SparkSession.sql = _native_sql  # type: ignore[method-assign]
    MergeIntoWriter.merge = _native_merge  # type: ignore[method-assign]
    Catalog.listTables = _native_list_tables  # type: ignore[method-assign]
    DataFrameWriter.saveAsTable = _native_save_as_table  # type: ignore[method-assign]
    DataFrameWriter.save = _native_save  # type: ignore[method-assign]
    captured.convert_exception = _recovering  # type: ignore[assignment]


def forget(spark: SparkSession) -> None:
    """Read no name natively in a session."""
    _names.pop(spark, None)
    if not _names:
        DataFrameReader.format = _format  # type: ignore[method-assign]
        SparkSession.sql = _sql  # type: ignore[method-assign]
        MergeIntoWriter.merge = _merge  # type: ignore[method-assign]
        Catalog.listTables = _list_tables  # type: ignore[method-assign]
        DataFrameWriter.saveAsTable = _save_as_table  # type: ignore[method-assign]
        DataFrameWriter.save = _save  # type: ignore[method-assign]
        captured.convert_exception = _convert


# --- Statements that would make a Lance table where none can be, or one of another format in a catalog of ours
# Spark's own catalog takes ``USING lance`` and asks nobody; afterwards there is a name that can be neither read nor
# written. To a catalog of ours Spark does not tell ``USING parquet`` from no format at all.

_SESSION = "spark_catalog"


def check_statement(room: Room, text: str, formats: Collection[str]) -> None:
    """Raise Refused for a CREATE or REPLACE TABLE with a format that its catalog cannot have.

    ``formats`` are the names of ours, in lower case. What cannot be parsed is left to Spark, to say so.
    """
    bridge = room.bridge
    try:
        with bridge.active():
            plan = bridge.session.sessionState().sqlParser().parsePlan(text)
        if str(plan.getClass().getName()) not in MAYBE_CREATES:
            return
        spec, parts = plan.tableSpec(), [str(part) for part in bridge.items(plan.name().nameParts())]
        provider = _value(spec.provider())
        catalog = _catalog(room, parts)
    except (Py4JError, PySparkException):
        return
    if provider is None:
        return
    if catalog in room.catalogs and provider.lower() != FORMAT:
        raise other_format(provider)
    if catalog == _SESSION and provider.lower() in formats:
        statement = (
            "CREATE TABLE {} AS SELECT ..." if "AsSelect" in plan.getClass().getName() else "CREATE TABLE {} (...)"
        )
        raise refused_table(parts[-1], statement, path_as_name(_options(room, spec)), _own(room))


def check_save(room: Room, name: str, provider: str, formats: Collection[str]) -> None:
    """Raise Refused for a ``saveAsTable`` into Spark's own catalog."""
    bridge = room.bridge
    if provider.lower() not in formats:
        return
    try:
        with bridge.active():
            found = bridge.session.sessionState().sqlParser().parseMultipartIdentifier(name)
        parts = [str(part) for part in bridge.items(found)]
        catalog = _catalog(room, parts)
    except (Py4JError, PySparkException):
        return
    if catalog == _SESSION:
        raise refused_table(parts[-1], "df.write.saveAsTable('{}')", catalog=_own(room))


def _catalog(room: Room, parts: list[str]) -> str:
    """The catalog of a name."""
    manager = room.bridge.session.sessionState().catalogManager()
    if len(parts) > 1 and manager.isCatalogRegistered(parts[0]):
        return parts[0]
    return str(manager.currentCatalog().name())


def _options(room: Room, spec: Any) -> dict[str, str]:
    """The options of a statement, with its location among them."""
    try:
        given = {str(each._1()): str(each._2()) for each in room.bridge.items(spec.optionExpression().options())}
    except Py4JError:
        given = {}
    location = _value(spec.location())
    return given if location is None else {**given, "location": location}


def _own(room: Room) -> str:
    """A catalog of the session with a root; empty where there is none."""
    return next((name for name, found in room.catalogs.items() if hasattr(found, "catalog")), "")


def _value(option: Any) -> str | None:
    return str(option.get()) if option.isDefined() else None
