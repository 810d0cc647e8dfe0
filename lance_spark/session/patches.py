"""Functions of PySpark that this package replaces while a session needs it, beside others who replace the same ones.

Another library, or a second copy of this package, may patch a function before or after, and take its patch back in
any order. So only what is still ours is put back, and what another one put over ours stays: it goes on calling ours,
which passes everything on once no session is left.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any


class Patches:
    """The replaced functions of one kind of session."""

    def __init__(self) -> None:
        self._ours: list[tuple[Any, str, Callable[..., Any]]] = []
        self._made: dict[Callable[..., Any], Callable[..., Any]] = {}
        """What stands in for a function, with that function. Kept, as others may put it back at any time."""

    def of(self, owner: Any, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Declare a function in place of ``owner.name``. Its first argument is the one that it replaces."""

        def declare(function: Callable[..., Any]) -> Callable[..., Any]:
            self._ours.append((owner, name, function))
            return function

        return declare

    def install(self) -> None:
        """Replace the functions, except for those that are replaced. Whoever patched one before is called by ours."""
        for owner, name, function in self._ours:
            found = getattr(owner, name)
            if found not in self._made:
                setattr(owner, name, self._around(found, function))

    def remove(self) -> None:
        """Put back what was there, wherever ours is still in its place."""
        for owner, name, _ in self._ours:
            found = getattr(owner, name)
            if found in self._made:
                setattr(owner, name, self._made[found])

    def _around(self, found: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
        for made, replaced in self._made.items():
            if replaced is found:
                return made

        @wraps(found)
        def ours(*args: Any, **kwargs: Any) -> Any:
            return function(found, *args, **kwargs)

        self._made[ours] = found
        return ours
