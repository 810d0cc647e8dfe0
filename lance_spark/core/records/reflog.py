"""The history of branches and tags: a small record for each change that this package makes. Pure.

A record is written before the change and rewritten once the change is done, so a killed process leaves a record in the
state "begun". The ref shows whether that change happened: it is where the record's "before" or its "after" says.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from lance_spark import hints
from lance_spark.core.records.stored_json import UNREADABLE, decode_json, read_as
from lance_spark.core.ref_files import parse_branch
from lance_spark.core.refs import MAIN, Branch, PinnedVersion, Tag
from lance_spark.core.show import Card, Grid, Shown
from lance_spark.core.texts import counted, moment
from lance_spark.errors import AlreadyExists, CorruptData, NotFound, Refused

LOG = "_refs/lance_spark/log"
"""Directory below the dataset's root. pylance looks only into ``_refs/branches`` and ``_refs/tags``, and no cleanup
deletes anything below ``_refs``."""
BRANCH, TAG = "branch", "tag"
MOVED, DELETED, RESTORED = "moved", "deleted", "restored"
BEGUN, DONE, FORGOTTEN = "begun", "done", "forgotten"
"""States of a record. A forgotten branch was deleted for good: its files are gone, or will be."""
DEFAULT_UNDO_WINDOW = timedelta(days=7)
_FORMAT = 1


@dataclass(frozen=True)
class TagState:
    """The version of a tag, with the tag's metadata."""

    target: PinnedVersion
    metadata: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def of(tag: Tag | None, stamp: int | None = None) -> TagState | None:
        """The state of a tag; ``stamp`` is the commit time of its version, if known."""
        return None if tag is None else TagState(replace(tag.target, stamp=stamp), dict(tag.metadata))

    def same(self, other: TagState | None) -> bool:
        return other is not None and self.target.reference == other.target.reference


@dataclass(frozen=True)
class RefChange:
    id: str
    """Name of the record; ids sort by time."""
    at: datetime
    """UTC."""
    kind: str
    name: str
    action: str
    before: TagState | None = None
    """Of a tag; None if it did not exist."""
    after: TagState | None = None
    """Of a tag; None if the change deleted it."""
    head: PinnedVersion | None = None
    """The newest version of a branch, stamped."""
    ref_file: str = ""
    """The ref file of a branch that was deleted."""
    state: str = BEGUN
    author: str = ""
    """Who changed it; "" if the process did not say."""

    @property
    def branch(self) -> Branch | None:
        """The branch that was deleted; None for another change. Raises CorruptData."""
        return parse_branch(self.name, self.ref_file.encode()) if self.ref_file else None

    @property
    def was(self) -> str:
        """The version before the change; "" for none."""
        pin = self.head if self.kind == BRANCH else None if self.before is None else self.before.target
        return "" if pin is None else str(pin)

    @property
    def now(self) -> str:
        """The version after the change; "" for none."""
        pin = self.head if self.kind == BRANCH and self.action == RESTORED else None
        pin = self.after.target if self.after is not None else pin
        return "" if pin is None else str(pin)

    def keeps(self, now_ns: int, window: timedelta) -> bool:
        """Whether the change can still be undone at that time, so cleanups keep what the undo needs."""
        age = now_ns - int(self.at.timestamp() * 1e6) * 1000
        return self.state != FORGOTTEN and age < window // timedelta(microseconds=1) * 1000

    def as_record(self) -> dict[str, Any]:
        return {
            "at": self.at.isoformat(),
            "kind": self.kind,
            "name": self.name,
            "action": self.action,
            "was": self.was or None,
            "now": self.now or None,
            "state": self.state,
            "author": self.author or None,
        }


def encode(change: RefChange) -> bytes:
    document = {"format": _FORMAT, **asdict(change), "at": change.at.isoformat(), "head": _listed(change.head)}
    for name in ("before", "after"):
        state: TagState | None = getattr(change, name)
        document[name] = state and {"target": _listed(state.target), "metadata": dict(state.metadata)}
    del document["id"]  # its name
    if not change.author:
        del document["author"]
    return json.dumps(document, indent=2).encode()


def _listed(pin: PinnedVersion | None) -> list[Any] | None:
    return None if pin is None else [pin.branch, pin.version, pin.stamp]


def decode(name: str, content: bytes) -> RefChange:
    """A record, by its name without the suffix. Raises CorruptData."""
    try:
        entry = decode_json(content)
        if entry["format"] != _FORMAT:
            raise ValueError(f"it has format {entry['format']}, not {_FORMAT}")
        return read_as(RefChange, {**entry, "id": name}, lenient=True)
    except UNREADABLE as problem:
        raise CorruptData(
            f"The record {LOG}/{name}.json of a changed ref cannot be understood: {problem}.",
            hint="Restore the file, or delete it if that change never needs to be undone.",
        ) from None


