"""Protects what is read from a remote: tags of its versions, set at each fetch and pruned once nothing needs them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256

from lance_spark import errors
from lance_spark.clones.identity import own_name
from lance_spark.core.location import DatasetLocation, is_within
from lance_spark.core.refs import BRANCHES, TAGS, PinnedVersion, Tag
from lance_spark.core.tracking import Follows
from lance_spark.format.contents import DataFile, DeletionFile
from lance_spark.format.versions import Snapshot
from lance_spark.storage import refs
from lance_spark.storage import versions as stored_versions
from lance_spark.storage.versions import VersionCache


@dataclass(frozen=True)
class Remote:
    """Another place with the same dataset."""

    name: str
    location: DatasetLocation


# --- Protecting files at a remote from cleanups there


def protect(
    local: DatasetLocation,
    remote: Remote,
    pins: Sequence[PinnedVersion],
    reader: VersionCache | None = None,
    follows: Mapping[str | None, Follows] | None = None,
) -> tuple[str, ...]:
    """Tag versions of the remote that were fetched; returns notes for the user.

    A tag keeps every tool's cleanup away from a version. Without write access there, the result is a warning instead.
    ``follows`` are the fetched branches: while few versions were ever fetched, the remote's tags are not listed.
    """
    tags, known = refs.TagWriter(remote.location), set[str]()
    few = follows is not None and sum(len(each.pairs) for each in follows.values()) <= _FEW
    own = ""
    for pin in pins:
        try:
            own = own or own_name(local, remote.location)
            name = tag_name(own, pin)
            known = known or (set() if few else set(refs.list_ref_names(remote.location, TAGS)))
            _tag(remote, tags, name, pin, name in known)
        except errors.StorageFailure as problem:
            return (
                f"{remote.location.uri} could not record that {pin} is read from here ({type(problem).__name__}): a "
                "cleanup there may delete files that this dataset needs.",
            )
        except errors.NotFound:
            return (f"{pin} of {remote.location.uri} no longer exists; fetch again.",)
        known.add(name)
    if pins and not few:
        prune(local, remote, own, known, reader, [] if follows is None else list(follows))
    return ()


def tag_name(own: str, pin: PinnedVersion) -> str:
    """The name of the tag that protects a version for the clone of that name."""
    return f"{own}-{_mark(pin.branch)}-{pin.version}"


def _mark(branch: str | None) -> str:
    return sha256(branch.encode()).hexdigest()[:8] if branch else "main"


def _tag(remote: Remote, tags: refs.TagWriter, name: str, pin: PinnedVersion, is_known: bool) -> None:
    if is_known and _is_at(refs.read_tag(remote.location, name), pin):
        return
    try:
        tags.create(name, pin)
    except (errors.AlreadyExists, errors.Conflict):
        if not _is_at(refs.read_tag(remote.location, name), pin):
            tags.move(name, pin)  # the branch was deleted and created again
    # Re-list after tagging: only from then on does every cleanup keep the version.
    if pin.version not in stored_versions.version_numbers(remote.location, pin.branch):
        # A cleanup just removed the version; the next cleanup would stop at a tag that points nowhere.
        with suppress(errors.NotFound):
            tags.delete(name)
        raise errors.NotFound(f"{pin} of {remote.location.uri} no longer exists.")


# --- Pruning tags at a remote
# Every fetch sets a tag, and each tag keeps old files.

_FEW = 8
"""Up to this many tags are left alone: finding the unneeded ones means reading every local version."""
_MANY = 2000
"""With more local versions than this, no tag is deleted."""

File = tuple[str, str]
"""Root, and path in it."""


def prune(
    local: DatasetLocation,
    remote: Remote,
    clone: str,
    known: Iterable[str],
    reader: VersionCache | None = None,
    branches: Sequence[str | None] = (),
) -> tuple[str, ...]:
    """Delete this dataset's tags at a remote whose versions have no file that a local version reads.

    ``clone`` is the name of this dataset there, ``known`` are those of the remote's tags, ``branches`` those of its
    branches that tags may name. A file that another tagged version also has is protected by that tag. The newest tag of
    each branch stays. Returns the names of the deleted tags.
    """
    prefix = f"{clone}-"
    names = sorted(name for name in known if name.startswith(prefix))
    if len(names) <= _FEW:
        return ()
    own = _tagged(remote, names, {_mark(branch): branch for branch in branches})
    reader, tags = reader or VersionCache(), refs.TagWriter(remote.location)
    used = _used(local, remote)
    if used is None:
        return ()
    safe: set[File] = set()
    kept: list[PinnedVersion] = []  # not read yet
    gone = []
    heads: set[str | None] = set()
    for name, pin in sorted(own.items(), key=lambda tagged: -tagged[1].version):
        if pin.branch not in heads:
            heads.add(pin.branch)
            kept.append(pin)
            continue
        needed = used & _files_of(reader, remote, pin) - safe
        while needed and kept:
            safe |= _files_of(reader, remote, kept.pop(0))
            needed -= safe
        if needed:
            safe |= _files_of(reader, remote, pin)
        elif _is_at(refs.read_tag(remote.location, name), pin):
            # Re-read just before deleting: nothing needs the tag for the version in its name, but it may have moved.
            with suppress(errors.NotFound):  # another fetch deleted it first
                tags.delete(name)
            gone.append(name)
    return tuple(gone)


def _tagged(remote: Remote, names: Iterable[str], branches: Mapping[str, str | None]) -> dict[str, PinnedVersion]:
    """The versions of this dataset's tags: by their names, or read, if the name is that of a branch unknown here."""
    found, unread = {}, []
    for name in names:
        _, mark, version = name.rsplit("-", 2)
        if mark in branches and version.isdecimal():
            found[name] = PinnedVersion(branches[mark], int(version))
        else:
            unread.append(name)
    return found | {tag.name: tag.target for tag in refs.read_tags(remote.location, unread).values()}


def _is_at(tag: Tag | None, pin: PinnedVersion) -> bool:
    return tag is not None and tag.target.reference == pin.reference


def _files_of(reader: VersionCache, remote: Remote, pin: PinnedVersion) -> set[File]:
    try:
        return set(_files(reader.snapshot(remote.location, pin)))
    except errors.NotFound:
        return set()


def _used(local: DatasetLocation, remote: Remote) -> set[File] | None:
    """Files at the remote that local versions read; None if there are too many versions to read."""
    branches = (None, *refs.list_ref_names(local, BRANCHES))
    versions = [
        PinnedVersion(branch, version)
        for branch in branches
        for version in stored_versions.version_numbers(local, branch)
    ]
    if len(versions) > _MANY:
        return None
    root = remote.location.uri
    used: set[File] = set()
    for pin in versions:
        try:
            snapshot = stored_versions.read_snapshot(local, pin)
        except errors.NotFound:
            continue  # cleaned up a moment ago
        used.update(file for file in _files(snapshot) if is_within(file[0], root))
    return used


def _files(snapshot: Snapshot) -> Iterator[File]:
    for fragment in snapshot.contents.fragments():
        named: list[DataFile | DeletionFile] = [*fragment.files, *([fragment.deletion] if fragment.deletion else [])]
        for file in named:
            path = file.path if isinstance(file, DataFile) else file.path_for(fragment.id)
            yield snapshot.root_of(file).uri, path
