"""What the versions between a base and a side did, as far as their transactions say so. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from lance_spark.merge.rewrites import Rewrite
from lance_spark.refs.names import MAIN

_QUIET = frozenset({"Append", "Clone", "CreateIndex", "ReserveFragments", "UpdateBases", "UpdateConfig"})
"""Operations that leave every older fragment as it was."""
_SAME_ROWS = frozenset({"CreateIndex", "ReserveFragments", "Rewrite", "UpdateBases"})
"""Operations after which a table has the same rows, columns and values."""
_MOVES_NO_ROWS = _QUIET | {"Delete", "Merge", "Project", "Rewrite"}
"""Operations after which a row that left a fragment which is still there was deleted, and not written anew."""
_ADDS_NO_COLUMNS = (_QUIET - {"Clone"}) | {"Delete", "Project", "Rewrite", "Update"}
_REPLACES_ALL = frozenset({"Overwrite"})
_IN_NO_CONFLICT = _QUIET - {"UpdateConfig"}
"""Operations that conflict only with a replaced table. ``UpdateConfig`` may change comments of columns."""
_SHOWN = 4


class VersionSpan(NamedTuple):
    """Versions of one branch."""

    branch: str | None
    after: int
    """The version before the first one."""
    until: int


class Step(NamedTuple):
    """One version and what made it."""

    version: int
    operation: str
    """pylance's name of the operation."""
    moved: bool | None = None
    """Whether it rewrote older rows; None if the operation says it."""
    brings: bool = False
    """Whether rows came with it by a pick, a revert or a restore."""
    adds_only: bool = False
    """Whether it is known to have only added rows, which were never in other files before."""
    replaced: bool | None = None
    """Whether it replaced the whole table; None if the operation says it."""
    rewrites: tuple[Rewrite, ...] = ()
    """What it compacted, or took over as compacted."""

    reordered: bool = False
    """Whether it is known to have only moved rows to other files, in another order."""

    @property
    def replaces_all(self) -> bool:
        """Whether nothing of the table before is left in it."""
        return self.operation in _REPLACES_ALL if self.replaced is None else self.replaced

    @property
    def moves_rows(self) -> bool:
        """Whether rows may have left a fragment without being deleted."""
        return self.operation not in _MOVES_NO_ROWS if self.moved is None else self.moved

    @property
    def renames_rows(self) -> bool:
        """Whether older rows may lie in other files since then."""
        return self.moves_rows or self.brings or self.reordered or bool(self.rewrites) or self.operation == "Rewrite"

    @property
    def changes_rows(self) -> bool:
        """Whether older rows may have been rewritten or deleted."""
        return self.operation not in _QUIET and not self.adds_only


@dataclass(frozen=True)
class Steps:
    """The versions after a base, ascending: of one chain and, before them, of those it was forked from."""

    branch: str | None
    all: tuple[Step, ...] = ()
    complete: bool = True
    """False if versions in between are gone, so that what they did is unknown."""

    @cached_property
    def moves_no_rows(self) -> bool:
        """Whether rows that left a fragment are certain to have been deleted rather than updated."""
        return self.complete and not any(step.moves_rows for step in self.all)

    @cached_property
    def rewrites(self) -> tuple[Rewrite, ...]:
        """What was compacted."""
        return tuple(rewrite for step in self.all for rewrite in step.rewrites)

    @property
    def keep_all_rows(self) -> bool:
        """Whether all that they did is certain to have left the same rows and values in the table."""
        same = (step.reordered or step.operation in _SAME_ROWS for step in self.all)
        return self.complete and bool(self.all) and all(same)

    @property
    def brings(self) -> bool:
        """Whether one of them brought rows that another chain may have, too."""
        return any(step.brings for step in self.all)

    def may_hide(self, other: Steps) -> bool:
        """Whether the names of files no longer show which rows of this side were picked, reverted or restored.

        That is so if this side rewrote or deleted rows since then, or the other side did so at any time.
        """
        first = next((position for position, step in enumerate(self.all) if step.brings), None)
        if first is None:
            return False
        later = self.all[first + 1 :]
        return any(step.changes_rows for step in (*later, *other.all)) or not (self.complete and other.complete)

    @property
    def changes_rows(self) -> bool:
        """Whether one of them may have rewritten or deleted older rows."""
        return not self.complete or any(step.changes_rows for step in self.all)

    @property
    def renames_rows(self) -> bool:
        """Whether older rows may lie in other files after them."""
        return not self.complete or any(step.renames_rows for step in self.all)

    def changed_after(self, version: int) -> bool:
        """Whether rows of a version of this branch, or rows of a later version, may have changed since."""
        return not self.complete or any(step.changes_rows for step in self.all if step.version > version)

    @property
    def replaces_all(self) -> bool:
        """Whether one of them replaced the whole table."""
        return any(step.replaces_all for step in self.all)

    @property
    def may_add_columns(self) -> bool:
        """Whether one of them may have given the table a new column."""
        return not self.complete or any(step.operation not in _ADDS_NO_COLUMNS for step in self.all)

    def described(self) -> str:
        """The versions that changed anything, as a user reads them: ``main@7 (Update), main@8 (Delete)``."""
        return _listed(self.branch, [step for step in self.all if step.operation not in _IN_NO_CONFLICT] or self.all)


def _listed(branch: str | None, steps: Iterable[Step]) -> str:
    named = [f"{branch or MAIN}@{step.version} ({step.operation})" for step in steps]
    return ", ".join(named if len(named) <= _SHOWN else [*named[:_SHOWN], f"{len(named) - _SHOWN} more"])
