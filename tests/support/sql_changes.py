"""A table whose rows SQL changes, the rows of a source, and how both are compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import lance
import pyarrow as pa
from pyspark.sql import SparkSession

NAN = float("nan")
TYPE = pa.struct([("a", pa.int32()), ("b", pa.string())])
COLUMNS = pa.schema(
    [("id", pa.int64()), ("k", pa.string()), ("v", pa.int32()), ("d", pa.float64()), ("s", TYPE)],
)
ROWS = [
    (0, "a", 10, 0.5, {"a": 1, "b": "x"}),
    (1, "b", None, NAN, {"a": None, "b": "y"}),
    (2, "c", 30, None, None),
    (3, None, 40, -0.0, {"a": 4, "b": None}),
    (4, "e", 50, 1.5, {"a": 5, "b": "z"}),
    (5, "f", None, 2.5, None),
    (6, "A", 70, NAN, {"a": 7, "b": "x"}),
    (7, None, 80, 3.5, {"a": 8, "b": "x"}),
]
SOURCE = "id BIGINT, k STRING, v INT, op STRING"
CHANGES = [
    (0, "a", 100, "u"),
    (2, None, None, "u"),
    (3, "d", 300, "d"),
    (4, "e", 400, None),
    (100, "n", 1000, "i"),
    (101, None, None, "i"),
    (None, "a", 5, "i"),
]


def table(rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(COLUMNS.names, row, strict=True)) for row in rows], COLUMNS)


def told(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Rows in an order, of values that can be compared: NaN as text."""
    return sorted(repr(tuple(row.values())) for row in rows)


def stored(uri: str, branch: str | None = None) -> list[str]:
    """The rows of a branch, as pylance reads them."""
    found = lance.dataset(uri)
    if branch is not None:
        found = found.checkout_version((branch, None))
    return told(found.to_table().to_pylist())


def asked(spark: SparkSession, query: str) -> list[str]:
    """The rows of a query."""
    return told(row.asDict(recursive=True) for row in spark.sql(query).collect())


def changed(spark: SparkSession, statement: str, **arguments: Any) -> tuple[int, ...]:
    """Rows updated, deleted and inserted."""
    found = spark.sql(statement, **arguments)
    assert found.columns == ["num_affected_rows", "num_updated_rows", "num_deleted_rows", "num_inserted_rows"]
    everything, *each = found.collect()[0]
    assert everything == sum(each)
    return tuple(each)
