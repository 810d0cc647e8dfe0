"""Planned and finished replays as values: what a merge, cherry-pick, revert, push or restore will do or did.

In: the two sides and the change that was decided. Out: pylance's JSON for the fragments to commit, the steps of a
restore, and a result that prints itself. Pure.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from lance_spark import hints
from lance_spark.core import show
from lance_spark.core.location import is_within
from lance_spark.core.refs import MAIN, PinnedVersion
from lance_spark.errors import NotCommittable
from lance_spark.format.contents import REPLACED, Contents, Fragment, IndexRecord
from lance_spark.format.operations import Steps, key_fields
from lance_spark.format.row_ids import Connected, Rewrite, kept_row_ids, matched_row_ids, read_row_ids, write_row_ids
from lance_spark.format.versions import (
    BRINGING,
    MERGE,
    PERHAPS,
    Copy,
    Root,
    Snapshot,
    Trace,
    by_file,
    columns,
    counterpart,
    same_deletion,
)
from lance_spark.merge.cell_rules import CellPlan, Emptied, told
from lance_spark.merge.change_rules import ContestedRow, MergeChange, MergeConflict, Replacement, Sides, shown_value
from lance_spark.merge.option_rules import OURS
from lance_spark.merge.placement_rules import InPlacePolicy, Placed, place
from lance_spark.merge.result_rules import NullChange, lost_fields, result_fields


@dataclass(frozen=True)
class ReplayPlan:
    sides: Sides
    change: MergeChange
    placed: Placed
    trace: Trace
    message: str | None = None
    deletions: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Rows to delete where both sides deleted rows: offsets in the fragment of ours, by its id."""
    rewrites: tuple[Rewrite, ...] = ()
    """Compactions of theirs that later merges need to know."""
    cells: CellPlan | None = None
    """What was decided cell by cell, if anything was."""
    patched: Mapping[tuple[bool, int], Mapping[str, Any]] = field(default_factory=dict)
    """The written files of merged rows, as pylance's JSON: by whether it is a fragment of ours, and its id."""
    conflicts: tuple[MergeConflict, ...] = ()
    nulls: NullChange = field(default_factory=NullChange)

    @property
    def ours(self) -> Snapshot:
        """The version before the new one."""
        return self.sides.ours

    @property
    def is_up_to_date(self) -> bool:
        return not self.change and not self.conflicts and not self.only_settles

    @property
    def only_settles(self) -> bool:
        """Whether ours stays as it is because a preference says so, which later merges need to know."""
        return not self.change and self.cells is not None and self.cells.settled is not None

    @property
    def is_agreed(self) -> bool:
        """Whether there is nothing to do since both sides changed rows in the same way.

        The next merge begins after that only if a version says so: beside later rows, these might not be told any more.
        """
        return self.is_up_to_date and self.cells is not None and self.trace.action not in BRINGING

    @property
    def moves_rows(self) -> bool:
        """Whether rows of ours may have moved to other fragments."""
        left = self.change.removed or any(replacement.deletion for replacement in self.change.replaced)
        return bool(self.change.added and (left or self.change.followed.deletions))

    @property
    def keeps_all_rows(self) -> bool:
        """Whether ours keeps its rows and values, in other files: by what the steps record, and by count."""
        change, summary = self.change, self.summary()
        columns = change.columns or change.columns_of_theirs
        same = summary.rows_added == summary.rows_deleted
        return self.sides.their_steps.keep_all_rows and not columns and same

    @property
    def replaces_all(self) -> str:
        """Whether the table is replaced, as far as the versions taken over record it: true, false or perhaps."""
        steps, removed = self.sides.their_steps, [before for before, _ in self.change.removed]
        if steps.replaces_all or steps.complete or not removed:
            return str(steps.replaces_all).lower()
        whole = len(removed) == self.sides.base_ours.contents.fragment_count
        lost = Connected(steps.rewrites).lost(removed, self.change.added)
        return PERHAPS if whole and len(lost) == len(removed) else "false"

    @property
    def excludes_others(self) -> bool:
        """Whether the commit must follow ours directly.

        pylance would combine it with an append: nulls in it would make the table unreadable, or two rows would have one
        key.
        """
        change = self.change
        brings = bool(change.added) or any(each.deletion or each.files for each in change.replaced)
        fields = result_fields(self.sides, change) if brings else ()
        return bool(self.nulls.fields) or bool(key_fields([entry.field for entry in fields]))

    @property
    def copies(self) -> tuple[Copy, ...]:
        return self.placed.copies

    @property
    def notes_on_cells(self) -> tuple[str, ...]:
        return () if self.cells is None else tuple(told(self.cells.emptied))

    def summary(self) -> Summary:
        change = self.change
        back = change.followed.back
        alone = [each for each in change.replaced if each.deletion and each.ours.id not in self.deletions]
        whole = [each for each in alone if each.ours.id not in back]
        more = sum(each.ours.physical_rows - each.ours.rows - len(back.get(each.ours.id, ())) for each in alone)
        more -= sum(each.ours.physical_rows - each.ours.rows for each in whole)
        deleted = sum(each.theirs.physical_rows - each.theirs.rows for each in whole)
        before = sum(each.base.physical_rows - each.base.rows for each in whole)
        added = sum(fragment.rows for fragment in change.added)
        removed = sum(ours.rows for _, ours in change.removed)
        removed += sum(len(rows) for rows in (*change.followed.deletions.values(), *self.deletions.values()))
        return Summary(
            versions=len(self.sides.their_steps.all),
            rows_added=added + max(0, before - deleted) + max(0, more),
            rows_deleted=removed + max(0, deleted - before) + max(0, -more),
            fragments_changed=len(change.replaced) + len(change.followed.deletions),
            columns_added=self._new_columns(),
            columns_dropped=self._dropped_columns(),
            rows_merged=0 if self.cells is None else self.cells.rows,
            cells_emptied=() if self.cells is None else self.cells.emptied,
            rows_settled=0 if self.cells is None or self.cells.settled is None else self.cells.settled.rows,
            files=len(self.copies),
            bytes=self.placed.bytes,
        )

    def _new_columns(self) -> tuple[str, ...]:
        """Columns that ours gets, and fields inside of its own columns."""
        if not (self.change.columns_of_theirs or self.change.columns):
            return ()
        fields = result_fields(self.sides, self.change)
        known = {(), *(entry.path for entry in fields if entry.ours is not None)}
        return tuple(entry.name for entry in fields if entry.ours is None and entry.path[:-1] in known)

    def _dropped_columns(self) -> tuple[str, ...]:
        """Columns of ours, and fields inside them, that the result does not have."""
        if not (self.change.columns_of_theirs or self.change.columns):
            return ()
        lost = lost_fields(self.sides, result_fields(self.sides, self.change), OURS)
        return tuple(entry.name for entry in lost)


