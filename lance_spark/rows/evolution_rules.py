"""Which columns a row merge with schema evolution adds to the table. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.types as pt

from lance_spark.errors import Refused
from lance_spark.format.evolution import AddColumn, Path, comment_of, shown
from lance_spark.format.kept_types import kept_of


def added_columns(table: pa.Schema, source: Iterable[pa.Field]) -> list[AddColumn]:
    """The columns, and the fields of structs, that only the source has; names match in any case, as in Spark.

    Raises Refused for a new field inside of a list or a map, which no column can get.
    """
    return [*_added(list(table), list(source), ())]


def _added(table: list[pa.Field], source: list[pa.Field], path: Path) -> Iterator[AddColumn]:
    known = {field.name.lower(): field for field in table}
    for field in source:
        there = known.get(field.name.lower())
        if there is None:
            if not pt.is_null(field.type):  # without a type it has no values either
                yield AddColumn((*path, field.name), field.type, comment=comment_of(field), kept=kept_of(field))
        elif pt.is_struct(there.type) and pt.is_struct(field.type):
            yield from _added(_children(there.type), _children(field.type), (*path, there.name))
        elif inside := _new_inside(there.type, field.type):
            raise Refused(
                f"Schema evolution cannot add field '{inside}' inside of column '{shown((*path, there.name))}', a list "
                "or a map. Nothing was changed.",
                hint="Leave the field out, or write the values to a new column.",
            )


def _new_inside(table: pa.DataType, source: pa.DataType) -> str | None:
    """The name of the first field of structs, inside of lists and maps, that only the source has."""
    if pt.is_struct(table) and pt.is_struct(source):
        known = {field.name.lower(): field.type for field in _children(table)}
        for field in _children(source):
            if field.name.lower() not in known:
                return str(field.name)
            if found := _new_inside(known[field.name.lower()], field.type):
                return found
        return None
    if not table.num_fields or table.num_fields != source.num_fields:
        return None
    pairs = zip(_children(table), _children(source), strict=True)
    return next((found for one, other in pairs if (found := _new_inside(one.type, other.type))), None)


def _children(kind: pa.DataType) -> list[pa.Field]:
    return [kind.field(index) for index in range(kind.num_fields)]
