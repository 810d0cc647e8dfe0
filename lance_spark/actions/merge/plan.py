"""Plans a replay: reads the versions, compares them, and decides where files go. Nothing is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice
from typing import Any

from lance_spark.errors import NotCommittable, NotFound
from lance_spark.location import DatasetLocation
from lance_spark.manifest.contents import Fragment
from lance_spark.merge.assembly import Assembly
from lance_spark.merge.change import MergeChange, MergeConflict, Replacement, Sides
from lance_spark.merge.delta import delta
from lance_spark.merge.operations import operation_for
from lance_spark.merge.placement import Reference, place
from lance_spark.merge.plan import ReplayPlan
from lance_spark.merge.snapshot import Snapshot
from lance_spark.merge.steps import Step, Steps, Stretch
from lance_spark.merge.threeway import compare
from lance_spark.merge.trace import ADDS_ONLY, BEGIN, BRINGING, BRINGS, MOVED, REPLACES, Trace, read_trace
from lance_spark.refs.model import PinnedVersion
from lance_spark.store import merge_commit, scanning, version_listing
from lance_spark.store.datasets import pin_version
from lance_spark.store.deletions import deleted_offsets
from lance_spark.store.version_cache import VersionCache

_EXAMPLES = 5
_ANEW = "Begin"
"""A version of elsewhere is written down from here on: what happened before, there, is not known."""


@dataclass(frozen=True)
class Request:
    """Take over to ``ours`` what ``theirs`` changed since the base. Both sides see the base in a chain of their own."""

    location: DatasetLocation
    ours: PinnedVersion
    theirs: PinnedVersion
    base_ours: PinnedVersion
    base_theirs: PinnedVersion
    trace: Trace
    message: str | None = None
    reference: Reference = field(default_factory=Reference)
    """Which data files stay where they are."""
    our_path: tuple[Stretch, ...] | None = None
    """The versions of ours that the base does not have; None to find them by the base's branch."""
    their_path: tuple[Stretch, ...] | None = None
    numbering: PinnedVersion | None = None
    """A version of theirs that has the rows of the base, where the base itself numbers rows in another way."""
    remote: DatasetLocation | None = None
    """Where theirs is, if that is another dataset."""
    with_indexes: bool = True
    """Whether indexes of theirs are copied, where they are valid."""
    reader: VersionCache = field(default_factory=VersionCache)
    """With what was read of the two sides before, in the same attempt."""

    @property
    def their_location(self) -> DatasetLocation:
        """Where theirs is."""
        return self.remote or self.location


def plan_replay(request: Request) -> ReplayPlan:
    """Compare and place. Raises NotCommittable for what cannot be taken over, also where the base is gone; NotFound."""
    sides = _sides(request)
    change = compare(sides)
    _check_supported(sides, change)
    conflicts = list(change.conflicts)
    deletions: dict[int, tuple[int, ...]] = {}
    for wanted in change.replaced:
        if wanted.both_deleted:
            deletions[wanted.ours.id], found = _other_rows(request, sides, wanted)
            conflicts += found
    conflicts += _same_keys(request, sides, change)
    blobs = bool(change.added or change.replaced) and bool(
        scanning.blob_columns(request.their_location, _stamped(request.their_location, request.theirs))
    )
    placed = place(change, sides.ours, sides.theirs, request.reference, sidecars=blobs)
    if not conflicts:
        emptied = any(_is_emptied(found, deletions.get(found.ours.id, ())) for found in change.replaced)
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
    )


def _is_emptied(wanted: Replacement, deleted: Sequence[int]) -> bool:
    """Whether both sides together deleted all rows of a fragment."""
    return bool(deleted) and wanted.ours.rows == len(deleted)


def _sides(request: Request) -> Sides:
    read = lru_cache(maxsize=None)(request.reader.snapshot)
    there = request.their_location
    ours, theirs = read(request.location, request.ours), read(there, request.theirs)
    try:
        base_ours = read(request.location, request.base_ours)
        base_theirs = read(there, request.base_theirs)
    except NotFound as missing:
        raise NotCommittable(
            f"{request.base_ours} is the last version that {request.ours} and {request.theirs} have in common, and it "
            f"is not there any more: {missing.message}",
            hint="Keep such versions: cleanup() of this package does. Bring the rows over with a write instead.",
        ) from None
    return Sides(
        base_ours=base_ours,
        ours=replace(ours, pin=_stamped(request.location, request.ours)),
        base_theirs=base_theirs,
        theirs=replace(theirs, pin=_stamped(there, request.theirs)),
        our_steps=_steps((request.reader, request.location), request.ours, request.base_ours, request.our_path),
        their_steps=_steps((request.reader, there), request.theirs, request.base_theirs, request.their_path),
        numbering=_numbering(request, ours),
    )


def _numbering(request: Request, ours: Snapshot) -> Snapshot | None:
    if request.numbering is None or not ours.contents.has_stable_row_ids:
        return None
    try:
        return request.reader.snapshot(request.their_location, request.numbering)
    except NotFound as missing:
        raise NotCommittable(
            f"{request.numbering} took in the last version that both have in common, and it is not there any more, so "
            f"rows cannot keep their stable ids: {missing.message}",
            hint="Keep such versions: cleanup() of this package does. Bring the rows over with a write instead.",
        ) from None