# --- Fragments for pylance's commit

Json = dict[str, Any]
_LINEAGE = ("row_id_meta", "created_at_version_meta", "last_updated_at_version_meta")


@dataclass(frozen=True)
class RowIds:
    """How ours knows rows of theirs."""

    renamed: Mapping[int, int] = field(default_factory=dict)
    same_below: int = 0
    """Below this, an id means the same row on both sides, except for renamed ones."""
    forked_below: int = 0
    """Below this, both chains were forked with the row."""

    def known(self, row: int) -> int | None:
        """The id of a row in ours; None for a new row."""
        if row < self.forked_below:
            return row
        return self.renamed.get(row, row if row < self.same_below else None)


@dataclass(frozen=True)
class Assembly:
    """Turns fragments of theirs into fragments of ours."""

    theirs: Snapshot
    placed: Placed
    fields: Mapping[int, int]
    """Field ids in ours, by field ids of theirs that differ; REPLACED where the id means another column there."""
    row_ids: RowIds | None = None
    """None without stable row ids."""
    masks: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Rows to leave out of new fragments, by ids in theirs; a deletion file is written for them."""
    dead: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Deleted rows of new fragments, by ids in theirs, where it matters."""
    base: frozenset[int] = frozenset()
    """Field ids of the base's columns."""
    has_rows: bool = True
    """Whether ours has any fragment."""

    @classmethod
    def of(cls, sides: Sides, change: MergeChange, placed: Placed, fields: Mapping[int, int]) -> Assembly:
        ours, followed = sides.ours.contents, change.followed
        return cls(
            sides.theirs,
            placed,
            fields,
            row_ids=row_ids(sides, change) if ours.has_stable_row_ids else None,
            masks=followed.masks,
            dead=followed.dead,
            base=sides.base_theirs.live,
            has_rows=ours.fragment_count > 0,
        )

    def mixed(self, change: MergeChange) -> list[Fragment]:
        """New fragments whose rows could keep their ids only because some of the rows are deleted."""
        return [
            fragment
            for fragment in change.added
            if fragment.deletion is not None and fragment.id not in self.masks and self._kept(fragment) is None
        ]

    def check_row_ids(self, change: MergeChange, steps: Steps) -> None:
        """Raise NotCommittable for rows that cannot keep their stable ids. ``steps``: those of theirs."""
        moved = [fragment for fragment in change.added if self._kept_rows(fragment)]
        if moved and not self.has_rows:
            raise NotCommittable(
                "Rows with stable ids would return to an empty branch; pylance cannot commit that.",
                hint=hints.of("Restore a version that has the rows: ", hints.RESTORE_VERSION, "."),
            )
        if moved and (change.columns or change.columns_of_theirs):
            raise NotCommittable(
                "Columns were changed and rows updated since the base; with stable row ids pylance cannot commit both "
                "at once.",
                hint=in_steps(self.theirs.pin, steps),
            )

    def added(self, fragment: Fragment, metadata: Json) -> Json:
        """A new fragment, from pylance's JSON of the one in theirs. Raises NotCommittable for mixed row ids."""
        result = {**copy.deepcopy(metadata), "id": self.placed.ids[fragment.id]}
        result["files"] = [self._file(file) for file in result["files"]]
        result.update(dict.fromkeys(_LINEAGE))
        kept = self._kept_rows(fragment)
        if kept:
            result["row_id_meta"] = {"Inline": list(write_row_ids(kept))}
        if fragment.id in self.masks:
            result["deletion_file"] = None  # a new one is written
        else:
            result["deletion_file"] = self._deletion(fragment, result["deletion_file"], self.placed.ids[fragment.id])
        return result

    def replaced(self, replacement: Replacement, ours: Json, theirs: Json) -> Json:
        """A fragment of ours with the columns and deleted rows of theirs."""
        result = copy.deepcopy(ours)
        if replacement.files:
            result["files"] = self._files(replacement, result["files"], theirs["files"])
        if replacement.deletion and not replacement.both_deleted:
            result["deletion_file"] = self._deletion(replacement.theirs, theirs["deletion_file"], replacement.ours.id)
        return result

    def _files(self, replacement: Replacement, ours: list[Json], theirs: list[Json]) -> list[Json]:
        """The files of both sides. A file has the columns in its ``fields``; older files mark them as replaced."""
        here = {file["path"]: file for file in ours}
        before = {file.path: file.fields for file in replacement.base.files}
        placed = [self._file(file) for file in theirs]
        if {path: tuple(file["fields"]) for path, file in here.items()} == before:
            return [
                {**here[file["path"]], "fields": file["fields"]} if file["path"] in here else file for file in placed
            ]
        new = [file for file in placed if file["path"] not in here]
        back = {
            after["path"]: self._back(before[file["path"]], file["fields"], after["fields"])
            for file, after in zip(theirs, placed, strict=True)
            if file["path"] in before
        }
        written = {field for file in new for field in file["fields"]}
        written |= {field for found in back.values() for field in found.values()}
        return [_with_fields(file, back.get(file["path"], {}), written) for file in ours] + new

    def _back(self, before: Sequence[int], theirs: Sequence[int], placed: Sequence[int]) -> dict[int, int]:
        """Columns that theirs has restored in a file of the base: their ids in ours, by position in the file."""
        live = self.theirs.live
        return {
            at: placed[at]
            for at, (old, new) in enumerate(zip(before, theirs, strict=True))
            if new in live and not self.base.issuperset((old, new))
        }

    def _file(self, file: Json) -> Json:
        root = self.theirs.bases[file["base_id"]]
        key = root, file["path"]
        return {
            **file,
            "path": self.placed.names.get(key, file["path"]),
            "base_id": self.placed.present.get(key, self.placed.bases[root]),
            "fields": [self.fields.get(field, field) for field in file["fields"]],
        }

    def _deletion(self, fragment: Fragment, deletion: Json | None, new_id: int) -> Json | None:
        if deletion is None or fragment.deletion is None:
            return None
        base = self.placed.bases[self.theirs.root_of(fragment.deletion)] if new_id == fragment.id else None
        return {**deletion, "base_id": base}

    def _kept_rows(self, fragment: Fragment) -> list[int]:
        kept = self._kept(fragment)
        if kept is None:
            raise NotCommittable(
                f"Fragment {fragment.id} of {self.theirs.pin} mixes rows from before the base with new ones, so its "
                "rows cannot keep their stable ids.",
                hint="Merge a version from before the branch was compacted.",
            )
        return kept

    def _kept(self, fragment: Fragment) -> list[int] | None:
        """The ids that the fragment keeps; None if old and new rows are mixed."""
        if self.row_ids is None or not fragment.row_ids:
            return []
        dead = frozenset(self.masks.get(fragment.id) or self.dead.get(fragment.id) or ())
        ids = read_row_ids(fragment.row_ids)
        kept = kept_row_ids(ids, self.row_ids.known, dead)
        # Between new rows, old ones whose place in ours is unknown get new ids, like them.
        return kept_row_ids(ids, replace(self.row_ids, forked_below=0).known, dead) if kept is None else kept


