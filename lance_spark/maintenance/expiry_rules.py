"""Decides which branches and tags expire, from what is known about them and the time. Pure.

A ref is deleted in two steps. The first run that finds its end approaching writes a warning into the ref itself. A
later run deletes it, once both the end and the warning period are over. A branch with a new version, a moved tag, and a
ref with a new ``expire_after`` have a new end without a warning, so they start over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from typing import Any

from lance_spark.core.declared import option
from lance_spark.core.lifetimes import Lifetime, Warned
from lance_spark.core.records.reflog import DEFAULT_UNDO_WINDOW, RefChange, is_wanted, kept_branches
from lance_spark.core.ref_names import is_lake_tag, is_own_tag, is_stream_tag, lake_branch_of
from lance_spark.core.refs import RefTable
from lance_spark.core.show import Card, Grid, Report
from lance_spark.core.texts import counted, from_span, moment, to_span
from lance_spark.errors import CorruptData, Refused
from lance_spark.refs.ref_rules import check_delete_branch, frozen_set_of


def is_due(record: RefRecord, now: datetime, options: ExpiryOptions) -> bool:
    """Whether the end of a ref is close enough to examine the ref in detail."""
    end = record.expires_at
    return end is not None and now >= _before(end, options.warn)


def decide(
    records: Sequence[RefRecord],
    table: RefTable,
    unmerged: Mapping[str, str],
    now: datetime,
    options: ExpiryOptions,
) -> tuple[ExpiryEntry, ...]:
    """Decide about each ref; expired ones come last, in the order in which they can be deleted.

    ``table`` has all refs of the dataset. ``unmerged`` gives, by branch name, a text for each due branch with changes
    that are, or may be, nowhere else. A branch that another ref needs stays, unless that ref is also deleted.
    """
    frozen = {name: of for name in table.tags if (of := frozen_set_of(table, name)) is not None}
    alone = [_unless_frozen(_alone(record, unmerged, now, options), frozen) for record in records]
    stay = [entry for entry in alone if entry.state != EXPIRED]
    tags = [entry for entry in alone if entry.state == EXPIRED and entry.record.kind == TAG]
    gone = {entry.record.name for entry in tags}
    left = RefTable(table.branches, {name: tag for name, tag in table.tags.items() if name not in gone})
    branches = [entry for entry in alone if entry.state == EXPIRED and entry.record.kind == BRANCH]
    ordered, needed = _in_order(branches, left)
    return (*stay, *needed, *tags, *ordered)


def decide_each(
    records: Iterable[RefRecord], unmerged: Mapping[str, str], now: datetime, options: ExpiryOptions
) -> tuple[ExpiryEntry, ...]:
    """Decide about refs that do not need one another, such as the branches of a whole lake."""
    return tuple(_alone(record, unmerged, now, options) for record in records)


def without_lake_refs(entries: Iterable[ExpiryEntry]) -> tuple[ExpiryEntry, ...]:
    """The decisions for a catalog's own table: its branches are refs of the lake, which expire with their tables."""
    due = (WARN, WARNED, EXPIRED, UNMERGED)
    why = "it is a ref of the whole lake: the maintenance of the catalog deletes it, with what it pins"
    return tuple(
        replace(entry, state=NEEDED, why=why) if entry.record.kind == BRANCH and entry.state in due else entry
        for entry in entries
    )


def decide_deleted(
    changes: Iterable[RefChange], table: RefTable, now: datetime, window: timedelta
) -> tuple[ExpiryEntry, ...]:
    """Decide about the files of deleted branches; branches made from others come first.

    ``table`` has all refs of the dataset. A branch in it does not count as deleted, even if its deletion was
    interrupted or refused.
    """
    kept, now_ns = kept_branches(changes, table.branches), int(now.timestamp() * 1e6) * 1000
    tagged = {tag.branch: name for name, tag in table.tags.items()}
    entries = []
    for change in sorted(kept, key=lambda change: change.name, reverse=True):
        record = RefRecord(DELETED_BRANCH, change.name, change.was, change.at, Lifetime(window), change.id)
        if change.keeps(now_ns, window):
            entries.append(ExpiryEntry(record, KEPT, "it can be restored until then"))
        elif is_wanted(change, kept, now_ns, window):
            entries.append(ExpiryEntry(record, NEEDED, "a deleted branch that was created from it can be restored"))
        elif change.name in tagged:
            entries.append(ExpiryEntry(record, NEEDED, f"tag '{tagged[change.name]}' is on it"))
        else:
            entries.append(ExpiryEntry(record, EXPIRED))
    return tuple(entries)


