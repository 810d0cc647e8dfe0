"""How far a stream has read a branch, as a value and as the JSON that Spark keeps in the checkpoint. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from lance_spark.errors import CorruptData, Refused

FORMAT = 1
"""Number of the JSON form. It changes when an older reader would misunderstand a newer offset."""
_FORMAT, _UNBEGUN = "format", "unbegun"
_SNAPSHOT = "snapshot"


class StreamPlace(NamedTuple):
    """What comes next: the ``file``-th part of what a version gives. All before it was given."""

    version: int
    file: int = 0


@dataclass(frozen=True)
class StreamOffset:
    """A place on the line of one branch, and how the stream got there."""

    line: str
    """Identity of the branch, which a later branch of the same name does not have; "" for main."""
    begin: int
    """The first version that is read."""
    snapshot: bool
    """Whether all rows of that version are read, and not only what it changed."""
    next: StreamPlace
    stamp: int
    """Commit time, in nanoseconds since 1970, of the version that :attr:`anchor` names; 0 if that is before the first.
    It tells the dataset from another one that was made at the same place."""
    losses: int = 0
    """How often the stream went on behind versions that were gone."""

    @property
    def in_snapshot(self) -> bool:
        """Whether the next part is of the whole version that the stream began with."""
        return self.snapshot and self.next.version == self.begin

    @property
    def anchor(self) -> int:
        """The newest version that the place depends on: of which something was given, or which is compared next."""
        return self.next.version if self.in_snapshot or self.next.file else self.next.version - 1

    def at(self, place: StreamPlace, stamp: int) -> StreamOffset:
        """The same stream further on."""
        return replace(self, next=place, stamp=stamp)

    def to_json(self) -> dict[str, Any]:
        """As Spark keeps it. Numbers beyond 2^53 are text, which every reader of JSON keeps exactly."""
        return {
            _FORMAT: FORMAT,
            "line": self.line,
            "begin": self.begin,
            _SNAPSHOT: self.snapshot,
            "version": self.next.version,
            "file": self.next.file,
            "stamp": str(self.stamp),
            "losses": self.losses,
        }


def unbegun() -> dict[str, Any]:
    """The offset before the first batch.

    It is always the same one: Spark does not keep it, and asks for it again when the first batch is read once more. How
    the stream began is in the offset at which that batch ends.
    """
    return {_FORMAT: FORMAT, _UNBEGUN: True}


def parse_offset(given: Mapping[str, Any]) -> StreamOffset | None:
    """An offset from its JSON form; None for :func:`unbegun`. Raises CorruptData, and Refused for a newer form."""
    form = given.get(_FORMAT)
    if type(form) is int and form > FORMAT:
        raise Refused(
            f"The checkpoint has offsets of form {form}, and this release reads form {FORMAT}.",
            hint="Run the query with the release of lance-spark that wrote the checkpoint, or a newer one.",
        )
    if given.get(_UNBEGUN) is True:
        return None
    try:
        return StreamOffset(
            line=_typed(given["line"], str),
            begin=_typed(given["begin"], int),
            snapshot=_typed(given[_SNAPSHOT], bool),
            next=StreamPlace(_typed(given["version"], int), _typed(given["file"], int)),
            stamp=int(_typed(given["stamp"], str)),
            losses=_typed(given["losses"], int),
        )
    except (KeyError, TypeError, ValueError):
        raise CorruptData(
            f"The checkpoint has an offset that is none of this source: {dict(given)}.",
            hint="Give the query a checkpoint of its own.",
        ) from None


def begun(line: str, begin: int, snapshot: bool, stamp: int, losses: int = 0) -> StreamOffset:
    """A stream that has given nothing yet."""
    return StreamOffset(line, begin, snapshot, StreamPlace(begin), stamp, losses)


def batch_start(start: StreamOffset | None, end: StreamOffset) -> StreamOffset:
    """Where a batch begins that ends there: the start, unless the stream began, or went on elsewhere, in this batch."""
    if start is not None and start.losses == end.losses:
        return start
    return begun(end.line, end.begin, end.snapshot, 0, end.losses)


def resume_after_loss(oldest: int) -> int:
    """The version to go on with, by the oldest one that exists: only of the first is known what it changed."""
    return 1 if oldest == 1 else oldest + 1


def _typed(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError
    return value
