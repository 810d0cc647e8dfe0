"""A version of a dataset as a table of Spark's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from pyspark.sql.types import StructType

from lance_spark.core.options import OWN_NAME, PREFIX
from lance_spark.core.table_options import READ_OPTIONS
from lance_spark.engine.session_spark import engine_of
from lance_spark.errors import InvalidOption, NotFound, Refused
from lance_spark.format.schema import ROW_ADDRESS, ROW_COLUMNS
from lance_spark.jvm import answers, names
from lance_spark.jvm.bridge import expression
from lance_spark.jvm.proxies import Implementation
from lance_spark.native.scan import NativeScanBuilder, TableStream
from lance_spark.native.writes import as_columns
from lance_spark.pushdown.filters import conjunction, translate
from lance_spark.rows.rows import delete_where, truncate

if TYPE_CHECKING:
    from lance_spark.jvm.answers import Answer
    from lance_spark.jvm.bridge import Bridge
    from lance_spark.native.places import Place
    from lance_spark.native.scan import Source
    from lance_spark.pushdown.filters import PushedFilter
    from lance_spark.rows.rows import DeleteResult


class NativeTable(Implementation):
    """Spark's ``Table``.

    It tells Spark no version: a table that does is looked up again at each action of a DataFrame, which would then
    see what was committed after it was made.
    """

    interfaces: ClassVar[tuple[str, ...]] = (names.TABLE, names.SUPPORTS_READ, names.METADATA_COLUMNS)
    told: ClassVar = frozenset({"newScanBuilder"})
    same: ClassVar = True
    supported: ClassVar[tuple[str, ...]] = ("BATCH_READ",)
    """What Spark may do with it."""

    def __init__(self, bridge: Bridge, source: Source, name: str) -> None:
        super().__init__(bridge)
        self.source, self._name = source, name

    def to_string(self) -> str:
        """Java's toString; tables of the same read have the same, and are equal: what was cached is for all."""
        return f"NativeTable {self.source.key}"

    def answered(self) -> dict[str, Answer]:
        """What there is to say of a version."""
        return {
            "name": answers.text(self._name),
            "schema": answers.schema(self.source.schema),
            "capabilities": answers.capabilities(self.supported),
            "metadataColumns": answers.row_columns(ROW_COLUMNS),
        }

    def new_scan_builder(self, _options: dict[str, str]) -> Any:
        """One for each query."""
        return NativeScanBuilder(self.bridge, self.source).java()


# --- A table of a catalog that is only declared: it has a name and no columns yet


class DeclaredTable(Implementation):
    """Spark's ``Table`` that takes its first rows, whatever their columns; or is replaced, or dropped."""

    interfaces: ClassVar = (names.TABLE, names.SUPPORTS_READ, names.SUPPORTS_WRITE)

    def __init__(self, bridge: Bridge, name: str, place: Place, properties: Callable[[], Mapping[str, str]]) -> None:
        super().__init__(bridge)
        self._name, self._place, self._properties = name, place, properties

    def answered(self) -> dict[str, Answer]:
        """A table without columns."""
        return {
            "name": answers.text(self._name),
            "schema": answers.schema(StructType()),
            "capabilities": answers.capabilities((*WRITABLE, "ACCEPT_ANY_SCHEMA")),
        }

    def properties(self) -> Any:
        """For DESCRIBE and SHOW."""
        return self.bridge.map(self._properties())

    def new_scan_builder(self, _options: Any) -> Any:
        """Raises NotFound."""
        raise NotFound(
            f"Table {self._name} has no data yet: a job is writing it, or was killed at that.",
            hint="Append to it, replace it with CREATE OR REPLACE TABLE, or drop it.",
        )

    def new_write_builder(self, info: Any) -> Any:
        """The first rows."""
        return NativeWriteBuilder(self.bridge, info, self._place.options).java()


# --- Writes through a table's name: Spark's own writer of Python data sources, with options that name the table

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
        return as_columns(self.bridge, self._python(), self._info.schema()).build()

    def truncate(self) -> Any:
        """The builder of an overwrite."""
        return as_columns(self.bridge, self._python().truncate(), self._info.schema())

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


# --- A table by its name: read as any other one, and written to, where the name means a branch

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


# --- What Spark is told of a table whose rows can be changed one by one
# With it Spark's analyzer makes of an UPDATE, a DELETE or a MERGE a query whose rows say what happens to which row. The
# query is all that is wanted of Spark: its tasks call a method for each row that its writer of Python data sources
# lacks, and every row would be lost without a word. So the write refuses to begin, in whichever way it came to Spark.


class NativeRowOperation(Implementation):
    """Spark's ``RowLevelOperationBuilder``, and the operation itself, which tells rows by their addresses."""

    interfaces: ClassVar = (names.ROW_LEVEL_BUILDER, names.SUPPORTS_DELTA)
    told: ClassVar = frozenset({"newScanBuilder"})

    def __init__(self, bridge: Bridge, table: NativeTable, command: Any) -> None:
        super().__init__(bridge)
        self._table, self._command = table, command

    def to_string(self) -> str:
        """Java's toString."""
        return f"{self._command.toString()} of {self._table.to_string()}"

    def build(self) -> Any:
        """Itself."""
        return self.java()

    def command(self) -> Any:
        """Which statement it is."""
        return self._command

    def description(self) -> str:
        """What EXPLAIN shows of it."""
        return f"{self._command.toString()} of Lance rows"

    def answered(self) -> dict[str, Answer]:
        """The columns that tell rows apart."""
        return {"rowId": answers.references([ROW_ADDRESS])}

    def new_scan_builder(self, options: dict[str, str]) -> Any:
        """The table's own."""
        return self._table.new_scan_builder(options)

    def new_write_builder(self, _info: Any) -> Any:
        """One that is good for EXPLAIN only."""
        return RefusingWrite(self.bridge).java()


class RefusingWrite(Implementation):
    """Spark's ``DeltaWriteBuilder`` and ``DeltaWrite``, of which nothing is ever written."""

    interfaces: ClassVar = (names.DELTA_WRITE_BUILDER, names.DELTA_WRITE)

    def to_string(self) -> str:
        """What EXPLAIN shows of it."""
        return "of Lance rows"

    def build(self) -> Any:
        """Itself."""
        return self.java()

    def description(self) -> str:
        """Shown by metrics of the write, of which there are none."""
        return self.to_string()

    def to_batch(self) -> NoReturn:
        """Raises Refused: asked before any task is started."""
        reason = self.bridge.no_row_changes
        if reason is not None:
            raise Refused(
                f"Cannot change rows by SQL: {reason}",
                hint="LanceTable.update, .delete and .merge do the same from Python.",
            )
        raise Refused(
            "Cannot change rows by a statement that does not come from spark.sql(...) in Python: Spark's own tasks "
            "would lose them.",
            hint="Run it by spark.sql(...) in Python, or use LanceTable.update, .delete and .merge.",
        )
