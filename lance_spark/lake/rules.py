"""A publish of a lake as values: changed rows of ``__manifest``, their conflicts, the journal and its outcome. Pure.

In: the rows with which a branch of the lake began, and its newest ones. Out: what changed, and how that changes main's
newest rows, or what prevents it. A table is known by its directory, as its name can change. Making the same change
twice has no effect.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa

from lance_spark.catalog.entry_rules import (
    METADATA,
    OBJECT_ID,
    SUFFIX,
    Edit,
    Entry,
    RowFilter,
    Rows,
    changed_rows,
    decode_metadata,
    encode_properties,
    new_rows,
)
from lance_spark.catalog.rules import TABLE, from_object_id
from lance_spark.core.refs import PinnedVersion
from lance_spark.errors import Conflict, CorruptData

KEY = "lance_spark.lake"
"""In a row's metadata: what a branch of the lake pins. It is not a property."""


class EntryChange(NamedTuple):
    """One row that a branch of the lake changed; None where there is none."""

    before: Entry | None
    after: Entry | None

    @property
    def inverse(self) -> EntryChange:
        """The change that undoes it."""
        return EntryChange(self.after, self.before)

    @property
    def known(self) -> Entry:
        """The row as it was, or the new one."""
        found = self.before or self.after
        assert found is not None
        return found


class LakeConflict(NamedTuple):
    """What prevents a publish."""

    name: str
    """The table or namespace."""
    reason: str

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


class OwnBranch(NamedTuple):
    """What a row of a branch of the lake says about its table."""

    version: int = 0
    """The version of main that it pins; 0 for none."""
    branch: str | None = None
    """The table's branch that has the changes; None if there are none."""


def own_branch(row: Entry) -> OwnBranch:
    """What a row says about its table. Raises CorruptData."""
    text = decode_metadata(row.metadata, row.object_id).get(KEY)
    if text is None:
        return OwnBranch()
    try:
        values = json.loads(text)
        version, branch = values.get("version", 0), values.get("branch")
    except (ValueError, TypeError, AttributeError):
        version, branch = None, None
    if not isinstance(version, int) or not isinstance(branch, str | None):
        raise CorruptData(f"What the row of '{row.identifier}' pins cannot be read: {str(text)[:100]!r}.")
    return OwnBranch(version, branch)


def with_branch(row: Entry, branch: str) -> Entry:
    """A row that says that a branch of its table has the changes."""
    values = {**decode_metadata(row.metadata, row.object_id), KEY: json.dumps({"branch": branch})}
    return replace(row, metadata=encode_properties(values))


class LakeDecision(NamedTuple):
    """How changes of a branch change main's rows."""

    edit: Edit
    conflicts: tuple[LakeConflict, ...]


def row_changes(base: Iterable[Entry], branch: Iterable[Entry]) -> tuple[EntryChange, ...]:
    """The rows that differ, sorted by id. Pins do not count."""
    before, after = ({_key(row): _plain(row) for row in rows} for rows in (base, branch))
    changes = [EntryChange(before.get(key), after.get(key)) for key in before.keys() | after.keys()]
    changed = (change for change in changes if _values(change.before) != _values(change.after))
    return tuple(sorted(changed, key=lambda change: change.known.object_id))


def _key(row: Entry) -> tuple[str, str]:
    return (TABLE, row.location) if row.is_table and row.location else (row.object_type, row.object_id)


def _plain(row: Entry) -> Entry:
    """A row without its pin."""
    metadata = decode_metadata(row.metadata, row.object_id)
    metadata.pop(KEY, None)
    return Entry(row.object_id, row.object_type, row.location, encode_properties(metadata))


def _values(row: Entry | None) -> object:
    return None if row is None else (row.object_id, row.object_type, decode_metadata(row.metadata, row.object_id))


def decide(
    changes: Sequence[EntryChange],
    rows: Rows,
    unlisted: Iterable[str] = (),
    written: Mapping[str, str] | None = None,
    moved: Iterable[str] = (),
) -> LakeDecision:
    """The effect of a branch's changes on main's newest rows.

    ``unlisted`` are directories that are tables without a row. ``written`` are directories of tables with new data on
    the branch, with their names; ``moved`` are directories of tables with new data on main.
    """
    return _Deciding(rows, frozenset(unlisted), frozenset(moved)).run(changes, written or {})


