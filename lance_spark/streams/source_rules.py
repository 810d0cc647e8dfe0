"""Offsets of a stream, the extent of its batches, the meaning of commits, and new rows among moved ones. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from lance_spark.core.refs import PinnedVersion
from lance_spark.errors import CorruptData, Refused
from lance_spark.format import row_ids
from lance_spark.format.contents import Fragment
from lance_spark.format.row_ids import NONE, Deleted, Offsets, Rewrite, Runs, Traced, trace
from lance_spark.format.versions import columns

FORMAT = 1
"""Version of the JSON form. It changes when an older reader would misunderstand a newer offset."""
_FORMAT, _UNBEGUN = "format", "unbegun"
_SNAPSHOT = "snapshot"


class StreamPlace(NamedTuple):
    """The next thing to read: part ``file`` of a version. Everything before it was read."""

    version: int
    file: int = 0


@dataclass(frozen=True)
class StreamOffset:
    """A position in the history of one branch, and how the stream got there."""

    line: str
    """Identity of the branch, unique among branches of the same name; "" for main."""
    begin: int
    snapshot: bool
    """Whether all rows of that version are read, rather than just its changes."""
    next: StreamPlace
    stamp: int
    """Commit time of the version that :attr:`anchor` names, in nanoseconds since 1970; 0 if that is before the first
    version. It distinguishes the dataset from another one created at the same place."""
    losses: int = 0
    """How often the stream continued behind missing versions."""

    @property
    def in_snapshot(self) -> bool:
        """Whether the next part belongs to the whole version that the stream began with."""
        return self.snapshot and self.next.version == self.begin

    @property
    def anchor(self) -> int:
        """The newest version that the position depends on: it was partly read, or is compared with the next one."""
        return self.next.version if self.in_snapshot or self.next.file else self.next.version - 1

    def at(self, place: StreamPlace, stamp: int) -> StreamOffset:
        """The same stream at a later position."""
        return replace(self, next=place, stamp=stamp)

    def to_json(self) -> dict[str, Any]:
        """As Spark stores it. Numbers beyond 2^53 are text, which every JSON reader keeps exactly."""
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

    It is always the same: Spark does not store it, and requests it again when it repeats the first batch. The offset at
    the end of that batch records how the stream began.
    """
    return {_FORMAT: FORMAT, _UNBEGUN: True}


def parse_offset(given: Mapping[str, Any]) -> StreamOffset | None:
    """Parse an offset; None for :func:`unbegun`. Raises CorruptData, and Refused for a newer form."""
    form = given.get(_FORMAT)
    if type(form) is int and form > FORMAT:
        raise Refused(
            f"The checkpoint has offsets of form {form}, but this release reads form {FORMAT}.",
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
            f"The checkpoint has an offset that is not from this source: {dict(given)}.",
            hint="Use a separate checkpoint for this query.",
        ) from None


def begun(line: str, begin: int, snapshot: bool, stamp: int, losses: int = 0) -> StreamOffset:
    """The offset of a stream that has not read anything yet."""
    return StreamOffset(line, begin, snapshot, StreamPlace(begin), stamp, losses)


def batch_start(start: StreamOffset | None, end: StreamOffset) -> StreamOffset:
    """The start of a batch that ends there: the given one, unless the stream began or resumed elsewhere in it."""
    if start is not None and start.losses == end.losses:
        return start
    return begun(end.line, end.begin, end.snapshot, 0, end.losses)


def resume_after_loss(oldest: int) -> int:
    """The version to resume with, given the oldest existing one: only the very first version's changes are known."""
    return 1 if oldest == 1 else oldest + 1


