"""Recording changes of refs, listing them, and taking them back."""

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
from lance_spark.core.reflog import (
    BRANCH,
    DELETED,
    DONE,
    FORGOTTEN,
    MOVED,
    RESTORED,
    TAG,
    RefChange,
    RefLog,
    TagState,
    branch_to_restore,
    deleted_branch,
    kept_branches,
    tag_to_restore,
)
from lance_spark.core.refs import (
    BRANCHES,
    MAIN,
    TAGS,
    Branch,
    PinnedVersion,
    Tag,
    check_branch_name,
    check_tag_name,
    missing,
    ref_file,
)
from lance_spark.core.show import moment_at
from lance_spark.errors import AlreadyExists, NotFound, PermissionDenied, Refused
from lance_spark.refs.rules import check_tag_stays
from lance_spark.storage import datasets, files, refs
from lance_spark.storage.commits import left_after, unchanged
from lance_spark.storage.refs import drop_files
from lance_spark.storage.resolving import check_branch

DEFAULT_COUNT = 20
"""Versions of a branch that are listed."""


def new_change(kind: str, name: str, action: str) -> RefChange:
    """A record that is about to be written."""
    now_ns = time.time_ns()
    at = moment_at(now_ns)
    return RefChange(f"{now_ns:020d}-{uuid4().hex[:8]}", at, kind, name, action)


@contextmanager
def recorded(location: DatasetLocation, change: RefChange) -> Iterator[None]:
    """Write a change down, let it happen, and write down that it did.

    After an error it is not known whether it happened, so the record stays as it is; except for what was denied, if it
    did not happen. If not even the record can be written, nothing happens.
    """
    with unchanged():
        refs.write_change(location, change)
    try:
        yield
    except PermissionDenied as denied:
        if not denied.of_change or not _is_as_before(location, change):
            raise
        raise denied.saying(left_after(lambda: _forget(location, change), "records of it")) from None
    refs.write_change(location, replace(change, state=DONE))


def _is_as_before(location: DatasetLocation, change: RefChange) -> bool:
    """Whether a tag is where it was before a change, or a branch is there that was to be deleted."""
    if change.kind == BRANCH:
        return change.action == DELETED and refs.read_branch(location, change.name) is not None
    now = refs.read_tag(location, change.name)
    if change.before is None or now is None:
        return change.before is None and now is None
    return now.target.reference == change.before.target.reference


def _forget(location: DatasetLocation, change: RefChange) -> None:
    """Remove a record; who may not delete it says in it that it tells of nothing."""
    try:
        refs.remove_change(location, change)
    except PermissionDenied:
        refs.write_change(location, replace(change, state=FORGOTTEN))


def tag_change(location: DatasetLocation, name: str, before: Tag, after: PinnedVersion | None) -> RefChange:
    """The record of a tag that is about to be moved, or deleted if ``after`` is None."""
    was = TagState.of(before, _stamp(location, before.target))
    moved = None if after is None else TagState(after, dict(before.metadata))
    return replace(new_change(TAG, name, DELETED if after is None else MOVED), before=was, after=moved)


def _stamp(location: DatasetLocation, pin: PinnedVersion) -> int | None:
    """The commit time of a version, which tells it from a later one of that number; None if it is gone."""
    try:
        return datasets.pin_version(location, pin.branch, pin.version).stamp
    except NotFound:
        return None


def restore_tag(location: DatasetLocation, name: str) -> PinnedVersion:
    """Put a tag back to where it was before it was moved or deleted last; returns that version.

    Raises NotFound if no record tells, or the version is gone, AlreadyExists for a deleted tag that was made again, and
    Refused for one that something else moved since, or that belongs to a frozen set by now.
    """
    check_tag_name(name)
    current, before = _former(location, name)
    if current is not None:
        check_tag_stays(refs.read_refs(location), name)
    target = before.target
    record = replace(new_change(TAG, name, RESTORED), before=TagState.of(current), after=before)
    with recorded(location, record):
        if current is None:
            refs.create_tag(location, name, target)
        else:
            refs.move_tag(location, name, target)
        if before.metadata or (current is not None and current.metadata):
            refs.replace_tag_metadata(location, name, before.metadata)
    return target


def find_former(location: DatasetLocation, name: str) -> PinnedVersion:
    """The version that a tag would be put back on. Raises as :func:`restore_tag`."""
    return _former(location, name)[1].target


