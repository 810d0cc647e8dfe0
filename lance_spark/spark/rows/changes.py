"""Delete, update and replace: their action frames."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the usual name for it

from lance_spark.errors import InvalidOption
from lance_spark.location import DatasetLocation
from lance_spark.refs.model import PinnedVersion
from lance_spark.rows.clauses import TARGET, check_columns
from lance_spark.rows.model import DELETE, DELETING, INSERT, OPERATION, REPLACING, UPDATE, UPDATING
from lance_spark.schema.projection import ROW_ADDRESS
from lance_spark.spark.rows.assignment import assigned, expression, quoted
from lance_spark.spark.rows.engine import RowChange
from lance_spark.spark.rows.target import TargetRows

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    Condition = str | Column

Place = tuple[DatasetLocation, "str | None"]
"""A dataset, and the branch to change, None for main."""
_OUTSIDE = (
    "lance_spark.errors.Refused: A row to be written does not satisfy the condition of replace_where, so that it would "
    "not be replaced by the same write again.\n  hint: Filter the DataFrame by the condition, or widen the condition; "
    "nothing was changed.\n"
)


def deletion(spark: SparkSession, place: Place, where: Condition) -> RowChange:
    """Delete the rows that a condition is true for."""
    _check_condition(where)
    location, branch = place
    rows = TargetRows(spark, location)

    def actions(pin: PinnedVersion) -> DataFrame:
        return rows.select(pin, lambda target: _deleted(target, where))

    return RowChange(location, branch, DELETING, actions, _meeting(rows, where), predicate=_text(where))


def update(
    spark: SparkSession, place: Place, values: Mapping[str, Condition], where: Condition | None = None
) -> RowChange:
    """Set columns of the rows that a condition is true for, or of all rows."""
    if where is not None:
        _check_condition(where)
    if not values:
        raise InvalidOption("The update sets no column.", hint="Give one: update({'column': 'expression'}).")
    location, branch = place
    rows = TargetRows(spark, location)
    # All rows are read at once with all of their columns, few rows column by column where they are written.
    sets = None if where is None else frozenset(values)

    def actions(pin: PinnedVersion) -> DataFrame:
        fields = {field.name: field for field in rows.schema(pin)}
        check_columns(list(values), list(fields))

        def query(target: DataFrame) -> DataFrame:
            found = _matching(target, where)
            new = assigned(found, {name: expression(value) for name, value in values.items()}, fields)
            named = [name for name in fields if name in new or name not in rows.kept(pin, sets)]
            columns = [new.get(name, quoted(name)).alias(name) for name in named]
            return found.select(F.lit(UPDATE).alias(OPERATION), F.col(ROW_ADDRESS), *columns)

        return rows.select(pin, query)

    return RowChange(location, branch, UPDATING, actions, _meeting(rows, where), sets=sets)


def replacement(spark: SparkSession, place: Place, frame: DataFrame, where: Condition) -> RowChange:
    """Replace the rows that a condition is true for by those of a DataFrame, which have to satisfy it as well."""
    _check_condition(where)
    location, branch = place
    rows = TargetRows(spark, location)
    checked = F.when(F.coalesce(expression(where), F.lit(False)), F.lit(INSERT)).otherwise(
        F.raise_error(F.lit(_OUTSIDE)).cast("int")
    )
    address = F.lit(None).cast("bigint").alias(ROW_ADDRESS)
    new = frame.alias(TARGET).select(checked.alias(OPERATION), address, *(quoted(name) for name in frame.columns))

    def actions(pin: PinnedVersion) -> DataFrame:
        old = rows.select(pin, lambda target: _deleted(target, where))
        nothing = [F.lit(None).alias(name) for name in frame.columns]
        return old.select("*", *nothing).union(new)

    return RowChange(location, branch, REPLACING, actions, _meeting(rows, where))


def _deleted(target: DataFrame, where: Condition) -> DataFrame:
    return _matching(target, where).select(F.lit(DELETE).alias(OPERATION), F.col(ROW_ADDRESS))


def _matching(target: DataFrame, where: Condition | None) -> DataFrame:
    named = target.alias(TARGET)
    return named if where is None else named.where(expression(where))


def _meeting(rows: TargetRows, where: Condition | None) -> Callable[[PinnedVersion, Sequence[int]], bool]:
    def meets(pin: PinnedVersion, fragments: Sequence[int]) -> bool:
        return not _matching(rows.fragments(pin, fragments), where).isEmpty()

    return meets


def _check_condition(where: Condition) -> None:
    if isinstance(where, str) and not where.strip():
        raise InvalidOption("The condition is empty.", hint="Give one such as id > 5; for all rows: 'true'.")


def _text(where: Condition) -> str:
    return where if isinstance(where, str) else str(where)
