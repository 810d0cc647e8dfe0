"""Changes of rows as plain values: what each does to rows by id, and in which order several may have happened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from random import Random
from typing import NamedTuple

from lance_spark.rows.action_rules import DELETE, INSERT, UPDATE
from support.row_changes import Row

Rows = Mapping[int, Row]
"""By their ids."""
KEYS = range(30)
_WRAP = 1009
"""Values stay small, and none of the changes may be swapped with another one unnoticed."""


class Change(NamedTuple):
    """A change of rows that somebody wants. It depends on the rows that it finds."""

    kind: str
    keys: tuple[int, ...] = ()
    number: int = 0

    def matches(self, row: Row) -> bool:
        """Whether it would change this row or, as a merge, take it for one that is there."""
        if self.kind == "delete by value":
            return bool(row["x"] % 7 == self.number % 7)
        if self.kind == "update by value":
            return bool(row["x"] % 3 == self.number % 3)
        return self.kind != "append" and row["id"] in self.keys

    @property
    def inserts_by_key(self) -> bool:
        """Whether it looks for its keys among new rows."""
        return self.kind in ("merge", "insert what is missing")

    def without(self, found: Collection[int]) -> Change:
        """The same, unless it inserts what is missing: then without keys that were there when it looked."""
        left = tuple(key for key in self.keys if key not in found)
        return self._replace(keys=left) if self.kind == "insert what is missing" else self

    def actions(self, rows: Rows) -> list[tuple[int, Row]]:
        """What happens to which row: what an engine is given."""
        found = [row for _, row in sorted(rows.items()) if self.matches(row)]
        if self.kind.startswith("delete"):
            return [(DELETE, row) for row in found]
        told = []
        if self.kind != "insert what is missing":
            told = [(UPDATE, {**row, "x": (row["x"] * 2 + self.number) % _WRAP}) for row in found]
        if self.kind == "append" or self.inserts_by_key:
            new = [key for key in self.keys if key not in rows]
            told += [(INSERT, {"id": key, "x": self.number % _WRAP, "day": self.kind}) for key in new]
        return told

    def applied(self, rows: Rows) -> dict[int, Row]:
        """The rows after it."""
        after = dict(rows)
        for operation, row in self.actions(rows):
            if operation == DELETE:
                del after[row["id"]]
            else:
                after[row["id"]] = row
        return after


KINDS = (
    "delete",
    "delete by value",
    "update",
    "update",
    "update by value",
    "merge",
    "merge",
    "insert what is missing",
    "append",
)


def some_change(chance: Random, fresh: int) -> Change:
    """A change of a few of the same keys that everybody changes; ``fresh`` is an id that nobody else uses."""
    kind = chance.choice(KINDS)
    keys = (fresh,) if kind == "append" else tuple(sorted(chance.sample(KEYS, chance.randint(1, 3))))
    return Change(kind, keys, chance.randrange(1, _WRAP))


def serial_order(before: Rows, done: Sequence[Change], after: Rows) -> tuple[Change, ...] | None:
    """An order of changes that leads from one state to the other; None if there is none.

    The order in which they are given is tried first.
    """
    seen: set[tuple[frozenset[tuple[Change, int]], tuple[tuple[int, tuple[object, ...]], ...]]] = set()

    def search(rows: Rows, left: tuple[Change, ...]) -> tuple[Change, ...] | None:
        state = (frozenset(Counter(left).items()), _frozen(rows))
        if state in seen:
            return None
        seen.add(state)
        if not left:
            return () if rows == after else None
        for at, change in enumerate(left):
            found = search(change.applied(rows), left[:at] + left[at + 1 :])
            if found is not None:
                return (change, *found)
        return None

    return search(before, tuple(done))


def _frozen(rows: Rows) -> tuple[tuple[int, tuple[object, ...]], ...]:
    return tuple((key, tuple(row.values())) for key, row in sorted(rows.items()))
