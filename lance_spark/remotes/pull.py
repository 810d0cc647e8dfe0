"""Pull: fetch a branch of a remote and merge it into a local branch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.core.tracking import following_name
from lance_spark.engine.local import Engine
from lance_spark.errors import NotCommittable, NotFound
from lance_spark.format.versions import delta
from lance_spark.merge.ancestry import Graph, only_base
from lance_spark.merge.merge import base_of, merge, remember
from lance_spark.merge.option_rules import MergeOptions
from lance_spark.merge.report import MergeResult
from lance_spark.remotes.fetch import FetchOptions, Remote, fetch, followed
from lance_spark.remotes.report import PullResult
from lance_spark.storage import refs, versions
from lance_spark.storage.commits import check_mergeable
from lance_spark.storage.datasets import pin_latest


@dataclass(frozen=True)
class _Target:
    """The local branch to pull into, and the engine that copies files to it."""

    location: DatasetLocation
    branch: str | None
    engine: Engine

    def merge(self, pin: PinnedVersion, options: MergeOptions) -> MergeResult:
        """Merge a version into it."""
        return merge(self.location, pin, self.branch, options, self.engine)


def pull(
    local: DatasetLocation,
    remote: Remote,
    branch: str | None,
    into: str | None,
    engine: Engine,
    options: MergeOptions | None = None,
) -> PullResult:
    """Fetch one branch of a remote and merge it into a local one (None is main for both).

    The result is one version. If pylance cannot commit it at once, a branch without changes of its own gets several
    versions, each of which the remote has. With ``dry_run`` it only fetches, which changes none of the user's own
    branches. Raises like fetch and merge.
    """
    options = options or MergeOptions()
    check_mergeable(local, into)
    fetched = fetch(local, remote, engine, FetchOptions(branches=[branch]))
    head = pin_latest(local, following_name(remote.name, branch))
    merged = _merge(_Target(local, into, engine), remote, branch, head, options)
    if merged.up_to_date and not options.dry_run:
        _note_held(local, into, head)
    return PullResult(fetched, merged)


def _merge(
    target: _Target, remote: Remote, branch: str | None, head: PinnedVersion, options: MergeOptions
) -> MergeResult:
    try:
        return target.merge(head, options)
    except NotCommittable:
        steps = _steps(target.location, remote, branch, target.branch, head)
        if not steps:
            raise
    return _one_by_one(target, steps, options)


def _note_held(local: DatasetLocation, into: str | None, head: PinnedVersion) -> None:
    """Record that the branch has everything of a version, although the rows came another way: a push checks this."""
    graph = Graph(local)
    ours, node = pin_latest(local, into), graph.origin(head)
    if graph.held(ours, head).get(node.chain, -1) < node.version:
        remember(local, into, [head], ours.version)


def _steps(
    local: DatasetLocation, remote: Remote, branch: str | None, into: str | None, head: PinnedVersion
) -> list[PinnedVersion]:
    """The versions that were fetched and are not in the branch; none if the branch has changes of its own."""
    table = refs.read_refs(local)
    graph = Graph(local, table)
    ours = pin_latest(local, into)
    base = only_base(graph, ours, head)
    try:
        before = versions.read_snapshot(local, base_of(local, graph, ours, base))
    except NotFound:
        return []
    now = versions.read_snapshot(local, ours)
    if delta(before, now) or before.contents.fields != now.contents.fields:
        return []
    held = graph.held(ours, head).get(graph.identity(head.branch), 0)
    pairs = followed(table, remote.name)[branch].pairs
    there = versions.version_numbers(local, head.branch)
    numbers = dict.fromkeys(pair.local for pair in pairs if pair.local > held and pair.local in there)
    steps = [PinnedVersion(head.branch, number) for number in numbers]
    return [step for step in steps if graph.held(step, ours).get(base.chain, -1) >= base.version]


def _one_by_one(target: _Target, steps: Sequence[PinnedVersion], options: MergeOptions) -> MergeResult:
    """Merge each one; as the branch has no changes of its own, every merge is a fast-forward."""
    each = replace(options, ff_only=False)
    results = [target.merge(step, each) for step in (steps[:1] if options.dry_run else steps)]
    merged = next((result for result in reversed(results) if result.version is not None), results[-1])
    note = (f"in {len(steps)} steps, because pylance cannot commit all of it at once",) if len(steps) > 1 else ()
    return replace(merged, fast_forward=True, notes=(*merged.notes, *note))
