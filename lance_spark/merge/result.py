"""What a merge, a cherry-pick, a revert or a push did, or would do: a value that says so in words. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lance_spark.merge.change import MergeConflict
from lance_spark.merge.trace import MERGE
from lance_spark.show.card import Card, Grid, Shown
from lance_spark.show.lines import MINUS, PLAIN, PLUS, Line, plain_text, said, said_of_places
from lance_spark.show.words import counted, readable


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

    def line(self) -> Line:
        """Rows, files and columns, in one line."""
        line: Line = [(PLUS, f"+{self.rows_added:,}"), (PLAIN, " "), (MINUS, f"-{self.rows_deleted:,}")]
        parts = [f" rows; {counted(self.files, 'file')} copied, {readable(self.bytes)}"]
        parts += [f"new columns: {', '.join(self.columns_added)}"] if self.columns_added else []
        parts += [f"dropped columns: {', '.join(self.columns_dropped)}"] if self.columns_dropped else []
        return [*line, (PLAIN, "; ".join(parts))]


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
    """Indexes of theirs that ours does not have. If you need them, create them there."""
    notes: tuple[str, ...] = ()
    dry_run: bool = False
    ran_on: str | None = None
    """Where files were copied, "local" or "spark"; None if none was."""

    def __str__(self) -> str:
        """As ``lance-git merge`` says it."""
        return plain_text(self.lines())

    def lines(self) -> Iterator[Line]:
        """The result in words."""
        if self.up_to_date:
            yield said(f"Already up to date: {self.into} has everything of {self.source}.")
        elif self.conflicts:
            yield [(MINUS, f"{self.source} cannot be combined with {self.into}:")]
            for conflict in self.conflicts:
                yield said(f"  - {conflict}")
                yield from (said(f"      {row}") for row in conflict.rows)
        else:
            yield said(self._headline())
            yield [(PLAIN, "  "), *self.summary.line()]
        yield from self.further_lines()

    def further_lines(self) -> Iterator[Line]:
        """Notes, and what became of indexes."""
        yield from (said_of_places(f"  note: {note}") for note in self.notes)
        yield from (said(f"  {name}: {names}") for name, names in self._indexes() if names)

    def _card(self) -> Card:
        outcome = self._outcome()
        facts = {
            "from": self.source,
            "into": self.into if self.version is None else f"{self.into}@{self.version}",
            "since": self.base,
            "outcome": outcome,
            "changes": "" if self.up_to_date or self.conflicts else plain_text([self.summary.line()]),
            **dict(self._indexes()),
        }
        rows = tuple(
            (
                conflict.reason,
                conflict.ours,
                conflict.theirs,
                ", ".join(map(str, conflict.fragments)),
                "; ".join(conflict.rows),
            )
            for conflict in self.conflicts
        )
        grid = Grid(("conflict", "ours", "theirs", "fragments", "rows"), rows)
        summary = f"{self.action} of {self.source} into {facts['into']}, {outcome}"
        return Card(type(self).__name__, "", summary, tuple(facts.items()), (grid,), self.notes)

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
        """As JSON values."""
        conflicts = [_plain(vars(conflict)) for conflict in self.conflicts]
        fields = {key: value for key, value in vars(self).items() if key != "summary"}
        return {**_plain(fields), **self.summary.as_record(), "conflicts": conflicts}


def _plain(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: list(value) if isinstance(value, tuple) else value for key, value in fields.items()}
