"""What a query needs of a table, from the text of its optimized plan: columns, rows, and how many of them.

Nothing here makes an answer right: Spark runs the whole query over what is read. All that counts is that nothing is
left out that the query can tell apart, so that each doubt ends in reading more.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lance_spark.query.expressions import Call, Expression
from lance_spark.query.filters import conjunction, translate
from lance_spark.query.plan_conditions import Condition, parse_condition
from lance_spark.query.plan_tree import ExplainedPlan, Operator, read_plan

_CUTTING = frozenset({"Project", "Aggregate"})
"""Operators whose rows have only what they name."""
_PASSING = frozenset(
    {"Filter", "Sort", "LocalLimit", "GlobalLimit", "Offset", "Sample", "Repartition"}
    | {"Join", "Window", "WindowGroupLimit", "Generate", "ArrowEvalPython", "BatchEvalPython"}
)
"""Operators that hand on all columns, and name those that they use themselves."""
_LEAF = "RelationV2"
_CUT_SHORT = re.compile(r"\.\.\. \d+ more (fields|characters)")
_LIMIT = re.compile(r" (\d+)")
_OWN_VIEW = " (`_pyspark_"
"""Views that PySpark makes for ``spark.sql("... {df}", df=df)``, and drops again."""


@dataclass(frozen=True)
class Narrowing:
    """What a read may be narrowed to."""

    columns: tuple[str, ...] | None = None
    """The columns whose values matter, which may be none at all; None for all columns."""
    filter: str | None = None
    """Lance's SQL, true for all rows that the query looks at, and maybe for others."""
    limit: int | None = None
    """So many rows are enough, whichever they are."""
    unconfirmed: bool = False
    """Whether the filter is only sure if a second plan of the same query, with other numbers, gives it as well."""
    ids: tuple[tuple[int, str, str], ...] = ()
    """Columns of the filter, each with the number that the plan gave it; the reads of the table are counted."""


EVERYTHING = Narrowing()


def narrowing(text: str, table: str, schema: pa.Schema) -> Narrowing:
    """What the query behind ``EXPLAIN EXTENDED``'s text needs of the table that the plan has under that name.

    ``schema`` is the dataset's own. Where the table is read more than once, it is what all of the reads need.
    """
    plan = read_plan(text)
    leaves = [] if plan is None else _leaves(plan, table)
    if plan is None or not leaves or not all(name.isprintable() for name in schema.names):
        return EVERYTHING
    conditions = [_condition(leaf, schema) for leaf in leaves]
    known = [each for each in conditions if each is not None]
    found = Narrowing(_columns(leaves, schema), limit=_limit(leaves))
    return found if len(known) < len(leaves) else _filtered(found, known, schema)


def confirmed(first: Narrowing, second: Narrowing) -> Narrowing:
    """The first, as far as a second plan of the same query says the same with other numbers."""
    same = first.filter == second.filter and [each[:2] for each in first.ids] == [each[:2] for each in second.ids]
    moved = {number for *_, number in first.ids}.isdisjoint(number for *_, number in second.ids)
    return replace(first, filter=first.filter if same and moved else None, unconfirmed=False)


def _leaves(plan: ExplainedPlan, table: str) -> list[Operator]:
    """The places where the plan reads the table; none where some of them cannot be told.

    A view that the query made would still be there later, and read narrowly by others.
    """
    leaves, analyzed = (
        [operator for operator in operators if operator.name == _LEAF and operator.arguments.endswith(f" {table}")]
        for operators in (plan.optimized, plan.analyzed)
    )
    views = [above.arguments for leaf in analyzed for above in leaf.ancestors() if above.name == "View"]
    if plan.text.count(table) != len(leaves) or _forked(plan.optimized):
        return []
    return leaves if all(view.startswith(_OWN_VIEW) for view in views) else []


def _forked(operators: Sequence[Operator]) -> bool:
    """Whether an operator with one input seems to have another number of them."""
    inputs = {id(operator): 0 for operator in operators}
    for operator in operators:
        if operator.parent is not None:
            inputs[id(operator.parent)] += 1
    return any(inputs[id(operator)] != 1 for operator in operators if operator.name in (_CUTTING | _PASSING) - {"Join"})


def _columns(leaves: Sequence[Operator], schema: pa.Schema) -> tuple[str, ...] | None:
    """Columns that an operator names, up to the first above each leaf that hands on only what it names."""
    texts: list[str] = []
    for leaf in leaves:
        for above in leaf.ancestors():
            texts.append(above.arguments)
            if above.name in _CUTTING:
                break
            if above.name not in _PASSING:
                return None
        else:
            return None
    whole = "\n".join(texts)
    if _CUT_SHORT.search(whole):
        return None
    return tuple(name for name in schema.names if _is_named(name, whole))


def _is_named(name: str, text: str) -> bool:
    start = r"(?<!\w)" if re.match(r"\w", name) else ""
    return re.search(rf"{start}{re.escape(name)}#\d", text, re.IGNORECASE) is not None


def _condition(leaf: Operator, schema: pa.Schema) -> Condition | None:
    """The condition on the rows of a leaf before anything else happens to them."""
    above = leaf.parent
    return parse_condition(above.arguments[1:], schema) if above is not None and above.name == "Filter" else None


def _filtered(found: Narrowing, conditions: Sequence[Condition], schema: pa.Schema) -> Narrowing:
    wanted = [_without_null_tests(condition.expression) for condition in conditions]
    whole = wanted[0] if len(wanted) == 1 else Call("OR", tuple(dict.fromkeys(wanted)))
    pushed = translate(whole, schema)
    sql = None if pushed is None else conjunction([pushed])
    if sql is None:
        return found
    ids = tuple((read, *item) for read, each in enumerate(conditions) for item in sorted(each.ids.items()))
    return replace(found, filter=sql, ids=ids, unconfirmed=any(condition.words for condition in conditions))


def _without_null_tests(expression: Expression) -> Expression:
    """Without Spark's own tests for null, one for each column that it joins by: they keep nearly all rows."""
    if not isinstance(expression, Call) or expression.name not in ("AND", "IS_NOT_NULL"):
        return expression
    if expression.name == "IS_NOT_NULL":
        return Call("ALWAYS_TRUE")
    kept = [_without_null_tests(each) for each in expression.arguments]
    kept = [each for each in kept if each != Call("ALWAYS_TRUE")]
    return Call("AND", tuple(kept)) if len(kept) > 1 else (kept or [Call("ALWAYS_TRUE")])[0]


def _limit(leaves: Sequence[Operator]) -> int | None:
    """The limit of a query that takes any rows."""
    (leaf, *others) = leaves
    above = next((operator for operator in leaf.ancestors() if operator.name != "Project"), None)
    if others or above is None or above.name != "LocalLimit":
        return None
    found = _LIMIT.fullmatch(above.arguments)
    return None if found is None else int(found[1])
