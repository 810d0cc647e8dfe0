"""What ``branch`` and ``tag`` list. Light: a command that only lists does not load logs and differences."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import TypeVar

from lance_spark.core import refs as core_refs
from lance_spark.core import show
from lance_spark.core.lifetimes import Lifetime
from lance_spark.core.ref_names import is_service_branch, is_service_tag
from lance_spark.core.texts import counted

SHOWN = 20
"""How many of a dataset's branches or tags are shown."""


def branch_grid(branches: Iterable[core_refs.Branch]) -> show.Grid:
    return _grid(("branch", "made from", "made"), [(branch.row, branch.lifetime) for branch in branches])


def tag_grid(tags: Iterable[core_refs.Tag]) -> show.Grid:
    return _grid(("tag", "version", "made"), [(tag.row, tag.lifetime) for tag in tags])


def _grid(header: tuple[str, ...], rows: list[tuple[tuple[str, ...], Lifetime]]) -> show.Grid:
    """Adds a column for lifetimes if any row has one."""
    told = [str(lifetime) for _, lifetime in rows]
    if not any(told):
        return show.Grid(header, tuple(row for row, _ in rows))
    return show.Grid((*header, "lifetime"), tuple((*row, said) for (row, _), said in zip(rows, told, strict=True)))


def more(count: int, shown: int) -> tuple[str, ...]:
    return (f"{count - shown:,} more: list() has all",) if count > shown else ()


BRANCH_ENDS = "a branch expires that long after its newest version was committed"
TAG_ENDS = "a tag expires that long after it was created or moved"


def ends(listed: Iterable[core_refs.Branch | core_refs.Tag], told: str) -> tuple[str, ...]:
    """A note on where the time of an expiry begins, if any of the refs expires."""
    return (told,) if any(ref.lifetime.expire_after is not None for ref in listed) else ()


_Ref = TypeVar("_Ref", core_refs.Branch, core_refs.Tag)


class _RefList(show.Shown, list[_Ref]):
    """A list of refs that prints as a table."""

    hidden = 0
    """How many are left out because ``_owners`` need them."""
    _owners = ""
    _noun, _nouns = "", ""
    _ends = ""

    def _grid(self) -> show.Grid:
        raise NotImplementedError

    def __repr__(self) -> str:
        return "[" + ",\n ".join(map(repr, self)) + "]"

    def __str__(self) -> str:
        return "\n\n".join([self._grid().text() or f"no {self._nouns}", *(f"note: {note}" for note in self._notes())])

    def _card(self) -> show.Card:
        return show.Card(counted(len(self), self._noun, self._nouns), grids=(self._grid(),), notes=self._notes())

    def _notes(self) -> tuple[str, ...]:
        more_of: tuple[str, ...] = (
            (f"{self.hidden:,} more of {self._owners}: list(all=True) has them",) if self.hidden else ()
        )
        return (*ends(self, self._ends), *more_of)


class BranchList(_RefList[core_refs.Branch]):
    """A list of branches that prints as a table."""

    _owners, _noun, _nouns, _ends = "frozen sets and the lake", "branch", "branches", BRANCH_ENDS

    def _grid(self) -> show.Grid:
        return branch_grid(self)


class TagList(_RefList[core_refs.Tag]):
    """A list of tags that prints as a table."""

    _owners, _noun, _nouns, _ends = "clones, merges, streams, frozen sets and the lake", "tag", "tags", TAG_ENDS

    def _grid(self) -> show.Grid:
        return tag_grid(self)


def listed_branches(branches: Mapping[str, core_refs.Branch], tags: Container[str], everything: bool) -> BranchList:
    """The branches of a dataset, by name; those that this package created for itself only with ``everything``."""
    found = [branch for _, branch in sorted(branches.items())]
    made = BranchList(branch for branch in found if everything or not is_service_branch(branch.name, tags))
    made.hidden = len(found) - len(made)
    return made


def listed_tags(tags: Mapping[str, core_refs.Tag], everything: bool) -> TagList:
    """The tags of a dataset, by name; those that this package created for itself only with ``everything``."""
    found = [tag for _, tag in sorted(tags.items())]
    made = TagList(tag for tag in found if everything or not is_service_tag(tag.name, tags))
    made.hidden = len(found) - len(made)
    return made
