"""Lays out the graph of a log for a drawing: where dots and lines are, in columns and rows. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from lance_spark.history.entries import LogEntry
from lance_spark.history.graph import GraphStep, steps

Point = tuple[int, int]
"""(column, row), both from 0."""


@dataclass(frozen=True)
class Dot:
    """A version."""

    at: Point
    entry: LogEntry


@dataclass(frozen=True)
class Track:
    """The way from a version down to one that it was made from."""

    branch: str | None
    """The branch whose line it is: that of the upper version, or of what a merge took in."""
    points: tuple[Point, ...]
    open: bool = False
    """Whether it leads to a version that is not in the log."""


@dataclass(frozen=True)
class Drawing:
    """A graph, one row for each version."""

    dots: tuple[Dot, ...]
    tracks: tuple[Track, ...]

    @property
    def columns(self) -> int:
        """How many lanes there are side by side."""
        return 1 + max((column for track in self.tracks for column, _ in track.points), default=0)

    @property
    def rightmost(self) -> tuple[int, ...]:
        """By row, the last column in which there is anything."""
        widths = [dot.at[0] for dot in self.dots]
        for column, row in (point for track in self.tracks for point in track.points):
            if row < len(widths):
                widths[row] = max(widths[row], column)
        return tuple(widths)

    @property
    def branches(self) -> tuple[str | None, ...]:
        """Whose lines there are, as they come from above."""
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
    """Goes down the rows, with the lanes that are open."""

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
