"""Tables whose blobs refer to objects elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

SCHEMA = pa.schema([pa.field("id", pa.int64()), lance.blob_field("payload")])


def refer(uri: str, blobs: Sequence[Any], first: int = 0, **settings: Any) -> None:
    """Write or append rows by pylance: ids from ``first``, and what the blobs are."""
    rows = pa.table([pa.array(range(first, first + len(blobs))), lance.blob_array(list(blobs))], SCHEMA)
    lance.write_dataset(
        rows,
        uri,
        **{"data_storage_version": "2.2", "allow_external_blob_outside_bases": True, "mode": "append", **settings},
    )


def made_objects(directory: Path) -> Path:
    """The directory, with the objects that ``mixed`` refers to."""
    directory.mkdir()
    for name in ("whole", "part"):
        (directory / name).write_bytes(b"0123456789")
    return directory


def mixed(objects: str) -> tuple[list[Any], list[bytes | None]]:
    """Blobs of all kinds and their bytes, if ``objects/whole`` and ``objects/part`` hold the ten digits."""
    blobs = [
        lance.Blob.from_uri(f"{objects}/whole"),
        lance.Blob.from_uri(f"{objects}/part", position=2, size=5),
        b"inline",
        None,
        b"",
        b"x" * 100_000,
        b"y" * 5_000_000,
        lance.Blob.from_uri(f"{objects}/part", position=6, size=4),
    ]
    return blobs, [b"0123456789", b"23456", b"inline", None, b"", b"x" * 100_000, b"y" * 5_000_000, b"6789"]


class Files:
    """What a worker of a loader makes of the rows of a batch: by id, the last two bytes and all of each file."""

    def __init__(self, blobs: Any) -> None:
        self.blobs = blobs

    def __call__(self, rows: pa.RecordBatch) -> dict[int, tuple[bytes, bytes] | None]:
        files = self.blobs.open(rows["_rowid"].to_pylist())
        return dict(zip(rows["id"].to_pylist(), map(_end_and_whole, files), strict=True))


def _end_and_whole(file: Any) -> tuple[bytes, bytes] | None:
    if file is None:
        return None
    size = file.seek(0, 2)
    file.seek(max(0, size - 2))
    end = file.read()
    file.seek(0)
    return end, file.read()


def whole(rows: pa.RecordBatch) -> dict[int, bytes | None]:
    """The bytes of a batch, by id."""
    return dict(zip(rows["id"].to_pylist(), rows["payload"].to_pylist(), strict=True))
