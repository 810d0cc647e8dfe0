"""Says what a merge, a cherry-pick or a revert did, or would do: as lines, and as a card. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lance_spark.show.card import Card, Grid
from lance_spark.show.lines import MINUS, PLAIN, PLUS, Line, plain_text, said, said_of_places
from lance_spark.show.words import counted, readable

if TYPE_CHECKING:
    from lance_spark.merge.plan import MergeResult, Summary


def replay_lines(result: MergeResult) -> Iterator[Line]:
    """The result in words."""
    if result.up_to_date:
        yield said(f"Already up to date: {result.into} has everything of {result.source}.")
    elif result.conflicts:
        yield [(MINUS, f"{result.source} cannot be combined with {result.into}:")]
        for conflict in result.conflicts:
            yield said(f"  - {conflict}")
            yield from (said(f"      {row}") for row in conflict.rows)
    else:
        yield said(_headline(result))
        yield [(PLAIN, "  "), *rows_line(result.summary)]
    yield from further_lines(result)


def further_lines(result: MergeResult) -> Iterator[Line]:
    """Notes, and what became of indexes."""
    yield from (said_of_places(f"  note: {note}") for note in result.notes)
    yield from (said(f"  {name}: {names}") for name, names in _indexes(result) if names)


def rows_line(summary: Summary) -> Line:
    """Rows, files and columns, in one line."""
    line: Line = [(PLUS, f"+{summary.rows_added:,}"), (PLAIN, " "), (MINUS, f"-{summary.rows_deleted:,}")]
    parts = [f" rows; {counted(summary.files, 'file')} copied, {readable(summary.bytes)}"]
    parts += [f"new columns: {', '.join(summary.columns_added)}"] if summary.columns_added else []
    parts += [f"dropped columns: {', '.join(summary.columns_dropped)}"] if summary.columns_dropped else []
    return [*line, (PLAIN, "; ".join(parts))]


def replay_card(result: MergeResult) -> Card:
    """The result as facts, and its conflicts as a table."""
    brought = plain_text([rows_line(result.summary)])
    outcome = _outcome(result)
    facts = {
        "from": result.source,
        "into": result.into if result.version is None else f"{result.into}@{result.version}",
        "since": result.base,
        "outcome": outcome,
        "changes": "" if result.up_to_date or result.conflicts else brought,
        **dict(_indexes(result)),
    }
    rows = tuple(
        (found.reason, found.ours, found.theirs, ", ".join(map(str, found.fragments)), "; ".join(found.rows))
        for found in result.conflicts
    )
    grid = Grid(("conflict", "ours", "theirs", "fragments", "rows"), rows)
    summary = f"{result.action} of {result.source} into {facts['into']}, {outcome}"
    return Card(type(result).__name__, "", summary, tuple(facts.items()), (grid,), result.notes)


def _outcome(result: MergeResult) -> str:
    if result.up_to_date:
        return "already up to date"
    if result.conflicts:
        return counted(len(result.conflicts), "conflict")
    if result.version is None:
        return "would be one version"
    return "fast-forward" if _is_forward(result) else "one version"


def _is_forward(result: MergeResult) -> bool:
    return result.fast_forward and result.action == "merge"


def _headline(result: MergeResult) -> str:
    how = "fast-forward" if _is_forward(result) else f"since {result.base}"
    if result.version is None:
        return f"{result.action} of {result.source} into {result.into} would be one version ({how}):"
    return f"{result.action} of {result.source}: {result.into}@{result.version} ({how})"


def _indexes(result: MergeResult) -> tuple[tuple[str, str], ...]:
    return (
        ("indexes taken over", ", ".join(result.indexes_carried)),
        (f"indexes to be made on {result.into} if they are wanted", ", ".join(result.indexes_missing)),
    )
