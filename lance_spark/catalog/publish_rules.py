"""A publish of a lake, as it is stored: the journal, the verdict, the outcome. Pure.

Files that are created once and never changed. Their names sort newest first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Any, NamedTuple, TypeVar, cast

from lance_spark.catalog.entry_rules import Entry
from lance_spark.catalog.name_rules import MANIFEST, Mode, from_object_id
from lance_spark.core.records.stored_json import UNREADABLE, decode_json, read_as
from lance_spark.core.refs import PinnedVersion
from lance_spark.errors import CorruptData

_DIGITS = 20
_LAST = 2**64 - 1
_NAME = re.compile(r"([0-9]{20})\.json")
PUBLISHED, TAKEN_BACK = "published", "taken back"


class EntryChange(NamedTuple):
    """One row that a branch of the lake changed; None where there is none."""

    before: Entry | None
    after: Entry | None

    @property
    def inverse(self) -> EntryChange:
        return EntryChange(self.after, self.before)

    @property
    def known(self) -> Entry:
        """The row as it was, or the new one."""
        found = self.before or self.after
        assert found is not None
        return found


class LakeConflict(NamedTuple):
    name: str
    """The table or namespace."""
    reason: str

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


class _Stored:
    """A dataclass in a JSON file of its own."""

    def _stored(self) -> dict[str, Any]:
        return asdict(cast("Any", self))

    def encode(self) -> bytes:
        return json.dumps(self._stored(), ensure_ascii=False, indent=1).encode()


@dataclass(frozen=True)
class JournalTable:
    object_id: str
    location: str
    """Its directory, relative to the catalog's root; in a service's catalog, the whole URI."""
    branch: str
    """The branch of the table that main takes in, up to ``version``."""
    version: int
    since: int
    """Main's newest version when the publish was decided."""

    @property
    def name(self) -> str:
        return str(from_object_id(self.object_id))

    @property
    def source(self) -> PinnedVersion:
        return PinnedVersion(self.branch, self.version)


@dataclass(frozen=True)
class Journal(_Stored):
    sequence: int
    id: str
    branch: str
    """The branch of the lake."""
    made: str
    """Time of the decision, UTC, ISO 8601."""
    tables: tuple[JournalTable, ...]
    rows: tuple[EntryChange, ...] = ()
    dropped: dict[str, int] = field(default_factory=dict)
    """Directories of dropped tables, with the version of main that their users saw."""
    manifest_since: int = 0
    """Newest version of ``__manifest`` when the publish was decided."""
    message: str = ""
    branch_id: str = ""
    """Distinguishes the branch of the lake from an earlier one of that name; empty for branches of tables only."""
    branch_version: int = 0
    """The version of its rows; the next publish begins with them."""
    prefer: str = ""
    """Whose value is taken where main and the branch changed the same row, as it is typed: whoever ends the publish
    decides alike."""
    mode: Mode = "compatibility"
    """That of the catalog. It says, also to helpers of another mode, whether directories without a row are tables."""
    catalog: str = ""
    """Of a service: which one. Empty for a directory, whose journal is inside of it."""

    @property
    def moment(self) -> datetime:
        return datetime.fromisoformat(self.made)

    @property
    def subject(self) -> str:
        return f"branch '{self.branch}' of the lake ({self.id})"

    @property
    def forwards(self) -> str:
        """Completes "Cannot ..."; and the message of the commit that changes main's rows."""
        return f"publish {self.subject}"

    @property
    def written(self) -> dict[str, str]:
        """Directories of its tables, with their names."""
        return {table.location: table.name for table in self.tables}

    def _stored(self) -> dict[str, Any]:
        later = ("prefer", "catalog")  # without them, earlier releases read it, too
        return {name: value for name, value in asdict(self).items() if name not in later or value}


@dataclass(frozen=True)
class TableOutcome:
    location: str
    before: int
    """Main's version before the publish."""
    after: int
    """Main's version with the changes, or the one that excludes them; ``before`` if there was nothing to change."""


@dataclass(frozen=True)
class PublishOutcome(_Stored):
    sequence: int
    id: str
    outcome: str
    """``published`` or ``taken back``."""
    tables: tuple[TableOutcome, ...] = ()
    manifest: TableOutcome | None = None
    conflicts: tuple[LakeConflict, ...] = ()
    """Why it was taken back; and what could not be taken back, as later commits changed it."""

    @property
    def is_published(self) -> bool:
        """Whether all tables have the changes."""
        return self.outcome == PUBLISHED


@dataclass(frozen=True)
class PublishVerdict(_Stored):
    """Whether a publish goes forward or back: the first one that is written counts."""

    id: str
    outcome: str
    conflicts: tuple[LakeConflict, ...] = ()


