"""A planned replay: what a merge or the like would do. A value that can be printed, and executed later."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lance_spark.merge.change import MergeChange, MergeConflict, Sides
from lance_spark.merge.placement import Copy, Placed
from lance_spark.merge.snapshot import Snapshot
from lance_spark.merge.trace import Trace
from lance_spark.merge.wording import replay_card, replay_lines
from lance_spark.show.card import Card, Shown
from lance_spark.show.lines import plain_text


@dataclass(frozen=True)
class ReplayPlan:
    """What has to happen so that ours has the changes of theirs."""

    sides: Sides
    change: MergeChange
    placed: Placed
    trace: Trace
    message: str | None = None
    deletions: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Rows to delete in fragments of ours in which both sides deleted rows: offsets in the fragment, by its id."""
    conflicts: tuple[MergeConflict, ...] = ()

    @property
    def ours(self) -> Snapshot:
        """The version that the new one comes after."""
        return self.sides.ours

    @property
    def is_up_to_date(self) -> bool:
        """Whether there is nothing to do."""
        return not self.change and not self.conflicts

    @property
    def moves_rows(self) -> bool:
        """Whether rows of ours may be written anew elsewhere."""
        left = self.change.removed or any(found.deletion for found in self.change.replaced)
        return bool(self.change.added and left)

    @property
    def replaces_all(self) -> bool:
        """Whether the table is replaced, as far as is known of the versions that are taken over."""
        steps, count = self.sides.their_steps, self.sides.base_ours.contents.fragment_count
        return steps.replaces_all or (not steps.complete and 0 < count == len(self.change.removed))

    @property
    def copies(self) -> tuple[Copy, ...]:
        """Files to copy before the commit."""
        return self.placed.copies

    def summary(self) -> Summary:
        """The plan in numbers."""
        change = self.change
        deleted = sum(found.theirs.physical_rows - found.theirs.rows for found in change.replaced if found.deletion)
        before = sum(found.base.physical_rows - found.base.rows for found in change.replaced if found.deletion)
        added = sum(fragment.rows for fragment in change.added)
        removed = sum(ours.rows for _, ours in change.removed)
        return Summary(
            versions=len(self.sides.their_steps.found),
            rows_added=added + max(0, before - deleted),
            rows_deleted=removed + max(0, deleted - before),
            fragments_changed=len(change.replaced),
            columns_added=change.columns.add or self._new_columns(),
            columns_dropped=change.columns.drop,
            files=len(self.copies),
            bytes=self.placed.bytes,
        )

    def _new_columns(self) -> tuple[str, ...]:
        if not self.change.columns_of_theirs:
            return ()
        before = {entry.id for entry in self.sides.ours.contents.fields}
        return tuple(entry.name for entry in self.sides.theirs.contents.fields if entry.id not in before)


@dataclass(frozen=True)
class Summary:
    """A plan in numbers: what it costs and what it brings."""

    versions: int
    """Versions of theirs since the base."""
    rows_added: int
    rows_deleted: int
    """An updated row counts as one deleted and one added."""
    fragments_changed: int
    columns_added: tuple[str, ...]
    columns_dropped: tuple[str, ...]
    files: int
    """Files to copy."""
    bytes: int
    """Bytes of data files to copy, as their writers recorded them."""

    def as_record(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "versions": self.versions,
            "rows_added": self.rows_added,
            "rows_deleted": self.rows_deleted,
            "fragments_changed": self.fragments_changed,
            "columns_added": list(self.columns_added),
            "columns_dropped": list(self.columns_dropped),
            "files_copied": self.files,
            "bytes_copied": self.bytes,
        }


@dataclass(frozen=True, repr=False)
class MergeResult(Shown):
    """What a merge, cherry-pick, revert, pull or push did, or would do."""

    action: str
    into: str
    """Branch that got the changes."""
    source: str
    """``branch@version`` whose changes they are."""
    base: str
    """The version that the changes are counted from."""
    version: int | None
    """The new version; None for a dry run, for conflicts, and where there was nothing to do."""
    fast_forward: bool
    up_to_date: bool
    summary: Summary
    conflicts: tuple[MergeConflict, ...] = ()
    """Only in a dry run; otherwise they are an error."""
    indexes_carried: tuple[str, ...] = ()
    indexes_missing: tuple[str, ...] = ()
    """Indexes of theirs that ours does not have: create them there if they are wanted."""
    notes: tuple[str, ...] = ()
    dry_run: bool = False
    ran_on: str | None = None
    """Where files were copied, "local" or "spark"; None if none was."""

    def __str__(self) -> str:
        """As ``lance-git merge`` says it."""
        return plain_text(replay_lines(self))

    def _card(self) -> Card:
        return replay_card(self)

    def as_record(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "action": self.action,
            "into": self.into,
            "source": self.source,
            "base": self.base,
            "version": self.version,
            "fast_forward": self.fast_forward,
            "up_to_date": self.up_to_date,
            "dry_run": self.dry_run,
            "ran_on": self.ran_on,
            **self.summary.as_record(),
            "conflicts": [
                {
                    "reason": found.reason,
                    "fragments": list(found.fragments),
                    "ours": found.ours,
                    "theirs": found.theirs,
                    "rows": list(found.rows),
                }
                for found in self.conflicts
            ],
            "indexes_carried": list(self.indexes_carried),
            "indexes_missing": list(self.indexes_missing),
            "notes": list(self.notes),
        }
