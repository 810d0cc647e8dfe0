"""Shallow and deep clones: one version, cloned to another place."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace

from lance_spark import hints
from lance_spark.core.location import DatasetLocation
from lance_spark.core.progress import Tell, WorkProgress, untold
from lance_spark.core.ref_files import TAGS, ref_file
from lance_spark.core.refs import PinnedVersion
from lance_spark.core.texts import counted
from lance_spark.errors import AlreadyExists, LanceSparkError, LanceSparkWarning, Refused
from lance_spark.format.metadata import referred_bases
from lance_spark.format.versions import Snapshot
from lance_spark.storage import refs, versions
from lance_spark.storage.commits import base_path, unchanged
from lance_spark.storage.credentials import options_afresh
from lance_spark.storage.datasets import check_may_commit, check_may_put, find_latest, open_latest
from lance_spark.storage.failures import translated
from lance_spark.storage.mem_wal import check_nothing_waits
from lance_spark.storage.others import check_elsewhere
from lance_spark.survey import clone_records, identity

_WITHOUT = "the clone would be without them"


def shallow_clone(source: DatasetLocation, pin: PinnedVersion, target: DatasetLocation, record: bool = True) -> None:
    """Clone metadata only. Raises Refused for another store and AlreadyExists for a target in use.

    The clone needs the source's files, but nothing in the source records that: a cleanup there would break the clone
    (https://github.com/lance-format/lance/issues/7514). So with ``record`` the cloned version is tagged, which keeps
    every tool's cleanup away from it. The clone's place is recorded, so that our cleanup keeps the files that later
    versions of the clone need.

    For a clone to another bucket, pylance 14.0.2 writes to the source's bucket under the target's key, then fails to
    open the clone. So that is refused before anything is written.
    """
    if source.store != target.store:
        raise Refused(
            f"A shallow clone cannot leave its store: the source is in {source.store}, the target in {target.store}.",
            hint=hints.of("Copy the data: ", hints.deep_clone(target.uri), "; or choose a target in the same bucket."),
        )
    check_elsewhere(source, "clone it")
    _check_free(target)
    check_nothing_waits(source, pin, _WITHOUT)
    own = identity.new_identity(target)
    with unchanged():
        if not record:
            _copy_shallow(source, pin, target)
            return
        check_may_commit(target, None)  # before the source records a clone
        check_may_put(source, ref_file(TAGS, own.name))
        _protect(source, pin, own.name, target)
    try:
        _copy_shallow(source, pin, target)
    except LanceSparkError:
        if find_latest(target, None) is None or identity.read_identity(target) is not None:  # or another one is there
            clone_records.release(source, own.name)
        raise
    identity.write_identity(target, replace(own, sources=(source.uri,)))


def _protect(source: DatasetLocation, pin: PinnedVersion, name: str, target: DatasetLocation) -> None:
    """Record and tag before the clone exists: a crash in between protects too much and loses nothing."""
    clone_records.write_record(source, name, target, pin)
    refs.create_tag(source, name, pin)


def deep_clone(
    source: DatasetLocation,
    pin: PinnedVersion,
    target: DatasetLocation,
    tell: Tell = untold,
    properties: Mapping[str, str] | None = None,
) -> None:
    """Clone one version with its data. Raises AlreadyExists for a target in use.

    pylance copies without reporting progress: ``tell`` receives the amount to copy at the start and at the end. The
    version that registers base paths for blobs, if there is one, has the properties.
    """
    check_elsewhere(source, "clone it")
    _check_free(target)
    check_nothing_waits(source, pin, _WITHOUT)
    fragments = versions.read_contents(source, pin).fragment_count
    stage = f"copy {counted(fragments, 'fragment')}"
    tell(WorkProgress(stage, 0, fragments))
    _copy_deep(source, pin, target)
    _keep_referred(versions.read_snapshot(source, pin), target, properties or {})
    tell(WorkProgress(stage, fragments, fragments))


def _keep_referred(source: Snapshot, target: DatasetLocation, properties: Mapping[str, str]) -> None:
    """Give the clone the base paths below which blobs may refer to objects: pylance leaves out all of them."""
    bases = [base_path(root, key) for key, root in referred_bases(source).items()]
    if bases:
        with translated(target, "registering base paths"):
            open_latest(target).add_bases(bases, dict(properties))


def _check_free(target: DatasetLocation) -> None:
    if find_latest(target, None) is not None:
        raise AlreadyExists(f"A dataset already exists at {target.uri}.", hint="Choose another target.")


# --- The copies, through pylance


def _copy_shallow(source: DatasetLocation, pin: PinnedVersion, target: DatasetLocation) -> None:
    """A new dataset that shares the source's data files. Both must be in one store; checked by the caller."""
    dataset = open_latest(source)
    given, _ = options_afresh(target)  # pylance does not renew them
    with translated(target, "making a shallow clone"):
        dataset.shallow_clone(target.uri, pin.reference, given)


def _copy_deep(source: DatasetLocation, pin: PinnedVersion, target: DatasetLocation) -> None:
    """A new dataset with copies of the files of one version; the stores can differ.

    Raises Refused for a version on an object store that shares files with another branch or dataset.
    """
    dataset = open_latest(source)
    given, lasting = options_afresh(target)
    if lasting is not None:
        text = (
            f"The credentials of {target.uri} expire in {counted(round(lasting / 60), 'minute')}, and pylance does not "
            "renew them while it copies: the whole clone has to end by then. If it does not, use some that last longer."
        )
        warnings.warn(text, LanceSparkWarning, stacklevel=2)
    with translated(target, "making a deep clone"):
        try:
            dataset.deep_clone(target.uri, pin.reference, given)
        except OSError as problem:
            if "empty path segment" not in str(problem):
                raise
            # pylance 14.0.2 treats the URI of the dataset with the other files as a path; it has written nothing.
            raise Refused(
                f"Version {pin} of {source.uri} uses files of the branch or dataset that it was made from, and pylance "
                "cannot copy those out of an object store.",
                hint="Write its rows: table.to_df().write.format('lance').mode('append').save(target).",
            ) from None
