"""``t.constraints``: conditions that every row of a table satisfies."""

from __future__ import annotations

from dataclasses import dataclass

from lance_spark.core.show import Card, Shown
from lance_spark.spark import at_server_rules
from lance_spark.spark.refs import Handle, tells
from lance_spark.write.constraints import add_constraint, constraints_of, drop_constraint


@tells(at_server_rules.CONSTRAINTS)
@dataclass(frozen=True, repr=False)
class Constraints(Handle, Shown):
    """The CHECK constraints of a handle's branch; each change is a version.

    A branch begins with the constraints of what it was created from.
    """

    _typed = "t.constraints"

    def _card(self) -> Card:
        found = tuple(self.list().items())
        return Card("Constraints", facts=found or (("none", "t.constraints.add('positive', 'price > 0')"),))

    def add(self, name: str, condition: str) -> dict[str, str]:
        """Declare that a condition holds for every row, such as ``"price > 0"``; returns all constraints.

        Whoever writes rows with this package then checks them; a row for which the condition is false is refused, one
        for which it is null is not. Present rows are checked first. Raises InvalidOption for a condition that is not
        understood, SchemaMismatch for rows that break it, AlreadyExists, Refused, Conflict.
        """
        branch = self._moving_branch("add a constraint to")
        add_constraint(self.location, branch, name, condition)
        return self.list()

    def drop(self, name: str) -> dict[str, str]:
        """Declare a constraint no more; returns those that are left. Raises NotFound, Refused, Conflict."""
        branch = self._moving_branch("drop a constraint of")
        drop_constraint(self.location, branch, name)
        return self.list()

    def list(self) -> dict[str, str]:
        """The constraints at this handle's ref, by name. Raises NotFound."""
        return {each.name: each.condition for each in constraints_of(self.location, self._pin())}
