"""Directories of tables: which are tables in V1, and what the ones of V2 are called (specification "V1", "V2")."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from lance_spark.catalog.names import Identifier

SUFFIX = ".lance"
RESERVED = ".lance-reserved"
DEREGISTERED = ".lance-deregistered"
INCOMPLETE = ".lance-incomplete"
"""This package's own mark: the directory is being copied to, and nothing in it is anybody's only copy."""
MARKERS = frozenset({RESERVED, DEREGISTERED, INCOMPLETE})
VERSIONS = "_versions"
_WRITER = "lance_spark"
_HASHED = re.compile(r"([0-9a-f]{8})_(.+)", re.S)


@dataclass(frozen=True)
class DirectoryState:
    """What a table's directory holds."""

    names: frozenset[str] = frozenset()
    """Names directly in it, as far as they were looked at."""

    @property
    def has_files(self) -> bool:
        """Whether at least one file is below it."""
        return bool(self.names)

    @property
    def deregistered(self) -> bool:
        """Whether it is marked so."""
        return DEREGISTERED in self.names

    @property
    def is_table(self) -> bool:
        """The rule of V1: at least one file, and no mark of a deregistered table."""
        return self.has_files and not self.deregistered


ABSENT = DirectoryState()


def state_of(paths: Iterable[str]) -> DirectoryState:
    """From paths of files, relative to the directory. Empty objects that mark a directory are no files."""
    return DirectoryState(frozenset(path.partition("/")[0] for path in paths if path and not path.endswith("/")))


def v1_directory(identifier: Identifier) -> str:
    """The directory of a table in the root, as V1 calls it."""
    return identifier.name + SUFFIX


def v1_name(directory: str) -> str | None:
    """The table that V1 takes a directory for; None for other directories."""
    return directory[: -len(SUFFIX)] if directory.endswith(SUFFIX) and directory != SUFFIX else None


def hashed_directory(identifier: Identifier, entropy: int) -> str:
    """The directory of a table in V2, ``<hash>_<object_id>``. Each call gives another number."""
    return f"{entropy % 2**32:08x}_{identifier.object_id}"


def hashed_id(directory: str) -> str | None:
    """The object id for which V2 made a directory; None for other directories."""
    match = _HASHED.fullmatch(directory)
    return match[2] if match else None


@dataclass(frozen=True)
class Mark:
    """What a ``.lance-deregistered`` file says that this package wrote; other tools' files say nothing."""

    why: str
    """``deregister``, ``drop``, ``rename``, or ``keep`` for what a rename left behind."""
    token: str
    """Tells which process wrote it."""
    to: str = ""
    """The directory that a renamed table gets."""

    def encode(self) -> bytes:
        """The file's content."""
        return json.dumps({"by": _WRITER, "why": self.why, "token": self.token, "to": self.to}).encode()


def read_mark(content: bytes | None) -> Mark | None:
    """The mark in a file; None for files of other tools."""
    try:
        decoded = json.loads(content or b"")
        return Mark(decoded["why"], decoded["token"], decoded["to"]) if decoded["by"] == _WRITER else None
    except (ValueError, KeyError, TypeError):
        return None


def is_leaving(mark: Mark | None) -> bool:
    """Whether a process is dropping or renaming the table in a marked directory, or was interrupted at that."""
    return mark is not None and mark.why in ("drop", "rename")


def is_dropped(mark: Mark | None) -> bool:
    """Whether nothing needs what is in a marked directory any more."""
    return mark is not None and mark.why == "drop"


def is_remainder(mark: Mark | None, named: Collection[str]) -> bool:
    """Whether a marked directory that no row names is to be deleted; ``named`` are the directories that rows name.

    A table that was to be renamed may still be the only copy there is, unless its new directory has a row.
    """
    return mark is not None and (mark.why == "drop" or (mark.why == "rename" and mark.to in named))
