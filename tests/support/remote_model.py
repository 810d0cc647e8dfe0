"""The truth about remotes: commits as git has them, which all places know, and branches that point at them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

from support.merge_model import Clash, State, merged


class Place(NamedTuple):
    """A branch of a dataset; "" for main, "origin/" and a name for one that follows the remote's."""

    dataset: str
    branch: str


@dataclass
class Git:
    """Every commit there ever was, and where branches are."""

    states: dict[int, State] = field(default_factory=dict)
    parents: dict[int, tuple[int, ...]] = field(default_factory=dict)
    heads: dict[Place, int] = field(default_factory=dict)
    agreed: set[tuple[int, int]] = field(default_factory=set)
    """A commit, and another one that a merge found nothing new in: both sides had changed the same."""
    _numbers: count[int] = field(default_factory=count)

    def state(self, place: Place) -> State:
        return self.states[self.heads[place]]

    def commit(self, place: Place, state: State, *more: int) -> None:
        """The branch went on; ``more`` are commits that it took in."""
        number = next(self._numbers)
        before = (self.heads[place],) if place in self.heads else ()
        self.states[number], self.parents[number] = state, (*before, *more)
        self.heads[place] = number

    def merge(self, into: Place, source: Place, state: State) -> None:
        """The branch took another one in: a fast-forward where it had nothing of its own."""
        if self.holds(source, into):
            assert state == self.state(source)
            self.heads[into] = self.heads[source]
        else:
            self.commit(into, state, self.heads[source])

    def branches(self, dataset: str, following: bool = False) -> list[str]:
        """The branches of one's own, or those that follow a remote's."""
        names = (place.branch for place in self.heads if place.dataset == dataset)
        return sorted(branch for branch in names if branch.startswith("origin/") == following)

    def ancestors(self, number: int) -> set[int]:
        """A commit and everything it descends from."""
        reached: set[int] = set()
        pending = [number]
        while pending:
            at = pending.pop()
            if at not in reached:
                reached.add(at)
                pending += self.parents[at]
        return reached

    def holds(self, place: Place, other: Place) -> bool:
        """Whether a branch has everything of another one."""
        return self.heads[other] in self.ancestors(self.heads[place])

    def agree(self, into: Place, source: Place) -> None:
        """A merge found nothing new: no version records it."""
        self.agreed.add((self.heads[into], self.heads[source]))

    def agrees(self, place: Place, other: Place) -> bool:
        """Whether a branch has all changes of another one, some of them by changes of its own."""
        mine = self.ancestors(self.heads[place])
        return any(one in mine and self.heads[other] in self.ancestors(same) for one, same in self.agreed)

    def bases(self, one: Place, other: Place) -> set[int]:
        """Common ancestors that are no ancestor of another one."""
        common = self.ancestors(self.heads[one]) & self.ancestors(self.heads[other])
        return {at for at in common if not any(at in self.ancestors(later) - {later} for later in common)}

    def outcomes(self, into: Place, source: Place) -> list[State]:
        """What a merge may make of two branches: one state, or none where both changed one thing.

        Another one after it lacks the values that one side computed for rows whose other values the other side changed.
        """
        results = []
        for base in self.bases(into, source):
            sides = (self.states[base], self.state(into), self.state(source))
            with suppress(Clash):
                results += [whole := merged(*sides), _emptied(whole, *sides)]
        return results


def _emptied(whole: State, base: State, ours: State, theirs: State) -> State:
    """Without what was computed from other values. No version records from which: from any that there were."""
    rows = {key: dict(row) for key, row in whole.rows.items()}
    before = {column.token for column in base.columns}
    for one, other in ((ours, theirs), (theirs, ours)):
        added = {column.token for column in one.columns} - before
        for key in rows.keys() & base.rows.keys() & other.rows.keys():
            changed = any(other.rows[key].get(token, value) != value for token, value in base.rows[key].items())
            rows[key].update(dict.fromkeys(added, None) if changed else {})
    return State(whole.columns, rows)
