"""Fragments as pylance's commit takes them: its own JSON, with the ids, bases and row ids that ours needs. Pure."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lance_spark import hints
from lance_spark.errors import NotCommittable
from lance_spark.manifest.contents import Fragment
from lance_spark.merge.change import MergeChange, Replacement, Sides
from lance_spark.merge.delta import by_file, counterpart
from lance_spark.merge.placement import Placed
from lance_spark.merge.row_ids import kept_row_ids, matched_row_ids, read_row_ids, write_row_ids
from lance_spark.merge.snapshot import Snapshot

Json = dict[str, Any]
REPLACED = -2
"""In place of a field id in the list of a file: no column reads these values."""
_LINEAGE = ("row_id_meta", "created_at_version_meta", "last_updated_at_version_meta")


@dataclass(frozen=True)
class RowIds:
    """How ours knows rows of theirs."""

    renamed: Mapping[int, int] = field(default_factory=dict)
    same_below: int = 0
    """Ids below it mean the same row on both sides, except for renamed ones."""

    def known(self, row: int) -> int | None:
        """The id of a row in ours; None for a new row."""
        return self.renamed.get(row, row if row < self.same_below else None)


@dataclass(frozen=True)
class Assembly:
    """What turns fragments of theirs into fragments of ours."""

    theirs: Snapshot
    placed: Placed
    fields: Mapping[int, int]
    """Field ids in ours, by field ids of theirs that differ; REPLACED for those that are another column there."""
    row_ids: RowIds | None = None
    """None without stable row ids."""
    masks: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Rows that new fragments come without, by ids in theirs: of those a file is written."""
    dead: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Deleted rows of new fragments, by ids in theirs, where it matters."""
    base: frozenset[int] = frozenset()
    """Field ids of the base's columns."""
    has_rows: bool = True
    """Whether ours has any fragment."""

    @classmethod
    def of(cls, sides: Sides, change: MergeChange, placed: Placed, fields: Mapping[int, int]) -> Assembly:
        """The assembly of a planned change."""
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
        """New fragments whose rows could not keep their ids, unless some of these rows are deleted."""
        return [
            fragment
            for fragment in change.added
            if fragment.deletion is not None and fragment.id not in self.masks and self._kept(fragment) is None
        ]

    def check_row_ids(self, change: MergeChange) -> None:
        """Raise NotCommittable for rows that cannot keep their stable ids."""
        moved = [fragment for fragment in change.added if self._kept_rows(fragment)]
        if moved and not self.has_rows:
            raise NotCommittable(
                "Rows come back with their stable ids to a branch that is empty; pylance cannot commit that.",
                hint=hints.of("Restore a version that has the rows: ", hints.RESTORE_VERSION, "."),
            )
        if moved and (change.columns or change.columns_of_theirs):
            raise NotCommittable(
                "Columns were changed and rows updated since the base; with stable row ids pylance cannot commit both "
                "at once.",
                hint=f"Merge the versions before the columns changed first: merge {self.theirs.pin.branch}@VERSION.",
            )

    def added(self, fragment: Fragment, metadata: Json) -> Json:
        """A new fragment from pylance's JSON of the one in theirs. Raises NotCommittable for row ids that are mixed."""
        result = {**copy.deepcopy(metadata), "id": self.placed.ids[fragment.id]}
        result["files"] = [self._file(file) for file in result["files"]]
        result.update(dict.fromkeys(_LINEAGE))
        kept = self._kept_rows(fragment)
        if kept:
            result["row_id_meta"] = {"Inline": list(write_row_ids(kept))}
        if fragment.id in self.masks:
            result["deletion_file"] = None  # another one is written
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
        """The files of both sides. A file has a column if its ``fields`` name it; older files mark it as replaced."""
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
        """Columns that theirs has back in a file of the base, by their places in it: their ids in ours."""
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
        """The ids that the fragment takes along; None if old and new rows are mixed."""
        if self.row_ids is None or not fragment.row_ids:
            return []
        dead = self.masks.get(fragment.id) or self.dead.get(fragment.id) or ()
        return kept_row_ids(read_row_ids(fragment.row_ids), self.row_ids.known, frozenset(dead))


def _with_fields(file: Json, back: Mapping[int, int], written: Collection[int]) -> Json:
    """A file of ours with the columns that are back in it, and without those that are elsewhere now."""
    kept = [REPLACED if field in written else field for field in file["fields"]]
    return {**file, "fields": [back.get(at, field) for at, field in enumerate(kept)]}


def row_ids(sides: Sides, change: MergeChange) -> RowIds:
    """How ours knows the rows that theirs moved out of fragments."""
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
    for theirs, ours in pairs:
        if not same_below or theirs.row_ids != ours.row_ids:
            renamed.update(matched_row_ids(theirs.row_ids, ours.row_ids))
    return RowIds(renamed, same_below)
