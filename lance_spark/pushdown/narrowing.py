"""The columns, rows and number of rows that a query needs of a table, from the text of its optimized plan.

Nothing here affects the answer: Spark runs the whole query over the rows that are read. The read must only not omit
anything that the query can distinguish, so every doubt leads to reading more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from typing import TypeAlias

import pyarrow as pa

from lance_spark.pushdown import filters
from lance_spark.pushdown.filters import Call, Cast, Column, Expression, Literal

_CUTTING = frozenset({"Project", "Aggregate"})
"""Operators whose output has only the columns that they name."""
_PASSING = frozenset(
    {"Filter", "Sort", "LocalLimit", "GlobalLimit", "Offset", "Sample", "Repartition"}
    | {"Join", "Window", "WindowGroupLimit", "Generate", "ArrowEvalPython", "BatchEvalPython"}
)
"""Operators that pass on all columns, and name those that they use themselves."""
_LEAF = "RelationV2"
_CUT_SHORT = re.compile(r"\.\.\. \d+ more (fields|characters)")
_LIMIT = re.compile(r" (\d+)")
_OWN_VIEW = " (`_pyspark_"
"""Views that PySpark creates for ``spark.sql("... {df}", df=df)``, and drops again."""


@dataclass(frozen=True)
class Narrowing:
    """The part of a table that a read can be limited to."""

    columns: tuple[str, ...] | None = None
    """The columns whose values matter, possibly none; None for all columns."""
    filter: str | None = None
    """Lance's SQL, true for all rows that the query looks at, and possibly for others."""
    limit: int | None = None
    """This many rows are enough, in any selection."""
    unconfirmed: bool = False
    """Whether the filter is certain only if a second plan of the same query, with other numbers, also contains it."""
    ids: tuple[tuple[int, str, str], ...] = ()
    """Columns of the filter, each with its number in the plan; the reads of the table are counted."""


EVERYTHING = Narrowing()


def narrowing(text: str, table: str, schema: pa.Schema) -> Narrowing:
    """The needs of the query behind ``EXPLAIN EXTENDED``'s text, for the table that the plan has under that name.

    ``schema`` is the dataset's own. For a table that is read more than once, the result covers all reads.
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
    """The parts of the first that a second plan of the same query, with other numbers, repeats."""
    same = first.filter == second.filter and [each[:2] for each in first.ids] == [each[:2] for each in second.ids]
    moved = {number for *_, number in first.ids}.isdisjoint(number for *_, number in second.ids)
    return replace(first, filter=first.filter if same and moved else None, unconfirmed=False)


def _leaves(plan: ExplainedPlan, table: str) -> list[Operator]:
    """The places where the plan reads the table; none if some of them are unclear.

    A view created by the query would outlive it, and its other readers would get the narrowed read.
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
    """Columns that operators name, up to the first above each leaf that passes on only what it names."""
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
    """The condition on the rows of a leaf before any other operator."""
    above = leaf.parent
    return parse_condition(above.arguments[1:], schema) if above is not None and above.name == "Filter" else None


def _filtered(found: Narrowing, conditions: Sequence[Condition], schema: pa.Schema) -> Narrowing:
    wanted = [_without_null_tests(condition.expression) for condition in conditions]
    whole = wanted[0] if len(wanted) == 1 else Call("OR", tuple(dict.fromkeys(wanted)))
    pushed = filters.translate(whole, schema)
    sql = None if pushed is None else filters.conjunction([pushed])
    if sql is None:
        return found
    ids = tuple((read, *item) for read, each in enumerate(conditions) for item in sorted(each.ids.items()))
    return replace(found, filter=sql, ids=ids, unconfirmed=any(condition.words for condition in conditions))


