"""Marks directories as deregistered, and removes such marks."""

from __future__ import annotations

import dataclasses
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from lance_spark.catalog import directories
from lance_spark.catalog.entry_rules import DEREGISTERED, Mark, RowFilter, refusal
from lance_spark.catalog.manifest_commits import read_rows
from lance_spark.catalog.name_rules import Catalog
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
    """Whether this call marked it: exactly one of several simultaneous calls does."""
    seen: bytes | None
    """The existing mark; None if there is none because the directory is gone."""

    @property
    def location(self) -> DatasetLocation:
        return self.catalog.at(self.directory)

    def check(self, doing: str) -> None:
        """Raise Conflict unless the same mark still exists.

        If it does, the directory has belonged to the same table all along: dropping a table removes its mark, and no
        process creates a table in a marked directory.
        """
        content = directories.content_of(self.location, DEREGISTERED)
        being_written = self.seen == b"" and content is not None  # read between its creation and its first byte
        if content != self.seen and not being_written:
            raise refusal(
                Conflict, doing, "another process is dropping, renaming or registering it", hint="Run it again."
            )

    def is_alone(self) -> bool:
        """Whether only the mark is left: another process just removed the table."""
        return files.list_names(self.location, "") == [DEREGISTERED]

    def keep(self) -> None:
        """Keep the directory hidden; no job collects it."""
        content = Mark("keep", self.mark.token).encode()
        directories.replace(self.location, DEREGISTERED, content)
        if is_named(self.catalog, self.directory):  # another process just registered it again
            directories.remove_if(self.location, DEREGISTERED, content)

    def taken_over(self) -> Hidden:
        """The same directory, with this call's mark in place of the existing one."""
        mine = self.mine or directories.replace(self.location, DEREGISTERED, self.mark.encode())
        return dataclasses.replace(self, mine=mine, seen=self.mark.encode() if mine else self.seen)

    def take_back(self) -> None:
        """Show it again, if this call hid it."""
        if self.mine:
            self.discard()

    def discard(self) -> None:
        """Remove the mark that was read, whichever process made it."""
        if self.seen is not None and directories.remove_if(self.location, DEREGISTERED, self.seen):
            remove_empty_directories(self.catalog.root, [self.directory])


@contextmanager
def shown_again_on_failure(hidden: Hidden, had_row: bool) -> Iterator[None]:
    """Remove the mark if its operation definitely failed; if the store did not respond, it may have succeeded.

    The mark stays if another process has removed the directory's row meanwhile, to delete the directory or keep it
    hidden. Without the mark it would be a table of V1 until then.
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
    """Whether the process that removed the row deletes the directory, or puts its own mark there.

    A process that just added the row and withdrew it because of the mark does neither. A short wait shows which it is.
    """
    for _ in range(_LOOKS):
        if hidden.is_alone() or is_named(hidden.catalog, hidden.directory):
            return False
        if directories.content_of(hidden.location, DEREGISTERED) != hidden.seen:
            return True
        time.sleep(_PAUSE)
    return False


def is_named(catalog: Catalog, directory: str) -> bool:
    return bool(read_rows(catalog.manifest, RowFilter(locations=(directory,))).at(directory))


def hide(catalog: Catalog, directory: str, why: str, to: str = "") -> Hidden:
    """Mark a directory; ``why`` is kept in the mark, and tells a job that collects remains how to treat it."""
    location, mark = catalog.at(directory), Mark(why, uuid.uuid4().hex, to)
    mine = directories.put_new(location, DEREGISTERED, mark.encode(), parents=False)
    seen = mark.encode() if mine else directories.content_of(location, DEREGISTERED)
    return Hidden(catalog, directory, mark, mine, seen)
