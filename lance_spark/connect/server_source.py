"""A data source that tells a client what it has to send to start the process beside the server.

Spark asks a Python data source for its schema in a process on the server's host, with the server's Python: the only
place from which a client can learn what is installed there, before it has sent anything. The schema says it: for rows,
Spark would start two more processes of Python and a job.
"""

from __future__ import annotations

import base64
import json
from importlib import import_module

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StringType, StructField, StructType

NAME = "lance_spark_server"


class ServerSource(DataSource):
    """No rows. The metadata of its one column are ``told``, a JSON object, and ``jar``, in base64."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        said, jar = told()
        return StructType([StructField("told", StringType(), True, {"told": said, "jar": _packed(jar)})])


def learned(schema: StructType) -> tuple[str, bytes]:
    """What :func:`told` said on the server."""
    found = schema[0].metadata
    return found["told"], base64.b64decode(found["jar"])


def _packed(jar: bytes) -> str:
    return base64.b64encode(jar).decode()


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
