"""What rows say of the files with blobs beside a data file, against what is there. Pure.

No manifest names these files. Only the descriptions in the rows do: a number, which is the file's name, and the bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.checkup import codes

_PACKED, _DEDICATED = 1, 2
"""Kinds of descriptions: many blobs in one file, and one. Of the others, one lies in the data file, one at a URI."""
DESCRIPTION = frozenset({"kind", "position", "size", "blob_id"})


@dataclass(frozen=True)
class BlobFile:
    """A file that rows say there is."""

    name: str
    size: int
    """Bytes that it has, or has at least."""
    exact: bool
    """Whether it has so many bytes and no more."""
    rows: int
    """How many rows have a blob in it."""


@dataclass(frozen=True)
class BlobProblem:
    """A file that is not as rows say."""

    code: str
    name: str
    expected: int
    rows: int
    detail: str


def blob_name(number: int) -> str:
    """The name of a file with blobs: its number in 32 binary digits, the lowest first."""
    return f"{number:032b}"[::-1] + ".blob"


def blob_files(descriptions: Iterable[pa.StructArray]) -> list[BlobFile]:
    """The files that descriptions name."""
    tables = [_ends(part) for part in descriptions if {field.name for field in part.type} >= DESCRIPTION]
    if not tables:
        return []
    found = pa.concat_tables(tables).group_by(["blob_id", "kind"]).aggregate([("end", "max"), ("end", "count")])
    rows = sorted(found.to_pylist(), key=lambda row: row["blob_id"])
    return [
        BlobFile(blob_name(row["blob_id"]), row["end_max"], row["kind"] == _DEDICATED, row["end_count"]) for row in rows
    ]


def _ends(part: pa.StructArray) -> pa.Table:
    """Of each blob in a file: number, kind, and where the blob ends in the file."""
    there = part.filter(pc.fill_null(pc.is_in(part.field("kind"), pa.array([_PACKED, _DEDICATED], pa.uint8())), False))
    there = there.filter(there.is_valid())
    end = pc.add(there.field("position").cast(pa.int64()), there.field("size").cast(pa.int64()))
    return pa.table({"blob_id": there.field("blob_id"), "kind": there.field("kind"), "end": end})


def blob_problems(wanted: Iterable[BlobFile], there: Mapping[str, int]) -> Iterator[BlobProblem]:
    """What is missing or too short; ``there`` has sizes in bytes by name."""
    for file in wanted:
        size = there.get(file.name)
        if size is None:
            yield BlobProblem(codes.BLOB_MISSING, file.name, file.size, file.rows, "")
        elif size < file.size or (file.exact and size != file.size):
            detail = f"{size:,} bytes instead of {'' if file.exact else 'at least '}{file.size:,}"
            yield BlobProblem(codes.BLOB_SIZE_WRONG, file.name, file.size, file.rows, detail)
