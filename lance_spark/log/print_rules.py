"""What ``list``, ``log``, ``show`` and ``diff`` print: tables and cards, histories, and lines of text.

Branches, tags, entries of a log and differences come in as values; text and HTML come out. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lance_spark.changes.diff_rules import ADDED, DELETED, Diff, RowExample, plain_row
from lance_spark.core import refs as core_refs
from lance_spark.core import show
from lance_spark.core.ref_names import is_service_branch, is_service_tag
from lance_spark.core.texts import counted, few, moment, readable, visible
from lance_spark.core.words import ASKED_OF_DIFFS, ASKED_OF_HISTORIES, OF_DIFFS, OF_HISTORIES
from lance_spark.format.operations import LogEntry, Stat, VersionDetail
from lance_spark.log.graph_rules import ROW, draw, lay_out, legend, svg
from lance_spark.log.listing_rules import BRANCH_ENDS, SHOWN, TAG_ENDS, branch_grid, ends, more, tag_grid

# --- A table, its branches, tags and remotes as cards

_COLUMNS = 6


@dataclass(frozen=True)
class TableGlance:
    """A version of a table, as described by its manifest."""

    pin: core_refs.PinnedVersion
    info: core_refs.VersionInfo
    columns: tuple[str, ...]
    note: str | None = None
    """What it says of rows that wait in no version."""

    def number(self, name: str) -> int | None:
        """A number from pylance's summary; None if it has none."""
        text = self.info.metadata.get(name, "")
        return int(text) if text.isdecimal() else None


def unknown_card(what: str, uri: str, why: str, ref: core_refs.RefSpec | None = None) -> show.Card:
    """What is known without the store; ``why`` is the store's error."""
    where = "" if ref is None else _asked(ref)
    summary = "; ".join(part for part in (f"at {where}" if where else "", why) if part)
    return show.Card(what, uri, summary, (("at", where), ("unknown", why)))


def table_card(what: str, uri: str, ref: core_refs.RefSpec, seen: TableGlance) -> show.Card:
    stands_still = ref.tag is not None or ref.version is not None or ref.as_of is not None
    follows = "" if stands_still else ", the newest version"
    rows, size = seen.number("total_rows"), _size(seen)
    facts = (
        ("at", f"{seen.pin}{follows}"),
        ("committed", moment(seen.info.timestamp)),
        ("rows", "" if rows is None else f"{rows:,}"),
        ("size", size),
        ("columns", f"{len(seen.columns):,}: {few(seen.columns, _COLUMNS)}" if seen.columns else ""),
    )
    wait = "" if seen.note is None else "rows wait in no version"
    parts = (f"at {seen.pin}", "" if rows is None else counted(rows, "row"), size.partition(" in ")[0], wait)
    notes = () if seen.note is None else (seen.note,)
    return show.Card(what, uri, ", ".join(part for part in parts if part), facts, notes=notes)


def _size(seen: TableGlance) -> str:
    size, files = seen.number("total_files_size"), seen.number("total_data_files")
    if size is None or files is None:
        return ""
    deletions = seen.number("total_deletion_files")
    also = f" and {counted(deletions, 'deletion file')}" if deletions else ""
    return f"{readable(size)} in {counted(files, 'data file')}{also}"


def _asked(ref: core_refs.RefSpec) -> str:
    """The ref as the user named it."""
    if ref.tag is not None:
        return f"tag {ref.tag}"
    branch = ref.branch or core_refs.MAIN
    if ref.as_of is not None:
        return f"{branch} as of {moment(ref.as_of)}"
    return f"the newest version of {branch}" if ref.version is None else f"{branch}@{ref.version}"