def _former(location: DatasetLocation, name: str) -> tuple[Tag | None, TagState]:
    """A tag as it is, and as it was before."""
    datasets.open_latest(location)
    current = refs.read_tag(location, name)
    before = tag_to_restore(name, current, refs.read_changes(location)).before
    if before is None:
        raise NotFound(f"No record tells where tag '{name}' was before.")
    check_branch(location, before.target.branch)  # the directory of a deleted branch can be opened all the same
    target = datasets.pin_version(location, before.target.branch, before.target.version)
    if before.target.stamp not in (None, target.stamp):
        raise Refused(
            f"Tag '{name}' was at {target}, but that is another version by now: its branch was made again.",
            hint=hints.of(hints.LOG, " shows the versions that there are."),
        )
    return current, replace(before, target=target)


def restore_branch(location: DatasetLocation, name: str) -> PinnedVersion:
    """Bring back a branch that was deleted and whose files were kept; returns its newest version.

    Raises AlreadyExists for a branch that is there, NotFound if nothing of it is left, and Refused if files that it
    reads are gone; then nothing was changed.
    """
    check_branch_name(name)
    datasets.open_latest(location)
    change = branch_to_restore(name, refs.read_branch(location, name) is not None, refs.read_changes(location))
    branch, head = change.branch, change.head
    if branch is None or head is None:
        raise NotFound(f"The record of the deletion of branch '{name}' says too little.")
    _check_parent(location, branch)
    newest = datasets.pin_latest(location, name)
    if newest.version < head.version:
        raise Refused(f"Branch '{name}' was at {head}, but its newest version is {newest}.", hint="It was cleaned up.")
    _check_files(location, newest)
    with recorded(location, replace(new_change(BRANCH, name, RESTORED), head=newest)):
        _check_free(location, change)
        put_ref_file(location, name, change.ref_file)
        _check_kept(location, change)
    return newest


def _check_parent(location: DatasetLocation, branch: Branch) -> None:
    """Raise Refused unless the branch that this one was made from is there, and is not a later one of the same name."""
    fork = branch.fork
    if fork is None or fork.branch is None:
        return
    parent = refs.read_branch(location, fork.branch)
    if parent is None:
        raise Refused(
            f"Branch '{branch.name}' was made from '{fork.branch}', which is not there.",
            hint=hints.of("Restore that one first: ", hints.restore_branch(fork.branch), "."),
        )
    if parent.created_at > branch.created_at:
        raise Refused(
            f"Branch '{branch.name}' was made from a branch '{fork.branch}' that is gone: the one there is newer.",
            hint="It cannot be restored.",
        )


def find_restorable(location: DatasetLocation, name: str) -> PinnedVersion:
    """The newest version of a branch that can be restored. Raises as :func:`restore_branch`, except for lost files."""
    exists = refs.read_branch(location, name) is not None
    change = branch_to_restore(name, exists, refs.read_changes(location))
    return change.head or datasets.pin_latest(location, name)


def put_ref_file(location: DatasetLocation, name: str, content: str) -> None:
    """Write a branch's ref file. Not through pylance, which makes a ref file only with a first version."""
    from lance_spark.storage.small_files import write_file

    directory, _, file = ref_file(BRANCHES, name).rpartition("/")
    write_file(DatasetLocation(f"{location.uri}/{directory}", location.options), file, content.encode())


def _check_free(location: DatasetLocation, change: RefChange) -> None:
    """Raise AlreadyExists or Refused if another process made a branch of that name, or gave up this one, meanwhile.

    Looking for its files may take minutes. The ref file of a new branch must not be replaced with the old one.
    """
    if refs.read_branch(location, change.name) is not None:
        raise AlreadyExists(
            f"A branch '{change.name}' was made a moment ago.", hint=hints.of(hints.LIST_BRANCHES, " lists it.")
        )
    if _is_given_up(location, change):
        raise _given_up(change)


def _check_kept(location: DatasetLocation, change: RefChange) -> None:
    """Take the ref file away again if another process gave the branch up meanwhile: its files are going."""
    if _is_given_up(location, change):
        path = ref_file(BRANCHES, change.name)
        if files.read(location, path) == change.ref_file.encode():  # or it is that of a new branch by now
            files.delete(location, [path])
        raise _given_up(change)


def _is_given_up(location: DatasetLocation, change: RefChange) -> bool:
    now = refs.read_change(location, change.id)
    return now is None or now.state == FORGOTTEN


