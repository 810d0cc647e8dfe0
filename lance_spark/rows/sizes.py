"""How many rows of an action frame a task should write. Pure."""

from __future__ import annotations

import re

_UNITS = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_DEFAULT = 64 * 2**20
_LEAST = 2**20


def advisory_size(setting: str | None, share: float) -> int:
    """Bytes that a task should get of rows of which it writes more than it gets.

    ``setting`` is Spark's advisory size of partitions, as a user may have set it; ``share`` is the part of a written
    row that comes with the frame, the rest of which the task reads from the table.
    """
    found = re.fullmatch(r"\s*(\d+)\s*([bkmgt]?)(?:i?b)?\s*", (setting or "").lower())
    whole = int(found[1]) * _UNITS[found[2]] if found else _DEFAULT
    return min(whole, max(_LEAST, int(whole * share)))
