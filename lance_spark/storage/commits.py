"""Commits through pylance: what a branch accepts, how an own commit is recognized, what a denied one left behind."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from lance_spark import hints
from lance_spark.core.lifetimes import read_lifetime
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import MAIN, PinnedVersion
from lance_spark.core.services import keeps_versions
from lance_spark.core.texts import counted
from lance_spark.errors import (
    Conflict,
    CorruptData,
    LanceSparkError,
    NotFound,
    PermissionDenied,
    Refused,
    StorageFailure,
    may_have_happened,
)
from lance_spark.format.contents import Fragment
from lance_spark.format.transactions import AUTHOR, MESSAGE
from lance_spark.format.versions import ACTION, MERGE, PUBLISH, RELOCATE, REORDERED, TAKE_BACK, Root
from lance_spark.storage import files, refs
from lance_spark.storage.credentials import for_commit, for_pylance, options_now
from lance_spark.storage.datasets import open_latest, pin_version, remember, stamp_of
from lance_spark.storage.failures import translated
from lance_spark.storage.mem_wal import check_nothing_waits
from lance_spark.storage.others import check_commits
from lance_spark.storage.versions import newest_first, read_transactions

if TYPE_CHECKING:
    import lance
    import pyarrow as pa

_UPKEEP = frozenset({"CreateIndex", "Rewrite", "ReserveFragments", "UpdateBases"})
"""Operations of pylance that leave rows, columns and values unchanged for every reader. Compactions and indexes of a
protected branch are allowed: it has many readers, and forbidding its upkeep would only make it slow."""
_ALLOWED = frozenset({MERGE, PUBLISH, RELOCATE, TAKE_BACK})
"""Actions of this package that are allowed, regardless of the operation that carries them."""


# --- Fragments and places in the form of pylance's commit


def base_path(root: Root, base_id: int = 0) -> lance.DatasetBasePath:
    """A place in pylance's form; 0 leaves the id to pylance. Places without a name would clash."""
    import lance

    return lance.DatasetBasePath(root.uri, sha256(root.uri.encode()).hexdigest()[:16], root.is_dataset, base_id)


def fragments_from(fragments: Sequence[Any]) -> list[Any]:
    """Fragments in the form of pylance's commit, from its JSON."""
    from lance.fragment import FragmentMetadata

    return [FragmentMetadata.from_json(json.dumps(entry)) for entry in fragments]


def fragment_json(dataset: lance.LanceDataset, fragment: Fragment) -> dict[str, Any]:
    lance_fragment = dataset.get_fragment(fragment.id)
    if lance_fragment is None:
        raise CorruptData(f"pylance does not find fragment {fragment.id} that the manifest names.")
    result: dict[str, Any] = lance_fragment.metadata.to_json()
    return result


# --- Protection of a branch, looked up when it matters


def check_unprotected(location: DatasetLocation, branch: str | None) -> None:
    """Raise Refused for a branch (None for main) that is protected, and Conflict for one that was deleted meanwhile.

    pylance would commit to the files of a deleted branch, where nobody finds the rows.
    """
    check_commits(location)
    metadata = refs.read_metadata(location, branch)
    if metadata is None:
        raise Conflict(
            f"Branch '{branch}' of {location.uri} has been deleted. Nothing was changed.",
            hint="Run it again, on a branch that exists.",
        )
    if read_lifetime(metadata).protected:
        name = branch or MAIN
        way = hints.of(
            "Write to another branch and merge it. To remove the protection: ", hints.unprotect_branch(name), "."
        )
        raise Refused(f"Branch '{name}' is protected: only merges write to it.", hint=way)


def protected_branches(location: DatasetLocation) -> list[str]:
    """Names of the protected branches, including main. Raises CorruptData for an unreadable ref."""
    main = [MAIN] if read_lifetime(refs.read_main(location)).protected else []
    return main + sorted(name for name, ref in refs.read_branches(location).branches.items() if ref.lifetime.protected)


def check_commit(
    location: DatasetLocation, branch: str | None, operation: object, properties: Mapping[str, str]
) -> None:
    """Raise Refused for an operation that a protected branch does not accept; call it right before the commit.

    A job might run for hours after it was planned, and the protection might be newer.
    """
    check_commits(location)
    upkeep = type(operation).__name__ in _UPKEEP or properties.get(REORDERED) == "true"
    if not upkeep and properties.get(ACTION) not in _ALLOWED:
        check_unprotected(location, branch)


