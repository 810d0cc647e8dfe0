"""Protects what is read from a remote: tags of its versions, set at each fetch and pruned once nothing needs them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

from lance_spark import errors
from lance_spark.clones.identity import own_name
from lance_spark.core.location import DatasetLocation, is_within
from lance_spark.core.ref_files import BRANCHES, TAGS
from lance_spark.core.refs import PinnedVersion, Tag
from lance_spark.core.words import OF_A_REMOTE, Hinting
from lance_spark.format.contents import DataFile, DeletionFile
from lance_spark.format.versions import Snapshot
from lance_spark.storage import refs
from lance_spark.storage import versions as stored_versions
from lance_spark.storage.versions import VersionCache


@dataclass(frozen=True)
class Remote(Hinting):
    _words, _typed = OF_A_REMOTE, "remote"
    name: str
    location: DatasetLocation


# --- Protecting files at a remote from cleanups there


def protect(local: DatasetLocation, remote: Remote, pins: Iterable[PinnedVersion]) -> tuple[str, ...]:
    """Tag versions of the remote that are read from here; returns notes for the user."""
    protection = Protection(local, remote)
    for pin in pins:
        protection.add(pin)
    return protection.notes


class Protection:
    """Tags of a remote's versions, for one run of a fetch.

    A tag keeps every tool's cleanup away from a version. It comes before the version is read: of a fetch that is killed
    in between, the next one would not know that it is missing. Without write access there, :attr:`notes` warns instead.
    """

    def __init__(self, local: DatasetLocation, remote: Remote, reader: VersionCache | None = None) -> None:
        self.local, self.remote, self.reader = local, remote, reader
        self.notes: tuple[str, ...] = ()
        self._refused = False
        self._tags = refs.TagWriter(remote.location)
        self._done: set[str] = set()

    @cached_property
    def _own(self) -> str:
        return own_name(self.local, self.remote.location)

    @cached_property
    def _known(self) -> set[str]:
        return set(refs.list_ref_names(self.remote.location, TAGS))

    def add(self, pin: PinnedVersion, again: bool = True) -> None:
        """Tag a version, unless writing there failed before; not ``again`` where the tag exists, wherever it is."""
        if self._refused:
            return
        try:
            name = tag_name(self._own, pin)
            if name in self._done or (not again and name in self._known):
                return
            _tag(self.remote, self._tags, name, pin, name in self._known)
        except errors.StorageFailure as problem:
            self._refused = True
            self.notes += (
                f"{self.remote.location.uri} could not record that {pin} is read from here "
                f"({type(problem).__name__}): a cleanup there may delete files that this dataset needs.",
            )
        except errors.NotFound:
            self.notes += (f"{pin} of {self.remote.location.uri} no longer exists; fetch again.",)
        else:
            self._done.add(name)
            self._known.add(name)

    def prune(self, branches: Sequence[str | None]) -> None:
        """Delete tags that nothing needs, if this run made any."""
        if self._done and not self.notes:
            prune(self.local, self.remote, self._own, self._known, self.reader, branches)


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
