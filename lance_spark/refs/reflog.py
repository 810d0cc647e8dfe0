"""Records changes of refs, lists them, and reverts them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import uuid4

from lance_spark import hints
from lance_spark.core.layout import versions_directory
from lance_spark.core.location import DatasetLocation
from lance_spark.core.records import reflog
from lance_spark.core.ref_files import BRANCHES, TAGS, ref_file
from lance_spark.core.ref_names import check_branch_name, check_tag_name, missing
from lance_spark.core.refs import MAIN, Branch, PinnedVersion, Tag
from lance_spark.core.texts import moment_at
from lance_spark.errors import AlreadyExists, NotFound, PermissionDenied, Refused
from lance_spark.refs.ref_rules import check_tag_stays
from lance_spark.storage import datasets, files, refs
from lance_spark.storage.commits import author, left_after, unchanged
from lance_spark.storage.resolving import check_branch

DEFAULT_COUNT = 20
"""How many versions of a branch are listed."""


def new_change(kind: str, name: str, action: str) -> reflog.RefChange:
    now_ns = time.time_ns()
    at = moment_at(now_ns)
    return reflog.RefChange(f"{now_ns:020d}-{uuid4().hex[:8]}", at, kind, name, action, author=author())


@contextmanager
def recorded(location: DatasetLocation, change: reflog.RefChange) -> Iterator[None]:
    """Record a change, let it happen, and record that it happened.

    After an error the outcome is unknown, so the record stays as it is. A change that was denied and did not happen
    is the exception. If the record itself cannot be written, nothing happens.
    """
    with unchanged():
        refs.write_change(location, change)
    try:
        yield
    except PermissionDenied as denied:
        if not denied.of_change or not _is_as_before(location, change):
            raise
        raise denied.saying(left_after(lambda: _forget(location, change), "records of it")) from None
    refs.write_change(location, replace(change, state=reflog.DONE))


def _is_as_before(location: DatasetLocation, change: reflog.RefChange) -> bool:
    """Whether a tag is where it was before a change, or a branch that was to be deleted still exists."""
    if change.kind == reflog.BRANCH:
        return change.action == reflog.DELETED and refs.read_branch(location, change.name) is not None
    now = refs.read_tag(location, change.name)
    if change.before is None or now is None:
        return change.before is None and now is None
    return now.target.reference == change.before.target.reference


def _forget(location: DatasetLocation, change: reflog.RefChange) -> None:
    """Remove a record. Without the permission to delete it, mark the record as void instead."""
    try:
        refs.remove_change(location, change)
    except PermissionDenied:
        refs.write_change(location, replace(change, state=reflog.FORGOTTEN))


def tag_change(location: DatasetLocation, name: str, before: Tag, after: PinnedVersion | None) -> reflog.RefChange:
    """The record of a tag that is about to be moved, or deleted if ``after`` is None."""
    was = reflog.TagState.of(before, _stamp(location, before.target))
    moved = None if after is None else reflog.TagState(after, dict(before.metadata))
    return replace(
        new_change(reflog.TAG, name, reflog.DELETED if after is None else reflog.MOVED), before=was, after=moved
    )


def _stamp(location: DatasetLocation, pin: PinnedVersion) -> int | None:
    """The commit time of a version, which distinguishes it from a later one of that number; None if it is gone."""
    try:
        return datasets.pin_version(location, pin.branch, pin.version).stamp
    except NotFound:
        return None


def restore_tag(location: DatasetLocation, name: str) -> PinnedVersion:
    """Put a tag back where it was before it was last moved or deleted; returns that version.

    Raises NotFound if no record has its former position, or the version is gone. Raises AlreadyExists for a deleted
    tag that was created again. Raises Refused for a tag that something else moved since, or that now belongs to a
    frozen set.
    """
    check_tag_name(name)
    current, before = _former(location, name)
    if current is not None:
        check_tag_stays(refs.read_refs(location), name)
    target = before.target
    record = replace(new_change(reflog.TAG, name, reflog.RESTORED), before=reflog.TagState.of(current), after=before)
    with recorded(location, record):
        if current is None:
            refs.create_tag(location, name, target)
        else:
            refs.move_tag(location, name, target)
        if before.metadata or (current is not None and current.metadata):
            refs.replace_tag_metadata(location, name, before.metadata)
    return target


def find_former(location: DatasetLocation, name: str) -> PinnedVersion:
    """The version that restoring a tag would put it on. Raises the errors of :func:`restore_tag`."""
    return _former(location, name)[1].target


def _former(location: DatasetLocation, name: str) -> tuple[Tag | None, reflog.TagState]:
    """A tag in its current state, and its former state."""
    datasets.open_latest(location)
    current = refs.read_tag(location, name)
    before = reflog.tag_to_restore(name, current, refs.read_changes(location)).before
    if before is None:
        raise NotFound(f"No record shows where tag '{name}' was before.")
    check_branch(location, before.target.branch)  # the directory of a deleted branch can still be opened
    target = datasets.pin_version(location, before.target.branch, before.target.version)
    if before.target.stamp not in (None, target.stamp):
        raise Refused(
            f"Tag '{name}' was at {target}, but that is a different version now: its branch was created again.",
            hint=hints.of(hints.LOG, " shows the existing versions."),
        )
    return current, replace(before, target=target)


def restore_branch(location: DatasetLocation, name: str) -> PinnedVersion:
    """Restore a branch that was deleted with its files kept; returns its newest version.

    Raises AlreadyExists if the branch exists, NotFound if nothing of it is left, and Refused if files that it reads
    are gone. After an error nothing was changed.
    """
    check_branch_name(name)
    datasets.open_latest(location)
    change = reflog.branch_to_restore(name, refs.read_branch(location, name) is not None, refs.read_changes(location))
    branch, head = change.branch, change.head
    if branch is None or head is None:
        raise NotFound(f"The record of the deletion of branch '{name}' is incomplete.")
    _check_parent(location, branch)
    newest = datasets.pin_latest(location, name)
    if newest.version < head.version:
        raise Refused(f"Branch '{name}' was at {head}, but its newest version is {newest}.", hint="It was cleaned up.")
    _check_files(location, newest)
    with recorded(location, replace(new_change(reflog.BRANCH, name, reflog.RESTORED), head=newest)):
        _check_free(location, change)
        put_ref_file(location, name, change.ref_file)
        _check_kept(location, change)
    return newest


def _check_parent(location: DatasetLocation, branch: Branch) -> None:
    """Raise Refused unless the branch's parent exists and is not a later branch of the same name."""
    fork = branch.fork
    if fork is None or fork.branch is None:
        return
    parent = refs.read_branch(location, fork.branch)
    if parent is None:
        raise Refused(
            f"Branch '{branch.name}' was created from '{fork.branch}', which does not exist.",
            hint=hints.of("Restore that one first: ", hints.restore_branch(fork.branch), "."),
        )
    if parent.created_at > branch.created_at:
        raise Refused(
            f"Branch '{branch.name}' was created from an earlier branch '{fork.branch}', which is gone.",
            hint="It cannot be restored.",
        )


