"""Options, plans and results of compactions and flattening, and the rules for inherited fragments and indexes. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from lance_spark import hints
from lance_spark.core.declared import option
from lance_spark.core.layout import is_generated, stored_name
from lance_spark.core.location import is_within
from lance_spark.core.progress import WorkProgress, check_progress
from lance_spark.core.refs import PinnedVersion
from lance_spark.core.show import Card, Grid, Shown, ShownInOneLine
from lance_spark.core.texts import counted, few, readable
from lance_spark.core.words import OF_OPTIMIZE, Hinting
from lance_spark.errors import InvalidOption, Refused
from lance_spark.format.contents import Fragment, IndexRecord
from lance_spark.format.versions import Copy, Snapshot
from lance_spark.optimize.order_rules import Ordering, ordering_of

_SHOWN = 20
"""Number of tasks that a plan lists individually."""


@dataclass(frozen=True)
class OptimizeProgress(WorkProgress):
    rows: int = 0
    bytes: int = 0
    """Size of the committed data files."""

    @property
    def fragments(self) -> int:
        return self.total

    def __str__(self) -> str:
        """``commit 1 of 3: 40 of 120 fragments, 4,000 rows, 1.2 MiB``."""
        told = f"{self.stage}: {self.done:,} of {counted(self.fragments, 'fragment')}"
        return f"{told}, {counted(self.rows, 'row')}, {readable(self.bytes)}"


@dataclass(frozen=True)
class OptimizeOptions:
    """Which fragments to rewrite, and how."""

    target_rows: int = option(1_000_000, "approximate number of rows in a fragment", places=("file", "sql"))
    where: str | None = option(
        None, "Lance SQL: rewrite only fragments that contain a row for which it is true", places=("sql",)
    )
    own_only: bool | None = option(
        True,
        "false to also rewrite fragments that a branch or clone inherited, which copies them",
        places=("file", "sql"),
    )
    partial_progress: int = option(
        10, "the maximum number of commits; each has at least as many tasks as run in parallel", places=("sql",)
    )
    sort_by: Sequence[str] | None = option(
        None, "columns to sort rows by; without any, rows keep their order", places=("file", "sql")
    )
    zorder: Sequence[str] | None = option(None, "columns of a z-order instead", places=("file", "sql"))
    dry_run: bool = option(
        False, "plan only: `plan` of the result prints the fragments, rows and bytes of each commit", places=("sql",)
    )
    progress: Callable[[OptimizeProgress], object] | None = None
    """Called with the progress after each group of fragments is committed."""

    def __post_init__(self) -> None:
        for name in ("target_rows", "partial_progress"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise InvalidOption(f"{name} must be a whole number of at least 1, not {value!r}.")
        _ = self.order  # raises for columns that make none
        if self.where is not None and not self.where.strip():
            raise InvalidOption("where must be a condition in SQL.", hint="Leave it out for all fragments.")
        check_progress(self.progress)

    @property
    def order(self) -> Ordering | None:
        """The new order of rows; None to keep their order."""
        return ordering_of(self.sort_by, self.zorder)

    def tell(self, progress: OptimizeProgress) -> None:
        """Report the progress to the callback, if there is one."""
        if self.progress is not None:
            self.progress(progress)


def coverage(indexes: Iterable[IndexRecord], fragment: int) -> frozenset[str]:
    """The segments of indexes that cover a fragment: pylance keeps an index only of fragments that it covered alike."""
    return frozenset(each.uuid for each in indexes if each.fragments is None or fragment in each.fragments)


def partition_groups(
    fragments: Sequence[Fragment], groups: Mapping[int, object], target_rows: int
) -> list[tuple[int, ...]]:
    """Fragments to rewrite together: small ones of the same group, and single ones with a tenth of rows deleted.

    ``groups`` has what only fragments that belong together share; others are left alone.
    """
    bins: dict[object, tuple[list[Fragment], int]] = {}
    found: list[list[Fragment]] = []
    for each in fragments:
        if each.id not in groups:
            continue
        deleted = each.physical_rows - each.rows
        if each.rows >= target_rows:
            if deleted * 10 > each.physical_rows:
                found.append([each])
            continue
        mine, rows = bins.get(groups[each.id], ([], 0))
        if mine and rows + each.rows > target_rows * 3 // 2:
            found.append(mine)
            mine, rows = [], 0
        bins[groups[each.id]] = ([*mine, each], rows + each.rows)
    found += [mine for mine, _ in bins.values()]
    return [
        tuple(each.id for each in mine)
        for mine in found
        if len(mine) > 1 or any((each.physical_rows - each.rows) * 10 > each.physical_rows for each in mine)
    ]


class RewriteTask(NamedTuple):
    """Fragments that become one or a few; the order of their rows stays."""

    sources: tuple[Fragment, ...]
    """The fragments when the task was planned."""
    job: str
    """pylance's task, as JSON."""

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(source.id for source in self.sources)

    @property
    def rows(self) -> int:
        return sum(source.rows for source in self.sources)

    @property
    def bytes(self) -> int:
        """Size of the data files, as far as their writers recorded it."""
        return sum(source.size for source in self.sources)


