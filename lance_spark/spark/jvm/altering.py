"""ALTER TABLE: columns and properties."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.types import StructField, StructType, _parse_datatype_json_value

from lance_spark.actions.columns import alter_columns
from lance_spark.errors import LanceSparkError, Refused
from lance_spark.schema.column_changes import AddColumn, AlterColumn, ColumnChange, DropColumn, RenameColumn, shown
from lance_spark.spark.engines import engine_of
from lance_spark.spark.jvm.failures import java_error, spark_error
from lance_spark.spark.jvm.namespaces import property_changes
from lance_spark.spark.jvm.proxies import Implementation
from lance_spark.spark.types import to_arrow

if TYPE_CHECKING:
    from lance_spark.spark.jvm.places import Place, Places

_OTHER = "java.lang.UnsupportedOperationException"
"""Of an IllegalArgumentException Spark makes one of its own here, which hides ours."""
_PROPERTIES = ("SetProperty", "RemoveProperty")


class Altering(Implementation):
    """The part of a catalog that changes tables."""

    _places: Places

    def alter_table(self, ident: Any, changes: Any) -> Any:
        """Columns first, all in one version; then properties."""
        try:
            self._alter(ident, changes)
        except LanceSparkError as error:
            raise java_error(spark_error(self.bridge, error, _OTHER, self.spoken())) from error
        return self.load_table(ident)

    def _alter(self, ident: Any, changes: Any) -> None:
        place = self._find(ident, for_reading=False)
        branch = place.branch_to_change("alter it")
        columns = [_change(each) for each in changes if each.getClass().getSimpleName() not in _PROPERTIES]
        if columns:
            alter_columns(place.location, branch, columns, engine_of(self.bridge.spark))
        put, unset = property_changes(changes)
        if put or unset:
            self._places.alter_properties(place, put, unset)

    def _find(self, ident: Any, *, for_reading: bool) -> Place:
        """The catalog's own."""
        raise NotImplementedError

    def load_table(self, ident: Any, at: Any = None, *others: Any) -> Any:
        """The catalog's own."""
        raise NotImplementedError


def _change(given: Any) -> ColumnChange:
    """One change of a column. Raises Refused for a kind that is not known here."""
    kind = given.getClass().getSimpleName()
    make = _KINDS.get(kind)
    if make is None:
        raise Refused(f"Cannot change the table so ({kind}): Lance has nothing like it.")
    change: ColumnChange = make(tuple(given.fieldNames()), given)
    return change


def _added(path: tuple[str, ...], given: Any) -> ColumnChange:
    if given.defaultValue() is not None:
        raise Refused(
            f"Cannot add column '{shown(path)}' with a default: Lance has none.",
            hint="Leave DEFAULT out: it is null in the rows that are there. Values come with INSERT.",
        )
    return AddColumn(path, _type(given.dataType()), given.isNullable(), given.comment(), _text(given.position()))


_KINDS: dict[str, Any] = {
    "AddColumn": _added,
    "DeleteColumn": lambda path, given: DropColumn(path, bool(given.ifExists())),
    "RenameColumn": lambda path, given: RenameColumn(path, given.newName()),
    "UpdateColumnType": lambda path, given: AlterColumn(path, type=_type(given.newDataType())),
    "UpdateColumnNullability": lambda path, given: AlterColumn(path, nullable=given.nullable()),
    "UpdateColumnComment": lambda path, given: AlterColumn(path, comment=given.newComment() or ""),
    "UpdateColumnPosition": lambda path, given: AlterColumn(path, position=_text(given.position())),
}


def _text(position: Any) -> str | None:
    return None if position is None else str(position.toString())


def _type(given: Any) -> pa.DataType:
    kind = _parse_datatype_json_value(json.loads(given.json()))
    return to_arrow(StructType([StructField("column", kind)])).field(0).type
