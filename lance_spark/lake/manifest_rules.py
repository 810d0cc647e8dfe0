"""A publish of a lake as values: changed rows of ``__manifest``, and what prevents it. Pure.

In: the rows with which a branch of the lake began, and its newest ones. Out: what changed, and how that changes main's
newest rows, or what prevents it. A table is known by its directory, as its name can change. Making the same change
twice has no effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from lance_spark import hints
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
    v1_directory,
)
from lance_spark.catalog.name_rules import TABLE
from lance_spark.catalog.publish_rules import EntryChange, Journal, LakeConflict, PublishOutcome
from lance_spark.errors import Conflict, LanceSparkError


class LakeDecision(NamedTuple):
    edit: Edit
    conflicts: tuple[LakeConflict, ...]


def row_changes(base: Iterable[Entry], branch: Iterable[Entry]) -> tuple[EntryChange, ...]:
    """The rows that differ, sorted by id. Pins do not count."""
    before, after = ({_key(row): row.pinning(None) for row in rows} for rows in (base, branch))
    changes = [EntryChange(before.get(key), after.get(key)) for key in before.keys() | after.keys()]
    changed = (change for change in changes if _values(change.before) != _values(change.after))
    return tuple(sorted(changed, key=lambda change: change.known.object_id))


@dataclass(frozen=True)
class BranchRows:
    name: str
    base: tuple[Entry, ...]
    """The rows with which it began, or those of its last publish."""
    rows: tuple[Entry, ...]
    """Its newest rows."""
    id: str = ""
    """Distinguishes it from an earlier branch of that name; empty for branches of tables only."""
    version: int = 0
    """The version of its newest rows."""
    base_version: int = 0
    """The version of the rows in ``base``."""
    publishes: frozenset[str] = frozenset()
    """The ids of its publishes so far."""

    @property
    def changes(self) -> tuple[EntryChange, ...]:
        return row_changes(self.base, self.rows)


def _key(row: Entry) -> tuple[str, str]:
    return (TABLE, row.location) if row.is_table and row.location else (row.object_type, row.object_id)


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
        self._check_directories()
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
        if _values(main.pinning(None)) != _values(before):
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

    def _check_directories(self) -> None:
        """For readers of directories (V1), ``x.lance`` in the root is table ``x``, whatever rows say."""
        for row in [*self.added, *(new for old, new in self.changed if old.object_id != new.object_id)]:
            directory = v1_directory(row.identifier)
            if row.identifier.in_root and directory in self.unlisted and row.location != directory:
                self._refuse(row, "that name was taken on main")

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


def reason(clash: LanceSparkError) -> str:
    """Why a table cannot be merged, in one line: what clashes, without the sentence that only says that it does."""
    first, *clashes = [line.strip().removeprefix("- ") for line in clash.message.splitlines()]
    return "; ".join(clashes or [first])


LEFT = "could not be taken back"
"""Begins the reason of a conflict that keeps a table as it was published."""


def check(conflicts: Sequence[LakeConflict], prefer: str = "") -> None:
    """Raise Conflict if there are any; ``prefer`` is the preference that left them."""
    if conflicts:
        raise Conflict(
            f"The branch cannot be combined with main; no table was published.{_listed(conflicts)}",
            hint="Resolve each on the branch, or on main, and publish again."
            if prefer
            else hints.of(
                "Where both sides changed a row, publish again and choose whose value counts: ",
                hints.PREFER,
                ". Resolve anything else on the branch, or on main.",
            ),
        )


def _listed(conflicts: Sequence[LakeConflict]) -> str:
    listed = "".join(f"\n  - {conflict}" for conflict in conflicts[:10])
    return listed + (f"\n  - {len(conflicts) - 10} more" if len(conflicts) > 10 else "")


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
