"""What may be committed to a protected branch. Pure."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from lance_spark import hints
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import MAIN, Branch, PinnedVersion, RefTable, read_lifetime
from lance_spark.core.tracking import Follows, following_name, read_follows
from lance_spark.errors import Conflict, CorruptData, LanceSparkError, NotFound, PermissionDenied, Refused
from lance_spark.format.contents import Fragment
from lance_spark.format.transactions import MESSAGE
from lance_spark.format.versions import ACTION, MERGE, RELOCATE, REORDERED, Root
from lance_spark.storage import refs
from lance_spark.storage.datasets import open_latest, pin_version
from lance_spark.storage.failures import translated
from lance_spark.storage.refs import read_branches, read_main, read_metadata
from lance_spark.storage.resolving import check_branch
from lance_spark.storage.versions import newest_first, read_transactions

if TYPE_CHECKING:
    import lance
    import pyarrow as pa

_UPKEEP = frozenset({"CreateIndex", "Rewrite", "ReserveFragments", "UpdateBases"})
"""Operations of pylance after which every reader finds the same rows, columns and values. Compactions and indexes of a
protected branch are allowed: it is the one that many read, and forbidding its upkeep would only make it slow."""
_ALLOWED = frozenset({MERGE, RELOCATE})
"""Actions of ours that are allowed, whichever operation carries them."""


def may_commit(operation: object, properties: Mapping[str, str]) -> bool:
    """Whether a protected branch takes an operation of pylance with these transaction properties."""
    upkeep = type(operation).__name__ in _UPKEEP or properties.get(REORDERED) == "true"
    return upkeep or properties.get(ACTION) in _ALLOWED


def protected_refused(branch: str | None, what: str = "only merges write to it") -> Refused:
    """The error for whoever changes a protected branch."""
    name = branch or MAIN
    return Refused(
        f"Branch '{name}' is protected: {what}.",
        hint=hints.of(
            "Write to another branch and merge it. If the protection has to go: ", hints.unprotect_branch(name), "."
        ),
    )


# --- Fragments and places as pylance takes them in a commit


def base_path(root: Root, base_id: int = 0) -> lance.DatasetBasePath:
    """A place as pylance registers it; 0 leaves the id to pylance. Places without a name would clash."""
    import lance

    return lance.DatasetBasePath(root.uri, sha256(root.uri.encode()).hexdigest()[:16], root.is_dataset, base_id)


def fragments_from(fragments: Sequence[Any]) -> list[Any]:
    """Fragments as pylance's commit takes them, from its JSON."""
    from lance.fragment import FragmentMetadata

    return [FragmentMetadata.from_json(json.dumps(entry)) for entry in fragments]


def fragment_json(dataset: lance.LanceDataset, fragment: Fragment) -> dict[str, Any]:
    """A fragment as pylance's JSON."""
    lance_fragment = dataset.get_fragment(fragment.id)
    if lance_fragment is None:
        raise CorruptData(f"pylance does not find fragment {fragment.id} that the manifest names.")
    result: dict[str, Any] = lance_fragment.metadata.to_json()
    return result


# --- Whether a branch is protected, looked up at the moment it matters


def check_unprotected(location: DatasetLocation, branch: str | None) -> None:
    """Raise Refused for a branch (None for main) that is protected. One that does not exist passes."""
    if read_lifetime(read_metadata(location, branch) or {}).protected:
        raise protected_refused(branch)


def protected_branches(location: DatasetLocation) -> list[str]:
    """Names of the protected branches, main among them. Raises CorruptData for a ref that cannot be understood."""
    main = [MAIN] if read_lifetime(read_main(location)).protected else []
    return main + sorted(name for name, ref in read_branches(location).branches.items() if ref.lifetime.protected)


def check_commit(
    location: DatasetLocation, branch: str | None, operation: object, properties: Mapping[str, str]
) -> None:
    """Raise Refused for an operation that a protected branch does not take; right before it is committed.

    A job may run for hours after it was planned. The protection may have come meanwhile.
    """
    if not may_commit(operation, properties):
        check_unprotected(location, branch)


# --- The key-value pairs that users keep with a dataset, through pylance; each change is a version


def read_table_metadata(location: DatasetLocation, branch: str | None) -> dict[str, str]:
    """The pairs of the newest version of a branch."""
    dataset = open_latest(location, branch)
    with translated(location, "reading the metadata"):
        return dict(dataset.metadata)


def change_table_metadata(location: DatasetLocation, branch: str | None, values: Mapping[str, str | None]) -> None:
    """Set pairs on a branch, and remove those whose value is None. Others stay as they are."""
    check_unprotected(location, branch)
    dataset = open_latest(location, branch)
    with translated(location, "changing the metadata"):
        dataset.update_metadata(dict(values))


