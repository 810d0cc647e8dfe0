"""Tags the versions of a remote whose files are read from here, so that a cleanup there keeps these files."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256

from lance_spark.actions.sync.prune_tags import prune
from lance_spark.actions.sync.tracking_branches import Remote
from lance_spark.errors import AlreadyExists, NotFound, StorageFailure
from lance_spark.location import DatasetLocation
from lance_spark.refs.model import PinnedVersion
from lance_spark.refs.parse import TAGS
from lance_spark.store import clones, refs, version_listing
from lance_spark.store.version_cache import VersionCache


def protect(
    local: DatasetLocation, remote: Remote, pins: Sequence[PinnedVersion], reader: VersionCache | None = None
) -> tuple[str, ...]:
    """Tag versions of the remote that were fetched; returns what the user has to know.

    A tag keeps the cleanup of every tool off a version. Whoever may not write there gets a warning instead of a tag.
    """
    tags, known = refs.TagWriter(remote.location), set[str]()
    for pin in pins:
        name = tag_name(local, pin)
        try:
            known = known or set(refs.list_ref_names(remote.location, TAGS))
            _tag(remote, tags, name, pin, name in known)
        except StorageFailure as problem:
            return (
                f"{remote.location.uri} could not be told that {pin} is read from here ({type(problem).__name__}): a "
                "cleanup there may delete files that this dataset needs.",
            )
        except NotFound:
            return (f"{pin} of {remote.location.uri} is not there any more; fetch again.",)
        known.add(name)
    if pins:
        prune(local, remote, known, reader)
    return ()


def tag_name(local: DatasetLocation, pin: PinnedVersion) -> str:
    """Set the tag that protects a version whose files are read from here."""
    branch = sha256((pin.branch or "").encode()).hexdigest()[:8] if pin.branch else "main"
    return f"{clones.record_name(local)}-{branch}-{pin.version}"


def _tag(remote: Remote, tags: refs.TagWriter, name: str, pin: PinnedVersion, is_known: bool) -> None:
    tag = refs.read_tag(remote.location, name) if is_known else None
    if tag is not None and (tag.branch, tag.version) == (pin.branch, pin.version):
        return
    try:
        tags.create(name, pin)
    except AlreadyExists:
        tags.move(name, pin)  # the branch was deleted and created again
    if pin.version not in version_listing.version_numbers(remote.location, pin.branch):
        # A cleanup just took the version; the next cleanup would stop at a tag that points at nothing.
        with suppress(NotFound):
            tags.delete(name)
        raise NotFound(f"{pin} of {remote.location.uri} is not there any more.")