@dataclass(frozen=True)
class RefNames:
    """The branches or tags of a dataset: their number, and some of their names."""

    listed: Sequence[str]
    """Without those that this package created for itself."""
    own: int = 0
    """How many this package created for itself."""

    @classmethod
    def of_branches(cls, branches: Sequence[str], tags: Sequence[str]) -> RefNames:
        """Branches; the tags show which of them are plans of frozen sets."""
        known = set(tags)
        return cls._of(branches, lambda name: is_service_branch(name, known))

    @classmethod
    def of_tags(cls, tags: Sequence[str]) -> RefNames:
        known = set(tags)
        return cls._of(tags, lambda name: is_service_tag(name, known))

    @classmethod
    def _of(cls, names: Sequence[str], is_own: Callable[[str], bool]) -> RefNames:
        listed = tuple(name for name in names if not is_own(name))
        return cls(listed, len(names) - len(listed))

    @property
    def shown(self) -> tuple[str, ...]:
        """Those that are read in full."""
        return tuple(self.listed[:SHOWN])


def branches_card(what: str, uri: str, listed: RefNames, branches: Sequence[core_refs.Branch]) -> show.Card:
    """All branches except for main; only those that are shown were read."""
    count = len(listed.listed)
    summary = f"{core_refs.MAIN} and {counted(count, 'branch', 'branches')}" if count else f"{core_refs.MAIN} only"
    summary += f", and {listed.own:,} of frozen sets and the lake" if listed.own else ""
    notes = (*ends(branches, BRANCH_ENDS), *more(count, len(listed.shown)))
    return show.Card(f"{what} of", uri, summary, grids=(branch_grid(branches),), notes=notes)


def tags_card(what: str, uri: str, listed: RefNames, tags: Sequence[core_refs.Tag]) -> show.Card:
    """All tags; only those that are shown were read."""
    count = len(listed.listed)
    also = f", and {listed.own:,} that clones, merges, streams, frozen sets and the lake need" if listed.own else ""
    notes = (*ends(tags, TAG_ENDS), *more(count, len(listed.shown)))
    return show.Card(f"{what} of", uri, f"{counted(count, 'tag')}{also}", grids=(tag_grid(tags),), notes=notes)


def remotes_card(what: str, uri: str, known: Mapping[str, str]) -> show.Card:
    """The remotes that were ever fetched from, by name."""
    grid = show.Grid(("remote", "uri"), tuple(known.items()))
    summary = ", ".join(known) or "nothing was fetched from a remote yet"
    return show.Card(f"{what} of", uri, summary, grids=(grid,))


# --- A log as a value: text like ``lance-git log --graph``, and in notebooks a drawn graph with the versions

_EDGE = "1px solid rgba(128,128,128,.45)"
_CELL = f"border:none;padding:0 14px 0 0;height:{ROW}px;line-height:{ROW}px;white-space:nowrap;color:inherit"
_MOST = 500
_LONGEST = 50
"""How many characters of a message the table shows; the tooltip has all of it."""