class _Deciding:
    def __init__(self, rows: Rows, unlisted: frozenset[str], moved: frozenset[str]) -> None:
        self.rows, self.unlisted, self.moved = rows, unlisted, moved
        self.main = {_key(row): row for row in rows.entries}
        self.gone: dict[str, Entry] = {}
        self.changed: list[tuple[Entry, Entry]] = []
        """(row of main, the same row changed)."""
        self.added: list[Entry] = []
        self.conflicts: list[LakeConflict] = []

    def run(self, changes: Sequence[EntryChange], written: Mapping[str, str]) -> LakeDecision:
        dropped = {change.before.location for change in changes if change.before and change.after is None}
        for location, name in written.items():
            there = (TABLE, location) in self.main or location in self.unlisted
            new = any(change.before is None and change.known.location == location for change in changes)
            if not there and not new and location not in dropped:
                self.conflicts.append(LakeConflict(name, "changed on the branch, and dropped on main"))
        for change in changes:
            reason = self._decide(change)
            if reason:
                self.conflicts.append(LakeConflict(str(change.known.identifier), reason))
        self._check_names()
        conflicts = tuple(sorted(set(self.conflicts)))
        return LakeDecision(Edit() if conflicts else self._edit(), conflicts)

    def _decide(self, change: EntryChange) -> str | None:
        """Take a change in; returns what prevents it."""
        main, location = self.main.get(_key(change.known)), change.known.location
        if main is None and location in self.unlisted:
            return self._of_directory(change)
        if change.after is None:
            return self._drop(change.known, main)
        if change.before is None and main is None:
            self.added.append(change.after)
            return None
        if main is None:
            return "changed on the branch, and dropped on main"
        return self._alter(change.before, change.after, main)

    def _drop(self, before: Entry, main: Entry | None) -> str | None:
        if main is None:
            return None
        if _values(_plain(main)) != _values(before):
            return "dropped on the branch, and changed on main"
        if before.location in self.moved:
            return "dropped on the branch, and written on main"
        if before.is_table and (before.location or "").endswith(SUFFIX):
            return "dropped on the branch, but its directory *.lance would remain a table: drop it on main"
        self.gone[main.object_id] = main
        return None

    def _alter(self, before: Entry | None, after: Entry, main: Entry) -> str | None:
        if before is None and main.object_id != after.object_id:
            return f"registered on the branch, and as '{main.identifier}' on main"
        old = main.object_id if before is None else before.object_id
        if main.object_id not in (old, after.object_id) and after.object_id != old:
            return f"renamed to '{after.identifier}' on the branch, and to '{main.identifier}' on main"
        new_id = after.object_id if after.object_id != old else main.object_id
        values, clash = merge_metadata(
            *(decode_metadata(None if row is None else row.metadata, old) for row in (before, after, main))
        )
        if clash:
            return f"property '{clash}' was changed on the branch and on main, to different values"
        if new_id == main.object_id and values == decode_metadata(main.metadata, old):
            return None
        self.changed.append((main, Entry(new_id, main.object_type, main.location, encode_properties(values))))
        return None

    def _of_directory(self, change: EntryChange) -> str | None:
        """A table without a row on main: it can get one, but keeps the name of its directory."""
        before, after = change
        if before is None or after is None or before.object_id != after.object_id:
            return "renamed or dropped on the branch, and only a directory on main: migrate the catalog first"
        self.added.append(after)
        return None

    def _check_names(self) -> None:
        """Names are unique, and whatever has a name is in a namespace that exists."""
        removed = {*self.gone, *(row.object_id for row, _ in self.changed)}
        new = [*self.added, *(row for _, row in self.changed)]
        staying = [row for row in self.rows.entries if row.object_id not in removed]
        taken = {row.object_id for row in staying}
        for row in new:
            if row.object_id in taken:
                self._refuse(row, "that name was taken on main")
            taken.add(row.object_id)
        namespaces = {row.object_id for row in (*staying, *new) if row.is_namespace}
        for row in new:
            parent = row.identifier.parent
            if not parent.is_root and parent.object_id not in namespaces:
                self._refuse(row, f"its namespace '{parent}' was dropped on main")
        for gone in self.gone.values():
            inside = [row for row in staying if row.object_id.startswith(f"{gone.object_id}$")]
            if gone.is_namespace and inside:
                self._refuse(gone, f"dropped on the branch, and main has '{inside[0].identifier}' in it")

    def _refuse(self, row: Entry, reason: str) -> None:
        self.conflicts.append(LakeConflict(str(row.identifier), reason))

    def _edit(self) -> Edit:
        tables = []
        for main, new in self.changed:
            own = self.rows.only([main.object_id])  # with the columns of other tools
            tables.append(changed_rows(changed_rows(own, OBJECT_ID, [new.object_id]), METADATA, [new.metadata]))
        if self.added:
            tables.append(new_rows(self.rows.table.schema, self.added))
        removed = (*self.gone, *(main.object_id for main, _ in self.changed))
        before = (*self.gone.values(), *(main for main, _ in self.changed))
        return Edit(removed, pa.concat_tables(tables) if tables else None, before)


