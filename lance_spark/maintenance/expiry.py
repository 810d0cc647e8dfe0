"""Expires branches and tags: look, decide, look again, and only then warn or delete."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import partial

from lance_spark.core.lifetimes import with_warning
from lance_spark.core.location import DatasetLocation
from lance_spark.core.records.tracking import read_follows
from lance_spark.core.refs import MAIN, Branch, PinnedVersion, RefTable, Tag
from lance_spark.core.texts import moment_at
from lance_spark.core.words import ASKED_OF_PLANS, OF_PLANS
from lance_spark.errors import Conflict, CorruptData, InvalidOption, NotFound, Refused
from lance_spark.format.versions import RESTORE, REVERT, read_trace
from lance_spark.maintenance import expiry_rules
from lance_spark.maintenance.expiry_rules import ExpiryEntry, ExpiryOutcome, ExpiryPlan, ExpiryReport, RefRecord
from lance_spark.merge.ancestry import Graph
from lance_spark.refs.ref_rules import check_delete_branch, is_catalog_table
from lance_spark.refs.reflog import forget_branch, prune
from lance_spark.refs.refs import check_unneeded, delete_tag
from lance_spark.storage import refs
from lance_spark.storage.datasets import find_latest, pin_latest
from lance_spark.storage.files import each
from lance_spark.storage.refs import drop_branch, read_change, read_changes
from lance_spark.storage.versions import version_numbers
from lance_spark.workspace.status import changes_since

_CHANGED = "it was changed since the plan"


def plan_expiry(
    location: DatasetLocation, now: datetime, options: expiry_rules.ExpiryOptions | None = None
) -> ExpiryPlan:
    """Decide about all branches and tags by a given time (UTC). Changes and records nothing.

    Raises NotFound, CorruptData for an unreadable ref file, StorageFailure.
    """
    options = options or expiry_rules.ExpiryOptions()
    table = refs.read_refs(location)
    ending = [branch.name for branch in table.branches.values() if branch.lifetime.expire_after is not None]
    heads = dict(zip(ending, each(location, partial(find_latest, location), ending), strict=True))
    records = [_of_branch(branch, heads.get(branch.name)) for _, branch in sorted(table.branches.items())]
    records += [_of_tag(tag) for _, tag in sorted(table.tags.items())]
    branches = [record for record in records if record.kind == expiry_rules.BRANCH]
    due = [record.name for record in branches if expiry_rules.is_due(record, now, options)]
    unmerged = _unmerged(location, table, due)
    entries = expiry_rules.decide(records, table, unmerged, now, options)
    if is_catalog_table(location.uri):
        entries = expiry_rules.without_lake_refs(entries)
    deleted = expiry_rules.decide_deleted(read_changes(location), table, now, options.undo_window)
    return ExpiryPlan(location.uri, now, (*entries, *deleted), options)


@dataclass(frozen=True, repr=False)
class RefExpiryPlan(ExpiryPlan):
    """The plan of a handle, which can be applied."""

    _words, _asked = OF_PLANS, ASKED_OF_PLANS

    location: DatasetLocation = field(kw_only=True, compare=False)

    def apply(self) -> ExpiryReport:
        """Write the warnings and delete the expired refs, if nothing has changed since; the report gives the reasons.

        Raises NotFound, CorruptData, StorageFailure.
        """
        return carry_out(self.location, self, datetime.now(timezone.utc))


def carry_out(location: DatasetLocation, plan: ExpiryPlan, now: datetime) -> ExpiryReport:
    """Write the plan's warnings and delete its expired refs, if nothing has changed since.

    ``now`` dates the warnings and the second look at the dataset. Refs that changed since the plan stay, and so do refs
    that something needs by now; the report gives the reasons. Raises InvalidOption for the plan of another dataset,
    NotFound, CorruptData, StorageFailure.
    """
    if plan.dataset != location.uri:
        raise InvalidOption(
            f"The plan is for {plan.dataset}, not for {location.uri}.", hint="Make a plan for this dataset."
        )
    if not (plan.expired or plan.to_warn):
        prune(location, now, plan.options.undo_window)  # every survey reads all records: they must not pile up
        return ExpiryReport(plan, ())
    # Use the time of the plan: what expired since then was not reviewed.
    fresh = {entry.key: entry for entry in plan_expiry(location, min(now, plan.now), plan.options).entries}
    outcomes = [_warn(location, entry, fresh.get(entry.key), now) for entry in plan.to_warn]
    outcomes += [_delete(location, entry, fresh.get(entry.key)) for entry in plan.expired]
    prune(location, now, plan.options.undo_window)
    return ExpiryReport(plan, tuple(outcomes))


def _warn(location: DatasetLocation, planned: ExpiryEntry, fresh: ExpiryEntry | None, now: datetime) -> ExpiryOutcome:
    why = _difference(planned, fresh)
    if not why:
        name, warned = planned.record.name, expiry_rules.warning(planned, now)
        try:
            if planned.record.kind == expiry_rules.TAG:
                tag = refs.read_tags(location, [name])[name]
                refs.replace_tag_metadata(location, name, with_warning(tag.metadata, warned))
            else:
                branch = refs.read_branches(location, [name]).branches[name]
                refs.replace_metadata(location, name, with_warning(branch.metadata, warned))
        except (KeyError, NotFound):
            why = _CHANGED
    return ExpiryOutcome(*planned.key, planned.record.at, expiry_rules.STAYED if why else expiry_rules.TOLD, why)


def _delete(location: DatasetLocation, planned: ExpiryEntry, fresh: ExpiryEntry | None) -> ExpiryOutcome:
    why = _difference(planned, fresh)
    if not why:
        try:
            if planned.record.kind == expiry_rules.TAG:
                _delete_tag(location, planned.record)
            elif planned.record.kind == expiry_rules.DELETED_BRANCH:
                _forget(location, planned.record)
            else:
                _delete_branch(location, planned.record)
        except (Refused, NotFound, Conflict) as problem:
            why = problem.message
    return ExpiryOutcome(*planned.key, planned.record.at, expiry_rules.STAYED if why else expiry_rules.DELETED, why)


def _difference(planned: ExpiryEntry, fresh: ExpiryEntry | None) -> str:
    """Why an entry of a plan is not carried out; "" if nothing has changed."""
    if fresh is None:
        return "it is gone"
    if fresh.record != planned.record:
        return _CHANGED
    return "" if fresh.state == planned.state else fresh.why or f"it is now {fresh.state}"


def _delete_tag(location: DatasetLocation, record: RefRecord) -> None:
    tag = refs.read_tag(location, record.name)
    if tag is None or _of_tag(tag) != record:
        raise Refused(f"Tag '{record.name}': {_CHANGED}.")
    delete_tag(location, record.name)


def _delete_branch(location: DatasetLocation, record: RefRecord) -> None:
    table = refs.read_refs(location)
    check_delete_branch(table, record.name)
    branch = table.branches[record.name]

    def check() -> None:
        """With the ref file gone, check that nothing needs the branch and no process wrote to it."""
        check_unneeded(location, branch)
        if _of_branch(branch, find_latest(location, branch.name)) != record:
            raise Refused(f"Branch '{record.name}': {_CHANGED}.")

    drop_branch(location, record.name, check)


def _forget(location: DatasetLocation, record: RefRecord) -> None:
    change = read_change(location, record.identity)
    if change is None or not forget_branch(location, change):
        raise Refused(f"The directory of branch '{record.name}': {_CHANGED}.")


def _of_branch(branch: Branch, head: PinnedVersion | None) -> RefRecord:
    follows = read_follows(branch)
    moment = None
    if head is not None and head.stamp is not None:
        # A branch without versions of its own begins with a copy of a version that may be old.
        moment = max(branch.created_at, moment_at(head.stamp))
    return RefRecord(
        kind=expiry_rules.BRANCH,
        name=branch.name,
        at="" if head is None else str(head),
        moment=moment,
        lifetime=branch.lifetime,
        identity=branch.identity,
        follows="" if follows is None else f"{follows.branch or MAIN} of {follows.remote}",
    )


def _of_tag(tag: Tag) -> RefRecord:
    return RefRecord(expiry_rules.TAG, tag.name, str(tag.target), tag.changed_at, tag.lifetime)


def _unmerged(location: DatasetLocation, table: RefTable, names: list[str]) -> dict[str, str]:
    """The branches whose changes are, or may be, missing from main and their parent; with the reason."""
    graph = Graph(location, table)
    found = {}
    for name in names:
        parent = table.branches[name].parent_branch
        says = [_missing_in(location, graph, name, other) for other in dict.fromkeys((None, parent))]
        if all(says):
            found[name] = says[-1]
    return found


def _undone(location: DatasetLocation, graph: Graph, newest: PinnedVersion, beside: PinnedVersion) -> str:
    """A text if a branch was restored or reverted since it took in another one; "" if not, as far as known.

    The history still has the merge, but the rows may be gone: then only the merged branch has them.
    """
    merged = graph.numbering(beside, graph.node(newest), newest)
    if merged is None:
        return ""
    for span in graph.path(beside, graph.node(merged), newest):
        since = graph.reader.versions(location, span.branch, span.after, span.until)
        for version, transaction in graph.reader.transactions(location, span.branch, since).items():
            trace = None if transaction is None else read_trace(transaction.properties)
            taken_back = trace is not None and trace.action in (REVERT, RESTORE)
            if taken_back or (transaction is not None and transaction.operation == "Restore"):
                return (
                    f"it was merged as {merged}, but {span.branch or MAIN}@{version} took something back since, "
                    "perhaps that merge"
                )
    return ""


def _missing_in(location: DatasetLocation, graph: Graph, name: str, other: str | None) -> str:
    """A text about the changes that a branch has and another lacks; "" if there are none."""
    try:
        newest, beside = pin_latest(location, name), pin_latest(location, other)
        held = graph.held(beside, newest).get(graph.identity(name), -1)
        if held >= newest.version:
            return _undone(location, graph, newest, beside)
        fork = graph.fork(name)
        known = max(held, -1 if fork is None else fork.version)
        there = [version for version in version_numbers(location, name) if known < version <= newest.version]
        if len(there) < newest.version - max(known, 0):
            return f"versions of it were cleaned up, so {other or MAIN} may lack its changes"
        changes = changes_since(location, graph, newest, beside)
    except (Refused, NotFound, Conflict, CorruptData) as problem:
        return f"{other or MAIN} may lack its changes: {problem.message}"
    return f"{changes} of its versions are not in {other or MAIN}" if changes else ""
