"""Cherry-pick and revert: the change of a single version, forwards or backwards."""

from __future__ import annotations

from collections.abc import Callable

from lance_spark.actions.merge.ancestry import Graph, trace_of
from lance_spark.actions.merge.execute import replay
from lance_spark.actions.merge.request import Request
from lance_spark.actions.sync.write_guards import check_writable
from lance_spark.errors import Refused
from lance_spark.location import DatasetLocation
from lance_spark.merge.result import MergeResult
from lance_spark.merge.steps import VersionSpan
from lance_spark.merge.trace import CHERRY_PICK, REVERT
from lance_spark.refs.model import PinnedVersion
from lance_spark.refs.names import MAIN
from lance_spark.runner.interface import Engine
from lance_spark.store import version_listing
from lance_spark.store.datasets import pin_latest


def cherry_pick(
    location: DatasetLocation,
    picked: PinnedVersion,
    into: str | None,
    engine: Engine,
    message: str | None = None,
    dry_run: bool = False,
) -> MergeResult:
    """Commit to a branch what one version changed. Raises Conflict, Refused and NotFound; then nothing was changed."""
    return replay(_requests(location, picked, into, CHERRY_PICK, message), engine, dry_run)


def revert(
    location: DatasetLocation,
    reverted: PinnedVersion,
    into: str | None,
    engine: Engine,
    message: str | None = None,
    dry_run: bool = False,
) -> MergeResult:
    """Commit to a branch the opposite of what one of its versions changed. Raises the errors of cherry_pick."""
    return replay(_requests(location, reverted, into, REVERT, message), engine, dry_run)


def _requests(
    location: DatasetLocation, pin: PinnedVersion, into: str | None, action: str, message: str | None
) -> Callable[[], Request]:
    """Makes requests for the change of one version: forwards to pick it, backwards to revert it."""
    check_writable(location, into)
    before = version_before(location, pin)
    base, theirs = (pin, before) if action == REVERT else (before, pin)

    def make() -> Request:
        ours, graph = pin_latest(location, into), Graph(location)
        common = graph.bases(base, ours)
        return Request(
            location=location,
            ours=ours,
            theirs=theirs,
            base_ours=base,
            base_theirs=base,
            our_path=graph.path(ours, graph.node(base), base),
            their_path=(VersionSpan(pin.branch, before.version, pin.version),),
            trace=trace_of(graph, action, pin),
            message=message or f"{action.capitalize()} {pin}",
            numbering=None if into == pin.branch else base,
            reader=graph.reader,
            shares=action == CHERRY_PICK and graph.share(theirs, ours, base),
            earlier_path=graph.path(base, common[0], ours) if len(common) == 1 else None,
        )

    return make


def version_before(location: DatasetLocation, pin: PinnedVersion) -> PinnedVersion:
    """The version that a version was made from. Raises Refused for a first one."""
    older = [version for version in version_listing.version_numbers(location, pin.branch) if version < pin.version]
    if not older:
        raise Refused(
            f"{pin} is the oldest version of '{pin.branch or MAIN}' that is there: what it changed is not known.",
            hint="Only a version with another one before it on its branch can be picked or reverted.",
        )
    if older[-1] != pin.version - 1:
        raise Refused(
            f"The version before {pin} was cleaned up; the nearest is {older[-1]}, which is {pin.version - older[-1]} "
            "versions older.",
            hint="Merge the branch, or write the rows again.",
        )
    return PinnedVersion(pin.branch, older[-1])
