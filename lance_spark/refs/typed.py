"""Refs as SQL has them: text behind ``@`` in a table's name, and what stands behind ``VERSION AS OF``.

It is the syntax of ``lance-git``, and one thing more: a whole number is a version, as everywhere in SQL.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from lance_spark.errors import InvalidOption
from lance_spark.refs.expressions import RefExpression, is_range, parse_expression
from lance_spark.refs.model import RefSpec
from lance_spark.show.moments import EPOCH

_NUMBER = re.compile(r"[0-9]+")
_LARGEST = 2**63 - 1
_DIGITS = 19
_FORMS = "Write for example 7, 'v2013' (a tag), 'exp/delays' (a branch) or 'exp/delays@7'."


@dataclass(frozen=True)
class TypedRef:
    """What a user typed to choose a version; what its name stands for takes a dataset to tell."""

    expression: RefExpression | None = None
    """A branch, a tag, or a version of a branch; None for the main branch."""
    version: int | None = None
    """A version of whatever branch was named elsewhere, main otherwise."""
    as_of: datetime | None = None
    """The newest version at this moment, UTC."""

    @property
    def is_default(self) -> bool:
        """Whether nothing was typed: the newest version of main."""
        return self == DEFAULT


DEFAULT = TypedRef()
MARK = "@"
"""Between the name or path of a table and a ref."""


def split_refs(text: str) -> Iterator[tuple[str, TypedRef]]:
    """All ways to split a name or path into one of a table and a ref behind ``@``, the first ``@`` first."""
    for position, character in enumerate(text):
        name = text[:position]
        if character == MARK and name.rstrip(MARK) and name == name.strip():
            with suppress(InvalidOption):
                yield name, parse_version_text(text[position + 1 :])


def parse_version_text(text: str) -> TypedRef:
    """What stands behind ``VERSION AS OF``, with or without quotes: both reach a catalog as text.

    A number is a version, also where a tag is called so; ``tags/2013`` is the tag. Raises InvalidOption.
    """
    typed = text.strip()
    if _NUMBER.fullmatch(typed):
        return TypedRef(version=_version(typed))
    if is_range(typed):
        raise InvalidOption(f"'{typed}' is a range of versions, but a read needs one.", hint=_FORMS)
    return TypedRef(parse_expression(typed))


def parse_moment(micros: int) -> TypedRef:
    """What stands behind ``TIMESTAMP AS OF``: microseconds since 1970, UTC. Raises InvalidOption."""
    try:
        return TypedRef(as_of=EPOCH + timedelta(microseconds=micros))
    except OverflowError:
        raise InvalidOption(f"{micros} microseconds since 1970 is no time that can be read.") from None


def combine(named: TypedRef, travel: TypedRef) -> TypedRef:
    """The ref of ``flights@exp VERSION AS OF 7``: a branch from the name, a version or moment from behind it.

    Raises InvalidOption where both choose a version.
    """
    if travel.is_default or named.is_default:
        return travel if named.is_default else named
    if named.expression is None or named.expression.version is not None or named.expression.back:
        raise InvalidOption(
            "The table's name chooses a version already.", hint="Take out what is behind its '@', or AS OF."
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
    """The spec of a ref whose name turned out to be a branch (None for main)."""
    version = typed.version
    if typed.expression is not None and typed.expression.version is not None:
        version = typed.expression.version
    return RefSpec(branch=branch, version=version, as_of=typed.as_of)


def _version(number: str) -> int:
    if len(number) > _DIGITS or not 1 <= int(number) <= _LARGEST:
        raise InvalidOption(f"{number} is no version.", hint="Versions are whole numbers from 1.")
    return int(number)
