"""Draws the graph of versions in lanes, as ``git log --graph`` does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from lance_spark.history.entries import LogEntry
from lance_spark.refs.model import PinnedVersion

NODE, MERGE_NODE = "*", "M"
"""A version, and one that took in another branch."""
_LANE = "|"


@dataclass(frozen=True)
class GraphRow:
    """One line of the graph."""

    graph: str
    """What is drawn, without blanks at its end."""
    entry: LogEntry | None = None
    """The version that the line is about; None for a line that only leads lanes from one place to another."""
    below: str = ""
    """What to draw beside further lines about the same version."""


def draw(entries: Iterable[LogEntry]) -> Iterator[GraphRow]:
    """The rows of a log. ``entries`` come newest first, each before those it was made from.

    A merge from a branch that is not among the entries (it was deleted, or is on a remote) gets no lane.
    """
    listed = list(entries)
    known = {entry.pin for entry in listed}
    lanes: list[PinnedVersion] = []
    for entry in listed:
        place, rows = _place(lanes, entry.pin)
        yield from rows
        first, taken_in = entry.parents[:1], [parent for parent in entry.parents[1:] if parent in known]
        node = MERGE_NODE if len(entry.parents) > 1 else NODE
        line = " ".join(node if lane == place else _LANE for lane in range(len(lanes)))
        following = _led_on(lanes, place, first, taken_in)
        yield GraphRow(line, entry, below=_bars(lanes, place if not first else None))
        lanes[:] = following.lanes
        yield from following.rows


@dataclass(frozen=True)
class _Turn:
    lanes: list[PinnedVersion]
    rows: tuple[GraphRow, ...]


def _place(lanes: list[PinnedVersion], pin: PinnedVersion) -> tuple[int, list[GraphRow]]:
    """The lane of a version; all other lanes that lead to it are led into that one."""
    if pin not in lanes:
        lanes.append(pin)
        return len(lanes) - 1, []
    place = lanes.index(pin)
    rows = []
    while (other := _last(lanes, pin)) != place:
        rows.append(GraphRow(_joined(len(lanes), place, other)))
        del lanes[other]
    return place, rows


def _led_on(
    lanes: list[PinnedVersion], place: int, first: Sequence[PinnedVersion], taken_in: Sequence[PinnedVersion]
) -> _Turn:
    """The lanes below a version, and the rows that lead to them."""
    if first:
        after = [*lanes[:place], first[0], *lanes[place + 1 :]]
        if not taken_in:
            return _Turn(after, ())
        row = GraphRow(_fanned_out(len(lanes), place))
        return _Turn([*after[: place + 1], taken_in[0], *after[place + 1 :]], (row,))
    after = [*lanes[:place], *lanes[place + 1 :]]
    moved = len(lanes) > place + 1
    return _Turn(after, (GraphRow(_closed(len(lanes), place)),) if moved else ())


def _last(lanes: Sequence[PinnedVersion], pin: PinnedVersion) -> int:
    return len(lanes) - 1 - lanes[::-1].index(pin)


def _bars(lanes: Sequence[PinnedVersion], ended: int | None) -> str:
    return " ".join(" " if lane == ended else _LANE for lane in range(len(lanes))).rstrip()


def _joined(count: int, place: int, other: int) -> str:
    """``|/`` for neighbours, ``|_|/`` for lanes with others in between; lanes to the right move left."""
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
