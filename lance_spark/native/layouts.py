"""A table's layout in Spark's words: transforms of partitions, and the columns of CLUSTER BY."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from lance_spark.core.texts import quoted_name
from lance_spark.jvm import names
from lance_spark.layout.layout_rules import (
    BUCKET,
    IDENTITY,
    TIMES,
    Arrangement,
    TableLayout,
    Transform,
    of_parts,
    whole_column,
)

if TYPE_CHECKING:
    from lance_spark.jvm.bridge import Bridge


def layout_of(transforms: Iterable[Any]) -> TableLayout:
    """The layout of Spark's transforms, as CREATE TABLE has them. Raises InvalidOption, Refused."""
    return of_parts((str(each.name()), [_argument(one) for one in each.arguments()]) for each in transforms)


def column_of(reference: Any) -> str:
    """The name of a column. Raises Refused for a field inside of one."""
    return whole_column([str(name) for name in reference.fieldNames()])


def _argument(given: Any) -> str | int:
    if hasattr(given, "getClass") and given.getClass().getSimpleName() == "LiteralValue":
        value = given.value()
        return value if isinstance(value, int) else str(value)
    return column_of(given)


def transforms_of(bridge: Bridge, layout: TableLayout) -> Any:
    """Spark's ``Transform[]`` of a layout, for SHOW CREATE TABLE and DESCRIBE."""
    made = [transform_of(bridge, each) for each in layout.partition]
    if layout.cluster:
        columns = [bridge.call(f"{names.FIELD_REFERENCE}.apply", bridge.seq([name])) for name in layout.cluster]
        made.append(bridge.new(names.MAYBE_CLUSTERED, bridge.seq(columns)))
    return bridge.array(names.TRANSFORM, made)


def transform_of(bridge: Bridge, transform: Transform) -> Any:
    call = f"{names.MAYBE_EXPRESSIONS}."
    column = quoted_name(transform.column)  # Spark reads it as SQL, where a bare name has ASCII letters only
    if transform.name == IDENTITY or transform.name in TIMES:
        return bridge.call(call + transform.name, column)
    if transform.name == BUCKET:
        return bridge.call(call + BUCKET, transform.argument, bridge.array("java.lang.String", [column]))
    parts = [bridge.call(call + "literal", transform.argument), bridge.call(call + "column", column)]
    return bridge.call(call + "apply", transform.name, bridge.array(names.MAYBE_EXPRESSION, parts))


def requiring(bridge: Bridge, shape: Any, arranged: Arrangement) -> Any:
    """The shape of a write whose rows Spark distributes and sorts."""
    call = f"{names.MAYBE_EXPRESSIONS}."
    direction = bridge.find(f"{names.MAYBE_SORT_DIRECTION}.ASCENDING")
    nulls = bridge.find(f"{names.MAYBE_NULL_ORDERING}.NULLS_LAST")
    order = [bridge.call(call + "sort", _column(bridge, name), direction, nulls) for name in arranged.order]
    by_hash = [_column(bridge, name) for name in arranged.by_hash]
    return shape.requiring(bridge.array(names.MAYBE_EXPRESSION, by_hash), bridge.array(names.MAYBE_SORT_ORDER, order))


def _column(bridge: Bridge, name: str) -> Any:
    return bridge.call(f"{names.FIELD_REFERENCE}.apply", bridge.seq([name]))
