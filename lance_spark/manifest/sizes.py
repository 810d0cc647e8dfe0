"""How many rows and bytes each fragment has, as a manifest records it: what planning a read needs of all of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from lance_spark.manifest.messages import parse

RecordedSize: TypeAlias = "tuple[int, int | None, int | None, int]"
"""Of one fragment: its id; the rows in its data files, deleted ones included; how many of them are deleted; the size
of its data files in bytes. None for what the writer did not record; of a file without a size, 0.

A plain tuple, which is gone in a moment, as there may be 100,000 of them.
"""


def recorded_sizes(message: bytes) -> Iterator[RecordedSize]:
    """One entry per fragment of a manifest message, in its order. Raises CorruptData for bytes that are no manifest."""
    for fragment in parse("Sizes", message).fragments:
        # Asked first: most fragments have no deletion file, and reading an absent message makes an object of it.
        deleted = (fragment.deletion_file.num_deleted_rows or None) if fragment.HasField("deletion_file") else 0
        yield fragment.id, fragment.physical_rows or None, deleted, sum(fragment.files.sizes)
