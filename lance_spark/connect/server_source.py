"""A data source that tells a client what it has to send to start the process beside the server.

Spark plans a Python data source in a process on the server's host, with the server's Python: the only place from which
a client can learn what is installed there, before it has sent anything.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

NAME = "lance_spark_server"


class ServerSource(DataSource):
    """One row: ``told``, a JSON object, and ``jar``."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return "told STRING, jar BINARY"

    def reader(self, schema: object) -> DataSourceReader:  # noqa: ARG002 - always the same
        return ServerReader()


class ServerReader(DataSourceReader):
    def partitions(self) -> list[InputPartition]:
        """The row itself, made on the server's host: executors may be elsewhere."""
        return [InputPartition(told())]

    def read(self, partition: InputPartition) -> Iterator[tuple[str, bytes]]:
        yield partition.value


def told() -> tuple[str, bytes]:
    """What this Python has, and the classes."""
    import os
    import sys

    from pyspark.find_spark_home import _find_spark_home

    from lance_spark.errors import Refused
    from lance_spark.jvm.server.compiling import compiled_jar, digest

    version = import_module("lance_spark").__version__
    said = {"version": version, "digest": digest(), "python": sys.executable, "path": os.pathsep.join(sys.path)}
    try:
        with open(compiled_jar(_find_spark_home()), "rb") as file:
            return json.dumps(said), file.read()
    except Refused as reason:
        return json.dumps({**said, "refused": reason.message}), b""
