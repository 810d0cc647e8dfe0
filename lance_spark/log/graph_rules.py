"""The graph of versions: in lanes step by step, as text like ``git log --graph``, and as an SVG drawing.

Entries of a log come in, newest first. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal
from unicodedata import east_asian_width

from lance_spark.core.ref_names import is_service_tag
from lance_spark.core.refs import MAIN, PinnedVersion
from lance_spark.core.show import safe
from lance_spark.format.operations import LogEntry

NODE, MERGE_NODE = "*", "M"
"""Symbols of a version, and of one that took in another branch."""
_LANE = "|"


@dataclass(frozen=True)
class GraphStep:
    """What happens to the lanes next, from top to bottom."""

    kind: Literal["join", "node", "fan", "close"]
    """``join``: lane ``other`` is led into ``place``. ``node``: a version stands in ``place``; if no lane led there,
    that is a new lane, the last one. ``fan``: a lane begins to the right of ``place``. ``close``: lane ``place`` ends,
    and those to its right move left."""
    count: int
    """Number of lanes before the step; for a node, including its own."""
    place: int
    other: int = 0
    entry: LogEntry | None = None
    """Only for a node."""
    target: PinnedVersion | None = None
    """The version that a new lane leads to."""


@dataclass(frozen=True)
class GraphRow:
    graph: str
    """The drawn text, without trailing blanks."""
    entry: LogEntry | None = None
    """The version of the line; None for a line that only moves lanes."""
    below: str = ""
    """What to draw next to further lines about the same version."""


def steps(entries: Iterable[LogEntry]) -> Iterator[GraphStep]:
    """The steps that draw the lanes of a log. ``entries`` come newest first, each before those it was made from.

    A merge from a branch that is not among the entries (deleted, or on a remote) gets no lane.
    """
    listed = list(entries)
    known = {entry.pin for entry in listed}
    lanes: list[PinnedVersion] = []
    for entry in listed:
        if entry.pin not in lanes:
            lanes.append(entry.pin)
        place = lanes.index(entry.pin)
        while (other := _last(lanes, entry.pin)) != place:
            yield GraphStep("join", len(lanes), place, other)
            del lanes[other]
        yield GraphStep("node", len(lanes), place, entry=entry)
        if not entry.parents:
            yield GraphStep("close", len(lanes), place)
            del lanes[place]
            continue
        lanes[place] = entry.parents[0]
        taken_in = next((parent for parent in entry.parents[1:] if parent in known), None)
        if taken_in is not None:
            yield GraphStep("fan", len(lanes), place, target=taken_in)
            lanes.insert(place + 1, taken_in)


def draw(entries: Iterable[LogEntry]) -> Iterator[GraphRow]:
    """The rows of a log, as text; ``entries`` as for :func:`steps`."""
    for step in steps(entries):
        if step.kind == "join":
            yield GraphRow(_joined(step.count, step.place, step.other))
        elif step.kind == "fan":
            yield GraphRow(_fanned_out(step.count, step.place))
        elif step.kind == "close":
            if step.count > step.place + 1:
                yield GraphRow(_closed(step.count, step.place))
        elif step.entry is not None:
            node = MERGE_NODE if len(step.entry.parents) > 1 else NODE
            line = " ".join(node if lane == step.place else _LANE for lane in range(step.count))
            ended = None if step.entry.parents else step.place
            below = " ".join(" " if lane == ended else _LANE for lane in range(step.count))
            yield GraphRow(line, step.entry, below.rstrip())


def _last(lanes: Sequence[PinnedVersion], pin: PinnedVersion) -> int:
    return len(lanes) - 1 - lanes[::-1].index(pin)


def _joined(count: int, place: int, other: int) -> str:
    """``|/`` for neighbors, ``|_|/`` for lanes with others in between; lanes to the right move left."""
    drawn = ""
    for lane in range(count):
        if lane == other:
            continue
        if lane > other:
            drawn += " /"
        else:
            drawn += ("" if lane == 0 else "_" if lane > place else " ") + _LANE
        if lane == other - 1:
            drawn += "/"
    return drawn


def _fanned_out(count: int, place: int) -> str:
    r"""``|\``: a lane begins to the right of one; lanes to the right move right."""
    left = " ".join([_LANE] * (place + 1))
    return left + "\\" + " \\" * (count - place - 1)


def _closed(count: int, place: int) -> str:
    """Lanes to the right of one that ended move left."""
    left = " ".join([_LANE] * place)
    return (left + " /" if left else " /") + " /" * (count - place - 2)


# --- The graph of a log laid out in columns and rows

Point = tuple[int, int]
"""(column, row), both from 0."""


@dataclass(frozen=True)
class Dot:
    at: Point
    entry: LogEntry


@dataclass(frozen=True)
class Track:
    """The line from a version down to one that it was made from."""

    branch: str | None
    """The branch it belongs to: that of the upper version, or the one that a merge took in."""
    points: tuple[Point, ...]
    open: bool = False
    """Whether it leads to a version outside the log."""


@dataclass(frozen=True)
class Drawing:
    dots: tuple[Dot, ...]
    tracks: tuple[Track, ...]

    @property
    def columns(self) -> int:
        return 1 + max((column for track in self.tracks for column, _ in track.points), default=0)

    @property
    def rightmost(self) -> tuple[int, ...]:
        """By row, the last occupied column."""
        widths = [dot.at[0] for dot in self.dots]
        for column, row in (point for track in self.tracks for point in track.points):
            if row < len(widths):
                widths[row] = max(widths[row], column)
        return tuple(widths)

    @property
    def branches(self) -> tuple[str | None, ...]:
        """Whose lines there are, from top to bottom."""
        branches = [dot.entry.branch for dot in self.dots] + [track.branch for track in self.tracks]
        return tuple(dict.fromkeys(branches))


def lay_out(entries: Iterable[LogEntry]) -> Drawing:
    """The drawing of a log, newest version first."""
    pen = _Pen()
    for step in steps(entries):
        pen.follow(step)
    return pen.finished()


@dataclass
class _Lane:
    """A line that is being drawn; without a branch at a version that no other version was made from."""

    branch: str | None = None
    points: list[Point] = field(default_factory=list)


@dataclass
class _Pen:
    """Goes down the rows, with the open lanes."""

    row: int = -1
    lanes: list[_Lane] = field(default_factory=list)
    joining: list[_Lane] = field(default_factory=list)
    dots: list[Dot] = field(default_factory=list)
    tracks: list[Track] = field(default_factory=list)

    def follow(self, step: GraphStep) -> None:
        if step.kind == "join":
            self.joining.append(self.lanes.pop(step.other))
        elif step.kind == "close":
            del self.lanes[step.place]
        elif step.kind == "fan" and step.target is not None:
            self.lanes.insert(step.place + 1, _Lane(step.target.branch, [(step.place, self.row)]))
        elif step.entry is not None:
            self._stand(step.place, step.entry)

    def _stand(self, place: int, entry: LogEntry) -> None:
        self.row += 1
        if place == len(self.lanes):
            self.lanes.append(_Lane())
        for column, lane in enumerate(self.lanes):
            if lane.points:
                lane.points.append((column, self.row))
        for lane in self.joining:
            lane.points.append((place, self.row))
        self._draw([*self.joining, self.lanes[place]])
        self.joining.clear()
        self.dots.append(Dot((place, self.row), entry))
        self.lanes[place] = _Lane(entry.branch, [(place, self.row)])

    def _draw(self, lanes: Iterable[_Lane], leads_on: bool = False) -> None:
        self.tracks += [Track(lane.branch, tuple(lane.points), leads_on) for lane in lanes if lane.points]

    def finished(self) -> Drawing:
        for column, lane in enumerate(self.lanes):
            lane.points.append((column, self.row + 1))
        self._draw(self.lanes, leads_on=True)
        return Drawing(tuple(self.dots), tuple(self.tracks))


# --- The graph of a log as SVG: a dot per version, a line per branch, names as labels

ROW = 28
"""Height of a row in pixels."""
_LANE_WIDTH, _MARGIN, _LETTER, _GAP = 18, 12, 6.7, 6
_LONGEST_NAME = 20
_MOST_LABELS = 4
_PALETTE = ("#3b82d6", "#d97a1e", "#2f9e58", "#a365d9", "#dd5555", "#1f9aa8", "#b5890b", "#d65796")
"""Readable on white and on black. The first one is main's."""
_LOOKS = {
    "branch": 'fill-opacity=".18" stroke="{}"',
    "tag": 'fill-opacity=".06" stroke="{}" stroke-opacity=".55"',
    "fork": 'fill-opacity="0" stroke="{}" stroke-dasharray="3 2"',
    "rest": 'fill-opacity="0"',
}
"""A branch is filled, a tag has square corners, a fork is dashed; a label that sums up more names has no border."""
_FONT = "ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace"


