"""What versions did, from their transactions: steps after a base, log entries, changed fragments and columns. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple

from lance_spark.core.refs import MAIN, PinnedVersion
from lance_spark.core.show import Recorded
from lance_spark.format.contents import Contents, DeletionFile, Field, Fragment
from lance_spark.format.row_ids import Rewrite

_QUIET = frozenset({"Append", "Clone", "CreateIndex", "ReserveFragments", "UpdateBases", "UpdateConfig"})
"""Operations that leave every older fragment unchanged."""
_SAME_ROWS = frozenset({"CreateIndex", "ReserveFragments", "Rewrite", "UpdateBases"})
"""Operations that leave the table's rows, columns and values unchanged."""
_MOVES_NO_ROWS = _QUIET | {"Delete", "Merge", "Project", "Rewrite"}
"""Operations that never rewrite rows: a row missing from a fragment that still exists was deleted."""
KEEPS_COLUMNS = (_QUIET - {"Clone"}) | {"DataReplacement", "Delete", "Rewrite", "Update"}
"""Operations that leave the table's columns as they are."""
WRITES_COLUMNS = frozenset({"DataReplacement", "Merge", "Overwrite", "Project", "Restore", "Clone", "Unknown"})
"""Operations that may write or rename columns. Unless they record it, nothing is known about any column."""
_ADDS_NO_COLUMNS = (KEEPS_COLUMNS - {"DataReplacement"}) | {"Project"}
_REPLACES_ALL = frozenset({"Overwrite"})
_IN_NO_CONFLICT = _QUIET - {"UpdateConfig"}
"""Operations that conflict only with a replaced table. ``UpdateConfig`` can change comments of columns."""
_SHOWN = 4


class VersionSpan(NamedTuple):
    branch: str | None
    after: int
    """The version before the first one."""
    until: int


class Step(NamedTuple):
    version: int
    operation: str
    """pylance's name of the operation."""
    moved: bool | None = None
    """Whether it rewrote older rows; None if the operation shows it."""
    brings: bool = False
    """Whether it brought rows from a cherry-pick, a revert or a restore."""
    adds_only: bool = False
    """Whether it certainly only added rows that were never in other files before."""
    replaced: bool | None = None
    """Whether it replaced the whole table; None if the operation shows it."""
    rewrites: tuple[Rewrite, ...] = ()
    """Its compactions, including those that it took over."""

    reordered: bool = False
    """Whether it certainly only moved rows to other files, in another order."""
    fields: frozenset[int] | None = None
    """The ids of the columns after it; None if it left the columns as they were, or if they are unknown."""
    branch: str | None = None
    """The branch that made it, perhaps one that the branch at hand was created from."""
    unsure: bool = False
    """Whether it stands for versions of another dataset, some of which are unknown."""
    appended: tuple[str, ...] = ()
    """Names of the data files that an append added."""
    computed: tuple[tuple[str, tuple[str, ...] | None], ...] | None = None
    """The columns that it computed, with those that it read (None if unknown); None if it records nothing."""
    renames: tuple[tuple[str, str | None], ...] | None = None
    """If it only changed columns, without their values: (name before it, name after it or None for a dropped one), of
    those whose name is another one. None if it did more, or if that is unknown."""
    prepares: bool = False
    """Whether it only took over settings, before the rows of the same merge."""

    @property
    def replaces_all(self) -> bool:
        """Whether nothing of the previous table is left."""
        return self.operation in _REPLACES_ALL if self.replaced is None else self.replaced

    @property
    def moves_rows(self) -> bool:
        """Whether rows might have left a fragment without being deleted."""
        return self.operation not in _MOVES_NO_ROWS if self.moved is None else self.moved

    @property
    def is_silent(self) -> bool:
        """Whether it may have written or renamed columns, and does not tell which."""
        return self.computed is None and self.renames is None and self.operation in WRITES_COLUMNS

    @property
    def renames_rows(self) -> bool:
        """Whether it might have moved older rows to other files."""
        return self.moves_rows or self.brings or self.reordered or bool(self.rewrites) or self.operation == "Rewrite"

    @property
    def changes_rows(self) -> bool:
        """Whether it might have rewritten or deleted older rows."""
        return self.operation not in _QUIET and not self.adds_only


