"""Patches of classic PySpark, in effect while a session is registered.

``DataFrameReader.format`` returns a reader that loads natively, for this package's formats in a registered session.
``SparkSession.sql`` and ``MergeIntoWriter.merge`` execute an UPDATE, DELETE or MERGE of a Lance table, and ``sql``
also OPTIMIZE, VACUUM and similar statements. ``DataFrameWriter.saveAsTable``, like ``sql``, refuses Lance tables in
Spark's own catalog. ``DataFrameWriter.save`` sends rows to Python as columns. ``Catalog.listTables`` lists the root of
a catalog, and ``Catalog.tableExists`` takes a missing ref or path for no table. A session that Spark or ``newSession``
makes from a registered one is registered in the same way. The conversion of Java's exceptions recognizes this package's
errors. Everything else behaves as before. Unregistering the last session removes all patches that are still on top.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.errors.exceptions import captured
from pyspark.sql import SparkSession
from pyspark.sql.catalog import Catalog
from pyspark.sql.merge import MergeIntoWriter
from pyspark.sql.readwriter import DataFrameReader, DataFrameWriter
from pyspark.sql.sql_formatter import SQLStringFormatter
from pyspark.sql.streaming.readwriter import DataStreamReader

from lance_spark.core.catalog_options import OWN_NAME, path_as_name, refused_table
from lance_spark.core.refs import PinnedVersion
from lance_spark.core.table_options import local_moment, refuse_travel
from lance_spark.datasource import datasource
from lance_spark.datasource.reading import arranged_for
from lance_spark.engine.errors_spark import PYTHON, Spoken, as_spark, recovered
from lance_spark.errors import InvalidName, LanceSparkError, NotFound, Refused
from lance_spark.jvm.bridge import from_java
from lance_spark.jvm.names import CHANGES_MODE, MAYBE_CREATES
from lance_spark.layout.layout_rules import AS_THEY_COME, Arrangement
from lance_spark.native.creating import FORMAT, other_format
from lance_spark.native.reading import told
from lance_spark.native.row_statements import Change, RowStatement
from lance_spark.native.scan import Source
from lance_spark.native.session import any_session, current, inherit
from lance_spark.native.statements import data_frame
from lance_spark.native.writes import shape_of
from lance_spark.session.listing import tables_of_root
from lance_spark.session.patches import Patches
from lance_spark.sql.statement_rules import (
    analyzed_namespace,
    may_be_refused,
    may_change_rows,
    opened,
    refused_view,
    view_to_create,
)
from lance_spark.tables.read import is_newest, pin_read
from lance_spark.tables.write import foresee

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lance_spark.jvm.bridge import Bridge
    from lance_spark.native.session import Room

_PATCHES = Patches()


class NativeReader(DataFrameReader):
    """A reader of this format. Until ``load`` it behaves like any other."""

    def __init__(self, reader: DataFrameReader, room: Room) -> None:
        self._jreader = reader._jreader
        self._spark = reader._spark
        self._room = room
        self.follows = False
        """Whether the version in the options is only the newest one of a branch, and not meant for itself."""

    def format(self, source: str) -> DataFrameReader:
        reader = DataFrameReader.__new__(DataFrameReader)
        reader._jreader, reader._spark = self._jreader, self._spark
        return reader.format(source)

    def load(self, path: Any = None, format: str | None = None, schema: Any = None, **options: Any) -> DataFrame:
        """The DataFrame, at the version that its options name now."""
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
            given = in_session_time(self._room.bridge, given)
            read = pin_read(given)
            newest = self.follows or is_newest(given, read.options.ref)
            source = Source(read, from_java(wanted.get()) if wanted.isDefined() else None, newest)
            return data_frame(self._room.bridge, source)
        except LanceSparkError as error:
            raise as_spark(error) from None

    def _given(self) -> dict[str, str]:
        bridge = self._room.bridge
        options = bridge.call("scala.jdk.javaapi.CollectionConverters.asJava", self._jreader.extraOptions())
        return {str(entry.getKey()): entry.getValue() for entry in options.entrySet()}


def in_session_time(bridge: Bridge, given: dict[str, str]) -> dict[str, str]:
    """The options of a load, with a moment that has no offset as Spark reads it in SQL: in the session's time zone."""
    key = local_moment(given)
    if key is None:
        return given
    query = "SELECT date_format(try_cast(? AS TIMESTAMP), ?)"
    found = bridge.spark.sql(query, [given[key], "yyyy-MM-dd'T'HH:mm:ss.SSSSSSxxx"]).first()
    return given if found is None or found[0] is None else {**given, key: found[0]}