# --- The users' key-value pairs of a dataset, through pylance; each change is a version


def read_table_metadata(location: DatasetLocation, branch: str | None) -> dict[str, str]:
    """The pairs of the newest version of a branch."""
    dataset = open_latest(location, branch)
    with translated(location, "reading the metadata"):
        return dict(dataset.metadata)


def change_table_metadata(location: DatasetLocation, branch: str | None, values: Mapping[str, str | None]) -> None:
    """Set pairs on a branch, and remove those whose value is None. Others stay unchanged."""
    check_unprotected(location, branch)
    dataset = open_latest(location, branch)
    with translated(location, "changing the metadata"):
        dataset.update_metadata(dict(values))


# --- Datasets and versions without rows


def create_dataset(location: DatasetLocation, schema: pa.Schema, **arguments: Any) -> int:
    """Create a dataset with these columns and no rows; returns its first version. Raises AlreadyExists.

    ``arguments`` are pylance's. Unlike a commit, this is not atomic: of two jobs that create the dataset at the same
    time, the later one might win. The other's version stays in the history.
    """
    import lance

    from lance_spark.format.blobs import without_rows  # imports pyarrow, which commands do not wait for

    check_commits(location)
    with translated(location, "creating the dataset"):
        place: dict[str, Any] = {"uri": location.uri, "storage_options": options_now(location)}
        if keeps_versions(location):
            place = for_pylance(location)
        dataset = lance.write_dataset(without_rows(schema), mode="create", **place, **arguments)
    return int(dataset.version)


def overwrite_without_rows(
    location: DatasetLocation, start: PinnedVersion, schema: pa.Schema, message: str | None = None
) -> PinnedVersion:
    """Commit a version with these columns and no rows on top of one that was read; older versions keep theirs.

    Settings, metadata and tags stay; indexes are dropped. Raises Conflict; then nothing was committed.
    """
    import lance

    operation = lance.LanceOperation.Overwrite(schema, [])
    return commit_on(location, start, operation, {MESSAGE: message} if message else None)


# --- Who commits

AUTHOR_VARIABLE = "LANCE_AUTHOR"
"""Environment variable that says who commits, such as ``Anna Berg <anna@example.org>``."""
_LONGEST_AUTHOR = 200


def author() -> str:
    """Who commits; "" if the process does not say.

    There is no default: a job's account is often no person, and some people's names must not be stored. The text is
    made one line and cut rather than refused: it may be the end of a job of hours.
    """
    return " ".join(os.environ.get(AUTHOR_VARIABLE, "").split())[:_LONGEST_AUTHOR]


def authored(properties: Mapping[str, str] | None) -> dict[str, str]:
    by = author()
    return {**({AUTHOR: by} if by else {}), **(properties or {})}


# --- Recognizing one's own commit: a commit whose answer was lost ends as a conflict with itself

CALL = "lance_spark.call"
"""Property of a version: the call that made it."""


def own_properties(message: str | None = None) -> dict[str, str]:
    """Properties for all attempts of one call, which identify its commit."""
    return {CALL: uuid4().hex, **({MESSAGE: message} if message else {})}


def find_own(location: DatasetLocation, read: PinnedVersion, properties: Mapping[str, str]) -> PinnedVersion | None:
    """The version after ``read`` that a call with these properties made; None if there is none.

    Call it after a conflict: a blind retry would append rows twice, or apply an update on top of itself.
    """
    return find_noted(location, read, CALL, properties[CALL])


def find_noted(location: DatasetLocation, read: PinnedVersion, key: str, value: str) -> PinnedVersion | None:
    """The version after ``read`` that records that value of a property; None if there is none."""
    versions = [version for version, _ in newest_first(location, read.branch, above=read.version)]
    for version, transaction in read_transactions(location, read.branch, versions).items():
        if transaction is not None and transaction.properties.get(key) == value:
            return PinnedVersion(read.branch, version)
    return None


# --- The entry of all commits that replace rows, files or indexes: every version since the read one must be visible
# pylance finds conflicts of such a commit in the versions between the one that was read and the newest one. It silently
# skips a version that a cleanup removed in between, and the rows that this version deleted come back.


