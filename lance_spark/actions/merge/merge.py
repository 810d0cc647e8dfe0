"""Merging a branch into another one: its changes since the last common version, as one version."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256

from lance_spark.actions.denied import unchanged
from lance_spark.actions.merge.ancestry import Graph, only_base, trace_of
from lance_spark.actions.merge.execute import replay
from lance_spark.actions.merge.request import Request
from lance_spark.actions.resolve import check_branch
from lance_spark.actions.sync.write_guards import check_mergeable
from lance_spark.errors import InvalidOption, PermissionDenied, Refused
from lance_spark.location import DatasetLocation
from lance_spark.merge.ancestry import Node
from lance_spark.merge.placement import InPlacePolicy
from lance_spark.merge.result import MergeResult
from lance_spark.merge.trace import MERGE
from lance_spark.refs.model import PinnedVersion, RefTable
from lance_spark.refs.names import MAIN
from lance_spark.runner.interface import Engine
from lance_spark.store import refs
from lance_spark.store.datasets import pin_latest
from lance_spark.store.permissions import check_may_commit
from lance_spark.sync.merge_notes import MergeNote, with_note


@dataclass(frozen=True)
class MergeOptions:
    """How to merge."""

    ff_only: bool = False
    """Refuse unless the target has not moved since the common version."""
    reference: bool = False
    """Read data files where they are. Then the source branch cannot be deleted."""
    dry_run: bool = False
    message: str | None = None


def merge(
    location: DatasetLocation,
    source: PinnedVersion,
    into: str | None,
    options: MergeOptions,
    engine: Engine,
) -> MergeResult:
    """Merge a version, with all it descends from, into a branch (None for main).

    Readers see the branch before or after, never between. Commits made meanwhile are kept: the merge is planned again
    on top of them. Raises Conflict, naming what clashes, Refused and NotFound; then the branch is as it was.
    """
    check_mergeable(location, into)
    check_branch(location, source.branch)
    if source.branch == into:
        raise InvalidOption(f"{source} is a version of '{into or MAIN}' itself.", hint="Name another branch to merge.")

    def make() -> Request:
        graph = Graph(location)
        ours = pin_latest(location, into)
        base = only_base(graph, ours, source)
        if options.ff_only and not _is_forward(graph, ours, source, base):
            raise Refused(
                f"'{into or MAIN}' has versions after {graph.pin(base)} that {source} does not have: this is no "
                "fast-forward.",
                hint=f"Merge '{into or MAIN}' into '{source.branch or MAIN}' first, or allow a real merge.",
            )
        return Request(
            location=location,
            ours=ours,
            theirs=source,
            base_ours=base_of(location, graph, ours, base),
            base_theirs=base_of(location, graph, source, base),
            trace=replace(trace_of(graph, MERGE, source), held=_held(graph, source, ours)),
            message=options.message or f"Merge {source} into {into or MAIN}",
            our_path=graph.path(ours, base, source),
            their_path=graph.path(source, base, ours),
            numbering=graph.numbering(source, base, ours),
            reference=InPlacePolicy(everything=options.reference, outside=location.uri),
            reader=graph.reader,
        )

    if options.reference and not options.dry_run:
        with unchanged():
            check_may_commit(location, into)
            protect(location, source)
    result = replay(make, engine, options.dry_run)
    if result.version is None:
        return result
    try:
        remember(location, into, source, result.version)
    except PermissionDenied as denied:
        why = denied.message if denied.missing is None else f"{denied.missing} is missing"
        note = (
            f"The merge is committed, but not noted on a branch, as {why}. Only version {result.version} tells of "
            "it: once a cleanup removes that version, the next merge may find conflicts."
        )
        return replace(result, notes=(*result.notes, note))
    return result


def _held(graph: Graph, source: PinnedVersion, ours: PinnedVersion) -> tuple[tuple[str, int], ...]:
    """What the source has of other chains, which nobody can tell any more once its branch is deleted."""
    own = graph.identity(source.branch)
    return tuple(sorted((chain, version) for chain, version in graph.held(source, ours).items() if chain != own))


def base_of(location: DatasetLocation, graph: Graph, side: PinnedVersion, base: Node) -> PinnedVersion:
    """The common version as a side's own chain has it, if it does: a branch begins with a copy of its fork."""
    pin = graph.pin(base)
    if side.branch is None or pin.branch == side.branch or graph.fork(side.branch) != pin:
        return pin
    copy = PinnedVersion(side.branch, pin.version)
    return copy if graph.reader.has(location, copy) else pin


def _is_forward(graph: Graph, ours: PinnedVersion, source: PinnedVersion, base: Node) -> bool:
    """Whether ours is the base itself, or source is: then there is nothing to combine."""
    if base in (graph.node(ours), graph.node(source)):
        return True
    return ours.branch is not None and ours.version == base.version and graph.fork(ours.branch) == graph.pin(base)


def protect(location: DatasetLocation, source: PinnedVersion) -> None:
    """Tag a version whose files another branch reads: no cleanup takes it, and its branch cannot be deleted."""
    name = f"merged-{sha256(str(source).encode()).hexdigest()[:16]}"
    if refs.read_tag(location, name) is None:
        refs.create_tag(location, name, source)


def remember(location: DatasetLocation, into: str | None, source: PinnedVersion, version: int) -> None:
    """Record a merge in the ref of a branch that took part, for the next merge and for cleanups."""
    branches = (refs.read_branch(location, name) for name in {into, source.branch} if name is not None)
    table = RefTable({branch.name: branch for branch in branches if branch is not None}, {})
    graph = Graph(location, table)
    note = MergeNote(graph.identity(into), version, graph.node(source))
    holder = into if into is not None else source.branch
    if holder is not None and holder in table.branches:
        refs.replace_metadata(location, holder, with_note(table.branches[holder].metadata, note))