_OF_COLUMNS = frozenset({"Merge", "Project"})
_OF_ROWS = frozenset({"Append", "Update", "Delete", "Rewrite"})


def in_steps(pin: PinnedVersion, steps: Steps) -> str:
    """How to merge versions that change rows and columns in turns, so that no step changes both."""
    name = pin.branch or MAIN
    kinds = [
        (each.version, each.operation in _OF_COLUMNS) for each in steps.all if each.operation in _OF_COLUMNS | _OF_ROWS
    ]
    turns = [version for (version, kind), (_, following) in pairwise(kinds) if kind != following]
    if not turns or not steps.complete or any(each.branch != pin.branch for each in steps.all):
        return f"Merge the versions of '{name}' one by one: {name}@VERSION, from the oldest on, and '{name}' at last."
    several = ", then ".join(f"{name}@{version}" for version in turns)
    return f"Merge in steps, of which none changes both: first {several}, then '{name}'."


def _with_fields(file: Json, back: Mapping[int, int], written: Collection[int]) -> Json:
    """A file of ours with the columns that return to it, and without those that moved elsewhere."""
    kept = [REPLACED if field in written else field for field in file["fields"]]
    return {**file, "fields": [back.get(at, field) for at, field in enumerate(kept)]}


def row_ids(sides: Sides, change: MergeChange) -> RowIds:
    """How ours identifies the rows that theirs moved out of fragments."""
    if not sides.keeps_ids:
        return RowIds()
    pairs = [(each.theirs, each.ours) for each in change.replaced if each.deletion]
    if sides.numbering is None:
        pairs += change.removed
        same_below = sides.base_theirs.contents.next_row_id
    else:
        gone = by_file(fragment for fragment, _ in change.removed)
        ours_of = {theirs.id: ours for theirs, ours in change.removed}
        for numbered in sides.numbering.contents.fragments() if gone else ():
            base = counterpart(numbered, gone)
            if base is not None:
                pairs.append((numbered, ours_of[base.id]))
        same_below = 0
    renamed: dict[int, int] = dict(change.followed.row_ids)
    if sides.their_same_below:
        # What took the base in left out fragments without a row that is still there: their rows are known by the base.
        for base, ours in (*change.removed, *((each.base, each.ours) for each in change.replaced)):
            inherited = matched_row_ids(base.row_ids, ours.row_ids)
            renamed.update({row: own for row, own in inherited.items() if row < sides.their_same_below})
    for theirs, ours in pairs:
        if not same_below or theirs.row_ids != ours.row_ids:
            renamed.update(matched_row_ids(theirs.row_ids, ours.row_ids))
    return RowIds(renamed, same_below, sides.same_below)


