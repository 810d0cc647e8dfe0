"""Datasets through pylance: location, versions, configuration, permissions, columns of a new one.

``lance`` is imported inside functions: Spark forks its Python workers.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING

from lance_spark import hints
from lance_spark.core.layout import read_manifest_name, versions_directory
from lance_spark.core.location import DatasetLocation, canonical_uri, check_scheme, is_relative, refused_relative
from lance_spark.core.ref_names import missing_version
from lance_spark.core.refs import PinnedVersion, VersionInfo
from lance_spark.core.services import keeps_versions
from lance_spark.core.storage_options import PREFIX, settled_endpoint
from lance_spark.errors import Conflict, CorruptData, InvalidOption, NotFound, PermissionDenied, StorageFailure
from lance_spark.storage import files
from lance_spark.storage.credentials import again_if_refused, dataset_at, versions_of_catalog
from lance_spark.storage.failures import OPENING, translated
from lance_spark.storage.files import bucket_and_prefix, open_filesystem, reachable
from lance_spark.storage.vended import provider_of, times_refused

if TYPE_CHECKING:
    import lance

_MAX_OPEN = 8
_Key = tuple[DatasetLocation, PinnedVersion, int]
_open: OrderedDict[_Key, lance.LanceDataset] = OrderedDict()
"""Handles by place, version, and how often the store has refused what opened the place: it takes none from before."""
_lock = threading.Lock()


def open_latest(location: DatasetLocation, branch: str | None = None) -> lance.LanceDataset:
    """The newest version of a branch. Raises NotFound if there is no dataset."""
    try:
        with translated(location, OPENING):
            dataset = again_if_refused(location, lambda: dataset_at(location, location.branch_uri(branch)))
    except NotFound as missing:
        if branch is None:
            _check_none_kept(location)
            raise
        raise NotFound(
            f"Branch '{branch}' of {location.uri} has no versions.",
            hint="Unless it was just deleted, its files below tree/ are lost; delete the branch and create it again.",
        ) from missing
    return _sound(location, dataset)


def _check_none_kept(location: DatasetLocation) -> None:
    """Raise CorruptData if a catalog has versions of a dataset that is not there: a write must not begin a new one."""
    versions = versions_of_catalog(location) if keeps_versions(location) else []
    if versions:
        raise CorruptData(
            f"The catalog names version {versions[0]} of {location.uri}, whose manifest is not there.",
            hint="Nothing was written. Restore the file in the store, or have the version removed from the catalog.",
        )


def base_of_commit(location: DatasetLocation, branch: str | None) -> str | lance.LanceDataset:
    """What pylance is to commit on: the URI of a branch, or a handle on it if its keys expire.

    For a URI pylance looks for the newest version itself, and takes the keys that it has at its start to the end.
    """
    if provider_of(location) is None:
        return location.branch_uri(branch)
    return open_latest(location, branch)


def pin_latest(location: DatasetLocation, branch: str | None) -> PinnedVersion:
    """The newest version of a branch, stamped. Raises NotFound if there is no dataset."""
    return remember(location, branch, open_latest(location, branch))


def open_for_refs(location: DatasetLocation) -> lance.LanceDataset:
    """A handle of its own on main, of any version, for pylance's changes of branches and tags.

    Those read the store anew for each change, whatever version the handle is at. So a version that this process has
    open serves, which saves two requests. It is copied: pylance locks a handle to one thread during a change. Raises
    NotFound if there is no dataset.
    """
    with _lock:
        wanted = location, times_refused(location)
        known = next((kept for (at, pin, no), kept in _open.items() if (at, no) == wanted and pin.branch is None), None)
    return open_latest(location) if known is None else known.checkout_version(known.version)  # sends no request


def find_latest(location: DatasetLocation, branch: str | None) -> PinnedVersion | None:
    """The newest version of a branch, stamped; None if the store reports that there is no dataset."""
    try:
        return pin_latest(location, branch)
    except NotFound:
        return None


def pin_version(location: DatasetLocation, branch: str | None, version: int) -> PinnedVersion:
    """One version of a branch, stamped. Raises NotFound, with the nearest versions, if it does not exist."""
    return remember(location, branch, _open_version(location, PinnedVersion(branch, version)))


def open_pinned(location: DatasetLocation, pin: PinnedVersion) -> lance.LanceDataset:
    """A stamped version, opened once per process: later calls share the handle and its caches.

    Raises NotFound for a missing version, and Conflict for one that now belongs to another dataset.
    """
    with _lock:
        key = location, pin, times_refused(location)
        if key in _open:
            _open.move_to_end(key)
            return _open[key]
    dataset = open_own(location, pin)
    if pin.stamp is not None:
        _keep(location, pin, dataset)
    return dataset


def open_own(location: DatasetLocation, pin: PinnedVersion) -> lance.LanceDataset:
    """A stamped version through its own handle: pylance locks a handle to one thread while that builds an index.

    Raises as open_pinned.
    """
    dataset = _open_version(location, pin)
    if pin.stamp not in (None, stamp_of(dataset)):
        raise Conflict(
            f"The dataset at {location.uri} was replaced by another dataset since version {pin} was looked up.",
            hint="Load it again.",
        )
    return dataset


def remember(location: DatasetLocation, branch: str | None, dataset: lance.LanceDataset) -> PinnedVersion:
    """The version of a handle on a branch, stamped; :func:`open_pinned` shares the handle from now on."""
    pin = PinnedVersion(branch, int(dataset.version), stamp_of(dataset))
    _keep(location, pin, dataset)
    return pin


def _keep(location: DatasetLocation, pin: PinnedVersion, dataset: lance.LanceDataset) -> None:
    with _lock:
        _open[location, pin, times_refused(location)] = dataset
        while len(_open) > _MAX_OPEN:
            _open.popitem(last=False)


def summarise(location: DatasetLocation, pin: PinnedVersion) -> VersionInfo:
    """Commit time and pylance's summary of one version, from its manifest; no other manifest is read."""
    dataset = open_pinned(location, pin)
    with translated(location, f"summing up {pin}"):
        manifest = dataset._ds.current_version()
    moment = datetime.fromtimestamp(int(manifest["timestamp"]) / 1e9, timezone.utc)
    return VersionInfo(pin.version, moment, dict(manifest["metadata"]))


