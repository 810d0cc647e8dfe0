"""Output of the commands: text and JSON, colors, exit codes for ``--help``, a progress bar, and questions.

The exit codes of errors are set in lance_spark.errors.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import click

from lance_spark.core import show
from lance_spark.core.progress import WorkProgress
from lance_spark.core.refs import MAIN, PinnedVersion
from lance_spark.core.show import HEAD, PLUS, Recorded, table_lines
from lance_spark.core.texts import bar_of, cut_to, visible
from lance_spark.engine.progress_bar import columns_of_stderr
from lance_spark.errors import LanceSparkError, Refused

if TYPE_CHECKING:
    from lance_spark.merge.report import MergeResult

INTERRUPTED = 130
READER_GONE = 141
"""128 + SIGPIPE: what a shell reports of git and others."""
NOT_DONE = 1
PARTLY_DONE = 6

EXIT_CODES = (
    (0, "done"),
    (NOT_DONE, "you answered no, or something else went wrong"),
    (2, "invalid arguments; nothing was changed"),
    (3, "refused: it would lose data or strand files"),
    (4, "something is not installed"),
    (5, "columns or types do not fit"),
    (10, "not found"),
    (11, "the name is taken"),
    (12, "another process committed first; nothing was committed"),
    (20, "the store did not answer"),
    (21, "the store denied access"),
    (22, "a file cannot be read"),
    (23, "the disk is full"),
    (24, "done, but its report could not be written"),
    (INTERRUPTED, "interrupted"),
    (READER_GONE, "whoever read the output stopped"),
)


def exit_codes_text(partly: str) -> str:
    """The table as text; ``partly`` is the meaning of PARTLY_DONE for the command."""
    return "\n".join(f"  {code:>3}  {meaning}" for code, meaning in sorted([*EXIT_CODES, (PARTLY_DONE, partly)]))


# --- Printing results, also to a full disk, into a closed pipe, or in another encoding


class Unprintable(LanceSparkError):
    """The result could not be printed; what the command does is done."""


class ReaderGone(Unprintable):
    """Whoever read the output stopped, like ``head``."""

    exit_code = READER_GONE


def prepare_streams() -> None:
    """Let stdout and stderr take every character, and a closed stderr every error."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - as long as the process
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def put(text: str, color: bool | None = None) -> None:
    """Print to stdout. Raises Unprintable."""
    if sys.stdout is None:
        raise Unprintable("The result could not be printed, as stdout is closed. The command itself is done.")
    try:
        click.echo(visible(text, styled=True), color=color)
    except OSError as problem:
        _abandon_stdout()
        if isinstance(problem, BrokenPipeError):
            raise ReaderGone("The reader of the result is gone. The command itself is done.") from None
        began = click.unstyle(text).strip().partition("\n")[0]
        said = "." if began.startswith("{") else f": {began}"
        raise Unprintable(
            f"The result could not be printed: {problem.strerror}. The command itself is done{said}"
        ) from None


