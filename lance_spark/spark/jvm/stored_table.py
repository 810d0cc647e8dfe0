"""A table by its name: read as any other one, and written to, where the name means a branch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from lance_spark.actions.delete_rows import delete_where, truncate
from lance_spark.errors import InvalidOption, Refused
from lance_spark.options.read import READ_OPTIONS
from lance_spark.options.storage import PREFIX
from lance_spark.query.filters import conjunction, translate
from lance_spark.spark.engines import engine_of
from lance_spark.spark.jvm import names
from lance_spark.spark.jvm.plain_values import expression
from lance_spark.spark.jvm.row_operations import NativeRowOperation
from lance_spark.spark.jvm.scan_builder import NativeScanBuilder
from lance_spark.spark.jvm.streams import TableStream
from lance_spark.spark.jvm.table import NativeTable
from lance_spark.spark.jvm.writing import KEEP_COLUMNS, WRITABLE, NativeWriteBuilder

if TYPE_CHECKING:
    from lance_spark.actions.delete_rows import DeleteResult
    from lance_spark.query.filters import PushedFilter
    from lance_spark.spark.jvm.bridge import Bridge
    from lance_spark.spark.jvm.places import Place
    from lance_spark.spark.jvm.source import Source


_REFUSED = frozenset(name.lower() for name in READ_OPTIONS)


class StoredTable(NativeTable):
    """Spark's ``Table`` with everything that changes its rows."""

    interfaces: ClassVar = (
        *NativeTable.interfaces,
        names.SUPPORTS_WRITE,
        names.SUPPORTS_DELETE,
        names.SUPPORTS_ROW_LEVEL,
    )

    told: ClassVar = NativeTable.told | {"canDeleteWhere", "deleteWhere"}
    supported: ClassVar = (*WRITABLE, "MICRO_BATCH_READ")
    """A tag or a version says itself why it cannot be written to."""

    def __init__(
        self, bridge: Bridge, source: Source, name: str, place: Place, properties: Callable[[], Mapping[str, str]]
    ) -> None:
        super().__init__(bridge, source, name)
        self._place, self._properties = place, properties

    @property
    def place(self) -> Place:
        """Where it is."""
        return self._place

    def properties(self) -> Any:
        """For DESCRIBE and SHOW; looked up when somebody asks."""
        return self.bridge.map(self._properties())

    def new_scan_builder(self, options: dict[str, str]) -> Any:
        """One for each query. Raises InvalidOption for what would be left out of account: a branch, a filter."""
        for key in options:
            if key.lower() in _REFUSED or key.lower().startswith(PREFIX):
                raise InvalidOption(
                    f"A read of a table by its name takes no option '{key}'.",
                    hint="A ref is in the name, `flights@exp`, or behind it: VERSION AS OF. Columns and filters are "
                    "pushed down by themselves; for other options there is format('lance').",
                )
        stream = TableStream(self.bridge, self._place, options)
        return NativeScanBuilder(self.bridge, self.source, stream).java()

    def new_write_builder(self, info: Any) -> Any:
        """One for each write."""
        branch = self._place.branch_to_change("write to it")
        named = {} if branch is None else {"branch": branch}
        return NativeWriteBuilder(self.bridge, info, {**KEEP_COLUMNS, **self._place.options, **named}).java()

    def new_row_level_operation_builder(self, info: Any) -> Any:
        """One for each UPDATE, DELETE or MERGE. Raises Refused for what never changes."""
        self._place.branch_to_change("change rows of it")
        return NativeRowOperation(self.bridge, self, info.command()).java()

    def can_delete_where(self, predicates: Any) -> bool:
        """Whether Lance can tell which rows these are. If not, Spark looks for them."""
        return self.filter_of(predicates) is not None or not [*predicates]

    def delete_where(self, predicates: Any, *_options: Any) -> None:
        """Delete the rows that match; all of them without a condition."""
        self.delete(predicates)

    def truncate_table(self, *_options: Any) -> bool:
        """Delete all rows."""
        self.delete(())
        return True

    def delete(self, predicates: Iterable[Any], message: str | None = None) -> DeleteResult:
        """Delete the rows that all of Spark's predicates, as plain values, hold for; all rows without any."""
        wanted = [*predicates]
        branch = self._place.branch_to_change("delete rows of it")
        if not wanted:
            return truncate(self._place.location, branch, message)
        sql = self.filter_of(wanted)
        if sql is None:
            raise Refused("Lance could take other rows for this condition than Spark.")
        return delete_where(self._place.location, branch, sql, engine_of(self.bridge.spark), message)

    def filter_of(self, predicates: Iterable[Any]) -> str | None:
        """Lance's SQL; None where it could mean other rows than Spark's predicates."""
        found: list[PushedFilter] = []
        for predicate in predicates:
            wanted = expression(predicate)
            pushed = None if wanted is None else translate(wanted, self.source.stored)
            if pushed is None or not pushed.exact:
                return None
            found.append(pushed)
        return conjunction(found)
