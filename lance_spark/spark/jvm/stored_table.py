"""A table by its name: read as any other one, and written to, where the name means a branch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from lance_spark.actions.delete_rows import delete_where, truncate
from lance_spark.errors import InvalidOption, Refused
from lance_spark.options.read import READ_OPTIONS
from lance_spark.options.storage import PREFIX
from lance_spark.query.filters import conjunction, translate
from lance_spark.spark.engines import engine_of
from lance_spark.spark.jvm import names
from lance_spark.spark.jvm.expressions import expression
from lance_spark.spark.jvm.table import NativeTable
from lance_spark.spark.jvm.writing import KEEP_COLUMNS, NativeWriteBuilder, capabilities

if TYPE_CHECKING:
    from lance_spark.query.filters import PushedFilter
    from lance_spark.spark.jvm.bridge import Bridge
    from lance_spark.spark.jvm.places import Place
    from lance_spark.spark.jvm.source import Source


_REFUSED = frozenset(name.lower() for name in READ_OPTIONS)


class StoredTable(NativeTable):
    """Spark's ``Table`` with everything that changes its rows."""

    interfaces: ClassVar = (*NativeTable.interfaces, names.SUPPORTS_WRITE, names.SUPPORTS_DELETE)

    def __init__(
        self, bridge: Bridge, source: Source, name: str, place: Place, properties: Callable[[], Mapping[str, str]]
    ) -> None:
        super().__init__(bridge, source, name)
        self._place, self._properties = place, properties

    def capabilities(self) -> Any:
        """What Spark may do with it. A tag or a version says itself why it cannot be written to."""
        return capabilities(self.bridge)

    def properties(self) -> Any:
        """For DESCRIBE and SHOW; looked up when somebody asks."""
        return self.bridge.map(self._properties())

    def new_scan_builder(self, options: Any) -> Any:
        """One for each query. Raises InvalidOption for what would be left out of account: a branch, a filter."""
        for key in dict(options.asCaseSensitiveMap()):
            if key.lower() in _REFUSED or key.lower().startswith(PREFIX):
                raise InvalidOption(
                    f"A read of a table by its name takes no option '{key}'.",
                    hint="A ref is in the name, `flights@exp`, or behind it: VERSION AS OF. Columns and filters are "
                    "pushed down by themselves; for other options there is format('lance').",
                )
        return super().new_scan_builder(options)

    def new_write_builder(self, info: Any) -> Any:
        """One for each write."""
        branch = self._place.branch_to_change("write to it")
        named = {} if branch is None else {"branch": branch}
        return NativeWriteBuilder(self.bridge, info, {**KEEP_COLUMNS, **self._place.options, **named}).java()

    def can_delete_where(self, predicates: Any) -> bool:
        """Whether Lance can tell which rows these are. Raises Refused, with what it cannot tell."""
        self._filter(predicates)
        return True

    def delete_where(self, predicates: Any, *_options: Any) -> None:
        """Delete the rows that match; all of them without a condition."""
        branch = self._place.branch_to_change("delete rows of it")
        sql = self._filter(predicates)
        if sql is None:
            truncate(self._place.location, branch)
        else:
            delete_where(self._place.location, branch, sql, engine_of(self.bridge.spark))

    def truncate_table(self, *_options: Any) -> bool:
        """Delete all rows."""
        truncate(self._place.location, self._place.branch_to_change("truncate it"))
        return True

    def _filter(self, predicates: Any) -> str | None:
        return conjunction([self._exactly(predicate) for predicate in predicates])

    def _exactly(self, predicate: Any) -> PushedFilter:
        wanted = expression(self.bridge, predicate)
        found = None if wanted is None else translate(wanted, self.source.stored)
        if found is None or not found.exact:
            raise Refused(
                f"Cannot delete by '{predicate.toString()}': Lance could take other rows for it than Spark.",
                hint="Compare columns with constants. Or write the rows that stay: INSERT OVERWRITE ... SELECT * FROM "
                "... WHERE NOT (...).",
            )
        return found
