"""Writes through a table's name: Spark's own writer of Python data sources, with options that name the table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from lance_spark.errors import InvalidOption, Refused
from lance_spark.options.catalog import OWN_NAME
from lance_spark.options.storage import PREFIX
from lance_spark.spark.jvm import names
from lance_spark.spark.jvm.proxies import Implementation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance_spark.spark.jvm.bridge import Bridge

_IN_THE_NAME = frozenset(
    {
        "path",
        "catalog",
        "catalog_mode",
        "create_table",
        "branch",
        "create_branch",
        "from_branch",
        "from_tag",
        "from_version",
    }
)
"""Options that say where a write goes, which the table's name says already."""
WRITABLE = (
    "BATCH_READ", "BATCH_WRITE", "STREAMING_WRITE", "TRUNCATE", "OVERWRITE_BY_FILTER", "OVERWRITE_DYNAMIC",
)  # fmt: skip
"""What Spark may do with a table that it can write to.

Also what is refused: our errors have hints, and Spark's say that the table does not support it.
"""
KEEP_COLUMNS = {"overwrite_schema": "false"}
"""An overwrite in SQL replaces rows; what replaces columns says REPLACE TABLE."""


class NativeWriteBuilder(Implementation):
    """Spark's ``WriteBuilder``. Which table it is, and which branch, is in the options."""

    interfaces: ClassVar = (names.SUPPORTS_OVERWRITE, names.SUPPORTS_DYNAMIC_OVERWRITE)

    def __init__(self, bridge: Bridge, info: Any, options: Mapping[str, str], schema: Any = None) -> None:
        """``options`` name the table; ``schema`` is to be written in place of the query's own, of the same types."""
        super().__init__(bridge)
        given = dict(info.options().asCaseSensitiveMap())
        check_options(given)
        self._info = NativeWriteInfo(bridge, info.queryId(), schema or info.schema(), {**given, **options})

    def _python(self) -> Any:
        """What our data source has for a builder, by whichever name the session knows the data source."""
        bridge, info = self.bridge, self._info
        source = bridge.new(names.PYTHON_SOURCE_V2)
        source.setShortName(OWN_NAME)
        return source.getTable(info.schema(), bridge.empty(names.TRANSFORM), bridge.map({})).newWriteBuilder(
            info.java()
        )

    def build(self) -> Any:
        """The write of an append."""
        return self._python().build()

    def truncate(self) -> Any:
        """The builder of an overwrite."""
        return self._python().truncate()

    def can_overwrite(self, _predicates: Any) -> bool:
        """It is refused later, with a hint."""
        return True

    def overwrite(self, _predicates: Any) -> Any:
        """Raises Refused: Spark asks for ``truncate`` where all rows go."""
        raise Refused(
            "Cannot overwrite only the rows that match a condition: that is a deletion and an append.",
            hint="DELETE FROM ... WHERE, then append; on a branch that you merge, both are seen at once.",
        )

    def overwrite_dynamic_partitions(self) -> Any:
        """Raises Refused."""
        raise Refused(
            "Cannot overwrite partitions: a Lance table has none.",
            hint="To replace all rows: df.writeTo(...).overwrite(lit(True)); some: DELETE FROM ... WHERE, then append.",
        )


class NativeWriteInfo(Implementation):
    """Spark's ``LogicalWriteInfo``."""

    interfaces: ClassVar = (names.WRITE_INFO,)

    def __init__(self, bridge: Bridge, query_id: str, schema: Any, options: Mapping[str, str]) -> None:
        super().__init__(bridge)
        self._query_id, self._schema, self._options = query_id, schema, bridge.options(options)

    def query_id(self) -> str:
        """Spark's name for the query."""
        return self._query_id

    def schema(self) -> Any:
        """The columns that are written."""
        return self._schema

    def options(self) -> Any:
        """The options of the write."""
        return self._options


def check_options(given: Mapping[str, str]) -> None:
    """Raise InvalidOption for options that a write by a table's name cannot take."""
    for key in given:
        if key.lower() in _IN_THE_NAME or key.lower().startswith(PREFIX):
            raise InvalidOption(
                f"A write to a table by its name takes no option '{key}'.",
                hint="The name says where the rows go: `flights@exp` is branch exp. "
                "CALL ... .create_branch makes one; register(..., storage_options=...) has the storage options.",
            )
