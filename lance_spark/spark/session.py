"""The Spark session: the one that was given, the active one, or the one a job starts."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING

from lance_spark.actions.target import dataset_at
from lance_spark.errors import Refused
from lance_spark.location import DatasetLocation, is_relative, refused_relative

if TYPE_CHECKING:
    from argparse import _ActionsContainer

    from pyspark.sql import SparkSession

LOG_LEVELS = ("ALL", "TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL", "OFF")
"""Spark's, from all messages to none."""


def add_log_level(parser: _ActionsContainer) -> None:
    """Give a job's command line the option ``--log-level``."""
    parser.add_argument(
        "--log-level",
        choices=LOG_LEVELS,
        default="ERROR",
        type=str.upper,
        metavar="LEVEL",
        help="Spark's own messages from this level on, e.g. INFO (default ERROR)",
    )


def session_or_none(given: SparkSession | None) -> SparkSession | None:
    """The session that was given, or the active one if there is one. Starts none."""
    if given is not None:
        return given
    if "pyspark.sql" not in sys.modules:
        return None  # and importing it takes half a second
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


def is_connect(session: SparkSession) -> bool:
    """Whether a session is one of Spark Connect."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def check_places(given: SparkSession | None, *paths: str) -> None:
    """Raise InvalidOption for a relative path where the session, given or active, is one of Spark Connect.

    The server would look for it in another directory than this process does.
    """
    session = session_or_none(given)
    if session is None or not is_connect(session):
        return
    for path in paths:
        if is_relative(path):
            raise refused_relative(path, os.path.abspath(path.strip().removeprefix("file:")))


def dataset_of(given: SparkSession | None, uri: str, storage_options: Mapping[str, str] | None) -> DatasetLocation:
    """The dataset at what a user of the session typed. Raises InvalidOption, as :func:`check_places` as well."""
    check_places(given, uri)
    return dataset_at(uri, storage_options)


def needed_session(given: SparkSession | None, hint: str) -> SparkSession:
    """The session that was given, or the active one. Raises Refused, with the hint, where there is none."""
    session = session_or_none(given)
    if session is None:
        raise Refused("There is no Spark session in this process.", hint=hint)
    return session


class JobSession:
    """The session of a job, which starts when it is asked for, and stops at the end if it was started here.

    ``with JobSession("name") as session`` gives it; ``session()`` is the Spark session.
    """

    def __init__(self, name: str, log_level: str = "ERROR", say: Callable[[str], object] = str) -> None:
        """``say`` is told when Spark starts. A session that is there already keeps its log level."""
        self._name, self._log_level, self._say = name, log_level, say
        self._started: SparkSession | None = None

    def __enter__(self) -> JobSession:
        if "CONTAINER_ID" in os.environ:
            self()  # YARN takes a driver in a container of its own that never made a session for one that failed
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def __call__(self) -> SparkSession:
        """The session that is active, or that spark-submit prepared, or a local one.

        Without PYSPARK_PYTHON Spark starts whichever ``python3`` is first on the PATH for the Python workers, and the
        first query ends with "No module named 'lance'" although the driver has it.
        """
        session = self._started or session_or_none(None)
        if session is None:
            self._say("start Spark")
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
            os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
            from pyspark.sql import SparkSession

            builder = SparkSession.builder.appName(self._name).config("spark.log.level", self._log_level)
            self._started = session = builder.getOrCreate()
        return session

    def stop(self) -> None:
        """Stop what was started here: nothing is said on the terminal afterwards. Safe to repeat."""
        started, self._started = self._started, None
        if started is not None:
            started.stop()
