"""Logs to draw: entries from lines of text, and histories of any shape."""

from __future__ import annotations

from datetime import datetime, timezone

from hypothesis import strategies as st

from lance_spark.core.refs import PinnedVersion
from lance_spark.format.operations import LogEntry

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)


def pin(text: str) -> PinnedVersion:
    branch, _, version = text.partition("@")
    return PinnedVersion(None if branch == "main" else branch, int(version))


def entries(*lines: str) -> list[LogEntry]:
    """Each line: a version, then those it was made from."""
    entries = []
    for line in lines:
        name, *parents = line.split()
        where = pin(name)
        entries.append(LogEntry(where.branch, where.version, NOW, "Append", parents=tuple(map(pin, parents))))
    return entries


@st.composite
def histories(draw_value: st.DrawFn) -> list[str]:
    """Versions in the order they were made; each made from one before, or from none, and perhaps merging another."""
    count = draw_value(st.integers(1, 12))
    lines = []
    for number in range(count):
        parents = draw_value(st.lists(st.integers(0, number - 1), max_size=2, unique=True)) if number else []
        lines.append(" ".join([f"b@{number + 1}", *(f"b@{parent + 1}" for parent in parents)]))
    return lines[::-1]
