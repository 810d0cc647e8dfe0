"""Where PySpark itself is changed, for as long as a session is registered.

Two functions of classic PySpark: ``DataFrameReader.format``, which for names of ours in a registered session gives a
reader that loads natively, and the conversion of Java's exceptions, which knows ours again. For everything else both
do what they did. They are put back when the last session is unregistered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pyspark.errors.exceptions import captured
from pyspark.sql.readwriter import DataFrameReader

from lance_spark.actions.read import pin_read
from lance_spark.errors import LanceSparkError
from lance_spark.spark.jvm.bridge import from_java
from lance_spark.spark.jvm.failures import as_spark, recovered
from lance_spark.spark.jvm.frames import data_frame
from lance_spark.spark.jvm.room import current
from lance_spark.spark.jvm.source import Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lance_spark.spark.jvm.room import Room

_format = DataFrameReader.format
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


def _recovering(exception: Any) -> Any:
    return recovered(_convert(exception))


def install(spark: SparkSession, name: str) -> None:
    """Read this name natively in a session."""
    _names.setdefault(spark, set()).add(name.lower())
    DataFrameReader.format = _native_format  # type: ignore[method-assign]
    captured.convert_exception = _recovering  # type: ignore[assignment]


def forget(spark: SparkSession) -> None:
    """Read no name natively in a session."""
    _names.pop(spark, None)
    if not _names:
        DataFrameReader.format = _format  # type: ignore[method-assign]
        captured.convert_exception = _convert
