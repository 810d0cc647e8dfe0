"""Values as users read and type them: numbers, moments, spans, tables, progress, and the cards that display a value."""

from __future__ import annotations

import difflib
import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, fields
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from html import escape
from typing import Any, TypeAlias, cast

from lance_spark.core.irreversible import proposable
from lance_spark.errors import InvalidOption

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_USER = re.compile(r"(?<![\w+.-])([A-Za-z][\w+.-]*)://([^/\s?#]*)@")
_QUERY = re.compile(r"(?<![\w+.-])([A-Za-z][\w+.-]*://[^\s?#]*)[?#][^\s'\"]*")
_CONTAINERS = frozenset({"az", "abfs", "abfss", "wasb", "wasbs"})
"""In URIs of these schemes, the name before the @ is a container."""


def readable(size: int) -> str:
    amount = float(size)
    for unit in _UNITS[:-1]:
        if amount < 1024:
            return f"{amount:,.0f} {unit}" if unit == "B" else f"{amount:,.1f} {unit}"
        amount /= 1024
    return f"{amount:,.1f} {_UNITS[-1]}"


def quoted_name(name: str) -> str:
    """An identifier in backticks, as SQL takes any."""
    return "`" + name.replace("`", "``") + "`"


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """``1 file``, ``2 files``."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def moment(when: datetime) -> str:
    """A moment in UTC, to the second."""
    return f"{when.astimezone(timezone.utc):%Y-%m-%d %H:%M:%S} UTC"


def few(names: Sequence[str], most: int) -> str:
    """The first names, and the count of the rest."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def masked(text: str) -> str:
    """The text without possible secrets in its URIs: user names, passwords and queries.

    This package writes no such URIs, but other tools might have written them into manifests and ref files.
    """
    return _QUERY.sub(r"\1?***", _USER.sub(_without_user, text))


def _without_user(match: re.Match[str]) -> str:
    scheme, user = match[1], match[2]
    return match[0] if scheme.lower() in _CONTAINERS and ":" not in user else f"{scheme}://***@"


def one_line(text: str) -> str:
    """The text for one cell or line: masked, and without line breaks and control characters."""
    return masked("".join(letter if letter.isprintable() else " " for letter in text))


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


# --- Moments from the numbers in clocks and manifests

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def moment_at(nanoseconds: int) -> datetime:
    """The moment that many nanoseconds after 1970, UTC, exact to the microsecond; a float of seconds can round."""
    return EPOCH + timedelta(microseconds=nanoseconds // 1000)


# --- Spans of time: ``14d``, ``36h``

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])", re.IGNORECASE)
_LONGEST_SPAN = 10_000 * 365 * 86_400


def to_span(option: str, value: str) -> timedelta:
    """A span of time: ``14d``, ``36h``, ``90m``, ``0s``, ``2w``."""
    match = _SPAN.fullmatch(value.strip())
    seconds = Decimal(match[1]) * _SECONDS[match[2].lower()] if match else Decimal(-1)
    if not 0 <= seconds <= _LONGEST_SPAN:
        expected = "a span such as 14d, 36h, 90m or 0s"
        raise InvalidOption(
            f"Option '{option}' is '{value}', but it must be {expected}.",
            hint="Units are w, d, h, m and s; 30d stands for a month, 365d for a year.",
        )
    return timedelta(seconds=float(seconds))


def from_span(span: timedelta) -> str:
    """A span of time as :func:`to_span` reads it, in the largest unit that makes a whole number: ``14d``, ``36h``."""
    seconds = span.total_seconds()
    for unit in ("d", "h", "m"):
        if seconds and seconds % _SECONDS[unit] == 0:
            return f"{seconds / _SECONDS[unit]:.0f}{unit}"
    return f"{seconds:g}s"


# --- Suggestions for an unknown name


def meant(name: str, known: Iterable[str], lead: str = "There are") -> str:
    """A hint: the nearest known name that can be undone, ignoring case, or else all of them after ``lead``."""
    names = list(known)
    folded = {each.lower(): each for each in reversed(proposable(names))}
    near = difflib.get_close_matches(name.lower(), folded, n=1)
    if near:
        return f"Did you mean '{folded[near[0]]}'?"
    return f"{lead} {', '.join(names)}." if names else f"{lead} none."


# --- Text in columns


def aligned(lines: Sequence[Sequence[str]], right: Iterable[int] = ()) -> list[str]:
    """Lines of cells as text, the columns in ``right`` aligned to the right."""
    if not lines:
        return []
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    numbers = set(right)
    return [
        "  ".join(
            cell.rjust(width) if column in numbers else cell.ljust(width)
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
    return width is not None and any(len(line) > width for line in lines)


def stacked(header: Sequence[str], rows: Iterable[Sequence[str]], width: int) -> list[list[str]]:
    """Rows below each other for a narrow terminal: of each row, a line for each cell, or several for a long one."""
    names = max(map(len, header), default=0)
    made = []
    for row in rows:
        lines: list[str] = []
        for name, cell in zip(header, row, strict=True):
            lead = f"{name.ljust(names)}  " if names else ""
            parts = textwrap.wrap(cell.strip(), max(_NARROWEST, width - len(lead)), break_on_hyphens=False)
            for at, part in enumerate(parts):
                lines.append(f"{' ' * len(lead) if at else lead}{part}")
        made.append(lines)
    return made


def cut(line: Line) -> Line:
    """A styled line that does not wrap on the terminal."""
    width = WIDTH.get()
    if width is None or sum(len(text) for _, text in line) <= width:
        return line
    shown: list[tuple[str, str]] = []
    left = width - 1
    for style, text in line:
        shown.append((style, text[:left]))
        left -= len(shown[-1][1])
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


# --- Progress of long work


@dataclass(frozen=True)
class WorkProgress:
    stage: str
    """The current stage, or the last finished one."""
    done: int = 0
    total: int = 0
    """How many files, fragments or the like there are to do; 0 if unknown."""

    def __str__(self) -> str:
        """``copy: 40 of 120``; without numbers if there is nothing to count."""
        return f"{self.stage}: {self.done:,} of {self.total:,}" if self.total > 1 else self.stage


Tell: TypeAlias = Callable[[WorkProgress], object]
"""Receives progress in the caller's thread: when a stage begins, and then about twice a second."""


def untold(progress: WorkProgress) -> None:
    """Discards progress."""


def to_tell(progress: Callable[..., object] | None) -> Tell:
    """The argument ``progress`` of a verb. Raises InvalidOption if it is not callable."""
    check_progress(progress)
    return untold if progress is None else progress


def check_progress(progress: object) -> None:
    """Raise InvalidOption for a ``progress`` that cannot be called."""
    if progress is not None and not callable(progress):
        raise InvalidOption(
            "progress must be a function of one argument.", hint="For example, progress=lance_spark.progress_bar."
        )


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


class Shown:
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