# --- Creates datasets, and versions, without rows, through pylance


def create_dataset(location: DatasetLocation, schema: pa.Schema, **arguments: Any) -> int:
    """Create a dataset with these columns and no rows; returns its first version. Raises AlreadyExists.

    ``arguments`` are pylance's. This is not atomic as a commit is: of two jobs that create the dataset at the same
    time, the later one may win. The other's version stays in the history.
    """
    import lance

    with translated(location, "creating the dataset"):
        dataset = lance.write_dataset(
            schema.empty_table(), location.uri, mode="create", storage_options=location.storage_options, **arguments
        )
    return int(dataset.version)


def overwrite_without_rows(
    location: DatasetLocation, start: PinnedVersion, schema: pa.Schema, message: str | None = None
) -> PinnedVersion:
    """Commit a version with these columns and no rows on one that was read; older versions keep theirs.

    Settings, metadata and tags stay, indexes go. Raises Conflict; then nothing was committed.
    """
    import lance

    operation = lance.LanceOperation.Overwrite(schema, [])
    return commit_on(location, start, operation, {MESSAGE: message} if message else None)


# --- Tells a commit of one's own from those of others: one whose answer was lost ends as a conflict with itself

CALL = "lance_spark.call"
"""Property of a version: which call made it."""


def own_properties(message: str | None = None) -> dict[str, str]:
    """Properties for all attempts of one call, by which its commit is known."""
    return {CALL: uuid4().hex, **({MESSAGE: message} if message else {})}


def find_own(location: DatasetLocation, read: PinnedVersion, properties: Mapping[str, str]) -> PinnedVersion | None:
    """The version after ``read`` that a call with these properties made; None if there is none.

    To be asked after a conflict: tried again, rows would be appended twice, or an update made on top of itself.
    """
    return find_noted(location, read, CALL, properties[CALL])


def find_noted(location: DatasetLocation, read: PinnedVersion, key: str, value: str) -> PinnedVersion | None:
    """The version after ``read`` whose writer noted that value of a property; None if there is none."""
    versions = [version for version, _ in newest_first(location, read.branch, above=read.version)]
    for version, transaction in read_transactions(location, read.branch, versions).items():
        if transaction is not None and transaction.properties.get(key) == value:
            return PinnedVersion(read.branch, version)
    return None


# --- The one door for commits that replace rows, files or indexes: no version since the one that was read is unseen
# pylance finds conflicts of such a commit in the versions between the one that was read and the newest one. A version
# that a cleanup removed in between is silently skipped, and the rows that it deleted come back.


def commit_on(
    location: DatasetLocation,
    read: PinnedVersion,
    operation: Any,
    properties: Mapping[str, str] | None = None,
    retries: int = 0,
) -> PinnedVersion:
    """Commit an operation of pylance that was prepared on a version of a branch; returns the new version.

    ``retries`` is how often pylance tries again when another commit took the number meanwhile.

    Raises Refused for what a protected branch does not take, and Conflict when a version committed since then cannot be
    combined with the operation, or is missing, or when the version that was read was replaced; then nothing was
    committed.
    """
    import lance
    from lance.dataset import Transaction

    if read.stamp is not None:
        check_still_there(location, read)
    check_nothing_missing(location, read)
    check_commit(location, read.branch, operation, properties or {})
    with translated(location, "committing"):
        dataset = lance.LanceDataset.commit(
            location.branch_uri(read.branch),
            Transaction(read.version, operation, transaction_properties=dict(properties or {})),
            storage_options=location.storage_options,
            max_retries=retries,
        )
    return PinnedVersion(read.branch, int(dataset.version))


def check_still_there(location: DatasetLocation, start: PinnedVersion) -> None:
    """Raise Conflict when the version that a job started from is gone, or now belongs to another dataset.

    Into a dataset that was created again in the same place, pylance would commit files that went with the old dataset.
    """
    try:
        same = pin_version(location, start.branch, start.version) == start
    except NotFound:
        same = False
    if not same:
        raise Conflict(
            f"Version {start} of {location.uri}, which the job started from, is not there any more: it was cleaned "
            "up, or its branch or the whole dataset was deleted.",
            hint="Run it again.",
        )