def _stamped(location: DatasetLocation, pin: PinnedVersion) -> PinnedVersion:
    return pin if pin.stamp is not None else pin_version(location, pin.branch, pin.version)


def _steps(
    there: tuple[VersionCache, DatasetLocation],
    side: PinnedVersion,
    base: PinnedVersion,
    path: tuple[Stretch, ...] | None,
) -> Steps:
    """The versions that the base does not have. A base in another chain: all of the side's own, if nothing is known."""
    if path is None:
        first = base.version
        if base.branch != side.branch:
            first = min(version_listing.version_numbers(there[1], side.branch), default=0)
        path = (Stretch(side.branch, first, side.version),)
    steps = tuple(step for stretch in path for step in _steps_of(*there, stretch))
    expected = sum(max(0, found.until - found.after) for found in path)
    return Steps(
        side.branch, steps, complete=len(steps) == expected and not any(step.operation == _ANEW for step in steps)
    )


def _steps_of(reader: VersionCache, location: DatasetLocation, stretch: Stretch) -> Iterable[Step]:
    wanted = reader.versions(location, stretch.branch, stretch.after, stretch.until)
    for version, transaction in reader.transactions(location, stretch.branch, wanted).items():
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
            _told(properties, MOVED),
            brings=_brings(transaction.operation, trace) or properties.get(BRINGS) == "true",
            adds_only=properties.get(ADDS_ONLY) == "true",
            replaced=_told(properties, REPLACES),
        )


def _told(properties: Mapping[str, str], key: str) -> bool | None:
    """What a commit of this package says of itself; None where it says nothing."""
    return None if key not in properties else properties[key] == "true"


def _brings(operation: str, trace: Trace | None) -> bool:
    return operation == "Restore" or (trace is not None and trace.action in BRINGING)


def _check_supported(sides: Sides, change: MergeChange) -> None:
    touched = [*change.added, *(found.theirs for found in change.replaced), *(found.ours for found in change.replaced)]
    for fragment in touched:
        if fragment.has_overlays:
            raise NotCommittable(f"Fragment {fragment.id} has overlays, which this release cannot take over.")
    stable = sides.ours.contents.has_stable_row_ids
    if stable != sides.theirs.contents.has_stable_row_ids:
        raise NotCommittable(f"Only one of {sides.ours.pin} and {sides.theirs.pin} has stable row ids.")
    if stable and any(not fragment.row_ids for fragment in change.added):
        raise NotCommittable(
            "The row ids of new rows are kept in files of their own, which this release cannot take over."
        )


def _other_rows(request: Request, sides: Sides, wanted: Replacement) -> tuple[tuple[int, ...], list[MergeConflict]]:
    """The rows that theirs deleted in a fragment in which ours deleted others; a conflict if they are not others."""
    base = frozenset(deleted_offsets(request.location, sides.base_ours, wanted.base).to_pylist())
    ours = frozenset(deleted_offsets(request.location, sides.ours, wanted.ours).to_pylist()) - base
    theirs_now = frozenset(deleted_offsets(request.their_location, sides.theirs, wanted.theirs).to_pylist())
    theirs = theirs_now - base
    both = sorted(ours & theirs)
    if not both and base <= theirs_now:
        return tuple(sorted(theirs)), []
    reason = (
        "both sides deleted or updated the same rows" if both else "ours deleted more rows where theirs has rows back"
    )
    conflict = MergeConflict(
        reason,
        sides.our_steps.telling(),
        sides.their_steps.telling(),
        (wanted.ours.id,),
        _rows(request, wanted.base, both[:_EXAMPLES]),
    )
    return (), [conflict]


def _rows(request: Request, fragment: Fragment, offsets: Sequence[int]) -> tuple[str, ...]:
    """The keys of some rows as the base has them."""
    pin = _stamped(request.location, request.base_ours)
    keys = merge_commit.key_columns(request.location, pin)
    if not keys or not offsets:
        return ()
    return tuple(_shown(row) for row in merge_commit.take_keys(request.location, pin, keys, fragment, offsets))


def _same_keys(request: Request, sides: Sides, change: MergeChange) -> list[MergeConflict]:
    """Where the table declares a key: rows that both sides added or updated under one key."""
    mine = delta(sides.base_ours, sides.ours).added if change.added else ()
    keys = merge_commit.key_columns(request.location, sides.ours.pin) if mine else ()
    if not keys:
        return []
    known = set(_keys(request.location, sides.ours, keys, mine))
    twice = (key for key in _keys(request.their_location, sides.theirs, keys, change.added) if key in known)
    rows = tuple(_shown(dict(zip(keys, key, strict=True))) for key in islice(twice, _EXAMPLES))
    if not rows:
        return []
    return [
        MergeConflict(
            "both sides have new rows with the same key",
            sides.our_steps.telling(),
            sides.their_steps.telling(),
            rows=rows,
        )
    ]


def _keys(
    location: DatasetLocation, side: Snapshot, keys: Sequence[str], fragments: Sequence[Fragment]
) -> Iterable[tuple[Any, ...]]:
    for batch in merge_commit.read_keys(location, side.pin, keys, fragments):
        yield from zip(*(batch[key].to_pylist() for key in keys), strict=True)


def _shown(row: Any) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in row.items())
