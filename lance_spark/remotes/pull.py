"""Pull: fetch a branch of a remote and merge it into a local branch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from lance_spark import hints
from lance_spark.core.location import DatasetLocation
from lance_spark.core.options import names_of
from lance_spark.core.records.tracking import following_name
from lance_spark.core.refs import MAIN, PinnedVersion
from lance_spark.engine.local import Engine
from lance_spark.errors import Conflict, NotCommittable, Refused
from lance_spark.merge.ancestry import Graph, only_base
from lance_spark.merge.hint_rules import hint_for
from lance_spark.merge.merge import merge, merge_requests, plan_replay, remember
from lance_spark.merge.option_rules import MergeOptions
from lance_spark.merge.replay_commits import commit_record
from lance_spark.merge.report import MergeResult
from lance_spark.remotes.fetch import FetchOptions, Remote, fetch, followed
from lance_spark.remotes.report import PullResult
from lance_spark.storage import refs, versions
from lance_spark.storage.datasets import pin_latest
from lance_spark.storage.followers import check_mergeable


@dataclass(frozen=True)
class _Target:
    """The local branch to pull into, and the engine that copies files to it."""

    location: DatasetLocation
    branch: str | None
    engine: Engine

    def merge(self, pin: PinnedVersion, options: MergeOptions) -> MergeResult:
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

    The result is one version. If pylance cannot commit it at once, the branch takes in one fetched version after the
    other. With ``dry_run`` it only fetches, which changes none of the user's own
    branches. Raises like fetch and merge.
    """
    options = options or MergeOptions()
    check_mergeable(local, into)
    fetched = fetch(local, remote, engine, FetchOptions(branches=[branch]))
    head = pin_latest(local, following_name(remote.name, branch))
    try:
        merged = _merge(_Target(local, into, engine), remote, branch, head, options)
    except (Conflict, Refused) as problem:
        again = partial(_again, remote, branch)
        if isinstance(problem, Conflict) and problem.conflicts:
            problem.hint = hint_for(problem.conflicts, again, options.preferred, names_of(options.on))
        if not options.ff_only:
            problem.hint = _with_way_out(problem.hint, remote, branch)
        raise
    if merged.conflicts:
        again = partial(_again, remote, branch)
        hint = hint_for(merged.conflicts, again, options.preferred, names_of(options.on))
        merged = replace(merged, hint=hint)
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


def _again(remote: Remote, branch: str | None, prefer: str, on: Sequence[str]) -> hints.Hint:
    return hints.pull(remote.name, branch or MAIN, prefer=prefer, on=on)


def _with_way_out(hint: str | None, remote: Remote, branch: str | None) -> str:
    """The hint, and what helps in any case."""
    first = [hint, " "] if hint else []
    way = hints.pull(remote.name, branch or MAIN, reset=True)
    return hints.of(*first, "To take the remote's state, and keep your own rows on a branch: ", way, ".")


def _note_held(local: DatasetLocation, into: str | None, head: PinnedVersion) -> None:
    """Record that the branch has everything of a version, although the rows came another way: a push checks this.

    If both sides compacted the same rows, a version without changes records how the remote did. The next pull starts
    from the remote's files, and would not find their rows here.
    """
    graph = Graph(local)
    ours, node = pin_latest(local, into), graph.origin(head)
    if graph.held(ours, head).get(node.chain, -1) >= node.version:
        return
    plan = plan_replay(merge_requests(local, head, into, MergeOptions())())
    version = ours.version
    if plan.rewrites and plan.is_up_to_date:
        version = commit_record(local, plan)
    remember(local, into, [head], version)


def _steps(
    local: DatasetLocation, remote: Remote, branch: str | None, into: str | None, head: PinnedVersion
) -> list[PinnedVersion]:
    """The versions that were fetched and are not in the branch."""
    table = refs.read_refs(local)
    graph = Graph(local, table)
    ours = pin_latest(local, into)
    base = only_base(graph, ours, head)
    held = graph.held(ours, head).get(graph.identity(head.branch), 0)
    pairs = followed(table, remote.name)[branch].pairs
    there = versions.version_numbers(local, head.branch)
    numbers = dict.fromkeys(pair.local for pair in pairs if pair.local > held and pair.local in there)
    steps = [PinnedVersion(head.branch, number) for number in numbers]
    return [step for step in steps if graph.held(step, ours).get(base.chain, -1) >= base.version]


def _one_by_one(target: _Target, steps: Sequence[PinnedVersion], options: MergeOptions) -> MergeResult:
    """Merge each one. If the branch has no changes of its own, every merge is a fast-forward."""
    results: list[MergeResult] = []
    for step in steps[:1] if options.dry_run else steps:
        try:
            results.append(target.merge(step, replace(options, ff_only=options.ff_only and not results)))
        except (Conflict, NotCommittable) as problem:
            if results:
                done = f"Before that, {len(results)} of {len(steps)} versions of the remote were merged."
                problem.message = f"{problem.message}\n{done}"
            raise
    merged = MergeResult.of_steps(results)
    note = (f"in {len(steps)} steps, because pylance cannot commit all of it at once",) if len(steps) > 1 else ()
    return replace(merged, notes=(*merged.notes, *note))
