"""Tests for null that other predicates make needless: Spark adds one for each column that it compares or joins by."""

from __future__ import annotations

from collections.abc import Iterable

from lance_spark.query.expressions import Call, Column, Expression

_COMPARISONS = frozenset({"=", "<>", "<", "<=", ">", ">=", "STARTS_WITH", "ENDS_WITH", "CONTAINS", "IN"})
"""What is neither true nor false where its first arguments are null."""


def is_implied(predicate: Expression, others: Iterable[Expression]) -> bool:
    """Whether a predicate is IS NOT NULL of a column that one of the others already rejects nulls of."""
    if not (isinstance(predicate, Call) and predicate.name == "IS_NOT_NULL"):
        return False
    (argument,) = predicate.arguments
    return isinstance(argument, Column) and any(argument in without_nulls(each) for each in others)


def without_nulls(predicate: Expression) -> frozenset[Column]:
    """Columns that are not null where the predicate is true. Where a field is not null, its struct is not either."""
    if not isinstance(predicate, Call):
        return frozenset()
    parts = [without_nulls(each) for each in predicate.arguments]
    if predicate.name == "AND":
        return frozenset().union(*parts)
    if predicate.name == "OR":
        return frozenset.intersection(*parts) if parts else frozenset()
    if predicate.name == "NOT" and _is_comparison(predicate.arguments[0]):
        return parts[0]
    if not _is_comparison(predicate):
        return frozenset()
    compared = predicate.arguments[:1] if predicate.name == "IN" else predicate.arguments
    return frozenset(
        Column(each.path[:depth])
        for each in compared
        if isinstance(each, Column)
        for depth in range(1, len(each.path) + 1)
    )


def _is_comparison(expression: Expression) -> bool:
    return isinstance(expression, Call) and expression.name in _COMPARISONS
