"""The file names of a dataset: how writers form them, how a path is classified, how a listing is split. Pure.

The names are those of https://github.com/lance-format/lance/blob/main/docs/src/format/table/layout.md.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from typing import NamedTuple
from urllib.parse import quote

from lance_spark.errors import CorruptData

VERSIONS = "_versions"
"""The directory of the manifests, below the root of a branch."""
BACKFILL = "_backfill"
"""Directory of a branch for records of values that were computed but not committed."""
STREAMS = "_streams"
"""Directory of a branch for notes that cleanups leave for streams, see :mod:`lance_spark.format.stream_notes`."""
BROUGHT = "_brought"
"""Directory of a branch for records that outlive versions: which ones brought rows of other versions, and from what
they computed columns."""
FACTS = "_facts"
"""Directory below the dataset's root for facts about data files, see :mod:`lance_spark.layout.fact_rules`."""
QUARANTINE = "_quarantine"
"""Directory below the dataset's root for files that repairs moved away, and for the repairs' records."""
UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
"""Pattern of an identifier: used in directories of indexes, and in the old names of data files."""
_HIGHEST = 2**64 - 1
_SUFFIX = ".manifest"
_INVERTED = re.compile(r"(\d{20})\.manifest", re.ASCII)
_PLAIN = re.compile(r"(\d{1,19})\.manifest", re.ASCII)
_DETACHED = re.compile(r"d(\d{1,20})\.manifest", re.ASCII)
_DELETION_SUFFIXES = {0: "arrow", 1: "bin"}
_NEVER_ESCAPED = re.compile(r"[A-Za-z0-9._-]+")
_NOT_ESCAPED = " !$&'()+,:;=@"
_BROUGHT = re.compile(r"(\d{1,19})-(\d{1,19}|open)-([0-9a-f]{16})-([0-9a-f]{32})(\.columns)?\.json", re.ASCII)
_STREAM_NOTE = re.compile(r"(\d{1,19})-[0-9a-f]{32}\.json", re.ASCII)
_GENERATED = re.compile(rf"(?:[01]{{24}}[0-9a-f]{{26}}|{UUID})\.lance")


class ManifestName(NamedTuple):
    version: int
    detached: bool


def branch_root(branch: str | None) -> str:
    """Path prefix of a branch's files, relative to the dataset: "" for main, else ``tree/<name>/``."""
    return "" if branch is None else f"tree/{branch}/"


def versions_directory(branch: str | None) -> str:
    """The directory of a branch's manifests, relative to the dataset, without a trailing slash."""
    return branch_root(branch) + VERSIONS


def manifest_names(version: int) -> tuple[str, str]:
    """The possible names of a version's manifest: the newer scheme, which sorts newest first, then the old one."""
    return f"{_HIGHEST - version:020}{_SUFFIX}", f"{version}{_SUFFIX}"


def manifest_paths(branch: str | None, version: int) -> tuple[str, ...]:
    """The possible paths of a version's manifest, relative to the dataset, the newer scheme first."""
    return tuple(f"{versions_directory(branch)}/{name}" for name in manifest_names(version))


def sorts_newest_first(name: str) -> bool:
    """Whether a manifest's name uses the newer scheme, which encodes the order of versions."""
    return _INVERTED.fullmatch(name) is not None


def read_manifest_name(name: str) -> ManifestName | None:
    """The version of a file in ``_versions``; None for a file that is not a finished manifest."""
    if match := _INVERTED.fullmatch(name):
        version = _HIGHEST - int(match[1])
        return ManifestName(version, detached=False) if version >= 0 else None
    if match := _PLAIN.fullmatch(name):
        return ManifestName(int(match[1]), detached=False)
    if match := _DETACHED.fullmatch(name):
        return ManifestName(int(match[1]), detached=True)
    return None


def transaction_path(branch: str | None, name: str) -> str:
    """The path of a version's transaction file, relative to the dataset."""
    return f"{branch_root(branch)}_transactions/{name}"


def deletion_path(fragment: int, read_version: int, number: int, file_type: int) -> str:
    """Path of a deletion file below the root. Raises CorruptData for an unknown type."""
    if file_type not in _DELETION_SUFFIXES:
        raise CorruptData(f"Fragment {fragment} has a deletion file of the unknown type {file_type}.")
    return f"_deletions/{fragment}-{read_version}-{number}.{_DELETION_SUFFIXES[file_type]}"


def stored_name(name: str) -> str:
    """The name of a data file in the store: pylance escapes characters that have a meaning in paths.

    Unescaped, ``ü.lance`` would match no listed file, and a cleanup would delete the file.
    """
    return name if _NEVER_ESCAPED.fullmatch(name) else quote(name, safe=_NOT_ESCAPED).replace("~", "%7E")


def data_key(path: str) -> str:
    """The path by which versions name a file below ``data/``: pylance escapes slashes in a data file's name."""
    directory, slash, rest = path.partition("/")
    return directory + slash + rest.replace("/", "%2F") if "/" in rest else path


