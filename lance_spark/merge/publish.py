"""Publishing one table of a lake: main takes in the changes of a branch exactly once, or never.

In: a table, a version of one of its branches, and the id of a publish. Out: the version of main that has the changes,
or one that excludes them for good. Any number of processes may do this for the same publish at the same time, and each
may be killed at any point: the marks in main's versions tell what was done. A publish is not a merge for later merges
until :func:`remember_publish` records it. Otherwise a branch whose publish was taken back would lose its changes.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from lance_spark.core.location import DatasetLocation
from lance_spark.core.records.tracking import merged_notes
from lance_spark.core.refs import PinnedVersion, RefTable
from lance_spark.engine.local import Engine
from lance_spark.errors import Conflict, Refused
from lance_spark.format.transactions import MESSAGE
from lance_spark.format.versions import ACTION, NULLS_OF, PUBLISH, PUBLISH_ID, TAKE_BACK
from lance_spark.merge.ancestry import Graph
from lance_spark.merge.merge import (
    PreparedReplay,
    Request,
    check_plan,
    commit_prepared,
    merge_requests,
    pick_requests,
    plan_replay,
    prepare,
    remember,
    replay,
)
from lance_spark.merge.option_rules import MergeOptions, Prefer
from lance_spark.merge.replay_commits import commit_unchanged
from lance_spark.storage import refs
from lance_spark.storage.commits import attempts, check_nothing_missing, overtaken
from lance_spark.storage.datasets import pin_latest
from lance_spark.storage.versions import newest_first, read_transactions


@dataclass(frozen=True)
class TablePublish:
    location: DatasetLocation
    source: PinnedVersion
    """The version of a branch that main takes in."""
    since: int
    """Main's newest version before the publish was decided: its marks are in later versions."""
    publish_id: str
    message: str | None = None
    prefer: Prefer = field(default_factory=Prefer)
    """Whose value is taken where main and the branch changed the same row or cell."""


class Published(NamedTuple):
    before: int
    after: int
    """The same one if there was nothing to change."""


class Marks(NamedTuple):
    """Versions of main that a publish made; None for one that does not exist."""

    published: int | None = None
    taken_back: int | None = None


class TakenBack(Conflict):
    """Another process took the publish back: it can never be committed again."""


class EvidenceGone(Refused):
    """Versions that could tell whether a publish was committed were cleaned up."""


def find_marks(publish: TablePublish) -> Marks:
    """What the publish did with the table so far. Raises EvidenceGone."""
    location = publish.location
    versions = [version for version, _ in newest_first(location, None, above=publish.since)]
    found: dict[str, int] = {}
    for version, transaction in read_transactions(location, None, versions).items():
        if transaction is not None and transaction.properties.get(PUBLISH_ID) == publish.publish_id:
            found[transaction.properties.get(ACTION, "")] = version
    if TAKE_BACK not in found:
        check_evidence(location, publish.since, publish.publish_id)
    return Marks(found.get(PUBLISH), found.get(TAKE_BACK))


def check_evidence(location: DatasetLocation, since: int, publish_id: str) -> None:
    """Raise EvidenceGone if a cleanup removed versions of main that a publish may have made."""
    try:
        check_nothing_missing(location, PinnedVersion(None, since))
    except Conflict as gone:
        raise EvidenceGone(
            f"It is unknown whether publish {publish_id} reached {location.uri}: {gone.message}",
            hint="Compare the table with the branch, and bring over by hand what is missing.",
        ) from None


def publish_requests(publish: TablePublish) -> Callable[[], Request]:
    """Makes requests for the change, each for main's newest version. Raises Refused or NotFound."""
    options = MergeOptions(message=publish.message, prefer=replace(publish.prefer, many=True))
    return merge_requests(publish.location, publish.source, None, options, publish.publish_id)


def publish_table(publish: TablePublish, engine: Engine, prepared: PreparedReplay | None = None) -> Published:
    """Let main take the changes in, exactly once; ``prepared`` is what :func:`prepare_publish` returned.

    Raises TakenBack if the publish was taken back, and Conflict, which names what clashes; then main is unchanged.
    """
    make = publish_requests(publish)
    for left in attempts():
        done = _done(publish)
        if done is not None:
            return done
        if prepared is None:
            try:
                prepared = prepare(make, engine)
            except Conflict:
                done = _done(publish)  # by another process, since the last look: then the clash is with itself
                if done is not None:
                    return done
                raise
            # What the plan was made for may have the changes already: only later commits conflict with it.
            done = _done(publish)
            if done is not None:
                return done
        if prepared.plan.is_up_to_date:
            version = prepared.plan.ours.pin.version
            return Published(version, version)
        try:
            version = commit_prepared(prepared, engine).version or 0
        except Conflict:
            if not left:
                raise
            prepared = None
            continue
        return Published(version - 1, version)
    raise overtaken(None)


