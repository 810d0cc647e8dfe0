"""What people type for a ref on a command line: ``branch``, ``tag``, ``branch@7``, ``main~2``, ``HEAD``, ``A..B``.

Names of branches and tags hold neither ``@`` nor ``~`` nor ``..``, so an expression can be read in one way only. What
a name stands for is not known here; that takes a dataset (see lance_spark.actions.expressions).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from lance_spark.errors import InvalidOption

HEAD = "HEAD"
"""The newest version of the current branch."""
_HEADS, _TAGS = "heads/", "tags/"
_SUFFIX = re.compile(r"(?P<name>[^@~]*)(?:@(?P<version>[^@~]*))?(?P<steps>(?:~\d*)*)")
_NUMBER = re.compile(r"[0-9]{1,19}")
_LARGEST = 2**63 - 1
_FORMS = "A ref is a branch, a tag, branch@7, @7, main~2 or HEAD."

Kind = Literal["branch", "tag"]


@dataclass(frozen=True)
class RefExpression:
    """One ref as it was typed."""

    text: str
    """All of it, for messages."""
    name: str | None
    """Branch or tag as it was typed, with ``heads/`` or ``tags/`` before it; None for the current branch."""
    version: int | None = None
    """Number after ``@``."""
    back: int = 0
    """How many versions before that."""

    @property
    def explicit(self) -> tuple[Kind, str] | None:
        """(kind, name) where ``heads/`` or ``tags/`` says which of the two is meant."""
        if self.name is not None and self.name.startswith(_HEADS):
            return "branch", self.name[len(_HEADS) :]
        if self.name is not None and self.name.startswith(_TAGS):
            return "tag", self.name[len(_TAGS) :]
        return None

    def __str__(self) -> str:
        """The text that the user typed."""
        return self.text


@dataclass(frozen=True)
class RefRange:
    """``A..B``: from one ref to another."""

    start: RefExpression
    end: RefExpression


def parse_expression(text: str) -> RefExpression:
    """One ref. Raises InvalidOption for any other text, and for a range."""
    typed = text.strip()
    if ".." in typed:
        raise InvalidOption(f"'{typed}' is a range, but one ref is needed.", hint=_FORMS)
    match = _SUFFIX.fullmatch(typed)
    if not typed or match is None:
        raise InvalidOption(f"'{typed}' is no ref.", hint=_FORMS)
    name, version = match["name"], match["version"]
    if not name and version is None:
        raise InvalidOption(f"'{typed}' names no branch, tag or version.", hint=f"Write HEAD{typed}. {_FORMS}")
    return RefExpression(
        text=typed,
        name=None if name in ("", HEAD) else name,
        version=None if version is None else _version(version, typed),
        back=sum(_steps(step, typed) for step in match["steps"].split("~")[1:]),
    )


def parse_range(text: str) -> RefRange:
    """``A..B``; a side that is left out is HEAD. Raises InvalidOption for anything else."""
    typed = text.strip()
    if "..." in typed:
        raise InvalidOption(f"'{typed}' has three dots.", hint="Write A..B.")
    start, dots, end = typed.partition("..")
    if not dots or not (start or end) or ".." in end:
        raise InvalidOption(f"'{typed}' is no range.", hint="Write A..B, for example main..exp or main@5..main.")
    return RefRange(parse_expression(start or HEAD), parse_expression(end or HEAD))


def is_range(text: str) -> bool:
    """Whether the text is meant as a range."""
    return ".." in text


def explicit_spelling(kind: Kind, name: str) -> str:
    """The spelling that can only mean this branch or this tag."""
    return f"{_HEADS if kind == 'branch' else _TAGS}{name}"


def _version(number: str, typed: str) -> int:
    value = int(number) if _NUMBER.fullmatch(number) else 0
    if not 1 <= value <= _LARGEST:
        raise InvalidOption(f"'@{number}' in '{typed}' is no version.", hint="Versions are whole numbers from 1.")
    return value


def _steps(number: str, typed: str) -> int:
    if number and not _NUMBER.fullmatch(number):
        raise InvalidOption(f"'~{number}' in '{typed}' goes back too far.", hint="Write for example main~2.")
    return int(number or 1)