def stamp_of(dataset: lance.LanceDataset) -> int:
    """The commit time of the version of a handle, as in a pin."""
    # The public versions() gives the same number, but reads the manifests of the whole history.
    return int(dataset._ds.current_version()["timestamp"])


def _open_version(location: DatasetLocation, pin: PinnedVersion) -> lance.LanceDataset:
    try:
        with translated(location, OPENING):
            opened = partial(dataset_at, location, location.branch_uri(pin.branch), version=pin.version)
            dataset = again_if_refused(location, opened)
    except NotFound:
        known = list_version_numbers(location, pin.branch)
        raise missing_version(pin.version, pin.branch, known) from None
    return _sound(location, dataset)


def _sound(location: DatasetLocation, dataset: lance.LanceDataset) -> lance.LanceDataset:
    """The dataset, unless its manifest is empty: pylance reads a file of zeros as version 0 without rows."""
    if dataset.version > 0:
        return dataset
    raise CorruptData(
        f"A manifest of {location.uri} is empty.",
        hint=hints.of("Read an older version, ", hints.READ_VERSION, "; or restore the file."),
    )


def list_version_numbers(location: DatasetLocation, branch: str | None) -> list[int]:
    """The version numbers of a branch, ascending; one listing, no manifest is read."""
    settle(location, branch)
    dataset = open_latest(location, branch)
    with translated(location, "listing versions"):
        return sorted(int(ref["version"]) for ref in dataset.version_refs())


def list_versions(location: DatasetLocation, branch: str | None) -> list[VersionInfo]:
    """A branch's history, oldest first. Reads every manifest, like pylance's ``versions``."""
    settle(location, branch)
    dataset = open_latest(location, branch)
    with translated(location, "reading the version history"):
        versions = dataset.versions()
    return [
        VersionInfo(int(entry["version"]), _utc(entry["timestamp"]), dict(entry["metadata"]))
        for entry in sorted(versions, key=lambda entry: int(entry["version"]))
    ]


def settle(location: DatasetLocation, branch: str | None, above: int = 0) -> None:
    """Let each version of a table whose catalog keeps them have its manifest in the directory, from ``above`` on.

    A catalog may leave the manifest of a commit under the name that its writer gave it. Whoever opens that version
    puts a copy in its place, so that a listing of the directory shows all of them.
    """
    if branch is not None or not keeps_versions(location):
        return
    with translated(location, "reading the versions that the catalog keeps"):
        kept = versions_of_catalog(location, above)
    found = (read_manifest_name(name) for name in files.list_names(location, versions_directory(None)))
    there = {name.version for name in found if name is not None and not name.detached}
    for version in kept:
        if version not in there:
            with translated(location, f"opening version {version}"):
                dataset_at(location, location.uri, version=version)


