"""What Spark is told of a table whose rows can be changed one by one.

With it Spark's analyzer makes of an UPDATE, a DELETE or a MERGE a query whose rows say what happens to which row. The
query is all that is wanted of Spark: its tasks call a method for each row that its writer of Python data sources
lacks, and every row would be lost without a word. So the write refuses to begin, in whichever way it came to Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from lance_spark.errors import Refused
from lance_spark.schema.projection import ROW_ADDRESS
from lance_spark.spark.jvm import answers, names
from lance_spark.spark.jvm.proxies import Implementation

if TYPE_CHECKING:
    from lance_spark.spark.jvm.answers import Answer
    from lance_spark.spark.jvm.bridge import Bridge
    from lance_spark.spark.jvm.table import NativeTable


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
