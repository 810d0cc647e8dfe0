"""What a merge, cherry-pick, revert, pull or push did, or would do, in words. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lance_spark import hints
from lance_spark.core import show
from lance_spark.core.texts import counted, readable
from lance_spark.core.words import OF_MERGE_RESULTS
from lance_spark.format.versions import (
    MERGE,
)
from lance_spark.merge.cell_rules import Emptied
from lance_spark.merge.change_rules import ContestedRow, MergeConflict, shown_value


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

    @classmethod
    def of_steps(cls, steps: Sequence[Summary]) -> Summary:
        """Of one after the other."""
        added, dropped, emptied = dict[str, None](), dict[str, None](), Counter[tuple[str, str]]()
        for step in steps:
            added |= dict.fromkeys(step.columns_added)
            dropped |= dict.fromkeys(name for name in step.columns_dropped if name not in added)
            added = {name: None for name in added if name not in step.columns_dropped}
            emptied.update({(each.column, each.branch): each.rows for each in step.cells_emptied})
        return cls(
            columns_added=(*added,),
            columns_dropped=(*dropped,),
            cells_emptied=tuple(Emptied(column, rows, branch) for (column, branch), rows in emptied.items()),
            **{name: sum(getattr(step, name) for step in steps) for name in _COUNTED},
        )

    def as_record(self) -> dict[str, Any]:
        names = {"files": "files_copied", "bytes": "bytes_copied"}
        return {names.get(name, name): value for name, value in super().as_record().items()}

    def line(self) -> show.Line:
        line: show.Line = [
            (show.PLUS, f"+{self.rows_added:,}"),
            (show.PLAIN, " "),
            (show.MINUS, f"-{self.rows_deleted:,}"),
        ]
        parts = [f" rows; {counted(self.files, 'file')} copied, {readable(self.bytes)}"]
        parts += [f"new columns: {', '.join(self.columns_added)}"] if self.columns_added else []
        parts += [f"dropped columns: {', '.join(self.columns_dropped)}"] if self.columns_dropped else []
        parts += [f"{counted(self.rows_merged, 'row')} merged cell by cell"] if self.rows_merged else []
        parts += [f"{counted(self.rows_settled, 'row')} settled by the preference"] if self.rows_settled else []
        empty = ", ".join(f"{each.column} in {counted(each.rows, 'row')}" for each in self.cells_emptied)
        parts += [f"left empty: {empty}"] if empty else []
        return [*line, (show.PLAIN, "; ".join(parts))]


_COUNTED = (
    "versions", "rows_added", "rows_deleted", "fragments_changed", "files", "bytes", "rows_merged", "rows_settled",
)  # fmt: skip


@dataclass(frozen=True, repr=False)
class MergeResult(show.ShownInLines, show.Recorded):
    """What a merge, cherry-pick, revert, pull or push did, or would do."""

    _words = OF_MERGE_RESULTS

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

    @classmethod
    def of_steps(cls, steps: Sequence[MergeResult]) -> MergeResult:
        """Of merges one after the other, of which only the first may have met changes of the branch itself."""
        done = [step for step in steps if not step.up_to_date] or steps[-1:]
        return replace(
            done[-1],
            base=done[0].base,
            fast_forward=done[0].fast_forward,
            summary=Summary.of_steps([step.summary for step in done]),
            indexes_carried=tuple(dict.fromkeys(name for step in done for name in step.indexes_carried)),
            notes=tuple(dict.fromkeys(note for step in steps for note in step.notes)),
        )

    def said(self, language: hints.Language, table: str | None = None) -> MergeResult:
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
                "; ".join(conflict.rows) if not conflict.contested else counted(conflict.count, "row"),
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
            title = f"{conflict.reason}: {counted(conflict.count, 'row')}"
            title += f", of which these are {len(conflict.contested)}" if left > 0 else ""
            yield show.Grid(("row", "column", "common version", "ours", "theirs"), tuple(rows), title=title)

    def _outcome(self) -> str:
        if self.up_to_date:
            return "already up to date"
        if self.conflicts:
            return counted(len(self.conflicts), "conflict")
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
