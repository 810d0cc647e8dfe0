"""The verbs that only look: ``log``, ``reflog``, ``show``, ``status``, ``diff`` and ``serve``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from lance_spark.cli.output import painted
from lance_spark.cli.pages import html_option, serve_options, serve_until_stopped
from lance_spark.cli.program import verb
from lance_spark.cli.session import Session
from lance_spark.core.ref_expressions import HEAD, is_range
from lance_spark.core.show import cut
from lance_spark.core.texts import counted
from lance_spark.errors import InvalidOption
from lance_spark.hints import said
from lance_spark.storage.followers import ORIGIN
from lance_spark.storage.resolving import resolve_range

if TYPE_CHECKING:
    from lance_spark.workspace.status import Status, Tracking


_SHOWN = 30


@verb("log", counts=True)
@click.argument("ref", required=False)
@click.option(
    "-n",
    "--max-count",
    "count",
    type=click.IntRange(min=0),
    metavar="N",
    default=_SHOWN,
    show_default=True,
    help="How many, also as -3; 0 for all.",
)
@click.option("--graph", is_flag=True, help="Draw forks and merges next to the versions.")
@click.option("--stat", is_flag=True, help="Show what each version added and removed.")
@click.option("--all", "everything", is_flag=True, help="Versions of all branches.")
@click.option("--oneline", is_flag=True, expose_value=False, help="One line for each version, as without it.")
@click.pass_obj
def log(session: Session, ref: str | None, count: int, graph: bool, stat: bool, everything: bool) -> None:
    """List versions, newest first.

    Lists the versions of REF or of the current branch, and of its parents before its fork. A version's manifest is read
    when its line is printed, so a long history costs nothing until -n reaches it.
    """
    from lance_spark.log.log import Scope, recent
    from lance_spark.log.print_rules import graph_lines, log_lines

    start = session.resolve(ref)
    scope: Scope = "all" if everything else "merged" if graph else "chain"
    history = recent(session.location, start, count or None, stat, scope)
    lines = map(cut, graph_lines(history.entries) if graph else log_lines(history.entries))
    session.output.show(
        {"versions": [entry.as_record() for entry in history], "note": history.note},
        painted(session.output, map(cut, lines)),
    )
    if history.note is not None:
        session.output.note(said(history.note, "shell"))
    if history.older:
        session.output.note(f"There are older versions: -n {2 * count}, or -n 0 for all.")


@verb("reflog", counts=True)
@click.argument("ref", required=False)
@click.option(
    "-n",
    "--max-count",
    "count",
    type=click.IntRange(min=0),
    default=20,
    metavar="N",
    help="Versions; 0: all.  [default: 20]",
)
@click.pass_obj
def reflog(session: Session, ref: str | None, count: int) -> None:
    """List what refs pointed at before, newest first.

    REF is a branch or tag. Without it, lists all recorded changes: moved or deleted tags, and deleted or restored
    branches. A branch's versions are listed as far as they exist. branch --restore and tag --restore undo a change.
    """
    from lance_spark.refs.reflog import list_changes

    found = list_changes(session.location, ref, count or None)
    grid = found.grid()
    text = session.output.table(grid.header, list(grid.rows)) if grid.rows else ""
    session.output.show({"dataset": session.location.uri, "ref": ref, "changes": found.as_records()}, text)


@verb("show")
@click.argument("ref", required=False)
@click.pass_obj
def show(session: Session, ref: str | None) -> None:
    """Show one version in full.

    Shows what made it and what it changed, its columns, indexes, files and base paths.
    """
    from lance_spark.log.log import show
    from lance_spark.log.print_rules import show_lines

    detail = show(session.location, session.resolve(ref))
    session.output.show(detail.as_record(), painted(session.output, show_lines(detail)))


@verb("status")
@click.pass_obj
def status(session: Session) -> None:
    """Show the state of the current branch.

    Shows its newest version, and how far it is ahead of and behind its parent branch and the branches of the same name
    at its remotes. Sends no request to remotes: their state is that of the last fetch.
    """
    from lance_spark.workspace.status import status

    now = status(session.location, session.branch)
    session.output.show(now.as_record(), "\n".join(_status_lines(session, now)))


def _status_lines(session: Session, now: Status) -> Iterator[str]:
    yield f"On branch {now.branch}, version {now.version}."
    if now.note is not None:
        yield said(now.note, "shell")
    if now.follows is not None:
        yield f"It follows {now.follows}: only a fetch writes to it."
        yield f"  lance-git switch {now.branch.partition('/')[2]}   goes to a branch of your own"
        return
    counterparts = [remote for remote in now.remotes if remote.is_counterpart(now.branch)]
    others = [remote for remote in now.remotes if remote not in counterparts]
    for remote in counterparts:
        yield from _remote_lines(remote, _arguments(remote))
    for remote in others:
        yield from _remote_lines(remote, None if counterparts else f" {remote.remote} {remote.branch}")
    if now.parent is None or now.parent in {remote.name for remote in now.remotes}:
        return
    yield (
        f"Ahead of {now.parent} by {counted(now.ahead, 'version')}, "
        f"behind by {counted(now.behind, 'version')} (last common version {now.common})."
    )
    if now.ahead:
        yield f"  {session.how_to_switch(now.parent)} && lance-git merge {now.branch}   publishes them"


def _arguments(remote: Tracking) -> str:
    return "" if remote.remote == ORIGIN else f" {remote.remote}"


def _remote_lines(remote: Tracking, arguments: str | None) -> Iterator[str]:
    """The state of the branch and what to do; ``arguments`` are those of a pull, None for no advice."""
    fetched = f"as last fetched (version {remote.version} there)"
    if not remote.ahead and not remote.behind:
        yield f"Up to date with {remote.name}, {fetched}."
        return
    if not remote.related:
        yield f"No common version with {remote.name} is known, {fetched}."
        return
    yield (
        f"Ahead of {remote.name} by {counted(remote.ahead, 'version')}, "
        f"behind by {counted(remote.behind, 'version')}, {fetched}."
    )
    if arguments is not None:
        verb, does = ("pull", "brings what is there") if remote.behind else ("push", "publishes them")
        yield f"  lance-git {verb}{arguments if remote.behind else _arguments(remote)}   {does}"


@verb("diff")
@click.argument("first", metavar="A..B|REF", required=False)
@click.argument("second", metavar="[REF]", required=False)
@click.option("--stat", is_flag=True, help="Only fragments and files; reads two manifests and nothing else.")
@click.option("--rows", is_flag=True, help="Compare the rows where files differ, and show examples.")
@click.option("--limit", type=click.IntRange(min=0), default=20, show_default=True, help="Examples of rows.")
@html_option
@click.pass_obj
def diff(session: Session, /, first: str | None, second: str | None, stat: bool, **given: Any) -> None:
    """Show the differences between two versions.

    That is what B has and A does not, and vice versa: columns, rows and files. A..B are two refs, such as main..exp;
    A B is the same. A single REF is compared with the current branch, as REF..HEAD. An updated row counts as one
    deleted and one added, unless --rows compares the rows by the table's key.
    """
    from lance_spark.changes.diff import diff
    from lance_spark.log.print_rules import diff_lines

    before, after = resolve_range(session.location, _range(first, second), session.branch)
    rows, limit = given["rows"], given["limit"]
    difference = diff(session.location, before, after, rows, limit, stat)
    if given["html"] is not None:
        from lance_spark.cli.pages import written
        from lance_spark.storage.small_files import write_report
        from lance_spark.ui.pages import diff_file

        write_report(given["html"], diff_file(session.location, difference, rows, limit), session.storage)
        session.output.note(written(given["html"]))
    session.output.show(difference.as_record(), painted(session.output, diff_lines(difference, stat)))


def _range(first: str | None, second: str | None) -> str:
    """The arguments as a range. Raises InvalidOption for none, and for more than two refs."""
    if first is None:
        raise InvalidOption(
            "Name what to compare: every write is a version, so nothing is uncommitted.",
            hint="lance-git diff REF compares the current branch with REF; lance-git diff A..B compares two refs.",
        )
    if second is None:
        return first if is_range(first) else f"{first}..{HEAD}"
    if is_range(first) or is_range(second):
        raise InvalidOption(f"'{first} {second}' is more than two refs.", hint="Write A..B, or A B.")
    return f"{first}..{second}"


@verb("serve")
@click.argument("uri", required=False)
@serve_options
@click.pass_obj
def serve(session: Session, /, uri: str | None, **given: Any) -> None:
    """Look at a dataset in the browser.

    Serves pages at this machine's loopback until Ctrl-C: the graph of versions, what each did, differences row by row,
    which branch changed a given row, and the review of a merge. They change nothing, unless --allow-merge is given.
    URI is the dataset; without it, the one of this directory or of -C.
    """
    location = session.location if uri is None else session.at(uri)
    serve_until_stopped(session.output, location, **given)
