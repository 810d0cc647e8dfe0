"""How far a stream has read a branch, as a value and as the JSON that Spark keeps in the checkpoint. Pure."""

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


# --- How far the next batch goes: by what versions give, and by the limits of a batch
# Pure.


class PartSize(NamedTuple):
    """One part of what a version gives. A part is never divided among batches."""

    files: int
    """Fragments to read."""
    size: int
    """Bytes to read, about."""


class VersionSize(NamedTuple):
    """What a version gives."""

    version: int
    parts: Sequence[PartSize] = ()
    blocked: bool = False
    """Whether the stream cannot go through this version."""


@dataclass(frozen=True)
class Limits:
    """How much one batch reads at most; None for as much as there is. The first part is always read."""

    files: int | None = None
    size: int | None = None
    """Bytes."""
    versions: int | None = None
    """Versions that give rows."""

    @property
    def any(self) -> bool:
        """Whether there is one."""
        return any(limit is not None for limit in (self.files, self.size, self.versions))


NO_LIMITS = Limits()


def next_place(start: StreamPlace, versions: Iterable[VersionSize], limits: Limits) -> StreamPlace:
    """Where the batch ends that begins at ``start``. ``versions`` follow one another, the one of the start first.

    No further version is taken than is needed. The batch ends before a version that is blocked: it is the start itself
    if that version is the first one.
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


# --- What a commit means for a stream of appended rows: nothing, rows, or a change that rows alone cannot tell
# Pure.

_WORDS = {
    "Delete": "deleted rows",
    "Overwrite": "replaced the table",
    "Update": "updated or deleted rows",
    "Restore": "took the table back to an older version",
    "DataReplacement": "gave rows other values of a column",
    "DataOverlay": "gave rows other values of a column",
    "Merge": "gave rows other values of a column",
}


class Effect(NamedTuple):
    """What a version did to the fragments of the one before it, as far as the columns of the stream show it."""

    added: int = 0
    """Fragments that are new."""
    removed: int = 0
    """Fragments that are gone."""
    deleted: int = 0
    """Fragments of which other rows are deleted than before."""
    rewritten: int = 0
    """Fragments with other values of a column that both versions have."""


class CommitMeaning(Enum):
    """Of a commit."""

    NOTHING = "nothing"
    ROWS = "rows"
    CHANGE = "change"


def meaning(effect: Effect) -> CommitMeaning:
    """The effect decides, not the name of the operation.

    A merge of a branch and an insert by key are both an Update, and may add rows only; a Delete may find no row.
    """
    if effect.removed or effect.deleted or effect.rewritten:
        return CommitMeaning.CHANGE
    return CommitMeaning.ROWS if effect.added else CommitMeaning.NOTHING


def may_have_moved(effect: Effect) -> bool:
    """Whether the rows of fragments that are gone may lie in new ones, so that only rows came: a closer look tells."""
    return bool(effect.removed and effect.added) and not (effect.deleted or effect.rewritten)


def refusal(pin: PinnedVersion, operation: str | None, merged: PinnedVersion | None = None) -> Refused:
    """The error for a change in a stream of appended rows, with the ways on. ``merged`` is what was merged, if it was.

    A merge may only have added rows, beside a compaction that it took over, and nobody can tell: files that said which
    rows were deleted before it are gone, or rows were put in another order.
    """
    skip = (
        "Restart the query from its checkpoint with option('skip_change_commits', 'true') to leave out such versions, "
        "also the rows that they added. "
    )
    if merged is not None:
        return Refused(
            f"Version {pin} merged {merged}, and more than new rows came: older rows were changed, deleted or put in "
            "another order, or where a compaction put them cannot be told any more. This stream gives appended rows "
            "only. All before it was given.",
            hint=f"{skip}What came with this version says table.changes({pin.version - 1}, {pin.version}). A query "
            "with a checkpoint of its own and option('changes', 'true') follows every merge.",
        )
    words = _WORDS.get(operation or "", "changed rows")
    told = f" ({operation})" if operation else ""
    return Refused(
        f"Version {pin} {words}{told}, and this stream gives appended rows only. All before it was given.",
        hint=f"{skip}A query that is to see each change is another one, with a checkpoint of its own: "
        "option('changes', 'true').",
    )


# --- Which rows a version added that brought compactions along: older rows are followed to their new places
# Pure.
#
# A merge takes over what its branch compacted. Then old and new rows lie in the same new files, and the old ones were
# given before.

Range = tuple[int, int]
"""Rows from the first number up to the second one, which does not count."""


class NewRows(NamedTuple):
    """Some rows of a fragment, as ranges that ascend and do not touch one another."""

    offsets: tuple[Range, ...]
    """By their places in the data files."""
    ranks: tuple[Range, ...]
    """The same rows by their numbers among those that are not deleted."""

    @property
    def total(self) -> int:
        """How many they are."""
        return sum(end - first for first, end in self.ranks)


@dataclass(frozen=True)
class MergedStep:
    """A version that may have moved older rows, and the one before it."""

    before: tuple[Fragment, ...]
    """The fragments that may have moved: those that are gone, and those that compactions speak of."""
    after: tuple[Fragment, ...]
    """The fragments that may have their rows: those that are new, and those that compactions speak of."""
    rewrites: tuple[Rewrite, ...]
    """What the version says about files."""
    fields: frozenset[int]
    """Ids of the fields of which no value may have changed."""


def new_rows(step: MergedStep, added: Collection[int], deleted: Deleted) -> dict[int, NewRows] | None:
    """The rows of each added fragment, by its id, that the version before did not have.

    None unless it is certain that every older row is still there, once and with the same values, and that none is back
    that was deleted: then the version did more than add rows, or what it did cannot be told any more.
    """
    if any(not entry.physical_rows or entry.has_overlays for entry in (*step.before, *step.after)):
        return None
    # Deleted rows have labels, too: a row that comes back is none that was appended.
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
    if row_ids.overlap(before) or row_ids.overlap(after) or not _same_labels(before, after):
        return None
    return {
        entry.id: _chosen(entry, traced.labels_of(entry), known[entry]) for entry in step.after if entry.id in added
    }


def _same_labels(one: Runs, other: Runs) -> bool:
    return not len(row_ids.without(one, other)) and not len(row_ids.without(other, one))


def _same_values(step: MergedStep, traced: Traced) -> bool:
    """Whether no column was written in files with older rows: a fragment then has other files than it had before."""
    states: dict[str, dict[int, str]] = {}
    for entry in (*step.before, *step.after, *_of(step.rewrites)):
        key = traced.files.key(entry)
        if not len(traced.labels.get(key, NONE)):
            continue
        here = columns(entry, step.fields)
        if entry.has_overlays or states.setdefault(key, here) != here:
            return False
    return True


def _of(rewrites: Sequence[Rewrite]) -> Iterable[Fragment]:
    return (entry for each in rewrites for side in (each.old, each.new) for entry in side)


def _chosen(fragment: Fragment, old: Runs, deleted: Offsets) -> NewRows:
    """The live rows of a fragment that have no label."""
    alive = row_ids.live(row_ids.run(fragment.physical_rows, 0), deleted)
    new = row_ids.without(alive, old)
    ranked = row_ids.ranked(new, deleted)
    return NewRows(_ranges(new), _ranges(row_ids.joined(np.column_stack([ranked[:, :2], ranked[:, 0]]))))


def _ranges(runs: Runs) -> tuple[Range, ...]:
    return tuple((first, end) for first, end in runs[:, :2].tolist())