@_PATCHES.of(DataFrameReader, "format")
def _native_format(original: Any, /, self: DataFrameReader, source: str) -> Any:
    reader = original(self, source)
    spark = getattr(self, "_spark", None)
    room = None if spark is None else current(spark)
    return reader if room is None or source.lower() not in room.formats else NativeReader(reader, room)


@_PATCHES.of(SparkSession, "__init__")
def _native_init(original: Any, /, self: SparkSession, *args: Any, **kwargs: Any) -> None:
    original(self, *args, **kwargs)
    inherit(self)


@_PATCHES.of(SparkSession, "newSession")
def _native_new_session(original: Any, /, self: SparkSession) -> Any:
    made = original(self)
    if current(self) is not None:
        for name in datasource.names_in(self):
            datasource.register(made, name)
        inherit(made, self)
    return made


@_PATCHES.of(SparkSession, "sql")
def _native_sql(original: Any, /, self: SparkSession, sqlQuery: str, args: Any = None, **kwargs: Any) -> Any:  # noqa: N803
    room = current(self)
    if room is not None and may_be_refused(sqlQuery):
        try:
            check_statement(room, sqlQuery)
        except LanceSparkError as error:
            raise as_spark(error) from None
    known = args is None or isinstance(args, dict | list)
    if room is None or not known or not (may_change_rows(sqlQuery) or opened(sqlQuery, args)):
        return original(self, sqlQuery, args, **kwargs)
    formatter, statement = SQLStringFormatter(self), None
    try:
        text = formatter.format(sqlQuery, **kwargs) if kwargs else sqlQuery
        found, statement = own_result(room, text, args)
        if found is not None:
            return found
    finally:
        if kwargs:
            formatter.clear()
    with _naming_views(statement):
        return original(self, sqlQuery, args, **kwargs)


def own_result(room: Room, text: str, args: Any) -> tuple[DataFrame | None, RowStatement | None]:
    """The result of a statement that this package executes, None if Spark handles it; and what it was taken for."""
    found, statement = _looked_after(room, text, args), None
    if found is None and may_change_rows(text) and room.bridge.no_row_changes is None:
        statement = RowStatement(room.bridge, text, args)
        found = _executed(statement)
    return found, statement


def merged(room: Room, plan: Any) -> tuple[DataFrame | None, RowStatement | None]:
    """The result of a MERGE, given as Spark's plan, None if Spark handles it; and what it was taken for."""
    statement = None if room.bridge.no_row_changes is not None else RowStatement(room.bridge, "", plan=plan)
    return None if statement is None else _executed(statement), statement


@_PATCHES.of(MergeIntoWriter, "merge")
def _native_merge(original: Any, /, self: MergeIntoWriter) -> None:
    room = current(self._spark)
    known = room is not None and room.bridge.no_row_changes is None and room.bridge.plans_merges
    statement = None if room is None or not known else RowStatement(room.bridge, "", plan=self._jwriter.mergeCommand())
    if statement is None or _executed(statement) is None:
        with _naming_views(statement):
            original(self)


@_PATCHES.of(DataStreamReader, "table")
def _native_stream_table(original: Any, /, self: DataStreamReader, tableName: str) -> Any:  # noqa: N803
    room = current(self._spark)
    if room is not None:
        try:
            given = room.bridge.call("scala.jdk.javaapi.CollectionConverters.asJava", self._jreader.extraOptions())
            options = [str(key) for key in given.keySet()]
        except Py4JError:
            options = []
        try:
            check_stream(room, tableName, options)
        except LanceSparkError as error:
            raise as_spark(error) from None
    return original(self, tableName)


@_PATCHES.of(Catalog, "tableExists")
def _native_table_exists(original: Any, /, self: Catalog, tableName: str, dbName: str | None = None) -> Any:  # noqa: N803
    try:
        return original(self, tableName, dbName)
    except (NotFound, InvalidName):  # the error that explains a missing ref or path to a query
        return False


@_PATCHES.of(Catalog, "listTables")
def _native_list_tables(original: Any, /, self: Catalog, dbName: Any = None, pattern: Any = None) -> Any:  # noqa: N803
    try:
        return original(self, dbName, pattern)
    except ParseException as problem:
        room = current(self._sparkSession)
        catalogs = () if room is None else room.catalogs
        return tables_of_root(self, self._sparkSession, catalogs, problem, dbName, pattern)


def _looked_after(room: Room, text: str, args: Any) -> DataFrame | None:
    """The result of a statement that Spark's parser does not know; None for every other one."""
    try:
        opening = opened(text, args)
        if opening is None:
            return None
        from lance_spark.native.statements import look_after  # lazily: register does not wait for its imports

        return look_after(room, opening, args)
    except LanceSparkError as error:
        raise error if isinstance(error, AnalysisException) else as_spark(error) from None


