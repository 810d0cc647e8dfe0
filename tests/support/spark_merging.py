"""What Spark makes of rows and of partial rows: an oracle for aggregates, in Python's exact numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any

Row = tuple[Any, ...]


class Overflow(Exception):
    """Spark's ANSI mode raises here."""


def aggregated(
    rows: Iterable[Row], keys: int, functions: Sequence[str], limit: Decimal | int = 2**63 - 1
) -> dict[Row, Row]:
    """Result of each group. A row is its keys and then what each function takes."""
    groups: dict[Row, list[Row]] = {} if keys else {(): []}
    for row in rows:
        groups.setdefault(tuple(map(_same, row[:keys])), []).append(row[keys:])
    return {
        key: tuple(_FUNCTIONS[name]([row[at] for row in members], limit) for at, name in enumerate(functions))
        for key, members in groups.items()
    }


def merged(
    rows: Iterable[Row], keys: int, functions: Sequence[str], limit: Decimal | int = 2**63 - 1
) -> dict[Row, Row]:
    """What Spark makes of partial rows. Without any row a count would be null, as it is in Spark."""
    merging = ["SUM" if name.startswith("COUNT") else name for name in functions]
    return aggregated(rows, keys, merging, limit)


def _same(value: Any) -> Any:
    """A key of which equal ones make one group: NaN is a group, and -0.0 is in that of 0.0."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def _present(values: list[Any]) -> list[Any]:
    return [value for value in values if value is not None]


def _sum(values: list[Any], limit: Any) -> Any:
    found = _present(values)
    if not found:
        return None
    if isinstance(found[0], float):
        return math.fsum(found) if all(map(math.isfinite, found)) else sum(found)
    total = sum(map(Decimal, found)) if isinstance(found[0], Decimal) else sum(found)
    if not -limit - isinstance(total, int) <= total <= limit:
        raise Overflow
    return total


def _ordered(value: Any) -> Any:
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value.encode() if isinstance(value, str) else value


def _extreme(pick: Callable[..., Any]) -> Callable[[list[Any], Any], Any]:
    return lambda values, _limit: pick(_present(values), key=_ordered, default=None)


_FUNCTIONS: dict[str, Callable[[list[Any], Any], Any]] = {
    "COUNT_STAR": lambda values, _limit: len(values),
    "COUNT": lambda values, _limit: len(_present(values)),
    "SUM": _sum,
    "MIN": _extreme(min),
    "MAX": _extreme(max),
}
