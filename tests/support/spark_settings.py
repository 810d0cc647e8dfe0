"""Settings of a session that tests share: afterwards each one is what it was before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession


@contextmanager
def settings_of(spark: SparkSession, given: Mapping[str, str], others: Iterable[str] = ()) -> Iterator[None]:
    """Set some settings; ``others`` are names of those that the test sets itself."""
    before = {name: spark.conf.get(name, None) for name in (*given, *others)}
    try:
        for name, value in given.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, kept in before.items():
            if kept is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, kept)
