"""The progress of a verb as one line that changes: in a notebook below the cell, in a terminal on stderr."""

from __future__ import annotations

import os
import sys
from html import escape
from importlib import import_module
from typing import Any

from lance_spark.core.calls import answering
from lance_spark.core.texts import bar_of, cut_to


def columns_of_stderr() -> int | None:
    """One less than the terminal has, as some go to the next line behind the last one; None if it does not say."""
    try:
        return max(0, os.get_terminal_size(sys.stderr.fileno()).columns - 1) or None
    except (OSError, ValueError, AttributeError):
        return None


def text_of(progress: object, columns: int | None = None) -> str:
    """``compare [######------------------] 10 of 40``; the first line of what cannot be counted."""
    stage, done, total = (getattr(progress, name, None) for name in ("stage", "done", "total"))
    if isinstance(stage, str) and isinstance(done, int) and isinstance(total, int) and total > 1:
        return bar_of(stage, done, total, f"{done:,} of {total:,}", columns)
    return cut_to(str(progress).partition("\n")[0], columns)


class NotebookBar:
    """Called with each progress. Each cell of a notebook has a line of its own; other outputs show nothing."""

    def __init__(self) -> None:
        self._cell: int | None = None
        self._shown: Any = None

    def __call__(self, progress: object) -> None:
        text, shell = text_of(progress), _notebook()
        if shell is None:
            if sys.stderr is not None and sys.stderr.isatty():
                sys.stderr.write(f"\r\033[K{text_of(progress, columns_of_stderr())}")
                sys.stderr.flush()
            return
        data = {"text/plain": text, "text/html": f"<pre style='margin:0'>{escape(text)}</pre>"}
        if self._shown is not None and self._cell == shell.execution_count:
            self._shown.update(data, raw=True)
            return
        display = import_module("IPython.display").display
        self._cell, self._shown = shell.execution_count, display(data, raw=True, display_id=True)


def _notebook() -> Any:
    """IPython's shell, if it has a page to show things on; never imports IPython by itself."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return shell if getattr(shell, "kernel", None) is not None else None


_BAR = NotebookBar()


@answering
def progress_bar(progress: object) -> None:
    """For every argument ``progress``, as in ``t.fsck(progress=progress_bar)``: one line that changes.

    Below the cell of a notebook, on stderr of a terminal, and nowhere else. ``progress`` is what the verb reports.
    """
    _BAR(progress)
