"""What a fetch, a pull or a push did, as values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from lance_spark.actions.sync.wording import fetched_lines, fetched_row, pulled_lines, pushed_lines
from lance_spark.merge.result import MergeResult
from lance_spark.refs.names import MAIN
from lance_spark.show.card import Card, Grid, Shown
from lance_spark.show.lines import plain_text
from lance_spark.show.words import counted

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


@dataclass(frozen=True, repr=False)
class FetchResult(Shown):
    """What a fetch brought, or would bring."""

    remote: str
    uri: str
    branches: tuple[Fetched, ...]
    notes: tuple[str, ...] = ()
    dry_run: bool = False

    @property
    def news(self) -> tuple[Fetched, ...]:
        """The branches of which something was fetched, or that are gone."""
        return tuple(found for found in self.branches if found.state != "up to date")

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

    def __str__(self) -> str:
        """As ``lance-git fetch`` says it."""
        return plain_text(fetched_lines(self))

    def _card(self) -> Card:
        did = "would bring" if self.dry_run else "brought"
        news = ", ".join(found.into for found in self.news) or "nothing new"
        grid = Grid(("branch", "version", "state"), tuple(fetched_row(found) for found in self.branches))
        return Card(type(self).__name__, f"{self.remote} {self.uri}", f"{did} {news}", grids=(grid,), notes=self.notes)


@dataclass(frozen=True, repr=False)
class PullResult(Shown):
    """What a pull brought."""

    fetched: FetchResult
    merged: MergeResult

    def as_record(self) -> dict[str, Any]:
        """As JSON values."""
        return {"action": "pull", "fetch": self.fetched.as_record(), "merge": self.merged.as_record()}

    def __str__(self) -> str:
        """As ``lance-git pull`` says it."""
        return plain_text(pulled_lines(self))

    def _card(self) -> Card:
        fetched, merged = self.fetched._card(), self.merged._card()
        notes = (*fetched.notes, *merged.notes)
        return Card(
            type(self).__name__, fetched.where, merged.summary, merged.facts, (*fetched.grids, *merged.grids), notes
        )


@dataclass(frozen=True, repr=False)
class PushResult(Shown):
    """What a push gave the remote, or would give it."""

    remote: str
    uri: str
    branch: str
    created: bool
    """Whether the remote did not have the branch before."""
    replayed: MergeResult | None
    """None for a dry run that would create the branch."""
    notes: tuple[str, ...] = ()
    dry_run: bool = False

    @property
    def version(self) -> int | None:
        """The version at the remote; None if it had everything."""
        return None if self.replayed is None else self.replayed.version

    def as_record(self) -> dict[str, Any]:
        """As JSON values."""
        replayed = None if self.replayed is None else self.replayed.as_record()
        return {"action": "push", **vars(self), "replayed": replayed, "version": self.version, "notes": [*self.notes]}

    def __str__(self) -> str:
        """As ``lance-git push`` says it."""
        return plain_text(pushed_lines(self))

    def _card(self) -> Card:
        where = f"{self.remote} {self.uri}"
        made = "would be created" if self.dry_run else "was created"
        created = f"branch '{self.branch}' {made}" if self.created else ""
        if self.replayed is None:
            return Card(type(self).__name__, where, created, notes=self.notes)
        done = replace(self.replayed, action="push")._card()
        summary = "; ".join(part for part in (created, done.summary) if part)
        versions = counted(self.replayed.summary.versions, "version")
        facts = (("created", created), ("versions", versions), *done.facts)
        return Card(type(self).__name__, where, summary, facts, done.grids, (*self.notes, *done.notes))
