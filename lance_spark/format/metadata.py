"""The metadata tables: their columns, and their rows from decoded versions and refs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import NamedTuple

import pyarrow as pa

from lance_spark.core.layout import stored_name
from lance_spark.core.refs import MAIN, Branch, Tag, VersionInfo
from lance_spark.format.blobs import BLOB_EXTENSION, BLOB_KEY
from lance_spark.format.contents import Field
from lance_spark.format.operations import column_names
from lance_spark.format.schema import in_batches
from lance_spark.format.versions import Root, Snapshot

TEXTS = pa.map_(pa.string(), pa.string())
MOMENT = pa.timestamp("us", "UTC")


def pairs(values: Mapping[str, str]) -> list[tuple[str, str]]:
    """A mapping as the value of a column of :data:`TEXTS`, by key."""
    return sorted(values.items())


# --- The metadata tables ``fragments`` and ``files``, from a version's manifest and listings beside it

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
"""``content`` is ``data``, ``deletion``, ``index`` or ``blob``; ``record_count`` is the rows of a data file, including
deleted ones, or the number of rows that a deletion file deletes."""


class FileRow(NamedTuple):
    content: str
    file_path: str
    file_size_in_bytes: int | None
    record_count: int | None = None
    fragment_id: int | None = None
    columns: list[str] | None = None
    index_name: str | None = None


class Beside(NamedTuple):
    """The listings that complete the files of a version."""

    deletions: dict[Root, set[str]]
    """Paths of deletion files that the version names, by place."""
    data: dict[Root, dict[str, int]]
    """Fragments by the names of their data files, whose blobs lie in directories of these names."""
    indexes: dict[tuple[Root, str], str]
    """Names of indexes, by the segment's place and id."""


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
    """Data and deletion files as the manifest names them; ``sizes`` are the sizes of deletion files, by URI."""
    names = column_names(snapshot.contents.fields)
    counts = snapshot.contents.counts_rows
    for fragment in snapshot.contents.fragments():
        for file in fragment.files:
            root = snapshot.root_of(file)
            uri = f"{root.uri}/{data_directory(root)}{stored_name(file.path)}"
            columns = [names[key] for key in file.fields if key in names]
            rows = fragment.physical_rows if counts else None
            yield FileRow(DATA, uri, file.size or None, rows, fragment.id, columns)
        if fragment.deletion is not None:
            uri = f"{snapshot.root_of(fragment.deletion).uri}/{fragment.deletion.path_for(fragment.id)}"
            yield FileRow(DELETION, uri, sizes.get(uri), fragment.deletion.rows, fragment.id)


def beside(snapshot: Snapshot) -> Beside:
    """What listings must add: sizes of deletion files, files of indexes, blobs beside data files."""
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


def referred_bases(snapshot: Snapshot) -> dict[int, Root]:
    """Base paths below which blobs may refer to objects, by the numbers that these blobs have in their data files."""
    if not has_blobs(snapshot.contents.fields):
        return {}
    return {key: root for key, root in snapshot.bases.items() if key is not None and not root.is_dataset}


def data_directory(root: Root) -> str:
    """The directory of data files below a place, with a trailing slash; empty for a place with nothing else."""
    return "data/" if root.is_dataset else ""


# --- The metadata table ``indexes``: one row for each segment of an index

INDEXES = pa.schema(
    [
        pa.field("name", pa.string(), nullable=False),
        pa.field("index_type", pa.string(), nullable=False),
        pa.field("columns", pa.list_(pa.string()), nullable=False),
        pa.field("uuid", pa.string(), nullable=False),
        pa.field("num_fragments", pa.int64(), nullable=False),
        pa.field("num_unindexed_fragments", pa.int64(), nullable=False),
        pa.field("size_bytes", pa.int64()),
        pa.field("created_at", MOMENT),
        pa.field("dataset_version", pa.int64()),
        pa.field("inherited", pa.bool_(), nullable=False),
    ]
)
"""``num_unindexed_fragments`` counts the fragments that no segment of the index covers; a segment is ``inherited`` if
its files belong to another branch or dataset."""


class Segment(NamedTuple):
    name: str
    index_type: str
    columns: list[str]
    uuid: str
    fragments: frozenset[int]
    size_bytes: int | None
    created_at: datetime | None
    dataset_version: int | None
    inherited: bool


def index_rows(segments: Iterable[Segment], fragments: frozenset[int]) -> Iterator[pa.RecordBatch]:
    """INDEXES of a version with these fragments, by name."""
    ordered = sorted(segments, key=lambda segment: (segment.name, segment.uuid))
    covered: dict[str, frozenset[int]] = {}
    for segment in ordered:
        covered[segment.name] = covered.get(segment.name, frozenset()) | segment.fragments
    return in_batches(
        (
            (
                found.name,
                found.index_type,
                found.columns,
                found.uuid,
                len(found.fragments & fragments),
                len(fragments - covered[found.name]),
                found.size_bytes,
                found.created_at,
                found.dataset_version,
                found.inherited,
            )
            for found in ordered
        ),
        INDEXES,
    )


# --- The metadata tables ``branches``, ``tags`` and ``versions``

BRANCHES = pa.schema(
    [
        pa.field("name", pa.string(), nullable=False),
        pa.field("parent_branch", pa.string(), nullable=False),
        pa.field("parent_version", pa.int64(), nullable=False),
        pa.field("created_at", MOMENT, nullable=False),
        pa.field("metadata", TEXTS, nullable=False),
    ]
)
TAGS = pa.schema(
    [
        pa.field("name", pa.string(), nullable=False),
        pa.field("branch", pa.string(), nullable=False),
        pa.field("version", pa.int64(), nullable=False),
        pa.field("created_at", MOMENT),
        pa.field("metadata", TEXTS, nullable=False),
    ]
)
VERSIONS = pa.schema(
    [
        pa.field("version", pa.int64(), nullable=False),
        pa.field("timestamp", MOMENT, nullable=False),
        pa.field("metadata", TEXTS, nullable=False),
    ]
)


def branch_rows(branches: Iterable[Branch]) -> Iterator[pa.RecordBatch]:
    """BRANCHES: all branches except main, by name."""
    ordered = sorted(branches, key=lambda branch: branch.name)
    return in_batches(
        (
            (found.name, found.parent_branch or MAIN, found.parent_version, found.created_at, pairs(found.metadata))
            for found in ordered
        ),
        BRANCHES,
    )


def tag_rows(tags: Iterable[Tag]) -> Iterator[pa.RecordBatch]:
    """TAGS, by name; the time is null if an older writer did not record it."""
    ordered = sorted(tags, key=lambda tag: tag.name)
    return in_batches(
        (
            (found.name, found.branch or MAIN, found.version, found.created_at, pairs(found.metadata))
            for found in ordered
        ),
        TAGS,
    )


def version_rows(versions: Iterable[VersionInfo], newest: int) -> Iterator[pa.RecordBatch]:
    """VERSIONS of one branch up to a given one, oldest first."""
    return in_batches(
        ((found.version, found.timestamp, pairs(found.metadata)) for found in versions if found.version <= newest),
        VERSIONS,
    )


# --- The columns of each metadata table

SCHEMAS: Mapping[str, pa.Schema] = {
    "branches": BRANCHES,
    "tags": TAGS,
    "versions": VERSIONS,
    "fragments": FRAGMENTS,
    "files": FILES,
    "indexes": INDEXES,
}
"""By name, like :data:`METADATA_TABLES`."""
