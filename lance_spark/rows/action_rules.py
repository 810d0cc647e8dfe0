"""Changing rows: the parts that producers of changes and the engine share. Pure.

An *action frame* has one row for each row that changes: ``__row_operation`` (int), ``_rowaddr`` (bigint; null for
inserts), and the table's columns (values for updates and inserts, ignored for deletes). Unchanged rows are not in it.
Below: clauses of merges, what tasks report, results, estimates, and the rules for combining concurrent commits.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal

import pyarrow as pa
import pyarrow.types as pt

from lance_spark.core.options import names_of
from lance_spark.core.refs import PinnedVersion
from lance_spark.core.show import ShownInOneLine
from lance_spark.core.texts import counted, readable
from lance_spark.errors import CorruptData, InvalidOption, NotFound
from lance_spark.format.contents import Field, Fragment
from lance_spark.format.row_ids import Deleted, Offsets, Rewrite, of_rows, rows_of, trace
from lance_spark.format.versions import columns, same_deletion

OPERATION = "__row_operation"
"""Column of an action frame: the operation on the row. Spark's row-level operations use the same numbers."""
DELETE, UPDATE, INSERT = 1, 2, 3

DELETING, UPDATING, MERGING, REPLACING = "delete", "update", "merge", "replace"
"""Verbs, as versions record them."""


# --- The clauses of a merge, and checks of their combination

Case = Literal["matched", "not matched", "not matched by source"]
Join = Literal["inner", "right", "left", "full"]
"""Which rows a merge looks at; the target is on the left."""
TARGET, SOURCE = "target", "source"
"""Names of the two sides in conditions and values."""


@dataclass(frozen=True)
class Clause:
    """``WHEN <case> AND <condition> THEN <action>``."""

    case: Case
    action: int
    """One of the operations in lance_spark.rows.action_rules."""
    condition: Any = None
    """SQL, or a Spark Column; None if the clause takes every row of its case."""
    values: Mapping[str, Any] | None = field(default=None)
    """SQL or Columns by the target's column; None for all columns of the source."""

    @property
    def words(self) -> str:
        return f"when {self.case} then {_ACTIONS[self.action]}"


_ACTIONS = {UPDATE: "update", DELETE: "delete", INSERT: "insert"}


def check_clauses(clauses: Sequence[Clause]) -> None:
    """Raise InvalidOption for a merge without clauses, or with a clause that no row can reach."""
    if not clauses:
        raise InvalidOption(
            "The merge has no clause, so it would change nothing.",
            hint="Add one, e.g. .when_matched_update_all().when_not_matched_insert_all().",
        )
    for position, clause in enumerate(clauses):
        if clause.condition is None and any(later.case == clause.case for later in clauses[position + 1 :]):
            raise InvalidOption(
                f"No row reaches the clause after '{clause.words}', which has no condition.",
                hint="Give it a condition, or put it last.",
            )


def join_of(clauses: Sequence[Clause]) -> Join:
    """The join that yields the rows the clauses need."""
    cases = {clause.case for clause in clauses}
    if "not matched by source" in cases:
        return "full" if "not matched" in cases else "left"
    return "right" if "not matched" in cases else "inner"


def inserts(clauses: Sequence[Clause]) -> bool:
    return any(clause.action == INSERT for clause in clauses)


def check_columns(names: Sequence[str], known: Sequence[str]) -> None:
    """Raise NotFound, with the closest names, for a column that the table does not have, and for fields of structs."""
    for name in names_of(names):
        if name in known:
            continue
        head = name.partition(".")[0].strip("`")
        folded = [other for other in known if other.lower() == name.lower()]
        near = folded or difflib.get_close_matches(name, known, n=3, cutoff=0.5)
        hint = "Did you mean " + " or ".join(f"'{other}'" for other in near) + "?" if near else _listed(known)
        if head != name and head in known:
            hint = f"Fields of a struct cannot be set one by one: set '{head}' as a whole, e.g. with named_struct(...)."
        raise NotFound(f"There is no column '{name}'.", hint=hint)


