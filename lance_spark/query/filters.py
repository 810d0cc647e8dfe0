"""Spark's predicates as Lance's filters, where both keep the same rows.

Negations are pushed down to the comparisons first, so that each of those only has to say for which rows it is true
(or false), never for which it is null: indexes and DataFusion's own rewriting then cannot differ from Spark in that.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from lance_spark.query import comparisons
from lance_spark.query.comparisons import ALWAYS, INVERSE, MIRRORED, NEVER, PARTS, Reference
from lance_spark.query.expressions import Call, Cast, Column, Expression, Literal
from lance_spark.query.types import plain_field, same_type, widens

_MAX_DEPTH = 16
"""AND inside of OR inside of AND; Lance's parser gives up at about 50 brackets, of which a level can take two."""
_MAX_PARTS = 1_000
"""Comparisons in one predicate; DataFusion walks them recursively."""
_MAX_LENGTH = 2**20
"""Characters of SQL: it is sent along with every task, and parsed there."""


@dataclass(frozen=True)
class PushedFilter:
    """A predicate in Lance's SQL."""

    sql: str
    exact: bool
    """True when Lance keeps the very rows that Spark keeps. Otherwise Lance keeps all of those and maybe others, and
    Spark has to apply the predicate again."""
    rejects_nulls: frozenset[str] = field(default=frozenset(), compare=False)
    """Columns, as SQL says them, that have a value in all rows that are kept."""
    only_that: bool = field(default=False, compare=False)
    """Whether it keeps all rows in which these columns have a value."""


def translate(predicate: Expression, schema: pa.Schema) -> PushedFilter | None:
    """The predicate as a filter on a dataset with this schema; None for one that only Spark can apply.

    ``schema`` is the dataset's own, as pylance's ``dataset.schema`` has it. A column that it does not have makes the
    part with that column untranslatable.
    """
    found = _Translator(schema).true_where(predicate, True, 0)
    if found is None or len(found.sql) > _MAX_LENGTH:
        return None
    return found if found.exact or found.sql != ALWAYS else None


def conjunction(filters: Iterable[PushedFilter]) -> str | None:
    """All filters as one, for a scan; None when they keep all rows.

    Spark says ``a IS NOT NULL`` beside each ``a = 1``. Where that goes without saying it is left out: it would be
    looked up in an index of its own, or keep the rest from being answered by an index alone.
    """
    needed = [each for each in filters if each.sql != ALWAYS]
    implied: set[str] = set().union(*(each.rejects_nulls for each in needed if not each.only_that))
    texts = [each.sql for each in needed if not (each.only_that and each.rejects_nulls <= implied)]
    return NEVER if NEVER in texts else " AND ".join(f"({text})" for text in texts) or None


