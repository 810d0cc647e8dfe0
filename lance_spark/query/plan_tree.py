"""The text that Spark explains a plan with, as a tree.

It is text, so a string constant in a query may look like anything, also like lines of a plan. What does not hold
together as a tree of known shape is therefore refused as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_ANALYZED, _OPTIMIZED, _PHYSICAL = "== Analyzed Logical Plan ==", "== Optimized Logical Plan ==", "== Physical Plan =="
_LINE = re.compile(r"((?:   |:  )*)([:+]- )?(\w+)(.*)")
_STEP = 3
"""Characters of indentation that a level takes."""


@dataclass(frozen=True)
class Operator:
    """One operator of a plan."""

    name: str
    """Such as ``Filter``."""
    arguments: str
    """The rest of its line."""
    parent: Operator | None
    """The operator that takes its rows; None for the topmost of the plan, and of a subquery."""

    def ancestors(self) -> Iterator[Operator]:
        """The operators above, from the nearest on."""
        above = self.parent
        while above is not None:
            yield above
            above = above.parent


@dataclass(frozen=True)
class ExplainedPlan:
    """What ``EXPLAIN EXTENDED`` says, in part."""

    analyzed: tuple[Operator, ...]
    optimized: tuple[Operator, ...]
    text: str
    """That of the optimized plan."""


def read_plan(text: str) -> ExplainedPlan | None:
    """The logical plans in the text; None where they cannot be told."""
    if any(text.count(heading) != 1 for heading in (_ANALYZED, _OPTIMIZED, _PHYSICAL)):
        return None
    rest = text[text.index(_ANALYZED) + len(_ANALYZED) : text.index(_PHYSICAL)]
    analyzed, _, optimized = rest.partition(_OPTIMIZED)
    # Above the analyzed plan stands the schema, on a line of its own.
    plans = [_operators(analyzed.strip("\n").partition("\n")[2]), _operators(optimized.strip("\n"))]
    return ExplainedPlan(plans[0], plans[1], optimized) if plans[0] and plans[1] else None


def _operators(text: str) -> tuple[Operator, ...] | None:
    """The operators in the order of their lines; None for lines that are no tree."""
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
        # A subquery is two levels below the operator that asks it, any other child is one.
        if depth > len(above) + 1:
            return None
        parent = above[depth - 1] if 0 < depth <= len(above) else None
        operator = Operator(name, arguments, parent)
        operators.append(operator)
        above[depth:] = [None] * (depth - len(above)) + [operator]
    return tuple(operators)