def spelled(names: Sequence[str], table: Sequence[str]) -> dict[str, str]:
    """The table's spelling of each name, where case does not matter; a name that could mean several stays as it is."""
    folded: dict[str, list[str]] = {}
    for name in table:
        folded.setdefault(name.lower(), []).append(name)
    meant = {name: [name] if name in table else folded.get(name.lower(), []) for name in names}
    taken = Counter(found[0] for found in meant.values() if len(found) == 1)
    return {
        name: found[0] if len(found) == 1 and (found[0] == name or taken[found[0]] == 1) else name
        for name, found in meant.items()
    }


def _listed(known: Sequence[str]) -> str:
    return "The table has " + ", ".join(known[:10]) + (" and more." if len(known) > 10 else ".")


# --- What tasks report about a change: a few small rows for each fragment

NEW = -1
"""Replaces the fragment's id in rows about a new one."""

PARTS = pa.schema(
    [
        ("fragment", pa.int64()),
        ("deleted", pa.binary()),
        ("updated", pa.binary()),
        ("metadata", pa.string()),
        ("operation", pa.int32()),
        ("rows", pa.int64()),
        ("checksum", pa.int64()),
        ("twice", pa.int64()),
    ]
)
"""The result of one task. For a fragment of the table: bitmaps of the offsets to delete, and of those that were
rewritten. For a new fragment: pylance's JSON, the operation it is for, and its rows. ``checksum`` adds up the addresses
of rewritten rows; ``twice`` is the address of a row that would be changed twice."""

OUTCOMES = pa.schema(
    [
        ("fragment", pa.int64()),
        ("metadata", pa.string()),
        ("operation", pa.int32()),
        ("deleted", pa.int64()),
        ("updated", pa.int64()),
        ("rows", pa.int64()),
        ("checksum", pa.int64()),
        ("twice", pa.int64()),
    ]
)
"""What the driver gets: one row for each changed or new fragment. ``metadata`` is null if no row is left."""

_CHECKSUM = (1 << 63) - 1


def checksum(addresses: int) -> int:
    """A sum of addresses that fits into a bigint."""
    return addresses & _CHECKSUM


@dataclass(frozen=True)
class Prepared:
    """A change whose files are written. They are invisible until the commit."""

    changed: Mapping[int, str | None]
    """Fragments with fewer rows, by id, as pylance's JSON; None if no row is left."""
    written: tuple[str, ...]
    """New fragments, as pylance's JSON."""
    deleted: int
    updated: int
    inserted: int
    twice: int | None = None
    """Address of a row that the change would change twice."""

    @property
    def is_empty(self) -> bool:
        return not (self.changed or self.written)


def prepared(outcomes: Iterable[Mapping[str, Any]], update: int) -> Prepared:
    """The results of all tasks, summed up. ``update`` is the operation of rewritten rows.

    Raises CorruptData if the rewritten rows are not the deleted ones: that happens if a source returns different rows
    each time it is read, and a task of the job ran again.
    """
    rows = list(outcomes)
    old = [row for row in rows if row["fragment"] != NEW]
    new = [row for row in rows if row["fragment"] == NEW]
    updated = sum(row["updated"] for row in old)
    again = [row for row in new if row["operation"] == update]
    twice = next((row["twice"] for row in rows if row["twice"] is not None), None)
    sums = [checksum(sum(row["checksum"] for row in part)) for part in (old, again)]
    if twice is None and (updated != sum(row["rows"] for row in again) or sums[0] != sums[1]):
        raise CorruptData(
            "The rows to change were not the same each time they were computed; nothing was changed.",
            hint="First store the source in a table or with df.localCheckpoint(), and use that.",
        )
    return Prepared(
        changed={row["fragment"]: row["metadata"] for row in old},
        written=tuple(row["metadata"] for row in new),
        deleted=sum(row["deleted"] for row in old),
        updated=updated,
        inserted=sum(row["rows"] for row in new if row["operation"] != update),
        twice=twice,
    )


# --- The result of a change of rows


