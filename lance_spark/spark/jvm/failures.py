"""Python's errors as Java's, on their way through Spark's planner to the user."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.errors.exceptions.captured import CapturedException

from lance_spark.errors import LanceSparkError
from lance_spark.hints import Language, said
from lance_spark.spark.failures import own_error
from lance_spark.spark.jvm.bridge import Bridge

_PREFIX = f"{LanceSparkError.__module__}."


class Spoken(NamedTuple):
    """What the user typed, for hints in the same language."""

    language: Language
    catalog: str | None = None
    table: str | None = None


PYTHON = Spoken("python")


def java_error(exception: Any) -> Py4JJavaError:
    """What to raise in a callback, so that Java throws the exception."""
    return Py4JJavaError("", exception)


@contextmanager
def thrown(bridge: Bridge, spoken: Callable[[], Spoken] = lambda: PYTHON) -> Iterator[None]:
    """Let Java throw an error of ours as one of Spark's, with the text that the plain data source gives."""
    try:
        yield
    except LanceSparkError as error:
        raise java_error(spark_error(bridge, error, spoken=spoken())) from error
    except CapturedException as error:  # what a call of ours into Java threw, as PySpark made it
        if error._origin is None:
            raise
        raise java_error(error._origin) from error


def spark_error(
    bridge: Bridge, error: LanceSparkError, kind: str = "java.lang.IllegalArgumentException", spoken: Spoken = PYTHON
) -> Any:
    """Spark's exception for one of ours: unchecked, as the methods of a scan declare none."""
    text = f"{type(error).__module__}.{type(error).__qualname__}: {error.told(*spoken)}"
    return bridge.new(kind, text)


def as_spark(error: LanceSparkError, spoken: Spoken = PYTHON) -> LanceSparkError:
    """The error as one that is also Spark's: whoever catches what the plain data source raises catches it as well."""
    return _both(type(error))(error.message, said(error.hint, *spoken) if error.hint else None)


def recovered(converted: Exception) -> Exception:
    """What a user gets to see of an exception of Spark's: ours, if it is one that went through Java."""
    text = str(converted)
    ours = own_error(text) if text.startswith(_PREFIX) else None
    return converted if ours is None else as_spark(ours)


_made: dict[type[LanceSparkError], type[LanceSparkError]] = {}


def _both(kind: type[LanceSparkError]) -> type[LanceSparkError]:
    if kind not in _made:

        def initialise(self: Any, message: str, hint: str | None = None) -> None:
            AnalysisException.__init__(self, message)
            kind.__init__(self, message, hint)

        names = {"__init__": initialise, "__module__": kind.__module__, "__str__": kind.__str__}
        _made[kind] = type(kind.__name__, (kind, AnalysisException), names)
    return _made[kind]
