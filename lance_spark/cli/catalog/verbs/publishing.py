"""The verbs that bring branches of the whole lake to main: ``diff``, ``merge``, ``log`` and ``recover``."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from lance_spark.cli.catalog.session import CatalogSession
from lance_spark.cli.output import CONFLICT, Output, age
from lance_spark.cli.pages import html_option
from lance_spark.cli.program import dry_run_option, options_of, verb
from lance_spark.core.declared import typed_at
from lance_spark.core.records.reflog import said
from lance_spark.core.refs import MAIN
from lance_spark.core.texts import counted
from lance_spark.errors import InvalidOption
from lance_spark.merge.option_rules import PREFERENCE, MergeOptions, PublishOptions

if TYPE_CHECKING:
    from lance_spark.lake.report import LakeChange, Publish


@verb("diff")
@click.argument("name", metavar="[BRANCH]", required=False)
@html_option
@click.pass_obj
def diff(session: CatalogSession, name: str | None, html: str | None) -> None:
    """Show what a branch of the whole catalog changed.

    By table, since the branch began or since its last merge. Rewritten rows count as removed and added. BRANCH is the
    one that is checked out here unless you name another.
    """
    from lance_spark.lake.branches import diff_branch

    here = MAIN if session.remembered is None else session.remembered.branch
    name = here if name is None else name
    if name == MAIN:
        raise InvalidOption(
            "Main has nothing to compare: diff shows what a branch changed.", hint="lance-catalog diff BRANCH"
        )
    found = diff_branch(session.lake, name, session.engine)
    if html is not None:
        from lance_spark.cli.pages import written
        from lance_spark.storage.small_files import write_report
        from lance_spark.ui.pages import lake_diff_file

        write_report(html, lake_diff_file(session.lake.uri, found), session.storage)
        session.output.note(written(html))
    rows = [
        (each.name, f"{each.change} from {each.before}" if each.before else each.change, *_counts(each))
        for each in found.changes
    ]
    header = ("name", "change", "rows added", "rows removed")
    text = session.output.table(header, rows, right=(2, 3)) if rows else ""
    if not rows:
        session.output.note(f"Branch '{name}' has changed nothing.")
    session.show({"branch": name, "changes": [_change_json(each) for each in found.changes]}, text)


def _counts(change: LakeChange) -> tuple[str, str]:
    return ("", "") if change.kind == "namespace" else (f"{change.rows_added:,}", f"{change.rows_removed:,}")


def _change_json(change: LakeChange) -> dict[str, Any]:
    names = ("name", "kind", "change", "rows_added", "rows_removed", "before")
    return {name: getattr(change, name) for name in names}


@verb("merge")
@click.argument("name", metavar="BRANCH")
@click.option("-m", "--message", metavar="TEXT", help="A message for the log.")
@dry_run_option
@options_of(MergeOptions, *PREFERENCE)
@click.pass_obj
def merge(session: CatalogSession, /, name: str, message: str | None, dry_run: bool, **given: Any) -> int:
    """Merge a branch of the whole catalog into main.

    Main gets the changed rows, and the new, dropped and renamed tables: of all tables, or of none. If the process dies,
    recover ends the work. The branch stays. With --dry-run, shows conflicts by table.
    """
    from lance_spark.lake.branches import merge_branch

    options = PublishOptions.of(typed_at("shell", MergeOptions, given, message=message, dry_run=dry_run))
    done = merge_branch(session.lake, name, session.engine, options).report
    said = {"ready": "would be merged", "up to date": "has nothing to merge"}.get(done.state, "was merged")
    if done.conflicts:
        said = "cannot be merged"
    lines = [f"Branch '{name}' {said}{_sum(done)}", *_lines(session.output, done)]
    session.did("merge", dry_run, "\n".join(lines), **publish_json(done))
    return CONFLICT if done.conflicts else 0


def _sum(done: Publish) -> str:
    changes = len(done.tables) + len(done.others)
    return f": {counted(changes, 'change')}." if changes else "."


def _lines(output: Output, done: Publish) -> Iterator[str]:
    for table in done.tables:
        after = "" if table.after is None else f" -> {table.after}"
        dropped = f"; dropped columns: {', '.join(table.columns_dropped)}" if table.columns_dropped else ""
        yield f"  {table.name}: main {table.before}{after}{dropped}"
    yield from (f"  {each}" for each in done.others)
    yield from (output.paint(f"  conflict: {each}", fg="red") for each in done.conflicts)


def publish_json(done: Publish) -> dict[str, Any]:
    """A publish for JSON."""
    tables = [
        {"name": each.name, "before": each.before, "after": each.after, "columns_dropped": [*each.columns_dropped]}
        for each in done.tables
    ]
    words = {"id": done.id, "branch": done.branch, "state": done.state, "made": done.made, "message": done.message}
    return {**words, "tables": tables, "changes": [*done.others], "conflicts": [*done.conflicts]}


@verb("log")
@click.option("-n", "--count", "limit", type=click.IntRange(min=1), default=20, help="How many; 20 by default.")
@click.pass_obj
def log(session: CatalogSession, limit: int) -> None:
    """List what was published, newest first.

    One line for each merge of a branch of the whole catalog, with its tables, and for each publish of branches of
    tables.
    """
    from lance_spark.lake import publish
    from lance_spark.lake.report import report

    found = [report(*each) for each in publish.latest(session.lake, limit)]
    rows = [
        (each.id, age(datetime.fromisoformat(each.made)), each.state, each.branch, _names(each), each.message)
        for each in found
    ]
    header = ("id", "made", "state", "branch", "tables", "message")
    text = session.output.table(header, rows) if rows else ""
    session.show({"publishes": [publish_json(each) for each in found]}, text)


_SHOWN = 5


def _names(done: Publish) -> str:
    names = [table.name for table in done.tables] + [f"{each.replace(': ', ' (', 1)})" for each in done.others]
    more = f", and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


@verb("reflog")
@click.argument("ref", required=False)
@click.pass_obj
def reflog(session: CatalogSession, ref: str | None) -> None:
    """List what happened to branches and tags, newest first.

    Those of the whole catalog: when they were created, merged, deleted and restored; with REF, those of one name.
    branch --restore and tag --restore undo a deletion for a week.
    """
    from lance_spark.core.texts import moment
    from lance_spark.lake.reflog import lake_reflog

    found = lake_reflog(session.lake, ref)
    rows = [(moment(each.at), each.kind, each.name, said(each)) for each in found.changes]
    text = session.output.table(("when", "kind", "name", "what"), rows) if rows else ""
    session.show({"ref": ref, "changes": [each.as_record() for each in found.changes]}, text)


@verb("recover")
@click.pass_obj
def recover(session: CatalogSession) -> None:
    """End a merge whose process died.

    All its tables get the changes, or none. Several processes may do so at the same time.
    """
    from lance_spark.lake import branches

    done = branches.recover(session.lake, session.engine)
    if done is None:
        session.show({"action": "recover", "publish": None}, "Nothing was left unfinished.")
        return
    found = done.report
    lines = [f"The merge of branch '{found.branch}' is {found.state}{_sum(found)}", *_lines(session.output, found)]
    session.show({"action": "recover", "publish": publish_json(found)}, "\n".join(lines))
