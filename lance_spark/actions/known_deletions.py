"""Reads the deletion files that rows are followed by, each one once, wherever it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from lance_spark.errors import NotFound
from lance_spark.location import DatasetLocation
from lance_spark.manifest.contents import Fragment
from lance_spark.merge.rewrites import Deleted, DeletionKey, Rewrite, deletion_key
from lance_spark.merge.runs import Offsets
from lance_spark.merge.snapshot import Deletions, Snapshot
from lance_spark.refs.model import PinnedVersion
from lance_spark.store.deletions import read_deletions
from lance_spark.store.parallel import each


class Held(NamedTuple):
    """Fragments of a version that is there: so are its deletion files."""

    version: Snapshot
    fragments: Iterable[Fragment]


class DeletionReader(NamedTuple):
    """Where to read, and whose words errors have."""

    location: DatasetLocation
    pin: PinnedVersion
    open_root: Callable[[str], DatasetLocation]
    """A root by its URI, with the storage options that open it."""


def known_deletions(reader: DeletionReader, held: Sequence[Held], rewrites: Sequence[Rewrite]) -> Deleted:
    """The deleted rows of all these fragments, and of those in compactions, as far as their files are still there.

    Raises NotFound for a file of a version that is there, and CorruptData.
    """
    certain: dict[DeletionKey, Deletions] = {}
    for key, place in _places(held):
        certain.setdefault(key, place)
    maybe = {key: place for entry in rewrites for key, place in entry.deletions.items() if key not in certain}

    def read(entry: tuple[DeletionKey, Deletions]) -> Offsets | None:
        key, place = entry
        try:
            found = read_deletions(reader.open_root(place.root), reader.pin, place)
        except NotFound:
            if key in certain:
                raise
            return None
        offsets: Offsets = found.to_numpy(zero_copy_only=False).astype(np.int64)
        return offsets if len(offsets) == key[-1] else None

    places = {**maybe, **certain}
    known = dict(zip(places, each(reader.location, read, places.items()), strict=True))
    nothing = np.zeros(0, np.int64)

    def deleted(fragment: Fragment) -> Offsets | None:
        key = deletion_key(fragment)
        return nothing if key is None else known.get(key)

    return deleted


def _places(held: Sequence[Held]) -> Iterator[tuple[DeletionKey, Deletions]]:
    for version, fragments in held:
        for fragment in fragments:
            key, place = deletion_key(fragment), version.deletions_of(fragment)
            if key is not None and place is not None:
                yield key, place
