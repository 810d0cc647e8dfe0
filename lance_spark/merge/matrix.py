"""The conflict matrix, as data: what becomes of a change of theirs where ours changed the same thing. Pure.

A side may have changed one fragment, or one column, in several ways at once. Then every pair of ways counts, and one
pair that is a conflict makes the whole a conflict. A change that both sides made counts for neither.
docs/branches-and-merges.md shows both tables to users.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum
from typing import NamedTuple, TypeVar


class Decision(NamedTuple):
    """One cell of a matrix."""

    outcome: str
    """What the result has: the change of ours, of theirs, both, or none because it is a conflict."""
    reason: str = ""
    """Why it is a conflict. For "both, if ...": why it is one otherwise."""

    @property
    def is_conflict(self) -> bool:
        """Whether the two never combine."""
        return self.outcome == "conflict"


def _conflict(reason: str) -> Decision:
    return Decision("conflict", reason)


class FragmentChange(Enum):
    """What a side did to a fragment of the base. The values are the headings in the documentation."""

    UNCHANGED = "unchanged"
    ROWS_DELETED = "rows deleted"
    ROWS_UPDATED = "rows updated"
    """Or may have been updated: a version in between is gone."""
    COLUMNS_WRITTEN = "columns written"
    COMPACTED = "compacted"
    """Its rows are in another fragment, and it is known where."""
    GONE = "gone"
    """All its rows were deleted or updated, or nobody knows where they are."""


class ColumnEdit(Enum):
    """What a side did to a column of the base. The values are the headings in the documentation."""

    UNCHANGED = "unchanged"
    COMMENTED = "comment changed"
    """Any metadata of the column was changed."""
    ALTERED = "altered"
    DROPPED = "dropped or cast"


_OURS, _THEIRS, _BOTH = Decision("ours"), Decision("theirs"), Decision("both")
OTHER_ROWS = Decision("both, if other rows", "both sides deleted or updated the same rows")
OTHER_COLUMNS = Decision("both, if other columns", "both sides wrote the same column of the same rows")
# An updated row is a deleted one and a new one: the new copy would lack the values that the other side wrote.
_OURS_UPDATED = _conflict("ours updated rows of which theirs wrote a column")
_THEIRS_UPDATED = _conflict("theirs updated rows of which ours wrote a column")
COMPACTED_OURS = _conflict("theirs wrote a column of rows that ours compacted")
GONE_OURS = _conflict("rows that ours rewrote or removed were changed")
GONE_THEIRS = _conflict("both sides changed rows that theirs rewrote or removed")
_COMMENTED = _conflict("the comment of column '{}' was changed on both sides")
_ALTERED = _conflict("column '{}' was altered on one side and altered or dropped on the other")

Kind = TypeVar("Kind", FragmentChange, ColumnEdit)
Matrix = Mapping[tuple[Kind, Kind], Decision]
"""Decisions by (change of theirs, change of ours)."""


def _matrix(rows: Mapping[Kind, tuple[Decision, ...]]) -> Matrix[Kind]:
    """A row for each change of theirs; its cells are by the change of ours, in the same order."""
    return {(theirs, ours): cell for theirs, row in rows.items() for ours, cell in zip(rows, row, strict=True)}


_MOVED, _LOST, _GONE = COMPACTED_OURS, GONE_OURS, GONE_THEIRS  # short, so that the table fits
# fmt: off
FRAGMENTS: Matrix[FragmentChange] = _matrix({
    # of ours:                       UNCHANGED  ROWS_DELETED  ROWS_UPDATED   COLUMNS_WRITTEN   COMPACTED  GONE
    FragmentChange.UNCHANGED:       (_OURS,     _OURS,        _OURS,         _OURS,            _OURS,     _OURS),
    FragmentChange.ROWS_DELETED:    (_THEIRS,   OTHER_ROWS,   OTHER_ROWS,    _BOTH,            _BOTH,     _LOST),
    FragmentChange.ROWS_UPDATED:    (_THEIRS,   OTHER_ROWS,   OTHER_ROWS,    _THEIRS_UPDATED,  _BOTH,     _LOST),
    FragmentChange.COLUMNS_WRITTEN: (_THEIRS,   _BOTH,        _OURS_UPDATED, OTHER_COLUMNS,    _MOVED,    _LOST),
    FragmentChange.COMPACTED:       (_THEIRS,   _BOTH,        _BOTH,         _BOTH,            _BOTH,     _OURS),
    FragmentChange.GONE:            (_THEIRS,   _GONE,        _GONE,         _GONE,            _BOTH,     _GONE),
})
COLUMNS: Matrix[ColumnEdit] = _matrix({
    # of ours:                       UNCHANGED  COMMENTED      ALTERED         DROPPED
    ColumnEdit.UNCHANGED:           (_OURS,     _OURS,         _OURS,          _OURS),
    ColumnEdit.COMMENTED:           (_THEIRS,   _COMMENTED,    _BOTH,          _ALTERED),
    ColumnEdit.ALTERED:             (_THEIRS,   _BOTH,         _ALTERED,       _ALTERED),
    ColumnEdit.DROPPED:             (_THEIRS,   _ALTERED,      _ALTERED,       _ALTERED),
})
# fmt: on


def decide(matrix: Matrix[Kind], theirs: Collection[Kind], ours: Collection[Kind]) -> list[Decision]:
    """The decisions for everything that the two sides did to one fragment or column, in the order of the matrix."""
    return [decision for (their, our), decision in matrix.items() if their in theirs and our in ours]
