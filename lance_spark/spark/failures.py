"""Makes this package's errors readable where Spark shows them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from lance_spark import errors
from lance_spark.errors import LanceSparkError
from lance_spark.hints import Language, said
from lance_spark.spark.worker_socket import send_at_once


@contextmanager
def plainly(language: Language = "python") -> Iterator[None]:
    """For what Spark's workers run: let one of our errors reach the user as its message and hint, in a language.

    It takes the place of a traceback. Neither what is waited for nor what is answered is held back on its way.

    Spark's worker prints the traceback of whatever a data source raises unless SPARK_HIDE_TRACEBACK is set. The
    worker process ends right after it reported an exception, so setting the variable here hides nothing else.
    Errors that are not ours keep their traceback.
    """
    send_at_once()
    try:
        yield
        send_at_once()
    except LanceSparkError as error:
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        if language != "python" and error.hint:
            raise type(error)(error.message, said(error.hint, language)) from None
        raise error from None


_OWN = re.compile(r"lance_spark\.errors\.(\w+): (.*?)(?:\n  hint: ([^\n]*))?(?:\n|$)", re.S)


def own_error(text: str) -> LanceSparkError | None:
    """The error of this package that a task raised, from the text Spark made of it; None for other failures."""
    match = _OWN.search(text)
    kind = getattr(errors, match[1], None) if match else None
    if match is None or not (isinstance(kind, type) and issubclass(kind, LanceSparkError)):
        return None
    error: LanceSparkError = kind(match[2], match[3])
    return error
