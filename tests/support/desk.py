"""Somebody who works through a page: begins in an empty directory, and pastes one example after the other."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from support import shells
from support.pages import Example, examples, faults

_OF_THE_SESSION = {"metastore_db", "derby.log", "spark-warehouse", "artifacts"}
"""What a Spark shell keeps in the directory in which it was started."""
_OVERWRITTEN = re.compile(r"[^\n]*\r(?!\n)")
_NAMES = '__import__("support.fresh_names").fresh_names'


class Desk:
    """One directory, and the shells that are started in it. Spark's is started once, and made as new for each page.

    ``remote`` is the address of a server of Spark Connect.
    """

    def __init__(self, place: Path, remote: str = "") -> None:
        self._work, self._done, self.remote = place / "home", place / "done", remote
        self._pyspark: shells.Shell | None = None
        self._work.mkdir()
        self._done.mkdir()

    def type(self, page: Path, then: str = "", without: frozenset[str] = frozenset()) -> list[str]:
        """Paste a page's examples until one is not as the page says; what is not.

        ``then`` is typed into Python at the end; examples with a mark of ``without`` are left out.
        """
        open_shells: dict[str, shells.Shell] = {}
        typed = [*examples(page), *([Example("python", "", tuple(then.splitlines()), 0)] if then else ())]
        try:
            for example in typed:
                if example.mark in without:
                    continue
                if example.shell not in open_shells:
                    open_shells[example.shell] = self._opened(example.shell)
                found = faults(example, self._said(open_shells[example.shell], example))
                if found:
                    return found
            return []
        finally:
            for kind, shell in open_shells.items():
                if kind != "pyspark":
                    shell.close()
            self._clear(page.stem)

    def close(self) -> None:
        """End Spark's shell."""
        if self._pyspark is not None:
            self._pyspark.close()

    def _said(self, shell: shells.Shell, example: Example) -> Sequence[str]:
        if example.mark == "needs torch":
            self._prepare(shell, f"{_NAMES}.with_torch()")
        end = [""] if example.language == "python" else []  # which ends a loop or a function
        # A bar of progress, which Spark Connect draws where a query takes long, is not there any more at its end.
        shown = [_OVERWRITTEN.sub("", text) for text in shell.type([*example.lines, *end])]
        return [text.replace(str(self._work), "/home/me") for text in shown]

    def _opened(self, kind: str) -> shells.Shell:
        if kind == "bash":
            return shells.bash(self._work)
        if kind == "python":
            return shells.python(self._work)
        if self._pyspark is None:
            self._pyspark = shells.pyspark(self._work, self.remote)
        else:
            self._prepare(self._pyspark, f"{_NAMES}.again(globals())")
        return self._pyspark

    def _prepare(self, shell: shells.Shell, line: str) -> None:
        (said,) = shell.type([line])
        assert not said, said

    def _clear(self, page: str) -> None:
        """Leave an empty directory: of what the session keeps, its own files stay."""
        done = self._done / page
        done.mkdir()
        for path in self._work.iterdir():
            if path.name not in _OF_THE_SESSION:
                path.rename(done / path.name)