@dataclass(frozen=True, repr=False)
class History(show.Shown):
    """The versions of a branch, newest first, including versions that merges brought in. Iterating yields entries."""

    _words, _asked = OF_HISTORIES, ASKED_OF_HISTORIES

    uri: str
    start: core_refs.PinnedVersion
    entries: tuple[LogEntry, ...]
    older: bool = False
    note: str | None = None
    """What it says of rows that wait in no version."""

    def __iter__(self) -> Iterator[LogEntry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __str__(self) -> str:
        """The text that ``lance-git log --graph`` prints."""
        told = show.plain_text(graph_lines(self.entries))
        return told if self.note is None else f"{told}\n{self.note}"

    def _card(self) -> show.Card:
        more = ", and there are older ones" if self.older else ""
        hidden = len(self) - _MOST
        undrawn = f"the {hidden:,} oldest of these are not drawn" if hidden > 0 else None
        notes = tuple(note for note in (undrawn, self.note) if note is not None)
        summary = f"{counted(len(self.entries), 'version')} from {self.start}{more}"
        return show.Card(type(self).__name__, self.uri, summary, notes=notes)

    def _repr_html_(self) -> str:
        """The drawn graph next to a table of the versions."""
        shown = self.entries[:_MOST]
        graph = f'<td rowspan="{len(shown)}" style="border:none;padding:0;vertical-align:top">{{}}</td>'
        drawing = lay_out(shown)
        drawn = graph.format(svg(drawing)) if shown else ""
        key = ", ".join(legend(drawing))
        told = f'<div style="opacity:.7">{key}</div>' if key else ""
        stat = ("changed",) if any(entry.stat for entry in shown) else ()
        signed = ("author",) if any(entry.author for entry in shown) else ()
        names = ("version", "what", "message", *signed, "rows", *stat, "committed")
        head = "".join(_cell("th", name, name) for name in ("", *names))
        rows = [f"<tr>{'' if number else drawn}{_row(entry, names)}</tr>" for number, entry in enumerate(shown)]
        table = "border-collapse:collapse;border:none;font-size:inherit;color:inherit;background:none;margin:4px 0"
        return (
            f'{self._card().html()}<div style="overflow-x:auto"><table style="{table}">'
            f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>{told}"
        )


def _row(entry: LogEntry, names: Sequence[str]) -> str:
    told = {
        "version": show.safe(str(entry.pin)),
        "what": show.safe(happened(entry)),
        "message": _message(entry.message or ""),
        "author": _message(entry.author or ""),
        "rows": "" if entry.total_rows is None else f"{entry.total_rows:,}",
        "changed": "" if entry.stat is None else show.safe(show.plain_text([stat_line(entry.stat)])),
        "committed": show.safe(moment(entry.timestamp)),
    }
    return "".join(_cell("td", name, told[name]) for name in names)


def _message(text: str) -> str:
    if len(text) <= _LONGEST:
        return show.safe(text)
    return f'<span title="{show.safe(text)}">{show.safe(text[: _LONGEST - 1])}…</span>'


def _cell(tag: str, name: str, html: str) -> str:
    style = f"{_CELL};text-align:{'right' if name == 'rows' else 'left'};background:none"
    style += f";border-bottom:{_EDGE};font-weight:bold" if tag == "th" else ""
    return f'<{tag} style="{style}">{html}</{tag}>'


# --- Logs, versions and diffs as lines of text
# A line is a list of (style, text); printing adds color.

_LONGEST_VALUE = 60


def log_lines(entries: Iterable[LogEntry]) -> Iterator[show.Line]:
    """A log, entry by entry as they arrive: a line for each, plus one for its message and one for its stat, if any."""
    for entry in entries:
        yield _head(entry)
        yield from (_indented(line) for line in _further(entry))


def graph_lines(entries: Iterable[LogEntry]) -> Iterator[show.Line]:
    rows = list(draw(entries))
    width = max((len(row.graph) for row in rows), default=0)
    for row in rows:
        if row.entry is None:
            yield [(show.GRAPH, row.graph)]
            continue
        yield [(show.GRAPH, row.graph.ljust(width)), (show.PLAIN, " "), *_head(row.entry)]
        beside: show.Line = [(show.GRAPH, row.below.ljust(width)), (show.PLAIN, " ")]
        yield from ([*beside, *_indented(line)] for line in _further(row.entry))


def _head(entry: LogEntry) -> show.Line:
    line = [(show.VERSION, str(entry.pin)), *_names(entry), (show.PLAIN, f"  {happened(entry)}")]
    if entry.total_rows is not None:
        line.append((show.PLAIN, f"  {counted(entry.total_rows, 'row')}"))
    return [*line, (show.FAINT, f"  {entry.timestamp:%Y-%m-%d %H:%M:%S}")]


def happened(entry: LogEntry) -> str:
    """What created the version, and from what: ``merge (append) of exp@3``."""
    return entry.words if entry.source is None else f"{entry.words} of {entry.source}{_remote(entry)}"


def _remote(entry: LogEntry) -> str:
    """The remote of a fetched version's source: its number counts versions there, not here."""
    source = (entry.source or "").rpartition("@")[0]
    if entry.action != "fetch" or not (entry.branch or "").endswith(f"/{source}"):
        return ""
    return f" at {(entry.branch or '').removesuffix(f'/{source}')}"


def _names(entry: LogEntry) -> show.Line:
    """Branches and tags at a version, in brackets; without the tags that protect what clones and merges read."""
    spans: show.Line = [(show.BRANCH, name) for name in entry.heads]
    spans += [(show.TAG, f"tag: {name}") for name in entry.tags if not is_service_tag(name)]
    spans += [(show.BRANCH, f"fork: {name}") for name in entry.forks if name not in entry.heads]
    if not spans:
        return []
    line: show.Line = [(show.PLAIN, " (")]
    for number, span in enumerate(spans):
        line += [(show.PLAIN, ", "), span] if number else [span]
    return [*line, (show.PLAIN, ")")]


def _further(entry: LogEntry) -> Iterator[show.Line]:
    if entry.author:
        yield [(show.FAINT, f"Author: {entry.author}")]
    if entry.message:
        yield from ([(show.PLAIN, line)] for line in entry.message.splitlines())
    if entry.stat is not None:
        yield stat_line(entry.stat)


def _indented(line: show.Line) -> show.Line:
    return [(show.PLAIN, "    "), *line]


def stat_line(stat: Stat) -> show.Line:
    """The rows, columns and files that a version added and removed."""
    parts: list[show.Line] = []
    if stat.rows_added is not None and stat.rows_removed is not None:
        parts.append(_both(f"{stat.rows_added:,}", f"{stat.rows_removed:,}", "rows"))
    parts.append(_both(f"{stat.files_added:,}", f"{stat.files_removed:,}", "files"))
    parts.append(_both(readable(stat.bytes_added), readable(stat.bytes_removed), ""))
    line: show.Line = []
    for number, part in enumerate(parts):
        line += [(show.PLAIN, ", "), *part] if number else part
    return line


def _both(added: str, removed: str, what: str) -> show.Line:
    spans: show.Line = [(show.PLUS, f"+{added}"), (show.PLAIN, " "), (show.MINUS, f"-{removed}")]
    return [*spans, (show.PLAIN, f" {what}")] if what else spans


def show_lines(detail: VersionDetail) -> Iterator[show.Line]:
    yield from log_lines([detail.entry])
    yield []
    files = [
        counted(detail.fragments, "fragment"),
        f"{counted(detail.data_files, 'data file')}, {readable(detail.bytes)}",
    ]
    if detail.deletion_files:
        deletions = counted(detail.deletion_files, "deletion file")
        files.append(f"{counted(detail.deleted_rows, 'deleted row')} in {deletions}")
    row_ids = ", stable row ids" if detail.stable_row_ids else ""
    facts = {
        "parents": ", ".join(map(str, detail.entry.parents)) or "none",
        "files": ", ".join(files),
        "format": f"{detail.storage_version or 'before 1.0'}{row_ids}",
    }
    if detail.layout:
        facts["layout"] = detail.layout
    yield from (_fact(name, value) for name, value in facts.items())
    yield from (_fact("base", base) for base in detail.bases)
    yield []
    rows = [(column.path, column.type, "" if column.nullable else "not null") for column in detail.columns]
    yield from _section("columns", rows)
    yield from _section("indexes", [(index.name, ", ".join(index.columns)) for index in detail.indexes])
    changes = [(each.key, f"{_value(each.before)} -> {_value(each.after)}") for each in detail.config_changes]
    yield from _section("config", changes)


def _fact(name: str, value: str) -> show.Line:
    return [(show.FAINT, f"{name:<8}"), (show.PLAIN, value)]


def _section(title: str, rows: Sequence[Sequence[str]]) -> Iterator[show.Line]:
    if rows:
        yield [(show.FAINT, title)]
        yield from ([(show.PLAIN, f"  {line}")] for line in show.aligned(rows))


@dataclass(frozen=True, repr=False)
class TableDiff(Diff, show.ShownInLines):
    """The differences from one version to another, as ``lance-git diff`` shows them."""

    _words, _asked = OF_DIFFS, ASKED_OF_DIFFS
    __repr__ = show.Shown.__repr__

    def lines(self) -> Iterator[show.Line]:
        return diff_lines(self)

    def _card(self) -> show.Card:
        notes = tuple("".join(text for _, text in line) for line in self.lines())
        return show.Card(type(self).__name__, f"{self.before}..{self.after}", notes=notes[1:])


def diff_lines(diff: Diff, stat_only: bool = False) -> Iterator[show.Line]:
    """A diff; with ``stat_only`` only its last lines, the summary."""
    if not stat_only:
        yield [(show.VERSION, str(diff.before)), (show.PLAIN, " .. "), (show.VERSION, str(diff.after))]
        yield from _columns(diff)
        yield from _values(diff)
        for example in diff.examples:
            yield from _example(example)
    yield _summary(diff)
    rows_end = 0 if diff.stat.rows_added is None else 5  # the summary already has the spans for rows
    yield [*stat_line(diff.stat)[rows_end:], (show.PLAIN, f", {_fragments(diff)}")]
    yield from ([(show.FAINT, f"note: {note}")] for note in diff.notes)


def _columns(diff: Diff) -> Iterator[show.Line]:
    for change in diff.columns:
        style, mark = {"added": (show.PLUS, "+"), "dropped": (show.MINUS, "-")}.get(change.kind, (show.CHANGE, "~"))
        said = change.after or change.before or ""
        if change.before is not None and change.after is not None:
            said = f"{change.kind}: {change.before} -> {change.after}"
        yield [(style, f"{mark} column {change.column}"), (show.PLAIN, f"  {said}")]


def _values(diff: Diff) -> Iterator[show.Line]:
    for values in diff.values:
        told = f"written again in {counted(values.fragments, 'fragment')}, {counted(values.rows, 'row')}"
        yield [(show.CHANGE, f"~ values of {values.column}"), (show.PLAIN, f"  {told}")]


def _example(example: RowExample) -> Iterator[show.Line]:
    if example.kind == ADDED:
        yield [(show.PLUS, f"+ {_text_row(example.after)}")]
    elif example.kind == DELETED:
        yield [(show.MINUS, f"- {_text_row(example.before)}")]
    else:
        before, after = plain_row(example.before) or {}, plain_row(example.after) or {}
        names = [name for name in after if name not in before or before[name] == after[name]]
        changed = [f"{name}: {_value(before[name])} -> {_value(after[name])}" for name in after if name not in names]
        same = [f"{name}: {_value(after[name])}" for name in names]
        yield [(show.CHANGE, f"~ {', '.join([*changed, *same])}")]


def _text_row(row: Mapping[str, Any] | None) -> str:
    return ", ".join(f"{name}: {_value(value)}" for name, value in (plain_row(row) or {}).items())


def _summary(diff: Diff) -> show.Line:
    rows = diff.rows
    line: show.Line = [
        (show.PLUS, f"+{rows.added:,}"),
        (show.PLAIN, " "),
        (show.MINUS, f"-{rows.deleted:,}"),
        (show.PLAIN, " "),
    ]
    if rows.changed is not None:
        line += [(show.CHANGE, f"~{rows.changed:,}"), (show.PLAIN, " ")]
    return [*line, (show.PLAIN, f"rows ({rows.before:,} -> {rows.after:,})")]


def _fragments(diff: Diff) -> str:
    counts = diff.fragments
    return f"{counted(counts.same, 'fragment')} in common, {counts.added:,} new, {counts.removed:,} gone, " + (
        f"{counts.changed:,} changed"
    )


def _value(value: Any) -> str:
    said = "null" if value is None else visible(str(value)).replace("\n", "\\n")
    return said if len(said) <= _LONGEST_VALUE else said[: _LONGEST_VALUE - 3] + "..."