def check_nothing_missing(location: DatasetLocation, read: PinnedVersion) -> None:
    """Raise Conflict if a version between the one that was read and the newest one is not there any more."""
    newer = [version for version, _ in newest_first(location, read.branch, above=read.version)]
    missing = sorted({*range(read.version + 1, max(newer, default=0))}.difference(newer))
    if missing:
        few = ", ".join(map(str, missing[:5])) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
        raise Conflict(
            f"Version {few} of branch '{read.branch or MAIN}' of {location.uri} was committed and cleaned up since "
            f"version {read.version} was read: what it changed is not known. Nothing was changed.",
            hint=hints.of(
                "Run it again. Let cleanups keep the versions of the longest job: ",
                hints.COMMIT_WINDOW,
                " (1d by default).",
            ),
        )


# --- How often a commit is tried again after another process was faster, and how long the pauses are

_ATTEMPTS = 50
_LONGEST_PAUSE = 0.5
"""Seconds; other processes are given the time to finish their commits."""


def attempts() -> Iterator[int]:
    """How many more attempts there are, down to 0, with pauses in between."""
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
    """The version that ``commit`` made on top of ``head``; None if others were faster and it is to be tried again.

    A commit whose answer was lost ends as a conflict with itself: ``properties`` tell it from those of others. Raises
    Conflict after the last attempt, of which ``left`` is 0.
    """
    try:
        return commit()
    except Conflict:
        own = find_own(location, head, properties)
        if own is None and not left:
            raise
        return own


def overtaken(branch: str | None, outcome: str = "nothing was changed") -> Conflict:
    """The error after the last attempt."""
    return Conflict(
        f"Other processes committed to '{branch or MAIN}' again and again; {outcome}.", hint="Run it again."
    )


# --- What a verb says that was denied: that nothing was changed, or what is left and who takes it away

UNCHANGED = "Nothing was changed."


@contextmanager
def unchanged() -> Iterator[None]:
    """One change, before which nothing was changed: if it is denied, the error says that nothing was.

    Not where something could not be read: that may have been after the change.
    """
    try:
        yield
    except PermissionDenied as denied:
        raise (denied.saying(UNCHANGED) if denied.of_change else denied) from None


def left_after(undo: Callable[[], object], what: str, until: str = "a cleanup takes them") -> str:
    """Take back what was done before a step that was denied; returns what the error is to say of it.

    ``what`` names what stays if not even that is allowed, such as "files that were written", and ``until`` who takes it
    then. It has to be something that no version names.
    """
    try:
        undo()
    except LanceSparkError as failure:
        missing = failure.missing if isinstance(failure, PermissionDenied) else None
        why = failure.message if missing is None else f"{missing} is missing"
        return f"No version, branch or tag was changed, but {what} are left, as {why}: {until}."
    return UNCHANGED


# --- Which remotes a dataset knows by the branches that follow them, and which branches only a fetch writes to

ORIGIN = "origin"
"""What people call the remote that a dataset was cloned from."""


def following(table: RefTable) -> dict[str, Follows]:
    """What branches follow, by their own names."""
    known = ((branch.name, read_follows(branch)) for branch in table.branches.values())
    return {name: follows for name, follows in known if follows is not None}


def known_remotes(table: RefTable) -> dict[str, str]:
    """URIs of the remotes that branches follow, by name: that of the branch with the newest version fetched."""
    newest = sorted(following(table).values(), key=lambda follows: follows.stamp)
    return {follows.remote: follows.uri for follows in newest}


def check_own(location: DatasetLocation, branch: str | None) -> None:
    """Raise Refused for a branch that follows a remote's branch. A branch that does not exist passes."""
    ref = None if branch is None else refs.read_branch(location, branch)
    if ref is not None:
        _check_no_follower(ref)


def check_writable(location: DatasetLocation, branch: str | None) -> None:
    """Raise NotFound for a branch that does not exist, Refused for one that follows a remote's, or is protected."""
    check_mergeable(location, branch)
    check_unprotected(location, branch)


def check_mergeable(location: DatasetLocation, branch: str | None) -> None:
    """As check_writable, for merges and for upkeep that leaves all rows as they are: a protected branch takes those."""
    ref = None if branch is None else refs.read_branch(location, branch)
    if ref is None:
        check_branch(location, branch)
    else:
        _check_no_follower(ref)


def _check_no_follower(branch: Branch) -> None:
    follows = read_follows(branch)
    if follows is not None:
        raise follower_refused(follows, "only a fetch writes to it")


def follower_refused(follows: Follows, why: str) -> Refused:
    """The error for whoever wants to work on a branch that follows a remote's branch."""
    name, short = following_name(follows.remote, follows.branch), follows.branch or MAIN
    return Refused(
        f"'{name}' follows '{short}' of {follows.remote}: {why}.",
        hint=hints.of(hints.own_branch(short, name), " goes to the branch of your own, or makes one."),
    )
