"""The graph of versions in lanes: step by step, and drawn as text as ``git log --graph`` does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from lance_spark.history.entries import LogEntry
from lance_spark.refs.model import PinnedVersion

NODE, MERGE_NODE = "*", "M"
"""A version, and one that took in another branch."""
_LANE = "|"


@dataclass(frozen=True)
class GraphStep:
    """What happens to the lanes next, from top to bottom."""

    kind: Literal["join", "node", "fan", "close"]
    """``join``: lane ``other`` is led into ``place``. ``node``: a version stands in ``place``; where nothing led
    there, that is a new lane, the last one. ``fan``: a lane begins to the right of ``place``. ``close``: lane
    ``place`` ends, and those to its right move left."""
    count: int
    """Lanes before it; for a node with its own."""
    place: int
    other: int = 0
    entry: LogEntry | None = None
    """Of a node."""
    target: PinnedVersion | None = None
    """The version that a lane which begins leads to."""


@dataclass(frozen=True)
class GraphRow:
    """One line of the graph."""

    graph: str
    """What is drawn, without blanks at its end."""
    entry: LogEntry | None = None
    """The version that the line is about; None for a line that only leads lanes from one place to another."""
    below: str = ""
    """What to draw next to further lines about the same version."""


def steps(entries: Iterable[LogEntry]) -> Iterator[GraphStep]:
    """How the lanes of a log run. ``entries`` come newest first, each before those it was made from.

    A merge from a branch that is not among the entries (it was deleted, or is on a remote) gets no lane.
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
            yield GraphRow(line, step.entry, below=_bars(step.count, None if step.entry.parents else step.place))


def _last(lanes: Sequence[PinnedVersion], pin: PinnedVersion) -> int:
    return len(lanes) - 1 - lanes[::-1].index(pin)


def _bars(count: int, ended: int | None) -> str:
    return " ".join(" " if lane == ended else _LANE for lane in range(count)).rstrip()


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
