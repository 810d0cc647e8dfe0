"""Plans a replay: reads the versions, compares them, and decides where files go. Nothing is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from lance_spark.actions.merge.follow_rows import follow_rows
from lance_spark.actions.merge.request import Request
from lance_spark.actions.merge.row_conflicts import other_rows, same_keys
from lance_spark.errors import NotCommittable, NotFound
from lance_spark.location import DatasetLocation
from lance_spark.manifest.transactions import Transaction
from lance_spark.merge.assembly import Assembly
from lance_spark.merge.change import Kinship, MergeChange, Replacement, Sides
from lance_spark.merge.operations import check_supported, operation_for
from lance_spark.merge.placement import Placed, place
from lance_spark.merge.plan import ReplayPlan
from lance_spark.merge.rewrites import Rewrite, deletion_key, read_rewrites, taken_over
from lance_spark.merge.snapshot import Deletions, Snapshot
from lance_spark.merge.steps import Step, Steps, VersionSpan
from lance_spark.merge.threeway import compare
from lance_spark.merge.trace import ADDS_ONLY, BEGIN, BRINGING, BRINGS, MOVED, REORDERED, REPLACES, Trace, read_trace
from lance_spark.refs.model import PinnedVersion
from lance_spark.store import scanning, version_listing
from lance_spark.store.datasets import pin_version
from lance_spark.store.deletions import deleted_offsets
from lance_spark.store.version_cache import VersionCache

_ANEW = "Begin"
"""From here on a version of another dataset is copied. What led to that version is not known."""


def plan_replay(request: Request) -> ReplayPlan:
    """Compare, and place files. Raises NotCommittable for what cannot be taken over or has lost its base; NotFound."""
    sides, there = _sides(request), request.their_location
    change = compare(sides)
    followed = follow_rows(request, sides, change)
    change = followed.change
    check_supported(sides, change)
    conflicts = [*change.conflicts, *followed.conflicts]
    deletions: dict[int, tuple[int, ...]] = {}
    for replacement in change.replaced:
        if replacement.both_deleted:
            deletions[replacement.ours.id], clashes = other_rows((request.location, there), sides, replacement)
            conflicts += clashes
    conflicts += same_keys((request.location, there), sides, change, followed.ours_old)
    blobs = bool(change.added or change.replaced) and bool(scanning.blob_columns(there, sides.theirs.pin))
    placed = place(change, sides.ours, sides.theirs, request.reference, sidecars=blobs)
    if not conflicts:
        change = _with_dead_rows(there, sides, change, placed)
        emptied = any(_is_emptied(each, deletions.get(each.ours.id, ())) for each in change.replaced)
        emptied = emptied or _empties(sides.ours, change.followed.deletions)
        operation_for(change, sides.ours, emptied)
        Assembly.of(sides, change, placed, {}).check_row_ids(change)
    return ReplayPlan(
        sides=sides,
        change=change,
        placed=placed,
        trace=request.trace,
        message=request.message,
        deletions=deletions,
        conflicts=tuple(conflicts),
        rewrites=taken_over((*sides.their_steps.rewrites, *sides.kinship.earlier.rewrites), sides.base_theirs.contents),
    )


def _with_dead_rows(there: DatasetLocation, sides: Sides, change: MergeChange, placed: Placed) -> MergeChange:
    """The change with the deleted rows of new fragments whose other rows keep their ids: deleted ones need none."""
    mixed = Assembly.of(sides, change, placed, {}).mixed(change)
    if not mixed:
        return change
    dead = {entry.id: tuple(deleted_offsets(there, sides.theirs, entry).to_pylist()) for entry in mixed}
    return replace(change, followed=replace(change.followed, dead=dead))


def _empties(ours: Snapshot, deletions: Mapping[int, Sequence[int]]) -> bool:
    """Whether rows that are to be deleted are all that is left of a fragment."""
    return bool(deletions) and any(
        len(deletions.get(fragment.id, ())) == fragment.rows for fragment in ours.contents.fragments()
    )


def _is_emptied(replacement: Replacement, deleted: Sequence[int]) -> bool:
    """Whether both sides together deleted all rows of a fragment."""
    return bool(deleted) and replacement.ours.rows == len(deleted)


def _sides(request: Request) -> Sides:
    read = lru_cache(maxsize=None)(request.reader.snapshot)
    there = request.their_location
    ours, theirs = read(request.location, request.ours), read(there, request.theirs)
    try:
        base_ours = read(request.location, request.base_ours)
        base_theirs = read(there, request.base_theirs)
    except NotFound as missing:
        what = f"is the last version that {request.ours} and {request.theirs} have in common"
        raise _gone(f"{request.base_ours} {what}, and it is not there any more", missing) from None
    return Sides(
        base_ours=base_ours,
        ours=replace(ours, pin=_stamped(request.location, request.ours)),
        base_theirs=base_theirs,
        theirs=replace(theirs, pin=_stamped(there, request.theirs)),
        our_steps=_steps((request.reader, request.location), request.ours, request.base_ours, request.our_path),
        their_steps=_steps((request.reader, there), request.theirs, request.base_theirs, request.their_path),
        kinship=_kinship(request),
        numbering=_numbering(request, ours),
    )


def _kinship(request: Request) -> Kinship:
    path, there = request.earlier_path, (request.reader, request.their_location)
    earlier = _steps(there, request.theirs, request.base_theirs, path or ())
    return Kinship(request.shares, path == (), replace(earlier, complete=path is not None and earlier.complete))


def _numbering(request: Request, ours: Snapshot) -> Snapshot | None:
    if request.numbering is None or not ours.contents.has_stable_row_ids:
        return None
    try:
        return request.reader.snapshot(request.their_location, request.numbering)
    except NotFound as missing:
        what = "took in the last version that both have in common, and it is not there any more"
        raise _gone(f"{request.numbering} {what}, so rows cannot keep their stable ids", missing) from None


def _gone(what: str, missing: NotFound) -> NotCommittable:
    return NotCommittable(
        f"{what}: {missing.message}",
        hint="Keep such versions: cleanup() of this package does. Bring the rows over with a write instead.",
    )


def _stamped(location: DatasetLocation, pin: PinnedVersion) -> PinnedVersion:
    return pin if pin.stamp is not None else pin_version(location, pin.branch, pin.version)


def _steps(
    there: tuple[VersionCache, DatasetLocation],
    side: PinnedVersion,
    base: PinnedVersion,
    path: tuple[VersionSpan, ...] | None,
) -> Steps:
    """The versions that the base does not have. Without a path, a base in another chain means all of the side's own."""
    if path is None:
        first = base.version
        if base.branch != side.branch:
            first = min(version_listing.version_numbers(there[1], side.branch), default=0)
        path = (VersionSpan(side.branch, first, side.version),)
    steps = tuple(step for span in path for step in _steps_of(*there, span))
    expected = sum(max(0, span.until - span.after) for span in path)
    return Steps(
        side.branch, steps, complete=len(steps) == expected and not any(step.operation == _ANEW for step in steps)
    )


