"""Errors of this package as Spark's, for users of both; without a JVM."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from pyspark.errors import AnalysisException

from lance_spark.engine.workers_spark import own_error
from lance_spark.errors import LanceSparkError
from lance_spark.hints import Language, said

_OWN = re.compile(rf"(\([\w.$]+\) )?{re.escape(LanceSparkError.__module__)}\.")
"""Begins the text of such an error; on Spark Connect, the class of the exception in Java can be before it."""


class Spoken(NamedTuple):
    """The user's input language and names, for hints in the same language."""

    language: Language
    catalog: str | None = None
    table: str | None = None


PYTHON = Spoken("python")


def as_spark(error: LanceSparkError, spoken: Spoken = PYTHON) -> LanceSparkError:
    """The error as one that is also Spark's, so handlers for the plain data source's errors also catch it."""
    return _both(type(error))(error.message, said(error.hint, *spoken) if error.hint else None)


def recovered(converted: Exception) -> Exception:
    """The user's view of a Spark exception: this package's error if it passed through Java."""
    text = str(converted)
    ours = own_error(text) if _OWN.match(text) else None
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
