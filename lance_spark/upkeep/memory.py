"""What one run leaves for the next: when each table was checked, and what was left. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from lance_spark.errors import CorruptData
from lance_spark.options.text import from_span
from lance_spark.upkeep.policy import FSCK, FsckRule
from lance_spark.upkeep.records import DONE, STOPPED, TableRecord

_FORMAT = 1
_NS = 10**9


@dataclass(frozen=True)
class Remembered:
    """What is known of one table."""

    checked_s: int | None = None
    """When it was checked, seconds since the epoch; None for never."""
    sound: bool = True
    """Whether that check found no damage."""
    left: int = 0
    """In how many runs, one after the other, something was left."""


@dataclass(frozen=True)
class Memory:
    """What is known of all tables, by URI."""

    tables: Mapping[str, Remembered] = field(default_factory=dict)

    def of(self, uri: str) -> Remembered:
        """What is known of a table."""
        return self.tables.get(uri, Remembered())

    def to_json(self) -> str:
        """All of it."""
        tables = {
            uri: {"checked": each.checked_s, "sound": each.sound, "left": each.left}
            for uri, each in sorted(self.tables.items())
        }
        return json.dumps({"format": _FORMAT, "tables": tables}, indent=1)


def read_memory(text: str) -> Memory:
    """The memory of a run before. Raises CorruptData for what is none."""
    try:
        told = json.loads(text)
        if told["format"] != _FORMAT:
            raise ValueError(f"format {told['format']!r}")
        tables = {
            str(uri): Remembered(
                None if each["checked"] is None else int(each["checked"]), bool(each["sound"]), int(each["left"])
            )
            for uri, each in told["tables"].items()
        }
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise CorruptData(
            f"The state of the last maintenance cannot be understood: {problem}.",
            hint="Delete the file: then every table is checked again, and nothing else is lost.",
        ) from None
    return Memory(tables)


def check_due(remembered: Remembered, rule: FsckRule, now_ns: int) -> str:
    """Why a table has to be checked now; "" if not yet. A table that was damaged is until it is sound."""
    if remembered.checked_s is None:
        return "never checked"
    if not remembered.sound:
        return "damaged the last time"
    age = timedelta(seconds=now_ns // _NS - remembered.checked_s)
    if age >= rule.every:
        return f"checked more than {from_span(rule.every)} ago" if rule.every else "every time"
    return ""


def remember(before: Memory, records: Iterable[TableRecord], now_ns: int) -> Memory:
    """What the next run has to know. Tables that this run did not look at are remembered as they were."""
    tables = dict(before.tables)
    for record in records:
        was = before.of(record.uri)
        check = next((step for step in record.steps if step.step == FSCK and step.state in (DONE, STOPPED)), None)
        left = was.left + 1 if record.left else 0
        # A cleanup that stumbles over damage between two checks: the next run has to check, before refs expire.
        damaged = any(step.exit_code == CorruptData.exit_code for step in record.steps)
        if check is None:
            tables[record.uri] = Remembered(was.checked_s, was.sound and not damaged, left)
        else:
            tables[record.uri] = Remembered(now_ns // _NS, check.state == DONE and not damaged, left)
    return Memory(tables)