def _utc(moment: datetime) -> datetime:
    # pylance returns local wall-clock time without a zone; compared as UTC it is hours off.
    return moment.astimezone(timezone.utc)


def restore(location: DatasetLocation, pin: PinnedVersion) -> int:
    """Commit the pinned version as the newest one of its branch; returns the new number."""
    dataset = _open_version(location, pin)  # not the shared handle: restore moves the handle that it is called on
    with translated(location, f"restoring {pin}"):
        dataset.restore()
    return int(dataset.version)


# --- User input to a location
# No other code asks the local file system for a real path.

_SESSION = "SPARK_JOB_ARTIFACT_UUID"
"""Environment variable with the session whose artifacts a Python process uses; "default" in classic sessions."""


def in_a_server() -> bool:
    """Whether this is a Python process of a Spark Connect server.

    Spark runs it in a temporary directory of the session. It does the same for a classic session with artifacts.
    """
    return os.environ.get(_SESSION, "default") != "default"


def check_absolute(uri: str) -> None:
    """Raise InvalidOption for a relative path on a server, whose working directory is arbitrary."""
    if is_relative(uri) and in_a_server():
        raise refused_relative(uri)


def check_typed(uri: str) -> None:
    """Raise InvalidOption for input that leads nowhere: an unknown scheme, a relative path on a server."""
    check_scheme(uri)
    check_absolute(uri)


def locate_typed(uri: str, storage_options: Mapping[str, str] | None = None) -> DatasetLocation:
    """The canonical location of user input. Raises as :func:`check_typed` and :func:`locate`."""
    check_typed(uri)
    return locate(uri, storage_options)


def locate(uri: str, storage_options: Mapping[str, str] | None = None) -> DatasetLocation:
    """The canonical location of a dataset; see :func:`lance_spark.core.location.canonical_uri`.

    A key may have the prefix that it has as an option of Spark: pylance would ignore ``storage.allow_http``.
    """
    if not isinstance(storage_options, Mapping | None):
        raise InvalidOption(
            f"storage_options must be a dict, not {type(storage_options).__name__}.",
            hint="Name what it is, as in for_path(uri, spark=spark) or for_path(uri, branch='exp').",
        )
    canonical = canonical_uri(uri, os.path.realpath)
    options = {key.removeprefix(PREFIX): value for key, value in (storage_options or {}).items()}
    return DatasetLocation.at(canonical, settled_endpoint(options) if canonical.startswith("s3://") else options)


# --- A dataset's configuration, through pylance; each change is a version


def update_config(location: DatasetLocation, branch: str | None, values: Mapping[str, str]) -> None:
    dataset = open_latest(location, branch)
    with translated(location, "changing the configuration"):
        dataset.update_config(dict(values))


def delete_config(location: DatasetLocation, branch: str | None, keys: Iterable[str]) -> None:
    """Remove keys from a branch; keys that are not set do not matter."""
    dataset = open_latest(location, branch)
    with translated(location, "changing the configuration"):
        present = [key for key in keys if key in dataset.config()]
        if present:
            dataset.delete_config_keys(present)


# --- Checking permissions without writing a file

_NEVER = "permission.manifest"
"""A name that no version's manifest can have."""


def check_may_commit(location: DatasetLocation, branch: str | None) -> None:
    """Raise PermissionDenied if no version of a branch can be written, if the store can answer that: on S3.

    A verb that writes other files before its commit calls this first, so a denial leaves nothing behind.
    """
    check_may_put(location, f"{versions_directory(branch)}/{_NEVER}")


def check_may_put(location: DatasetLocation, path: str) -> None:
    """Raise PermissionDenied if a file below the location cannot be written, if the store can answer that.

    Starting and aborting a multipart upload needs the same permission as the file, and creates none.
    """
    if not location.uri.startswith("s3://"):
        return
    bucket, prefix = bucket_and_prefix(location)
    target = {"Bucket": bucket, "Key": prefix + path}
    filesystem = open_filesystem(location)
    try:
        with reachable(location, path):
            begun = filesystem.call_s3("create_multipart_upload", **target)
    except PermissionDenied:
        raise
    except (StorageFailure, FileNotFoundError):
        return  # the operation itself will fail, and report it with its own message
    with suppress(StorageFailure, FileNotFoundError), reachable(location, path):
        # If aborting is denied, an upload without parts remains, which holds nothing and appears in no listing.
        filesystem.call_s3("abort_multipart_upload", UploadId=begun["UploadId"], **target)
