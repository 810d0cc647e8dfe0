"""Metadata tables of a dataset at a ref: what refs, manifests and listings say, as Arrow batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain

import pyarrow as pa

from lance_spark.actions.resolve import resolve
from lance_spark.errors import NotFound
from lance_spark.location import DatasetLocation
from lance_spark.metadata.files import beside, data_rows, file_rows, fragment_rows, has_blobs
from lance_spark.metadata.indexes import index_rows
from lance_spark.metadata.names import METADATA_TABLES
from lance_spark.metadata.refs import branch_rows, tag_rows, version_rows
from lance_spark.metadata.tables import SCHEMAS
from lance_spark.refs.model import PinnedVersion, RefSpec
from lance_spark.store import datasets, refs, version_reader
from lance_spark.store.beside import blob_files, deletion_sizes, index_files
from lance_spark.store.index_descriptions import describe_segments


def metadata_schema(table: str) -> pa.Schema:
    """The columns of a metadata table. Raises NotFound for one that there is not."""
    if table not in SCHEMAS:
        raise NotFound(f"There is no metadata table '{table}'.", hint=f"There are {', '.join(METADATA_TABLES)}.")
    return SCHEMAS[table]


def read_metadata_table(location: DatasetLocation, spec: RefSpec, table: str) -> Iterator[pa.RecordBatch]:
    """The rows of a metadata table of the version that a ref means right now, batch by batch.

    Branches and tags are those of the whole dataset; ``versions`` are those of the ref's branch up to the ref.
    Raises NotFound, CorruptData, StorageFailure; some only while batches are taken.
    """
    metadata_schema(table)
    return _READERS[table](location, resolve(location, spec))


def _branches(location: DatasetLocation, _: PinnedVersion) -> Iterator[pa.RecordBatch]:
    return branch_rows(refs.read_refs(location).branches.values())


def _tags(location: DatasetLocation, _: PinnedVersion) -> Iterator[pa.RecordBatch]:
    return tag_rows(refs.read_refs(location).tags.values())


def _versions(location: DatasetLocation, pin: PinnedVersion) -> Iterator[pa.RecordBatch]:
    return version_rows(datasets.list_versions(location, pin.branch), pin.version)


def _fragments(location: DatasetLocation, pin: PinnedVersion) -> Iterator[pa.RecordBatch]:
    return fragment_rows(version_reader.read_snapshot(location, pin))


def _files(location: DatasetLocation, pin: PinnedVersion) -> Iterator[pa.RecordBatch]:
    snapshot = version_reader.read_snapshot(location, pin)
    found = beside(snapshot)
    rows = chain(
        data_rows(snapshot, deletion_sizes(location, found)),
        index_files(location, found),
        blob_files(location, found) if has_blobs(snapshot.contents.fields) else (),
    )
    return file_rows(rows)


def _indexes(location: DatasetLocation, pin: PinnedVersion) -> Iterator[pa.RecordBatch]:
    contents = version_reader.read_contents(location, pin)
    fragments = frozenset(fragment.id for fragment in contents.fragments())
    return index_rows(describe_segments(location, pin), fragments)


_READERS: Mapping[str, Callable[[DatasetLocation, PinnedVersion], Iterator[pa.RecordBatch]]] = {
    "branches": _branches,
    "tags": _tags,
    "versions": _versions,
    "fragments": _fragments,
    "files": _files,
    "indexes": _indexes,
}
