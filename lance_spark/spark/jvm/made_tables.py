"""Statements that would make a Lance table where none can be, or one of another format in a catalog of ours.

Spark's own catalog takes ``USING lance`` and asks nobody; afterwards there is a name that can be neither read nor
written. To a catalog of ours Spark does not tell ``USING parquet`` from no format at all.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from lance_spark.options.session_tables import path_as_name, refused_table
from lance_spark.spark.jvm.creating import FORMAT, other_format
from lance_spark.spark.jvm.names import MAYBE_CREATES

if TYPE_CHECKING:
    from lance_spark.spark.jvm.room import Room

_SESSION = "spark_catalog"


def check_statement(room: Room, text: str, formats: Collection[str]) -> None:
    """Raise Refused for a CREATE or REPLACE TABLE with a format that its catalog cannot have.

    ``formats`` are the names of ours, in lower case. What cannot be parsed is left to Spark, to say so.
    """
    bridge = room.bridge
    try:
        with bridge.active():
            plan = bridge.session.sessionState().sqlParser().parsePlan(text)
        if str(plan.getClass().getName()) not in MAYBE_CREATES:
            return
        spec, parts = plan.tableSpec(), [str(part) for part in bridge.items(plan.name().nameParts())]
        provider = _value(spec.provider())
        catalog = _catalog(room, parts)
    except (Py4JError, PySparkException):
        return
    if provider is None:
        return
    if catalog in room.catalogs and provider.lower() != FORMAT:
        raise other_format(provider)
    if catalog == _SESSION and provider.lower() in formats:
        statement = (
            "CREATE TABLE {} AS SELECT ..." if "AsSelect" in plan.getClass().getName() else "CREATE TABLE {} (...)"
        )
        raise refused_table(parts[-1], statement, path_as_name(_options(room, spec)), _own(room))


def check_save(room: Room, name: str, provider: str, formats: Collection[str]) -> None:
    """Raise Refused for a ``saveAsTable`` into Spark's own catalog."""
    bridge = room.bridge
    if provider.lower() not in formats:
        return
    try:
        with bridge.active():
            found = bridge.session.sessionState().sqlParser().parseMultipartIdentifier(name)
        parts = [str(part) for part in bridge.items(found)]
        catalog = _catalog(room, parts)
    except (Py4JError, PySparkException):
        return
    if catalog == _SESSION:
        raise refused_table(parts[-1], "df.write.saveAsTable('{}')", catalog=_own(room))


def _catalog(room: Room, parts: list[str]) -> str:
    """The catalog of a name."""
    manager = room.bridge.session.sessionState().catalogManager()
    if len(parts) > 1 and manager.isCatalogRegistered(parts[0]):
        return parts[0]
    return str(manager.currentCatalog().name())


def _options(room: Room, spec: Any) -> dict[str, str]:
    """The options of a statement, with its location among them."""
    try:
        given = {str(each._1()): str(each._2()) for each in room.bridge.items(spec.optionExpression().options())}
    except Py4JError:
        given = {}
    location = _value(spec.location())
    return given if location is None else {**given, "location": location}


def _own(room: Room) -> str:
    """A catalog of the session with a root; empty where there is none."""
    return next((name for name, found in room.catalogs.items() if hasattr(found, "catalog")), "")


def _value(option: Any) -> str | None:
    return str(option.get()) if option.isDefined() else None