@dataclass(frozen=True)
class _Label:
    text: str
    kind: str
    """One of _LOOKS."""
    color: str
    hover: str = ""
    """What a tooltip says; empty for the kind and the text."""

    @property
    def shown(self) -> str:
        return self.text if len(self.text) <= _LONGEST_NAME else self.text[: _LONGEST_NAME - 1] + "…"

    @property
    def width(self) -> float:
        return sum(2 if east_asian_width(letter) in "WF" else 1 for letter in self.shown) * _LETTER + 12


def svg(drawing: Drawing, bare: bool = False) -> str:
    """The graph. Lines without a branch take the color of the surrounding text.

    A ``bare`` one has neither labels, which a page puts beside it, nor styles, which a strict page forbids.
    """
    names = [None, *(branch for branch in drawing.branches if branch is not None)]
    colors = {name: _PALETTE[number % len(_PALETTE)] for number, name in enumerate(names)}
    labels = [[] if bare else _labels(dot.entry, colors) for dot in drawing.dots]
    right = [_x(column) + _MARGIN for column in drawing.rightmost]
    ends = (x + sum(label.width + _GAP for label in row) for x, row in zip(right, labels, strict=True))
    width = max(_x(drawing.columns - 1) + _MARGIN, *ends) if drawing.dots else 0
    height = ROW * len(drawing.dots)
    parts = [_track(track, colors, height) for track in drawing.tracks]
    for dot, row, x in zip(drawing.dots, labels, right, strict=True):
        parts += [_dot(dot, colors[dot.entry.branch]), *_pills(row, x, _y(dot.at[1]))]
    size = f'width="{width:.0f}" height="{height}" viewBox="0 0 {width:.0f} {height}"'
    style = "" if bare else ' style="display:block;max-width:none;overflow:hidden"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}{style} role="img">{"".join(parts)}</svg>'


