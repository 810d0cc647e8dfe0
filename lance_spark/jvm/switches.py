"""Environment variables that switch parts of the native way off. Without py4j, which a client of a server may lack."""

from __future__ import annotations

import os

SWITCH = "LANCE_SPARK_NATIVE"
"""Switches the native way off: 0, false, no or off."""
BY_ROWS = "LANCE_SPARK_COLUMNAR"
"""Makes scans return rows and writes send rows, as Spark does: 0, false, no or off."""
_OFF = ("0", "false", "no", "off")


def switched_off(name: str) -> str | None:
    """Why something is off; None if its variable does not switch it off."""
    return f"{name} is {os.environ[name]!r}." if os.environ.get(name, "").lower() in _OFF else None
