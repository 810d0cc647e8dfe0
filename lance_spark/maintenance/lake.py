"""Maintains what belongs to a whole lake: publishes that died, remains of audits, branches of the lake that expire.

Errors are in the results: none of them keeps the tables from being maintained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from lance_spark.catalog.lake import delete_ref, list_refs
from lance_spark.catalog.lake_rules import BRANCH, LakeRef
from lance_spark.catalog.leftovers import DEFAULT_AGE, find_leftovers, remove_leftover
from lance_spark.catalog.name_rules import Catalog
from lance_spark.cleanup.report import Upkeep
from lance_spark.cleanup.retention_rules import CleanupPolicy
from lance_spark.core.lifetimes import with_warning
from lance_spark.core.records.reflog import DEFAULT_UNDO_WINDOW
from lance_spark.core.texts import moment_at
from lance_spark.engine.local import Engine
from lance_spark.errors import LanceSparkError, NotFound, Refused
from lance_spark.lake.audit import leftovers as audits
from lance_spark.lake.audit import sweep
from lance_spark.lake.deleted import forget_old
from lance_spark.lake.diff import diff
from lance_spark.lake.publish import latest, read_branch, recover
from lance_spark.maintenance import expiry_rules
from lance_spark.maintenance.expiry_rules import EXPIRED, UNMERGED, WARN, ExpiryEntry, ExpiryOptions, RefRecord
from lance_spark.storage import refs
from lance_spark.storage.datasets import find_latest
from lance_spark.storage.files import each

PUBLISH, AUDIT, LAKE_BRANCH, LEFTOVER = "publish", "audit", "lake branch", "leftover"
"""Kinds of results."""


def end_publish(catalog: Catalog, engine: Engine, execute: bool) -> list[Upkeep]:
    """End a publish whose process died: all its tables get the changes, or none."""

    def end() -> list[Upkeep]:
        if execute:
            done = recover(catalog, engine)
            ended = "" if done is None else f"its process died; {done.outcome.outcome} now"
            return [] if done is None else [Upkeep(PUBLISH, done.journal.branch, "done", what=ended)]
        found = [journal for journal, outcome in latest(catalog, 1) if outcome is None]
        return [Upkeep(PUBLISH, journal.branch, "would", what="unfinished; to be ended") for journal in found]

    return _or_why(PUBLISH, end) if catalog.has_journal else []


@dataclass(frozen=True)
class Windows:
    """How long what is left behind stays."""

    undo: timedelta = DEFAULT_UNDO_WINDOW
    """What is kept of deleted branches and tags."""
    unfinished: timedelta = DEFAULT_AGE
    """What belongs to a process that may go on."""

    @classmethod
    def of(cls, expiry: ExpiryOptions, cleanup: CleanupPolicy) -> Windows:
        """Those of a policy: a shorter age for files that no version names counts here, too."""
        age = timedelta(0) if cleanup.delete_unverified else cleanup.unverified_age
        return cls(expiry.undo_window, min(age, DEFAULT_AGE))


def remove_leftovers(catalog: Catalog, now: datetime, execute: bool, windows: Windows = Windows()) -> list[Upkeep]:
    """Remove what killed processes left behind, and what is kept of branches and tags that were deleted long ago."""
    state: Literal["done", "would"] = "done" if execute else "would"

    def remove() -> list[Upkeep]:
        names = (sweep if execute else audits)(catalog, now, windows.unfinished)
        return [Upkeep(AUDIT, name, state, what="its process died") for name in names]

    def forget() -> list[Upkeep]:
        names = forget_old(catalog, now, execute, windows.undo)
        return [Upkeep(LAKE_BRANCH, name, state, what="was deleted; its rows are removed for good") for name in names]

    def tidy() -> list[Upkeep]:
        found = [each for each in find_leftovers(catalog, now, windows.unfinished) if each.sure]
        gone = [each for each in found if not execute or remove_leftover(catalog, each)]
        what = "no ref names it: the process that made or deleted it died"
        return [Upkeep(LEFTOVER, each.place, state, each.files, each.bytes, what=what) for each in gone]

    if not catalog.has_manifest:
        return _or_why(LEFTOVER, tidy) if catalog.has_journal else []
    return _or_why(AUDIT, remove) + _or_why(LAKE_BRANCH, forget) + _or_why(LEFTOVER, tidy)


def expire_branches(
    catalog: Catalog, now: datetime, options: ExpiryOptions, execute: bool
) -> tuple[list[Upkeep], list[str]]:
    """Warn of and delete branches of the lake that expired, as branches of tables; returns notes on those that stay.

    A branch counts as changed with its last change of any table. One with changes that main lacks stays, unless forced.
    """
    if not catalog.has_manifest:
        return [], []
    notes: list[str] = []

    def expire() -> list[Upkeep]:
        entries = _decide(catalog, list_refs(catalog, BRANCH), now, options)
        stay = [entry for entry in entries if entry.state in (UNMERGED, expiry_rules.PROTECTED)]
        notes.extend(f"branch {entry.record.name} of the lake expired but stays: {entry.why}" for entry in stay)
        due = [entry for entry in entries if entry.state in (EXPIRED, WARN)]
        return [_expired(catalog, entry, now, options) if execute else _to_expire(entry) for entry in due]

    return _or_why(LAKE_BRANCH, expire), notes


def _or_why(kind: str, work: Callable[[], list[Upkeep]]) -> list[Upkeep]:
    try:
        return work()
    except LanceSparkError as problem:
        return [Upkeep(kind, "of the lake", "failed", error=problem.message, exit_code=problem.exit_code)]


def _to_expire(entry: ExpiryEntry) -> Upkeep:
    return Upkeep(LAKE_BRANCH, entry.record.name, "would", what=entry.state)


def _expired(catalog: Catalog, planned: ExpiryEntry, now: datetime, options: ExpiryOptions) -> Upkeep:
    """Carry out a decision, if it would be the same now."""
    name = planned.record.name
    try:
        known = [ref for ref in list_refs(catalog, BRANCH) if ref.name == name]
        if _decide(catalog, known, now, options) != (planned,):
            return Upkeep(LAKE_BRANCH, name, "done", what="stays: it was changed since the plan")
        if planned.state == WARN:
            metadata = refs.read_metadata(catalog.manifest, name) or {}
            refs.replace_metadata(catalog.manifest, name, with_warning(metadata, expiry_rules.warning(planned, now)))
            return Upkeep(LAKE_BRANCH, name, "done", what=expiry_rules.TOLD)
        delete_ref(catalog, BRANCH, name)
    except (Refused, NotFound) as problem:
        return Upkeep(LAKE_BRANCH, name, "done", what=f"stays: {problem.message}")
    return Upkeep(LAKE_BRANCH, name, "done", what="expired, deleted")


def _decide(
    catalog: Catalog, known: Iterable[LakeRef], now: datetime, options: ExpiryOptions
) -> tuple[ExpiryEntry, ...]:
    found = each(catalog.root, lambda ref: _record(catalog, ref), [ref for ref in known if ref.ready])
    records = [record for record in found if record is not None]
    due = [record.name for record in records if expiry_rules.is_due(record, now, options)]
    unmerged = {name: why for name in due if (why := _unmerged(catalog, name))}
    return expiry_rules.decide_each(records, unmerged, now, options)


def _record(catalog: Catalog, ref: LakeRef) -> RefRecord | None:
    """A branch with its last change; None if it is gone."""
    branch = refs.read_branch(catalog.manifest, ref.branch)
    if branch is None:
        return None
    moment = branch.created_at
    if branch.lifetime.expire_after is not None:
        rows = read_branch(catalog, ref.name).rows
        places = [(row.location or "", row.pin.branch) for row in rows if row.pin is not None and row.pin.branch]
        heads = [find_latest(catalog.manifest, ref.branch)]
        heads += each(catalog.root, lambda place: find_latest(catalog.at(place[0]), place[1]), places)
        stamps = [head.stamp for head in heads if head is not None and head.stamp is not None]
        moment = max([moment, *map(moment_at, stamps)])
    return RefRecord(expiry_rules.BRANCH, ref.name, moment=moment, lifetime=branch.lifetime, identity=ref.id)


def _unmerged(catalog: Catalog, name: str) -> str:
    """Why main lacks, or may lack, changes of a branch; "" if it has all."""
    try:
        changes = len(diff(catalog, name).changes)
    except LanceSparkError as problem:
        return f"main may lack its changes: {problem.message}"
    return f"{changes} of its changes are not in main" if changes else ""
