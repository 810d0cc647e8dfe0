"""What others do while a verb is at work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


def meanwhile(
    patch: pytest.MonkeyPatch, owner: Any, name: str, *events: Callable[[], object]
) -> list[Callable[[], object]]:
    """Each event happens once, right before a call of a function. Returns the events that are still to come."""
    real, pending = getattr(owner, name), list(events)

    def called(*given: Any, **named: Any) -> Any:
        if pending:
            pending.pop(0)()
        return real(*given, **named)

    patch.setattr(owner, name, called)
    return pending
