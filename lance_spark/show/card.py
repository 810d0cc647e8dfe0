"""A value as people see it: what it is, where, facts, tables, notes. One card gives a line, a text and HTML."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

from lance_spark.show.lines import Line, plain_text
from lance_spark.show.tables import aligned, table
from lance_spark.show.words import one_line

_EDGE = "1px solid rgba(128,128,128,.45)"
_CELL = "border:none;padding:2px 16px 2px 0;text-align:{side};vertical-align:top;color:inherit;background:none"
_TABLE = "border-collapse:collapse;border:none;margin:4px 0 8px 0;font-size:inherit;color:inherit;background:none"


@dataclass(frozen=True)
class Grid:
    """A table of texts."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[int] = frozenset()
    """Columns that are aligned to the right."""
    title: str = ""

    def text(self) -> str:
        """The grid in columns; "" if there are no rows."""
        columns = table(self.header, self.shown, self.right)
        return "\n".join(part for part in (self.title if columns else "", columns) if part)

    @property
    def shown(self) -> tuple[tuple[str, ...], ...]:
        """The rows as they can be printed: one line for each, and nothing secret."""
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
    """What is shown of a value."""

    what: str
    """Its type."""
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
        """The same as tables."""
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
    """Text for HTML: escaped, in one line, and without what may be secret in URIs."""
    return escape(one_line(text))


class Shown:
    """A value that is shown as a card: ``repr`` is one line, ``str`` a few lines, and a notebook shows tables.

    Dataclasses that inherit from it are declared with ``repr=False``.
    """

    def _card(self) -> Card:
        raise NotImplementedError

    def __repr__(self) -> str:
        return self._card().line()

    def __str__(self) -> str:
        """A few lines."""
        return self._card().text()

    def _repr_html_(self) -> str:
        """For notebooks."""
        return self._card().html()


class ShownInOneLine(Shown):
    """A value whose text is one line; a notebook shows its facts below each other. It says the line in ``__str__``."""

    def _facts(self) -> tuple[tuple[str, str], ...]:
        raise NotImplementedError

    def __str__(self) -> str:
        raise NotImplementedError

    def _card(self) -> Card:
        return Card(type(self).__name__, summary=str(self), facts=self._facts())


class ShownInLines(Shown):
    """A value that is shown as a card, and as text in the lines that the command line prints."""

    def lines(self) -> Iterable[Line]:
        """What to say, with styles."""
        raise NotImplementedError

    def __str__(self) -> str:
        """As the command line says it."""
        return plain_text(self.lines())
