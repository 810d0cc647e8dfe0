"""Values for columns of a table, as SQL assigns them: cast to the column's type, or an error for what does not fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the usual name for it
from pyspark.sql import types as st

from lance_spark.errors import SchemaMismatch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

_FAMILIES: tuple[tuple[type[st.DataType], ...], ...] = (
    (st.NumericType,),
    (st.BooleanType,),
    (st.DateType, st.TimestampType, st.TimestampNTZType),
    (st.StringType, st.BinaryType),
    (st.DayTimeIntervalType,),
)


def expression(given: str | Column) -> Column:
    """SQL, or a Column as it is."""
    return F.expr(given) if isinstance(given, str) else given


def quoted(name: str, side: str | None = None) -> Column:
    """A column by its name, whatever characters are in it."""
    whole = "`" + name.replace("`", "``") + "`"
    return F.col(whole if side is None else f"{side}.{whole}")


def assigned(rows: DataFrame, values: Mapping[str, Column], fields: Mapping[str, st.StructField]) -> dict[str, Column]:
    """The values in the types of the columns that they are for.

    Numbers, strings and times are cast, and a value that the type cannot hold ends the job with an error; for values
    of other types the rules of appending hold. Raises SchemaMismatch for types of which no value can be cast.
    """
    if not values:
        return {}
    types = rows.select(*(value.alias(f"c{at}") for at, value in enumerate(values.values()))).schema
    given = zip(values.items(), types, strict=True)
    return {name: _fitted(value, found.dataType, fields[name]) for (name, value), found in given}


def _fitted(value: Column, given: st.DataType, field: st.StructField) -> Column:
    wanted = field.dataType
    if given == wanted:
        return value
    if isinstance(given, st.NullType):
        return value.cast(wanted)
    mine, other = _family(given), _family(wanted)
    if mine is None or other is None:
        return value
    if mine != other and st.StringType not in (*mine, *other):
        raise SchemaMismatch(
            f"Column '{field.name}' is {wanted.simpleString()}, and a value of type {given.simpleString()} cannot be "
            "cast to it.",
            hint="Give an expression of the column's type.",
        )
    fitted = value.try_cast(wanted)
    said = f"lance_spark.errors.SchemaMismatch: Column '{field.name}' of type {wanted.simpleString()} cannot hold "
    hint = "\n  hint: Change or leave out such values; nothing was changed.\n"
    failure = F.raise_error(F.concat(F.lit(said), value.cast("string"), F.lit(f".{hint}")))
    return F.coalesce(fitted, F.when(value.isNotNull(), failure.cast(wanted)))


def _family(kind: st.DataType) -> tuple[type[st.DataType], ...] | None:
    return next((family for family in _FAMILIES if isinstance(kind, family)), None)
