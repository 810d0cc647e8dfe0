"""Datasets as Spark tables: read-only versions, declared tables, writes by name, and row-changing statements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from pyspark.sql.types import LongType, StructField, StructType

from lance_spark.core.catalog_options import CATALOG_OPTIONS, OWN_NAME
from lance_spark.core.options import folded
from lance_spark.core.storage_options import PREFIX
from lance_spark.core.table_options import NEW_BRANCH, READ_OPTIONS, REPLACES
from lance_spark.core.table_properties import optimize_write
from lance_spark.engine.lengths_spark import with_char_types
from lance_spark.engine.session_spark import engine_of
from lance_spark.engine.types_spark import showing_defaults
from lance_spark.errors import InvalidOption, NotFound, Refused
from lance_spark.format.schema import ROW_ADDRESS, ROW_COLUMNS
from lance_spark.jvm import answers, names
from lance_spark.jvm.attached import attached
from lance_spark.jvm.bridge import expression, plain
from lance_spark.jvm.proxies import Implementation
from lance_spark.layout.declaring import look, read_layout
from lance_spark.layout.layout_rules import AS_THEY_COME, Arrangement, TableLayout, arrangement
from lance_spark.native.layouts import transforms_of
from lance_spark.native.reading import MARK, told
from lance_spark.native.scan import TableStream, confuses_names, scan_builder
from lance_spark.native.writes import shaped
from lance_spark.pushdown.filters import conjunction, translate
from lance_spark.rows.rows import delete_where, truncate
from lance_spark.storage.datasets import open_pinned

if TYPE_CHECKING:
    from lance_spark.core.refs import PinnedVersion
    from lance_spark.jvm.answers import Answer
    from lance_spark.jvm.bridge import Bridge
    from lance_spark.native.places import Place
    from lance_spark.native.scan import Source
    from lance_spark.pushdown.filters import PushedFilter
    from lance_spark.rows.rows import DeleteResult


class NativeTable(Implementation):
    """Spark's ``Table``.

    It reports no version to Spark. Spark looks up a versioned table again at each action of a DataFrame, which would
    then see commits made after its creation.
    """

    interfaces: ClassVar[tuple[str, ...]] = (names.TABLE, names.SUPPORTS_READ, names.METADATA_COLUMNS)
    told: ClassVar = frozenset({"newScanBuilder"})
    same: ClassVar = True
    supported: ClassVar[tuple[str, ...]] = ("BATCH_READ",)
    """What Spark may do with it (its ``TableCapability`` names)."""

    def __init__(self, bridge: Bridge, source: Source, name: str) -> None:
        super().__init__(bridge)
        self.source, self._name = source, name

    def to_string(self) -> str:
        """Java's toString. Tables of the same read have the same text and are equal, so all share a cached result."""
        return MARK + self.source.key

    def answered(self) -> dict[str, Answer]:
        return {
            "name": answers.text(self._name),
            "schema": answers.schema(self._columns()),
            "capabilities": answers.capabilities(self.supported),
            "metadataColumns": answers.row_columns(() if confuses_names(self.bridge, self.source) else ROW_COLUMNS),
        }

    def _columns(self) -> StructType:
        return showing_defaults(with_char_types(self.source.schema), self.source.stored)

    def new_scan_builder(self, _options: dict[str, str]) -> Any:
        return scan_builder(self.bridge, self.source)


# --- Declared tables of a catalog: a name, no columns yet


class DeclaredTable(Implementation):
    """Spark's ``Table`` that takes its first rows, with any columns; or is replaced, or dropped."""

    interfaces: ClassVar = (names.TABLE, names.SUPPORTS_READ, names.SUPPORTS_WRITE)

    def __init__(self, bridge: Bridge, name: str, place: Place, properties: Callable[[], Mapping[str, str]]) -> None:
        super().__init__(bridge)
        self._name, self._place, self._properties = name, place, properties

    def answered(self) -> dict[str, Answer]:
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
            f"Table {self._name} has no data yet: a job is writing it, or was killed while writing.",
            hint="Append to it, replace it with CREATE OR REPLACE TABLE, or drop it.",
        )

    def new_write_builder(self, info: Any) -> Any:
        """The first rows."""
        return NativeWriteBuilder(self.bridge, info, self._place.options).java()


# --- Writes by a table's name: Spark's own writer of Python data sources, with options that name the table

_IN_THE_NAME = frozenset(map(folded, ("path", "create_table", "branch", *CATALOG_OPTIONS, *NEW_BRANCH)))
"""Options for the target of a write, which the table's name already determines."""
WRITABLE = (
    "BATCH_READ", "BATCH_WRITE", "STREAMING_WRITE", "TRUNCATE", "OVERWRITE_BY_FILTER", "OVERWRITE_DYNAMIC",
)  # fmt: skip
"""What Spark may do with a writable table.

It includes operations that are refused later: this package's errors have hints, while Spark would only report that the
table does not support the operation.
"""
KEEP_COLUMNS = {"overwrite_schema": "false"}
"""SQL's overwrite replaces rows; REPLACE TABLE replaces columns."""