@dataclass(frozen=True)
class Steps:
    """The versions after a base, ascending: of one chain, preceded by those of the chains that it was forked from."""

    branch: str | None
    all: tuple[Step, ...] = ()
    complete: bool = True
    """False if versions in between are gone, so that their operations are unknown."""
    lost: tuple[int, ...] = ()
    """Those that are gone and brought rows from a cherry-pick, a revert or a restore, as records beside them say."""

    found: tuple[Rewrite, ...] = ()
    """Where rows are now that no version tells: found by their values."""
    recalled: tuple[Step, ...] | None = None
    """All versions, for what they did to columns, with those that are gone; None if records do not tell that."""

    @property
    def on_columns(self) -> tuple[Step, ...] | None:
        """The versions, for what they did to columns; None if one of them does not tell it."""
        steps = self.all if self.complete and self.recalled is None else self.recalled
        if steps is None or any(step.is_silent for step in steps):
            return None
        return steps

    @cached_property
    def moves_no_rows(self) -> bool:
        """Whether rows that left a fragment were certainly deleted rather than updated."""
        return self.complete and not any(step.moves_rows for step in self.all)

    @cached_property
    def rewrites(self) -> tuple[Rewrite, ...]:
        return (*(rewrite for step in self.all for rewrite in step.rewrites), *self.found)

    @cached_property
    def appended(self) -> frozenset[str]:
        """Names of data files that certainly hold new rows only."""
        return frozenset(path for step in self.all for path in step.appended)

    @property
    def keep_all_rows(self) -> bool:
        """Whether the table certainly still has the same rows and values."""
        same = (step.reordered or step.operation in _SAME_ROWS for step in self.all)
        return self.complete and bool(self.all) and all(same)

    @property
    def brings(self) -> bool:
        """Whether one of them brought rows that another chain might also have."""
        return bool(self.lost) or any(step.brings for step in self.all)

    def may_hide(self, other: Steps) -> bool:
        """Whether file names no longer show which rows of this side were cherry-picked, reverted or restored.

        That is so if this side rewrote or deleted rows since then, or if the other side ever did.
        """
        if self.lost:
            return True  # nothing tells what came after it
        first = next((position for position, step in enumerate(self.all) if step.brings), None)
        if first is None:
            return False
        later = self.all[first + 1 :]
        return any(step.changes_rows for step in (*later, *other.all)) or not (self.complete and other.complete)

    @property
    def changes_rows(self) -> bool:
        """Whether one of them might have rewritten or deleted older rows."""
        return not self.complete or any(step.changes_rows for step in self.all)

    @property
    def renames_rows(self) -> bool:
        """Whether they might have moved older rows to other files."""
        return not self.complete or any(step.renames_rows for step in self.all)

    def changed_after(self, version: int) -> bool:
        """Whether rows of a version of this branch, or of later ones, might have changed since."""
        return not self.complete or any(step.changes_rows for step in self.all if step.version > version)

    @property
    def replaces_all(self) -> bool:
        """Whether one of them replaced the whole table."""
        return any(step.replaces_all for step in self.all)

    @property
    def may_add_columns(self) -> bool:
        """Whether one of them might have given the table a new column."""
        return not self.complete or any(step.operation not in _ADDS_NO_COLUMNS for step in self.all)

    @property
    def tell_columns(self) -> bool:
        """Whether the columns after each of them are known."""
        return self.complete and all(step.fields is not None or step.operation in KEEPS_COLUMNS for step in self.all)

    def last_name(self, column: str) -> str:
        """The last name of a column that they renamed, as far as they tell."""
        for step in self.all:
            column = dict(step.renames or ()).get(column) or column
        return column

    def dropped(self, fields: Collection[int]) -> frozenset[int]:
        """Which columns, by id, were missing after one of them."""
        after = [step.fields for step in self.all if step.fields is not None]
        return frozenset(fields) - frozenset(fields).intersection(*after)

    @property
    def only_registers_bases(self) -> bool:
        """Whether they only let the branch read files from other places, or settle settings, as a merge does first."""
        known = (step.operation == "UpdateBases" or step.prepares for step in self.all)
        return self.complete and bool(self.all) and all(known)

    def described(self) -> str:
        """The versions that changed anything, for display: ``main@7 (Update), main@8 (Delete)``."""
        gone = [Step(version, "cleaned up") for version in self.lost]
        shown = [step for step in self.all if step.operation not in _IN_NO_CONFLICT] or self.all
        return _listed(self.branch, [*gone, *shown])


