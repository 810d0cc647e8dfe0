"""The metadata tables ``fragments`` and ``files``, from a version's manifest and what a store lists beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import pyarrow as pa

from lance_spark.layout.names import stored_name
from lance_spark.manifest.contents import Field
from lance_spark.merge.snapshot import Root, Snapshot
from lance_spark.metadata.batches import in_batches
from lance_spark.schema.blobs import BLOB_EXTENSION, BLOB_KEY

DATA, DELETION, INDEX, BLOB = "data", "deletion", "index", "blob"
FRAGMENTS = pa.schema(
    [
        pa.field("fragment_id", pa.int64(), nullable=False),
        pa.field("num_rows", pa.int64()),
        pa.field("physical_rows", pa.int64()),
        pa.field("num_deletions", pa.int64(), nullable=False),
        pa.field("num_data_files", pa.int32(), nullable=False),
        pa.field("data_file_bytes", pa.int64()),
    ]
)
FILES = pa.schema(
    [
        pa.field("content", pa.string(), nullable=False),
        pa.field("file_path", pa.string(), nullable=False),
        pa.field("file_size_in_bytes", pa.int64()),
        pa.field("record_count", pa.int64()),
        pa.field("fragment_id", pa.int64()),
        pa.field("columns", pa.list_(pa.string())),
        pa.field("index_name", pa.string()),
    ]
)
"""``content`` is ``data``, ``deletion``, ``index`` or ``blob``; ``record_count`` has the rows of a data file, deleted
ones among them, and how many rows a deletion file deletes."""


class FileRow(NamedTuple):
    """A row of FILES."""

    content: str
    file_path: str
    file_size_in_bytes: int | None
    record_count: int | None = None
    fragment_id: int | None = None
    columns: list[str] | None = None
    index_name: str | None = None


class Beside(NamedTuple):
    """What has to be listed to know all files of a version."""

    deletions: dict[Root, set[str]]
    """Paths of deletion files that the version names, by their places."""
    data: dict[Root, dict[str, int]]
    """Fragments by the names of their data files, whose blobs lie in directories of these names."""
    indexes: dict[tuple[Root, str], str]
    """Names of indexes, by place and id of the segment."""


def fragment_rows(snapshot: Snapshot) -> Iterator[pa.RecordBatch]:
    """FRAGMENTS. Numbers that an old writer did not record are null."""
    counts = snapshot.contents.counts_rows
    return in_batches(
        (
            (
                found.id,
                found.rows if counts else None,
                found.physical_rows if counts else None,
                found.deletion.rows if found.deletion else 0,
                len(found.files),
                found.size if all(file.size for file in found.files) else None,
            )
            for found in snapshot.contents.fragments()
        ),
        FRAGMENTS,
    )


def data_rows(snapshot: Snapshot, sizes: Mapping[str, int]) -> Iterator[FileRow]:
    """Data and deletion files as the manifest names them; ``sizes`` are those of deletion files, by URI."""
    names = column_names(snapshot.contents.fields)
    counts = snapshot.contents.counts_rows
    for fragment in snapshot.contents.fragments():
        for file in fragment.files:
            uri = data_uri(snapshot.root_of(file), file.path)
            columns = [names[key] for key in file.fields if key in names]
            rows = fragment.physical_rows if counts else None
            yield FileRow(DATA, uri, file.size or None, rows, fragment.id, columns)
        if fragment.deletion is not None:
            uri = f"{snapshot.root_of(fragment.deletion).uri}/{fragment.deletion.path_for(fragment.id)}"
            yield FileRow(DELETION, uri, sizes.get(uri), fragment.deletion.rows, fragment.id)


def beside(snapshot: Snapshot) -> Beside:
    """What a listing has to add: sizes of deletion files, files of indexes, blobs beside data files."""
    found = Beside({}, {}, {})
    for fragment in snapshot.contents.fragments():
        for file in fragment.files:
            found.data.setdefault(snapshot.root_of(file), {})[stored_name(file.path).removesuffix(".lance")] = (
                fragment.id
            )
        if fragment.deletion is not None:
            paths = found.deletions.setdefault(snapshot.root_of(fragment.deletion), set())
            paths.add(fragment.deletion.path_for(fragment.id))
    for segment in snapshot.contents.indexes:
        root = snapshot.bases.get(segment.base_id)
        if root is not None:
            found.indexes[root, segment.uuid] = segment.name
    return found


def has_blobs(fields: Iterable[Field]) -> bool:
    """Whether a column, or a field inside one, holds blobs: only then are data directories listed for them."""
    marks = {(BLOB_KEY, b"true"), ("ARROW:extension:name", BLOB_EXTENSION.encode())}
    return any(not marks.isdisjoint((key, value) for key, value in field.metadata) for field in fields)


def file_rows(rows: Iterable[FileRow]) -> Iterator[pa.RecordBatch]:
    """FILES."""
    return in_batches(rows, FILES)


def data_directory(root: Root) -> str:
    """Where data files are below a place, with a slash at its end; empty for a place that holds nothing else."""
    return "data/" if root.is_dataset else ""


def data_uri(root: Root, path: str) -> str:
    """The URI of a data file."""
    return f"{root.uri}/{data_directory(root)}{stored_name(path)}"


def column_names(fields: Iterable[Field]) -> dict[int, str]:
    """Names by field id, with dots between a field and those it is inside of."""
    found: dict[int, str] = {}
    for field in fields:
        parent = found.get(field.parent_id)
        found[field.id] = field.name if parent is None else f"{parent}.{field.name}"
    return found