class NativeWriteBuilder(Implementation):
    """Spark's ``WriteBuilder``. The options name the table and its branch."""

    interfaces: ClassVar = (names.SUPPORTS_OVERWRITE, names.SUPPORTS_DYNAMIC_OVERWRITE)

    def __init__(
        self,
        bridge: Bridge,
        info: Any,
        options: Mapping[str, str],
        schema: Any = None,
        base: PinnedVersion | None = None,
        arranged: Arrangement = AS_THEY_COME,
        filter_of: Callable[[Iterable[Any]], str | None] | None = None,
    ) -> None:
        """``options`` name the table; ``schema``, with the same types, replaces the query's own in the write.

        ``base`` is the version of the table with which Spark planned the statement; None for a new one. ``arranged`` is
        how Spark brings the rows, and ``filter_of`` makes Lance's SQL of predicates.
        """
        super().__init__(bridge)
        self._arranged, self._filter_of = arranged, filter_of
        given = dict(info.options().asCaseSensitiveMap())
        check_options(given)
        known = {} if base is None else told(bridge, base)
        self._info = NativeWriteInfo(bridge, info.queryId(), schema or info.schema(), {**given, **options, **known})

    def _python(self) -> Any:
        """The builder of this package's data source, under the name that the session knows."""
        bridge, info = self.bridge, self._info
        source = bridge.new(names.PYTHON_SOURCE_V2)
        source.setShortName(OWN_NAME)
        return source.getTable(info.schema(), bridge.empty(names.TRANSFORM), bridge.map({})).newWriteBuilder(
            info.java()
        )

    def build(self) -> Any:
        return self._columns(self._python()).build()

    def _columns(self, builder: Any) -> Any:
        """The builder, for rows as columns where the session allows it; Spark brings them as they are to be."""
        return shaped(self.bridge, builder, self._info.schema(), self._arranged)

    def truncate(self) -> Any:
        return self._columns(self._python().truncate())

    def can_overwrite(self, _predicates: Any) -> bool:
        """What Lance cannot find is refused later, with a hint."""
        return True

    def overwrite(self, predicates: Any) -> Any:
        """The builder of an overwrite of the rows that match; Spark calls ``truncate`` to replace all rows.

        Raises Refused for a condition with which Lance might match other rows than Spark.
        """
        sql = None if self._filter_of is None else self._filter_of(plain(self.bridge, predicates))
        if sql is None:
            raise Refused(
                "Cannot overwrite only the rows that match this condition. Nothing was written.",
                hint="LanceTable.overwrite(df, where=...) replaces the rows of any condition in one version.",
            )
        return self._with({REPLACES: sql})

    def _with(self, more: Mapping[str, str]) -> Any:
        info = self._info
        given = {**dict(info.options().asCaseSensitiveMap()), **more}
        self._info = NativeWriteInfo(self.bridge, info.query_id(), info.schema(), given)
        return self._columns(self._python())

    def overwrite_dynamic_partitions(self) -> Any:
        """The builder of an overwrite: a table without partitions is replaced as a whole, as Spark replaces its own.

        Spark calls this for any INSERT OVERWRITE with spark.sql.sources.partitionOverwriteMode=dynamic. Of a table with
        partitions, only those of the new rows are replaced.
        """
        if self._arranged.partitions:
            given = {**dict(self._info.options().asCaseSensitiveMap()), "partition_overwrite_mode": "dynamic"}
            self._info = NativeWriteInfo(self.bridge, self._info.query_id(), self._info.schema(), given)
        return self.truncate()


class NativeWriteInfo(Implementation):
    """Spark's ``LogicalWriteInfo``."""

    interfaces: ClassVar = (names.WRITE_INFO,)

    def __init__(self, bridge: Bridge, query_id: str, schema: Any, options: Mapping[str, str]) -> None:
        super().__init__(bridge)
        self._query_id, self._schema, self._options = query_id, schema, bridge.options(options)

    def query_id(self) -> str:
        return self._query_id

    def schema(self) -> Any:
        return self._schema

    def options(self) -> Any:
        return self._options


def check_options(given: Mapping[str, str]) -> None:
    """Raise InvalidOption for options that a write by a table's name cannot take."""
    for key in given:
        if folded(key) in _IN_THE_NAME or key.lower().startswith(PREFIX):
            raise InvalidOption(
                f"A write to a table by its name takes no option '{key}'.",
                hint="The name chooses the target: `flights@exp` is branch exp. "
                "CALL ... .create_branch makes one; pass storage options to register(..., storage_options=...).",
            )