def commit_on(
    location: DatasetLocation,
    read: PinnedVersion,
    operation: Any,
    properties: Mapping[str, str] | None = None,
    retries: int = 0,
    newest: lance.LanceDataset | None = None,
) -> PinnedVersion:
    """Commit an operation of pylance that was prepared on a version of a branch; returns the new version.

    ``retries`` is how often pylance retries if another commit took the number meanwhile. ``newest`` is what
    :func:`open_newest` returned a moment ago.

    Raises Refused for an operation that a protected branch does not accept, and Conflict if a version committed since
    then cannot be combined with the operation, or is missing, or if the version that was read was replaced; then
    nothing was committed.
    """
    import lance
    from lance.dataset import Transaction

    said = authored(properties)
    newest = newest or open_newest(location, read)
    check_commit(location, read.branch, operation, properties or {})
    if isinstance(operation, lance.LanceOperation.Overwrite):
        check_nothing_waits(location, read, "after an overwrite nothing would find them")
    with seen_whole(location, read), translated(location, "committing"):
        # On a handle: for a URI, pylance would list and read the newest version a second time.
        dataset = lance.LanceDataset.commit(
            newest,
            Transaction(read.version, operation, transaction_properties=said),
            **for_commit(location),
            max_retries=retries,
        )
    made = remember(location, read.branch, dataset)
    return PinnedVersion(read.branch, made.version)


def open_newest(location: DatasetLocation, read: PinnedVersion, alone: bool = False) -> lance.LanceDataset:
    """The newest version right now, if a commit that was prepared on ``read`` may go on top of it.

    With ``alone``, that must be ``read`` itself: nothing that was committed since is combined with the commit.
    Always asks the store: what an action has seen before, or a handle that it keeps, may be seconds or hours old, and
    the commit would go on top of a dataset that was replaced or whose versions were cleaned up since. If the newest
    version is the one that was read, that one look shows all of it. Raises Conflict.
    """
    check_commits(location)  # asks the store once: between the look and the commit, others would have time to commit
    try:
        newest = open_latest(location, read.branch)
    except NotFound:
        if read.stamp is not None:
            check_still_there(location, read)
        raise
    if int(newest.version) == read.version and read.stamp in (None, stamp_of(newest)):
        return newest
    _check_all_there(location, read)
    if alone:
        raise Conflict(f"Version {read} of {location.uri} is no longer the newest.", hint="Run it again.")
    return newest


@contextmanager
def seen_whole(location: DatasetLocation, read: PinnedVersion) -> Iterator[None]:
    """Wraps a commit: raises Conflict if pylance did not find a version that it lists, as a cleanup deleted it since.

    Such a commit ended as "Dataset ... was not found", which no job takes for a reason to try again.
    """
    try:
        yield
    except NotFound:
        _check_all_there(location, read)
        raise


def _check_all_there(location: DatasetLocation, read: PinnedVersion) -> None:
    """Raise Conflict if the version that was read, or a newer one, is gone or belongs to another dataset."""
    if read.stamp is not None:
        check_still_there(location, read)
    check_nothing_missing(location, read)


def check_still_there(location: DatasetLocation, start: PinnedVersion) -> None:
    """Raise Conflict if the version that a job started from is gone, or now belongs to another dataset.

    Into a dataset recreated at the same place, pylance would commit files that were deleted with the old dataset.
    """
    try:
        same = pin_version(location, start.branch, start.version) == start
    except NotFound:
        same = False
    if not same:
        raise Conflict(
            f"Version {start} of {location.uri}, which the job started from, no longer exists: it was cleaned up, or "
            "its branch or the whole dataset was deleted.",
            hint="Run it again.",
        )


def check_nothing_missing(location: DatasetLocation, read: PinnedVersion) -> None:
    """Raise Conflict if a version between the one that was read and the newest one no longer exists."""
    newer = [version for version, _ in newest_first(location, read.branch, above=read.version)]
    missing = sorted({*range(read.version + 1, max(newer, default=0))}.difference(newer))
    if missing:
        few = ", ".join(map(str, missing[:5])) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
        raise Conflict(
            f"Version {few} of branch '{read.branch or MAIN}' of {location.uri} was committed and cleaned up since "
            f"version {read.version} was read, so its changes are unknown. Nothing was changed.",
            hint=hints.of(
                "Run it again. Let cleanups keep the versions of the longest job: ",
                hints.COMMIT_WINDOW,
                " (1d by default).",
            ),
        )


