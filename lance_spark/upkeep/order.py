"""Which table is worth most, what keeps a step from being done, and what the next run has to know. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from lance_spark.upkeep.memory import Memory, Remembered
from lance_spark.upkeep.policy import CLEANUP, COMPACTION, DESTRUCTIVE, EXPIRY, FSCK, INDEXES, STEPS
from lance_spark.upkeep.records import DONE, FAILED, STOPPED, WOULD, StepRecord, TableRecord

SMALL_FRAGMENT = 4 * 1024**2
"""What a small fragment less is worth, in bytes freed: whoever reads the table waits for a request less, in which a
store sends about so much."""
STALE_ROW = 1024
"""What a row that queries need not look at one by one is worth, in bytes freed."""
CHECK = 64 * 1024**2
"""What a check that is due is worth: a small one of its own, as it opens the way for what deletes."""
EXPIRED_REF = 16 * 1024**2
"""What a ref less is worth beside the bytes that the cleanup frees afterwards, which nobody knows before."""
_MOST_DOUBLINGS = 30


def value_of(step: StepRecord) -> int:
    """What a planned step is worth, in bytes freed."""
    if step.state != WOULD:
        return 0
    worth = step.freed + SMALL_FRAGMENT * step.fragments + STALE_ROW * step.rows + EXPIRED_REF * step.refs
    return worth + (CHECK if step.step == FSCK else 0)


def table_value(record: TableRecord) -> int:
    """What a table's steps are worth. It doubles each time that something is left: nothing waits for ever."""
    return sum(map(value_of, record.steps)) << min(record.left_before, _MOST_DOUBLINGS)


def most_valuable_first(records: Iterable[TableRecord]) -> list[TableRecord]:
    """In the order in which they are worked on; by name where they are worth the same."""
    return sorted(records, key=lambda record: (-table_value(record), record.name))


def left_first(names: Mapping[str, str], memory: Memory) -> list[str]:
    """Names of tables in the order in which they are looked at, by their URIs: what was left most often comes first."""
    return sorted(names, key=lambda name: (-memory.of(names[name]).left, name))


def in_safe_order(steps: Iterable[StepRecord]) -> list[StepRecord]:
    """The steps of a table in the order in which they are done; branches in the order in which they come."""
    return sorted(steps, key=lambda step: STEPS.index(step.step))


def obstacle(step: StepRecord, before: Sequence[StepRecord], remembered: Remembered, held_back: str = "") -> str:
    """Why a step must not be done after those ``before``; "" if it may.

    What deletes waits for a sound table: a check in this run, or else the last one, must have found nothing. It is
    ``held_back`` while something that may need the files cannot be looked at.
    """
    if step.step not in DESTRUCTIVE:
        return ""
    check = next((each for each in before if each.step == FSCK and each.state in (DONE, FAILED, STOPPED)), None)
    if check is None:
        return held_back if remembered.sound else "the last check found damage; run the check again once it is repaired"
    if check.state != DONE:
        return "the table could not be checked" if check.state == FAILED else check.why
    return held_back


def worth_again(step: StepRecord, before: Sequence[StepRecord]) -> bool:
    """Whether a step for which the plan had nothing to do may have something to do after those ``before``."""
    done = {(each.step, each.branch) for each in before if each.state == DONE}
    if step.step == INDEXES:
        return (COMPACTION, step.branch) in done  # rows in another order are not in every index any more
    return step.step == CLEANUP and (EXPIRY, None) in done