# --- A table by its name: readable, and writable if the name means a branch


@dataclass(frozen=True)
class RowColumns:
    """The columns about rows, such as _rowid, that a statement names which changes rows."""

    names: tuple[str, ...] = ()
    as_data: bool = False
    """Whether they are columns like all others: in a MERGE, Spark otherwise loses them on the way."""


NO_ROW_COLUMNS = RowColumns()


_REFUSED = frozenset(map(folded, READ_OPTIONS))


class StoredTable(NativeTable):
    """Spark's ``Table`` with all operations that change its rows."""

    interfaces: ClassVar[tuple[str, ...]] = (
        *NativeTable.interfaces,
        names.SUPPORTS_WRITE,
        names.SUPPORTS_DELETE,
        names.SUPPORTS_ROW_LEVEL,
    )

    told: ClassVar = NativeTable.told | {"canDeleteWhere", "deleteWhere"}
    supported: ClassVar[tuple[str, ...]] = (*WRITABLE, "MICRO_BATCH_READ")
    """Also for a tag or a version: this package's error then explains why it cannot be written to."""
    named = NO_ROW_COLUMNS

    def __init__(
        self, bridge: Bridge, source: Source, name: str, place: Place, properties: Callable[[], Mapping[str, str]]
    ) -> None:
        super().__init__(bridge, source, name)
        self._place, self._properties = place, properties

    @property
    def place(self) -> Place:
        return self._place

    def answered(self) -> dict[str, Answer]:
        """The known answers about a version, for this statement."""
        known = super().answered()
        if not self._layout():  # every plan asks for it
            known["partitioning"] = answers.NO_TRANSFORMS
        if self.named.as_data:
            # An address identifies its row, and is never null; rows that a MERGE inserts have none of the others.
            row = [StructField(name, LongType(), name != ROW_ADDRESS) for name in self.named.names]
            schema = StructType([*self._columns().fields, *row])
            hidden = [name for name in ROW_COLUMNS if name not in self.named.names]
            known |= {"schema": answers.schema(schema), "metadataColumns": answers.row_columns(hidden)}
        return known

    def properties(self) -> Any:
        """For DESCRIBE and SHOW; looked up on demand."""
        return self.bridge.map(self._properties())

    def partitioning(self) -> Any:
        """The table's layout, for SHOW CREATE TABLE and DESCRIBE."""
        return transforms_of(self.bridge, self._layout())

    def _layout(self) -> TableLayout:
        """The layout that it declares, even if its columns no longer allow it."""
        read = self.source.read
        return look(read.location, read.pin)[0]

    def new_scan_builder(self, options: dict[str, str]) -> Any:
        """One per query. Raises InvalidOption for options that would be ignored: a branch, a filter."""
        for key in options:
            if folded(key) in _REFUSED or key.lower().startswith(PREFIX):
                raise InvalidOption(
                    f"A read of a table by its name takes no option '{key}'.",
                    hint="Put the ref into the name, `flights@exp`, or after it: VERSION AS OF. Columns and filters "
                    "are pushed down automatically; for other options, use format('lance').",
                )
        stream = TableStream(self.bridge, self._place, options)
        return scan_builder(self.bridge, self.source, stream)

    def new_write_builder(self, info: Any) -> Any:
        branch = self._place.branch_to_change("write to the table")
        named = {} if branch is None else {"branch": branch}
        options = {**KEEP_COLUMNS, **self._place.options, **named}
        read = self.source.read
        evenly = optimize_write(open_pinned(read.location, read.pin).metadata)
        arranged = arrangement(read_layout(read.location, read.pin), self.source.stored, evenly)
        return NativeWriteBuilder(
            self.bridge, info, options, base=read.pin, arranged=arranged, filter_of=self.filter_of
        ).java()

    def new_row_level_operation_builder(self, info: Any) -> Any:
        """One per UPDATE, DELETE or MERGE. Raises Refused for immutable versions."""
        self._place.branch_to_change("change rows of the table")
        if confuses_names(self.bridge, self.source):
            one, other = self.source.case_pair or ("", "")
            raise Refused(
                f"Cannot change rows of the table: columns '{one}' and '{other}' differ only in case.",
                hint="SET spark.sql.caseSensitive = true, or rename one of them.",
            )
        named = () if self.named.as_data else self.named.names
        return NativeRowOperation(self.bridge, self, info.command(), named).java()

    def can_delete_where(self, predicates: Any) -> bool:
        """Whether Lance can find these rows. If not, Spark searches for them."""
        return self.filter_of(predicates) is not None or not [*predicates]

    def delete_where(self, predicates: Any, *_options: Any) -> None:
        """Delete the rows that match; all of them without a condition."""
        self.delete(predicates)

    def truncate_table(self, *_options: Any) -> bool:
        self.delete(())
        return True

    def delete(self, predicates: Iterable[Any], message: str | None = None) -> DeleteResult:
        """Delete the rows that match all of Spark's predicates, as plain values; all rows without any."""
        wanted = [*predicates]
        branch = self._place.branch_to_change("delete rows of it")
        if not wanted:
            return truncate(self._place.location, branch, message)
        sql = self.filter_of(wanted)
        if sql is None:
            raise Refused("Lance might match other rows than Spark for this condition.")
        return delete_where(self._place.location, branch, sql, engine_of(self.bridge.spark), message)

    def filter_of(self, predicates: Iterable[Any]) -> str | None:
        """Lance's SQL; None if it could match other rows than Spark's predicates."""
        found: list[PushedFilter] = []
        for predicate in predicates:
            wanted = expression(predicate)
            pushed = None if wanted is None else translate(wanted, self.source.stored)
            if pushed is None or not pushed.exact:
                return None
            found.append(pushed)
        return conjunction(found)


