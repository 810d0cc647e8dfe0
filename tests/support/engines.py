"""Where work runs, for tests that are about the place."""

from contextlib import AbstractContextManager
from unittest.mock import patch

from lance_spark.engine.local import AutoEngine


def everything_on_spark() -> AbstractContextManager[object]:
    """While it is entered, ``auto`` sends all work to Spark, however little."""
    return patch.object(AutoEngine, "for_work", lambda self, operation, work: self.large().for_work(operation, work))
