"""What a compaction is asked for, what it plans, and what it did."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from lance_spark.compaction.ordering import Ordering
from lance_spark.errors import InvalidOption
from lance_spark.manifest.contents import Fragment
from lance_spark.refs.model import PinnedVersion
from lance_spark.show.card import Card, Grid, Shown, ShownInOneLine
from lance_spark.show.progress import WorkProgress, check_progress
from lance_spark.show.words import counted, few, readable

_SHOWN = 20
"""Tasks that a plan shows one by one."""


@dataclass(frozen=True)
class OptimizeProgress(WorkProgress):
    """How far a compaction is, in fragments."""

    rows: int = 0
    """Rows that were written anew and committed."""
    bytes: int = 0
    """Size of the data files that were committed."""

    @property
    def fragments(self) -> int:
        """Fragments that are rewritten in all."""
        return self.total

    def __str__(self) -> str:
        """``commit 1 of 3: 40 of 120 fragments, 4,000 rows, 1.2 MiB``."""
        told = f"{self.stage}: {self.done:,} of {counted(self.fragments, 'fragment')}"
        return f"{told}, {counted(self.rows, 'row')}, {readable(self.bytes)}"


@dataclass(frozen=True)
class OptimizeOptions:
    """Which fragments are rewritten, and how."""

    target_rows: int = 1_000_000
    """Rows that a fragment should have."""
    where: str | None = None
    """Lance SQL: only fragments with a row that it is true for."""
    own_only: bool | None = None
    """False: also fragments whose files are in another place, the parent of a branch or the source of a clone."""
    partial_progress: int = 10
    """How many commits there are at most."""
    dry_run: bool = False
    order: Ordering | None = None
    """The order that rows get; None for the one that they have."""
    progress: Callable[[OptimizeProgress], object] | None = None
    """Is told how far it is, each time a group of fragments is committed."""

    def __post_init__(self) -> None:
        for name in ("target_rows", "partial_progress"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise InvalidOption(f"{name} is a whole number, at least 1, not {value!r}.")
        if self.where is not None and not self.where.strip():
            raise InvalidOption("where is a condition in SQL.", hint="Leave it out for all fragments.")
        check_progress(self.progress)

    def tell(self, progress: OptimizeProgress) -> None:
        """Say how far it is, to whom wants to know."""
        if self.progress is not None:
            self.progress(progress)


class RewriteTask(NamedTuple):
    """Fragments that become one, or a few; the order of their rows stays."""

    sources: tuple[Fragment, ...]
    """As they were when it was planned."""
    job: str
    """pylance's task, as JSON."""

    @property
    def ids(self) -> tuple[int, ...]:
        """Ids of the fragments."""
        return tuple(source.id for source in self.sources)

    @property
    def rows(self) -> int:
        """Rows that are not deleted."""
        return sum(source.rows for source in self.sources)

    @property
    def bytes(self) -> int:
        """Size of the data files, as far as their writers recorded it."""
        return sum(source.size for source in self.sources)


class RewrittenTask(NamedTuple):
    """A task whose new files are written. Nobody sees them before the commit."""

    task: RewriteTask
    result: str
    """pylance's result, as JSON."""
    files: tuple[str, ...]
    """Paths of the new data files."""
    fragments: int
    bytes: int


@dataclass(frozen=True, repr=False)
class OptimizePlan(Shown):
    """What a compaction would rewrite."""

    pin: PinnedVersion
    """The version it was planned on."""
    groups: tuple[tuple[RewriteTask, ...], ...]
    """Each becomes one commit."""
    fragments: int
    """Fragments of the version."""
    inherited: int = 0
    """Fragments that are left alone because their files are in another place."""
    rehome: tuple[str, ...] = ()
    """Names of inherited indexes that cover the fragments: they are copied first."""
    counts_rows: bool = True
    """Whether the version knows how many rows its fragments have."""
    order: Ordering | None = None
    """The order that the rows get; None for the one that they have."""
    parts: int = 0
    """Fragments that rows are sorted into."""
    depth: float = 0.0
    """In how many of the fragments a row might be, by its values of the columns of the order, on average."""

    @cached_property
    def tasks(self) -> tuple[RewriteTask, ...]:
        """All tasks."""
        return tuple(task for group in self.groups for task in group)

    @property
    def sources(self) -> int:
        """Fragments that would be rewritten."""
        return sum(len(task.sources) for task in self.tasks)

    @property
    def rows(self) -> int:
        """Rows that would be written anew."""
        return sum(task.rows for task in self.tasks)

    @property
    def bytes(self) -> int:
        """Bytes that would be read."""
        return sum(task.bytes for task in self.tasks)

    @property
    def summary(self) -> str:
        """In one line, without the version."""
        size = f"{counted(self.rows, 'row')}, {readable(self.bytes)}"
        if self.order is not None:
            some = f"{self.sources:,} of {counted(self.fragments, 'fragment')}"
            return f"{some} by {self.order}, as {self.parts:,}; {size}; depth {self.depth:.1f}"
        return (
            f"{self.sources:,} of {counted(self.fragments, 'fragment')} in {counted(len(self.tasks), 'task')} "
            f"and {counted(len(self.groups), 'commit')}; {size}"
        )

    def _card(self) -> Card:
        numbered = [(number, task) for number, group in enumerate(self.groups, 1) for task in group]
        rows = tuple(
            (str(number), few([str(key) for key in task.ids], 8), f"{task.rows:,}", readable(task.bytes))
            for number, task in numbered[:_SHOWN]
        )
        notes = [f"{len(numbered) - _SHOWN:,} more tasks"] if len(numbered) > _SHOWN else []
        if self.inherited:
            notes.append(f"{counted(self.inherited, 'inherited fragment')} left alone; own_only=False takes them, too")
        if self.rehome:
            notes.append(f"inherited indexes that are copied first: {', '.join(self.rehome)}")
        grid = Grid(("commit", "fragments", "rows", "bytes"), rows, frozenset({0, 2, 3}))
        facts = (("version", str(self.pin)), ("rewrites", self.summary))
        return Card(type(self).__name__, str(self.pin), self.summary, facts, (grid,), tuple(notes))


