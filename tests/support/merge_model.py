"""The truth about merges: the rows of every version in plain Python, their ancestors, and a merge by row."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

Cell = int | None


class Column(NamedTuple):
    """A column is the same under another name, and another column after it was dropped and added again."""

    token: int
    name: str


class Commit(NamedTuple):
    """One version of one chain. A branch that is made again under its old name is another chain."""

    chain: int
    version: int


@dataclass(frozen=True)
class State:
    """What a version holds: its columns, and by key the value of a row in each column."""

    columns: tuple[Column, ...]
    rows: dict[int, dict[int, Cell]]
    """By key, then by the column's token."""

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    def token(self, name: str) -> int:
        return next(column.token for column in self.columns if column.name == name)

    def plain(self) -> dict[int, dict[str, Cell]]:
        """The rows as a reader sees them."""
        return {key: {column.name: row[column.token] for column in self.columns} for key, row in self.rows.items()}


class Clash(Exception):
    """Both sides changed one thing in different ways: an engine must not have an answer."""


@dataclass
class Model:
    """Every version there ever was, those of deleted branches among them."""

    states: dict[Commit, State] = field(default_factory=dict)
    parents: dict[Commit, tuple[Commit, ...]] = field(default_factory=dict)
    quiet: set[Commit] = field(default_factory=set)
    """Versions that touched neither rows nor columns nor fragments."""
    heads: dict[str, Commit] = field(default_factory=dict)
    """By branch; "" for main."""
    forks: dict[str, str] = field(default_factory=dict)
    """What each branch was made from."""

    def state(self, branch: str) -> State:
        return self.states[self.heads[branch]]

    def commit(self, branch: str, versions: int, state: State, quiet: bool = False) -> None:
        """The branch went on by some versions, all of which hold the same."""
        for _ in range(versions):
            before = self.heads[branch]
            now = Commit(before.chain, before.version + 1)
            self.states[now], self.parents[now] = state, (before,)
            self.heads[branch] = now
            if quiet:
                self.quiet.add(now)

    def take_in(self, branch: str, source: Commit) -> None:
        """The newest version of a branch is a merge."""
        self.parents[self.heads[branch]] += (source,)

    def fork(self, name: str, source: str, chain: int) -> None:
        """A branch begins with a copy of a version, under that version's number."""
        made = Commit(chain, self.heads[source].version)
        self.states[made], self.parents[made] = self.state(source), (self.heads[source],)
        self.quiet.add(made)
        self.heads[name], self.forks[name] = made, source

    def drop(self, name: str) -> None:
        del self.heads[name], self.forks[name]

    def ancestors(self, commit: Commit) -> set[Commit]:
        """A version and everything it descends from, one parent after the other."""
        reached: set[Commit] = set()
        pending = [commit]
        while pending:
            at = pending.pop()
            if at not in reached:
                reached.add(at)
                pending += self.parents.get(at, ())
        return reached

    def bases(self, one: Commit, other: Commit) -> set[Commit]:
        """Common ancestors that are no ancestor of another one."""
        common = self.ancestors(one) & self.ancestors(other)
        return {at for at in common if not any(at in self.ancestors(later) - {later} for later in common)}

    def since(self, base: Commit, commit: Commit) -> list[State]:
        """What a version was since a base."""
        return [self.states[at] for at in self.ancestors(commit) - self.ancestors(base)]

    def is_alive(self, commit: Commit) -> bool:
        return commit.chain in {head.chain for head in self.heads.values()}

    def has_moved(self, commit: Commit, base: Commit) -> bool:
        """Whether a version differs from a base in its rows, columns or fragments."""
        return bool(self.ancestors(commit) - self.ancestors(base) - self.quiet)


class Earlier(NamedTuple):
    """What each side was since the base, up to what it is now.

    A side that had the value of the other side, and changed it afterwards, has the newer value. That is so where a
    version is picked into its own branch, or was picked before it is merged: of one write, there is nothing to choose.
    """

    ours: Collection[State] = ()
    theirs: Collection[State] = ()

    def of(self, key: int, token: int) -> tuple[set[Cell], set[Cell]]:
        """The values of a cell on each side."""
        ours, theirs = ([state.rows[key] for state in side if key in state.rows] for side in self)
        return {row[token] for row in ours if token in row}, {row[token] for row in theirs if token in row}


NOTHING_EARLIER = Earlier()


def merged(base: State, ours: State, theirs: State, earlier: Earlier = NOTHING_EARLIER) -> State:
    """Ours with what theirs changed, cell by cell. Raises Clash where both changed one cell, or one row is gone."""
    columns = merged_columns(base, ours, theirs)
    rows = {}
    for key in base.rows.keys() | ours.rows.keys() | theirs.rows.keys():
        sides = tuple(side.rows.get(key) for side in (base, ours, theirs))
        row = _merged_row(columns, sides, partial(earlier.of, key))
        if row is not None:
            rows[key] = row
    return State(columns, rows)


def merged_columns(base: State, ours: State, theirs: State) -> tuple[Column, ...]:
    """Columns by their tokens."""
    before, mine, other = ({column.token: column.name for column in side.columns} for side in (base, ours, theirs))
    names: dict[int, str] = {}
    for token in [*mine, *(token for token in other if token not in mine)]:
        name = _either(before.get(token), mine.get(token), other.get(token), token)
        if name is not None:
            names[token] = name
    if len(set(names.values())) < len(names):
        raise Clash("two columns of one name")
    return tuple(Column(token, name) for token, name in names.items())


Row = dict[int, Cell] | None


def _merged_row(
    columns: Iterable[Column], sides: tuple[Row, ...], earlier: Callable[[int], tuple[set[Cell], set[Cell]]]
) -> Row:
    base, ours, theirs = sides
    if ours is None or theirs is None:
        there = theirs if ours is None else ours
        if base is None:
            return None if there is None else {column.token: there.get(column.token) for column in columns}
        if there is not None and any(there.get(token, value) != value for token, value in base.items()):
            raise Clash("a row was deleted and changed")
        return None
    merged = {}
    for token, _ in columns:
        before, mine, other = None if base is None else base.get(token), ours.get(token), theirs.get(token)
        ours_had, theirs_had = earlier(token)
        if mine != before and other != before and (other in ours_had) != (mine in theirs_had):
            merged[token] = mine if other in ours_had else other
        else:
            merged[token] = _either(before, mine, other, token)
    return merged


def _either(base: Any, ours: Any, theirs: Any, what: object) -> Any:
    """What a three-way merge makes of one thing."""
    if ours == theirs or theirs == base:
        return ours
    if ours == base:
        return theirs
    raise Clash(f"both sides changed {what}")