@_PATCHES.of(DataFrameWriter, "saveAsTable")
def _native_save_as_table(
    original: Any, /, self: DataFrameWriter, name: str, format: str | None = None, *args: Any, **kwargs: Any
) -> None:
    room = current(self._spark)
    if room is not None:
        try:
            check_save(room, name, format or str(self._jwrite.source()))
        except LanceSparkError as error:
            raise as_spark(error) from None
    original(self, name, format, *args, **kwargs)


@_PATCHES.of(DataFrameWriter, "save")
def _native_save(
    original: Any,
    /,
    self: DataFrameWriter,
    path: str | None = None,
    format: str | None = None,
    mode: str | None = None,
    partitionBy: str | list[str] | None = None,  # noqa: N803
    **options: Any,
) -> None:
    room = current(self._spark)
    name = "" if room is None else format or str(self._jwrite.source())
    ours = room is not None and name.lower() in {OWN_NAME, *room.formats}
    if room is None or not ours:
        original(self, path, format, mode, partitionBy, **options)
        return
    self.mode(mode).options(**options)
    told_by, arranged = _foreseen(room, self, path)
    self.options(**told_by)
    shape = shape_of(room.bridge, self._df.schema, arranged)
    if shape is None:
        original(self, path, format, None, partitionBy)
        return
    if partitionBy is not None:
        self.partitionBy(partitionBy)
    shape.save(self._jwrite, path, name)


def _foreseen(room: Room, writer: DataFrameWriter, path: str | None) -> tuple[dict[str, str], Arrangement]:
    """The option by which a write knows its statement, and how Spark brings its rows.

    The option tells what the DataFrame reads, and with which version an overwrite was planned.
    """
    bridge = room.bridge
    try:
        mode = str(writer._jwrite.curmode().toString())
        options = bridge.call("scala.jdk.javaapi.CollectionConverters.asJava", writer._jwrite.extraOptions())
        given = {str(entry.getKey()): entry.getValue() for entry in options.entrySet()}
        plan = _plan(bridge, writer._df)
    except (Py4JError, PySparkException):  # the write itself reports what is wrong with its DataFrame
        return {}, AS_THEY_COME
    if mode not in ("Append", "Overwrite"):
        return told(bridge, None, plan), AS_THEY_COME  # Spark refuses it
    start = foresee(given if path is None else {**given, "path": path})
    version = start.planned_with if mode == "Overwrite" else None
    base = None if version is None else PinnedVersion(None, version)
    return told(bridge, base, plan), arranged_for(writer._df, start)


def _plan(bridge: Bridge, frame: DataFrame) -> Any:
    formatter = SQLStringFormatter(bridge.spark)
    try:
        text = formatter.format("SELECT * FROM {frame}", frame=frame)
        with bridge.active():
            state = bridge.session.sessionState()
            mode = bridge.call(f"{CHANGES_MODE}.SKIP")
            return state.executePlan(state.sqlParser().parsePlan(text), mode).analyzed()
    finally:
        formatter.clear()


def _executed(statement: RowStatement) -> DataFrame | None:
    """The result of a statement; None if Spark handles it, which includes reporting its errors."""
    try:
        found = None if statement.verb is None else statement.analyze({})
    except (PySparkException, Py4JError) as error:
        if isinstance(error, LanceSparkError):
            raise
        return None
    except LanceSparkError as error:
        raise as_spark(error, Spoken("sql") if statement.text else PYTHON) from None
    try:
        return None if found is None else Change(statement, found).execute()
    except LanceSparkError as error:
        if isinstance(error, AnalysisException):
            raise
        raise as_spark(error, Spoken("sql") if statement.text else PYTHON) from None


@contextmanager
def _naming_views(statement: RowStatement | None) -> Iterator[None]:
    try:
        yield
    except (PySparkException, Py4JError) as error:
        view = None if statement is None else statement.view
        refused = None if view is None else refused_view(view, error)
        if statement is None or refused is None:
            raise
        raise as_spark(refused, Spoken("sql") if statement.text else PYTHON) from error


@_PATCHES.of(captured, "convert_exception")
def _recovering(original: Any, /, exception: Any) -> Any:
    return recovered(original(exception))


def install(spark: SparkSession, name: str) -> None:
    """Load this format natively in a session."""
    room = current(spark)
    if room is not None:
        room.formats.add(name.lower())
    _PATCHES.install()


