"""Isolation of statements: its levels, and what a write knows of the statement that it belongs to."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from lance_spark.errors import InvalidOption

ISOLATION = "isolation_level"
"""The option of a write, and the property of a table."""
SERIALIZABLE, WRITE_SERIALIZABLE = "serializable", "write_serializable"
LEVELS = {
    SERIALIZABLE: SERIALIZABLE,
    WRITE_SERIALIZABLE: WRITE_SERIALIZABLE,
    "writeserializable": WRITE_SERIALIZABLE,
}
"""Spellings of the levels, in lower case, the last one Delta's."""


def isolation_level(value: str | None) -> str | None:
    """The level of a property or an option; None without one. Raises InvalidOption."""
    if value is None:
        return None
    level = LEVELS.get(value.strip().lower())
    if level is None:
        raise InvalidOption(
            f"'{ISOLATION}' is {value!r}, but it must be {SERIALIZABLE} or {WRITE_SERIALIZABLE}.",
            hint=f"Without it, it is {WRITE_SERIALIZABLE}.",
        )
    return level


# --- What a statement read, as text: from Spark's planner, in the option of a write, to the process that commits

STATEMENT = "lance_spark.statement"
"""Option of a write, set by this package only."""


ANY = "*"
"""In place of a URI: some tables of Lance are read, and Spark does not tell which."""


@dataclass(frozen=True)
class Statement:
    """What is known of the statement that a write belongs to."""

    base: int | None = None
    """The version of the target that it was planned with; None if unknown."""
    reads: tuple[tuple[str, str | None, int], ...] | None = None
    """The branches that it reads, each as of its newest version at that moment: URI, branch (None for main), version.

    Reads of a tag, a version or a moment are not among them: they name old rows on purpose. None if unknown."""

    def as_text(self) -> str:
        """For :func:`parse_statement`."""
        return json.dumps({"base": self.base, "reads": self.reads})

    def read_of(self, uri: str, branch: str | None) -> int | None:
        """The oldest version in which it reads a branch; None if it does not."""
        found = [version for place, name, version in self.reads or () if place == ANY or (place, name) == (uri, branch)]
        return min(found, default=None)


def parse_statement(text: str) -> Statement:
    given: dict[str, Any] = json.loads(text)
    reads = given["reads"]
    return Statement(given["base"], None if reads is None else tuple((uri, name, at) for uri, name, at in reads))
