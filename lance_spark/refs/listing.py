"""Branches and tags as people see them: one by one, as lists, and as all that a dataset has. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from lance_spark.refs.names import MAIN
from lance_spark.show.card import Card, Grid, Shown
from lance_spark.show.words import counted, moment

if TYPE_CHECKING:
    from lance_spark.refs.model import Branch, Tag

SHOWN = 20
"""How many of a dataset's branches or tags are shown."""


def branch_card(branch: Branch) -> Card:
    """One branch."""
    name, origin, created = branch_row(branch)
    facts = (("made from", origin), ("made", created))
    return Card(type(branch).__name__, name, f"from {origin}, made {created}", facts)


def tag_card(tag: Tag) -> Card:
    """One tag."""
    name, version, created = tag_row(tag)
    facts = (("version", version), ("made", created))
    made = f", made {created}" if created else ""
    return Card(type(tag).__name__, name, f"at {version}{made}", facts)


def branch_row(branch: Branch) -> tuple[str, str, str]:
    """Name, version it was made from, when."""
    return branch.name, f"{branch.parent_branch or MAIN}@{branch.parent_version}", moment(branch.created_at)


def tag_row(tag: Tag) -> tuple[str, str, str]:
    """Name, version, when it was made."""
    return tag.name, f"{tag.branch or MAIN}@{tag.version}", "" if tag.created_at is None else moment(tag.created_at)


def branch_grid(branches: Iterable[Branch]) -> Grid:
    """Branches as a table."""
    return Grid(("branch", "made from", "made"), tuple(map(branch_row, branches)))


def tag_grid(tags: Iterable[Tag]) -> Grid:
    """Tags as a table."""
    return Grid(("tag", "version", "made"), tuple(map(tag_row, tags)))


def more(count: int, shown: int) -> tuple[str, ...]:
    """A note that tells of those that are not shown."""
    return (f"{count - shown:,} more: list() has all",) if count > shown else ()


class BranchList(Shown, list["Branch"]):
    """A list of branches that prints as a table."""

    def __repr__(self) -> str:
        return _listed(self)

    def __str__(self) -> str:
        return branch_grid(self).text() or "no branches"

    def _card(self) -> Card:
        return Card(counted(len(self), "branch", "branches"), grids=(branch_grid(self),))


class TagList(Shown, list["Tag"]):
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
