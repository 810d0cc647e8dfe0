"""Directories that no row names: what a killed job left behind. They are collected after a day."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from lance_spark.actions.catalog.dropping import erase_table
from lance_spark.catalog.changes import RowFilter
from lance_spark.catalog.directory import (
    DEREGISTERED,
    INCOMPLETE,
    VERSIONS,
    Mark,
    hashed_id,
    is_remainder,
    read_mark,
    v1_name,
)
from lance_spark.catalog.entries import LOCATION
from lance_spark.catalog.model import Catalog
from lance_spark.errors import InvalidOption, LanceSparkError
from lance_spark.store.catalog import markers
from lance_spark.store.catalog.directories import list_root
from lance_spark.store.catalog.erasing import changed_at, list_directory
from lance_spark.store.catalog.snapshots import newest, read_rows
from lance_spark.store.parallel import THREADS

DEFAULT_AGE = timedelta(days=1)
"""A job that creates a table makes its row first; but a pylance client may be at work for as long."""
UNFINISHED, DATASET, REMAINDER, INTERRUPTED = "unfinished", "dataset", "remainder", "interrupted rename"


@dataclass(frozen=True)
class Orphan:
    """A directory that no row names."""

    directory: str
    kind: str
    """``unfinished``: no version in it, or a copy that was not completed; ``remainder``: of a drop or a rename that
    ended half way; ``dataset``: whole, so another tool may have deregistered it; ``interrupted rename``:
    a table that is hidden, maybe its only copy, which is never collected."""
    files: int
    bytes: int
    newest: datetime
    """When a file in it was last changed."""


@dataclass(frozen=True)
class OrphanPlan:
    """What may be collected."""

    catalog: Catalog
    orphans: tuple[Orphan, ...]
    kept: tuple[Orphan, ...]
    """Those that are too young, and whole datasets unless they were asked for."""


@dataclass(frozen=True)
class Collected:
    """What became of a plan."""

    deleted: tuple[str, ...]
    spared: tuple[str, ...]
    """Directories that a row names by now, or that were written to."""
    failed: tuple[tuple[str, str], ...]
    """Directory and reason."""


def plan_orphans(
    catalog: Catalog, now: datetime, older_than: timedelta = DEFAULT_AGE, datasets: bool = False
) -> OrphanPlan:
    """Find directories ``<hash>_<id>`` that no row names, and remainders of drops and renames; changes nothing.

    Whole datasets are only collected with ``datasets``: pylance's namespace deregisters a table without leaving a mark.
    Where there is no ``__manifest``, no row can name anything, so only remainders are found.
    """
    if older_than < timedelta(0):
        raise InvalidOption("older_than cannot be negative.", hint="Give the age of directories, e.g. one day.")
    orphans = find_orphans(catalog)
    kinds = {UNFINISHED, REMAINDER, DATASET} if datasets else {UNFINISHED, REMAINDER}
    due = [orphan for orphan in orphans if orphan.kind in kinds and orphan.newest <= now - older_than]
    return OrphanPlan(catalog, tuple(due), tuple(orphan for orphan in orphans if orphan not in due))


def find_orphans(catalog: Catalog) -> list[Orphan]:
    """All directories that no row names, however young; not those that this package deregistered."""
    # Directories first: a table that is created in between has its row before its directory.
    directories, _ = list_root(catalog.root)
    has_manifest = newest(catalog.manifest) is not None
    named = named_directories(catalog)
    unnamed = [directory for directory in directories if directory not in named]
    candidates = [directory for directory in unnamed if hashed_id(directory) or v1_name(directory)]
    with ThreadPoolExecutor(THREADS) as pool:
        looked = list(pool.map(lambda directory: _look(catalog, directory, named), candidates))
    return [
        orphan for orphan in looked if orphan is not None and (has_manifest or orphan.kind in (REMAINDER, INTERRUPTED))
    ]


def named_directories(catalog: Catalog) -> frozenset[str]:
    """Directories directly in the root that rows name, or that hold what rows name."""
    locations = read_rows(catalog.manifest, RowFilter(everything=True)).table[LOCATION].to_pylist()
    return frozenset(location.partition("/")[0] for location in locations if location)


def _look(catalog: Catalog, directory: str, named: frozenset[str]) -> Orphan | None:
    files = list_directory(catalog.at(directory))
    paths = {path for path, _, _ in files}
    mark = None
    if DEREGISTERED in paths:
        mark = read_mark(markers.content_of(catalog.at(directory), DEREGISTERED))
    kind = REMAINDER if is_remainder(mark, named) else _kind(directory, paths, mark)
    if kind is None or (not files and v1_name(directory)):
        return None
    latest = max((time for _, _, time in files), default=0)
    latest = max(latest, changed_at(catalog.at(directory)))  # a copy on a local disk has the times of its source
    moment = datetime.fromtimestamp(min(latest / 1_000_000, 2**37), timezone.utc)
    return Orphan(directory, kind, len(files), sum(size for _, size, _ in files), moment)


def _kind(directory: str, paths: Iterable[str], mark: Mark | None) -> str | None:
    """What a directory without a row is; None for one that must not be collected."""
    names = {path.partition("/")[0] for path in paths}
    if mark is not None and mark.why == "rename":
        return INTERRUPTED
    if v1_name(directory) is not None or DEREGISTERED in names:
        return None
    return DATASET if VERSIONS in names and INCOMPLETE not in names else UNFINISHED


def collect_orphans(plan: OrphanPlan) -> Collected:
    """Delete what a plan says, unless a row names it by now or it was written to since."""
    named = named_directories(plan.catalog)
    deleted, spared, failed = [], [], []
    for orphan in plan.orphans:
        if orphan.directory in named or _look(plan.catalog, orphan.directory, named) != orphan:
            spared.append(orphan.directory)
            continue
        try:
            erase_table(plan.catalog, orphan.directory)
        except LanceSparkError as problem:
            failed.append((orphan.directory, problem.message))
        else:
            deleted.append(orphan.directory)
    return Collected(tuple(deleted), tuple(spared), tuple(failed))
