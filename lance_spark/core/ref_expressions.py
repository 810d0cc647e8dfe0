"""Refs as users type them: ``branch``, ``tag``, ``branch@7``, ``main~2``, ``HEAD``, ``A..B``, and their SQL forms.

Names of branches and tags contain neither ``@`` nor ``~`` nor ``..``, so an expression has exactly one reading.
Resolving a name takes a dataset: see lance_spark.storage.resolving.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal, get_args

from lance_spark import hints
from lance_spark.core.refs import RefSpec
from lance_spark.core.texts import EPOCH
from lance_spark.errors import InvalidOption

MetadataTable = Literal["branches", "tags", "versions", "fragments", "files", "indexes"]
METADATA_TABLES: tuple[str, ...] = get_args(MetadataTable)
"""Tables that tell of a table, by names behind its own: ``flights.versions``."""

HEAD = "HEAD"
"""The newest version of the current branch."""
_HEADS, _TAGS = "heads/", "tags/"
_SUFFIX = re.compile(r"(?P<name>[^@~]*)(?:@(?P<version>[^@~]*))?(?P<steps>(?:~\d*)*)")
_NUMBER = re.compile(r"[0-9]{1,19}")
_LARGEST = 2**63 - 1
_FORMS = "A ref is a branch, a tag, branch@7, @7, main~2 or HEAD."
_RANGE = f"lance-git diff {{}} compares the two. {_FORMS}"

Kind = Literal["branch", "tag"]


def from_handle(handle: RefSpec, given: RefSpec, names_branch: bool) -> RefSpec:
    """The ref that was given to a handle's verb, as the handle sees it.

    Nothing means the handle's own ref, and a version or moment alone is one of its branch: on a handle of ``dev``,
    ``branches.create("x")`` that began at main would publish what was never audited. ``names_branch``: the caller named
    a branch, possibly main.
    """
    if given == RefSpec() and not names_branch:
        return handle
    if names_branch or given.tag is not None or handle.begins is not None:  # what has not begun has main's versions
        return given
    return replace(given, branch=handle.branch)


@dataclass(frozen=True)
class RefExpression:
    text: str
    name: str | None
    """Branch or tag as it was typed, with ``heads/`` or ``tags/`` before it; None for the current branch."""
    version: int | None = None
    """Number after ``@``."""
    back: int = 0
    """How many versions before that."""

    @property
    def explicit(self) -> tuple[Kind, str] | None:
        """(kind, name) if ``heads/`` or ``tags/`` selects the kind."""
        if self.name is not None and self.name.startswith(_HEADS):
            return "branch", self.name[len(_HEADS) :]
        if self.name is not None and self.name.startswith(_TAGS):
            return "tag", self.name[len(_TAGS) :]
        return None

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class RefRange:
    """``A..B``: from one ref to another."""

    start: RefExpression
    end: RefExpression


def parse_expression(text: str) -> RefExpression:
    """One ref. Raises InvalidOption for any other text, including a range and a place."""
    typed = text.strip()
    _check_no_place(typed)
    if ".." in typed:
        raise InvalidOption(f"'{typed}' is a range, but one ref is needed.", hint=_RANGE.format(typed))
    match = _SUFFIX.fullmatch(typed)
    if not typed or match is None:
        raise InvalidOption(f"'{typed}' is not a ref.", hint=_FORMS)
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
    _check_no_place(typed)
    if "..." in typed:
        raise InvalidOption(f"'{typed}' has three dots.", hint="Write A..B.")
    start, dots, end = typed.partition("..")
    if not dots or not (start or end) or ".." in end:
        raise InvalidOption(f"'{typed}' is not a range.", hint="Write A..B, for example main..exp or main@5..main.")
    return RefRange(parse_expression(start or HEAD), parse_expression(end or HEAD))


def _check_no_place(typed: str) -> None:
    """Who knows other commands types the path behind the verb, and "not a valid branch name" leads nowhere."""
    if typed.startswith(("/", "./", "../")) or "://" in typed:
        raise InvalidOption(f"'{typed}' is a place, and a ref is needed here.", hint=hints.at_place(typed))


def is_range(text: str) -> bool:
    return ".." in text


def explicit_spelling(kind: Kind, name: str) -> str:
    """The spelling that can only mean this branch or this tag."""
    return f"{_HEADS if kind == 'branch' else _TAGS}{name}"


def _version(number: str, typed: str) -> int:
    value = int(number) if _NUMBER.fullmatch(number) else 0
    if not 1 <= value <= _LARGEST:
        raise InvalidOption(f"'@{number}' in '{typed}' is not a version.", hint="Versions are whole numbers from 1.")
    return value


def _steps(number: str, typed: str) -> int:
    if number and not _NUMBER.fullmatch(number):
        raise InvalidOption(f"'~{number}' in '{typed}' goes back too far.", hint="For example, write main~2.")
    return int(number or 1)


# --- Refs in SQL: text behind ``@`` in a table's name, and the operand of ``VERSION AS OF``
# The syntax of ``lance-git`` plus one rule: a whole number is a version, as everywhere in SQL.

_TYPED_NUMBER = re.compile(r"[0-9]+")
_DIGITS = 19
_TYPED_FORMS = "For example, write 7, 'v2013' (a tag), 'exp/delays' (a branch) or 'exp/delays@7'."


@dataclass(frozen=True)
class TypedRef:
    """The user's choice of a version; resolving its name takes a dataset."""

    expression: RefExpression | None = None
    """A branch, a tag, or a version of a branch; None for the main branch."""
    version: int | None = None
    """A version of the branch named elsewhere, or of main."""
    as_of: datetime | None = None
    """The newest version at this time, UTC."""

    @property
    def is_default(self) -> bool:
        """Whether nothing was typed: the newest version of main."""
        return self == DEFAULT


