"""Writes deletion files for fragments that come from another chain without some of their rows.

pylance writes such a file only for a fragment that is in the dataset already.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from pyroaring import BitMap

from lance_spark.layout.names import deletion_path
from lance_spark.location import DatasetLocation
from lance_spark.refs.model import PinnedVersion
from lance_spark.store import small_files

_BITMAP = 1


def write_mask(location: DatasetLocation, head: PinnedVersion, fragment: int, rows: Sequence[int]) -> dict[str, Any]:
    """Write the deletion file of a fragment that the next version will have; returns it as pylance's JSON.

    The name says what is in it, so that every attempt writes the same file.
    """
    content = BitMap(rows).serialize()
    number = int.from_bytes(sha256(content).digest()[:8], "big") >> 1
    directory, _, name = deletion_path(fragment, head.version, number, _BITMAP).rpartition("/")
    root = DatasetLocation(f"{location.branch_uri(head.branch)}/{directory}", location.options)
    small_files.write_file(root, name, content)
    return {
        "file_type": "bitmap",
        "read_version": head.version,
        "id": number,
        "num_deleted_rows": len(rows),
        "base_id": None,
    }
