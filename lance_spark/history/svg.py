"""Draws the graph of a log as SVG: a dot for each version, a line for each branch, names as labels. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from unicodedata import east_asian_width

from lance_spark.history.drawing import Dot, Drawing, Point, Track
from lance_spark.history.entries import LogEntry
from lance_spark.refs.names import MAIN, is_service_tag
from lance_spark.show.card import safe

ROW = 28
"""Height of a row in pixels."""
_LANE, _MARGIN, _LETTER, _GAP = 18, 12, 6.7, 6
_LONGEST_NAME = 28
_MOST_LABELS = 6
"""Beside one version."""
_PALETTE = ("#3b82d6", "#d97a1e", "#2f9e58", "#a365d9", "#dd5555", "#1f9aa8", "#b5890b", "#d65796")
"""Readable on white and on black. The first one is main's."""
_LOOKS = {
    "branch": 'fill-opacity=".18" stroke="{}"',
    "tag": 'fill-opacity=".06" stroke="{}" stroke-opacity=".55"',
    "fork": 'fill-opacity="0" stroke="{}" stroke-dasharray="3 2"',
    "rest": 'fill-opacity="0"',
}
"""A branch is filled, a tag has square corners, a fork is dashed; what stands for more names has no border."""
_FONT = "ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace"


@dataclass(frozen=True)
class _Label:
    text: str
    kind: str
    """One of _LOOKS."""
    color: str

    @property
    def shown(self) -> str:
        return self.text if len(self.text) <= _LONGEST_NAME else self.text[: _LONGEST_NAME - 1] + "…"

    @property
    def width(self) -> float:
        return sum(2 if east_asian_width(letter) in "WF" else 1 for letter in self.shown) * _LETTER + 12


def svg(drawing: Drawing) -> str:
    """The graph, in the colour of the text around it where it is no branch's."""
    colors = _colors(drawing)
    labels = [_labels(dot.entry, colors) for dot in drawing.dots]
    right = [_x(column) + _MARGIN for column in drawing.rightmost]
    ends = (x + sum(label.width + _GAP for label in row) for x, row in zip(right, labels, strict=True))
    width = max(_x(drawing.columns - 1) + _MARGIN, *ends) if drawing.dots else 0
    height = ROW * len(drawing.dots)
    parts = [_track(track, colors, height) for track in drawing.tracks]
    for dot, row, x in zip(drawing.dots, labels, right, strict=True):
        parts += [_dot(dot, colors[dot.entry.branch]), *_pills(row, x, _y(dot.at[1]))]
    size = f'width="{width:.0f}" height="{height}" viewBox="0 0 {width:.0f} {height}"'
    style = "display:block;max-width:none;overflow:hidden"
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} style="{style}" role="img">{"".join(parts)}</svg>'


def _colors(drawing: Drawing) -> Mapping[str | None, str]:
    names = [None, *(branch for branch in drawing.branches if branch is not None)]
    return {name: _PALETTE[number % len(_PALETTE)] for number, name in enumerate(names)}


def _labels(entry: LogEntry, colors: Mapping[str | None, str]) -> list[_Label]:
    """As in the text of a log: branches, tags except for protection tags, and forks."""

    def color(name: str) -> str:
        return colors.get(None if name == MAIN else name, "currentColor")

    labels = [_Label(name, "branch", color(name)) for name in entry.heads]
    labels += [_Label(name, "tag", "currentColor") for name in entry.tags if not is_service_tag(name)]
    labels += [_Label(name, "fork", color(name)) for name in entry.forks if name not in entry.heads]
    if len(labels) <= _MOST_LABELS:
        return labels
    rest = labels[_MOST_LABELS - 1 :]
    return [*labels[: _MOST_LABELS - 1], _Label(f"{len(rest):,} more", "rest", "currentColor")]


def _x(column: int) -> float:
    return _MARGIN + _LANE * column


def _y(row: int) -> float:
    return ROW * row + ROW / 2


def _track(track: Track, colors: Mapping[str | None, str], height: int) -> str:
    """A line down its points; dotted where it leads on to what is not in the log."""
    drawn = track.points[:-1] if track.open else track.points
    last = [_path(track.points[-2:], height, ' stroke-dasharray="2 4"')] if track.open else []
    paths = [_path(drawn, height)] if len(drawn) > 1 else []
    return f'<g fill="none" stroke="{colors[track.branch]}" stroke-width="2">{"".join([*paths, *last])}</g>'


def _path(points: Sequence[Point], height: int, look: str = "") -> str:
    path = [f"M{_x(points[0][0]):g} {_y(points[0][1]):g}"]
    for start, end in pairwise(points):
        x, y = _x(end[0]), min(_y(end[1]), float(height))
        middle = (_y(start[1]) + y) / 2
        path.append(f"V{y:g}" if start[0] == end[0] else f"C{_x(start[0]):g} {middle:g} {x:g} {middle:g} {x:g} {y:g}")
    return f'<path d="{"".join(path)}"{look}/>'


def _dot(dot: Dot, color: str) -> str:
    x, y = _x(dot.at[0]), _y(dot.at[1])
    ring = f'<circle cx="{x:g}" cy="{y:g}" r="7.5" fill="none" stroke="{color}" stroke-width="1.5"/>'
    merged = ring if len(dot.entry.parents) > 1 else ""
    title = f"<title>{safe(str(dot.entry.pin))}</title>"
    return f'<g>{title}{merged}<circle cx="{x:g}" cy="{y:g}" r="4.5" fill="{color}"/></g>'


def _pills(labels: Sequence[_Label], x: float, y: float) -> Iterator[str]:
    for label in labels:
        yield _pill(label, x, y)
        x += label.width + _GAP


def _pill(label: _Label, x: float, y: float) -> str:
    corner = 3 if label.kind == "tag" else 9
    box = f'x="{x + 0.5:g}" y="{y - 8.5:g}" width="{label.width - 1:g}" height="17" rx="{corner}"'
    text = f'x="{x + 6:g}" y="{y + 4:g}" font-size="11" font-family="{_FONT}" fill="currentColor"'
    return (
        f"<g><title>{label.kind} {safe(label.text)}</title>"
        f'<rect {box} fill="{label.color}" {_LOOKS[label.kind].format(label.color)}/>'
        f'<text {text} textLength="{label.width - 12:g}">{safe(label.shown)}</text></g>'
    )