# --- Restoring an older version as a replay: fragments and indexes
# The base is the newest version and theirs the older one, so everything since then is undone. pylance's own restore
# does more (settings, the order of fragments), but conflicts with nothing: it silently covers a concurrent commit.

HARMLESS = frozenset({"Rewrite", "ReserveFragments", "CreateIndex", "UpdateBases"})
"""Operations that keep a table's rows: a restore may be planned again on top of them."""


def needs_pylance(plan: ReplayPlan) -> bool:
    """Whether pylance's own restore is needed, because a replay could not make the same version.

    This is so if columns differ (a commit cannot bring a dropped one back), if settings differ, or if the table is now
    empty.
    """
    now, then = plan.ours.contents, plan.sides.theirs.contents
    return (
        bool(plan.conflicts or plan.placed.new_bases)
        or not now.fragment_count
        or now.fields != then.fields
        or _settings(now) != _settings(then)
        or _internal(now) != _internal(then)
    )


def _settings(contents: Contents) -> tuple[Mapping[str, object], ...]:
    return contents.config, contents.table_metadata, contents.schema_metadata


def _internal(contents: Contents) -> set[str]:
    """Ids of pylance's own indexes, which describe how to read other indexes."""
    return {index.uuid for index in contents.indexes if index.name.startswith("__")}