class EvolvingTable(StoredTable):
    """The table of a Spark that adds columns for MERGE WITH SCHEMA EVOLUTION, while it analyzes the statement."""

    interfaces: ClassVar = (*StoredTable.interfaces, names.MAYBE_EVOLUTION)
    supported: ClassVar = (*StoredTable.supported, "AUTOMATIC_SCHEMA_EVOLUTION")

    def supports_column_change(self, change: Any) -> bool:
        """New columns and fields only. Values of another type are cast, or refused, as without schema evolution."""
        return bool(change.getClass().getSimpleName() == "AddColumn")


# --- The table's interface for row-changing statements
# With it, Spark's analyzer turns an UPDATE, a DELETE or a MERGE into a query whose rows state the action for each row.
# Only that query is used. Spark's tasks call a method for each row that its writer of Python data sources lacks, and
# every row would be silently lost. So the write refuses to begin, however it reached Spark.


class NativeRowOperation(Implementation):
    """Spark's ``RowLevelOperationBuilder``, and the operation itself, which identifies rows by their addresses."""

    interfaces: ClassVar = (names.ROW_LEVEL_BUILDER, names.SUPPORTS_DELTA)
    told: ClassVar = frozenset({"newScanBuilder"})

    def __init__(self, bridge: Bridge, table: NativeTable, command: Any, named: Sequence[str] = ()) -> None:
        super().__init__(bridge)
        self._table, self._command, self._named = table, command, named

    def to_string(self) -> str:
        return f"{self._command.toString()} of {self._table.to_string()}"

    def build(self) -> Any:
        return self.java()

    def command(self) -> Any:
        return self._command

    def description(self) -> str:
        return f"{self._command.toString()} of Lance rows"

    def answered(self) -> dict[str, Answer]:
        """The columns that identify rows, and those that the statement names: Spark's query has no others."""
        named = [name for name in self._named if name != ROW_ADDRESS]
        return {
            "rowId": answers.references([ROW_ADDRESS]),
            "requiredMetadataAttributes": answers.references(named),
        }

    def new_scan_builder(self, options: dict[str, str]) -> Any:
        return self._table.new_scan_builder(options)

    def new_write_builder(self, _info: Any) -> Any:
        """A builder for EXPLAIN only."""
        return RefusingWrite(self.bridge).java()


class RefusingWrite(Implementation):
    """Spark's ``DeltaWriteBuilder`` and ``DeltaWrite``, which never write anything."""

    interfaces: ClassVar = (names.DELTA_WRITE_BUILDER, names.DELTA_WRITE)

    def to_string(self) -> str:
        return "of Lance rows"

    def build(self) -> Any:
        return self.java()

    def description(self) -> str:
        """Text for metrics of the write, which has none."""
        return self.to_string()

    def to_batch(self) -> NoReturn:
        """Raises Refused: called before any task starts."""
        reason = self.bridge.no_row_changes
        if reason is not None:
            raise Refused(
                f"Cannot change rows by SQL: {reason}",
                hint="LanceTable.update, .delete and .merge do the same from Python.",
            )
        on_server = self.bridge.gateway in attached
        which = "was not a text of its own" if on_server else "does not come from spark.sql(...) in Python"
        hint = "Run it with spark.sql(...) in Python, or use LanceTable.update, .delete and .merge."
        if on_server:
            hint = "Set spark.sql.extensions to lance_spark.Extensions where Spark starts, and send the statement by "
            hint += "itself, outside of BEGIN ... END; or use LanceTable.update, .delete and .merge in Python."
        raise Refused(
            f"Cannot change rows with a statement that {which}: Spark's own tasks would lose them.", hint=hint
        )
