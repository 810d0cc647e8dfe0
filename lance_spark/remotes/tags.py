"""Push of a tag: the same name, at the remote's version with the same rows.

Versions have other numbers there, so a tag goes where it is known which one is meant: to a version that was fetched
from there, to one that was pushed as a version of its own, and to the newest of a branch that the remote has whole.
"""

from __future__ import annotations

from lance_spark import hints
from lance_spark.core.location import DatasetLocation
from lance_spark.core.records import tracking
from lance_spark.core.ref_names import missing
from lance_spark.core.refs import MAIN, PinnedVersion
from lance_spark.engine.local import Engine
from lance_spark.errors import AlreadyExists, NotCommittable, NotFound, Refused
from lance_spark.format.versions import FETCH, PUSH, RECEIVE, read_trace
from lance_spark.refs.refs import create_tag_at, find_tag, list_tags
from lance_spark.remotes.fetch import Remote, followed, is_own_push
from lance_spark.remotes.push import PushOptions, push
from lance_spark.remotes.report import PushedTag
from lance_spark.storage import refs
from lance_spark.storage import versions as stored_versions
from lance_spark.storage.datasets import find_latest, pin_latest


def push_tag(local: DatasetLocation, remote: Remote, name: str, engine: Engine, dry_run: bool = False) -> PushedTag:
    """Put a tag of this dataset on the same rows at a remote. Never moves a tag there.

    Raises NotFound without the tag or the remote, AlreadyExists if the remote has that name on another version, and
    Refused if it is unknown which version of the remote has the same rows.
    """
    tag = find_tag(local, name)
    if tag is None:
        raise missing("tag", name, [each.name for each in list_tags(local)])
    if find_latest(remote.location, None) is None:
        raise NotFound(
            f"There is no dataset at {remote.location.uri}.",
            hint=hints.of("Push main first, which creates it: ", hints.push(remote.name, MAIN), "."),
        )
    there = _counterpart(local, remote, tag.target, engine)
    known = find_tag(remote.location, name)
    if known is not None and known.target.reference != there.reference:
        raise AlreadyExists(
            f"{remote.name} has tag '{name}' at {known.target}, and here it is on the rows of {there}.",
            hint=f"Move it there: lance-git -C {remote.location.uri} tag -f {name} {there}.",
        )
    if known is None and not dry_run:
        create_tag_at(remote.location, name, there)
    return PushedTag(remote.name, remote.location.uri, name, there, known is None, dry_run)


def _counterpart(local: DatasetLocation, remote: Remote, pin: PinnedVersion, engine: Engine) -> PinnedVersion:
    """The remote's version with the rows of a version here. Raises Refused if it is unknown."""
    branches = refs.read_branches(local)
    follows = None if pin.branch is None else tracking.read_follows(branches.branches[pin.branch])
    if follows is not None and follows.remote == remote.name:
        if follows.newest is not None and pin.version == follows.newest.local:
            return PinnedVersion(follows.branch, follows.newest.remote)
        transaction = stored_versions.read_transaction(local, pin)
        trace = None if transaction is None else read_trace(transaction.properties)
        if trace is not None and trace.action == FETCH:
            return trace.source
        pin = trace.source if trace is not None and trace.action == PUSH else pin
    pushed = _pushed(local, remote, pin)
    if pushed is not None:
        return pushed
    if pin.branch in followed(branches, remote.name) and pin_latest(local, pin.branch).version == pin.version:
        try:
            done = push(local, remote, pin.branch, engine, PushOptions(dry_run=True)).replayed
        except (Refused, NotCommittable):
            done = None
        if done is not None and done.up_to_date:
            return pin_latest(remote.location, pin.branch)
        raise Refused(
            f"{remote.name} lacks what {pin} has, so the tag would name other rows there.",
            hint=hints.of("Push the branch first: ", hints.push(remote.name, pin.branch or MAIN), "."),
        )
    raise Refused(
        f"It is not known which version of {remote.name} has the rows of {pin}: it was neither fetched from there nor "
        "pushed as a version of its own.",
        hint=f"Tag a version there: lance-git -C {remote.location.uri} log, then tag NAME REF.",
    )


def _pushed(local: DatasetLocation, remote: Remote, pin: PinnedVersion) -> PinnedVersion | None:
    if pin.branch is not None and refs.read_branch(remote.location, pin.branch) is None:
        return None
    versions = stored_versions.version_numbers(remote.location, pin.branch)
    for version, made in stored_versions.read_transactions(remote.location, pin.branch, versions).items():
        trace = None if made is None else read_trace(made.properties)
        if trace is None or trace.action != RECEIVE or trace.source.reference != pin.reference:
            continue
        if is_own_push(local, trace):
            return PinnedVersion(pin.branch, version)
    return None