def _listed(branch: str | None, steps: Iterable[Step]) -> str:
    named = [f"{branch or MAIN}@{step.version} ({step.operation})" for step in steps]
    return ", ".join(named if len(named) <= _SHOWN else [*named[:_SHOWN], f"{len(named) - _SHOWN} more"])


# --- Versions in a log

_WORDS = {
    "Append": "append",
    "Clone": "clone",
    "CreateIndex": "index",
    "DataOverlay": "overlay",
    "DataReplacement": "replace column",
    "Delete": "delete",
    "Merge": "add columns",
    "Overwrite": "overwrite",
    "Project": "change columns",
    "ReserveFragments": "reserve fragments",
    "Restore": "restore",
    "Rewrite": "compact",
    "Unknown": "unknown",
    "Update": "update",
    "UpdateBases": "update bases",
    "UpdateConfig": "config",
    "UpdateMemWalState": "update write-ahead log",
}
"""Display names of pylance's operations; its ``Merge`` adds columns and is unrelated to branch merges."""


def words_for(version: int, operation: str, action: str | None) -> str:
    """A version's operation for display, e.g. ``append``, ``create`` or ``merge (append)``."""
    said = _WORDS.get(operation, operation)
    if operation == "Overwrite" and version == 1:
        said = "create"
    return said if action is None or action == said else f"{action} ({said})"


@dataclass(frozen=True)
class LogEntry(Recorded):
    branch: str | None
    """None for main."""
    version: int
    timestamp: datetime
    """Commit time, UTC."""
    operation: str
    """pylance's name, e.g. ``Append``; ``Unknown`` if the transaction is lost or not known to this package."""
    action: str | None = None
    """This package's name of the action, e.g. ``merge``; None for a commit that other software made."""
    source: str | None = None
    """The source of the changes, e.g. ``exp@8``."""
    message: str | None = None
    author: str | None = None
    """Who made the version; None if its writer did not say."""
    total_rows: int | None = None
    """Rows of the version; None if the writer did not count them."""
    stat: Stat | None = None
    """Only on request, and only if the previous version exists for comparison."""
    tags: tuple[str, ...] = ()
    heads: tuple[str, ...] = ()
    """Branches whose newest version this is."""
    forks: tuple[str, ...] = ()
    """Branches created from it."""
    parents: tuple[PinnedVersion, ...] = ()
    """The previous version, if it exists; then the one that a branch merge took in."""
    inherited: bool = False
    """Whether the log has passed the fork of its branch, so this version is the parent's."""

    @property
    def pin(self) -> PinnedVersion:
        return PinnedVersion(self.branch, self.version)

    @property
    def words(self) -> str:
        """The operation for display, e.g. ``append``, ``create`` or ``merge (append)``."""
        return words_for(self.version, self.operation, self.action)

    def as_record(self) -> dict[str, Any]:
        """As JSON: names and versions as text, the time in ISO 8601."""
        return {**super().as_record(), "branch": self.branch or MAIN}


