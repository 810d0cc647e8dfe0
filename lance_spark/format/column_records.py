"""What versions that a cleanup removes did to columns: what they computed from what, and how they named it. Pure.

A merge keeps a computed value only if it knows what the value was computed from, and the transactions that say so go
with their versions. A record says it instead, for every version that it covers: silence would be taken for "nothing".
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import NamedTuple

from lance_spark.core.records.stored_json import UNREADABLE, decode_json, read_as
from lance_spark.format.operations import WRITES_COLUMNS
from lance_spark.format.transactions import Transaction
from lance_spark.format.versions import Reads, read_computed

Renames = tuple[tuple[str, str | None], ...]
"""(Name before, name after; None for a dropped column)."""
MOST_STEPS = 256
"""Beyond twice this many, the oldest steps are told together."""


class ColumnStep(NamedTuple):
    """What a version did to columns, or several in a row."""

    first: int
    last: int
    computed: Reads | None = None
    """None if a version does not record it."""
    renames: Renames | None = None


class ColumnRecord(NamedTuple):
    covered: tuple[tuple[int, int], ...] = ()
    """(First, last) of the versions that it knows, ascending."""
    steps: tuple[ColumnStep, ...] = ()
    """Ascending. A covered version without a step did nothing to columns."""

    def covers(self, version: int) -> bool:
        return any(first <= version <= last for first, last in self.covered)

    def of(self, versions: Collection[int], after: int, until: int) -> tuple[ColumnStep, ...] | None:
        """The steps of versions; None if it does not know all of them, or tells some with others than of a span."""
        if not all(map(self.covers, versions)):
            return None
        found = tuple(step for step in self.steps if any(step.first <= version <= step.last for version in versions))
        return found if all(after < step.first and step.last <= until for step in found) else None

    def above(self, version: int) -> ColumnRecord:
        """Without the versions up to one: no merge compares with what was before them."""
        covered = tuple((max(first, version + 1), last) for first, last in self.covered if last > version)
        return ColumnRecord(covered, tuple(step for step in self.steps if step.last > version))


def step_of(version: int, transaction: Transaction | None, renames: Renames | None) -> ColumnStep | None:
    """What a version did to columns; None if it did nothing."""
    computed = None if transaction is None else read_computed(transaction.properties)
    if computed is None and renames is None and transaction is not None:
        return ColumnStep(version, version) if transaction.operation in WRITES_COLUMNS else None
    return ColumnStep(version, version, computed, renames)


def record_of(versions: Iterable[int], steps: Iterable[ColumnStep]) -> ColumnRecord:
    """A record of versions, with what they did to columns."""
    return ColumnRecord(_spans((version, version) for version in versions), tuple(sorted(steps, key=_place)))


def joined(records: Iterable[ColumnRecord]) -> ColumnRecord:
    """All of several records. What two say of one version is the same, but one may tell it with others."""
    several = [*records]
    steps = {step for record in several for step in record.steps}
    spans = _spans(span for record in several for span in record.covered)
    return _bounded(ColumnRecord(spans, tuple(sorted(steps, key=_place))))


def _place(step: ColumnStep) -> tuple[int, int]:
    return step.first, step.last


def _spans(spans: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    found: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(found[-1][1], last)
        else:
            found.append((first, last))
    return tuple(found)


def _bounded(record: ColumnRecord) -> ColumnRecord:
    """With the oldest steps told together where there are many: a column that is filled each hour is one step then."""
    if len(record.steps) <= 2 * MOST_STEPS:
        return record
    old, new = record.steps[:-MOST_STEPS], record.steps[-MOST_STEPS:]
    found = [old[0]]
    for step in old[1:]:
        if step.renames is None and found[-1].renames is None and _without_gap(record, found[-1], step):
            found[-1] = _together(found[-1], step)
        else:
            found.append(step)
    return record._replace(steps=(*found, *new))


def _without_gap(record: ColumnRecord, before: ColumnStep, step: ColumnStep) -> bool:
    return any(first <= before.first and step.last <= last for first, last in record.covered)


def _together(one: ColumnStep, other: ColumnStep) -> ColumnStep:
    span = one._replace(last=max(one.last, other.last))
    if one.computed is None or other.computed is None:
        return span._replace(computed=None)
    reads: dict[str, tuple[str, ...] | None] = dict(one.computed)
    for name, read in other.computed:
        known = reads.get(name, ())
        reads[name] = None if read is None or known is None else tuple(sorted({*known, *read}))
    return span._replace(computed=tuple(reads.items()))


def encode_record(record: ColumnRecord) -> bytes:
    return json.dumps(record._asdict()).encode()


def decode_record(content: bytes | None) -> ColumnRecord:
    """An unreadable record covers nothing."""
    try:
        return read_as(ColumnRecord, decode_json(content or b"{}"))
    except UNREADABLE:
        return ColumnRecord()