@dataclass(frozen=True, repr=False)
class ChangeResult(ShownInOneLine):
    """The result of a change of rows; prints as one line."""

    version: PinnedVersion
    """The new version; the newest one if no row changed."""
    rows_deleted: int = 0
    rows_updated: int = 0
    rows_inserted: int = 0
    files: int = 0
    """Files written: data files and deletion files."""
    bytes: int = 0
    """Bytes of the data files."""

    @property
    def changed(self) -> bool:
        return bool(self.rows_deleted or self.rows_updated or self.rows_inserted)

    def __str__(self) -> str:
        """``exp@7: 3 rows deleted, 2 updated, 1 inserted; 2 files, 1.2 KiB``."""
        if not self.changed:
            return f"{self.version}: no row changed"
        rows = f"{counted(self.rows_deleted, 'row')} deleted, {self.rows_updated:,} updated"
        rows += f", {self.rows_inserted:,} inserted"
        return f"{self.version}: {rows}; {counted(self.files, 'file')}, {readable(self.bytes)}"

    def _facts(self) -> tuple[tuple[str, str], ...]:
        return (
            ("version", str(self.version)),
            ("rows deleted", f"{self.rows_deleted:,}"),
            ("rows updated", f"{self.rows_updated:,}"),
            ("rows inserted", f"{self.rows_inserted:,}"),
            ("written", f"{counted(self.files, 'file')}, {readable(self.bytes)}" if self.changed else "nothing"),
        )


# --- The task size for writing an action frame

_UNITS = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_DEFAULT = 64 * 2**20
_LEAST = 2**20


def advisory_size(setting: str | None, share: float) -> int:
    """Bytes of input for a task that writes more of each row than it gets.

    ``setting`` is Spark's advisory partition size, as a user may have set it. ``share`` is the part of a written
    row that comes with the frame; the task reads the rest from the table.
    """
    found = re.fullmatch(r"\s*(\d+)\s*([bkmgt]?)(?:i?b)?\s*", (setting or "").lower())
    whole = int(found[1]) * _UNITS[found[2]] if found else _DEFAULT
    return min(whole, max(_LEAST, int(whole * share)))


# --- Whether a merge finds its rows through an index, or reads the keys of the whole table

LARGE_TABLE = 1_000_000
"""Minimum rows for using the index: reading the keys of fewer rows takes less than a second."""
_ROWS_PER_LOOKUP = 20
"""How many keys are read and joined in the time in which an index finds one row, with a good margin."""
_SIZE = re.compile(r"Statistics\(sizeInBytes=([\d.]+(?:E[+-]?\d+)?) ([KMGTPE]?i?B)")
_LOOKUP_UNITS = {unit: 1024**power for power, unit in enumerate(("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"))}


@dataclass(frozen=True)
class Found:
    rows: int
    """Of the table."""
    outside: int
    """Rows of fragments that the index does not cover. Each lookup reads their keys."""
    source_bytes: float
    source_width: float
    """Estimated bytes of one row of the source."""


def uses_index(found: Found) -> bool:
    """Whether looking up the source's keys is less work than reading all keys of the table."""
    if found.rows < LARGE_TABLE or found.outside * 10 > found.rows:
        return False
    return found.source_bytes / max(1.0, found.source_width) * _ROWS_PER_LOOKUP < found.rows


def can_be_looked_up(kind: pa.DataType) -> bool:
    """Whether an index finds exactly the values of this type that Spark considers equal."""
    return bool(pt.is_signed_integer(kind) or pt.is_string(kind) or pt.is_large_string(kind))


def estimated_bytes(explained: str) -> float | None:
    """The size that Spark estimates for a result, from the text of ``EXPLAIN COST``; None if the text has none."""
    _, found, plan = explained.partition("== Optimized Logical Plan ==")
    first = plan.lstrip().partition("\n")[0]
    size = _SIZE.search(first) if found else None
    return None if size is None or size[2] not in _LOOKUP_UNITS else float(size[1]) * _LOOKUP_UNITS[size[2]]


# --- Which concurrent commits a change of rows can be combined with
#
# A change is computed on one version and committed on a newer one. For every fragment that it touches, the question is
# what became of the fragment. docs/tables/changing-rows.md has the table for users.


class Fate(Enum):
    """What became of a fragment from which rows are to be deleted or updated."""

    SAME = "it is as it was"
    DELETIONS = "rows of it were deleted"
    MOVED = "it was compacted"
    REWRITTEN = "values of its rows were changed"
    EXTENDED = "it got values of a new column"
    GONE = "its rows were deleted or rewritten"

    @property
    def is_conflict(self) -> bool:
        """Whether the change has to be recomputed."""
        return self in (Fate.REWRITTEN, Fate.EXTENDED, Fate.GONE)