def _without_null_tests(expression: Expression) -> Expression:
    """Without Spark's own null tests, one for each join column: they keep nearly all rows."""
    if not isinstance(expression, Call) or expression.name not in ("AND", "IS_NOT_NULL"):
        return expression
    if expression.name == "IS_NOT_NULL":
        return Call("ALWAYS_TRUE")
    kept = [_without_null_tests(each) for each in expression.arguments]
    kept = [each for each in kept if each != Call("ALWAYS_TRUE")]
    return Call("AND", tuple(kept)) if len(kept) > 1 else (kept or [Call("ALWAYS_TRUE")])[0]


def _limit(leaves: Sequence[Operator]) -> int | None:
    """The limit of a query that accepts any rows."""
    (leaf, *others) = leaves
    above = next((operator for operator in leaf.ancestors() if operator.name != "Project"), None)
    if others or above is None or above.name != "LocalLimit":
        return None
    found = _LIMIT.fullmatch(above.arguments)
    return None if found is None else int(found[1])


# --- Conditions in the text of Spark's plans, such as ``(isnotnull(x#2) AND (x#2 > 0.999))``, as expressions
# Spark prints constants without quotes and types. The type is that of the column on the other side, because Spark has
# already converted one to the other. Everything must be understood, or nothing is used: a skipped part might not end
# where it seems to.

UNKNOWN = Call("UNKNOWN")
"""A part whose text is understood but whose meaning is not: a conjunction can omit it."""

_COLUMN = re.compile(r"(\w+)#(\d+)L?((?:\.\w+)*)")
_SUBQUERY = re.compile(r"scalar-subquery#\d+ \[\]")
_FUNCTION = re.compile(r"(\w+)\(")
_WORDS = re.compile(r"[\w.:/@+%-]+(?: [\w.:/@+%-]+)*")
_LISTED = re.compile(r"[\w.:+-]+(?:, [\w.:+-]+)*(?=\)| AND | OR |$)")
_PATTERN = re.compile(r"[\w.:/@+%-]+(?=\)| AND | OR |$)")
_OPERATOR = re.compile(r" (AND|OR|<=>|<=|>=|=|<|>|\+|-|\*|/|%|\|\||&|\||\^|div|pmod) ")
_TYPE = re.compile(r" as [\w<>,:() ]+?\)(?=[ ,)]|$)")
_INTEGER, _DECIMAL = re.compile(r"-?\d+"), re.compile(r"-?\d+(\.\d+)?")
_FLOAT = re.compile(r"-?(\d+\.\d+(E-?\d+)?|Infinity)|NaN")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_EPOCH = date(1970, 1, 1).toordinal()
_COMPARISONS = frozenset({"=", "<=>", "<", "<=", ">", ">="})
_FUNCTIONS = {
    "isnotnull": "IS_NOT_NULL",
    "isnull": "IS_NULL",
    "StartsWith": "STARTS_WITH",
    "EndsWith": "ENDS_WITH",
    "Contains": "CONTAINS",
}
_MAX_LENGTH = 2**16
_MAX_DEPTH = 100
"""Maximum nesting of brackets: the parser is recursive."""


@dataclass(frozen=True)
class Condition:
    expression: Expression
    ids: dict[str, str]
    """Each column's number in the plan."""
    words: bool
    """Whether the text of a string constant is part of it. Such a constant can look like a condition; only the numbers
    reveal it, because they differ in the next plan."""


@dataclass(frozen=True)
class _Raw:
    text: str


_Part: TypeAlias = "Expression | _Raw"


class _Unclear(Exception):
    """The text is ambiguous or meaningless."""


def parse_condition(text: str, schema: pa.Schema) -> Condition | None:
    """The condition over a dataset's columns; None if the text is not fully understood."""
    if len(text) > _MAX_LENGTH:
        return None
    reader = _Reader(text, schema)
    try:
        expression = reader.condition(0)
        if reader.at != len(reader.text):
            raise _Unclear
    except _Unclear:
        return None
    return Condition(expression, reader.ids, reader.words)


