"""How values print: styled lines, text in columns, and the cards that display a value. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, fields
from datetime import datetime
from html import escape
from typing import Any, cast

from lance_spark.core.texts import columns_of, fitting, masked, one_line, wrapped
from lance_spark.core.words import Hinting

# --- Styled lines of text; the caller that prints them adds color

Span = tuple[str, str]
"""(style, text)."""
Line = list[Span]

PLAIN, VERSION, BRANCH, TAG, PLUS, MINUS, CHANGE, FAINT, GRAPH, HEAD = (
    "plain",
    "version",
    "branch",
    "tag",
    "added",
    "removed",
    "changed",
    "faint",
    "graph",
    "head",
)


def plain_text(lines: Iterable[Line]) -> str:
    return "\n".join("".join(text for _, text in line).rstrip() for line in lines)


def said(text: str) -> Line:
    return [(PLAIN, text)]


def said_of_places(text: str) -> Line:
    """A line without style whose URIs other tools might have written: secrets in them are masked."""
    return said(masked(text))


# --- Text in columns


def aligned(lines: Sequence[Sequence[str]], right: Iterable[int] = ()) -> list[str]:
    """Lines of cells as text, the columns in ``right`` aligned to the right."""
    if not lines:
        return []
    widths = [max(columns_of(line[column]) for line in lines) for column in range(len(lines[0]))]
    numbers = set(right)
    return [
        "  ".join(
            " " * (width - columns_of(cell)) + cell if column in numbers else cell + " " * (width - columns_of(cell))
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


WIDTH: ContextVar[int | None] = ContextVar("WIDTH", default=None)
"""Columns of the terminal that text is for; None if it goes elsewhere. Whoever prints to a terminal sets it."""
_NARROWEST = 8
"""Columns that a value of a stacked table has at least."""


def is_too_wide(lines: Iterable[str]) -> bool:
    width = WIDTH.get()
    return width is not None and any(columns_of(line) > width for line in lines)


def stacked(header: Sequence[str], rows: Iterable[Sequence[str]], width: int) -> list[list[str]]:
    """Rows below each other for a narrow terminal: of each row, a line for each cell, or several for a long one."""
    names = max(map(len, header), default=0)
    made = []
    for row in rows:
        lines: list[str] = []
        mark = ""
        for at_column, (name, cell) in enumerate(zip(header, row, strict=True)):
            if not name and len(cell.strip()) == 1 and at_column + 1 < len(row):
                mark = f"{cell.strip()} "  # stands in front of what it marks
                continue
            lead = f"{name.ljust(names)}  " if names else ""
            parts = wrapped(mark + cell.strip(), max(_NARROWEST, width - len(lead)))
            mark = ""
            for at, part in enumerate(parts):
                lines.append(f"{' ' * len(lead) if at else lead}{part}")
        made.append(lines)
    return made


def cut(line: Line) -> Line:
    """A styled line that does not wrap on the terminal."""
    width = WIDTH.get()
    if width is None or sum(columns_of(text) for _, text in line) <= width:
        return line
    shown: list[tuple[str, str]] = []
    left = width - 1
    for style, text in line:
        shown.append((style, text[: fitting(text, left)]))
        left -= columns_of(text)
        if left <= 0:
            break
    return [*shown, (PLAIN, "…")]


def table(header: Sequence[str], rows: Iterable[Sequence[str]], right: Iterable[int] = ()) -> str:
    """A header and rows, the columns in ``right`` aligned to the right; "" if there are no rows."""
    cells = [tuple(str(cell) for cell in row) for row in rows]
    lines = aligned([tuple(header), *cells], right) if cells else []
    if is_too_wide(lines):
        return "\n\n".join("\n".join(row) for row in stacked(header, cells, WIDTH.get() or 0))
    return "\n".join(lines)


def table_lines(
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    right: Iterable[int] = (),
    bright: Iterable[int] = (),
) -> list[Line]:
    """A header and rows as lines with styles; the rows in ``bright`` stand out."""
    cells, shining = [tuple(row) for row in rows], set(bright)
    head, *body = aligned([tuple(header), *cells], right)
    if is_too_wide([head, *body]):
        lines: list[Line] = []
        for row, stack in enumerate(stacked(header, cells, WIDTH.get() or 0)):
            lines += [[]] if lines else []
            lines += [[(PLUS if row in shining else PLAIN, line)] for line in stack]
        return lines
    return [[(HEAD, head)], *([(PLUS if row in shining else PLAIN, line)] for row, line in enumerate(body))]


# --- Values for display: type, place, facts, tables, notes
# One card yields a line, a text and HTML.

_EDGE = "1px solid rgba(128,128,128,.45)"
_CELL = "border:none;padding:2px 16px 2px 0;text-align:{side};vertical-align:top;color:inherit;background:none"
_TABLE = "border-collapse:collapse;border:none;margin:4px 0 8px 0;font-size:inherit;color:inherit;background:none"


@dataclass(frozen=True)
class Grid:
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[int] = frozenset()
    """Columns aligned to the right."""
    title: str = ""

    def text(self) -> str:
        """The grid in columns; "" if there are no rows."""
        columns = table(self.header, self.shown, self.right)
        return "\n".join(part for part in (self.title if columns else "", columns) if part)

    @property
    def shown(self) -> tuple[tuple[str, ...], ...]:
        """The rows for printing: one line each, without secrets."""
        return tuple(tuple(map(one_line, row)) for row in self.rows)

    def html(self) -> str:
        """The grid as a table; "" if there are no rows."""
        if not self.rows:
            return ""
        head = "".join(self._cell("th", number, name) for number, name in enumerate(self.header))
        body = "".join(
            f"<tr>{''.join(self._cell('td', number, cell) for number, cell in enumerate(row))}</tr>"
            for row in self.rows
        )
        title = f'<div style="margin-top:8px"><b>{safe(self.title)}</b></div>' if self.title else ""
        return f'{title}<table style="{_TABLE}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'

    def _cell(self, tag: str, column: int, text: str) -> str:
        style = _CELL.format(side="right" if column in self.right else "left")
        style += f";border-bottom:{_EDGE};font-weight:bold" if tag == "th" else ""
        style += ";white-space:nowrap" if tag == "th" or column in self.right else ""
        return f'<{tag} style="{style}">{safe(text)}</{tag}>'


@dataclass(frozen=True)
class Card:
    what: str
    where: str = ""
    """Its place or name."""
    summary: str = ""
    """The rest, in one line."""
    facts: tuple[tuple[str, str], ...] = ()
    """Name and text; those without a text are left out."""
    grids: tuple[Grid, ...] = ()
    notes: tuple[str, ...] = ()

    def line(self) -> str:
        """One line in angle brackets, as Python shows values that have no literal."""
        return f"<{self._headline()}>"

    def _name(self) -> str:
        return " ".join(one_line(part) for part in (self.what, self.where) if part)

    def _headline(self) -> str:
        return ": ".join(part for part in (self._name(), one_line(self.summary)) if part)

    def text(self) -> str:
        """A headline and facts, tables, notes."""
        head = [self._headline() if self.summary and not self.facts else self._name()]
        head += [f"  {line}" for line in aligned([(name, one_line(text)) for name, text in self.facts if text])]
        notes = "\n".join(f"note: {one_line(note)}" for note in self.notes)
        parts = ["\n".join(head), *(grid.text() for grid in self.grids), notes]
        return "\n\n".join(part for part in parts if part)

    def html(self) -> str:
        where = f" <code style='color:inherit;background:none'>{safe(self.where)}</code>" if self.where else ""
        facts = "".join(_fact(name, text) for name, text in self.facts if text)
        told = f'<table style="{_TABLE}"><tbody>{facts}</tbody></table>' if facts else ""
        said = f"<div>{safe(self.summary)}</div>" if self.summary and not facts else ""
        notes = "".join(f'<div style="opacity:.8"><i>note:</i> {safe(note)}</div>' for note in self.notes)
        grids = "".join(grid.html() for grid in self.grids)
        return f"<div><div><b>{safe(self.what)}</b>{where}</div>{said}{told}{grids}{notes}</div>"


def _fact(name: str, text: str) -> str:
    style = _CELL.format(side="left")
    first = f'<td style="{style};opacity:.7;white-space:nowrap">{safe(name)}</td>'
    return f'<tr>{first}<td style="{style};overflow-wrap:anywhere">{safe(text)}</td></tr>'


def safe(text: str) -> str:
    """Text for HTML: escaped, on one line, without possible secrets in URIs."""
    return escape(one_line(text))


class Shown(Hinting):
    """A value displayed as a card: ``repr`` is one line, ``str`` a few lines, and a notebook shows tables.

    Dataclasses that inherit from it are declared with ``repr=False``.
    """

    def _card(self) -> Card:
        raise NotImplementedError

    def __repr__(self) -> str:
        return self._card().line()

    def __str__(self) -> str:
        return self._card().text()

    def _repr_html_(self) -> str:
        return self._card().html()


class Recorded:
    """A dataclass with a JSON form: its fields, in their order."""

    def as_record(self) -> dict[str, Any]:
        """As JSON values: moments in ISO 8601; refs, versions and the like as text."""
        return {each.name: as_json(getattr(self, each.name)) for each in fields(cast("Any", self))}


def fields_of(value: object, *names: str) -> dict[str, Any]:
    """Some attributes of a value by their names, in this order."""
    return {name: getattr(value, name) for name in names}


def as_json(value: object) -> Any:
    """A field of a :class:`Recorded` value as JSON holds it."""
    if isinstance(value, Recorded):
        return value.as_record()
    if isinstance(value, tuple):
        return [as_json(each) for each in value]
    if isinstance(value, datetime):
        return value.isoformat()
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def card_of(value: Shown) -> Card:
    """The card of a value, for a page that lays it out in its own way."""
    return value._card()


class Report(Shown):
    """What a verb reports at its end: a card, and a JSON object, which jobs and dashboards read."""

    def as_document(self) -> dict[str, Any]:
        """As JSON values."""
        raise NotImplementedError

    def to_json(self) -> str:
        """The report as a JSON object."""
        return json.dumps(self.as_document(), indent=2)


class ShownInOneLine(Shown):
    """A value whose text is one line, returned by ``__str__``; a notebook shows its facts below each other."""

    def _facts(self) -> tuple[tuple[str, str], ...]:
        raise NotImplementedError

    def __str__(self) -> str:
        raise NotImplementedError

    def _card(self) -> Card:
        return Card(type(self).__name__, summary=str(self), facts=self._facts())


class ShownInLines(Shown):
    """A value displayed as a card; its text is the lines that the command line prints."""

    def lines(self) -> Iterable[Line]:
        raise NotImplementedError

    def __str__(self) -> str:
        """The lines that the command line prints."""
        return plain_text(self.lines())