def stream_note_path(branch: str | None, last: int, identifier: str) -> str:
    """The path of a note for streams, relative to the dataset. ``last`` is the last version that it covers."""
    return f"{branch_root(branch)}{STREAMS}/{last}-{identifier}.json"


def last_noted(name: str) -> int | None:
    """The last version that a note for streams covers, from its file name; None for any other file."""
    match = _STREAM_NOTE.fullmatch(name)
    return None if match is None else int(match[1])


class BroughtName(NamedTuple):
    """A parsed file name of a record that outlives versions."""

    first: int
    last: int | None
    """None if the number is unknown: the process that was committing was killed, or is still at it."""
    mark: str
    """Distinguishes the branch from others of the same name."""
    call: str
    """Identifies the commit, or the cleanup."""
    columns: bool = False
    """Whether it says what versions did to columns, see :mod:`lance_spark.format.column_records`; else, that they
    brought rows."""

    def covers(self, version: int) -> bool:
        """Whether it is, or may be, about a version."""
        return self.first <= version and (self.last is None or version <= self.last)


def brought_path(branch: str | None, name: BroughtName) -> str:
    """The path of a record, relative to the dataset."""
    last, about = "open" if name.last is None else name.last, ".columns" if name.columns else ""
    return f"{branch_root(branch)}{BROUGHT}/{name.first}-{last}-{name.mark}-{name.call}{about}.json"


def read_brought_name(name: str) -> BroughtName | None:
    """What a record says by its file name; None for any other file."""
    match = _BROUGHT.fullmatch(name)
    if match is None:
        return None
    last = None if match[2] == "open" else int(match[2])
    return BroughtName(int(match[1]), last, match[3], match[4], match[5] is not None)


def brought_versions(names: Iterable[str], mark: str, gone: Collection[int]) -> tuple[int, ...]:
    """The versions among those that are gone that brought rows, or may have, by the names of the records. Ascending."""
    records = brought_records(names, mark)
    return tuple(sorted(version for version in gone if any(record.covers(version) for record in records)))


def brought_records(names: Iterable[str], mark: str) -> list[BroughtName]:
    """The records of a branch on rows that count: of a call that is done, not the one that it began with."""
    known = [found for found in _of_branch(names, mark) if not found.columns]
    done = {found.call for found in known if found.last is not None}
    return [found for found in known if found.last is not None or found.call not in done]


def column_records(names: Iterable[str], mark: str) -> list[BroughtName]:
    return [found for found in _of_branch(names, mark) if found.columns]


def _of_branch(names: Iterable[str], mark: str) -> Iterator[BroughtName]:
    found = (read_brought_name(name) for name in names)
    return (name for name in found if name is not None and name.mark == mark)


def is_generated(name: str) -> bool:
    """Whether pylance generated the name of a data file: different files never share a generated name.

    A branch merge derives names from names given by hand (``<24 hexadecimal digits>-part-0.lance``). Those do not
    count: if a file is replaced by another one of the same size at the same place, it gets the same name again.
    """
    return _GENERATED.fullmatch(name) is not None


# --- The kind of a file by its path, and the path that versions use for it
# The paths of https://github.com/lance-format/lance/blob/main/docs/src/format/table/layout.md, and those that
# pylance 14.0.2 also writes: staged manifests, detached versions, version hints, blobs beside data files.

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
"""Refs, version hints, notes of clones, the mark of a name that a catalog declared, records that outlive versions,
facts about data files, and files that a repair moved away: never deleted, not reported. Also notes for streams, which
are deleted once no stream needs them."""
UNKNOWN = "unknown"
"""Any other file: never deleted, only reported."""

_STAGED_MANIFEST = re.compile(r"d?\d{1,20}\.manifest[#-].+")
_BLOB_NAME = re.compile(r"[01]{32}\.blob")
_INDEX_ID = re.compile(UUID)
_PASSING = re.compile(r"(.+|\.)\.[0-9a-f]{32}\.tmp|\.[0-9a-f]{32}")
_NO_NAMES = frozenset({"", ".", ".."})
_OWN_FILES = frozenset({"_latest.manifest", ".lance-reserved"})
_OWN = ("_refs/", "_clones/", "_lake/", f"{QUARANTINE}/", f"{STREAMS}/", f"{BROUGHT}/", f"{FACTS}/", ".lance-git/")
_WRITTEN_WHOLE = ("_refs/", "_clones/", "_lake/", f"{STREAMS}/", f"{BROUGHT}/", f"{FACTS}/")
"""Directories of small files that have a passing name until they are whole."""


def is_passing(path: str) -> bool:
    """Whether a small file has the name that it has until it is whole: its process died, or is at it."""
    return path.startswith(_WRITTEN_WHOLE) and _PASSING.fullmatch(path.rpartition("/")[2]) is not None


class Named(NamedTuple):
    kind: str
    key: str
    """The path that versions use: the data file of a blob, the directory of an index, else the path itself."""


