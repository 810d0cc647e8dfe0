"""What versions did since a base: read from their transactions, and from records of versions that are gone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.format import row_ids
from lance_spark.format import versions as format_versions
from lance_spark.format.operations import KEEPS_COLUMNS, Step, Steps, VersionSpan
from lance_spark.format.transactions import UNKNOWN, Transaction
from lance_spark.storage import versions
from lance_spark.storage.brought import Records, renames

_ANEW = "Begin"
"""From this step on, a version of another dataset is copied. What led to that version is unknown."""
_TOLD_BESIDE = frozenset({"Project", UNKNOWN})
"""Operations of versions that exist, but whose effect on columns goes with the version before, or with a file."""


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
    found = [_Told(*there, span) for span in path]
    steps = tuple(step for told in found for step in told.steps)
    complete = not any(told.gone for told in found)
    lost = tuple(version for told in found for version in told.lost)
    recalled = _joined([told.on_columns for told in found])
    if any(step.unsure for step in steps):
        complete, recalled = False, None
    return Steps(side.branch, steps, complete, lost, recalled=recalled)


def _joined(several: Iterable[tuple[Step, ...] | None]) -> tuple[Step, ...] | None:
    found = [*several]
    return None if None in found else tuple(chain.from_iterable(steps or () for steps in found))


@dataclass(frozen=True)
class _Told:
    """What the versions of a span tell, and records beside them of those that are gone."""

    reader: versions.VersionCache
    location: DatasetLocation
    span: VersionSpan

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        return tuple(_steps_of(self.reader, self.location, self.span))

    @cached_property
    def gone(self) -> frozenset[int]:
        there = {step.version for step in self.steps}
        return frozenset(range(self.span.after + 1, self.span.until + 1)) - there

    @cached_property
    def _records(self) -> Records:
        return Records.of(self.location, self.span.branch)

    @property
    def lost(self) -> tuple[int, ...]:
        """The versions that are gone and brought rows that the other side may have."""
        return self._records.brought(self.gone) if self.gone else ()

    @property
    def on_columns(self) -> tuple[Step, ...] | None:
        """What each version did to columns; None if that is unknown of one that is gone."""
        silent = {step.version for step in self.steps if step.is_silent and step.operation in _TOLD_BESIDE}
        if not self.gone and not silent:
            return self.steps
        record = self._records.columns()
        told = record.of(self.gone.union(filter(record.covers, silent)), self.span.after, self.span.until)
        if told is None:
            return None
        known = [Step(each.last, UNKNOWN, computed=each.computed, renames=each.renames) for each in told]
        again = {step.version for step in known}
        known += (step for step in self.steps if step.version not in again)
        return tuple(sorted(known, key=lambda step: step.version))


def _steps_of(reader: versions.VersionCache, location: DatasetLocation, span: VersionSpan) -> Iterable[Step]:
    numbers = reader.versions(location, span.branch, span.after, span.until)
    for version, transaction in reader.transactions(location, span.branch, numbers).items():
        if transaction is None:
            yield Step(version, UNKNOWN, branch=span.branch)
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
            renames=renames(reader, location, PinnedVersion(span.branch, version), transaction),
        )


def _fields(
    reader: versions.VersionCache, location: DatasetLocation, pin: PinnedVersion, transaction: Transaction
) -> frozenset[int] | None:
    if transaction.operation in KEEPS_COLUMNS or not reader.has(location, pin):
        return None
    return frozenset(entry.id for entry in reader.contents(location, pin).fields)


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
