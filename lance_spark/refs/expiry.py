"""Which branches and tags have come to their end: a decision over what is known of them and the time. Pure.

A ref goes in two steps. The first run that sees its end coming writes a warning down, in the ref itself. A later run
deletes it, once the end and the warning period are both over. A branch that got a new version meanwhile, a tag that was
moved, and a ref with another ``expire_after`` end at another time, which nobody was warned of: they begin again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone

from lance_spark.errors import Refused
from lance_spark.refs.edit import check_delete_branch, frozen_set_of
from lance_spark.refs.expiry_plan import (
    BRANCH,
    DELETED_BRANCH,
    EXPIRED,
    KEPT,
    NEEDED,
    PROTECTED,
    TAG,
    UNKNOWN,
    UNMERGED,
    WARN,
    WARNED,
    ExpiryEntry,
    ExpiryOptions,
    RefRecord,
)
from lance_spark.refs.lifetime import Lifetime, Warned
from lance_spark.refs.model import RefTable
from lance_spark.refs.names import is_own_tag, is_stream_tag
from lance_spark.refs.reflog import RefChange, is_wanted, kept_branches


def is_due(record: RefRecord, now: datetime, options: ExpiryOptions) -> bool:
    """Whether the end of a ref is so near that more must be known of it."""
    end = record.expires_at
    return end is not None and now >= _before(end, options.warn)


def decide(
    records: Sequence[RefRecord],
    table: RefTable,
    unmerged: Mapping[str, str],
    now: datetime,
    options: ExpiryOptions,
) -> tuple[ExpiryEntry, ...]:
    """What becomes of each ref; expired ones come last, in the order in which they can be deleted.

    ``table`` has all refs of the dataset. ``unmerged`` says, by the branch's name, which branches that are due have
    changes that nothing else has, or that this is not known, in words. A branch that another ref needs stays, unless
    that ref goes as well.
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


def decide_deleted(
    changes: Iterable[RefChange], table: RefTable, now: datetime, window: timedelta
) -> tuple[ExpiryEntry, ...]:
    """What becomes of the files of branches that were deleted, those of branches made from others first.

    ``table`` has all refs of the dataset. A branch in it is none of them, even if a process that was about to delete it
    was killed or refused.
    """
    kept, now_ns = kept_branches(changes, table.branches), int(now.timestamp() * 1e6) * 1000
    tagged = {tag.branch: name for name, tag in table.tags.items()}
    entries = []
    for change in sorted(kept, key=lambda change: change.name, reverse=True):
        record = RefRecord(DELETED_BRANCH, change.name, change.was, change.at, Lifetime(window), change.id)
        if change.keeps(now_ns, window):
            entries.append(ExpiryEntry(record, KEPT, "it can be restored until then"))
        elif is_wanted(change, kept, now_ns, window):
            entries.append(ExpiryEntry(record, NEEDED, "a deleted branch that was made from it can be restored"))
        elif change.name in tagged:
            entries.append(ExpiryEntry(record, NEEDED, f"tag '{tagged[change.name]}' is on it"))
        else:
            entries.append(ExpiryEntry(record, EXPIRED))
    return tuple(entries)


def _in_order(branches: list[ExpiryEntry], left: RefTable) -> tuple[list[ExpiryEntry], list[ExpiryEntry]]:
    """Branches that can go, children first; and those that something needs, with what it is."""
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
    """The entry of a ref; a tag of a frozen set, named by ``frozen``, is needed however old it is."""
    name = entry.record.name
    if entry.record.kind != TAG or name not in frozen or entry.state in (KEPT, UNKNOWN):
        return entry
    return replace(entry, state=NEEDED, why=f"it belongs to the frozen set '{frozen[name]}'")


def _needing(record: RefRecord) -> str:
    """What a tag that this package made is for; "" for all other refs."""
    if record.kind == TAG and is_own_tag(record.name):
        return "it protects what a clone or another branch reads"
    if record.kind == TAG and is_stream_tag(record.name):
        return "a streaming query goes on from it; delete it once the query is over"
    return ""


def _alone(record: RefRecord, unmerged: Mapping[str, str], now: datetime, options: ExpiryOptions) -> ExpiryEntry:
    """What becomes of a ref, as far as no other ref needs it."""
    lifetime, end = record.lifetime, record.expires_at
    if "expire_after" in lifetime.unreadable:
        return ExpiryEntry(record, UNKNOWN, "its expire_after cannot be understood")
    if lifetime.expire_after is None:
        return ExpiryEntry(record, KEPT)
    if end is None:
        return ExpiryEntry(record, UNKNOWN, "nothing says when it was last changed")
    if not is_due(record, now, options):
        return ExpiryEntry(record, KEPT)
    if needing := _needing(record):
        return ExpiryEntry(record, NEEDED, needing)
    if record.follows:
        return ExpiryEntry(record, NEEDED, f"it follows {record.follows}")
    if lifetime.protected:
        return ExpiryEntry(record, PROTECTED, "the protection has to go first")
    why = unmerged.get(record.name, "") if record.kind == BRANCH and not options.force else ""
    warned = lifetime.warned
    if options.warn and (warned is None or warned.of != end):
        return ExpiryEntry(record, WARN, why)
    if now < max(end, end if warned is None or not options.warn else _after(warned.since, options.warn)):
        return ExpiryEntry(record, WARNED, why)
    return ExpiryEntry(record, UNMERGED if why else EXPIRED, why)


def warning(entry: ExpiryEntry, now: datetime) -> Warned:
    """What is written into a ref that is to be warned of."""
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
