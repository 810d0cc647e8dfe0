"""What a repair, or taking it back, did. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from lance_spark.show.card import Card, Grid, Shown
from lance_spark.show.words import counted

DONE, PASSED, NOT_POSSIBLE = "done", "passed over", "not possible"
"""Passed over: it did not look any more as it did when the plan was made."""


@dataclass(frozen=True)
class Outcome:
    """What became of one step."""

    step: str
    state: str
    why: str = ""


@dataclass(frozen=True, repr=False)
class RepairResult(Shown):
    """What a repair did, or what was taken back of it."""

    record: str
    """Its id, to take it back; "" if nothing was done."""
    outcomes: tuple[Outcome, ...]
    undone: bool = False
    """Whether it was taken back."""

    @property
    def complete(self) -> bool:
        """Whether every step was done."""
        return all(outcome.state == DONE for outcome in self.outcomes)

    def to_record(self) -> dict[str, Any]:
        """As JSON has it."""
        return {**asdict(self), "complete": self.complete}

    def summary(self) -> str:
        """One line."""
        done = sum(outcome.state == DONE for outcome in self.outcomes)
        told = f"{done} of {counted(len(self.outcomes), 'step')} {'taken back' if self.undone else 'done'}"
        return f"{told}; take it back: --undo {self.record}" if self.record and not self.undone else told

    def grid(self) -> Grid:
        """The steps."""
        rows = tuple((outcome.state, outcome.step, outcome.why) for outcome in self.outcomes)
        return Grid(("", "step", "why not"), rows, title="Taken back" if self.undone else "Repaired")

    def __str__(self) -> str:
        """A table and a line."""
        return "\n\n".join(part for part in (self.grid().text(), self.summary()) if part)

    def _card(self) -> Card:
        return Card(type(self).__name__, self.record, self.summary(), grids=(self.grid(),))
