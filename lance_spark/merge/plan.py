"""A planned replay: what a merge, cherry-pick, revert, push or restore would do, as a value. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from lance_spark.merge.change import MergeChange, MergeConflict, Sides
from lance_spark.merge.copies import Copy
from lance_spark.merge.placement import Placed
from lance_spark.merge.result import Summary
from lance_spark.merge.rewrites import Rewrite
from lance_spark.merge.snapshot import Snapshot
from lance_spark.merge.trace import Trace


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
    rewrites: tuple[Rewrite, ...] = ()
    """Compactions of theirs that later merges have to know."""
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
        """Whether rows of ours may have been rewritten into other fragments."""
        left = self.change.removed or any(replacement.deletion for replacement in self.change.replaced)
        return bool(self.change.added and (left or self.change.followed.deletions))

    @property
    def keeps_all_rows(self) -> bool:
        """Whether ours has the same rows and values afterwards, in other files: by what is told, and by number."""
        change, summary = self.change, self.summary()
        columns = change.columns or change.columns_of_theirs
        same = summary.rows_added == summary.rows_deleted
        return self.sides.their_steps.keep_all_rows and not columns and same

    @property
    def replaces_all(self) -> bool:
        """Whether the table is replaced, as far as the versions that are taken over say so."""
        steps, count = self.sides.their_steps, self.sides.base_ours.contents.fragment_count
        return steps.replaces_all or (not steps.complete and 0 < count == len(self.change.removed))

    @property
    def copies(self) -> tuple[Copy, ...]:
        """Files to copy before the commit."""
        return self.placed.copies

    def summary(self) -> Summary:
        """The plan in numbers."""
        change = self.change
        deleted = sum(each.theirs.physical_rows - each.theirs.rows for each in change.replaced if each.deletion)
        before = sum(each.base.physical_rows - each.base.rows for each in change.replaced if each.deletion)
        added = sum(fragment.rows for fragment in change.added)
        removed = sum(ours.rows for _, ours in change.removed)
        removed += sum(len(rows) for rows in change.followed.deletions.values())
        return Summary(
            versions=len(self.sides.their_steps.all),
            rows_added=added + max(0, before - deleted),
            rows_deleted=removed + max(0, deleted - before),
            fragments_changed=len(change.replaced) + len(change.followed.deletions),
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