class RewrittenTask(NamedTuple):
    """A task with written files. Readers see them only after the commit."""

    task: RewriteTask
    result: str
    """pylance's result, as JSON."""
    files: tuple[str, ...]
    fragments: int
    bytes: int


@dataclass(frozen=True, repr=False)
class OptimizePlan(Shown):
    pin: PinnedVersion
    """The version that it was planned on."""
    groups: tuple[tuple[RewriteTask, ...], ...]
    """Each becomes one commit."""
    fragments: int
    inherited: int = 0
    """Fragments that are left alone because their files are in another place."""
    rehome: tuple[str, ...] = ()
    """Names of inherited indexes that cover the fragments: they are copied first."""
    counts_rows: bool = True
    """Whether the version knows how many rows its fragments have."""
    order: Ordering | None = None
    """The new order of rows; None to keep their order."""
    parts: int = 0
    """Number of fragments that rows are sorted into."""
    depth: float = 0.0
    """The average number of fragments that may contain a row, by its values of the sorted columns."""

    @cached_property
    def tasks(self) -> tuple[RewriteTask, ...]:
        return tuple(task for group in self.groups for task in group)

    @property
    def sources(self) -> int:
        return sum(len(task.sources) for task in self.tasks)

    @property
    def rows(self) -> int:
        return sum(task.rows for task in self.tasks)

    @property
    def bytes(self) -> int:
        return sum(task.bytes for task in self.tasks)

    @property
    def summary(self) -> str:
        """One line, without the version."""
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
            notes.append(f"{counted(self.inherited, 'inherited fragment')} left alone; own_only=False takes them")
        if self.rehome:
            notes.append(f"inherited indexes that are copied first: {', '.join(self.rehome)}")
        grid = Grid(("commit", "fragments", "rows", "bytes"), rows, frozenset({0, 2, 3}))
        facts = (("version", str(self.pin)), ("rewrites", self.summary))
        return Card(type(self).__name__, str(self.pin), self.summary, facts, (grid,), tuple(notes))


@dataclass(frozen=True, repr=False)
class OptimizeResult(ShownInOneLine, Hinting):
    """What a compaction did; prints as one line."""

    _words = OF_OPTIMIZE

    version: PinnedVersion
    """The newest version it made, or the one it examined if it made none."""
    plan: OptimizePlan
    dry_run: bool = False
    fragments_removed: int = 0
    fragments_added: int = 0
    rows: int = 0
    bytes: int = 0
    """Size of the new data files."""
    commits: int = 0
    conflicts: tuple[tuple[int, ...], ...] = ()
    """Tasks, as ids of their fragments, that other commits overtook twice: their rows were left unchanged."""
    rehomed: tuple[str, ...] = ()
    """Names of inherited indexes that the branch now has its own files of."""
    depth: float | None = None
    """The plan's depth after the rewrite; None if rows kept their order."""
    uncovered: tuple[str, ...] = ()
    """Names of indexes that no longer cover the rewritten rows: ``indexes.optimize()`` adds them again."""

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
            told += f"; no longer indexed: {', '.join(self.uncovered)}"
        return f"{told}; {counted(len(self.conflicts), 'task')} in conflict" if self.conflicts else told

    def _facts(self) -> tuple[tuple[str, str], ...]:
        if self.dry_run:
            return ("version", str(self.version)), ("would rewrite", self.plan.summary)
        if not self.commits:
            return ("version", str(self.version)), ("outcome", str(self).removeprefix(f"{self.version}: "))
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


# --- Inherited fragments and indexes, and grouping tasks into commits

_REHOMED = frozenset(
    {
        "BTreeIndexDetails",
        "BitmapIndexDetails",
        "BloomFilterIndexDetails",
        "InvertedIndexDetails",
        "LabelListIndexDetails",
        "NGramIndexDetails",
        "VectorIndexDetails",
        "ZoneMapIndexDetails",
    }
)
"""Kinds of indexes that are known to return the same results from another place, by the end of their details' name."""


def inherited_fragments(snapshot: Snapshot, root: str) -> frozenset[int]:
    """The fragments with files outside the chain's own place.

    A branch owns the files in its directory. Main owns everything below ``root``, the dataset's URI: a merge lets it
    read files of branches.
    """
    branch = snapshot.pin.branch
    own = {
        key
        for key, base in snapshot.bases.items()
        if key is None or (branch is None and base.is_dataset and is_within(base.uri, root))
    }
    return frozenset(
        fragment.id
        for fragment in snapshot.contents.fragments()
        if any(file.base_id not in own for file in fragment.files)
    )