def given_up(plan: ReplayPlan, uri: str) -> set[Root]:
    """Places outside the dataset at ``uri`` that the older version read and the newest does not.

    The dataset may have been there before it was moved. A relocation changes the newest version only.
    """
    outside = {root for root in plan.sides.theirs.bases.values() if not is_within(root.uri, uri)}
    if not outside:
        return outside
    return outside - {plan.ours.root_of(file) for fragment in plan.ours.contents.fragments() for file in fragment.files}


def moved(plan: ReplayPlan, targets: Mapping[int | None, Root]) -> ReplayPlan:
    """The plan with the current places of its files, by base id."""
    theirs = plan.sides.theirs
    theirs = replace(theirs, bases={**theirs.bases, **targets})
    placed = place(plan.change, plan.ours, theirs, InPlacePolicy(everything=True), sidecars=False)
    return replace(plan, sides=replace(plan.sides, theirs=theirs), placed=placed)


def with_own_ids(plan: ReplayPlan) -> ReplayPlan:
    """Gives returning fragments their former ids, by which their deletion files and indexes know them.

    Two kinds of ids are not reused: 0, which pylance reads as "no id", and an id that an index has learned since. That
    index may cover other values, which the fragment had in between.
    """
    now = plan.ours.contents
    then = {index.uuid: index.fragments for index in plan.sides.theirs.contents.indexes}
    taken = {fragment.id for fragment in now.fragments()}
    taken |= {key for index in now.indexes for key in index.fragments - then.get(index.uuid, frozenset())}
    free = max(now.max_fragment_id, *(fragment.id for fragment in plan.change.added), -1) + 1
    ids = {
        fragment.id: fragment.id if fragment.id and fragment.id not in taken else free + count
        for count, fragment in enumerate(plan.change.added)
    }
    planned = {_deletion_path(fragment) for fragment in plan.change.added}
    kept = [copy for copy in plan.copies if copy.path not in planned]
    renamed = [
        Copy(plan.sides.theirs.root_of(fragment.deletion), _deletion_path(fragment), _deletion_path(fragment, new))
        for fragment in plan.change.added
        if fragment.deletion is not None and (new := ids[fragment.id]) != fragment.id
    ]
    return replace(plan, placed=replace(plan.placed, ids=ids, copies=(*kept, *renamed)))


def _deletion_path(fragment: Fragment, number: int | None = None) -> str:
    if fragment.deletion is None:
        return ""
    return fragment.deletion.path_for(fragment.id if number is None else number)


@dataclass(frozen=True)
class IndexChange:
    """What to register so that indexes answer as in the restored version."""

    new: tuple[IndexRecord, ...] = ()
    removed: tuple[IndexRecord, ...] = ()
    lacking: tuple[str, ...] = ()
    """Names of indexes that no longer cover all fragments that they covered then."""


