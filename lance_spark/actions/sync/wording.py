"""Says what a fetch or a push did, or would do: as lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from lance_spark.show.lines import PLAIN, Line, said, said_of_places
from lance_spark.show.tables import table_lines
from lance_spark.show.words import counted

if TYPE_CHECKING:
    from lance_spark.actions.sync.result import Fetched, FetchResult, PullResult, PushResult

_WORDS = {"begun anew": "begun anew: the remote's branch is another one than before", "gone": "gone at the remote"}


def fetched_lines(result: FetchResult) -> Iterator[Line]:
    """What is new, as a table; one line if nothing is."""
    news = result.news
    if news:
        yield said_of_places(f"{'Would fetch' if result.dry_run else 'Fetched'} from {result.remote} ({result.uri}):")
        yield from table_lines(("branch", "version", ""), [fetched_row(found) for found in news])
    else:
        yield said(f"{result.remote} has nothing new ({counted(len(result.branches), 'branch', 'branches')}).")
    yield from (said(f"Forget it: lance-git branch -d {found.into}") for found in news if found.state == "gone")
    yield from note_lines(result.notes)


def fetched_row(found: Fetched) -> tuple[str, str, str]:
    """Local branch, versions, what became of it."""
    before, after = ("" if version is None else str(version) for version in (found.before, found.after))
    versions = f"{before} -> {after}" if before and after and before != after else after or before
    return found.into, versions, _WORDS.get(found.state, found.state)


def pushed_lines(result: PushResult) -> Iterator[Line]:
    """What the remote has now, or would have."""
    done = result.replayed
    if result.created:
        made = "would be created" if result.dry_run else "was created"
        yield said_of_places(f"Branch '{result.branch}' {made} at {result.remote} ({result.uri}).")
    if done is None:
        yield said("Its rows and files are counted when it is pushed.")
    elif done.up_to_date:
        yield said("Everything up to date.")
    else:
        if result.dry_run:
            yield said(f"Would push {done.source} to {result.remote}, as one version of '{result.branch}':")
        else:
            yield said(f"Pushed {done.source} to {result.remote}, where it is {result.branch}@{done.version}.")
        yield [(PLAIN, f"  {counted(done.summary.versions, 'version')}; "), *done.summary.line()]
    if done is not None:
        yield from done.further_lines()
    yield from note_lines(result.notes)


def pulled_lines(result: PullResult) -> Iterator[Line]:
    """What was fetched, if anything was, and merged."""
    if result.fetched.news:
        yield from fetched_lines(result.fetched)
    yield from result.merged.lines()


def note_lines(notes: Iterable[str]) -> Iterator[Line]:
    """What the user has to know besides."""
    return (said_of_places(f"note: {note}") for note in notes)