def find_restorable(location: DatasetLocation, name: str) -> PinnedVersion:
    """The newest version of a restorable branch. Raises as :func:`restore_branch`, but does not look for lost files."""
    exists = refs.read_branch(location, name) is not None
    change = reflog.branch_to_restore(name, exists, refs.read_changes(location))
    return change.head or datasets.pin_latest(location, name)


def put_ref_file(location: DatasetLocation, name: str, content: str) -> None:
    """Write a branch's ref file directly: pylance creates one only together with a first version."""
    from lance_spark.storage.small_files import write_below

    write_below(location, ref_file(BRANCHES, name), content.encode())


def _check_free(location: DatasetLocation, change: reflog.RefChange) -> None:
    """Raise AlreadyExists or Refused if another process just created a branch of that name, or discarded this one.

    Looking for its files can take minutes. The ref file of a new branch must not be replaced with the old one.
    """
    if refs.read_branch(location, change.name) is not None:
        raise AlreadyExists(
            f"A branch '{change.name}' was created a moment ago.", hint=hints.of(hints.LIST_BRANCHES, " lists it.")
        )
    if _is_given_up(location, change):
        raise _given_up(change)


def _check_kept(location: DatasetLocation, change: reflog.RefChange) -> None:
    """Remove the ref file again if another process has discarded the branch: its files are being deleted."""
    if _is_given_up(location, change):
        path = ref_file(BRANCHES, change.name)
        if files.read(location, path) == change.ref_file.encode():  # a new branch may have replaced it by now
            files.delete(location, [path])
        raise _given_up(change)


def _is_given_up(location: DatasetLocation, change: reflog.RefChange) -> bool:
    now = refs.read_change(location, change.id)
    return now is None or now.state == reflog.FORGOTTEN