def _in_order(branches: list[ExpiryEntry], left: RefTable) -> tuple[list[ExpiryEntry], list[ExpiryEntry]]:
    """Branches that can be deleted, children first; and branches that something needs, with the reason."""
    ordered: list[ExpiryEntry] = []
    while True:
        needed = []
        for entry in branches:
            try:
                check_delete_branch(left, entry.record.name)
            except Refused as problem:
                needed.append(replace(entry, state=NEEDED, why=problem.message))
                continue
            others = {name: branch for name, branch in left.branches.items() if name != entry.record.name}
            left = RefTable(others, left.tags)
            ordered.append(entry)
        if len(needed) == len(branches):
            return ordered, needed
        waiting = {entry.key for entry in needed}
        branches = [entry for entry in branches if entry.key in waiting]


def _unless_frozen(entry: ExpiryEntry, frozen: Mapping[str, str]) -> ExpiryEntry:
    """The entry of a ref; a tag of a frozen set, named by ``frozen``, is needed at any age."""
    name = entry.record.name
    if entry.record.kind != TAG or name not in frozen or entry.state in (KEPT, UNKNOWN):
        return entry
    return replace(entry, state=NEEDED, why=f"it belongs to the frozen set '{frozen[name]}'")


def _needing(record: RefRecord) -> str:
    """The purpose of a ref that this package made; "" for all other refs."""
    lake_branch = lake_branch_of(record.name) if record.kind == BRANCH else None
    if lake_branch is not None:
        return f"it has the changes that branch '{lake_branch}' of the whole lake made"
    if record.kind == TAG and is_own_tag(record.name):
        return "it protects what a clone or another branch reads"
    if record.kind == TAG and is_lake_tag(record.name):
        return "a tag of the whole lake pins what it protects"
    if record.kind == TAG and is_stream_tag(record.name):
        return "a streaming query continues from it; delete it once the query is over"
    return ""


def _alone(record: RefRecord, unmerged: Mapping[str, str], now: datetime, options: ExpiryOptions) -> ExpiryEntry:
    """Decide about a ref, regardless of other refs that need it."""
    lifetime, end = record.lifetime, record.expires_at
    if "expire_after" in lifetime.unreadable:
        return ExpiryEntry(record, UNKNOWN, "its expire_after cannot be read")
    if lifetime.expire_after is None:
        return ExpiryEntry(record, KEPT)
    if end is None:
        return ExpiryEntry(record, UNKNOWN, "the time of its last change is unknown")
    if not is_due(record, now, options):
        return ExpiryEntry(record, KEPT)
    if needing := _needing(record):
        return ExpiryEntry(record, NEEDED, needing)
    if record.follows:
        return ExpiryEntry(record, NEEDED, f"it follows {record.follows}")
    if lifetime.protected:
        return ExpiryEntry(record, PROTECTED, "remove the protection first")
    why = unmerged.get(record.name, "") if record.kind == BRANCH and not options.force else ""
    warned = lifetime.warned
    if options.warn and (warned is None or warned.of != end):
        return ExpiryEntry(record, WARN, why)
    if now < max(end, end if warned is None or not options.warn else _after(warned.since, options.warn)):
        return ExpiryEntry(record, WARNED, why)
    return ExpiryEntry(record, UNMERGED if why else EXPIRED, why)


def warning(entry: ExpiryEntry, now: datetime) -> Warned:
    end = entry.record.expires_at
    if end is None:
        raise ValueError(f"{entry.record.name} has no end")
    return Warned(now, end)


def _before(when: datetime, span: timedelta) -> datetime:
    try:
        return when - span
    except OverflowError:
        return datetime.min.replace(tzinfo=timezone.utc)


