"""Reads deletion files: which rows of a fragment are deleted in a version."""

from __future__ import annotations

import pyarrow as pa

from lance_spark.errors import CorruptData, NotFound
from lance_spark.location import DatasetLocation
from lance_spark.manifest.contents import Fragment
from lance_spark.merge.snapshot import Snapshot
from lance_spark.store import files

_OFFSETS = "row_id"
"""Column of a deletion file that holds the deleted offsets."""


def deleted_offsets(location: DatasetLocation, snapshot: Snapshot, fragment: Fragment) -> pa.Array:
    """Offsets of the deleted rows of a fragment (uint32, ascending). Raises NotFound, CorruptData."""
    deletion = fragment.deletion
    if deletion is None:
        return pa.array([], pa.uint32())
    root = snapshot.root_of(deletion)
    if not root.is_dataset:
        raise CorruptData(f"Fragment {fragment.id} has a deletion file in base {deletion.base_id}, where none can be.")
    path = deletion.path_for(fragment.id)
    content = files.read(DatasetLocation(root.uri, location.options), path)
    if content is None:
        raise NotFound(
            f"The deletion file {path} of {snapshot.pin} is gone: {root.uri} does not have it.",
            hint="Without it no reader can read the version.",
        )
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
