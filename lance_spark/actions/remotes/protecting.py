"""Tells a remote which of its versions are read from here, so that a cleanup there keeps their files."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from hashlib import sha256

from lance_spark.actions.remotes.following import Remote
from lance_spark.actions.remotes.pruning import prune
from lance_spark.errors import AlreadyExists, NotFound, StorageFailure
from lance_spark.location import DatasetLocation
from lance_spark.refs.model import PinnedVersion
from lance_spark.store import chains, clones, refs


def protect(local: DatasetLocation, remote: Remote, pins: Iterable[PinnedVersion]) -> tuple[str, ...]:
    """Tag versions of the remote that were fetched; returns what the user has to know.

    A tag holds every tool's cleanup off a version. Who may not write there cannot set one, and goes without.
    """
    told = False
    for pin in pins:
        told = True
        try:
            _tag(local, remote, pin)
        except StorageFailure as problem:
            return (
                f"{remote.location.uri} could not be told that {pin} is read from here ({type(problem).__name__}): a "
                "cleanup there may delete files that this dataset needs.",
            )
        except NotFound:
            return (f"{pin} of {remote.location.uri} is not there any more; fetch again.",)
    if told:
        prune(local, remote)
    return ()


def _tag(local: DatasetLocation, remote: Remote, pin: PinnedVersion) -> None:
    branch = sha256((pin.branch or "").encode()).hexdigest()[:8] if pin.branch else "main"
    name = f"{clones.record_name(local)}-{branch}-{pin.version}"
    found = refs.read_tag(remote.location, name)
    if found is not None and (found.branch, found.version) == (pin.branch, pin.version):
        return
    try:
        refs.create_tag(remote.location, name, pin)
    except AlreadyExists:
        refs.move_tag(remote.location, name, pin)  # of a branch that was deleted and made anew
    if pin.version not in chains.version_names(remote.location, pin.branch):
        # A cleanup took the version in this very moment; on a tag that names nothing the next one would stop.
        with suppress(NotFound):
            refs.delete_tag(remote.location, name)
        raise NotFound(f"{pin} of {remote.location.uri} is not there any more.")