def _after(when: datetime, span: timedelta) -> datetime:
    try:
        return when + span
    except OverflowError:
        return datetime.max.replace(tzinfo=timezone.utc)


# --- Plans and reports of an expiry, as values that can be stored

BRANCH, TAG, DELETED_BRANCH = "branch", "tag", "deleted branch"
"""Kinds. The files of a deleted branch are kept for a while, so that it can be restored."""
KEPT, WARN, WARNED, EXPIRED, UNMERGED, NEEDED, PROTECTED, UNKNOWN = (
    "kept",
    "to be warned of",
    "warned of",
    "expired",
    "unmerged",
    "needed",
    "protected",
    "not known",
)
"""States of refs. Only expired ones are deleted."""
DELETED, TOLD, STAYED = "deleted", "warned of", "stayed"
DEFAULT_WARN = timedelta(days=7)
_FORMAT = 1


@dataclass(frozen=True)
class ExpiryOptions:
    warn: timedelta = option(
        DEFAULT_WARN, "how long a warning stands before its ref is deleted; 0s deletes without a warning"
    )
    undo_window: timedelta = option(DEFAULT_UNDO_WINDOW, "how long the files of a deleted branch are kept")
    force: bool = option(False, "also delete branches with changes that are, or may be, nowhere else")


@dataclass(frozen=True)
class RefRecord:
    kind: str
    name: str
    at: str = ""
    """``branch@version``: a branch's newest version or the tagged one; "" if there is none."""
    moment: datetime | None = None
    """When it was last changed, in UTC: the commit of a branch's newest version, or the placement of the tag. None if
    unknown."""
    lifetime: Lifetime = field(default_factory=Lifetime)
    identity: str = ""
    """Tells a branch from a later one of the same name."""
    follows: str = ""
    """What the branch follows, as ``main of origin``; "" for the user's own branches."""

    @property
    def expires_at(self) -> datetime | None:
        """Its end; None if it has none or it is unknown."""
        if self.moment is None or self.lifetime.expire_after is None:
            return None
        try:
            return self.moment + self.lifetime.expire_after
        except OverflowError:
            return None


@dataclass(frozen=True)
class ExpiryEntry:
    record: RefRecord
    state: str
    why: str = ""

    @property
    def key(self) -> tuple[str, str]:
        return self.record.kind, self.record.name

    @property
    def row(self) -> tuple[str, ...]:
        """A table row: ref, version, expires, warned since, state, why."""
        end, warned = self.record.expires_at, self.record.lifetime.warned
        since = "" if warned is None or warned.of != end else moment(warned.since)
        return (
            f"{self.record.kind} {self.record.name}",
            self.record.at,
            moment(end) if end else "never",
            since,
            self.state,
            self.why,
        )


@dataclass(frozen=True, repr=False)
class ExpiryPlan(Report):
    """The decisions about all branches and tags of a dataset. It can be printed, stored and carried out."""

    dataset: str
    """URI."""
    now: datetime
    """The time that the ends were compared with, in UTC."""
    entries: tuple[ExpiryEntry, ...]
    options: ExpiryOptions = ExpiryOptions()

    def of(self, *states: str) -> tuple[ExpiryEntry, ...]:
        return tuple(entry for entry in self.entries if entry.state in states)

    @property
    def expired(self) -> tuple[ExpiryEntry, ...]:
        """The refs to delete, in an order in which they can be deleted."""
        return self.of(EXPIRED)

    @property
    def to_warn(self) -> tuple[ExpiryEntry, ...]:
        return self.of(WARN)

    def as_document(self) -> dict[str, Any]:
        """:func:`from_document` reads it."""
        return {
            "format": _FORMAT,
            "dataset": self.dataset,
            "now": self.now.isoformat(),
            "warn": from_span(self.options.warn),
            "undo_window": from_span(self.options.undo_window),
            "force": self.options.force,
            "refs": [_entry_document(entry) for entry in self.entries],
        }

    def grid(self, everything: bool = False) -> Grid:
        """The refs with an end as a table, or all refs."""
        rows = (entry.row for entry in self.entries if everything or entry.state != KEPT or entry.record.expires_at)
        return Grid(("ref", "at", "expires", "warned since", "state", "why"), tuple(rows))

    @property
    def summary(self) -> str:
        return _counts(entry.state for entry in self.entries) or "no branches and no tags"

    def _card(self) -> Card:
        return Card(type(self).__name__, self.dataset, self.summary, grids=(self.grid(),))


