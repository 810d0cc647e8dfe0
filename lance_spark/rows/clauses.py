"""The clauses of a merge, as values, and which of them make sense together. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from lance_spark.errors import InvalidOption, NotFound
from lance_spark.rows.model import DELETE, INSERT, UPDATE

Case = Literal["matched", "not matched", "not matched by source"]
Join = Literal["inner", "right", "left", "full"]
"""Which rows a merge looks at; the target is on the left."""
TARGET, SOURCE = "target", "source"
"""Names of the two sides in conditions and values."""


@dataclass(frozen=True)
class Clause:
    """``WHEN <case> AND <condition> THEN <action>``."""

    case: Case
    action: int
    """Of lance_spark.rows.model."""
    condition: Any = None
    """SQL, or a Column of Spark's; None where the clause takes every row of its case."""
    values: Mapping[str, Any] | None = field(default=None)
    """SQL or Columns by the target's column; None for all columns of the source."""

    @property
    def words(self) -> str:
        """As SQL says it."""
        return f"when {self.case} then {_ACTIONS[self.action]}"


_ACTIONS = {UPDATE: "update", DELETE: "delete", INSERT: "insert"}


def check_clauses(clauses: Sequence[Clause]) -> None:
    """Raise InvalidOption for a merge without clauses, or with one that no row can reach."""
    if not clauses:
        raise InvalidOption(
            "The merge has no clause, so nothing would change.",
            hint="Add one, e.g. .when_matched_update_all().when_not_matched_insert_all().",
        )
    for position, clause in enumerate(clauses):
        if clause.condition is None and any(later.case == clause.case for later in clauses[position + 1 :]):
            raise InvalidOption(
                f"No row gets past '{clause.words}', which has no condition, to the next clause of its kind.",
                hint="Give it a condition, or put it last.",
            )


def join_of(clauses: Sequence[Clause]) -> Join:
    """Which rows the clauses need."""
    cases = {clause.case for clause in clauses}
    if "not matched by source" in cases:
        return "full" if "not matched" in cases else "left"
    return "right" if "not matched" in cases else "inner"


def inserts(clauses: Sequence[Clause]) -> bool:
    """Whether rows may be inserted."""
    return any(clause.action == INSERT for clause in clauses)


def check_columns(names: Sequence[str], known: Sequence[str]) -> None:
    """Raise NotFound, with the nearest names, for a column that the table does not have, and for fields of structs."""
    for name in names:
        if name in known:
            continue
        head = name.partition(".")[0].strip("`")
        folded = [other for other in known if other.lower() == name.lower()]
        near = folded or difflib.get_close_matches(name, known, n=3, cutoff=0.5)
        hint = "Did you mean " + " or ".join(f"'{other}'" for other in near) + "?" if near else _listed(known)
        if head != name and head in known:
            hint = f"Fields of a struct cannot be set one by one: set '{head}' as a whole, e.g. with named_struct(...)."
        raise NotFound(f"There is no column '{name}'.", hint=hint)


def _listed(known: Sequence[str]) -> str:
    return "The table has " + ", ".join(known[:10]) + (" and more." if len(known) > 10 else ".")
