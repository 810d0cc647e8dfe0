"""What a fetch, a pull or a push did, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from lance_spark.refs.names import MAIN

State = Literal["new", "updated", "up to date", "begun anew", "gone"]


@dataclass(frozen=True)
class Fetched:
    """What became of one branch of the remote."""

    branch: str
    into: str
    """The local branch that follows it."""
    state: State
    before: int | None = None
    """The remote's version that was fetched last."""
    after: int | None = None
    """The remote's version that the local branch has now."""
    version: int | None = None
    """Number of that version in the local branch."""


@dataclass(frozen=True)
class FetchResult:
    """What a fetch brought, or would bring."""

    remote: str
    uri: str
    branches: tuple[Fetched, ...]
    notes: tuple[str, ...] = ()
    dry_run: bool = False

    def of(self, branch: str | None) -> Fetched | None:
        """What became of a branch of the remote; None where it has no such branch."""
        return next((found for found in self.branches if found.branch == (branch or MAIN)), None)

    def as_record(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "action": "fetch",
            "remote": self.remote,
            "uri": self.uri,
            "branches": [dict(vars(found)) for found in self.branches],
            "notes": list(self.notes),
            "dry_run": self.dry_run,
        }
