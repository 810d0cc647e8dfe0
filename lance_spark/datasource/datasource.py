"""The data source behind ``spark.read.format("lance")`` and ``df.write.format("lance")``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)

from lance_spark.session.sources import register_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from lance_spark.scan.read import PinnedRead


class LanceDataSource(DataSource):
    """Reads and writes any branch, tag or version of a Lance dataset.

    Spark creates an instance per load or save in a worker process of the driver. Heavy imports stay inside the methods:
    Spark imports this module to look up the name, and forks workers from that process.
    """

    _pinned: PinnedRead | None = None

    @classmethod
    def name(cls) -> str:
        """The name for ``format(...)``."""
        return "lance"

    def schema(self) -> StructType:
        """The schema of the version that a read or the start of a stream uses; resolves the ref."""
        from lance_spark.core.table_options import split_stream_options
        from lance_spark.engine.types_spark import to_spark
        from lance_spark.engine.workers_spark import plainly
        from lance_spark.scan.read import read_schema

        with plainly():
            read = self._pin()
            # Spark does not reveal whether a load is a stream, but options that only streams have do.
            if not split_stream_options(self.options)[0]:
                return to_spark(read_schema(read))
            from lance_spark.streams.source import stream_read, stream_schema

            return to_spark(stream_schema(stream_read(self.options, read)))

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of the pinned version for the dataset's or the user's schema."""
        from lance_spark.core.table_options import refuse_stream_options
        from lance_spark.datasource.reader import LanceReader
        from lance_spark.engine.workers_spark import plainly

        with plainly():
            refuse_stream_options(self.options)
            return LanceReader(self._pin(), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """A reader of a branch's commits, version by version."""
        from lance_spark.engine.workers_spark import plainly
        from lance_spark.storage.resolving import check_target
        from lance_spark.streams.spark import LanceStreamReader

        with plainly():
            # With a user's schema, the first process of a server does not know that the load is a stream.
            check_target(self.options)
        return LanceStreamReader(self.options, self._pin, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """A writer that appends, or overwrites the branch's current version."""
        from lance_spark.datasource.writer import LanceWriter

        return LanceWriter(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        """A writer of a stream's batches: appends, or with ``outputMode("complete")`` replaces all rows."""
        from lance_spark.streams.spark import LanceStreamWriter

        return LanceStreamWriter(self.options, schema, overwrite)

    def _pin(self) -> PinnedRead:
        """Resolve the ref once, in schema() or reader(), whichever comes first.

        A second look could find another version: a schema from one and rows from the next.
        """
        from lance_spark.core.table_options import refuse_local_moment, split_stream_options
        from lance_spark.tables.read import pin_read

        if self._pinned is None:
            found = pin_read(split_stream_options(self.options)[1])
            refuse_local_moment(self.options)
            self._pinned = found
        return self._pinned

    def __getstate__(self) -> dict[str, Any]:
        """Pin before Spark stores this object.

        With a user's schema Spark never calls schema(), and Spark 4.0 plans every query from the stored object: without
        this, two actions on one DataFrame could read two versions. Only reads are pinned; a failure is left to
        reader(), which reports it in full.
        """
        from lance_spark.errors import LanceSparkError

        try:
            self._pin()
        except LanceSparkError:
            self._pinned = None
        return self.__dict__


_registered: WeakKeyDictionary[SparkSession, set[str]] = WeakKeyDictionary()
"""Names already registered: Spark logs a warning each time a name is registered again."""


def register(spark: SparkSession, name: str = "lance") -> None:
    """Register the data source in a session; use another name if the JVM connector answers to ``lance``.

    Works on classic sessions and on Spark Connect. After ``pip install``, Spark finds the name ``lance`` by itself.
    """
    known = _registered.setdefault(spark, set())
    if name in known:
        return
    source = type("DefaultSource", (LanceDataSource,), {"name": classmethod(lambda _: name), "__module__": __name__})
    register_class(spark, source)
    known.add(name)


def note(spark: SparkSession, *names: str) -> None:
    """Remember names that the process beside a server of Spark Connect has registered in a session."""
    _registered.setdefault(spark, set()).update(names)


def names_in(spark: SparkSession) -> set[str]:
    """The names under which it was registered in a session."""
    return set(_registered.get(spark, ()))