@dataclass(frozen=True)
class ConfigChange(Recorded):
    key: str
    before: str | None
    """None if it was not set."""
    after: str | None


@dataclass(frozen=True)
class StoredColumn(Recorded):
    id: int
    path: str
    """Name; dots separate a field from its enclosing column."""
    type: str
    """Lance's name of the logical type."""
    nullable: bool


@dataclass(frozen=True)
class Index(Recorded):
    name: str
    columns: tuple[str, ...]


@dataclass(frozen=True)
class VersionDetail(Recorded):
    entry: LogEntry
    columns: tuple[StoredColumn, ...]
    indexes: tuple[Index, ...]
    config_changes: tuple[ConfigChange, ...]
    """Compared with the previous version."""
    fragments: int
    data_files: int
    deletion_files: int
    deleted_rows: int
    bytes: int
    """Bytes of data files, as far as their writers recorded them."""
    bases: tuple[str, ...]
    """Other places that hold files of the version."""
    storage_version: str
    stable_row_ids: bool
    layout: str = ""
    """As in SQL: ``PARTITIONED BY (days(ts)) CLUSTER BY (a, b)``; empty without one."""


# --- Fragments that two versions share, and changes of the others
# Names of data files are unique. So fragments that name the same file are the same one, even across a branch and its
# parent, where ids of bases and fragments differ.


@dataclass(frozen=True)
class FragmentPair:
    before: Fragment
    after: Fragment

    @property
    def deletes_alike(self) -> bool:
        """Whether the same rows are deleted in both, judging by the names of their deletion files."""
        return _deletion(self.before.deletion) == _deletion(self.after.deletion)

    def replaced_fields(self, known: Collection[int]) -> frozenset[int]:
        """The known fields whose values are in different files."""
        before, after = _places(self.before), _places(self.after)
        return frozenset(field for field in known if before.get(field) != after.get(field))

    @property
    def may_differ(self) -> bool:
        """Whether anything but ids of bases and fragments differs."""
        overlaid = self.before.has_overlays or self.after.has_overlays
        return overlaid or not self.deletes_alike or _places(self.before) != _places(self.after)


@dataclass(frozen=True)
class FragmentChanges:
    """Fragments that two versions do not share. All others hold the same rows."""

    added: tuple[Fragment, ...]
    """Only in the later version."""
    removed: tuple[Fragment, ...]
    """Only in the earlier one."""
    changed: tuple[FragmentPair, ...]
    """In both, with other deletion files, data files or overlays."""


def match(before: Contents, after: Contents, every: bool = False) -> FragmentChanges:
    """Compare the fragments of two versions. Only records that differ are decoded.

    With ``every``, all fragments that both have count as changed: their records do not hold the names of columns, or
    whether a column exists.
    """
    gone, new = before.fragments_without(after), after.fragments_without(before)
    pairs, removed, added = _paired(gone, new)
    if every:
        pairs += [FragmentPair(fragment, fragment) for fragment in after.fragments_shared(before)]
    changed = tuple(pair for pair in pairs if every or pair.may_differ)
    return FragmentChanges(tuple(added), tuple(removed), changed)


def _paired(
    gone: Sequence[Fragment], new: Sequence[Fragment]
) -> tuple[list[FragmentPair], list[Fragment], list[Fragment]]:
    """Each fragment is in at most one pair: a file that was taken over twice holds its rows twice."""
    by_file: dict[str, list[int]] = defaultdict(list)
    for place, fragment in enumerate(gone):
        for path in {file.path for file in fragment.files}:
            by_file[path].append(place)
    pairs, added, taken = [], [], set()
    for fragment in new:
        candidates = [place for file in fragment.files for place in by_file.get(file.path, ()) if place not in taken]
        if not candidates:
            added.append(fragment)
            continue
        best = min(candidates, key=lambda place: (gone[place].id != fragment.id, place))
        taken.add(best)
        pairs.append(FragmentPair(gone[best], fragment))
    return pairs, [fragment for place, fragment in enumerate(gone) if place not in taken], added