def index_change(
    then: Contents, old: Collection[IndexRecord], now: Contents, current: Collection[IndexRecord]
) -> IndexChange:
    """How the indexes of a restored version come back. Newer indexes stay as they are.

    ``old`` are those of the restored version, as the newest one would name them.
    """
    fragments = {fragment.id: fragment for fragment in now.fragments()}
    same = {
        fragment.id: fragment
        for fragment in then.fragments()
        if fragment.id in fragments and same_deletion(fragment, fragments[fragment.id])
    }
    new: list[IndexRecord] = []
    removed: list[IndexRecord] = []
    lacking = []
    for name in sorted({index.name for index in then.indexes if not index.name.startswith("__")}):
        segments = [index for index in old if index.name == name and index.fragments is not None]
        mine = [index for index in current if index.name == name]
        valid = [_valid(index, same, fragments) for index in segments]
        if not _known(valid) <= _known(mine) & fragments.keys():
            new += valid
            removed += mine
        knew = {key for index in then.indexes if index.name == name for key in index.fragments}
        if not knew & {fragment.id for fragment in then.fragments()} <= _known(valid):
            lacking.append(name)
    return IndexChange(tuple(new), tuple(removed), tuple(lacking))


def _valid(index: IndexRecord, then: Mapping[int, Fragment], now: Mapping[int, Fragment]) -> IndexRecord:
    """A segment limited to fragments whose rows and values are the same as then."""
    live = frozenset(index.fields)
    kept = {
        key
        for key, fragment in then.items()
        if key in (index.fragments or ())
        and columns(fragment, live) == columns(now[key], live)
        and fragment.row_ids == now[key].row_ids
    }
    return index._replace(fragments=frozenset(kept))


def _known(indexes: Iterable[IndexRecord]) -> set[int]:
    return {key for index in indexes for key in index.fragments or ()}


# --- Results in words: what a replay did, or would do


@dataclass(frozen=True)
class Summary(show.Recorded):
    """A plan in numbers: its cost and its changes."""

    versions: int
    """Versions of theirs since the base."""
    rows_added: int
    rows_deleted: int
    """An updated row counts as one deleted and one added."""
    fragments_changed: int
    columns_added: tuple[str, ...]
    columns_dropped: tuple[str, ...]
    files: int
    bytes: int
    """Bytes of data files to copy, as their writers recorded them."""
    rows_merged: int = 0
    """Rows that both sides changed, merged cell by cell."""
    cells_emptied: tuple[Emptied, ...] = ()
    """Computed values that are left out, since the other side changed what they were computed from."""
    rows_settled: int = 0
    """Rows that both sides changed, in which the preferred side won."""

    def as_record(self) -> dict[str, Any]:
        names = {"files": "files_copied", "bytes": "bytes_copied"}
        return {names.get(name, name): value for name, value in super().as_record().items()}

    def line(self) -> show.Line:
        line: show.Line = [
            (show.PLUS, f"+{self.rows_added:,}"),
            (show.PLAIN, " "),
            (show.MINUS, f"-{self.rows_deleted:,}"),
        ]
        parts = [f" rows; {show.counted(self.files, 'file')} copied, {show.readable(self.bytes)}"]
        parts += [f"new columns: {', '.join(self.columns_added)}"] if self.columns_added else []
        parts += [f"dropped columns: {', '.join(self.columns_dropped)}"] if self.columns_dropped else []
        parts += [f"{show.counted(self.rows_merged, 'row')} merged cell by cell"] if self.rows_merged else []
        parts += [f"{show.counted(self.rows_settled, 'row')} settled by the preference"] if self.rows_settled else []
        empty = ", ".join(f"{each.column} in {show.counted(each.rows, 'row')}" for each in self.cells_emptied)
        parts += [f"left empty: {empty}"] if empty else []
        return [*line, (show.PLAIN, "; ".join(parts))]


