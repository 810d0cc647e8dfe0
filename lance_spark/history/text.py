"""Lays out logs, versions and diffs as lines of text. A line is a list of (style, text); printing adds colour."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from lance_spark.history.difference import ADDED, DELETED, Diff, RowExample, plain_row
from lance_spark.history.entries import LogEntry, VersionDetail
from lance_spark.history.fragments import Stat
from lance_spark.history.graph import GraphRow, draw
from lance_spark.refs.names import is_service_tag
from lance_spark.show.lines import BRANCH, CHANGE, FAINT, GRAPH, MINUS, PLAIN, PLUS, TAG, VERSION, Line
from lance_spark.show.tables import aligned
from lance_spark.show.words import counted, readable

_LONGEST_VALUE = 60


def log_lines(entries: Iterable[LogEntry]) -> Iterator[Line]:
    """A log, entry by entry as they come: a line for each, and one for its message and its stat if it has them."""
    for entry in entries:
        yield _head(entry)
        yield from (_indented(line) for line in _further(entry))


def graph_lines(entries: Iterable[LogEntry]) -> Iterator[Line]:
    """A log next to its graph."""
    rows = list(draw(entries))
    width = max((len(row.graph) for row in rows), default=0)
    for row in rows:
        if row.entry is None:
            yield [(GRAPH, row.graph)]
            continue
        yield [(GRAPH, _padded(row.graph, width)), (PLAIN, " "), *_head(row.entry)]
        yield from _beside(row, _further(row.entry), width)


def _beside(row: GraphRow, lines: Iterable[Line], width: int) -> Iterator[Line]:
    return ([(GRAPH, _padded(row.below, width)), (PLAIN, " "), *_indented(line)] for line in lines)


def _padded(text: str, width: int) -> str:
    return text.ljust(width)


def _head(entry: LogEntry) -> Line:
    line = [(VERSION, str(entry.pin)), *_names(entry), (PLAIN, f"  {happened(entry)}")]
    if entry.total_rows is not None:
        line.append((PLAIN, f"  {counted(entry.total_rows, 'row')}"))
    return [*line, (FAINT, f"  {entry.timestamp:%Y-%m-%d %H:%M:%S}")]


def happened(entry: LogEntry) -> str:
    """What made the version, and of what: ``merge (append) of exp@3``."""
    return entry.words if entry.source is None else f"{entry.words} of {entry.source}{_remote(entry)}"


def _remote(entry: LogEntry) -> str:
    """Where the source of a fetched version is: its number is not one of here."""
    source = (entry.source or "").rpartition("@")[0]
    if entry.action != "fetch" or not (entry.branch or "").endswith(f"/{source}"):
        return ""
    return f" at {(entry.branch or '').removesuffix(f'/{source}')}"


def _names(entry: LogEntry) -> Line:
    """Branches and tags at a version, in brackets; without the tags that protect what clones and merges read."""
    spans: Line = [(BRANCH, name) for name in entry.heads]
    spans += [(TAG, f"tag: {name}") for name in entry.tags if not is_service_tag(name)]
    spans += [(BRANCH, f"fork: {name}") for name in entry.forks if name not in entry.heads]
    if not spans:
        return []
    line: Line = [(PLAIN, " (")]
    for number, span in enumerate(spans):
        line += [(PLAIN, ", "), span] if number else [span]
    return [*line, (PLAIN, ")")]


def _further(entry: LogEntry) -> Iterator[Line]:
    if entry.message:
        yield from ([(PLAIN, line)] for line in entry.message.splitlines())
    if entry.stat is not None:
        yield stat_line(entry.stat)


def _indented(line: Line) -> Line:
    return [(PLAIN, "    "), *line]


def stat_line(stat: Stat) -> Line:
    """What a version added and removed."""
    parts: list[Line] = []
    if stat.rows_added is not None and stat.rows_removed is not None:
        parts.append(_both(f"{stat.rows_added:,}", f"{stat.rows_removed:,}", "rows"))
    parts.append(_both(f"{stat.files_added:,}", f"{stat.files_removed:,}", "files"))
    parts.append(_both(readable(stat.bytes_added), readable(stat.bytes_removed), ""))
    line: Line = []
    for number, part in enumerate(parts):
        line += [(PLAIN, ", "), *part] if number else part
    return line


def _both(added: str, removed: str, what: str) -> Line:
    spans: Line = [(PLUS, f"+{added}"), (PLAIN, " "), (MINUS, f"-{removed}")]
    return [*spans, (PLAIN, f" {what}")] if what else spans


def show_lines(detail: VersionDetail) -> Iterator[Line]:
    """One version in full."""
    yield from log_lines([detail.entry])
    yield []
    files = [
        counted(detail.fragments, "fragment"),
        f"{counted(detail.data_files, 'data file')}, {readable(detail.bytes)}",
    ]
    if detail.deletion_files:
        files.append(
            f"{counted(detail.deleted_rows, 'deleted row')} in {counted(detail.deletion_files, 'deletion file')}"
        )
    row_ids = ", stable row ids" if detail.stable_row_ids else ""
    facts = {
        "parents": ", ".join(map(str, detail.entry.parents)) or "none",
        "files": ", ".join(files),
        "format": f"{detail.storage_version or 'before 1.0'}{row_ids}",
    }
    yield from (_fact(name, value) for name, value in facts.items())
    yield from (_fact("base", base) for base in detail.bases)
    yield []
    rows = [(column.path, column.type, "" if column.nullable else "not null") for column in detail.columns]
    yield from _section("columns", rows)
    yield from _section("indexes", [(index.name, ", ".join(index.columns)) for index in detail.indexes])
    changes = [(each.key, f"{_value(each.before)} -> {_value(each.after)}") for each in detail.config_changes]
    yield from _section("config", changes)


def _fact(name: str, value: str) -> Line:
    return [(FAINT, f"{name:<8}"), (PLAIN, value)]


def _section(title: str, rows: Sequence[Sequence[str]]) -> Iterator[Line]:
    if rows:
        yield [(FAINT, title)]
        yield from ([(PLAIN, f"  {line}")] for line in aligned(rows))


def diff_lines(diff: Diff, stat_only: bool = False) -> Iterator[Line]:
    """A diff; with ``stat_only`` its last lines, which sum it up."""
    if not stat_only:
        yield [(VERSION, str(diff.before)), (PLAIN, " .. "), (VERSION, str(diff.after))]
        yield from _columns(diff)
        yield from _values(diff)
        for example in diff.examples:
            yield from _example(example)
    yield _summary(diff)
    yield [*stat_line(diff.stat)[_rows_end(diff.stat) :], (PLAIN, f", {_fragments(diff)}")]
    yield from ([(FAINT, f"note: {note}")] for note in diff.notes)


def _rows_end(stat: Stat) -> int:
    """Rows are in the summary already."""
    return 0 if stat.rows_added is None else 5


def _columns(diff: Diff) -> Iterator[Line]:
    for change in diff.columns:
        style, mark = {"added": (PLUS, "+"), "dropped": (MINUS, "-")}.get(change.kind, (CHANGE, "~"))
        said = change.after or change.before or ""
        if change.before is not None and change.after is not None:
            said = f"{change.kind}: {change.before} -> {change.after}"
        yield [(style, f"{mark} column {change.column}"), (PLAIN, f"  {said}")]


def _values(diff: Diff) -> Iterator[Line]:
    for values in diff.values:
        told = f"written again in {counted(values.fragments, 'fragment')}, {counted(values.rows, 'row')}"
        yield [(CHANGE, f"~ values of {values.column}"), (PLAIN, f"  {told}")]


def _example(example: RowExample) -> Iterator[Line]:
    if example.kind == ADDED:
        yield [(PLUS, f"+ {_row(example.after)}")]
    elif example.kind == DELETED:
        yield [(MINUS, f"- {_row(example.before)}")]
    else:
        before, after = plain_row(example.before) or {}, plain_row(example.after) or {}
        names = [name for name in after if name not in before or before[name] == after[name]]
        changed = [f"{name}: {_value(before[name])} -> {_value(after[name])}" for name in after if name not in names]
        same = [f"{name}: {_value(after[name])}" for name in names]
        yield [(CHANGE, f"~ {', '.join([*changed, *same])}")]


def _row(row: Mapping[str, Any] | None) -> str:
    return ", ".join(f"{name}: {_value(value)}" for name, value in (plain_row(row) or {}).items())


def _summary(diff: Diff) -> Line:
    rows = diff.rows
    line: Line = [(PLUS, f"+{rows.added:,}"), (PLAIN, " "), (MINUS, f"-{rows.deleted:,}"), (PLAIN, " ")]
    if rows.changed is not None:
        line += [(CHANGE, f"~{rows.changed:,}"), (PLAIN, " ")]
    return [*line, (PLAIN, f"rows ({rows.before:,} -> {rows.after:,})")]


def _fragments(diff: Diff) -> str:
    counts = diff.fragments
    return f"{counted(counts.same, 'fragment')} in common, {counts.added:,} new, {counts.removed:,} gone, " + (
        f"{counts.changed:,} changed"
    )


def _value(value: Any) -> str:
    said = "null" if value is None else str(value)
    return said if len(said) <= _LONGEST_VALUE else said[: _LONGEST_VALUE - 3] + "..."