@dataclass(frozen=True)
class AuditRecord(_Stored):
    """What the last audit of a branch of the lake said, for whoever reviews its merge: nothing decides by it."""

    branch: str
    branch_version: int
    tables: dict[str, int]
    """Directories of the tables that it would merge, with the versions of their branches."""
    made: str
    """UTC, ISO 8601."""
    passed: bool
    says: str = ""
    """Why it did not pass."""
    author: str = ""

    @classmethod
    def of(cls, journal: Journal, made: str, failure: str, author: str) -> AuditRecord:
        """The record of an audit that looked at what a journal says; without a ``failure``, it passed."""
        return cls(journal.branch, journal.branch_version, _versions_in(journal), made, not failure, failure, author)

    def is_of(self, journal: Journal) -> bool:
        """Whether the branch is as the audit saw it."""
        return (self.branch_version, self.tables) == (journal.branch_version, _versions_in(journal))


def _versions_in(journal: Journal) -> dict[str, int]:
    return {table.location: table.version for table in journal.tables}


def audit_id(branch: str, branch_id: str) -> str:
    """What the last audit is recorded by: the id of a branch of the lake; of branches of tables, their one name."""
    return branch_id or sha256(branch.encode()).hexdigest()


def is_of_tables(audited: str) -> bool:
    """Whether an audit looked at branches of tables, judging by what it is recorded by."""
    return len(audited) == _NAMED


_NAMED = 64
"""Digits of a hash; ids of branches of the lake have fewer."""
_AUDITED = re.compile(r"[0-9a-f]{1,64}")


def audit_file(branch_id: str) -> str | None:
    """The name of the file with the last audit of a branch of the lake; None for an id that names no file."""
    return f"{branch_id}.json" if _AUDITED.fullmatch(branch_id) else None


def decode_audit(content: bytes, name: str) -> AuditRecord:
    """The record of an audit. Raises CorruptData."""
    try:
        return read_as(AuditRecord, decode_json(content), lenient=True)
    except UNREADABLE:
        raise CorruptData(f"The record {name} of an audit of the lake cannot be read: {content[:100]!r}.") from None


def journal_name(sequence: int) -> str:
    return f"{_LAST - sequence:0{_DIGITS}}.json"


def verdict_name(sequence: int) -> str:
    return journal_name(sequence).replace(".json", ".verdict.json")


def outcome_name(sequence: int) -> str:
    return journal_name(sequence).replace(".json", ".done.json")


def sequence_of(name: str) -> int | None:
    """The sequence number of a journal's file; None for other files."""
    match = _NAME.fullmatch(name)
    return _LAST - int(match[1]) if match else None


_File = TypeVar("_File", Journal, PublishOutcome, PublishVerdict)


def decode(kind: type[_File], content: bytes, name: str) -> _File:
    """A journal, outcome or verdict from its file. Raises CorruptData."""
    try:
        found = read_as(kind, decode_json(content))
        if getattr(found, "outcome", PUBLISHED) not in (PUBLISHED, TAKEN_BACK):
            raise ValueError("an unknown outcome")
    except UNREADABLE:
        raise CorruptData(
            f"The file {name} of a publish of the lake cannot be read: {content[:100]!r}.",
            hint="Restore it. Until then nothing is published: what it decided is unknown.",
        ) from None
    return found


# --- What a reader of complete publishes sees: of everything that a later publish changes, the version before it


def last_complete(names: Iterable[str]) -> int:
    """The sequence number of the last publish that has an outcome; 0 if there is none.

    Only the newest publish can be unfinished: the next one begins when it has its outcome.
    """
    known = {*names}
    newest = max((number for name in known if (number := sequence_of(name)) is not None), default=0)
    return newest if not newest or outcome_name(newest) in known else newest - 1


def later_publishes(names: Iterable[str], sequence: int) -> dict[int, bool]:
    """The sequence numbers of the publishes after one, in order, and whether each has an outcome.

    The files were listed after the version that is in question was looked up: a journal that is created while the
    listing goes on, or an outcome that it has and the journal of which it missed, is of a publish after that version.
    """
    known = {*names}
    numbers = sorted(number for name in known if (number := sequence_of(name)) is not None and number > sequence)
    return {number: outcome_name(number) in known for number in numbers}


def since(journal: Journal, location: str) -> int | None:
    """Main's version when a publish was decided, of a table or of ``__manifest``; None if it does not change that."""
    if location == MANIFEST:
        return journal.manifest_since if journal.rows else None
    return next((table.since for table in journal.tables if table.location == location), None)


def _changed(outcome: PublishOutcome, location: str) -> TableOutcome | None:
    done = (*outcome.tables, *(() if outcome.manifest is None else (outcome.manifest,)))
    return next((each for each in done if each.location == location and each.before < each.after), None)


def before(outcome: PublishOutcome, location: str) -> int | None:
    """Main's version before a publish; None if that changed nothing there, or was taken back."""
    changed = _changed(outcome, location) if outcome.is_published else None
    return None if changed is None else changed.before


def tells_all(outcome: PublishOutcome, location: str, newest: int) -> bool:
    """Whether an outcome tells what ``newest`` has of the publish.

    A version that was looked up before the publish was taken back may have its changes, although the outcome, which was
    read later, says that no reader is to see them. Then the versions themselves have to be asked.
    """
    changed = _changed(outcome, location)
    return outcome.is_published or changed is None or newest >= changed.after


def version_seen(newest: int, befores: Iterable[int | None]) -> int:
    """What a reader sees of main, whose newest version was known before the later publishes were listed."""
    return min([newest, *(version for version in befores if version is not None)])