def check_written(location: DatasetLocation, branch: str | None, written: Iterable[str]) -> None:
    """Raise Conflict if files that a job wrote for its commit, below the branch's root, were deleted since.

    A cleanup deletes files that no version names once they are old enough. Where a job takes longer than that, its
    commit would succeed, with rows that nobody can read. Call it before looking for the newest version: the requests
    take time in which others commit.
    """
    root = DatasetLocation(location.branch_uri(branch), location.options)
    paths = list(written)
    missing = files.each(root, partial(_is_gone, root), paths)
    gone = [path for path, is_gone in zip(paths, missing, strict=True) if is_gone]
    if gone:
        raise Conflict(
            f"Of {counted(len(paths), 'file')} that this job wrote to {root.uri}, {len(gone)} "
            f"{'is' if len(gone) == 1 else 'are'} gone, such as {gone[0]}: the job took longer than a cleanup keeps "
            "files that no version names. Nothing was changed.",
            hint=hints.of(
                "Run it again. Let cleanups keep such files for longer than the longest job: ",
                hints.UNVERIFIED_AGE,
                " (7d by default).",
            ),
        )


def _is_gone(root: DatasetLocation, path: str) -> bool:
    try:
        return not files.exists(root, path)
    except StorageFailure:
        return False  # inconclusive: don't discard hours of work for one denied or throttled request


def data_paths(fragments: Iterable[str]) -> list[str]:
    """Paths of the data files of fragments, given as pylance's JSON, that are in the branch's own directory."""
    written = (file for entry in fragments for file in json.loads(entry)["files"])
    return [f"data/{file['path']}" for file in written if file.get("base_id") is None]


# --- Retries after losing to another process, and the pauses between them

_ATTEMPTS = 50
_LONGEST_PAUSE = 0.5
"""Seconds in which other processes can finish their commits."""


def attempts() -> Iterator[int]:
    """The number of remaining attempts, down to 0, with pauses in between."""
    for attempt in range(_ATTEMPTS):
        yield _ATTEMPTS - 1 - attempt
        time.sleep(random.uniform(0, min(_LONGEST_PAUSE, 0.01 * 2**attempt)))


def commit_once(
    location: DatasetLocation,
    head: PinnedVersion,
    properties: Mapping[str, str],
    left: int,
    commit: Callable[[], PinnedVersion],
) -> PinnedVersion | None:
    """The version that ``commit`` made on top of ``head``; None if another process was faster and a retry is due.

    A commit whose answer was lost ends as a conflict with itself; ``properties`` identify it. Raises Conflict after the
    last attempt, with ``left`` at 0.
    """
    try:
        return commit()
    except Conflict:
        own = find_own(location, head, properties)
        if own is None and not left:
            raise
        return own


def overtaken(branch: str | None, outcome: str = "nothing was changed") -> Conflict:
    return Conflict(f"Other processes kept committing to '{branch or MAIN}'; {outcome}.", hint="Run it again.")


# --- The outcome in the error of a denied verb: nothing changed, or leftovers and their removal

UNCHANGED = "Nothing was changed."


@contextmanager
def unchanged() -> Iterator[None]:
    """Wraps one change that no other change precedes: if it is denied, the error reports that nothing was changed.

    A denied read is not reported that way: it might have come after the change.
    """
    try:
        yield
    except PermissionDenied as denied:
        raise (denied.saying(UNCHANGED) if denied.of_change else denied) from None


def left_after(undo: Callable[[], object], what: str, until: str = "a cleanup takes them") -> str:
    """Undo the work before a denied step; returns the outcome for the error.

    ``what`` names the leftovers if the undo is also denied, such as "files that were written", and ``until`` their
    removal. No version may name them.
    """
    try:
        undo()
    except LanceSparkError as failure:
        missing = failure.missing if isinstance(failure, PermissionDenied) else None
        why = failure.message if missing is None else f"{missing} is missing"
        return f"No version, branch or tag was changed, but {what} are left, as {why}: {until}."
    return UNCHANGED


@contextmanager
def undone_on_failure(undo: Callable[[], object], what: str) -> Iterator[None]:
    """After an error, delete the files of a commit, unless it may have succeeded despite the error: then they stay.

    ``what`` names the files that are left if a permission is missing, such as "files that were written".
    """
    try:
        yield
    except LanceSparkError as failure:
        if isinstance(failure, PermissionDenied) and failure.before_commit:
            raise failure.saying(left_after(undo, what)) from None
        if not may_have_happened(failure):
            with suppress(StorageFailure):  # the first error is more useful
                undo()
        raise