def _deletion(file: DeletionFile | None) -> tuple[int, int] | None:
    # The fragment's id is part of the file's name and can change; the file's own id is random.
    return None if file is None else (file.read_version, file.id)


def _places(fragment: Fragment) -> dict[int, str]:
    """The file of each column; negative ids are replaced columns, and row ids."""
    return {field: file.path for file in fragment.files for field in file.fields if field >= 0}


@dataclass(frozen=True)
class Stat(Recorded):
    """How much a version added and removed. Rows that only moved between files count as neither."""

    rows_added: int | None
    """None if the writer did not record how many rows fragments have."""
    rows_removed: int | None
    files_added: int
    """Data files."""
    files_removed: int
    bytes_added: int
    """Bytes of data files, as far as their writers recorded them."""
    bytes_removed: int


def stat(changes: FragmentChanges, counted: bool = True, moved: bool = False) -> Stat:
    """Sum up changes. ``counted``: row counts are reliable. ``moved``: the commit only moved rows (compaction)."""
    added = sum(fragment.rows for fragment in changes.added)
    removed = sum(fragment.rows for fragment in changes.removed)
    for pair in changes.changed:
        added += max(0, pair.after.rows - pair.before.rows)
        removed += max(0, pair.before.rows - pair.after.rows)
    if moved:
        both = min(added, removed)
        added, removed = added - both, removed - both
    before = _sizes((*changes.removed, *(pair.before for pair in changes.changed)))
    after = _sizes((*changes.added, *(pair.after for pair in changes.changed)))
    new, gone = after.keys() - before.keys(), before.keys() - after.keys()
    return Stat(
        rows_added=added if counted else None,
        rows_removed=removed if counted else None,
        files_added=len(new),
        files_removed=len(gone),
        bytes_added=sum(after[path] for path in new),
        bytes_removed=sum(before[path] for path in gone),
    )


def stat_of_all(contents: Contents) -> Stat:
    return stat(FragmentChanges(tuple(contents.fragments()), (), ()), contents.counts_rows)


def _sizes(fragments: Iterable[Fragment]) -> dict[str, int]:
    return {file.path: file.size for fragment in fragments for file in fragment.files}


# --- Differences in columns, by the ids of their fields

ADDED, DROPPED, RENAMED, RETYPED, NULLABILITY = "added", "dropped", "renamed", "type changed", "nullability changed"
PRIMARY_KEY = "lance-schema:unenforced-primary-key"
"""Metadata of a field that is part of the table's key."""


@dataclass(frozen=True)
class ColumnChange(Recorded):
    kind: str
    """ADDED, DROPPED, RENAMED, RETYPED or NULLABILITY."""
    column: str
    """Path of the column in the later version; for a dropped one, in the earlier version."""
    before: str | None = None
    """Path, type or ``null`` / ``not null`` before; None for an added column."""
    after: str | None = None


def column_names(fields: Iterable[Field]) -> dict[int, str]:
    """Names by field id; dots separate a field from those that enclose it."""
    found: dict[int, str] = {}
    for field in fields:
        parent = found.get(field.parent_id)
        found[field.id] = field.name if parent is None else f"{parent}.{field.name}"
    return found


def columns(fields: Sequence[Field]) -> tuple[StoredColumn, ...]:
    """All fields with their whole paths, parents first."""
    paths = column_names(fields)
    return tuple(StoredColumn(field.id, paths[field.id], field.type, field.nullable) for field in fields)


