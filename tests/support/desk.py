"""Somebody who works through a page: begins in an empty directory, and pastes one example after the other."""

from __future__ import annotations

from pathlib import Path

from support import shells
from support.pages import examples, faults

OF_THE_SESSION = {"metastore_db", "derby.log", "spark-warehouse", "artifacts"}
"""What a Spark shell keeps in the directory in which it was started."""


class Desk:
    """One directory, and the shells that were started in it. Spark's is started once, and made as new for each page."""

    def __init__(self, place: Path, remote: bool = False) -> None:
        self._work = place / "home"
        self._done = place / "done"
        self._remote = remote
        self._pyspark: shells.Shell | None = None
        self._work.mkdir()
        self._done.mkdir()

    def type(self, page: Path, skip: tuple[str, ...] = ()) -> list[str]:
        """Paste a page's examples until one fails, and say what is not as the page says."""
        open_shells: dict[str, shells.Shell] = {}
        found = []
        try:
            for example in examples(page):
                if example.mark in skip:
                    continue
                shell = open_shells.get(example.shell) or self._opened(example.shell)
                open_shells[example.shell] = shell
                said = shell.type([*example.lines, ""])
                said = [text.replace(str(self._work), "/home/me") for text in said]
                found = faults(example, said)
                if found:
                    break
        finally:
            for kind, shell in open_shells.items():
                if kind != "pyspark":
                    shell.close()
            self._clear(page.stem)
        return found

    def close(self) -> None:
        """End Spark's shell."""
        if self._pyspark is not None:
            self._pyspark.close()

    def _opened(self, kind: str) -> shells.Shell:
        if kind == "bash":
            return shells.bash(self._work)
        if kind == "python":
            return shells.python(self._work)
        if self._pyspark is None:
            self._pyspark = shells.pyspark(self._work, self._remote)
        else:
            said = self._pyspark.type(['__import__("support.fresh_names").fresh_names.again(globals())'])
            assert not "".join(said), said
        return self._pyspark

    def _clear(self, page: str) -> None:
        done = self._done / page
        done.mkdir()
        for path in self._work.iterdir():
            if path.name not in OF_THE_SESSION:
                path.rename(done / path.name)