@dataclass(frozen=True, repr=False)
class MergeResult(show.ShownInLines, show.Recorded):
    """What a merge, cherry-pick, revert, pull or push did, or would do."""

    action: str
    into: str
    source: str
    """``branch@version`` that the changes come from."""
    base: str
    """The version that the changes start from."""
    version: int | None
    """The new version; None for a dry run, for conflicts, and if nothing was left to do."""
    fast_forward: bool
    up_to_date: bool
    summary: Summary
    conflicts: tuple[MergeConflict, ...] = ()
    """Only in a dry run; a real run raises them as an error."""
    hint: str = ""
    """What to do about conflicts."""
    indexes_carried: tuple[str, ...] = ()
    indexes_missing: tuple[str, ...] = ()
    """Indexes of theirs that ours lacks. Create those that you need."""
    notes: tuple[str, ...] = ()
    dry_run: bool = False
    ran_on: str | None = None
    """Where files were copied, "local" or "spark"; None if none were."""

    def said(self, language: hints.Language, table: str | None = None) -> MergeResult:
        """The result with its hint in a language."""
        return replace(self, hint=hints.said(self.hint, language, table=table)) if self.hint else self

    def lines(self) -> Iterator[show.Line]:
        if self.up_to_date:
            yield show.said(f"Already up to date: {self.into} has everything of {self.source}.")
        elif self.conflicts:
            yield [(show.MINUS, f"{self.source} cannot be combined with {self.into}:")]
            for conflict in self.conflicts:
                yield show.said(f"  - {conflict}")
                yield from (show.said(f"      {row}") for row in conflict.contested_lines())
            if self.hint:
                yield show.said_of_places(f"  hint: {self.hint}")
        else:
            yield show.said(self._headline())
            yield [(show.PLAIN, "  "), *self.summary.line()]
        yield from self.further_lines()

    def further_lines(self) -> Iterator[show.Line]:
        yield from (show.said_of_places(f"  note: {note}") for note in self.notes)
        yield from (show.said(f"  {name}: {names}") for name, names in self._indexes() if names)

    def _card(self) -> show.Card:
        outcome = self._outcome()
        facts = {
            "from": self.source,
            "into": self.into if self.version is None else f"{self.into}@{self.version}",
            "common version": self.base,
            "outcome": outcome,
            "changes": "" if self.up_to_date or self.conflicts else show.plain_text([self.summary.line()]),
            **dict(self._indexes()),
        }
        rows = tuple(
            (
                conflict.reason,
                conflict.ours,
                conflict.theirs,
                ", ".join(map(str, conflict.fragments)),
                "; ".join(conflict.rows) if not conflict.contested else show.counted(conflict.count, "row"),
            )
            for conflict in self.conflicts
        )
        grids = (show.Grid(("conflict", "ours", "theirs", "fragments", "rows"), rows), *self._contested())
        summary = f"{self.action} of {self.source} into {facts['into']}, {outcome}"
        return show.Card(type(self).__name__, "", summary, tuple(facts.items()), grids, self.notes)

    def _contested(self) -> Iterator[show.Grid]:
        """The rows of conflicts with both values, a table for each conflict."""
        for conflict in self.conflicts:
            rows = [cells for row in conflict.contested for cells in _cells(row)]
            left = conflict.count - len(conflict.contested)
            title = f"{conflict.reason}: {show.counted(conflict.count, 'row')}"
            title += f", of which these are {len(conflict.contested)}" if left > 0 else ""
            yield show.Grid(("row", "column", "common version", "ours", "theirs"), tuple(rows), title=title)

    def _outcome(self) -> str:
        if self.up_to_date:
            return "already up to date"
        if self.conflicts:
            return show.counted(len(self.conflicts), "conflict")
        if self.version is None:
            return "would be one version"
        return "fast-forward" if self._is_forward else "one version"

    @property
    def _is_forward(self) -> bool:
        return self.fast_forward and self.action == MERGE

    def _headline(self) -> str:
        how = "fast-forward" if self._is_forward else f"since {self.base}"
        if self.version is None:
            return f"{self.action} of {self.source} into {self.into} would be one version ({how}):"
        return f"{self.action} of {self.source}: {self.into}@{self.version} ({how})"

    def _indexes(self) -> tuple[tuple[str, str], ...]:
        return (
            ("indexes taken over", ", ".join(self.indexes_carried)),
            (f"indexes to create on {self.into} if needed", ", ".join(self.indexes_missing)),
        )

    def as_record(self) -> dict[str, Any]:
        """As JSON values; the numbers of the summary stand beside the other fields."""
        record = super().as_record()
        summary = record.pop("summary")
        return {**record, **summary}


def _cells(row: ContestedRow) -> Iterator[tuple[str, ...]]:
    names = dict.fromkeys(name for cells in (row.ours, row.theirs) for name in cells or ())
    for name in names:
        values = (
            "deleted" if cells is None and at else "" if cells is None else shown_value(cells.get(name))
            for at, cells in enumerate((row.base, row.ours, row.theirs))
        )
        yield (row.row, name, *values)
    if not names:
        yield (row.row, "", "", *("deleted" if cells is None else "" for cells in (row.ours, row.theirs)))
