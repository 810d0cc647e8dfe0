"""Says what a merge, a cherry-pick or a revert did, or would do."""

from __future__ import annotations

from collections.abc import Iterator

from lance_spark.cli.output import Output, counted
from lance_spark.history.text import readable
from lance_spark.replay.plan import MergeResult, Summary

CONFLICT = 12
"""Exit code of a dry run that found conflicts: that of the error which the real run ends with."""


def report(output: Output, result: MergeResult) -> int:
    """Print a result, and return the exit code."""
    output.show(result.as_record(), "\n".join(replay_lines(output, result)))
    return exit_code(result)


def exit_code(result: MergeResult) -> int:
    """What a verb with this result ends with."""
    return CONFLICT if result.conflicts else 0


def replay_lines(output: Output, result: MergeResult) -> Iterator[str]:
    """The result in words."""
    if result.up_to_date:
        yield f"Already up to date: {result.into} has everything of {result.source}."
    elif result.conflicts:
        yield output.paint(f"{result.source} cannot be combined with {result.into}:", fg="red")
        for conflict in result.conflicts:
            yield f"  - {conflict}"
            yield from (f"      {row}" for row in conflict.rows)
    else:
        yield _headline(result)
        yield f"  {rows_text(output, result.summary)}"
    yield from further_lines(result)


def further_lines(result: MergeResult) -> Iterator[str]:
    """Notes, and what became of indexes."""
    yield from (f"  note: {note}" for note in result.notes)
    if result.indexes_carried:
        yield f"  indexes taken over: {', '.join(result.indexes_carried)}"
    if result.indexes_missing:
        yield f"  indexes to be made on {result.into} if they are wanted: {', '.join(result.indexes_missing)}"


def _headline(result: MergeResult) -> str:
    forward = result.fast_forward and result.action == "merge"
    how = "fast-forward" if forward else f"since {result.base}"
    if result.version is None:
        return f"{result.action} of {result.source} into {result.into} would be one version ({how}):"
    return f"{result.action} of {result.source}: {result.into}@{result.version} ({how})"


def rows_text(output: Output, summary: Summary) -> str:
    """Rows, files and columns, in one line."""
    parts = [
        output.paint(f"+{summary.rows_added:,}", fg="green")
        + " "
        + output.paint(f"-{summary.rows_deleted:,}", fg="red")
        + " rows",
        f"{counted(summary.files, 'file')} copied, {readable(summary.bytes)}",
    ]
    parts += [f"new columns: {', '.join(summary.columns_added)}"] if summary.columns_added else []
    parts += [f"dropped columns: {', '.join(summary.columns_dropped)}"] if summary.columns_dropped else []
    return "; ".join(parts)