def prepare_publish(publish: TablePublish, engine: Engine) -> PreparedReplay:
    """Everything but the commit: nobody sees anything of it. Raises Conflict, Refused or NotFound."""
    return prepare(publish_requests(publish), engine)


def look_at_publish(publish: TablePublish) -> PreparedReplay:
    """The plan alone: nothing is copied or written. Raises like :func:`prepare_publish`."""
    request = publish_requests(publish)()
    plan = plan_replay(request)
    check_plan(plan, request)
    return PreparedReplay(request, plan)


def _done(publish: TablePublish) -> Published | None:
    marks = find_marks(publish)
    if marks.taken_back is not None:
        raise TakenBack(
            f"The publish {publish.publish_id} of {publish.location.uri} was taken back; nothing was changed.",
            hint="Publish the branch again.",
        )
    return None if marks.published is None else Published(marks.published - 1, marks.published)


def take_back_table(publish: TablePublish, engine: Engine) -> Published:
    """Undo the publish in one table, or exclude that it is ever committed; concurrent commits are kept.

    Either way, main has a new version with a mark, and no plan of the publish made before can be committed after it.
    Raises Conflict if later commits changed the published rows; then main is unchanged.
    """
    for left in attempts():
        marks = find_marks(publish)
        if marks.taken_back is not None:
            _take_back_before(publish, engine)
            return Published(marks.taken_back - 1, marks.taken_back)
        head, reverted = pin_latest(publish.location, None), None
        if marks.published is not None:
            reverted = _reverted(publish, marks.published, engine)
        if find_marks(publish) != marks:
            continue
        try:
            if reverted is not None and not reverted.plan.is_up_to_date:
                version = commit_prepared(reverted, engine).version or 0
            else:
                version = _fence(publish, head)
        except Conflict:
            if not left:
                raise
            continue
        _take_back_before(publish, engine)
        return Published(version - 1, version)
    raise overtaken(None)


def _take_back_before(publish: TablePublish, engine: Engine) -> None:
    """Undo settings, and which columns may be null, where a publish has changed these in versions of their own; once.

    It comes last: the published rows may be the ones without values. If rows of others are too, it stays as it is.
    """
    location = publish.location
    versions = [version for version, _ in newest_first(location, None, above=publish.since)]
    known = read_transactions(location, None, versions)
    found = {version: made.properties for version, made in known.items() if made is not None}
    changed = [version for version, told in found.items() if told.get(NULLS_OF) == publish.publish_id]
    backs = [
        version
        for version, told in found.items()
        if told.get(PUBLISH_ID) == publish.publish_id and told.get(ACTION) == TAKE_BACK
    ]
    for version in changed[max(0, len(backs) - 1) :]:
        pin, options = PinnedVersion(None, version), MergeOptions(message=_message(publish))
        with suppress(Conflict, Refused):
            replay(pick_requests(location, pin, None, TAKE_BACK, options, publish.publish_id), engine)


def _reverted(publish: TablePublish, published: int, engine: Engine) -> PreparedReplay | None:
    """The prepared opposite of the published version; None if another process took it back meanwhile."""
    pin = PinnedVersion(None, published)
    make = pick_requests(
        publish.location, pin, None, TAKE_BACK, MergeOptions(message=_message(publish)), publish.publish_id
    )
    try:
        return prepare(make, engine)
    except Conflict:
        if find_marks(publish).taken_back is None:
            raise
        return None


def _fence(publish: TablePublish, head: PinnedVersion) -> int:
    properties = {ACTION: TAKE_BACK, PUBLISH_ID: publish.publish_id, MESSAGE: _message(publish)}
    return commit_unchanged(publish.location, head, properties)


def _message(publish: TablePublish) -> str:
    return f"Take back publish {publish.publish_id} of {publish.source}"


def remember_publish(publish: TablePublish, published: Published) -> None:
    """Record a finished publish as a merge, so that the next one begins there. Call it once no table can be taken back.

    Nothing happens if the branch was deleted meanwhile, if there was nothing to change, or if another process has
    recorded it: a late one would replace the record of a later publish, or bring back the ref of a branch that was
    deleted after the publish.
    """
    branch = refs.read_branch(publish.location, publish.source.branch or "")
    if branch is None or published.after <= published.before:
        return
    own = Graph(publish.location, RefTable({branch.name: branch}, {})).identity(branch.name)
    notes = (note for note in merged_notes([branch]) if not note.into and note.source.chain == own)
    if all(note.at < published.after for note in notes):
        gains = Graph(publish.location).gains(publish.source, PinnedVersion(None, published.before))
        remember(publish.location, None, [publish.source, *gains], published.after)