def tag_to_restore(name: str, current: Tag | None, changes: Sequence[RefChange]) -> RefChange:
    """The change of a tag to undo: the newest one that happened.

    Raises NotFound if there is none, AlreadyExists for a deleted tag that was created again, and Refused for a tag that
    something else has moved since.
    """
    here = TagState.of(current)
    for change in reversed(changes):
        if (change.kind, change.name) != (TAG, name) or change.before is None:
            continue
        if change.state != DONE and change.before.same(here):
            continue  # its process was killed before it changed anything
        if change.before.same(change.after):
            continue  # nothing to undo, and an earlier change might be the mistake
        if change.after is None and here is None:
            return change
        if change.after is None:
            raise AlreadyExists(
                f"Tag '{name}' was deleted at {change.before.target}, and created again at {_at(here)}.",
                hint=hints.of("To move it there: ", hints.move_tag(name, *change.before.target.reference), "."),
            )
        if change.after.same(here):
            return change
        raise Refused(
            f"Tag '{name}' was moved from {change.before.target} to {change.after.target}, and then by something "
            f"else: it is {'gone' if here is None else f'at {_at(here)}'}.",
            hint=hints.of("Move it to the right version: ", hints.move_tag(name), "."),
        )
    raise NotFound(
        f"No record shows where tag '{name}' was before.", hint=hints.of(hints.REFLOG, " lists the records.")
    )


def branch_to_restore(name: str, exists: bool, changes: Sequence[RefChange]) -> RefChange:
    """The deletion of a branch to undo.

    Raises AlreadyExists for a branch that exists, NotFound if no deletion of it is recorded, or it was for good.
    """
    if exists:
        raise AlreadyExists(f"Branch '{name}' exists.", hint="Only a deleted branch can be restored.")
    found = deleted_branch(name, changes)
    if found is None:
        raise NotFound(
            f"No recorded deletion of branch '{name}' can be undone.",
            hint=hints.of(hints.REFLOG, " lists the records."),
        )
    return found


def deleted_branch(name: str, changes: Iterable[RefChange]) -> RefChange | None:
    """The newest deletion of a branch whose files still exist; None if there is none."""
    return next((change for change in reversed([*kept_branches(changes)]) if change.name == name), None)


def is_wanted(change: RefChange, kept: Iterable[RefChange], now_ns: int, window: timedelta) -> bool:
    """Whether a deleted branch that was created from this one can still be restored."""
    children = (other.branch for other in kept if other.keeps(now_ns, window))
    return any(child is not None and child.parent_branch == change.name for child in children)


def kept_branches(changes: Iterable[RefChange], existing: Collection[str] = ()) -> list[RefChange]:
    """Deletions of branches whose files still exist: per name the newest change that happened, if it is a deletion.

    ``existing`` are the branches that have a ref: those are not deleted, whatever their records say. An unfinished
    restore counts only if the ref exists; otherwise a killed restore would make the branch impossible to restore.
    """
    happened = (change for change in changes if change.action != RESTORED or change.state == DONE)
    newest = {change.name: change for change in happened if change.kind == BRANCH and change.name not in existing}
    return [change for change in newest.values() if change.action == DELETED and change.state != FORGOTTEN]


@dataclass(frozen=True, repr=False)
class RefLog(Shown):
    uri: str
    ref: str | None
    """The branch or tag; None for all."""
    changes: tuple[RefChange, ...]
    versions: tuple[tuple[str, datetime, str], ...] = ()
    """For a branch: version, commit time and the operation that made it, newest first."""

    @property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        """When, which ref, which change, version now, version before, who: newest first."""
        rows = [
            (each.at, f"{each.kind} {each.name}", said(each), each.now, each.was, each.author) for each in self.changes
        ]
        for number, (version, when, what) in enumerate(self.versions):
            before = self.versions[number + 1][0] if number + 1 < len(self.versions) else ""
            rows.append((when, f"branch {self.ref or MAIN}", what, version, before, ""))
        ordered = sorted(rows, key=lambda row: row[0], reverse=True)
        return tuple((moment(when), *rest) for when, *rest in ordered)

    def as_records(self) -> list[dict[str, Any]]:
        names = ("at", "ref", "action", "version", "was", "author")
        return [dict(zip(names, row, strict=True)) for row in self.rows]

    def grid(self) -> Grid:
        names = ("when", "ref", "what", "at", "was", *(("by",) if any(row[-1] for row in self.rows) else ()))
        return Grid(names, tuple(row[: len(names)] for row in self.rows))

    def _card(self) -> Card:
        return Card(type(self).__name__, self.uri, counted(len(self.rows), "change"), grids=(self.grid(),))


def said(change: RefChange) -> str:
    """What happened, and whether it was finished."""
    ended = {BEGUN: " (not finished)", FORGOTTEN: " for good"}
    return f"{change.action}{ended.get(change.state, '')}"


def _at(state: TagState | None) -> str:
    return "" if state is None else str(state.target)
