"""What a statement that began on one version may meet when it commits on a later one. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from lance_spark.format.transactions import Transaction
from lance_spark.format.versions import ACTION, REORDERED, REPLACES, RESTORE

_KEEPS_ROWS = frozenset({"CreateIndex", "Rewrite", "ReserveFragments", "UpdateBases", "UpdateConfig"})
_REPLACES = frozenset({"Overwrite", "Restore"})


def undone(before: pa.Schema, now: pa.Schema) -> str | None:
    """The change of columns that rows with the columns of ``before`` would take back; None if there is none.

    Ids of fields do not count: each overwrite numbers them anew.
    """
    had, has = _fields(before), _fields(now)
    for name in had:
        if name not in has:
            return f"column '{name}' was dropped or renamed"
    for name, field in has.items():
        if name not in had:
            return f"column '{name}' was added"
        if field != had[name]:
            return f"column '{name}' was altered"
    if before.names != now.names:
        return "the columns were reordered"
    return None if _metadata(before) == _metadata(now) else "the metadata of its columns was changed"


def _fields(schema: pa.Schema) -> dict[str, Any]:
    return {field.name: _shape(field) for field in schema}


def _shape(field: pa.Field) -> Any:
    kind = field.type
    children = [_shape(kind.field(index)) for index in range(kind.num_fields)]
    return field.name, str(kind), field.nullable, _metadata(field), children


def _metadata(given: pa.Schema | pa.Field) -> dict[bytes, bytes]:
    return dict(given.metadata or {})


def replacing(between: Mapping[int, Transaction | None], versions: Sequence[int]) -> int | None:
    """The first of these versions that replaced the whole table, or of which nothing is known."""
    return next((version for version in versions if _replaces(between.get(version))), None)


def _replaces(made: Transaction | None) -> bool:
    if made is None or made.operation in _REPLACES:
        return True
    return made.properties.get(REPLACES) == "true" or made.properties.get(ACTION) == RESTORE


def changing(between: Mapping[int, Transaction | None], versions: Sequence[int]) -> int | None:
    """The first of these versions that changed rows or columns, or of which nothing is known."""
    return next((version for version in versions if changes_rows(between.get(version))), None)


def changes_rows(made: Transaction | None) -> bool:
    """Whether a version may have other rows, values or columns than the one before."""
    return made is None or not (made.operation in _KEEPS_ROWS or made.properties.get(REORDERED) == "true")
