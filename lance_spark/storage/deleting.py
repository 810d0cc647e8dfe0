"""Deletes files in bulk, and reports the outcome of every single one."""

from __future__ import annotations

import errno
import os
import random
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Literal

from lance_spark.core.location import DatasetLocation
from lance_spark.core.texts import counted
from lance_spark.errors import LanceSparkError, PermissionDenied, StorageFailure
from lance_spark.storage.failures import clean, denial, from_fsspec
from lance_spark.storage.files import THREADS, ask, bucket_and_prefix, reachable, whole_path

BATCH = 1000
"""Maximum files in one batch: as many keys as S3 deletes in one request."""
_TRIES = 6
_BUSY = re.compile(r"SlowDown|InternalError|ServiceUnavailable|Throttl|TooManyRequests|RequestTimeout|5\d\d")
"""Error codes of a key that a retry can resolve."""
_NOT_IN_XML = re.compile("[\x00-\x08\x0b-\x1f\ud800-\udfff\ufffe\uffff]")
"""Characters that a bulk deletion request cannot carry, or its answer cannot return."""


@dataclass(frozen=True)
class Deleted:
    """The outcome of one batch; each file is in exactly one of the three."""

    deleted: tuple[str, ...]
    gone: tuple[str, ...]
    """Files that did not exist: an earlier attempt or another process was faster."""
    failed: tuple[tuple[str, str], ...]
    """Path and the store's reason, without secrets. The file may or may not still exist."""
    denied: Mapping[str, str] = field(default_factory=dict)
    """Of those: by path, what was denied, such as ``s3:DeleteObject on s3://bucket/x.lance/data/ is missing``. The next
    attempt fails in the same way."""


@dataclass(frozen=True)
class _Fate:
    end: Literal["deleted", "gone", "failed"]
    reason: str = ""
    passing: bool = False
    """Whether the reason might be gone by the next attempt."""
    denied: str = ""
    """What was denied; "" for other reasons."""


_DELETED, _GONE = _Fate("deleted"), _Fate("gone")


def delete_batch(location: DatasetLocation, paths: Sequence[str]) -> Deleted:
    """Delete up to :data:`BATCH` files, by their paths relative to the dataset's root.

    A file that cannot be deleted does not stop the others, and no failure is raised: if the store denies everything or
    cannot be reached, all files fail for that reason. S3 does not report missing files: such keys count as deleted. In
    a bucket with versioning, deletion only hides the object.

    Raises ValueError for a longer batch, and for a path that does not lead to a file below the root.
    """
    if len(paths) > BATCH:
        raise ValueError(f"{len(paths)} files exceed the {BATCH} of one batch.")
    unique = tuple(dict.fromkeys(_inside(path) for path in paths))
    if location.is_local:
        fates = _delete_on_disk(location, unique)
    elif location.uri.startswith("s3://"):
        fates = _delete_on_s3(location, unique)
    else:
        fates = _delete_elsewhere(location, unique)
    return Deleted(
        deleted=tuple(path for path in unique if fates[path].end == "deleted"),
        gone=tuple(path for path in unique if fates[path].end == "gone"),
        failed=tuple((path, fates[path].reason) for path in unique if fates[path].end == "failed"),
        denied={path: fates[path].denied for path in unique if fates[path].denied},
    )


def deletion_failure(what: str, ends: Iterable[Deleted], hint: str | None = None) -> StorageFailure | None:
    """The error for files that could not be deleted; None if all could. ``what`` begins its sentence, with a ``{}``.

    The ``{}`` is where their number goes, as in "3 files".
    """
    ended = list(ends)
    failed = [each for end in ended for each in end.failed]
    if not failed:
        return None
    path, reason = failed[0]
    said = f"{what.format(counted(len(failed), 'file'))}, such as {path}: {reason}"
    denied = next((why for end in ended for why in end.denied.values()), "")
    if not denied:
        return StorageFailure(said, hint)
    problem = PermissionDenied(said, hint)
    problem.missing, problem.of_change = denied.removesuffix(" is missing"), True
    return problem


def remove_empty_directories(location: DatasetLocation, directories: Sequence[str]) -> None:
    """Remove the empty ones among the directories, deepest first; object stores have none.

    Raises ValueError as :func:`delete_batch`, StorageFailure for an empty directory that cannot be removed.
    """
    if not location.is_local:
        return
    root = os.path.realpath(location.uri)
    for directory in sorted({_inside(path) for path in directories}, key=lambda path: path.count("/"), reverse=True):
        if not _is_in_place(root, directory):
            continue
        with reachable(location):
            try:
                os.rmdir(whole_path(location, directory))
            except OSError as problem:
                if problem.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT, errno.ENOTDIR):
                    raise


def _inside(path: str) -> str:
    """The path, if it leads to a file below the root."""
    segments = path.split("/")
    if not segments[0] or not segments[-1] or "\0" in path or not {".", ".."}.isdisjoint(segments):
        raise ValueError(f"{path!r} is not the path of a file below the dataset's root.")
    return path


def _delete_on_disk(location: DatasetLocation, paths: Sequence[str]) -> dict[str, _Fate]:
    directories = {path.rpartition("/")[0] for path in paths}
    root = os.path.realpath(location.uri)
    in_place = {directory for directory in directories if _is_in_place(root, directory)}
    return {
        path: _unlinked(location, f"{root}/{path}")
        if path.rpartition("/")[0] in in_place
        else _Fate("failed", "Its directory is reached through a symbolic link.")
        for path in paths
    }