def _steps_of(reader: VersionCache, location: DatasetLocation, span: VersionSpan) -> Iterable[Step]:
    numbers = reader.versions(location, span.branch, span.after, span.until)
    for version, transaction in reader.transactions(location, span.branch, numbers).items():
        if transaction is None:
            yield Step(version, "Unknown")
            continue
        properties, trace = transaction.properties, read_trace(transaction.properties)
        if trace is not None and trace.action == BEGIN:
            yield Step(version, _ANEW)
            continue
        yield Step(
            version,
            transaction.operation,
            properties.get(REORDERED) == "true" or _told(properties, MOVED),
            brings=_brings(transaction.operation, trace) or properties.get(BRINGS) == "true",
            adds_only=properties.get(ADDS_ONLY) == "true",
            replaced=_told(properties, REPLACES),
            rewrites=tuple(_rewrites(reader, location, PinnedVersion(span.branch, version), transaction)),
            reordered=properties.get(REORDERED) == "true",
        )


def _rewrites(
    reader: VersionCache, location: DatasetLocation, pin: PinnedVersion, transaction: Transaction
) -> Iterator[Rewrite]:
    """What a version compacted, or took over as compacted."""
    yield from read_rewrites(transaction.properties)
    snapshot = None
    for group in transaction.rewritten:
        places = {}
        for fragment in (*group.before, *group.after):
            key, deletion = deletion_key(fragment), fragment.deletion
            if key is None or deletion is None:
                continue
            if deletion.base_id is None:
                places[key] = Deletions(location.branch_uri(pin.branch), deletion.path_for(fragment.id))
                continue
            snapshot = snapshot or reader.snapshot(location, pin)
            place = snapshot.deletions_of(fragment)
            if place is not None:
                places[key] = place
        yield Rewrite(group.before, group.after, places)


def _told(properties: Mapping[str, str], key: str) -> bool | None:
    """What a commit of this package says about itself; None if it says nothing."""
    return None if key not in properties else properties[key] == "true"


def _brings(operation: str, trace: Trace | None) -> bool:
    return operation == "Restore" or (trace is not None and trace.action in BRINGING)
