"""Carries indexes over from one chain to another, where they are valid as they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lance_spark.errors import Conflict
from lance_spark.location import DatasetLocation
from lance_spark.manifest.contents import Contents, Fragment, IndexSegment
from lance_spark.merge.plan import ReplayPlan
from lance_spark.merge.snapshot import columns
from lance_spark.refs.model import PinnedVersion
from lance_spark.store import copying, version_reader
from lance_spark.store.commits import commit_on
from lance_spark.store.datasets import open_pinned
from lance_spark.store.failures import translated

if TYPE_CHECKING:
    import lance

_RETRIES = 20
_INTERNAL = "__"
"""Prefix of the names of internal indexes."""


def carry_indexes(
    ours: DatasetLocation, theirs: DatasetLocation, plan: ReplayPlan, version: int | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Indexes that were made on theirs since the base: (names carried over, names of those to make again on ours).

    An index knows rows by the ids of their fragments. It is carried over only if every fragment that it covers has the
    same id, files and row ids in the version that was committed; any other index would answer with wrong rows. Of an
    index that ours has, too, theirs may have a segment more: it comes beside those of ours.
    """
    new = _new_indexes(plan)
    if not new:
        return (), ()
    pin = PinnedVersion(plan.ours.pin.branch, version or plan.ours.pin.version)
    now = version_reader.read_contents(ours, pin)
    made = _made(theirs, plan)
    carried: list[str] = []
    missing: list[str] = []
    for name, segments in new.items():
        known = [segment for segment in now.indexes if segment.name == name]
        descriptions = [made[segment.uuid] for segment in segments if segment.uuid in made]
        complete = len(descriptions) == len(segments)
        if known:
            complete, descriptions = True, _beside(plan, now, segments, made)
            if not descriptions and not _lacks(now, known, plan):
                continue
        elif not all(_is_valid(made[segment.uuid], segment, plan, now) for segment in segments if complete):
            complete = False
        if complete and descriptions:
            for description in descriptions:
                _copy_directory(theirs, plan, str(description.uuid), ours)
            (carried if _commit(ours, pin, descriptions) else missing).append(name)
        else:
            missing.append(name)
    return tuple(carried), tuple(missing)


def _new_indexes(plan: ReplayPlan) -> dict[str, list[IndexSegment]]:
    """Segments of theirs that neither the base nor ours has, by the names of their indexes."""
    known = {segment.uuid for side in (plan.sides.base_theirs, plan.ours) for segment in side.contents.indexes}
    new: dict[str, list[IndexSegment]] = {}
    for segment in plan.sides.theirs.contents.indexes:
        if segment.uuid not in known and not segment.name.startswith(_INTERNAL):
            new.setdefault(segment.name, []).append(segment)
    return new


def _beside(plan: ReplayPlan, now: Contents, segments: Iterable[IndexSegment], made: Mapping[str, Any]) -> list[Any]:
    """Descriptions of the segments that fit beside those that ours has of the same index.

    A segment is of no use unless it covers fragments that no other one does. It must not know rows of a fragment whose
    id is another fragment's in ours, now or later.
    """
    found = []
    taken: dict[str, set[int]] = {}
    for known in now.indexes:
        taken.setdefault(known.name, set()).update(known.fragments)
    kinds = {segment.name: (segment.fields, segment.kind) for segment in now.indexes}
    theirs = {entry.id: entry for entry in plan.sides.theirs.contents.fragments()}
    ours = {entry.id: entry for entry in now.fragments()}
    for segment in segments:
        index = made.get(segment.uuid)
        if index is None or index.base_id is not None or kinds[segment.name] != (segment.fields, segment.kind):
            continue
        others = taken[segment.name]
        covered = frozenset(index.fragment_ids)
        same = {
            key
            for key in covered & segment.fragments & theirs.keys() & ours.keys()
            if _same_rows(ours[key], theirs[key], index.fields)
        }
        strange = {key for key in covered - same if key in ours or key > now.max_fragment_id}
        if same and not strange and others.isdisjoint(same) and _same_columns(index, plan, now):
            found.append(replace(index, fragment_ids=same))
            others |= same
    return found


def _lacks(now: Contents, known: Iterable[IndexSegment], plan: ReplayPlan) -> bool:
    """Whether rows that a segment of theirs covers are in no segment of ours."""
    covered = {key for segment in known for key in segment.fragments}
    added = {file.path for entry in plan.change.added for file in entry.files}
    return any(entry.id not in covered for entry in now.fragments_with(added))


def _made(theirs: DatasetLocation, plan: ReplayPlan) -> dict[str, Any]:
    """Descriptions, as pylance has them, of indexes made since the base, from the transactions that made them."""
    dataset = open_pinned(theirs, plan.sides.theirs.pin)
    made = {}
    for step in plan.sides.their_steps.all:
        if step.operation == "CreateIndex":
            with translated(theirs, "reading a transaction"):
                operation = _operation(dataset, step.version)
            made.update({str(index.uuid): index for index in getattr(operation, "new_indices", ())})
    return made


def _operation(dataset: lance.LanceDataset, version: int) -> Any:
    transaction = dataset.read_transaction(version)
    return None if transaction is None else transaction.operation


def _is_valid(index: Any, segment: IndexSegment, plan: ReplayPlan, now: Contents) -> bool:
    covered = frozenset(index.fragment_ids)
    theirs = {entry.id: entry for entry in plan.sides.theirs.contents.fragments() if entry.id in covered}
    ours = {entry.id: entry for entry in now.fragments() if entry.id in covered}
    return (
        index.base_id is None
        and covered == segment.fragments  # pylance removes fragments whose values changed later
        and theirs.keys() == covered
        and _same_columns(index, plan, now)
        and all(key in ours and _same_rows(ours[key], fragment, index.fields) for key, fragment in theirs.items())
    )


def _same_columns(index: Any, plan: ReplayPlan, now: Contents) -> bool:
    fields = {entry.id: entry.name for entry in now.fields}
    names = {entry.id: entry.name for entry in plan.sides.theirs.contents.fields}
    return all(fields.get(key) == names.get(key) for key in index.fields)


def _same_rows(ours: Fragment, theirs: Fragment, fields: list[int]) -> bool:
    live = frozenset(fields)
    return columns(ours, live) == columns(theirs, live) and ours.row_ids == theirs.row_ids


def _copy_directory(theirs: DatasetLocation, plan: ReplayPlan, uuid: str, ours: DatasetLocation) -> None:
    source = DatasetLocation(plan.sides.theirs.root.uri, theirs.options)
    target = DatasetLocation(plan.ours.root.uri, ours.options)
    for path in copying.files_below(source, f"_indices/{uuid}"):
        copying.copy_file(source, path, target, path)


def _commit(ours: DatasetLocation, pin: PinnedVersion, indexes: list[Any]) -> bool:
    """Whether the index is in ours now. A concurrent commit wins: the index can be made again."""
    import lance

    try:
        commit_on(ours, pin, lance.LanceOperation.CreateIndex(indexes, []), retries=_RETRIES)
    except Conflict:
        return False
    return True