def _unlinked(location: DatasetLocation, path: str) -> _Fate:
    try:
        os.unlink(path)
    except (FileNotFoundError, NotADirectoryError):
        return _GONE
    except (OSError, ValueError) as problem:
        return _fate_of(from_fsspec(problem, location))
    return _DELETED


def _fate_of(problem: LanceSparkError) -> _Fate:
    if not isinstance(problem, PermissionDenied):
        return _Fate("failed", problem.message)
    denied = f"{problem.missing} is missing" if problem.missing else problem.message
    return _Fate("failed", problem.message, denied=denied)


def _is_in_place(root: str, relative: str) -> bool:
    """Whether no symbolic link is on a path below the root: files behind a link might be another dataset's."""
    return os.path.realpath(os.path.join(root, relative)) == os.path.normpath(os.path.join(root, relative))


def _delete_elsewhere(location: DatasetLocation, paths: Sequence[str]) -> dict[str, _Fate]:
    with ThreadPoolExecutor(THREADS) as pool:
        return dict(zip(paths, pool.map(lambda path: _removed(location, path), paths), strict=True))


def _removed(location: DatasetLocation, path: str) -> _Fate:
    try:
        with reachable(location):
            ask(location, lambda store: store.rm_file(whole_path(location, path)))
    except (FileNotFoundError, NotADirectoryError):
        return _GONE
    except LanceSparkError as problem:
        return _fate_of(problem)
    return _DELETED


def _delete_on_s3(location: DatasetLocation, paths: Sequence[str]) -> dict[str, _Fate]:
    # One such key makes S3 reject the whole request, so 999 other files would never be deleted.
    unspeakable = _Fate("failed", "Its name has characters that a request cannot carry.")
    fates = {path: unspeakable for path in paths if _NOT_IN_XML.search(path)}
    waiting = [path for path in paths if path not in fates]
    for attempt in range(_TRIES):
        if not waiting:
            break
        if attempt:
            time.sleep(retry_delay(attempt - 1, random.random()))
        fates.update(_delete_keys(location, waiting))
        waiting = [path for path in waiting if fates[path].passing]
    return fates


def _delete_keys(location: DatasetLocation, paths: Sequence[str]) -> dict[str, _Fate]:
    """One request. s3fs and botocore retry several times before it fails as a whole."""
    bucket, prefix = bucket_and_prefix(location)
    asked = {"Objects": [{"Key": prefix + path} for path in paths], "Quiet": False}
    try:
        with reachable(location):
            answer = ask(location, lambda store: store.call_s3("delete_objects", Bucket=bucket, Delete=asked))
    except LanceSparkError as problem:
        return dict.fromkeys(paths, _fate_of(problem))
    except FileNotFoundError as problem:
        reason = f"The bucket does not exist: {clean(str(problem), location)}"
        return dict.fromkeys(paths, _Fate("failed", reason))
    answers = {entry.get("Key"): _DELETED for entry in answer.get("Deleted", ())}
    answers |= {entry.get("Key"): _refusal(entry, location, prefix) for entry in answer.get("Errors", ())}
    silence = _Fate("failed", "The store did not answer for it.", passing=True)
    return {path: answers.get(prefix + path, silence) for path in paths}


def _refusal(entry: Mapping[str, str], location: DatasetLocation, prefix: str) -> _Fate:
    code = entry.get("Code", "")
    if code == "NoSuchKey":
        return _Fate("gone")
    message = entry.get("Message", "")
    reason = clean(f"{code}: {message}", location)
    asked = clean(f"An error occurred ({code}) when calling the DeleteObject operation: {message}", location)
    missing = denial(asked, location, entry.get("Key", "")[len(prefix) :])
    if missing is not None:
        return _Fate("failed", f"{missing} is missing ({reason})", denied=f"{missing} is missing")
    return _Fate("failed", reason, passing=bool(_BUSY.match(code)))


# --- The pace of deletion, and the delay before a retry
# Pure: the caller has the clock and sleeps.

_FIRST_DELAY = 0.5
_LONGEST_DELAY = 20.0


class Pace:
    """Limits deletion to a number of keys per second: a token bucket that is never ahead by more than one batch."""

    def __init__(self, per_second: float | None) -> None:
        """``per_second`` is keys per second, None for no limit. Raises ValueError for a limit that is not positive."""
        if per_second is not None and not per_second > 0:
            raise ValueError(f"{per_second} keys per second would never end.")
        self._per_second = per_second
        self._paid_until = float("-inf")

    def wait(self, now: float, keys: int) -> float:
        """Seconds to sleep before a batch of that many keys. ``now`` is a monotonic clock's time, in seconds.

        The batch counts as sent. Idle time is not saved up: a burst throttles even a store that was idle for an hour.
        """
        if self._per_second is None:
            return 0.0
        start = max(now, self._paid_until)
        self._paid_until = start + keys / self._per_second
        return start - now


def retry_delay(attempt: int, jitter: float) -> float:
    """Seconds to wait after a failed attempt (0, 1, ...): doubling, and spread by ``jitter`` (0 to 1) over a half.

    Without the spread, all tasks that were throttled together would retry together.
    """
    return min(_FIRST_DELAY * 2.0**attempt, _LONGEST_DELAY) * (1 + jitter) / 2
