"""Handles of a client of Spark Connect without access to the store: what its server does, and what to type there."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

from lance_spark.engine.session_spark import is_connect, session_or_none
from lance_spark.errors import StorageFailure
from lance_spark.spark.at_server_rules import instead_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Kind = TypeVar("Kind", bound=type)
Answer = TypeVar("Answer")


def is_served(spark: SparkSession | None) -> bool:
    """Whether a process beside the session's server reads natively, with the access that it has."""
    session = session_or_none(spark)
    if session is None or not is_connect(session):
        return False
    from lance_spark.connect import client

    return client.current(session) is not None


def here_or_there(spark: SparkSession | None, here: Callable[[], Answer], there: Callable[[], Answer]) -> Answer:
    """What this process reads itself; what the server reads, if the store does not answer a client that is served."""
    try:
        return here()
    except StorageFailure:
        if not is_served(spark):
            raise
        return there()


def tells(verbs: Mapping[str, str]) -> Callable[[Kind], Kind]:
    """A class whose verbs say what to type at the server, if the store does not answer a client of Spark Connect."""

    def telling(kind: Kind) -> Kind:
        for name, statement in verbs.items():
            found = inspect.getattr_static(kind, name)
            if isinstance(found, property):
                assert found.fget is not None
                setattr(kind, name, property(_telling(found.fget, statement)))
            elif inspect.isfunction(found):
                setattr(kind, name, _telling(found, statement))
        return kind

    return telling


def _telling(verb: Callable[..., Any], statement: str) -> Callable[..., Any]:
    @wraps(verb)
    def told(handle: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return verb(handle, *args, **kwargs)
        except StorageFailure as failure:
            given = vars(handle).get("spark", vars(handle).get("_spark"))
            session = session_or_none(given)
            if session is not None and is_connect(session) and not _of_server(failure):
                failure.hint = instead_of(statement)
            raise

    return told


def _of_server(failure: StorageFailure) -> bool:
    """Whether the server itself could not do it: then the error is one of PySpark's as well."""
    from pyspark.errors import PySparkException

    return isinstance(failure, PySparkException)