def fate_of(before: Fragment, after: Fragment | None, live: frozenset[int], compacted: bool, updates: bool) -> Fate:
    """What became of a fragment from one version to the next.

    ``live`` are the ids of the columns that the change was computed with. ``compacted`` is whether the version rewrote
    the fragment into others, ``updates`` whether the change rewrites rows of it.
    """
    if compacted:
        return Fate.MOVED
    if after is None:
        return Fate.GONE
    if columns(before, live) != columns(after, live) or before.physical_rows != after.physical_rows:
        return Fate.REWRITTEN
    if before.row_ids != after.row_ids or before.has_overlays != after.has_overlays or after.has_overlays:
        return Fate.REWRITTEN
    if updates and _extended(before, after):
        return Fate.EXTENDED
    return Fate.SAME if same_deletion(before, after) else Fate.DELETIONS


def _extended(before: Fragment, after: Fragment) -> bool:
    """Whether there are values of columns that were added in between: rewritten rows would lose them."""
    known = {field for file in before.files for field in file.fields}
    return any(field not in known for file in after.files for field in file.fields if field >= 0)


def column_conflict(before: Sequence[Field], after: Sequence[Field], writes: bool) -> str | None:
    """Why rows computed with the columns of one version do not fit those of a later one; None if they do.

    ``writes`` is whether the change has new rows, which lack the added columns.
    """
    now = {field.id: _shape(field) for field in after}
    for column in before:
        if column.id not in now:
            return f"column '{column.name}' was dropped or replaced"
        if now[column.id] != _shape(column):
            return f"column '{column.name}' was altered"
    known = {field.id for field in before}
    for column in after:
        if writes and column.id not in known and not column.nullable:
            return f"column '{column.name}' was added, and cannot be null"
    return None


def _shape(field: Field) -> tuple[int, str, str, bool]:
    return field.parent_id, field.name, field.type, field.nullable


def follow(rewrite: Rewrite, offsets: Mapping[int, Offsets], deleted: Deleted) -> dict[int, Offsets] | None:
    """The places of rows after a compaction: offsets by the ids of the new fragments.

    ``offsets`` are of live rows, by the ids of old fragments. None if the numbers or ids of rows do not agree: then no
    position is certain.
    """
    start = [
        (fragment, of_rows(own, fragment.id << 32))
        for fragment in rewrite.old
        if (own := offsets.get(fragment.id)) is not None
    ]
    traced = trace(start, [rewrite], deleted)
    if traced.doubtful or not traced.complete:
        return None
    found = {fragment.id: rows_of(traced.labels_of(fragment)) for fragment in rewrite.new}
    return {key: own for key, own in found.items() if len(own)}


def new_fragments(before: Collection[int], after: Mapping[int, Fragment], moved: Collection[str]) -> tuple[int, ...]:
    """Ids of the fragments that a version added with rows of its own; ``moved`` are files of compacted rows."""
    return tuple(
        key
        for key, fragment in after.items()
        if key not in before and not any(file.path in moved for file in fragment.files)
    )


# --- Updates of narrow columns of wide tables: whether files of columns are smaller than whole rows

WORTH = 16 * 2**20
"""Minimum bytes of rows before writing columns is considered. Below, whole rows are as fast, and leave indexes and
versions of other rows alone."""
_DEARER = 2
"""Extra cost of a column: it is written for all rows of the table, and read for those that keep their value."""


@dataclass(frozen=True)
class UpdateSize:
    stored_bytes: int
    rows: int
    """Live rows of the table."""
    column_width: float
    """Bytes of one row of the columns that are set, as an estimate."""


def columns_may_be_cheaper(size: UpdateSize) -> bool:
    """Whether counting the matching rows is worthwhile."""
    return columns_are_cheaper(size, size.rows)


def columns_are_cheaper(size: UpdateSize, matched: int) -> bool:
    """Whether new files for the columns, with all rows, are smaller than this many whole rows."""
    rows_bytes = size.stored_bytes * matched / max(1, size.rows)
    return rows_bytes >= WORTH and _DEARER * size.column_width * size.rows <= rows_bytes
