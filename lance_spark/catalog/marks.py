"""Marks a directory as deregistered, and takes that back."""

from __future__ import annotations

import dataclasses
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from lance_spark.catalog import directories
from lance_spark.catalog.entry_rules import DEREGISTERED, Mark, RowFilter, refusal
from lance_spark.catalog.manifest_lance import read_rows
from lance_spark.catalog.rules import Catalog
from lance_spark.core.location import DatasetLocation
from lance_spark.errors import Conflict, LanceSparkError, StorageFailure
from lance_spark.storage import files
from lance_spark.storage.deleting import remove_empty_directories

_LOOKS = 20
_PAUSE = 0.05
"""Seconds."""


@dataclass(frozen=True)
class Hidden:
    """A directory that V1 does not take for a table."""

    catalog: Catalog
    directory: str
    mark: Mark
    mine: bool
    """Whether it was this call that marked it: exactly one of several at once does."""
    seen: bytes | None
    """The mark that is there; None where there is none, because the directory is gone."""

    @property
    def location(self) -> DatasetLocation:
        """Where the directory is."""
        return self.catalog.at(self.directory)

    def check(self, doing: str) -> None:
        """Raise Conflict unless the same mark is still there.

        Where it is, the directory is that of the same table all along: whoever drops one takes the mark away with it,
        and no process makes a table in a directory that is marked.
        """
        content = directories.content_of(self.location, DEREGISTERED)
        being_written = self.seen == b"" and content is not None  # seen between its creation and its first byte
        if content != self.seen and not being_written:
            raise refusal(
                Conflict, doing, "another process is dropping, renaming or registering it", hint="Run it again."
            )

    def is_alone(self) -> bool:
        """Whether only the mark is there: another process removed the table just before."""
        return files.list_names(self.location, "") == [DEREGISTERED]

    def keep(self) -> None:
        """Let the directory stay hidden; no job collects it."""
        content = Mark("keep", self.mark.token).encode()
        directories.replace(self.location, DEREGISTERED, content)
        if is_named(self.catalog, self.directory):  # another process registered it again just before
            directories.remove_if(self.location, DEREGISTERED, content)

    def taken_over(self) -> Hidden:
        """The same with this call's mark in the place of the one there is."""
        mine = self.mine or directories.replace(self.location, DEREGISTERED, self.mark.encode())
        return dataclasses.replace(self, mine=mine, seen=self.mark.encode() if mine else self.seen)

    def take_back(self) -> None:
        """Show it again, if it was this call that hid it."""
        if self.mine:
            self.discard()

    def discard(self) -> None:
        """Take the mark away that was seen, whoever made it."""
        if self.seen is not None and directories.remove_if(self.location, DEREGISTERED, self.seen):
            remove_empty_directories(self.catalog.root, [self.directory])


@contextmanager
def shown_again_on_failure(hidden: Hidden, had_row: bool) -> Iterator[None]:
    """Take the mark back if what it was made for failed for certain; a store that did not answer may have done it.

    The mark stays on a directory whose row another process took since, to delete it or to keep it hidden. Shown
    again, it would be a table of V1 until then.
    """
    try:
        yield
    except StorageFailure:
        raise
    except LanceSparkError:
        if not (had_row and hidden.mine and _is_being_taken(hidden)):
            hidden.take_back()
        raise


def _is_being_taken(hidden: Hidden) -> bool:
    """Whether the process that took the row deletes the directory, or puts its own mark there.

    A process that had just added the row, and withdrew it because of the mark, does neither. Waiting a moment tells.
    """
    for _ in range(_LOOKS):
        if hidden.is_alone() or is_named(hidden.catalog, hidden.directory):
            return False
        if directories.content_of(hidden.location, DEREGISTERED) != hidden.seen:
            return True
        time.sleep(_PAUSE)
    return False


def is_named(catalog: Catalog, directory: str) -> bool:
    """Whether a row names a directory."""
    return bool(read_rows(catalog.manifest, RowFilter(locations=(directory,))).at(directory))


def hide(catalog: Catalog, directory: str, why: str, to: str = "") -> Hidden:
    """Mark a directory; ``why`` is kept in the mark, so that a job that collects remains knows what to do with it."""
    location, mark = catalog.at(directory), Mark(why, uuid.uuid4().hex, to)
    mine = directories.put_new(location, DEREGISTERED, mark.encode(), parents=False)
    seen = mark.encode() if mine else directories.content_of(location, DEREGISTERED)
    return Hidden(catalog, directory, mark, mine, seen)