def grouped(tasks: Sequence[RewriteTask], most: int) -> tuple[tuple[RewriteTask, ...], ...]:
    """The tasks in order, in at most ``most`` groups of about equal size."""
    count = min(most, len(tasks))
    left, groups, start = sum(task.bytes for task in tasks), [], 0
    for number in range(count):
        others = count - number - 1
        share, size, end = left / (others + 1), 0, start
        while end < len(tasks) - others and (end == start or others == 0 or size + tasks[end].bytes / 2 <= share):
            size += tasks[end].bytes
            end += 1
        groups.append(tuple(tasks[start:end]))
        left, start = left - size, end
    return tuple(groups)


def indexes_to_rehome(indexes: Iterable[IndexRecord], fragments: Collection[int]) -> tuple[IndexRecord, ...]:
    """The inherited indexes that cover rows of the fragments.

    pylance would rewrite such an index into the branch but look for it in the parent. Raises Refused for an index with
    unknown needs.
    """
    found = []
    for index in indexes:
        if index.base_id is None or not fragments:
            continue
        if index.fragments is None or index.is_internal:
            raise Refused(
                f"The inherited index '{index.name}' does not record which fragments it covers: a compaction might "
                "lose it.",
                hint="Optimize the parent, or create the index again on the branch.",
            )
        if not index.fragments.isdisjoint(fragments):
            _check_kind(index)
            found.append(index)
    return tuple(found)


def _check_kind(index: IndexRecord) -> None:
    kind = index.details[0].rpartition(".")[2] if index.details else "unknown"
    if kind not in _REHOMED:
        raise Refused(
            f"The inherited index '{index.name}' is of a kind ({kind}) that may not survive a compaction of inherited "
            "fragments.",
            hint="Leave own_only=False out, or drop the index on the branch first.",
        )


def same_sources(task: RewriteTask, now: Mapping[int, Fragment]) -> bool:
    """Whether the fragments are the same as in the plan: same files, same deleted rows, same row ids.

    ``now`` are the fragments of another version, by id.
    """
    return all(now.get(source.id) == source for source in task.sources)


def landed(entry: RewrittenTask, paths: Collection[str]) -> bool:
    """Whether a version with these data files contains the new fragments of a task."""
    return bool(entry.files) and all(path in paths for path in entry.files)


# --- Flattening: the files to copy, and the result


@dataclass(frozen=True, repr=False)
class FlattenResult(ShownInOneLine):
    """What a flattening copied; prints as one line."""

    version: PinnedVersion
    """The newest version, which names no files in other places."""
    files: int = 0
    """Data and deletion files that were copied, including those of an interrupted attempt."""
    bytes: int = 0
    """Size of the data files, as far as their writers recorded it."""
    indexes: tuple[str, ...] = ()
    """Names of indexes that were copied."""

    def __str__(self) -> str:
        """``exp@9: 12 files copied, 3.4 MiB; indexes: emb_idx``."""
        if not (self.files or self.indexes):
            return f"{self.version}: depends on no other place"
        told = f"{self.version}: {counted(self.files, 'file')} copied, {readable(self.bytes)}"
        return f"{told}; indexes: {', '.join(self.indexes)}" if self.indexes else told

    def _facts(self) -> tuple[tuple[str, str], ...]:
        return (
            ("version", str(self.version)),
            ("copied", f"{counted(self.files, 'file')}, {readable(self.bytes)}"),
            ("indexes", ", ".join(self.indexes)),
        )


def reads_elsewhere(fragment: Fragment) -> bool:
    """Whether a fragment has a file in another place."""
    deletion = fragment.deletion
    return any(file.base_id is not None for file in fragment.files) or (
        deletion is not None and deletion.base_id is not None
    )


def inherited_copies(snapshot: Snapshot, sidecars: bool) -> tuple[Copy, ...]:
    """The data and deletion files in other places. ``sidecars``: the table has blobs next to its data files.

    Raises Refused for a file that was named by hand: another file may have the same name.
    """
    copies: dict[str, Copy] = {}
    for fragment in snapshot.contents.fragments():
        for file in fragment.files:
            if file.base_id is None:
                continue
            if not is_generated(file.path):
                raise Refused(
                    f"The data file {file.path} was named by hand: a copy could replace another file.",
                    hint=hints.of(hints.optimize(own_only=False), " rewrites its rows."),
                )
            root, name = snapshot.root_of(file), stored_name(file.path)
            path = f"data/{name}" if root.is_dataset else name
            copies[file.path] = Copy(root, path, f"data/{name}", file.size, sidecars)
        if fragment.deletion is not None and fragment.deletion.base_id is not None:
            path = fragment.deletion.path_for(fragment.id)
            copies[path] = Copy(snapshot.root_of(fragment.deletion), path, path)
    return tuple(copies.values())
