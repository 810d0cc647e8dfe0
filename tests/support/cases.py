"""Which cases of a test are run by day."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def at_night(*values: Any) -> list[Any]:
    """Cases for the night: a pure test has each of them, and by day another case takes the same way."""
    return [
        pytest.param(*value, marks=pytest.mark.nightly)
        if isinstance(value, tuple)
        else pytest.param(value, marks=pytest.mark.nightly)
        for value in values
    ]


def by_day(every: Iterable[str], *names: str) -> list[Any]:
    """All cases in their order: the named ones for every day, the others for the night."""
    every = list(every)
    assert set(names) <= set(every), "no such case"
    return [case for name in every for case in ([name] if name in names else at_night(name))]