def classify(path: str) -> Named:
    """The kind of a file. ``path`` is relative to the root of its chain.

    A path that ends with a slash is an object with which a tool marked a directory. Object stores also have keys with
    empty and dotted parts. No version names those, and no file system can tell them from other paths.
    """
    directory, _, rest = path.partition("/")
    if directory == "data" and rest.endswith(".lance") and rest[0] != "." and "/" not in rest:
        return Named(DATA, path)  # fast path: most files are data files
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
        return Named(STAGING, path)  # records of interrupted runs; after days they prove nothing
    if directory in ("_transactions", "_deletions") and "/" not in rest:
        return Named(_in_flat(directory, rest), path)
    if is_passing(path):
        return Named(STAGING, path)
    return Named(BOOKKEEPING if path.startswith(_OWN) or path in _OWN_FILES else UNKNOWN, path)


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


# --- Ranges of keys that tasks list in parallel
# A list of prefixes would miss files: data files have had three kinds of names, and users add their own. Ranges that
# cover the whole key space miss none. A badly chosen cut costs only balance.

_DIGITS = 9
"""Names of transaction and deletion files begin with read versions and fragment ids, so with a digit from 1 to 9."""


@dataclass(frozen=True)
class KeyRange:
    """The paths after ``after`` up to ``until``, relative to the dataset's root.

    Paths are ordered by their UTF-8 bytes, as S3 lists them; Python orders strings the same way.
    """

    after: str | None
    """Exclusive lower bound; None from the start."""

    until: str | None
    """Inclusive upper bound; None to the end."""

    @staticmethod
    def below(directory: str) -> KeyRange:
        """The paths below a directory, given without a trailing slash."""
        return KeyRange(f"{directory}/", f"{directory}0")

    @property
    def prefix(self) -> str:
        """The common prefix of all paths in the range; it can be empty."""
        pairs = zip(self.after or "", self.until or "", strict=False)
        return "".join(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))

    def holds(self, path: str) -> bool:
        return (self.after is None or self.after < path) and (self.until is None or path <= self.until)

    def meets(self, directory: str) -> bool:
        """Whether the range can contain paths below a directory (no trailing slash): those from ``d/`` to ``d0``."""
        return (self.after is None or self.after < f"{directory}0") and (
            self.until is None or f"{directory}/" <= self.until
        )


def clip(ranges: Sequence[KeyRange], directories: Sequence[str]) -> tuple[KeyRange, ...]:
    """The parts of tiled ranges that hold paths below any of the directories (no trailing slash), without overlap.

    A directory inside another one adds nothing.
    """
    outer = sorted({one for one in directories if not any(one.startswith(f"{other}/") for other in directories)})
    return tuple(
        KeyRange(max(part.after or "", f"{directory}/"), min(part.until or f"{directory}0", f"{directory}0"))
        for directory in outer
        for part in ranges
        if part.meets(directory)
    )


def tile(roots: Sequence[str], splits: int) -> tuple[KeyRange, ...]:
    """Ranges that hold every possible path below the dataset's root exactly once, in ascending order.

    ``roots`` are the roots of the chains relative to the dataset's ("" for main, "tree/exp/a" for a branch).
    ``splits`` is the number of large ranges. The result has up to about four times as many ranges, most of them small;
    a single split gives exactly one. Raises ValueError for fewer splits than one.
    """
    if splits < 1:
        raise ValueError(f"A key space cannot be cut into {splits} ranges.")
    cuts = [None, *sorted(set(_cuts(roots, splits))), None] if splits > 1 else [None, None]
    return tuple(KeyRange(after, until) for after, until in pairwise(cuts))


def _cuts(roots: Sequence[str], splits: int) -> Iterator[str]:
    """Where to cut. Main gets half of the splits: a branch holds only what was written on it."""
    branches = sorted({root for root in roots if root})
    for_main = 0 if "" not in roots else splits - splits // 2 if branches else splits
    if for_main:
        yield from _cuts_inside("", for_main)
    if not branches:
        return
    for_branches = splits - for_main
    share, many = for_branches // len(branches), len(branches)
    for number, root in enumerate(branches):
        # With more branches than splits, neighbors share a range.
        if share or number * for_branches // many != (number - 1) * for_branches // many:
            yield f"{root}/"
        yield from _cuts_inside(f"{root}/", share)


def _cuts_inside(prefix: str, share: int) -> Iterator[str]:
    """Cuts inside one chain: names of data files begin with 24 random binary digits, other names with a number."""
    if share < 2:
        return
    bits = (share - 1).bit_length()
    yield from (f"{prefix}data/", f"{prefix}data0")
    yield from (f"{prefix}data/{number:0{bits}b}" for number in range(1, 2**bits))
    groups = min(share, _DIGITS)
    for directory in ("_deletions", "_transactions"):
        yield from (f"{prefix}{directory}/{1 + _DIGITS * group // groups}" for group in range(1, groups))