@dataclass(frozen=True)
class ExpiryOutcome:
    kind: str
    name: str
    at: str
    outcome: str
    why: str = ""
    """Why it stayed."""


@dataclass(frozen=True, repr=False)
class ExpiryReport(Report):
    plan: ExpiryPlan
    outcomes: tuple[ExpiryOutcome, ...]
    """For the refs that were to be deleted or warned about."""

    def of(self, outcome: str) -> tuple[ExpiryOutcome, ...]:
        return tuple(each for each in self.outcomes if each.outcome == outcome)

    @property
    def complete(self) -> bool:
        return not self.of(STAYED)

    def as_document(self) -> dict[str, Any]:
        return {**self.plan.as_document(), "outcomes": [dict(vars(outcome)) for outcome in self.outcomes]}

    @property
    def summary(self) -> str:
        return _counts(each.outcome for each in self.outcomes) or "nothing to do"

    def _card(self) -> Card:
        rows = ((f"{each.kind} {each.name}", each.at, each.outcome, each.why) for each in self.outcomes)
        done = {(each.kind, each.name) for each in self.outcomes}
        others = replace(self.plan, entries=tuple(entry for entry in self.plan.entries if entry.key not in done))
        grids = (Grid(("ref", "at", "outcome", "why"), tuple(rows)), others.grid())
        return Card(type(self).__name__, self.plan.dataset, self.summary, grids=grids)


def from_document(document: Mapping[str, Any]) -> ExpiryPlan:
    """Parse a stored plan. Raises CorruptData."""
    try:
        if document["format"] != _FORMAT:
            raise ValueError(f"it has format {document['format']}, not {_FORMAT}")
        return ExpiryPlan(
            dataset=str(document["dataset"]),
            now=_time(document["now"]),
            entries=tuple(_read_entry(entry) for entry in document["refs"]),
            options=ExpiryOptions(
                to_span("warn", document["warn"]),
                to_span("undo_window", document["undo_window"]),
                bool(document["force"]),
            ),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise CorruptData(f"The expiry plan cannot be read: {problem}.", hint="Make the plan again.") from None


def _entry_document(entry: ExpiryEntry) -> dict[str, Any]:
    record = entry.record
    warned, end = record.lifetime.warned, record.expires_at
    return {
        "kind": record.kind,
        "name": record.name,
        "at": record.at,
        "changed": None if record.moment is None else record.moment.isoformat(),
        "expires": None if end is None else end.isoformat(),
        "state": entry.state,
        "why": entry.why,
        **record.lifetime.as_record(),
        "warned": None if warned is None else str(warned),
        "unreadable": list(record.lifetime.unreadable),
        "identity": record.identity,
        "follows": record.follows,
    }


def _read_entry(entry: Mapping[str, Any]) -> ExpiryEntry:
    span, warned = entry["expire_after"], entry["warned"]
    lifetime = Lifetime(
        expire_after=None if span is None else to_span("expire_after", span),
        retain_versions=entry["retain_versions"],
        owner=entry["owner"],
        protected=bool(entry["protected"]),
        warned=None if warned is None else Warned(*map(_time, warned.split())),
        unreadable=tuple(entry["unreadable"]),
    )
    changed = None if entry["changed"] is None else _time(entry["changed"])
    record = RefRecord(
        entry["kind"], entry["name"], entry["at"], changed, lifetime, entry["identity"], entry["follows"]
    )
    return ExpiryEntry(record, entry["state"], entry["why"])


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(timezone.utc)


def _counts(words: Iterable[str]) -> str:
    return ", ".join(f"{counted(number, 'ref')} {word}" for word, number in Counter(words).items())
