"""What a verb says: aligned text for people, JSON for programs, colour on a terminal only."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import click

from lance_spark.cli.progress import BAR
from lance_spark.refs.model import PinnedVersion
from lance_spark.refs.names import MAIN
from lance_spark.show.lines import HEAD, PLUS
from lance_spark.show.tables import table_lines

_SPANS = ((365 * 86_400, "year"), (30 * 86_400, "month"), (86_400, "day"), (3_600, "hour"), (60, "minute"))


@dataclass(frozen=True)
class Output:
    """Where and how a verb speaks. Results go to stdout, everything else to stderr."""

    json: bool = False
    color: bool = False

    def show(self, data: Mapping[str, Any], text: str) -> None:
        """The result: the data as JSON with ``--json``, else the text."""
        BAR.wipe()
        if self.json:
            click.echo(json.dumps(data, indent=2))
        elif text:
            click.echo(text, color=self.color)

    def note(self, text: str) -> None:
        """A note beside the result, on stderr."""
        BAR.wipe()
        if not self.json:
            click.echo(text, err=True)

    def error(self, message: str, hint: str | None, exit_code: int) -> None:
        """One line and a hint on stderr, or an object there."""
        BAR.wipe()
        if self.json:
            click.echo(json.dumps({"error": message, "hint": hint, "exit_code": exit_code}, indent=2), err=True)
            return
        click.echo(f"{self._on_stderr('error:', 'red')} {' '.join(message.split())}", err=True)
        if hint:
            click.echo(f"{self._on_stderr('hint:', 'yellow')} {hint}", err=True)

    def paint(self, text: str, **style: Any) -> str:
        """The text in a style, where colours are wanted."""
        return click.style(text, **style) if self.color else text

    def table(
        self,
        header: Sequence[str],
        rows: Iterable[Sequence[str]],
        right: Iterable[int] = (),
        bright: Iterable[int] = (),
    ) -> str:
        """Text in columns, those in ``right`` aligned to the right, the rows in ``bright`` in colour."""
        styles: dict[str, dict[str, Any]] = {HEAD: {"bold": True}, PLUS: {"fg": "green"}}
        lines = table_lines(header, rows, right, bright)
        return "\n".join(self.paint(text, **styles.get(style, {})) for line in lines for style, text in line)

    def _on_stderr(self, text: str, color: str) -> str:
        return click.style(text, fg=color, bold=True) if self.color and sys.stderr.isatty() else text


def wants_color(no_color: bool) -> bool:
    """Whether stdout is a terminal, and the user did not ask for plain text (https://no-color.org)."""
    if no_color or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return sys.stdout.isatty()


def age(moment: datetime, now: datetime | None = None) -> str:
    """How long ago that was, in words: ``3 days ago``."""
    seconds = ((now or datetime.now(timezone.utc)) - moment).total_seconds()
    for span, unit in _SPANS:
        count = int(seconds // span)
        if count >= 1:
            return f"{count} {unit}{'s' if count > 1 else ''} ago"
    return "just now"


def stamp(moment: datetime | None) -> str | None:
    """A moment as JSON has it: ISO 8601 in UTC."""
    return None if moment is None else moment.astimezone(timezone.utc).isoformat()


def version_json(pin: PinnedVersion) -> dict[str, Any]:
    """A version as JSON has it."""
    return {"branch": pin.branch or MAIN, "version": pin.version}
