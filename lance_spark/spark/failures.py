"""Makes this package's errors readable where Spark shows them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from lance_spark.errors import LanceSparkError


@contextmanager
def plainly() -> Iterator[None]:
    """Let one of our errors reach the user as its message and hint instead of a traceback.

    Spark's worker prints the traceback of whatever a data source raises unless SPARK_HIDE_TRACEBACK is set. The
    worker process ends right after it reported an exception, so setting the variable here hides nothing else.
    Errors that are not ours keep their traceback.
    """
    try:
        yield
    except LanceSparkError as error:
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise error from None