@dataclass
class _Reader:
    text: str
    schema: pa.Schema
    ids: dict[str, str] = field(default_factory=dict)
    words: bool = False
    at: int = 0

    def condition(self, depth: int) -> Expression:
        part = self._part(depth)
        if isinstance(part, _Raw):
            raise _Unclear
        return part

    def _part(self, depth: int) -> _Part:
        if depth > _MAX_DEPTH:
            raise _Unclear
        if self._take("NOT "):
            return Call("NOT", (self.condition(depth + 1),))
        if self._take("("):
            return self._binary(depth + 1)
        if self._match(_SUBQUERY):
            return UNKNOWN
        if column := self._match(_COLUMN):
            return self._after_column(self._column(column))
        if self._take("cast("):
            return self._cast(depth + 1)
        if function := self._match(_FUNCTION):
            return self._call(function[1], depth + 1)
        if words := self._match(_WORDS):
            return _Raw(words[0])
        raise _Unclear

    def _binary(self, depth: int) -> Expression:
        left = self._part(depth)
        operator = self._match(_OPERATOR)
        if operator is None:
            raise _Unclear
        name = operator[1]
        right = self._part(depth)
        if not self._take(")"):
            raise _Unclear
        if name in ("AND", "OR"):
            if isinstance(left, _Raw) or isinstance(right, _Raw):
                raise _Unclear
            return Call(name, (left, right))
        left, right = self._typed(left, right), self._typed(right, left)
        known = name in _COMPARISONS and UNKNOWN not in (left, right)
        return Call(name, (left, right)) if known else UNKNOWN

    def _after_column(self, column: Expression) -> Expression:
        if self._take(" IN ("):
            values = self._arguments(0)
        elif self._take(" INSET "):
            listed = self._match(_LISTED)
            if listed is None:
                raise _Unclear
            values = [_Raw(value) for value in listed[0].split(", ")]
        elif self._take(" LIKE "):
            if self._match(_PATTERN) is None:
                raise _Unclear
            self.words = True
            return UNKNOWN
        else:
            return column
        constants = [self._typed(value, column) for value in values]
        # One string that contains a comma prints the same as two strings.
        known = all(isinstance(each, Literal) and each.type != "string" for each in constants)
        return Call("IN", (column, *constants)) if known else UNKNOWN

    def _cast(self, depth: int) -> Expression:
        argument = self._part(depth)
        target = self._match(_TYPE)
        if target is None:
            raise _Unclear
        if isinstance(argument, _Raw):
            self.words = True
        if not isinstance(argument, Column):
            return UNKNOWN
        return Cast(argument, "", target[0][len(" as ") : -1])

    def _call(self, function: str, depth: int) -> Expression:
        arguments = self._arguments(depth)
        first = arguments[0] if arguments else UNKNOWN
        typed = [self._typed(each, first) for each in arguments]
        name = _FUNCTIONS.get(function)
        if name is None or UNKNOWN in typed or len(typed) != (1 if name.startswith("IS_") else 2):
            return UNKNOWN
        return Call(name, tuple(typed))

    def _arguments(self, depth: int) -> list[_Part]:
        arguments: list[_Part] = []
        while not self._take(")"):
            if arguments and not (self._take(", ") or self._take(",")):
                raise _Unclear
            arguments.append(self._part(depth))
        return arguments

    def _column(self, found: re.Match[str]) -> Expression:
        """Spark prints names as the user typed them, in any case."""
        names = [name for name in self.schema.names if name.lower() == found[1].lower()]
        if len(names) != 1 or self.ids.setdefault(names[0], found[2]) != found[2]:
            raise _Unclear
        return Column((names[0], *found[3].split(".")[1:]))

    def _typed(self, part: _Part, other: _Part) -> Expression:
        if not isinstance(part, _Raw):
            return part
        kind = self._kind(other)
        value = None if kind is None else _value(part.text, kind)
        self.words |= value is None or kind == "string"
        return UNKNOWN if value is None or kind is None else Literal(value, kind)

    def _kind(self, part: _Part) -> str | None:
        if isinstance(part, Cast):
            return part.target
        found = filters.field_at(self.schema, part.path) if isinstance(part, Column) else None
        return None if found is None else filters.spark_name(found.type)

    def _take(self, token: str) -> bool:
        found = self.text.startswith(token, self.at)
        self.at += len(token) * found
        return found

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self.text, self.at)
        if found is not None:
            self.at = found.end()
        return found


