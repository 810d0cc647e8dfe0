"""The names of files as writers give them: manifests, data and deletion files. Pure.

The names are those of https://github.com/lance-format/lance/blob/main/docs/src/format/table/layout.md.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import quote

from lance_spark.errors import CorruptData

VERSIONS = "_versions"
"""The directory of the manifests, below the root of a branch."""
BACKFILL = "_backfill"
"""The directory of a branch with records of values that were computed and are not committed."""
STREAMS = "_streams"
"""The directory of a branch with notes that cleanups leave for streams, see ``streams.notes``."""
QUARANTINE = "_quarantine"
"""The directory below the dataset's root with what repairs moved away, and with their records."""
UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
"""Pattern of an identifier: the directory of an index, and the old names of data files."""
_HIGHEST = 2**64 - 1
_SUFFIX = ".manifest"
_INVERTED = re.compile(r"(\d{20})\.manifest", re.ASCII)
_PLAIN = re.compile(r"(\d{1,19})\.manifest", re.ASCII)
_DETACHED = re.compile(r"d(\d{1,20})\.manifest", re.ASCII)
_DELETION_SUFFIXES = {0: "arrow", 1: "bin"}
_NEVER_ESCAPED = re.compile(r"[A-Za-z0-9._-]+")
_NOT_ESCAPED = " !$&'()+,:;=@"
_STREAM_NOTE = re.compile(r"(\d{1,19})-[0-9a-f]{32}\.json", re.ASCII)
_GENERATED = re.compile(rf"(?:[01]{{24}}[0-9a-f]{{26}}|{UUID})\.lance")


class ManifestName(NamedTuple):
    """A manifest's file name, read."""

    version: int
    detached: bool


def branch_root(branch: str | None) -> str:
    """What the paths of a branch's files begin with, relative to the dataset: "" for main, else ``tree/<name>/``."""
    return "" if branch is None else f"tree/{branch}/"


def versions_directory(branch: str | None) -> str:
    """The directory of a branch's manifests, relative to the dataset, without a slash at its end."""
    return branch_root(branch) + VERSIONS


def manifest_names(version: int) -> tuple[str, str]:
    """The file names that a version's manifest may have: the newer scheme's, which sorts newest first, then the old."""
    return f"{_HIGHEST - version:020}{_SUFFIX}", f"{version}{_SUFFIX}"


def manifest_paths(branch: str | None, version: int) -> tuple[str, ...]:
    """The paths that a version's manifest may have, relative to the dataset, the newer scheme's first."""
    return tuple(f"{versions_directory(branch)}/{name}" for name in manifest_names(version))


def sorts_newest_first(name: str) -> bool:
    """Whether a manifest's name is one of the newer scheme, which tells the order of versions."""
    return _INVERTED.fullmatch(name) is not None


def read_manifest_name(name: str) -> ManifestName | None:
    """The version that a file in ``_versions`` holds; None for a file that is not a finished manifest."""
    if match := _INVERTED.fullmatch(name):
        version = _HIGHEST - int(match[1])
        return ManifestName(version, detached=False) if version >= 0 else None
    if match := _PLAIN.fullmatch(name):
        return ManifestName(int(match[1]), detached=False)
    if match := _DETACHED.fullmatch(name):
        return ManifestName(int(match[1]), detached=True)
    return None


def transaction_path(branch: str | None, name: str) -> str:
    """The path of the file with a version's transaction, relative to the dataset."""
    return f"{branch_root(branch)}_transactions/{name}"


def deletion_path(fragment: int, read_version: int, number: int, file_type: int) -> str:
    """Path of a deletion file below the root. Raises CorruptData for a type that is not known."""
    if file_type not in _DELETION_SUFFIXES:
        raise CorruptData(f"Fragment {fragment} has a deletion file of the unknown type {file_type}.")
    return f"_deletions/{fragment}-{read_version}-{number}.{_DELETION_SUFFIXES[file_type]}"


def stored_name(name: str) -> str:
    """The name that a data file has in the store, where pylance escapes what could mean something in a path.

    Unescaped, a listing would not show the file that ``ü.lance`` stands for, and a cleanup would delete the file.
    """
    return name if _NEVER_ESCAPED.fullmatch(name) else quote(name, safe=_NOT_ESCAPED).replace("~", "%7E")


def data_key(path: str) -> str:
    """The path under which versions know a file below ``data/``: pylance escapes a slash in a data file's name."""
    directory, slash, rest = path.partition("/")
    return directory + slash + rest.replace("/", "%2F") if "/" in rest else path


def stream_note_path(branch: str | None, last: int, identifier: str) -> str:
    """The path of a note for streams, relative to the dataset. ``last`` is the last version that it tells of."""
    return f"{branch_root(branch)}{STREAMS}/{last}-{identifier}.json"


def last_noted(name: str) -> int | None:
    """The last version that a note for streams tells of, by its file name; None for another file."""
    match = _STREAM_NOTE.fullmatch(name)
    return None if match is None else int(match[1])


def is_generated(name: str) -> bool:
    """Whether pylance generated the name of a data file: no two different files have the same generated name.

    The name that a merge makes of a name given by hand (``<24 hexadecimal digits>-part-0.lance``) is not one of them:
    a file that was replaced by another one of the same size at the same place gets the same name again.
    """
    return _GENERATED.fullmatch(name) is not None
