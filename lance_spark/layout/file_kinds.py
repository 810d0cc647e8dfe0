"""What a file is, told by its path, and the name under which versions know it.

The paths are those of https://github.com/lance-format/lance/blob/main/docs/src/format/table/layout.md, and those that
pylance 14.0.2 was seen to write besides: staged manifests, detached versions, version hints, blobs beside data files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

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
"""Refs, version hints and notes of clones: never deleted, and not worth a word."""
UNKNOWN = "unknown"
"""Whatever else lies there: never deleted, only reported."""
KINDS = (MANIFEST, DATA, BLOB, DELETION, INDEX, TRANSACTION, STAGING)

_SUFFIX = ".manifest"
_INVERTED_SIZE = 20 + len(_SUFFIX)
_PLAIN = re.compile(r"\d{1,19}\.manifest")
_DETACHED = re.compile(r"d(\d{1,20})\.manifest")
_STAGED_MANIFEST = re.compile(r"d?\d{1,20}\.manifest[#-].+")
_BLOB_NAME = re.compile(r"[01]{32}\.blob")
_HEX = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_HIGHEST = 2**64 - 1
_NO_NAMES = frozenset({"", ".", ".."})
_OWN = ("_refs/", "_clones/", ".lance-git/")


class Named(NamedTuple):
    """What a path is."""

    kind: str
    key: str
    """Path of what versions name: the data file of a blob, the directory of an index, else the path itself."""


class ManifestName(NamedTuple):
    """A manifest's file name, read."""

    version: int
    detached: bool


def manifest_names(version: int) -> tuple[str, str]:
    """The file names that a version's manifest may have: the newer scheme's, which sorts newest first, then the old."""
    return f"{_HIGHEST - version:020}.manifest", f"{version}.manifest"


def read_manifest_name(name: str) -> ManifestName | None:
    """The version a file in ``_versions`` holds; None for what is no finished manifest."""
    if len(name) == _INVERTED_SIZE and name.endswith(_SUFFIX) and name[:20].isdecimal():
        version = _HIGHEST - int(name[:20])
        return ManifestName(version, detached=False) if version >= 0 else None
    if _PLAIN.fullmatch(name):
        return ManifestName(int(name.removesuffix(".manifest")), detached=False)
    if match := _DETACHED.fullmatch(name):
        return ManifestName(int(match[1]), detached=True)
    return None


def classify(path: str) -> Named:
    """What a file is. ``path`` is relative to the root of its chain.

    A path that ends with a slash is an object with which a tool marked a directory. Object stores also have keys with
    empty and dotted parts, which no version names and no file system can tell from other paths.
    """
    directory, _, rest = path.partition("/")
    if directory == "data" and rest.endswith(".lance") and rest[0] != "." and "/" not in rest:
        return Named(DATA, path)  # most files are that, and need no closer look
    if not _NO_NAMES.isdisjoint(path.split("/")):
        return Named(UNKNOWN, path)
    name = rest.rpartition("/")[2]
    if directory == "data":
        return _in_data(path, rest, name)
    if directory == "_versions":
        return Named(_in_versions(rest), path)
    if directory == "_indices" and "/" in rest:
        identifier = rest.partition("/")[0]
        return Named(INDEX, f"_indices/{identifier}") if _HEX.fullmatch(identifier) else Named(UNKNOWN, path)
    if directory == "_cleanup":
        return Named(STAGING, path)  # records of runs that never ended; what they prove is worth nothing after days
    if directory in ("_transactions", "_deletions") and "/" not in rest:
        return Named(_in_flat(directory, rest), path)
    return Named(BOOKKEEPING if path.startswith(_OWN) or path == "_latest.manifest" else UNKNOWN, path)


def _in_data(path: str, rest: str, name: str) -> Named:
    if rest.count("/") == 1 and _BLOB_NAME.fullmatch(name):
        return Named(BLOB, f"data/{rest.partition('/')[0]}.lance")
    if name.startswith(".tmp"):
        return Named(STAGING, path)
    return Named(DATA, data_key(path)) if name.endswith(".lance") else Named(UNKNOWN, path)


def data_key(path: str) -> str:
    """The name under which versions know what lies below ``data/``: pylance escapes a slash in a data file's name."""
    directory, slash, rest = path.partition("/")
    return directory + slash + rest.replace("/", "%2F") if "/" in rest else path


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
    """Tells which chain of a dataset a path belongs to: the one with the longest root above it."""

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
