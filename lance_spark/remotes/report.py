"""Results of a fetch, pull or push, real or dry: as values, lines and cards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from lance_spark.core import show
from lance_spark.core.refs import MAIN, PinnedVersion
from lance_spark.core.texts import counted
from lance_spark.merge.report import MergeResult

State = Literal["new", "updated", "up to date", "begun again", "gone"]
_WORDS = {"begun again": "begun again: the remote replaced the branch by a new one", "gone": "gone at the remote"}


@dataclass(frozen=True)
class Fetched(show.Recorded):
    branch: str
    into: str
    """The local branch that follows it."""
    state: State
    before: int | None = None
    """The version of the remote that was fetched last."""
    after: int | None = None
    """The remote's version that the local branch has now."""
    version: int | None = None
    """Number of that version in the local branch."""

    @property
    def row(self) -> tuple[str, str, str]:
        """Local branch, versions, what happened to it."""
        before, after = ("" if version is None else str(version) for version in (self.before, self.after))
        versions = f"{before} -> {after}" if before and after and before != after else after or before
        return self.into, versions, _WORDS.get(self.state, self.state)


@dataclass(frozen=True, repr=False)
class FetchResult(show.ShownInLines, show.Recorded):
    """What a fetch brought, or would bring."""

    remote: str
    uri: str
    branches: tuple[Fetched, ...]
    notes: tuple[str, ...] = ()
    dry_run: bool = False

    @property
    def news(self) -> tuple[Fetched, ...]:
        """The branches with something new, and those that are gone."""
        return tuple(branch for branch in self.branches if branch.state != "up to date")

    def of(self, branch: str | None) -> Fetched | None:
        """The result for a branch of the remote; None if it has no such branch."""
        return next((fetched for fetched in self.branches if fetched.branch == (branch or MAIN)), None)

    def as_record(self) -> dict[str, Any]:
        return {"action": "fetch", **super().as_record()}

    def lines(self) -> Iterator[show.Line]:
        """What is new, as a table; one line if nothing is."""
        news = self.news
        if news:
            yield show.said_of_places(
                f"{'Would fetch' if self.dry_run else 'Fetched'} from {self.remote} ({self.uri}):"
            )
            yield from show.table_lines(("branch", "version", ""), [branch.row for branch in news])
        else:
            yield show.said(f"{self.remote} has nothing new ({counted(len(self.branches), 'branch', 'branches')}).")
        yield from (
            show.said(f"Forget it: lance-git branch -d {branch.into}") for branch in news if branch.state == "gone"
        )
        yield from note_lines(self.notes)

    def _card(self) -> show.Card:
        did = "would bring" if self.dry_run else "brought"
        news = ", ".join(branch.into for branch in self.news) or "nothing new"
        grid = show.Grid(("branch", "version", "state"), tuple(branch.row for branch in self.branches))
        return show.Card(
            type(self).__name__, f"{self.remote} {self.uri}", f"{did} {news}", grids=(grid,), notes=self.notes
        )


@dataclass(frozen=True, repr=False)
class PullResult(show.ShownInLines, show.Recorded):
    fetched: FetchResult
    merged: MergeResult
    kept: str | None = None
    """The branch with the local rows that the remote lacks, if the branch was reset and had any."""

    def as_record(self) -> dict[str, Any]:
        record = {"action": "pull", "fetch": self.fetched.as_record(), "merge": self.merged.as_record()}
        return {**record, **({"kept": self.kept} if self.kept is not None else {})}

    def lines(self) -> Iterator[show.Line]:
        if self.fetched.news:
            yield from self.fetched.lines()
        else:
            yield from note_lines(self.fetched.notes)
        yield from self.merged.lines()
        if self.kept is not None:
            yield show.said(f"Your rows that the remote lacks are on branch '{self.kept}'.")

    def _card(self) -> show.Card:
        fetched, merged = self.fetched._card(), self.merged._card()
        notes = (*fetched.notes, *merged.notes)
        return show.Card(
            type(self).__name__, fetched.where, merged.summary, merged.facts, (*fetched.grids, *merged.grids), notes
        )