def legend(drawing: Drawing) -> tuple[str, ...]:
    """The meaning of the drawing's shapes, as far as it has them."""
    kinds = {label.kind for dot in drawing.dots for label in _labels(dot.entry, {})}
    shapes = {
        "ring: merge": any(len(dot.entry.parents) > 1 for dot in drawing.dots),
        "round label: newest version of a branch": "branch" in kinds,
        "square label: tag": "tag" in kinds,
        "dashed label: a branch was made here": "fork" in kinds,
        "dotted line: older versions that are not listed": any(track.open for track in drawing.tracks),
    }
    return tuple(meaning for meaning, occurs in shapes.items() if occurs)


def _labels(entry: LogEntry, colors: Mapping[str | None, str]) -> list[_Label]:
    """The labels of the text log: branches, tags except for protection tags, and forks."""

    def color(name: str) -> str:
        return colors.get(None if name == MAIN else name, "currentColor")

    labels = [_Label(name, "branch", color(name)) for name in entry.heads]
    labels += [_Label(name, "tag", "currentColor") for name in entry.tags if not is_service_tag(name)]
    labels += [_Label(name, "fork", color(name)) for name in entry.forks if name not in entry.heads]
    if len(labels) <= _MOST_LABELS:
        return labels
    rest = labels[_MOST_LABELS - 1 :]
    names = ", ".join(f"{label.kind} {label.text}" for label in rest)
    return [*labels[: _MOST_LABELS - 1], _Label(f"{len(rest):,} more", "rest", "currentColor", names)]


def _x(column: int) -> float:
    return _MARGIN + _LANE_WIDTH * column


def _y(row: int) -> float:
    return ROW * row + ROW / 2


def _track(track: Track, colors: Mapping[str | None, str], height: int) -> str:
    """A line down its points; dotted where it leaves the log."""
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
        f"<g><title>{safe(label.hover or f'{label.kind} {label.text}')}</title>"
        f'<rect {box} fill="{label.color}" {_LOOKS[label.kind].format(label.color)}/>'
        f'<text {text} textLength="{label.width - 12:g}">{safe(label.shown)}</text></g>'
    )
