"""What a file is, by its path, and the name under which versions know it.

The paths are those of https://github.com/lance-format/lance/blob/main/docs/src/format/table/layout.md, and those that
pylance 14.0.2 writes as well: staged manifests, detached versions, version hints, blobs beside data files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from lance_spark.layout.names import BACKFILL, QUARANTINE, STREAMS, UUID, data_key, read_manifest_name

MANIFEST, DATA, BLOB, DELETION, INDEX, TRANSACTION, STAGING = (
    "manifest",
    "data",
    "blob",
    "deletion",
    "index",
    "transaction",
    "staging",
)
BOOKKEEPING = "bookkeeping"
"""Refs, version hints, notes of clones, and what a repair moved away: never deleted, and not reported. And notes for
streams, which are deleted once no stream needs them."""
UNKNOWN = "unknown"
"""Any other file: never deleted, only reported."""
KINDS = (MANIFEST, DATA, BLOB, DELETION, INDEX, TRANSACTION, STAGING)

_STAGED_MANIFEST = re.compile(r"d?\d{1,20}\.manifest[#-].+")
_BLOB_NAME = re.compile(r"[01]{32}\.blob")
_INDEX_ID = re.compile(UUID)
_NO_NAMES = frozenset({"", ".", ".."})
_OWN = ("_refs/", "_clones/", f"{QUARANTINE}/", f"{STREAMS}/", ".lance-git/")


class Named(NamedTuple):
    """What a path is."""

    kind: str
    key: str
    """The path that versions name: the data file of a blob, the directory of an index, else the path itself."""


def classify(path: str) -> Named:
    """What a file is. ``path`` is relative to the root of its chain.

    A path that ends with a slash is an object with which a tool marked a directory. Object stores also have keys with
    empty and dotted parts, which no version names and no file system can tell from other paths.
    """
    directory, _, rest = path.partition("/")
    if directory == "data" and rest.endswith(".lance") and rest[0] != "." and "/" not in rest:
        return Named(DATA, path)  # most files are data files, and need no closer look
    if not _NO_NAMES.isdisjoint(path.split("/")):
        return Named(UNKNOWN, path)
    name = rest.rpartition("/")[2]
    if directory == "data":
        return _in_data(path, rest, name)
    if directory == "_versions":
        return Named(_in_versions(rest), path)
    if directory == "_indices" and "/" in rest:
        identifier = rest.partition("/")[0]
        return Named(INDEX, f"_indices/{identifier}") if _INDEX_ID.fullmatch(identifier) else Named(UNKNOWN, path)
    if directory in ("_cleanup", BACKFILL):
        return Named(STAGING, path)  # records of runs that never ended; after days they prove nothing
    if directory in ("_transactions", "_deletions") and "/" not in rest:
        return Named(_in_flat(directory, rest), path)
    return Named(BOOKKEEPING if path.startswith(_OWN) or path == "_latest.manifest" else UNKNOWN, path)


def _in_data(path: str, rest: str, name: str) -> Named:
    if rest.count("/") == 1 and _BLOB_NAME.fullmatch(name):
        return Named(BLOB, f"data/{rest.partition('/')[0]}.lance")
    if name.startswith(".tmp"):
        return Named(STAGING, path)
    return Named(DATA, data_key(path)) if name.endswith(".lance") else Named(UNKNOWN, path)


def _in_versions(name: str) -> str:
    if read_manifest_name(name) is not None:
        return MANIFEST
    if name.startswith(".tmp") or _STAGED_MANIFEST.fullmatch(name):
        return STAGING
    return BOOKKEEPING if name == "latest_version_hint.json" else UNKNOWN


def _in_flat(directory: str, name: str) -> str:
    if name.startswith(".tmp"):
        return STAGING
    if directory == "_transactions":
        return TRANSACTION if name.endswith(".txn") else UNKNOWN
    return DELETION if name.endswith((".arrow", ".bin")) else UNKNOWN


class Roots:
    """Finds the chain of a dataset that a path belongs to: the chain with the longest root above the path."""

    def __init__(self, roots: Iterable[str]) -> None:
        self._roots = frozenset(root for root in roots if root)
        self._known: dict[str, str] = {}

    def owner(self, path: str) -> str:
        """The root of the chain that a path (relative to the dataset) belongs to; "" for main."""
        directory = path.rpartition("/")[0]
        if directory not in self._known:
            self._known[directory] = self._find(directory)
        return self._known[directory]

    def _find(self, directory: str) -> str:
        while directory and directory not in self._roots:
            directory = directory.rpartition("/")[0]
        return directory
