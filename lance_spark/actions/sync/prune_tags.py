"""Deletes tags at a remote that protect nothing any more: every fetch sets a tag, and each tag keeps old files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

from lance_spark.actions.sync.tracking_branches import Remote
from lance_spark.errors import NotFound
from lance_spark.location import DatasetLocation, is_within
from lance_spark.manifest.contents import DataFile, DeletionFile
from lance_spark.merge.snapshot import Snapshot
from lance_spark.refs.model import PinnedVersion, Tag
from lance_spark.refs.parse import BRANCHES
from lance_spark.store import clones, refs, version_listing, version_reader
from lance_spark.store.version_cache import VersionCache

_FEW = 8
"""Up to so many tags are left alone: to see which are needed, every local version has to be read."""
_MANY = 2000
"""With more local versions than this, no tag is deleted."""

File = tuple[str, str]
"""Root, and path in it."""


def prune(
    local: DatasetLocation, remote: Remote, known: Iterable[str], reader: VersionCache | None = None
) -> tuple[str, ...]:
    """Delete this dataset's tags at a remote whose versions have no file that a local version reads.

    ``known`` are the names of the remote's tags. A file that another tagged version has as well is protected by that.
    The newest tag of each branch stays. Returns the names of the tags that were deleted.
    """
    prefix = f"{clones.record_name(local)}-"
    names = sorted(name for name in known if name.startswith(prefix))
    if len(names) <= _FEW:
        return ()
    own = refs.read_tags(remote.location, names).values()
    reader, tags = reader or VersionCache(), refs.TagWriter(remote.location)
    used = _used(local, remote)
    if used is None:
        return ()
    safe: set[File] = set()
    gone = []
    heads: set[str | None] = set()
    for tag in sorted(own, key=lambda tag: -tag.version):
        named = _files_of(reader, remote, tag)
        needed = not used.isdisjoint(named - safe)
        if needed or tag.branch not in heads:
            safe |= named
        else:
            with suppress(NotFound):  # another fetch was faster
                tags.delete(tag.name)
            gone.append(tag.name)
        heads.add(tag.branch)
    return tuple(gone)


def _files_of(reader: VersionCache, remote: Remote, tag: Tag) -> set[File]:
    try:
        return set(_files(reader.snapshot(remote.location, PinnedVersion(tag.branch, tag.version))))
    except NotFound:
        return set()


def _used(local: DatasetLocation, remote: Remote) -> set[File] | None:
    """Files at the remote that any local version reads; None if there are too many versions to read."""
    branches = (None, *refs.list_ref_names(local, BRANCHES))
    versions = [
        PinnedVersion(branch, version)
        for branch in branches
        for version in version_listing.version_numbers(local, branch)
    ]
    if len(versions) > _MANY:
        return None
    root = remote.location.uri
    used: set[File] = set()
    for pin in versions:
        try:
            snapshot = version_reader.read_snapshot(local, pin)
        except NotFound:
            continue  # cleaned up a moment ago
        used.update(file for file in _files(snapshot) if is_within(file[0], root))
    return used


def _files(snapshot: Snapshot) -> Iterator[File]:
    for fragment in snapshot.contents.fragments():
        named: list[DataFile | DeletionFile] = [*fragment.files, *([fragment.deletion] if fragment.deletion else [])]
        for file in named:
            path = file.path if isinstance(file, DataFile) else file.path_for(fragment.id)
            yield snapshot.root_of(file).uri, path
