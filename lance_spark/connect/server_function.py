"""A table function that tells a client what it has to send to start the process beside the server.

Spark asks a table function in Python for its schema in a process on the server's host, with the server's Python: the
only place from which a client can learn what is installed there, before it has sent anything. The schema says it: for
rows, Spark would start two more processes of Python and a job; before the schema of a data source, one more to look up
all data sources.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql.types import StringType, StructField, StructType
from pyspark.sql.udtf import AnalyzeResult

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class ServerFunction:
    """No rows. The metadata of its one column are ``told``, a JSON object, and ``jar``, in base64."""

    @staticmethod
    def analyze() -> AnalyzeResult:
        said, jar = told()
        metadata = {"told": said, "jar": base64.b64encode(jar).decode()}
        return AnalyzeResult(StructType([StructField("told", StringType(), True, metadata)]))

    def eval(self) -> Iterator[tuple[str]]:
        yield from ()


def learned(spark: SparkSession) -> tuple[str, bytes]:
    """What :func:`told` said on the server of a session of Spark Connect."""
    from pyspark.sql.connect.dataframe import DataFrame
    from pyspark.sql.connect.udtf import UserDefinedTableFunction

    function = UserDefinedTableFunction(ServerFunction, None)
    # To call the function would ask the active session, which may be one of another server.
    plan = function._build_common_inline_user_defined_table_function()
    found = DataFrame(plan, cast(Any, spark)).schema[0].metadata
    return found["told"], base64.b64decode(found["jar"])


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