def _abandon_stdout() -> None:
    """Python flushes stdout at exit, and would complain about the same text again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


# --- Output of a verb

_SPANS = ((365 * 86_400, "year"), (30 * 86_400, "month"), (86_400, "day"), (3_600, "hour"), (60, "minute"))


@dataclass(frozen=True)
class Output:
    """Where and how a verb prints. Results go to stdout, everything else to stderr."""

    json: bool = False
    color: bool = False

    def show(self, data: Mapping[str, Any], text: str) -> None:
        """Print the result: the data as JSON with ``--json``, otherwise the text."""
        BAR.wipe()
        if self.json:
            put(json.dumps(data, indent=2))
        elif text:
            put(text, color=self.color)

    def note(self, text: str) -> None:
        """Print a note about the result to stderr."""
        BAR.wipe()
        if not self.json:
            click.echo(visible(text, styled=True), err=True)

    def error(self, message: str, hint: str | None, exit_code: int, conflicts: Sequence[Recorded] = ()) -> None:
        """Print an error to stderr: a line and a hint, or a JSON object. What clashes is listed below the line."""
        BAR.wipe()
        with suppress(OSError):  # a full disk below stderr, too: the exit code still tells
            self._error(message, hint, exit_code, conflicts)

    def _error(self, message: str, hint: str | None, exit_code: int, conflicts: Sequence[Recorded]) -> None:
        if self.json:
            told: dict[str, Any] = {"error": message, "hint": hint, "exit_code": exit_code}
            told |= {"conflicts": [each.as_record() for each in conflicts]} if conflicts else {}
            click.echo(json.dumps(told, indent=2), err=True)
            return
        first, *rest = message.splitlines() if conflicts else [message]
        click.echo(f"{self._on_stderr('error:', 'red')} {visible(' '.join(first.split()))}", err=True)
        for line in rest:
            click.echo(visible(line), err=True)
        if hint:
            click.echo(f"{self._on_stderr('hint:', 'yellow')} {visible(hint)}", err=True)

    def paint(self, text: str, **style: Any) -> str:
        """The text in a style, if colors are wanted."""
        return click.style(text, **style) if self.color else text

    def table(
        self,
        header: Sequence[str],
        rows: Iterable[Sequence[str]],
        right: Iterable[int] = (),
        bright: Iterable[int] = (),
    ) -> str:
        """Text in columns, those in ``right`` right-aligned, the rows in ``bright`` in color."""
        styles: dict[str, dict[str, Any]] = {HEAD: {"bold": True}, PLUS: {"fg": "green"}}
        lines = table_lines(header, rows, right, bright)
        return "\n".join(self.paint(text, **styles.get(style, {})) for line in lines for style, text in line)

    def _on_stderr(self, text: str, color: str) -> str:
        return click.style(text, fg=color, bold=True) if self.color and sys.stderr.isatty() else text


def wants_color(no_color: bool) -> bool:
    """Whether stdout is a terminal and the user did not choose plain text (https://no-color.org)."""
    if no_color or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return sys.stdout is not None and sys.stdout.isatty()


def terminal_width() -> int | None:
    """The columns of stdout, if that is a terminal."""
    if sys.stdout is None or not sys.stdout.isatty():
        return None
    return shutil.get_terminal_size().columns


def age(moment: datetime, now: datetime | None = None) -> str:
    """The age in words: ``3 days ago``."""
    seconds = ((now or datetime.now(timezone.utc)) - moment).total_seconds()
    for span, unit in _SPANS:
        count = int(seconds // span)
        if count >= 1:
            return f"{count} {unit}{'s' if count > 1 else ''} ago"
    return "just now"


def stamp(moment: datetime | None) -> str | None:
    """A moment for JSON: ISO 8601 in UTC."""
    return None if moment is None else moment.astimezone(timezone.utc).isoformat()


def version_json(pin: PinnedVersion) -> dict[str, Any]:
    """A version for JSON."""
    return {"branch": pin.branch or MAIN, "version": pin.version}


# --- The progress bar

_PATIENCE = 2.0
"""Seconds before the bar appears. Shorter work shows nothing."""
_EVERY = 0.5


def bar_text(progress: WorkProgress, seconds: float, columns: int | None = None) -> str:
    """``copy [#########---------------] 40 of 120, 12 s``. A line that wraps could not be drawn over."""
    if progress.total > 1:
        told = f"{progress.done:,} of {progress.total:,}, {seconds:.0f} s"
        return bar_of(progress.stage, progress.done, progress.total, told, columns)
    return cut_to(f"{progress.stage} ... {seconds:.0f} s", columns)


class ProgressBar:
    """A line on stderr if that is a terminal. A thread draws it, as one file may take minutes without progress."""

    def __init__(self, patience: float = _PATIENCE, every: float = _EVERY) -> None:
        self._patience, self._every = patience, every
        self._lock = threading.Lock()
        self._now: WorkProgress | None = None
        self._began = 0.0
        self._drawn = False
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self.hushed = False
        """Whether to show nothing because a program reads the output."""

    def tell(self, progress: WorkProgress) -> None:
        """Report the current progress."""
        if self.hushed or not sys.stderr.isatty():
            return
        with self._lock:
            self._now = progress
            if self._thread is None:
                self._began, self._ended = time.monotonic(), threading.Event()
                self._thread = threading.Thread(target=self._run, args=(self._ended,), daemon=True)
                self._thread.start()

    def wipe(self) -> None:
        """Remove the bar, at the end or before other output."""
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
                    sys.stderr.write(
                        f"\r\033[K{bar_text(self._now, time.monotonic() - self._began, columns_of_stderr())}"
                    )
                    sys.stderr.flush()
                    self._drawn = True
            wait = self._every


BAR = ProgressBar()
"""The bar of this process: there is only one terminal."""


# --- Printing laid-out lines, in color if wanted

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


# --- Confirmation before something is removed

_YES, _NO = frozenset({"y", "yes"}), frozenset({"n", "no", ""})


def confirm(what: str, yes: bool, details: str = "") -> None:
    """Continue only if the user agrees to ``what``, a sentence, after reading the ``details``.

    Asks on a terminal. Raises Refused without one, as a script must not hang.
    """
    BAR.wipe()
    if yes:
        return
    asks = sys.stdin is not None and sys.stdin.isatty()
    if details and (asks or not BAR.hushed):  # a program that reads JSON gets nothing else
        click.echo(visible(details, styled=True), err=True)
    if not asks:
        raise Refused(
            f"Nothing was done, as nobody could be asked: {what}", hint="Add --yes to do it, or --dry-run to see more."
        )
    click.echo(visible(what), err=True)
    if not _said_yes():
        click.echo("Nothing was changed.", err=True)
        raise click.exceptions.Exit(NOT_DONE)


def _said_yes() -> bool:
    """The answer. Raises Abort if the terminal was closed.

    Does not use input(), like click.confirm: it loses a Ctrl-C that arrives during a flush and keeps waiting.
    """
    while True:
        click.echo("Go on? [y/N]: ", nl=False, err=True)
        line = sys.stdin.readline()
        if not line:
            raise click.Abort
        answer = line.strip().lower()
        if answer in _YES | _NO:
            return answer in _YES


# --- Printing the result of a merge, cherry-pick or revert

CONFLICT = 12
"""Exit code of a dry run with conflicts, the same as that of the error in a real run."""


def report(output: Output, result: MergeResult) -> int:
    """Print a result; returns the exit code."""
    told = result.said("shell")
    output.show(told.as_record(), painted(output, told.lines()))
    return exit_code(result)


def exit_code(result: MergeResult) -> int:
    """The exit code of a verb with this result."""
    return CONFLICT if result.conflicts else 0