def merge_metadata(
    before: Mapping[str, Any], after: Mapping[str, Any], main: Mapping[str, Any]
) -> tuple[dict[str, Any], str | None]:
    """Main's values with those of the branch; and the first name that both sides changed differently."""
    merged = dict(main)
    for name in sorted({*before, *after}):
        mine, theirs, now = before.get(name), after.get(name), main.get(name)
        if theirs in (mine, now):
            continue
        if now != mine:
            return merged, name
        merged.pop(name, None)
        if name in after:
            merged[name] = theirs
    return merged, None


@dataclass(frozen=True)
class PublishRows:
    """The changes of a publish, as a change of the catalog."""

    doing: str
    """Completes "Cannot ...". It is also the message of the commit, by which others know that it was made."""
    changes: tuple[EntryChange, ...]
    unlisted: Callable[[], Iterable[str]] = tuple
    """Looks up the directories that are tables without a row."""
    moved: Callable[[], Iterable[str]] = tuple
    """Looks up the directories of dropped tables that have new data on main."""
    written: Mapping[str, str] | None = None

    @property
    def needs(self) -> RowFilter:
        """Names must be free, and namespaces empty."""
        return RowFilter(everything=True)

    def edit(self, rows: Rows) -> Edit:
        """Raises Conflict, which names what clashes."""
        decision = decide(self.changes, rows, self.unlisted(), self.written, self.moved())
        check(decision.conflicts)
        return decision.edit


def check(conflicts: Sequence[LakeConflict]) -> None:
    """Raise Conflict if there are any."""
    if conflicts:
        raise Conflict(
            f"The branch cannot be combined with main; no table was published.{_listed(conflicts)}",
            hint="Resolve each on the branch, or on main, and publish again.",
        )


def _listed(conflicts: Sequence[LakeConflict]) -> str:
    listed = "".join(f"\n  - {conflict}" for conflict in conflicts[:10])
    return listed + (f"\n  - {len(conflicts) - 10} more" if len(conflicts) > 10 else "")


# --- The journal: what a publish is about to do, what was decided, what was done
# Files that are created once and never changed. Their names sort newest first.

_DIGITS = 20
_LAST = 2**64 - 1
_NAME = re.compile(r"([0-9]{20})\.json")
PUBLISHED, TAKEN_BACK = "published", "taken back"
LEFT = "could not be taken back"
"""Begins the reason of a conflict that keeps a table as it was published."""


@dataclass(frozen=True)
class JournalTable:
    """One table of a publish."""

    object_id: str
    location: str
    """Its directory, relative to the catalog's root."""
    branch: str
    """The branch of the table that main takes in, up to ``version``."""
    version: int
    since: int
    """Main's newest version when the publish was decided."""

    @property
    def name(self) -> str:
        """As users write it."""
        return str(from_object_id(self.object_id))

    @property
    def source(self) -> PinnedVersion:
        """What main takes in."""
        return PinnedVersion(self.branch, self.version)


@dataclass(frozen=True)
class Journal:
    """A publish that was decided."""

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
    """Distinguishes the branch of the lake from an earlier one of that name."""

    @property
    def subject(self) -> str:
        """What it publishes, in a few words."""
        return f"branch '{self.branch}' of the lake ({self.id})"

    @property
    def written(self) -> dict[str, str]:
        """Directories of its tables, with their names."""
        return {table.location: table.name for table in self.tables}

    def encode(self) -> bytes:
        """The content of its file."""
        rows = [[None if row is None else asdict(row) for row in change] for change in self.rows]
        return _encoded({**asdict(self), "rows": rows})


