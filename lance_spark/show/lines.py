"""Lines of text whose parts have styles: whoever prints the lines adds colour."""

from __future__ import annotations

from collections.abc import Iterable

from lance_spark.show.words import masked

Span = tuple[str, str]
"""(style, text)."""
Line = list[Span]

PLAIN, VERSION, BRANCH, TAG, PLUS, MINUS, CHANGE, FAINT, GRAPH, HEAD = (
    "plain",
    "version",
    "branch",
    "tag",
    "added",
    "removed",
    "changed",
    "faint",
    "graph",
    "head",
)
"""Styles."""


def plain_text(lines: Iterable[Line]) -> str:
    """The lines without styles."""
    return "\n".join("".join(text for _, text in line).rstrip() for line in lines)


def said(text: str) -> Line:
    """A line without any style."""
    return [(PLAIN, text)]


def said_of_places(text: str) -> Line:
    """A line without any style, of a text with URIs that other tools may have written: secrets in them are masked."""
    return said(masked(text))