DEFAULT = TypedRef()
MARK = "@"
"""Between the name or path of a table and a ref."""


def split_refs(text: str) -> Iterator[tuple[str, TypedRef]]:
    """All ways to split a name or path at an ``@`` into a table and a ref, the first ``@`` first."""
    for position, character in enumerate(text):
        name = text[:position]
        if character == MARK and name.rstrip(MARK) and name == name.strip():
            with suppress(InvalidOption):
                yield name, parse_version_text(text[position + 1 :])


def parse_version_text(text: str) -> TypedRef:
    """The operand of ``VERSION AS OF``, quoted or not: both reach a catalog as text.

    A number is a version, even if a tag has that name; ``tags/2013`` is the tag. Raises InvalidOption.
    """
    typed = text.strip()
    if _TYPED_NUMBER.fullmatch(typed):
        return TypedRef(version=_typed_version(typed))
    if is_range(typed):
        raise InvalidOption(f"'{typed}' is a range of versions, but a read needs one.", hint=_TYPED_FORMS)
    return TypedRef(parse_expression(typed))


def parse_moment(micros: int) -> TypedRef:
    """The operand of ``TIMESTAMP AS OF``: microseconds since 1970, UTC. Raises InvalidOption."""
    try:
        return TypedRef(as_of=EPOCH + timedelta(microseconds=micros))
    except OverflowError:
        raise InvalidOption(f"{micros} microseconds since 1970 is outside the range of supported times.") from None


def combine(named: TypedRef, travel: TypedRef) -> TypedRef:
    """The ref of ``flights@exp VERSION AS OF 7``: a branch from the name, a version or moment from behind it.

    Raises InvalidOption if both choose a version.
    """
    if travel.is_default or named.is_default:
        return travel if named.is_default else named
    if named.expression is None or named.expression.version is not None or named.expression.back:
        raise InvalidOption(
            "The table's name already chooses a version.", hint="Remove the part behind its '@', or AS OF."
        )
    if travel.expression is not None and travel.expression.name is not None:
        raise InvalidOption(
            f"The table's name says '{named.expression}', and AS OF says '{travel.expression}'.",
            hint="Name the branch or tag once.",
        )
    if travel.expression is None:
        return TypedRef(named.expression, travel.version, travel.as_of)
    text = f"{named.expression}{travel.expression.text.removeprefix('HEAD')}"
    return TypedRef(parse_expression(text))


def spec_of_branch(branch: str | None, typed: TypedRef) -> RefSpec:
    """The spec of a ref whose name is a branch (None for main)."""
    version = typed.version
    if typed.expression is not None and typed.expression.version is not None:
        version = typed.expression.version
    return RefSpec(branch=branch, version=version, as_of=typed.as_of)


def _typed_version(number: str) -> int:
    if len(number) > _DIGITS or not 1 <= int(number) <= _LARGEST:
        raise InvalidOption(f"{number} is not a version.", hint="Versions are whole numbers from 1.")
    return int(number)
