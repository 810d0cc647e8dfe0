"""What was meant by a name that there is not. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def meant(name: str, known: Iterable[str], lead: str = "There are") -> str:
    """A hint: the name that is nearest, whatever its case, or after ``lead`` all that there are."""
    names = list(known)
    folded = {each.lower(): each for each in reversed(names)}
    near = difflib.get_close_matches(name.lower(), folded, n=1)
    if near:
        return f"Did you mean '{folded[near[0]]}'?"
    return f"{lead} {', '.join(names)}." if names else f"{lead} none."