def _typed(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError
    return value


# --- The extent of the next batch


class PartSize(NamedTuple):
    """One part of a version. A part is never divided among batches."""

    files: int
    size: int


class VersionSize(NamedTuple):
    version: int
    parts: Sequence[PartSize] = ()
    blocked: bool = False
    """Whether the stream cannot pass this version."""


@dataclass(frozen=True)
class Limits:
    """The maximum that one batch reads; None for no limit. The first part is always read."""

    files: int | None = None
    size: int | None = None
    """Bytes."""
    versions: int | None = None

    @property
    def any(self) -> bool:
        return any(limit is not None for limit in (self.files, self.size, self.versions))


NO_LIMITS = Limits()


def next_place(start: StreamPlace, versions: Iterable[VersionSize], limits: Limits) -> StreamPlace:
    """The end of the batch that begins at ``start``. ``versions`` are consecutive, beginning with that of the start.

    Consumes no more versions than needed. The batch ends before a blocked version; if that is the first one, it ends at
    the start.
    """
    here = start
    files = size = taken = 0
    for entry in versions:
        if entry.blocked:
            return here
        parts = entry.parts[here.file :]
        if parts and limits.versions is not None and taken >= limits.versions:
            return here
        for part in parts:
            full = (limits.files is not None and files + part.files > limits.files) or (
                limits.size is not None and size + part.size > limits.size
            )
            if full and files:
                return here
            files, size = files + part.files, size + part.size
            here = StreamPlace(here.version, here.file + 1)
        taken += bool(parts)
        here = StreamPlace(entry.version + 1)
    return here


# --- The meaning of a commit for a stream of appended rows

_WORDS = {
    "Delete": "deleted rows",
    "Overwrite": "replaced the table",
    "Update": "updated or deleted rows",
    "Restore": "restored an older version of the table",
    "DataReplacement": "changed values of a column",
    "DataOverlay": "changed values of a column",
    "Merge": "changed values of a column",
}


class Effect(NamedTuple):
    """A version's effect on the fragments of the one before it, as far as the stream's columns show it."""

    added: int = 0
    removed: int = 0
    deleted: int = 0
    """Fragments whose deleted rows changed."""
    rewritten: int = 0
    """Fragments with other values in a column that both versions have."""


class CommitMeaning(Enum):
    NOTHING = "nothing"
    ROWS = "rows"
    CHANGE = "change"


def meaning(effect: Effect) -> CommitMeaning:
    """Decide by the effect, not by the name of the operation.

    A branch merge and an insert by key are both an Update, and may only add rows; a Delete may match no row.
    """
    if effect.removed or effect.deleted or effect.rewritten:
        return CommitMeaning.CHANGE
    return CommitMeaning.ROWS if effect.added else CommitMeaning.NOTHING


def may_have_moved(effect: Effect) -> bool:
    """Whether rows that are missing may be in new fragments, so that rows were only added: this needs a closer look.

    If both sides of a merge were compacted, the fragment of one stays and loses the rows that the other brings.
    """
    return bool(effect.added and (effect.removed or effect.deleted)) and not effect.rewritten


def refusal(pin: PinnedVersion, operation: str | None, merged: PinnedVersion | None = None) -> Refused:
    """The error for a change in a stream of appended rows, with hints. ``merged`` is the merged version, if any.

    A branch merge with a compaction may have added rows only, but this cannot be proved: deletion files from before it
    are gone, or rows were reordered.
    """
    skip = (
        "Restart the query from its checkpoint with option('skip_change_commits', 'true') to leave out such versions, "
        "including the rows that they added. "
    )
    if merged is not None:
        return Refused(
            f"Version {pin} merged {merged}, and more than new rows came: older rows were changed, deleted or "
            "reordered, or it is no longer known where a compaction moved them. This stream gives appended rows "
            "only. Everything before it was given.",
            hint=f"{skip}table.changes({pin.version - 1}, {pin.version}) shows what came with this version. A query "
            "with its own checkpoint and option('changes', 'true') follows every merge.",
        )
    words = _WORDS.get(operation or "", "changed rows")
    told = f" ({operation})" if operation else ""
    return Refused(
        f"Version {pin} {words}{told}, but this stream gives appended rows only. Everything before it was given.",
        hint=f"{skip}To see each change, start another query, with its own checkpoint and option('changes', 'true').",
    )


# --- Finding the new rows of a version that brought compactions along
#
# A merge takes over the compactions of its branch. Then the same new files hold new rows and old ones, which the stream
# gave before. So older rows are followed to their new places.

Range = tuple[int, int]
"""Rows from the first number up to, but not including, the second."""


class NewRows(NamedTuple):
    """Some rows of a fragment, as ascending ranges that do not touch."""

    offsets: tuple[Range, ...]
    """By position in the data files."""
    ranks: tuple[Range, ...]
    """The same rows by number among those that are not deleted."""

    @property
    def total(self) -> int:
        return sum(end - first for first, end in self.ranks)


@dataclass(frozen=True)
class MergedStep:
    """A version that may have moved older rows, and the version before it."""

    before: tuple[Fragment, ...]
    """The fragments that may have moved: missing ones, and those in compactions."""
    after: tuple[Fragment, ...]
    """The fragments that may have their rows: new ones, and those in compactions."""
    rewrites: tuple[Rewrite, ...]
    """What the version records about compactions."""
    fields: frozenset[int]
    """Ids of the fields whose values must not have changed."""


def new_rows(step: MergedStep, added: Collection[int], deleted: Deleted) -> dict[int, NewRows] | None:
    """The rows of each added fragment, by its id, that the version before did not have.

    None unless it is certain that every older row still exists, once and with the same values, and that no deleted row
    returned. Otherwise the version did more than add rows, or its effect is no longer known.
    """
    if any(not entry.physical_rows or entry.has_overlays for entry in (*step.before, *step.after)):
        return None
    # Deleted rows also have labels: a row that returns was not appended.
    start = [(entry, row_ids.run(entry.physical_rows, at << 32)) for at, entry in enumerate(step.before)]
    traced = trace(start, step.rewrites, deleted)
    if traced.doubtful or not _same_values(step, traced):
        return None
    gone = {entry: deleted(entry) for entry in (*step.before, *step.after)}
    known = {entry: offsets for entry, offsets in gone.items() if offsets is not None}
    if len(known) < len(gone):
        return None
    before, after = (
        row_ids.sorted_by_row(
            [row_ids.by_label(row_ids.live(traced.labels_of(entry), known[entry])) for entry in entries]
        )
        for entries in (step.before, step.after)
    )
    if row_ids.overlap(before) or row_ids.overlap(after):
        return None
    if len(row_ids.without(before, after)) or len(row_ids.without(after, before)):
        return None
    return {
        entry.id: _chosen(entry, traced.labels_of(entry), known[entry]) for entry in step.after if entry.id in added
    }


def _same_values(step: MergedStep, traced: Traced) -> bool:
    """Whether no column was written in files with older rows: a fragment would then have other files than before."""
    states: dict[str, dict[int, str]] = {}
    rewritten = (entry for each in step.rewrites for side in (each.old, each.new) for entry in side)
    for entry in (*step.before, *step.after, *rewritten):
        key = traced.files.key(entry)
        if not len(traced.labels.get(key, NONE)):
            continue
        here = columns(entry, step.fields)
        if entry.has_overlays or states.setdefault(key, here) != here:
            return False
    return True


def _chosen(fragment: Fragment, old: Runs, deleted: Offsets) -> NewRows:
    """The live rows of a fragment without a label."""
    alive = row_ids.live(row_ids.run(fragment.physical_rows, 0), deleted)
    new = row_ids.without(alive, old)
    ranked = row_ids.ranked(new, deleted)
    return NewRows(_ranges(new), _ranges(row_ids.joined(np.column_stack([ranked[:, :2], ranked[:, 0]]))))


def _ranges(runs: Runs) -> tuple[Range, ...]:
    return tuple((first, end) for first, end in runs[:, :2].tolist())
