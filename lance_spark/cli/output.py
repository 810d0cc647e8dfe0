"""What the exit codes mean, for ``--help``. Those of errors are set in lance_spark.errors."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import click

from lance_spark.core import show
from lance_spark.core.refs import MAIN, PinnedVersion
from lance_spark.core.show import HEAD, PLUS, WorkProgress, table_lines
from lance_spark.errors import Refused

if TYPE_CHECKING:
    from lance_spark.merge.report import MergeResult

INTERRUPTED = 130
NOT_DONE = 1
PARTLY_DONE = 6

EXIT_CODES = (
    (0, "done"),
    (NOT_DONE, "you said no, or something else went wrong"),
    (2, "what was typed is wrong; nothing was touched"),
    (3, "refused: it would lose data or strand files"),
    (5, "columns or types do not fit"),
    (10, "not found"),
    (11, "the name is taken"),
    (12, "another process committed first; nothing was committed"),
    (20, "the store did not answer"),
    (21, "the store denied access"),
    (22, "a file cannot be understood"),
    (INTERRUPTED, "interrupted"),
)


def exit_codes_text(partly: str) -> str:
    """The table as text; ``partly`` is what PARTLY_DONE means to the command."""
    return "\n".join(f"  {code:>3}  {meaning}" for code, meaning in sorted([*EXIT_CODES, (PARTLY_DONE, partly)]))


# --- What a verb says: aligned text for people, JSON for programs, colour on a terminal only

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


# --- What runs at the moment, in one line of the terminal: after some seconds, and wiped before anything else is said

_PATIENCE = 2.0
"""Seconds that nobody minds to wait. What is done by then shows nothing."""
_EVERY = 0.5
_WIDTH = 24


def bar_text(progress: WorkProgress, seconds: float) -> str:
    """``copy [#########---------------] 40 of 120, 12 s``."""
    if progress.total > 1:
        full = _WIDTH * min(progress.done, progress.total) // progress.total
        counts = f"{progress.done:,} of {progress.total:,}"
        return f"{progress.stage} [{'#' * full}{'-' * (_WIDTH - full)}] {counts}, {seconds:.0f} s"
    return f"{progress.stage} ... {seconds:.0f} s"


class ProgressBar:
    """A line on stderr, if that is a terminal. A thread draws it: one file may take minutes, with nothing to tell."""

    def __init__(self, patience: float = _PATIENCE, every: float = _EVERY) -> None:
        self._patience, self._every = patience, every
        self._lock = threading.Lock()
        self._now: WorkProgress | None = None
        self._began = 0.0
        self._drawn = False
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self.hushed = False
        """Whether to show nothing, as programs read what is printed."""

    def tell(self, progress: WorkProgress) -> None:
        """What is done at the moment."""
        if self.hushed or not sys.stderr.isatty():
            return
        with self._lock:
            self._now = progress
            if self._thread is None:
                self._began, self._ended = time.monotonic(), threading.Event()
                self._thread = threading.Thread(target=self._run, args=(self._ended,), daemon=True)
                self._thread.start()

    def wipe(self) -> None:
        """Nothing runs any more, or something is going to be said."""
        with self._lock:
            thread, self._thread, self._now = self._thread, None, None
            self._ended.set()
            if self._drawn:
                sys.stderr.write("\r\033[K")
                sys.stderr.flush()
                self._drawn = False
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _run(self, ended: threading.Event) -> None:
        wait = self._patience
        while not ended.wait(wait):
            with self._lock:
                if self._now is not None and not ended.is_set():
                    sys.stderr.write(f"\r\033[K{bar_text(self._now, time.monotonic() - self._began)}")
                    sys.stderr.flush()
                    self._drawn = True
            wait = self._every


BAR = ProgressBar()
"""The one of this process: there is one terminal."""


# --- Prints the lines that history lays out, with colour where it is wanted

_STYLES: dict[str, dict[str, Any]] = {
    show.VERSION: {"fg": "yellow"},
    show.BRANCH: {"fg": "green", "bold": True},
    show.TAG: {"fg": "cyan"},
    show.PLUS: {"fg": "green"},
    show.MINUS: {"fg": "red"},
    show.CHANGE: {"fg": "yellow"},
    show.FAINT: {"dim": True},
    show.GRAPH: {"fg": "blue"},
    show.HEAD: {"bold": True},
}


def painted(output: Output, lines: Iterable[show.Line]) -> str:
    """The lines as one text."""
    return "\n".join(
        "".join(output.paint(words, **_STYLES[style]) if style in _STYLES else words for style, words in line).rstrip()
        for line in lines
    )


# --- Asks before something is removed

_YES, _NO = frozenset({"y", "yes"}), frozenset({"n", "no", ""})


def confirm(what: str, yes: bool) -> None:
    """Go on only if the user agrees to ``what``, a sentence.

    Asks on a terminal. Raises Refused without a terminal: a script must not hang.
    """
    BAR.wipe()
    if yes:
        return
    if sys.stdin is None or not sys.stdin.isatty():
        raise Refused(f"Not done without a yes: {what}", hint="Add --yes to do it, or --dry-run to see more.")
    click.echo(what, err=True)
    if not _said_yes():
        click.echo("Nothing was changed.", err=True)
        raise click.exceptions.Exit(NOT_DONE)


def _said_yes() -> bool:
    """The answer. Raises Abort if the terminal was closed.

    Not input(), which click.confirm uses: it loses a Ctrl-C that arrives while it flushes, and goes on waiting.
    """
    while True:
        click.echo("Go on? [y/N]: ", nl=False, err=True)
        line = sys.stdin.readline()
        if not line:
            raise click.Abort
        answer = line.strip().lower()
        if answer in _YES | _NO:
            return answer in _YES


# --- Prints what a merge, a cherry-pick or a revert did, or would do

CONFLICT = 12
"""Exit code of a dry run that found conflicts: that of the error which the real run ends with."""


def report(output: Output, result: MergeResult) -> int:
    """Print a result, and return the exit code."""
    output.show(result.as_record(), painted(output, result.lines()))
    return exit_code(result)


def exit_code(result: MergeResult) -> int:
    """The exit code of a verb with this result."""
    return CONFLICT if result.conflicts else 0
