"""Plans a compaction of a branch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lance_spark.compaction.choosing import grouped, indexes_to_rehome, inherited_fragments
from lance_spark.compaction.model import OptimizeOptions, OptimizePlan, RewriteTask
from lance_spark.location import DatasetLocation
from lance_spark.manifest.contents import Fragment
from lance_spark.manifest.indexes import decode_indexes
from lance_spark.merge.snapshot import Snapshot
from lance_spark.refs.model import PinnedVersion
from lance_spark.runner.interface import Engine
from lance_spark.runner.work import Work
from lance_spark.store import version_reader
from lance_spark.store.compaction import MATCHING, MatchItem, matching_fragments, plan_rewrites
from lance_spark.store.datasets import pin_latest

OPERATION = "optimize"
_AT_ONCE = 64
"""Fragments that one task looks for rows in."""


@dataclass(frozen=True)
class Candidates:
    """A version, and what of it may be rewritten."""

    pin: PinnedVersion
    manifest: bytes
    snapshot: Snapshot
    fragments: dict[int, Fragment]
    """All of the version, by id."""
    inherited: frozenset[int]
    """Those that are left alone because their files are in another place."""
    wanted: set[int]


def candidates(
    location: DatasetLocation,
    branch: str | None,
    options: OptimizeOptions,
    engine: Engine,
    only: frozenset[int] | None = None,
) -> Candidates:
    """The fragments of the newest version that the options allow; of ``only`` these, if they are given."""
    pin = pin_latest(location, branch)
    manifest = version_reader.read_manifest(location, pin)
    contents = version_reader.contents_of(location, pin, manifest)
    snapshot = version_reader.snapshot_of(location, pin, contents)
    fragments = {fragment.id: fragment for fragment in contents.fragments()}
    inherited = frozenset() if options.own_only is False else inherited_fragments(snapshot, location.uri)
    wanted = fragments.keys() - inherited
    if only is not None:
        wanted &= only
    if options.where is not None and wanted:
        wanted &= _matching(location, pin, [fragments[key] for key in sorted(wanted)], options.where, engine)
    return Candidates(pin, manifest, snapshot, fragments, inherited, wanted)


def plan_optimize(
    location: DatasetLocation,
    branch: str | None,
    options: OptimizeOptions,
    engine: Engine,
    only: frozenset[int] | None = None,
) -> OptimizePlan:
    """What a compaction of the newest version would rewrite; of ``only`` these fragments, if they are given.

    Raises InvalidOption for a condition that is none, and Refused for indexes that it could lose.
    """
    found = candidates(location, branch, options, engine, only)
    pin, fragments = found.pin, found.fragments
    tasks = plan_rewrites(location, pin, fragments, options.target_rows, {*fragments} - found.wanted)
    covered = {key for task in tasks for key in task.ids}
    needed = indexes_to_rehome(decode_indexes(found.manifest), covered)
    names = tuple(sorted({index.name for index in needed}))
    groups = grouped(tasks, min(options.partial_progress, _commits(tasks, engine)))
    return OptimizePlan(pin, groups, len(fragments), len(found.inherited), names, found.snapshot.contents.counts_rows)


def work_of(tasks: Sequence[RewriteTask]) -> Work:
    """How much there is to do."""
    return Work(copies=sum(len(task.sources) for task in tasks), copied_bytes=sum(task.bytes for task in tasks))


def _commits(tasks: Sequence[RewriteTask], engine: Engine) -> int:
    """The most commits with which no executor waits: one group has as many tasks as run side by side."""
    return -(-len(tasks) // engine.for_work(OPERATION, work_of(tasks)).parallelism) if len(tasks) > 1 else 1


def _matching(
    location: DatasetLocation, pin: PinnedVersion, fragments: list[Fragment], where: str, engine: Engine
) -> set[int]:
    work = Work(copies=len(fragments), copied_bytes=sum(fragment.size for fragment in fragments))
    runner = engine.for_work(OPERATION, work)
    items = [MatchItem(location, pin, ids, where) for ids in _pieces([fragment.id for fragment in fragments])]
    frame = runner.flat_map("look for rows", items, matching_fragments, MATCHING)
    return set(runner.collect("look for rows", frame)["fragment"].to_pylist())


def _pieces(ids: list[int]) -> Iterable[tuple[int, ...]]:
    return (tuple(ids[first : first + _AT_ONCE]) for first in range(0, len(ids), _AT_ONCE))