@dataclass(frozen=True)
class TableOutcome:
    """What became of one table."""

    location: str
    before: int
    """Main's version before the publish."""
    after: int
    """Main's version with the changes, or the one that excludes them; ``before`` if there was nothing to change."""


@dataclass(frozen=True)
class PublishOutcome:
    """The end of a publish."""

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

    def encode(self) -> bytes:
        """The content of its file."""
        return _encoded(asdict(self))


@dataclass(frozen=True)
class PublishVerdict:
    """Whether a publish goes forward or back: the first one that is written counts."""

    id: str
    outcome: str
    conflicts: tuple[LakeConflict, ...] = ()

    def encode(self) -> bytes:
        """The content of its file."""
        return _encoded(asdict(self))


def check_published(journal: Journal, outcome: PublishOutcome) -> None:
    """Raise Conflict if a publish was taken back."""
    if outcome.is_published:
        return
    left = [conflict.name for conflict in outcome.conflicts if conflict.reason.startswith(LEFT)]
    raise Conflict(
        f"The publish of {journal.subject} was taken back{', but not in all tables' if left else ''}: another process "
        f"changed main at the same time.{_listed(outcome.conflicts)}",
        hint=f"Look at {', '.join(left)}: restore or revert what should not be there. Then publish again."
        if left
        else "Publish again. What clashes must be resolved on the branch, or on main.",
    )


def journal_name(sequence: int) -> str:
    """The name of a journal's file."""
    return f"{_LAST - sequence:0{_DIGITS}}.json"


def verdict_name(sequence: int) -> str:
    """The name of the file with its verdict."""
    return journal_name(sequence).replace(".json", ".verdict.json")


def outcome_name(sequence: int) -> str:
    """The name of the file with its outcome."""
    return journal_name(sequence).replace(".json", ".done.json")


def sequence_of(name: str) -> int | None:
    """The sequence number of a journal's file; None for other files."""
    match = _NAME.fullmatch(name)
    return _LAST - int(match[1]) if match else None


def _encoded(values: Mapping[str, Any]) -> bytes:
    return json.dumps(values, ensure_ascii=False, indent=1).encode()


def decode_journal(content: bytes, name: str) -> Journal:
    """The journal in a file. Raises CorruptData."""

    def build(given: dict[str, Any]) -> Journal:
        tables = tuple(JournalTable(**table) for table in given.pop("tables"))
        rows = tuple(
            EntryChange(*(None if row is None else Entry(**row) for row in change)) for change in given.pop("rows")
        )
        return Journal(tables=tables, rows=rows, **given)

    return _decoded(content, name, build)


def decode_outcome(content: bytes, name: str) -> PublishOutcome:
    """The outcome in a file. Raises CorruptData."""

    def build(given: dict[str, Any]) -> PublishOutcome:
        tables, manifest = tuple(TableOutcome(**table) for table in given.pop("tables")), given.pop("manifest")
        conflicts = _conflicts(given)
        return PublishOutcome(
            tables=tables, manifest=None if manifest is None else TableOutcome(**manifest), conflicts=conflicts, **given
        )

    return _decoded(content, name, build)


def decode_verdict(content: bytes, name: str) -> PublishVerdict:
    """The verdict in a file. Raises CorruptData."""
    return _decoded(content, name, lambda given: PublishVerdict(conflicts=_conflicts(given), **given))


def _conflicts(given: dict[str, Any]) -> tuple[LakeConflict, ...]:
    return tuple(LakeConflict(*conflict) for conflict in given.pop("conflicts"))


_File = TypeVar("_File", Journal, PublishOutcome, PublishVerdict)


def _decoded(content: bytes, name: str, build: Callable[[dict[str, Any]], _File]) -> _File:
    try:
        found = build(json.loads(content))
        if getattr(found, "outcome", PUBLISHED) not in (PUBLISHED, TAKEN_BACK):
            raise ValueError("an unknown outcome")
    except (ValueError, KeyError, TypeError, AttributeError):
        raise CorruptData(
            f"The file {name} of a publish of the lake cannot be read: {content[:100]!r}.",
            hint="Restore it. Until then nothing is published: what it decided is unknown.",
        ) from None
    return found