def _given_up(change: RefChange) -> Refused:
    return Refused(f"Branch '{change.name}' was given up for good a moment ago.", hint="Nothing can bring it back.")


def _check_files(location: DatasetLocation, pin: PinnedVersion) -> None:
    """Raise Refused if a file of a version is not there: cleanups of other tools know nothing of deleted branches."""
    from lance_spark.survey.survey import missing_files

    lost = missing_files(location, pin)
    if lost:
        raise Refused(
            f"{pin} reads {lost[0]}, which is gone, and {len(lost) - 1} more: the branch cannot be restored.",
            hint="A cleanup that knows nothing of deleted branches, such as pylance's own, may have taken them.",
        )


def forget_branch(location: DatasetLocation, change: RefChange) -> bool:
    """Remove the files of a deleted branch for good; False if it is there again, or its directory has another version.

    First the record says so, then the ref is looked for, then files go. Whoever restores the branch writes the ref and
    then reads the record: one of the two sees the other.
    """
    gone_already = not files.list_names(location, versions_directory(change.name))
    if not (gone_already or _is_as_left(location, change)):
        return False
    refs.write_change(location, replace(change, state=FORGOTTEN))
    if gone_already:
        return True  # nothing is deleted: whatever comes there now is a new branch
    if refs.read_branch(location, change.name) is not None or not _is_as_left(location, change):
        return False
    drop_files(location, change.name)
    return True


def _is_as_left(location: DatasetLocation, change: RefChange) -> bool:
    """Whether the newest version is still the one that was deleted, not one of a branch that is being made now.

    Nor may a tag be on it: pylance puts one on whatever directory of a branch there is.
    """
    if change.head is None or datasets.find_latest(location, change.name) != change.head:
        return False
    tags = refs.read_tags(location, refs.list_ref_names(location, TAGS))
    return all(tag.branch != change.name for tag in tags.values())


def give_up_name(location: DatasetLocation, name: str) -> bool:
    """Remove what is kept of a deleted branch because a new one takes its name; False if nothing is kept of one."""
    change = deleted_branch(name, refs.read_changes(location))
    return change is not None and forget_branch(location, change)


def prune(location: DatasetLocation, now: datetime, window: timedelta) -> int:
    """Remove records of changes that cannot be taken back any more, except of branches that are kept; how many."""
    changes = refs.read_changes(location)
    needed = {change.id for change in kept_branches(changes, refs.list_ref_names(location, BRANCHES))}
    now_ns = int(now.timestamp() * 1e6) * 1000
    old = [change for change in changes if change.id not in needed and not change.keeps(now_ns, window)]
    for change in old:
        refs.remove_change(location, change)
    return len(old)


def list_changes(location: DatasetLocation, ref: str | None = None, count: int | None = DEFAULT_COUNT) -> RefLog:
    """What a branch or tag pointed at before, or all changes that are recorded.

    ``count`` is how many versions of a branch are listed, the newest; None for all. Raises NotFound for a name that no
    ref has or had.
    """
    datasets.open_latest(location)
    changes = refs.read_changes(location)
    if ref is None:
        return RefLog(location.uri, None, tuple(reversed(changes)))
    own = tuple(change for change in reversed(changes) if change.name == ref)
    is_branch = ref == MAIN or refs.read_branch(location, ref) is not None
    if not (is_branch or own or refs.read_tag(location, ref) is not None):
        known = [MAIN, *refs.list_ref_names(location, BRANCHES), *refs.list_ref_names(location, TAGS)]
        raise missing("branch or tag", ref, known)
    return RefLog(location.uri, ref, own, _versions(location, ref, count) if is_branch else ())


def _versions(location: DatasetLocation, ref: str, count: int | None) -> tuple[tuple[str, datetime, str], ...]:
    from lance_spark.log.log import log
    from lance_spark.log.rules import happened

    branch = None if ref == MAIN else ref
    entries = log(location, branch, datasets.pin_latest(location, branch), count)
    return tuple((f"{entry.branch or MAIN}@{entry.version}", entry.timestamp, happened(entry)) for entry in entries)


def keep_deleted(location: DatasetLocation, name: str, ref_content: str) -> RefChange:
    """The record of a branch that is about to be deleted with its files kept."""
    if not files.list_names(location, versions_directory(name)):
        raise AlreadyExists(f"Branch '{name}' has no versions.")
    return replace(new_change(BRANCH, name, DELETED), head=datasets.find_latest(location, name), ref_file=ref_content)