def compare_columns(before: Sequence[Field], after: Sequence[Field]) -> tuple[ColumnChange, ...]:
    """The changes, in the order of the later version; dropped columns come last.

    pylance gives a column another id when its type changes, so a drop and an addition under one name are that change.
    """
    old, new = {column.id: column for column in columns(before)}, {column.id: column for column in columns(after)}
    dropped = {column.path: column for column in old.values() if column.id not in new}
    changes: list[ColumnChange] = []
    for column in new.values():
        earlier = old.get(column.id) or dropped.pop(column.path, None)
        if earlier is None:
            changes.append(ColumnChange(ADDED, column.path, None, column.type))
        else:
            changes += _differences(earlier, column)
    return (*changes, *(ColumnChange(DROPPED, column.path, column.type) for column in dropped.values()))


def _differences(before: StoredColumn, after: StoredColumn) -> Iterable[ColumnChange]:
    # A column inside a renamed one keeps its own name; only the last part of the path is its own.
    if before.path.rpartition(".")[2] != after.path.rpartition(".")[2]:
        yield ColumnChange(RENAMED, after.path, before.path, after.path)
    if before.type != after.type or before.id != after.id:
        yield ColumnChange(RETYPED, after.path, before.type, after.type)
    if before.nullable != after.nullable:
        yield ColumnChange(NULLABILITY, after.path, _null(before), _null(after))


def _null(column: StoredColumn) -> str:
    return "null" if column.nullable else "not null"


def common_fields(before: Sequence[Field], after: Sequence[Field]) -> frozenset[int]:
    """Ids of fields that both versions have with the same type, so that values can be compared."""
    types = {field.id: field.type for field in before}
    return frozenset(field.id for field in after if types.get(field.id) == field.type)


def common_columns(before: Sequence[Field], after: Sequence[Field]) -> tuple[tuple[str, str], ...]:
    """(name before, name after) of the columns whose values can be compared, including all nested fields."""
    shapes = _shapes(before)
    shapes_after = _shapes(after)
    return tuple(
        (shapes[key][0], shapes_after[key][0])
        for key in shapes_after
        if key in shapes and shapes[key][1] == shapes_after[key][1]
    )


def key_columns(fields: Sequence[Field]) -> tuple[str, ...]:
    """Names of the columns in the table's key; empty if it has none, or one with fields inside columns."""
    key = key_fields(fields)
    return tuple(field.name for field in key) if all(field.parent_id == -1 for field in key) else ()


def key_fields(fields: Sequence[Field]) -> tuple[Field, ...]:
    """The fields of the table's key, also those inside columns; pylance declares them by a word or by a position."""
    return tuple(field for field in fields if _is_key(dict(field.metadata)))


def _is_key(metadata: Mapping[str, bytes]) -> bool:
    position = metadata.get(f"{PRIMARY_KEY}:position", b"")
    return position.isdigit() or metadata.get(PRIMARY_KEY, b"").lower() in (b"true", b"1", b"yes")


def top_level(fields: Sequence[Field], ids: Iterable[int]) -> frozenset[str]:
    """Names of the columns that are, or enclose, the fields with these ids."""
    parents = {field.id: field.parent_id for field in fields}
    names = {field.id: field.name for field in fields}
    names_used = set()
    for field in ids:
        here = field
        while parents.get(here, -1) != -1:
            here = parents[here]
        if here in names:
            names_used.add(names[here])
    return frozenset(names_used)


def _shapes(fields: Sequence[Field]) -> dict[int, tuple[str, tuple[tuple[int, str, str], ...]]]:
    """Per column: its name, and the ids, types and inner names of all its fields."""
    owner: dict[int, int] = {}
    inner: dict[int, list[tuple[int, str, str]]] = {}
    names: dict[int, str] = {}
    for field in fields:
        owner[field.id] = owner.get(field.parent_id, field.id)
        if owner[field.id] == field.id:
            names[field.id] = field.name
        own_name = "" if owner[field.id] == field.id else field.name
        inner.setdefault(owner[field.id], []).append((field.id, field.type, own_name))
    return {key: (names[key], tuple(inner[key])) for key in names}
