"""From what pylance raises to this package's errors.

pylance raises OSError, ValueError and RuntimeError with a text; which one depends on the call, so the text
decides. Whatever is not recognised is a StorageFailure: "not recognised" must never be read as "absent".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from lance_spark.errors import (
    AlreadyExists,
    Conflict,
    CorruptData,
    InvalidOption,
    LanceSparkError,
    NotFound,
    PermissionDenied,
    StorageFailure,
)
from lance_spark.location import DatasetLocation

_SOURCE_LINE = re.compile(r",? ?(?:location: )?/[^\s,]*\.rs:\d+(?::\d+)?")
_DENIED = re.compile(
    r"\b403\b|access ?denied|permission ?denied|forbidden|unauthenticated|\b401\b|SignatureDoesNot|InvalidAccessKey",
    re.I,
)
_NO_BUCKET = re.compile(r"NoSuchBucket|bucket does not exist", re.I)
_CONFLICT = re.compile(r"conflict|incompatible (?:with concurrent )?transaction|too many concurrent writers", re.I)
_BAD_INPUT = re.compile(r"invalid user input|error parsing statement|no field named|schema error|invalid input", re.I)
_EXISTS = re.compile(r"already exists", re.I)
_UNREACHABLE = re.compile(
    r"generic \w+ error|error sending request|timed? ?out|connection|dns error|builder error", re.I
)
_CORRUPT = re.compile(
    r"corrupt|magic number|file size is too small|invalid range 0\.\.0|failed to decode|protobuf|"
    r"invalid wire|decode error|unexpected end|EOF|missing field|invalid json|expected value at line",
    re.I,
)
_ABSENT = re.compile(r"not found|no such file|does not exist", re.I)
_UNSUPPORTED = re.compile(r"not supported|please upgrade|unsupported", re.I)


@contextmanager
def translated(location: DatasetLocation, doing: str) -> Iterator[None]:
    """Raise this package's error for whatever pylance raises inside; ``doing`` completes "while ..."."""
    try:
        yield
    except LanceSparkError:
        raise
    except (OSError, ValueError, RuntimeError, KeyError, NotImplementedError) as problem:
        raise from_pylance(problem, location, doing) from None


def from_pylance(problem: BaseException, location: DatasetLocation, doing: str) -> LanceSparkError:
    """The error that an exception from pylance amounts to, with secrets and Rust source lines taken out."""
    text = clean(str(problem), location)
    where = f"{location.uri} while {doing}"
    if type(problem).__name__ == "CommitConflictError" or _CONFLICT.search(text):
        return Conflict(
            f"A concurrent commit to {where} cannot be combined with this one: {text}", hint="Run it again."
        )
    if _DENIED.search(text):
        return PermissionDenied(
            f"The store denied access to {where}: {text}",
            hint="Check the credentials (storage.<key> options or the environment) and what they may read and write.",
        )
    if _NO_BUCKET.search(text):
        return NotFound(f"The bucket of {where} does not exist: {text}", hint="Check the bucket name and the endpoint.")
    if _BAD_INPUT.search(text):
        return InvalidOption(f"{text} ({where})")
    if _EXISTS.search(text):
        return AlreadyExists(f"{text} ({where})")
    if _UNREACHABLE.search(text):
        return StorageFailure(
            f"The store could not be reached: {where}: {text}",
            hint="Check the endpoint, the region and, for plain HTTP, storage.allow_http=true.",
        )
    return _absent_or_broken(text, where, doing)


def _absent_or_broken(text: str, where: str, doing: str) -> LanceSparkError:
    if _CORRUPT.search(text):
        return CorruptData(
            f"A file of {where} cannot be read: {text}",
            hint="Read an older version with option('version', ...), or restore the file.",
        )
    if _ABSENT.search(text):
        if doing == OPENING:
            return NotFound(
                f"There is no Lance dataset at {where.removesuffix(' while ' + doing)}.",
                hint="Check the path; a Lance dataset is a directory with a '_versions' directory inside.",
            )
        return NotFound(f"{text} ({where})")
    if _UNSUPPORTED.search(text):
        return CorruptData(f"{text} ({where})", hint="The dataset was written by a newer Lance; upgrade pylance.")
    return StorageFailure(f"Failed at {where}: {text}")


OPENING = "opening the dataset"
"""The ``doing`` of the one step in which "not found" means the dataset itself."""


def clean(text: str, location: DatasetLocation) -> str:
    """The text without Rust source positions and without the value of any storage option that may be secret."""
    for key, value in location.options:
        if len(value) > 3 and re.search(r"key|secret|token|password|credential|sas", key, re.I):
            text = text.replace(value, "***")
    return _SOURCE_LINE.sub("", text).strip().rstrip(".,")
