"""What is to be done to a table, and what became of it: one record a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lance_spark.refs.names import MAIN
from lance_spark.show.words import counted, few, readable
from lance_spark.upkeep.policy import CLEANUP, COMPACTION, EXPIRY, FSCK, INDEXES

WOULD, DONE, NOTHING, LEFT, STOPPED, FAILED = "would", "done", "nothing", "left", "stopped", "failed"
STATES = (DONE, WOULD, NOTHING, LEFT, STOPPED, FAILED)
"""Done; to be done; nothing to do; left for the next time; kept from being done by a finding; it went wrong."""
LOOK = "look"
"""In the place of a step: there was no time to look at the table."""
_FEW = 5
"""Refs that are named."""
_STATES: Mapping[str, str] = {
    WOULD: "would",
    DONE: "",
    NOTHING: "",
    LEFT: "left for next time",
    STOPPED: "stopped",
    FAILED: "failed",
}


@dataclass(frozen=True)
class StepRecord:
    """One step of one table, as it is planned or as it ended."""

    step: str
    branch: str | None = None
    """Name of the branch; None for a step of the whole table."""
    state: str = WOULD
    why: str = ""
    """What is or was to be done; or why not."""
    fragments: int = 0
    """Fragments that are or were rewritten."""
    rows: int = 0
    """Rows that are or were indexed."""
    refs: int = 0
    """Refs that expire or did."""
    files: int = 0
    """Files that go or went."""
    freed: int = 0
    """Bytes that go or went."""
    written: int = 0
    """Bytes that are about to be written, or were."""
    error: str = ""
    exit_code: int = 0
    seconds: float = 0.0

    @property
    def name(self) -> str:
        """``compaction of exp/a``."""
        return self.step if self.branch is None else f"{self.step} of {self.branch}"

    def undone(self, state: str, why: str = "", error: str = "", exit_code: int = 0) -> StepRecord:
        """The record of a step that was planned and not done."""
        return StepRecord(self.step, self.branch, state, why or self.why, error=error, exit_code=exit_code)

    @property
    def bad(self) -> bool:
        """Whether somebody has to look at it."""
        return self.state in (FAILED, STOPPED)

    def text(self) -> str:
        """What a table of steps says of it."""
        return ": ".join(part for part in (_STATES[self.state], self.error or self.why) if part)


@dataclass(frozen=True)
class KindSize:
    """Bytes of one kind of file in a table."""

    owned: int
    """Before the cleanup."""
    freed: int
    """What the cleanup takes or took of them."""


@dataclass(frozen=True)
class TableRecord:
    """One table, as it is planned or as it ended."""

    name: str
    uri: str
    steps: tuple[StepRecord, ...] = ()
    kinds: Mapping[str, KindSize] = field(default_factory=dict)
    """By kind of file; empty where the files were not listed."""
    findings: Mapping[str, int] = field(default_factory=dict)
    """Findings of the last check by severity, if there was one in this run."""
    told: tuple[str, ...] = ()
    """A few of them, the worst first; and branches that stay although their time is over."""
    left_before: int = 0
    """In how many runs before, one after the other, something was left."""
    error: str = ""
    """Why nothing could be done to it."""
    exit_code: int = 0

    @property
    def freed(self) -> int:
        """Bytes that go or went."""
        return sum(step.freed for step in self.steps)

    @property
    def owned(self) -> int:
        """Bytes of its files before."""
        return sum(size.owned for size in self.kinds.values())

    @property
    def problems(self) -> list[str]:
        """What went wrong, and what keeps steps from being done."""
        told = [self.error] if self.error else []
        return told + [f"{step.name}: {step.error or step.why}" for step in self.steps if step.bad]

    @property
    def complete(self) -> bool:
        """Whether nothing went wrong."""
        return not self.problems

    @property
    def left(self) -> list[StepRecord]:
        """Steps that time did not allow."""
        return [step for step in self.steps if step.state == LEFT]

    @property
    def state(self) -> str:
        """The table in a word."""
        if self.error:
            return FAILED
        states = {step.state for step in self.steps}
        return next((state for state in (FAILED, STOPPED, LEFT, WOULD, DONE) if state in states), NOTHING)


def compaction(
    branch: str | None, sources: int, tasks: int, written: int, least: int, state: str = WOULD
) -> StepRecord:
    """The plan of a compaction."""
    name = branch or MAIN
    if sources < max(least, 1):
        why = f"{counted(sources, 'small fragment')}, fewer than {least:,}" if sources else "no small fragments"
        return StepRecord(COMPACTION, name, NOTHING, why)
    why = f"{counted(sources, 'fragment')} become about {tasks:,}, {readable(written)}"
    return StepRecord(COMPACTION, name, state, why, fragments=sources, written=written)


def indexes(branch: str | None, stale: Mapping[str, int], rows: int, least: int, percent: int) -> StepRecord:
    """The plan for the indexes of a branch, by the rows that each lacks, of so many."""
    lacking = {name: count for name, count in sorted(stale.items()) if count >= least and 100 * count >= percent * rows}
    if not lacking:
        total = sum(stale.values())
        why = f"{counted(total, 'row')} not in an index, too few" if total else "nothing is stale"
        return StepRecord(INDEXES, branch or MAIN, NOTHING, why)
    told = ", ".join(f"{name} lacks {counted(count, 'row')}" for name, count in lacking.items())
    return StepRecord(INDEXES, branch or MAIN, WOULD, told, rows=sum(lacking.values()))


def cleanup(versions: int, files: int, freed: int) -> StepRecord:
    """The plan of a cleanup."""
    if not files:
        return StepRecord(CLEANUP, None, NOTHING, "nothing to delete")
    why = f"{counted(versions, 'version')}, {counted(files, 'file')}, {readable(freed)}"
    return StepRecord(CLEANUP, None, WOULD, why, files=files, freed=freed)


def fsck(due: str) -> StepRecord:
    """The plan of a check; ``due`` says why it is, or is empty."""
    return StepRecord(FSCK, None, WOULD if due else NOTHING, due or "checked not long ago")


def expiry(expired: Sequence[str], warned: Sequence[str]) -> StepRecord:
    """The plan of an expiry: which refs go, and which are warned of."""
    parts = [f"{few(expired, _FEW)} to delete"] if expired else []
    parts += [f"{few(warned, _FEW)} to warn of"] if warned else []
    if not parts:
        return StepRecord(EXPIRY, None, NOTHING, "no ref's time is over")
    return StepRecord(EXPIRY, None, WOULD, "; ".join(parts), refs=len(expired))


def as_json(record: TableRecord) -> dict[str, Any]:
    """Plain values."""
    return {
        "table": record.name,
        "uri": record.uri,
        "state": record.state,
        "freed_bytes": record.freed,
        "owned_bytes": record.owned,
        "kinds": {kind: {"owned_bytes": size.owned, "freed_bytes": size.freed} for kind, size in record.kinds.items()},
        "findings": dict(record.findings),
        "told": list(record.told),
        "left_before": record.left_before,
        "error": record.error,
        "exit_code": record.exit_code,
        "steps": [vars(step) for step in record.steps],
    }


def not_looked_at(record: TableRecord) -> TableRecord:
    """The record of a table that is left without a look."""
    return replace(record, steps=(StepRecord(LOOK, None, LEFT, "there was no time to look at it"),))


def nothing_freed(kinds: Mapping[str, KindSize]) -> dict[str, KindSize]:
    """What is owned, before anything of it is freed."""
    return {kind: KindSize(size.owned, 0) for kind, size in kinds.items()}