@dataclass(frozen=True, repr=False)
class OptimizeResult(ShownInOneLine):
    """What a compaction did; prints as one line."""

    version: PinnedVersion
    """The newest version it made; the one it looked at where it made none."""
    plan: OptimizePlan
    """What it set out to do."""
    dry_run: bool = False
    fragments_removed: int = 0
    fragments_added: int = 0
    rows: int = 0
    """Rows that were written anew."""
    bytes: int = 0
    """Size of the new data files."""
    commits: int = 0
    conflicts: tuple[tuple[int, ...], ...] = ()
    """Tasks, as ids of their fragments, that other commits overtook twice: their rows are as the others left them."""
    rehomed: tuple[str, ...] = ()
    """Names of inherited indexes whose files the branch has itself now."""
    depth: float | None = None
    """The plan's depth, as it is now; None where rows kept their order."""
    uncovered: tuple[str, ...] = ()
    """Names of indexes that do not cover the rows any more: ``indexes.optimize()`` adds them again."""

    def __str__(self) -> str:
        """``exp@9: 12 fragments became 3 in 2 commits; 1,200 rows, 3.4 KiB``."""
        if self.dry_run:
            return f"{self.version}: would rewrite {self.plan.summary}"
        told = f"{self.version}: nothing to rewrite"
        if self.commits:
            told = (
                f"{self.version}: {counted(self.fragments_removed, 'fragment')} became {self.fragments_added:,} in "
                f"{counted(self.commits, 'commit')}; {counted(self.rows, 'row')}, {readable(self.bytes)}"
            )
        elif self.conflicts:
            told = f"{self.version}: nothing was rewritten"
        if self.depth is not None:
            told += f"; depth {self.plan.depth:.1f} became {self.depth:.1f}"
        if self.uncovered:
            told += f"; not indexed any more: {', '.join(self.uncovered)}"
        return f"{told}; {counted(len(self.conflicts), 'task')} in conflict" if self.conflicts else told

    def _facts(self) -> tuple[tuple[str, str], ...]:
        if self.dry_run:
            return ("version", str(self.version)), ("would rewrite", self.plan.summary)
        depth = "" if self.depth is None else f"{self.plan.depth:.1f} became {self.depth:.1f}"
        return (
            ("version", str(self.version)),
            ("fragments", f"{self.fragments_removed:,} became {self.fragments_added:,}"),
            ("commits", f"{self.commits:,}"),
            ("rows written", f"{self.rows:,}"),
            ("size", readable(self.bytes)),
            ("depth", depth),
            ("not indexed now", ", ".join(self.uncovered)),
            ("in conflict", counted(len(self.conflicts), "task") if self.conflicts else ""),
        )

    def as_record(self) -> dict[str, Any]:
        """Plain values, for a row of a table."""
        return {
            "branch": self.version.reference[0],
            "version": self.version.version,
            "dry_run": self.dry_run,
            "fragments_planned": self.plan.sources,
            "fragments_removed": self.fragments_removed,
            "fragments_added": self.fragments_added,
            "rows": self.rows,
            "bytes": self.bytes,
            "commits": self.commits,
            "conflicts": [", ".join(map(str, ids)) for ids in self.conflicts],
            "indexes_rehomed": list(self.rehomed),
            "depth_before": self.plan.depth if self.plan.order is not None else None,
            "depth_after": self.depth,
            "indexes_uncovered": list(self.uncovered),
        }
