"""What versions did since a base: read from their transactions, and from records of versions that are gone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.format import row_ids
from lance_spark.format import versions as format_versions
from lance_spark.format.operations import KEEPS_COLUMNS, Step, Steps, VersionSpan
from lance_spark.format.transactions import Transaction
from lance_spark.storage import versions
from lance_spark.storage.brought import brought_versions

_ANEW = "Begin"
"""From this step on, a version of another dataset is copied. What led to that version is unknown."""


def brings_between(reader: versions.VersionCache, location: DatasetLocation, span: VersionSpan) -> bool:
    """Whether versions of a branch brought rows that other branches may have, also ones that were cleaned up since."""
    return steps_between(
        (reader, location), PinnedVersion(span.branch, span.until), PinnedVersion(None, 0), (span,)
    ).brings


def steps_between(
    there: tuple[versions.VersionCache, DatasetLocation],
    side: PinnedVersion,
    base: PinnedVersion,
    path: tuple[VersionSpan, ...] | None,
) -> Steps:
    """The versions that the base does not have. No path and a base in another chain: all of the side's own versions."""
    if path is None:
        first = base.version
        if base.branch != side.branch:
            first = min(versions.version_numbers(there[1], side.branch), default=0)
        path = (VersionSpan(side.branch, first, side.version),)
    found = [(span, tuple(_steps_of(*there, span))) for span in path]
    steps = tuple(step for _, several in found for step in several)
    complete = sum(max(0, span.until - span.after) for span in path) == len(steps)
    lost = () if complete else tuple(version for span, several in found for version in _lost(there[1], span, several))
    return Steps(side.branch, steps, complete and not any(step.unsure for step in steps), lost)


def _lost(location: DatasetLocation, span: VersionSpan, found: Iterable[Step]) -> tuple[int, ...]:
    """The versions of a span that are gone and brought rows that the other side may have."""
    gone = {*range(span.after + 1, span.until + 1)}.difference(step.version for step in found)
    return brought_versions(location, span.branch, gone)


def _steps_of(reader: versions.VersionCache, location: DatasetLocation, span: VersionSpan) -> Iterable[Step]:
    numbers = reader.versions(location, span.branch, span.after, span.until)
    for version, transaction in reader.transactions(location, span.branch, numbers).items():
        if transaction is None:
            yield Step(version, "Unknown", branch=span.branch)
            continue
        properties, trace = transaction.properties, format_versions.read_trace(transaction.properties)
        if trace is not None and trace.action == format_versions.BEGIN:
            yield Step(version, _ANEW, branch=span.branch, unsure=True)
            continue
        reordered = properties.get(format_versions.REORDERED) == "true"
        brings = trace is not None and trace.action in format_versions.BRINGING
        yield Step(
            version,
            transaction.operation,
            reordered or _told(properties, format_versions.MOVED),
            brings=transaction.operation == "Restore" or brings or properties.get(format_versions.BRINGS) == "true",
            adds_only=properties.get(format_versions.ADDS_ONLY) == "true",
            replaced=_told(properties, format_versions.REPLACES),
            rewrites=tuple(_rewrites(reader, location, PinnedVersion(span.branch, version), transaction)),
            reordered=reordered,
            fields=_fields(reader, location, PinnedVersion(span.branch, version), transaction),
            branch=span.branch,
            appended=transaction.appended,
            computed=format_versions.read_computed(properties),
            renames=_renames(reader, location, PinnedVersion(span.branch, version), transaction),
        )


def _fields(
    reader: versions.VersionCache, location: DatasetLocation, pin: PinnedVersion, transaction: Transaction
) -> frozenset[int] | None:
    if transaction.operation in KEEPS_COLUMNS or not reader.has(location, pin):
        return None
    return frozenset(entry.id for entry in reader.contents(location, pin).fields)


def _renames(
    reader: versions.VersionCache, location: DatasetLocation, pin: PinnedVersion, transaction: Transaction
) -> tuple[tuple[str, str | None], ...] | None:
    before = PinnedVersion(pin.branch, pin.version - 1)
    if transaction.operation != "Project" or not (reader.has(location, pin) and reader.has(location, before)):
        return None
    old, new = (
        {entry.id: entry.name for entry in reader.contents(location, each).fields if entry.parent_id < 0}
        for each in (before, pin)
    )
    return tuple((name, new.get(key)) for key, name in old.items() if new.get(key) != name)


def _rewrites(
    reader: versions.VersionCache, location: DatasetLocation, pin: PinnedVersion, transaction: Transaction
) -> Iterator[row_ids.Rewrite]:
    """The compactions of a version: its own, and those it took over."""
    yield from row_ids.read_rewrites(transaction.properties)
    snapshot = None
    for group in transaction.rewritten:
        places = {}
        for fragment in (*group.before, *group.after):
            key, deletion = row_ids.deletion_key(fragment), fragment.deletion
            if key is None or deletion is None:
                continue
            if deletion.base_id is None:
                places[key] = format_versions.Deletions(location.branch_uri(pin.branch), deletion.path_for(fragment.id))
                continue
            snapshot = snapshot or reader.snapshot(location, pin)
            place = snapshot.deletions_of(fragment)
            if place is not None:
                places[key] = place
        yield row_ids.Rewrite(group.before, group.after, places)


def _told(properties: Mapping[str, str], key: str) -> bool | None:
    """What a commit of this package records about itself; None if it records nothing."""
    return None if key not in properties else properties[key] == "true"
