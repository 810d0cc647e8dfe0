"""A log as a value: text as of ``lance-git log --graph``, and in notebooks a drawn graph with the versions. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lance_spark.history.drawing import lay_out
from lance_spark.history.entries import LogEntry
from lance_spark.history.svg import ROW, svg
from lance_spark.history.text import graph_lines, happened, stat_line
from lance_spark.refs.model import PinnedVersion
from lance_spark.show.card import Card, Shown, safe
from lance_spark.show.lines import plain_text
from lance_spark.show.words import counted, moment

_EDGE = "1px solid rgba(128,128,128,.45)"
_CELL = f"border:none;padding:0 14px 0 0;height:{ROW}px;line-height:{ROW}px;white-space:nowrap;color:inherit"
_MOST = 500
"""Versions that are drawn."""
_LONGEST = 60
"""Letters of a message in the table; all of it shows below the pointer."""


@dataclass(frozen=True, repr=False)
class History(Shown):
    """The versions of a branch, newest first, with those that merges took in. Iterating gives the entries."""

    uri: str
    start: PinnedVersion
    entries: tuple[LogEntry, ...]
    older: bool = False
    """Whether there are versions older than these."""

    def __iter__(self) -> Iterator[LogEntry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __str__(self) -> str:
        """As ``lance-git log --graph`` prints it."""
        return plain_text(graph_lines(self.entries))

    def _card(self) -> Card:
        more = ", and there are older ones" if self.older else ""
        hidden = len(self) - _MOST
        notes = (f"the {hidden:,} oldest of these are not drawn",) if hidden > 0 else ()
        summary = f"{counted(len(self.entries), 'version')} from {self.start}{more}"
        return Card(type(self).__name__, self.uri, summary, notes=notes)

    def _repr_html_(self) -> str:
        """The graph, drawn, next to a table of the versions."""
        shown = self.entries[:_MOST]
        graph = f'<td rowspan="{len(shown)}" style="border:none;padding:0;vertical-align:top">{{}}</td>'
        drawn = graph.format(svg(lay_out(shown))) if shown else ""
        stat = any(entry.stat for entry in shown)
        rows = [f"<tr>{'' if number else drawn}{_row(entry, stat)}</tr>" for number, entry in enumerate(shown)]
        names = ("version", "what", "rows", *(("changed",) if stat else ()), "committed", "message")
        head = "".join(_cell("th", name, name) for name in ("", *names))
        table = "border-collapse:collapse;border:none;font-size:inherit;color:inherit;background:none;margin:4px 0"
        return (
            f'{self._card().html()}<div style="overflow-x:auto"><table style="{table}">'
            f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
        )


def _row(entry: LogEntry, stat: bool) -> str:
    rows = "" if entry.total_rows is None else f"{entry.total_rows:,}"
    told = {"version": safe(str(entry.pin)), "what": safe(happened(entry)), "rows": rows}
    if stat:
        told["changed"] = "" if entry.stat is None else safe(plain_text([stat_line(entry.stat)]))
    told |= {"committed": safe(moment(entry.timestamp)), "message": _message(entry.message or "")}
    return "".join(_cell("td", name, html) for name, html in told.items())


def _message(text: str) -> str:
    if len(text) <= _LONGEST:
        return safe(text)
    return f'<span title="{safe(text)}">{safe(text[: _LONGEST - 1])}…</span>'


def _cell(tag: str, name: str, html: str) -> str:
    style = f"{_CELL};text-align:{'right' if name == 'rows' else 'left'};background:none"
    style += f";border-bottom:{_EDGE};font-weight:bold" if tag == "th" else ""
    return f'<{tag} style="{style}">{html}</{tag}>'
