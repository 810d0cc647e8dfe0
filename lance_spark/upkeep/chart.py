"""Bytes by kind of file, owned and freed, a pair of bars for each table: inline SVG. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

from lance_spark.layout import file_kinds
from lance_spark.show.words import one_line, readable
from lance_spark.upkeep.records import KindSize, TableRecord
from lance_spark.upkeep.report import totals

_COLOURS = {
    file_kinds.DATA: "#4477aa",
    file_kinds.BLOB: "#66ccee",
    file_kinds.INDEX: "#228833",
    file_kinds.DELETION: "#ee6677",
    file_kinds.MANIFEST: "#ccbb44",
    file_kinds.TRANSACTION: "#aa3377",
}
"""Colours that people with any kind of sight can tell from one another; of the kinds that tables have most of."""
_OTHER = "#888888"
_MOST = 40
"""Tables with bars of their own: the largest; the rest is one more pair."""
_NAME, _BAR, _VALUE, _ROW, _THICK = 220, 560, 170, 44, 14
_LONGEST_NAME = 30


class Bars(NamedTuple):
    """One pair of bars."""

    name: str
    kinds: Mapping[str, KindSize]

    @property
    def owned(self) -> int:
        """Bytes of all kinds."""
        return sum(size.owned for size in self.kinds.values())

    @property
    def freed(self) -> int:
        """Bytes that go or went."""
        return sum(size.freed for size in self.kinds.values())


def bars(records: Sequence[TableRecord]) -> list[Bars]:
    """The largest tables first; what is too much for a page as one."""
    listed = sorted((each for each in records if each.kinds), key=lambda each: (-each.owned, each.name))
    shown = [Bars(record.name, record.kinds) for record in listed[:_MOST]]
    rest = listed[_MOST:]
    if rest:
        sums = totals(rest)
        kinds = {kind: KindSize(size, sums["freed"][kind]) for kind, size in sorted(sums["owned"].items())}
        shown.append(Bars(f"{len(rest):,} smaller tables", kinds))
    return shown


def svg(records: Sequence[TableRecord], executed: bool) -> str:
    """The chart; "" if no table's files were listed."""
    shown = bars(records)
    largest = max((each.owned for each in shown), default=0)
    if not largest:
        return ""
    width, height = _NAME + _BAR + _VALUE, _ROW * len(shown) + 8
    drawn = "".join(_pair(each, at * _ROW + 8, largest, executed) for at, each in enumerate(shown))
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-label="Bytes by kind of file, owned and freed, of each table">{drawn}</svg>'
    )


def legend(records: Sequence[TableRecord]) -> str:
    """What the colours mean."""
    kinds = sorted({kind for each in bars(records) for kind in each.kinds}, key=_place)
    return "".join(
        f'<span class="key"><span class="dot" style="background:{_colour(kind)}"></span>{escape(kind)}</span>'
        for kind in kinds
    )


def _pair(each: Bars, top: int, largest: int, executed: bool) -> str:
    name = one_line(each.name)
    short = name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
    owned = {kind: size.owned for kind, size in each.kinds.items()}
    freed = {kind: size.freed for kind, size in each.kinds.items()}
    said = f"{readable(each.freed)} {'freed' if executed else 'to free'}"
    return (
        f'<text x="{_NAME - 10}" y="{top + 17}" text-anchor="end"><title>{escape(name)}</title>{escape(short)}</text>'
        + _bar(owned, top, largest, "owned", 1.0)
        + _bar(freed, top + _THICK + 2, largest, "freed" if executed else "to free", 0.6)
        + f'<text x="{_NAME + _BAR + 8}" y="{top + 11}">{escape(readable(each.owned))}</text>'
        + f'<text x="{_NAME + _BAR + 8}" y="{top + 27}" class="faint">{escape(said)}</text>'
    )


def _bar(sizes: Mapping[str, int], top: int, largest: int, what: str, opacity: float) -> str:
    drawn, left = [], float(_NAME)
    for kind in sorted(sizes, key=_place):
        width = _BAR * sizes[kind] / largest
        if width > 0:
            told = escape(f"{kind}: {readable(sizes[kind])} {what}")
            drawn.append(
                f'<rect x="{left:.2f}" y="{top}" width="{max(width, 0.5):.2f}" height="{_THICK}" '
                f'fill="{_colour(kind)}" fill-opacity="{opacity}"><title>{told}</title></rect>'
            )
            left += width
    return "".join(drawn)


def _place(kind: str) -> tuple[int, str]:
    order = list(_COLOURS)
    return (order.index(kind) if kind in order else len(order), kind)


def _colour(kind: str) -> str:
    return _COLOURS.get(kind, _OTHER)
