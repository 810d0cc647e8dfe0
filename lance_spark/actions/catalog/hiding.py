"""Marks a directory as deregistered, and takes that back."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from lance_spark.catalog.directory import DEREGISTERED, Mark, read_mark
from lance_spark.catalog.model import Catalog
from lance_spark.errors import LanceSparkError, StorageFailure
from lance_spark.location import DatasetLocation
from lance_spark.store import files
from lance_spark.store.catalog import markers
from lance_spark.store.deleting import remove_empty_directories


@dataclass(frozen=True)
class Hidden:
    """A directory that V1 does not take for a table."""

    root: DatasetLocation
    location: DatasetLocation
    directory: str
    mark: Mark
    mine: bool
    """Whether it was this call that marked it: exactly one of several at once does."""

    def is_alone(self) -> bool:
        """Whether nothing but the mark is there: somebody else took the table away just before."""
        return files.list_names(self.location, "") == [DEREGISTERED]

    def keep(self) -> None:
        """Let the directory stay hidden, and be collected by nobody."""
        if read_mark(markers.content_of(self.location, DEREGISTERED)) == self.mark:
            markers.remove(self.location, DEREGISTERED)
        markers.put_new(self.location, DEREGISTERED, Mark("keep", self.mark.token).encode(), parents=False)

    def take_back(self) -> None:
        """Show it again, if it was this call that hid it."""
        if self.mine and read_mark(markers.content_of(self.location, DEREGISTERED)) == self.mark:
            markers.remove(self.location, DEREGISTERED)
            remove_empty_directories(self.root, [self.directory])


@contextmanager
def shown_again_on_failure(hidden: Hidden) -> Iterator[None]:
    """Take the mark back if what it was made for failed for certain; a store that did not answer may have done it."""
    try:
        yield
    except StorageFailure:
        raise
    except LanceSparkError:
        hidden.take_back()
        raise


def hide(catalog: Catalog, directory: str, why: str, to: str = "") -> Hidden:
    """Mark a directory; ``why`` is kept in the mark, so that a job that collects remains knows what to do with it."""
    location, mark = catalog.at(directory), Mark(why, uuid.uuid4().hex, to)
    mine = markers.put_new(location, DEREGISTERED, mark.encode(), parents=False)
    return Hidden(catalog.root, location, directory, mark, mine)