def _value(text: str, kind: str) -> bool | int | float | str | Decimal | None:
    """The constant; None if it does not have the type, or if the type's text depends on the session."""
    kind = kind.partition("(")[0]
    if kind == "string":
        return None if text == "null" else text
    if kind in ("tinyint", "smallint", "int", "bigint"):
        return int(text) if _INTEGER.fullmatch(text) else None
    if kind in ("float", "double"):
        return float(text) if _FLOAT.fullmatch(text) else None
    if kind == "decimal":
        return Decimal(text) if _DECIMAL.fullmatch(text) else None
    if kind == "boolean":
        return {"true": True, "false": False}.get(text)
    return _days(text) if kind == "date" and _DATE.fullmatch(text) else None


def _days(text: str) -> int | None:
    try:
        return date.fromisoformat(text).toordinal() - _EPOCH
    except ValueError:
        return None


# --- The text of Spark's EXPLAIN, as a tree
# It is text, so a string constant in a query can look like anything, including lines of a plan. So any text that is not
# a consistent tree of known shape is refused as a whole.

_ANALYZED, _OPTIMIZED, _PHYSICAL = "== Analyzed Logical Plan ==", "== Optimized Logical Plan ==", "== Physical Plan =="
_LINE = re.compile(r"((?:   |:  )*)([:+]- )?(\w+)(.*)")
_STEP = 3
"""Characters of indentation per level."""


@dataclass(frozen=True)
class Operator:
    name: str
    """Such as ``Filter``."""
    arguments: str
    """The rest of its line."""
    parent: Operator | None
    """The operator that takes its rows; None for the topmost of the plan, and of a subquery."""

    def ancestors(self) -> Iterator[Operator]:
        """The operators above, the nearest first."""
        above = self.parent
        while above is not None:
            yield above
            above = above.parent


@dataclass(frozen=True)
class ExplainedPlan:
    analyzed: tuple[Operator, ...]
    optimized: tuple[Operator, ...]
    text: str


def read_plan(text: str) -> ExplainedPlan | None:
    """The logical plans in the text; None if they are unclear."""
    if any(text.count(heading) != 1 for heading in (_ANALYZED, _OPTIMIZED, _PHYSICAL)):
        return None
    rest = text[text.index(_ANALYZED) + len(_ANALYZED) : text.index(_PHYSICAL)]
    analyzed, _, optimized = rest.partition(_OPTIMIZED)
    # The schema precedes the analyzed plan, on its own line.
    plans = [_operators(analyzed.strip("\n").partition("\n")[2]), _operators(optimized.strip("\n"))]
    return ExplainedPlan(plans[0], plans[1], optimized) if plans[0] and plans[1] else None


def _operators(text: str) -> tuple[Operator, ...] | None:
    """The operators in the order of their lines; None for lines that are not a tree."""
    operators: list[Operator] = []
    above: list[Operator | None] = []
    """The operator of each level that the next line can belong to; None for a level between one and its subquery."""
    for line in text.split("\n"):
        found = _LINE.fullmatch(line)
        if found is None:
            return None
        indentation, branch, name, arguments = found.groups()
        depth = len(indentation) // _STEP + (branch is not None)
        if (branch is None) != (not operators) or (branch is None and indentation):
            return None
        # A subquery is two levels below its operator, any other child is one.
        if depth > len(above) + 1:
            return None
        parent = above[depth - 1] if 0 < depth <= len(above) else None
        operator = Operator(name, arguments, parent)
        operators.append(operator)
        above[depth:] = [None] * (depth - len(above)) + [operator]
    return tuple(operators)