def forget() -> None:
    """Remove the patches once no session is registered."""
    if not any_session():
        _PATCHES.remove()


# --- Refusing statements that would create a Lance table in Spark's own catalog, or another format in a Lance catalog
# Spark's own catalog accepts ``USING lance`` without a check; afterwards there is a name that can be neither read nor
# written. To a Lance catalog, Spark passes ``USING parquet`` in the same way as no format at all.

_SESSION = "spark_catalog"


def check_statement(room: Room, text: str) -> None:
    """Raise Refused for a CREATE or REPLACE TABLE with a format that its catalog cannot have.

    And for CREATE VIEW and ANALYZE TABLES, of which Spark makes internal errors. Spark reports a statement that cannot
    be parsed.
    """
    view = view_to_create(text)
    if view is not None:
        _check_view(room, view)
        return
    namespace = analyzed_namespace(text)
    if namespace is not None:
        if _meant(room, f"{namespace}.t")[0] in room.catalogs:
            raise Refused(
                "There is nothing to analyze: rows and bytes are known of each version of a Lance table.",
                hint="ANALYZE TABLE ... COMPUTE STATISTICS FOR ALL COLUMNS measures the columns of one table.",
            )
        return
    bridge = room.bridge
    try:
        with bridge.active():
            plan = bridge.session.sessionState().sqlParser().parsePlan(text)
        if str(plan.getClass().getName()) not in MAYBE_CREATES:
            return
        spec, parts = plan.tableSpec(), [str(part) for part in bridge.items(plan.name().nameParts())]
        provider = _value(spec.provider())
        catalog = catalog_of(room, parts)
    except (Py4JError, PySparkException):
        return
    if provider is None:
        return
    if catalog in room.catalogs and provider.lower() != FORMAT:
        raise other_format(provider)
    if catalog == _SESSION and provider.lower() in room.formats:
        statement = (
            "CREATE TABLE {} AS SELECT ..." if "AsSelect" in plan.getClass().getName() else "CREATE TABLE {} (...)"
        )
        raise refused_table(parts[-1], statement, path_as_name(_options(room, spec)), _own(room))


def check_save(room: Room, name: str, provider: str) -> None:
    """Raise Refused for a ``saveAsTable`` into Spark's own catalog."""
    if provider.lower() not in room.formats:
        return
    catalog, table = _meant(room, name)
    if catalog == _SESSION:
        raise refused_table(table, "df.write.saveAsTable('{}')", catalog=_own(room))


def check_stream(room: Room, name: str, options: list[str]) -> None:
    """Raise InvalidOption for a stream of a table whose options name a version: Spark ends with an internal error."""
    if _meant(room, name)[0] in room.catalogs:
        refuse_travel(options)


def _check_view(room: Room, view: Sequence[str]) -> None:
    """Raise Refused if a view would be one of a catalog of Lance tables."""
    catalog = catalog_of(room, [*view])
    if catalog in room.catalogs:
        raise Refused(
            f"Catalog {catalog} does not support views: view '{'.'.join(view)}' was not created.",
            hint=f"CREATE TABLE ... AS SELECT keeps the rows in {catalog}; CREATE TEMPORARY VIEW lasts as long as the "
            f"session; a view of Spark's own catalog, such as {_SESSION}.default.{view[-1]}, can read these tables.",
        )


def _meant(room: Room, name: str) -> tuple[str, str]:
    """The catalog of a name, and its last part; empty texts if Spark cannot parse it."""
    bridge = room.bridge
    try:
        with bridge.active():
            found = bridge.session.sessionState().sqlParser().parseMultipartIdentifier(name)
        parts = [str(part) for part in bridge.items(found)]
        return catalog_of(room, parts), parts[-1]
    except (Py4JError, PySparkException):
        return "", ""


def catalog_of(room: Room, parts: list[str]) -> str:
    manager = room.bridge.session.sessionState().catalogManager()
    if len(parts) > 1 and manager.isCatalogRegistered(parts[0]):
        return parts[0]
    return str(manager.currentCatalog().name())


def _options(room: Room, spec: Any) -> dict[str, str]:
    """The options of a statement, including its location."""
    try:
        given = {str(each._1()): str(each._2()) for each in room.bridge.items(spec.optionExpression().options())}
    except Py4JError:
        given = {}
    location = _value(spec.location())
    return given if location is None else {**given, "location": location}


def _own(room: Room) -> str:
    """A catalog of the session with a root; empty if there is none."""
    return next((name for name, found in room.catalogs.items() if hasattr(found, "catalog")), "")


def _value(option: Any) -> str | None:
    return str(option.get()) if option.isDefined() else None
