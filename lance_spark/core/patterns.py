"""Names and patterns (``exp/*``) of tables, branches and tags, the first match of which applies: which never apply.

Pure.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from lance_spark.core.texts import few

_WILDCARDS = frozenset("*?[")
_FEW = 5
"""Number of names that a hint lists."""


def is_pattern(text: str) -> bool:
    """Whether it has a wildcard, and so may rightly match nothing today."""
    return not _WILDCARDS.isdisjoint(text)


@dataclass(frozen=True)
class Unused:
    """A name or pattern that applies to nothing."""

    text: str
    hidden_by: str = ""
    """An earlier pattern that takes everything it would match; "" if there is nothing that it matches."""

    @property
    def is_pattern(self) -> bool:
        return is_pattern(self.text)

    def why(self, kind: str) -> str:
        """The end of a sentence, about tables, branches or tags."""
        return f"never applies: '{self.hidden_by}' before it matches first" if self.hidden_by else f"matches no {kind}"

    def way_out(self, names: Iterable[str]) -> str:
        """What to do about it, given the names that exist."""
        if self.hidden_by:
            return f"Put '{self.text}' before '{self.hidden_by}'."
        known = sorted(names)
        near = difflib.get_close_matches(self.text, known, n=1)
        return (
            f"Did you mean '{near[0]}'?" if near else f"There are {few(known, _FEW)}." if known else "There are none."
        )


def unused(texts: Iterable[str], names: Collection[str]) -> list[Unused]:
    """The names and patterns that apply to none of the names, in their order."""
    found: list[Unused] = []
    left, taken = set(names), dict[str, str]()
    for text in texts:
        mine = {name for name in left if fnmatchcase(name, text)}
        if not mine:
            hidden = next((taken[name] for name in sorted(taken) if fnmatchcase(name, text)), "")
            found.append(Unused(text, hidden))
        left -= mine
        taken.update(dict.fromkeys(mine, text))
    return found
