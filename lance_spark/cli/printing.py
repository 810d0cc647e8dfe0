"""Prints the lines that history lays out, with colour where it is wanted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lance_spark.cli.output import Output
from lance_spark.show import lines as text

_STYLES: dict[str, dict[str, Any]] = {
    text.VERSION: {"fg": "yellow"},
    text.BRANCH: {"fg": "green", "bold": True},
    text.TAG: {"fg": "cyan"},
    text.PLUS: {"fg": "green"},
    text.MINUS: {"fg": "red"},
    text.CHANGE: {"fg": "yellow"},
    text.FAINT: {"dim": True},
    text.GRAPH: {"fg": "blue"},
    text.HEAD: {"bold": True},
}


def painted(output: Output, lines: Iterable[text.Line]) -> str:
    """The lines as one text."""
    return "\n".join(
        "".join(output.paint(words, **_STYLES[style]) if style in _STYLES else words for style, words in line).rstrip()
        for line in lines
    )
