"""Names of tables and namespaces, as Spark passes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lance_spark.spark.jvm import names

if TYPE_CHECKING:
    from lance_spark.spark.jvm.bridge import Bridge


def parts_of(identifier: Any) -> list[str]:
    """The parts of Spark's identifier, outermost first."""
    return [*identifier.namespace(), identifier.name()]


def identifier(bridge: Bridge, parts: Sequence[str]) -> Any:
    """Spark's identifier of the parts."""
    return bridge.call(f"{names.IDENTIFIER}.of", strings(bridge, parts[:-1]), parts[-1])


def strings(bridge: Bridge, parts: Sequence[str]) -> Any:
    """A ``String[]``."""
    return bridge.array("java.lang.String", parts)
