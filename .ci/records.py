"""How runs of hours ended, by the state of the code: what .ci/night.py and .ci/versions.py remember, in a file of git.

A run that takes hours is done in pieces, by several people on several days. A result counts for the files that it
depends on, so that a change repeats what it may have broken and nothing else.
"""

from __future__ import annotations

import datetime
import json
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Any

ROOT = Path(__file__).parent.parent
UNKNOWN = "uncommitted"
"""The state of files with uncommitted changes: nobody can come back to it, so it equals no other."""
_WRITING = Lock()

Result = dict[str, Any]


@dataclass(frozen=True)
class Code:
    """The files of the checkout, by path, and those with uncommitted changes."""

    files: dict[str, str]
    changed: frozenset[str]

    def state(self, counts: Callable[[str], bool]) -> str:
        """The state of the files that count, as 12 hexadecimal digits, or UNKNOWN."""
        if any(map(counts, self.changed)):
            return UNKNOWN
        kept = [f"{path} {blob}" for path, blob in sorted(self.files.items()) if counts(path)]
        return sha256("\n".join(kept).encode()).hexdigest()[:12]


def code() -> Code:
    """The code of this checkout. Raises CalledProcessError outside of a git repository."""
    listed = [line.partition("\t") for line in _git("ls-tree", "-r", "-z", "HEAD").split("\0") if line]
    status = [line[3:] for line in _git("status", "--porcelain", "-z", "--no-renames", "-uall").split("\0") if line]
    return Code({path: blob.split()[2] for blob, _, path in listed}, frozenset(status))


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout


@dataclass(frozen=True)
class Records:
    """A file of results by name, in the order of ``names``."""

    file: Path
    names: Sequence[str]

    def read(self) -> dict[str, Result]:
        """All results; those of names that are no longer there are left out."""
        found: dict[str, Result] = json.loads(self.file.read_text()) if self.file.exists() else {}
        return {name: found[name] for name in self.names if name in found}

    def store(self, name: str, result: Result) -> None:
        """Add or replace one result."""
        with _WRITING:
            found = {**self.read(), name: result}
            kept = {name: found[name] for name in self.names if name in found}
            new = self.file.with_suffix(".new")
            new.write_text(json.dumps(kept, indent=1) + "\n")
            new.replace(self.file)

    def passed(self, name: str, state: str) -> bool:
        """Whether the last run passed, and on this state."""
        found = self.read().get(name, {})
        return state != UNKNOWN and found.get("state") == state and bool(found["passed"])


def last_line(log: Path) -> str:
    """What a run said at its end."""
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1].strip("= ") if lines else ""


def today() -> str:
    """The day in UTC."""
    return datetime.datetime.now(datetime.timezone.utc).date().isoformat()
