"""Lists of branches and tags, as people see them. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from lance_spark.refs.lifetime import Lifetime
from lance_spark.refs.model import Branch, Tag
from lance_spark.show.card import Card, Grid, Shown
from lance_spark.show.words import counted

SHOWN = 20
"""How many of a dataset's branches or tags are shown."""


def branch_grid(branches: Iterable[Branch]) -> Grid:
    """Branches as a table."""
    return _grid(("branch", "made from", "made"), [(branch.row, branch.lifetime) for branch in branches])


def tag_grid(tags: Iterable[Tag]) -> Grid:
    """Tags as a table."""
    return _grid(("tag", "version", "made"), [(tag.row, tag.lifetime) for tag in tags])


def _grid(header: tuple[str, ...], rows: list[tuple[tuple[str, ...], Lifetime]]) -> Grid:
    """With a column for lifetimes if there is one."""
    told = [str(lifetime) for _, lifetime in rows]
    if not any(told):
        return Grid(header, tuple(row for row, _ in rows))
    return Grid((*header, "lifetime"), tuple((*row, said) for (row, _), said in zip(rows, told, strict=True)))


def more(count: int, shown: int) -> tuple[str, ...]:
    """A note on how many are not shown."""
    return (f"{count - shown:,} more: list() has all",) if count > shown else ()


class BranchList(Shown, list[Branch]):
    """A list of branches that prints as a table."""

    def __repr__(self) -> str:
        return _listed(self)

    def __str__(self) -> str:
        return branch_grid(self).text() or "no branches"

    def _card(self) -> Card:
        return Card(counted(len(self), "branch", "branches"), grids=(branch_grid(self),))


class TagList(Shown, list[Tag]):
    """A list of tags that prints as a table."""

    def __repr__(self) -> str:
        return _listed(self)

    def __str__(self) -> str:
        return tag_grid(self).text() or "no tags"

    def _card(self) -> Card:
        return Card(counted(len(self), "tag"), grids=(tag_grid(self),))


def _listed(values: Iterable[object]) -> str:
    inside = ",\n ".join(map(repr, values))
    return f"[{inside}]"
