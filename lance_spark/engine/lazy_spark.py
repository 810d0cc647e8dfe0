"""PySpark's modules, imported on first use: commands and handles without a session work without PySpark.

Files that need PySpark while they are imported, such as for the base of a class, import it directly, and are themselves
imported inside functions that already have a session.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lance_spark.errors import NotInstalled

if TYPE_CHECKING:
    from pyspark.sql import functions as F  # noqa: N812 - the usual name for it
    from pyspark.sql import types as st

__all__ = ["F", "check_pyspark", "pyspark_module", "st"]


def check_pyspark() -> None:
    """Raise NotInstalled if there is no PySpark.

    Imports it, rather than asking pip: a cluster's own Spark is a directory on the path, of which pip knows nothing.
    """
    pyspark_module("pyspark.sql")


def pyspark_module(name: str, otherwise: str = "") -> Any:
    """A module of PySpark. Raises NotInstalled if it, or a module that it needs, is not installed.

    ``otherwise`` ends the error's hint.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as missing:
        raise NotInstalled.spark(missing.name, otherwise) from missing


class _OnFirstUse:
    """Has the attributes of a module of PySpark."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)  # what pickle and copy look for, even before there is a name
        return getattr(pyspark_module(self._name), attribute)


if not TYPE_CHECKING:
    F = _OnFirstUse("pyspark.sql.functions")
    st = _OnFirstUse("pyspark.sql.types")