def _given_up(change: reflog.RefChange) -> Refused:
    return Refused(f"Branch '{change.name}' was discarded for good a moment ago.", hint="It cannot be restored.")


def _check_files(location: DatasetLocation, pin: PinnedVersion) -> None:
    """Raise Refused if a file of a version is missing: cleanups of other tools do not know about deleted branches."""
    from lance_spark.survey.survey import missing_files

    lost = missing_files(location, pin)
    if lost:
        raise Refused(
            f"{pin} reads {lost[0]}, which is gone, and {len(lost) - 1} more: the branch cannot be restored.",
            hint="A cleanup that does not know about deleted branches, such as pylance's own, may have removed them.",
        )


def forget_branch(location: DatasetLocation, change: reflog.RefChange) -> bool:
    """Remove the files of a deleted branch for good; False if it exists again, or its directory has another version.

    The record is updated first, then the ref is looked for, then files are deleted. A restore writes the ref and then
    reads the record. So one of the two always sees the other.
    """
    gone_already = not files.list_names(location, versions_directory(change.name))
    if not (gone_already or _is_as_left(location, change)):
        return False
    refs.write_change(location, replace(change, state=reflog.FORGOTTEN))
    if gone_already:
        return True  # nothing to delete: anything that appears there now belongs to a new branch
    if refs.is_taken(location, change.name) or not _is_as_left(location, change):
        return False
    refs.drop_files(location, change.name)
    return True


def _is_as_left(location: DatasetLocation, change: reflog.RefChange) -> bool:
    """Whether the newest version is still the one that was deleted, not one of a branch that is being created now.

    No tag may point at it either: pylance creates tags on any existing branch directory.
    """
    if change.head is None or datasets.find_latest(location, change.name) != change.head:
        return False
    tags = refs.read_tags(location, refs.list_ref_names(location, TAGS))
    return all(tag.branch != change.name for tag in tags.values())


def give_up_name(location: DatasetLocation, name: str) -> bool:
    """Remove what is kept of a deleted branch because a new one takes its name; False if nothing is kept."""
    change = reflog.deleted_branch(name, refs.read_changes(location))
    return change is not None and forget_branch(location, change)


def prune(location: DatasetLocation, now: datetime, window: timedelta) -> int:
    """Remove records of changes that can no longer be reverted, except of kept branches; returns how many."""
    changes = refs.read_changes(location)
    needed = {change.id for change in reflog.kept_branches(changes, refs.list_ref_names(location, BRANCHES))}
    now_ns = int(now.timestamp() * 1e6) * 1000
    old = [change for change in changes if change.id not in needed and not change.keeps(now_ns, window)]
    for change in old:
        refs.remove_change(location, change)
    return len(old)


def list_changes(location: DatasetLocation, ref: str | None = None, count: int | None = DEFAULT_COUNT) -> reflog.RefLog:
    """What a branch or tag pointed at before, or all recorded changes.

    ``count`` limits the listed versions of a branch to the newest; None lists all. Raises NotFound for a name that no
    ref has or had.
    """
    datasets.open_latest(location)
    changes = refs.read_changes(location)
    if ref is None:
        return reflog.RefLog(location.uri, None, tuple(reversed(changes)))
    own = tuple(change for change in reversed(changes) if change.name == ref)
    is_branch = ref == MAIN or refs.read_branch(location, ref) is not None
    if not (is_branch or own or refs.read_tag(location, ref) is not None):
        known = [MAIN, *refs.list_ref_names(location, BRANCHES), *refs.list_ref_names(location, TAGS)]
        raise missing("branch or tag", ref, known)
    return reflog.RefLog(location.uri, ref, own, _versions(location, ref, count) if is_branch else ())


def _versions(location: DatasetLocation, ref: str, count: int | None) -> tuple[tuple[str, datetime, str], ...]:
    from lance_spark.log.log import log
    from lance_spark.log.print_rules import happened

    branch = None if ref == MAIN else ref
    entries = log(location, branch, datasets.pin_latest(location, branch), count)
    return tuple((f"{entry.branch or MAIN}@{entry.version}", entry.timestamp, happened(entry)) for entry in entries)


def keep_deleted(location: DatasetLocation, name: str, ref_content: str) -> reflog.RefChange:
    """The record of a branch that is about to be deleted with its files kept."""
    return replace(
        new_change(reflog.BRANCH, name, reflog.DELETED), head=datasets.find_latest(location, name), ref_file=ref_content
    )