class _Translator:
    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._parts = 0
        self._named: set[str] = set()

    def true_where(self, expression: Expression, wanted: bool, depth: int) -> PushedFilter | None:
        """SQL that is true for the rows for which the expression is ``wanted``, true or false."""
        if depth > _MAX_DEPTH:
            return None
        if isinstance(expression, Call):
            if expression.name in ("AND", "OR"):
                return self._combined(expression, wanted, depth)
            if expression.name in ("NOT", "BOOLEAN_EXPRESSION") and len(expression.arguments) == 1:
                return self.true_where(expression.arguments[0], wanted == (expression.name != "NOT"), depth + 1)
        self._parts += 1
        self._named.clear()
        sql = self._leaf(expression, wanted) if self._parts <= _MAX_PARTS else None
        if sql is None:
            return None
        keeps_nulls = sql in (ALWAYS, NEVER) or "IS NULL" in sql
        rejects = frozenset() if keeps_nulls else frozenset(self._named)
        return PushedFilter(sql, True, rejects, only_that=not keeps_nulls and _is_null_test(expression))

    def _combined(self, call: Call, wanted: bool, depth: int) -> PushedFilter | None:
        """By De Morgan: not both is either not. Of a conjunction, a part that cannot be said may be left out."""
        parts = [self.true_where(each, wanted, depth + 1) for each in _flattened(call)]
        known = [part for part in parts if part is not None]
        exact = len(known) == len(parts) and all(part.exact for part in known)
        if (call.name == "AND") == wanted:
            if any(part.sql == NEVER for part in known):
                return PushedFilter(NEVER, exact=True)
            texts = [part.sql for part in known if part.sql != ALWAYS]
            rejects = frozenset[str]().union(*(part.rejects_nulls for part in known))
            return PushedFilter(_joined(texts, "AND") or ALWAYS, exact, rejects) if known else None
        if len(known) < len(parts):
            return None
        if any(part == PushedFilter(ALWAYS, exact=True) for part in known):
            return PushedFilter(ALWAYS, exact=True)
        return PushedFilter(_joined([part.sql for part in known if part.sql != NEVER], "OR") or NEVER, exact)

    def _leaf(self, expression: Expression, wanted: bool) -> str | None:
        expression = _plain(expression)
        if isinstance(expression, Literal):
            return (ALWAYS if expression.value is wanted else NEVER) if _is_truth(expression) else None
        if isinstance(expression, Column):
            return self._comparison("=", expression, Literal(wanted, "boolean"))
        if not isinstance(expression, Call):
            return None
        name, arguments = expression.name, tuple(map(_plain, expression.arguments))
        if name == "IN" and arguments:
            return self._membership(arguments[0], arguments[1:], wanted)
        if len(arguments) == 1:
            return self._null_test(name, arguments[0], wanted)
        return self._binary(name, arguments[0], arguments[1], wanted) if len(arguments) == 2 else None

    def _null_test(self, name: str, argument: Expression, wanted: bool) -> str | None:
        column = self._reference(argument)
        if column is None or name not in ("IS_NULL", "IS_NOT_NULL"):
            return None
        return column.is_null if (name == "IS_NULL") == wanted else column.is_not_null

    def _binary(self, name: str, left: Expression, right: Expression, wanted: bool) -> str | None:
        if name in INVERSE:
            return self._comparison(name if wanted else INVERSE[name], left, right)
        if name == "<=>":
            return self._null_safe_equality(left, right, wanted)
        if name not in PARTS:
            return None
        column, value = self._constant(left, right)
        if column is None or not same_type("string", column.kind):
            return None
        return comparisons.matches(column, name, value, wanted)

    def _comparison(self, operator: str, left: Expression, right: Expression) -> str | None:
        if isinstance(left, Literal):
            operator, left, right = MIRRORED[operator], right, left
        if isinstance(right, Literal):
            column, value = self._constant(left, right)
            return None if column is None else comparisons.compare(column, operator, value)
        one, other = self._reference(left), self._reference(right)
        return comparisons.compare_columns(one, operator, other) if one and other else None

    def _null_safe_equality(self, left: Expression, right: Expression, wanted: bool) -> str | None:
        if isinstance(left, Literal):
            left, right = right, left
        if not isinstance(right, Literal):
            return None
        column, value = self._constant(left, right)
        if column is None:
            return None
        if value is None:
            return column.is_null if wanted else column.is_not_null
        compared = comparisons.compare(column, "=" if wanted else "<>", value)
        return compared if wanted or compared is None else f"({compared} OR {column.is_null})"

    def _membership(self, column: Expression, values: tuple[Expression, ...], wanted: bool) -> str | None:
        constants = []
        reference: Reference | None = None
        for each in values:
            reference, value = self._constant(column, each)
            if reference is None:
                return None
            constants.append(value)
        if reference is None:
            return None
        listed = comparisons.is_in if wanted else comparisons.is_not_in
        return listed(reference, constants)

    def _constant(self, column: Expression, constant: Expression) -> tuple[Reference | None, Any]:
        """The column and the constant it is compared with; no column where the two are not of one type."""
        inner = column.argument if isinstance(column, Cast) else column
        reference = self._reference(inner)
        if reference is None or not isinstance(constant, Literal):
            return None, None
        if isinstance(column, Cast):
            # Constants beside the column's range are told from its values all the same.
            fits = widens(reference.kind, column.target) and widens(reference.kind, constant.type)
        else:
            fits = same_type(constant.type, reference.kind)
        return (reference if fits else None), constant.value

    def _reference(self, expression: Expression) -> Reference | None:
        if not isinstance(expression, Column):
            return None
        found = plain_field(self._schema, expression.path)
        # Lance knows no way to quote a backtick.
        if found is None or any(not name or "`" in name for name in expression.path):
            return None
        names = [f"`{name}`" for name in expression.path]
        # Where a field has a value, the struct around it has one.
        self._named.update(".".join(names[:depth]) for depth in range(1, len(names) + 1))
        return Reference(".".join(names), found.type, nested=len(expression.path) > 1)


def _flattened(call: Call) -> list[Expression]:
    """The operands of a chain of one operator, however it is bracketed, from left to right."""
    operands: list[Expression] = []
    waiting: list[Expression] = [call]
    while waiting:
        each = waiting.pop()
        if isinstance(each, Call) and each.name == call.name:
            waiting.extend(reversed(each.arguments))
        else:
            operands.append(each)
    return operands


def _joined(parts: list[str], operator: str) -> str:
    return parts[0] if len(parts) == 1 else f" {operator} ".join(f"({part})" for part in parts)


def _is_null_test(expression: Expression) -> bool:
    return isinstance(expression, Call) and expression.name in ("IS_NULL", "IS_NOT_NULL")


def _plain(expression: Expression) -> Expression:
    """Spark's own predicates for true and false stand for the constants, also where those are compared."""
    if isinstance(expression, Call) and expression.name in ("ALWAYS_TRUE", "ALWAYS_FALSE"):
        return Literal(expression.name == "ALWAYS_TRUE", "boolean")
    return expression


def _is_truth(literal: Literal) -> bool:
    return literal.value is None or isinstance(literal.value, bool)
