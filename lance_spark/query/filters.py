"""Spark's predicates as Lance's filters, where both keep the same rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from lance_spark.query.expressions import Expression


@dataclass(frozen=True)
class PushedFilter:
    """A predicate in Lance's SQL."""

    sql: str
    exact: bool
    """True when Lance keeps the very rows that Spark keeps. Otherwise Lance keeps all of those and maybe others, and
    Spark has to apply the predicate again."""


def translate(predicate: Expression, schema: pa.Schema) -> PushedFilter | None:
    """The predicate as a filter on a dataset with this schema; None for one that only Spark can apply."""
    return None


def conjunction(filters: Iterable[PushedFilter]) -> str | None:
    """All filters as one, for a scan; None when there is none."""
    return " AND ".join(f"({each.sql})" for each in filters) or None
