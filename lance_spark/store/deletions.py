"""Reads deletion files: which rows of a fragment are deleted in a version."""

from __future__ import annotations

import pyarrow as pa

from lance_spark.errors import CorruptData, NotFound
from lance_spark.location import DatasetLocation
from lance_spark.manifest.contents import Fragment
from lance_spark.merge.snapshot import Deletions, Snapshot
from lance_spark.refs.model import PinnedVersion
from lance_spark.store import files

_OFFSETS = "row_id"
"""Column of a deletion file that holds the deleted offsets."""


def deleted_offsets(location: DatasetLocation, snapshot: Snapshot, fragment: Fragment) -> pa.Array:
    """Offsets of the deleted rows of a fragment (uint32, ascending). Raises NotFound, CorruptData."""
    return read_deletions(location, snapshot.pin, snapshot.deletions_of(fragment))


def read_deletions(location: DatasetLocation, pin: PinnedVersion, deletions: Deletions | None) -> pa.Array:
    """The offsets in a deletion file of a version, in the same way; none where there is no file."""
    if deletions is None:
        return pa.array([], pa.uint32())
    root, path = deletions
    content = files.read(DatasetLocation(root, location.options), path)
    if content is None:
        raise NotFound(
            f"The deletion file {path} of {pin} is gone: {root} does not have it.",
            hint="Without it no reader can read the version.",
        )
    return parse_deletions(path, content)


def parse_deletions(path: str, content: bytes) -> pa.Array:
    """The offsets in a deletion file (uint32, ascending). Raises CorruptData."""
    try:
        return _bitmap(content) if path.endswith(".bin") else _arrow(content)
    except (pa.ArrowException, ValueError, KeyError) as problem:
        raise CorruptData(f"The deletion file {path} is damaged: {problem}.") from None


def _bitmap(content: bytes) -> pa.Array:
    from pyroaring import BitMap

    return pa.array(BitMap.deserialize(content), pa.uint32())


def _arrow(content: bytes) -> pa.Array:
    table = pa.ipc.open_file(pa.BufferReader(content)).read_all()
    return table[_OFFSETS].combine_chunks().sort()