@dataclass(frozen=True, repr=False)
class PushedTag(show.ShownInLines, show.Recorded):
    """A tag that was put on the same rows at a remote, or would be."""

    remote: str
    uri: str
    tag: str
    at: PinnedVersion
    """The remote's version."""
    created: bool
    """False if the remote had it already."""
    dry_run: bool = False

    def as_record(self) -> dict[str, Any]:
        return {"action": "push", **super().as_record(), "at": str(self.at)}

    def lines(self) -> Iterator[show.Line]:
        if not self.created:
            yield show.said_of_places(f"{self.remote} ({self.uri}) has tag '{self.tag}' already, at {self.at}.")
            return
        done = "Would push" if self.dry_run else "Pushed"
        yield show.said_of_places(f"{done} tag '{self.tag}' to {self.remote} ({self.uri}), at {self.at}.")

    def _card(self) -> show.Card:
        said = "already there" if not self.created else "would be put" if self.dry_run else "put"
        return show.Card(type(self).__name__, f"{self.remote} {self.uri}", f"tag '{self.tag}' {said} at {self.at}")


@dataclass(frozen=True, repr=False)
class PushResult(show.ShownInLines, show.Recorded):
    """What a push sent to the remote, or would send."""

    remote: str
    uri: str
    branch: str
    created: bool
    """Whether the branch is new at the remote; for main, whether the dataset is."""
    replayed: MergeResult | None
    """None for a dry run that would create the branch."""
    notes: tuple[str, ...] = ()
    dry_run: bool = False

    @property
    def version(self) -> int | None:
        """The new version at the remote; None if it had everything."""
        return None if self.replayed is None else self.replayed.version

    def as_record(self) -> dict[str, Any]:
        return {"action": "push", **super().as_record(), "version": self.version}

    def lines(self, alone: bool = True) -> Iterator[show.Line]:
        """What the remote has now, or would have; not ``alone`` if tags that were pushed with the branch follow."""
        done = self.replayed
        if self.created:
            what = "The dataset" if self.branch == MAIN else f"Branch '{self.branch}'"
            yield show.said_of_places(f"{what} {self._made} at {self.remote} ({self.uri}).")
        if done is None:
            yield show.said("Its rows and files are counted when it is pushed.")
        elif done.up_to_date:
            yield show.said("Everything up to date." if alone else f"Branch '{self.branch}' is up to date.")
        else:
            if self.dry_run:
                yield show.said(f"Would push {done.source} to {self.remote}, as one version of '{self.branch}':")
            else:
                yield show.said(f"Pushed {done.source} to {self.remote}, where it is {self.branch}@{done.version}.")
            yield [(show.PLAIN, f"  {counted(done.summary.versions, 'version')}; "), *done.summary.line()]
        if done is not None:
            yield from done.further_lines()
        yield from note_lines(self.notes)

    @property
    def _made(self) -> str:
        return "would be created" if self.dry_run else "was created"

    def _card(self) -> show.Card:
        where = f"{self.remote} {self.uri}"
        created = f"branch '{self.branch}' {self._made}" if self.created else ""
        if self.replayed is None:
            return show.Card(type(self).__name__, where, created, notes=self.notes)
        done = replace(self.replayed, action="push")._card()
        summary = "; ".join(part for part in (created, done.summary) if part)
        versions = counted(self.replayed.summary.versions, "version")
        facts = (("created", created), ("versions", versions), *done.facts)
        return show.Card(type(self).__name__, where, summary, facts, done.grids, (*self.notes, *done.notes))


def note_lines(notes: Iterable[str]) -> Iterator[show.Line]:
    return (show.said_of_places(f"note: {note}") for note in notes)
