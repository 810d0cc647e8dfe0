"""Lists what a manifest does not tell of the files of a version: sizes of deletion files, indexes, blobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from lance_spark.layout.key_ranges import KeyRange
from lance_spark.layout.names import stored_name
from lance_spark.location import DatasetLocation
from lance_spark.merge.snapshot import Root
from lance_spark.metadata.files import BLOB, INDEX, Beside, FileRow, beside, data_directory
from lance_spark.refs.model import PinnedVersion
from lance_spark.store import files, version_reader
from lance_spark.store.listing import list_range
from lance_spark.store.parallel import each


def deletion_sizes(location: DatasetLocation, found: Beside) -> dict[str, int]:
    """Bytes of the deletion files that a version names, by URI."""
    sizes = {}
    for root, paths in found.deletions.items():
        for path, size in listed_below(location, root, "_deletions/"):
            if size is not None and path in paths:
                sizes[f"{root.uri}/{path}"] = size
    return sizes


def index_files(location: DatasetLocation, found: Beside) -> Iterator[FileRow]:
    """The files of all segments of indexes."""
    for (root, uuid), name in found.indexes.items():
        for path, size in listed_below(location, root, f"_indices/{uuid}/"):
            yield FileRow(INDEX, f"{root.uri}/{path}", size, index_name=name)


def blob_files(location: DatasetLocation, found: Beside) -> Iterator[FileRow]:
    """The files with blobs that lie in directories beside data files."""
    for root, fragments in found.data.items():
        yield from _blobs(location, root, fragments)


def missing_files(location: DatasetLocation, pin: PinnedVersion) -> list[str]:
    """URIs of data files, deletion files and indexes that a version names and that are not there."""
    snapshot = version_reader.read_snapshot(location, pin)
    named = [
        (snapshot.root_of(file), f"{data_directory(snapshot.root_of(file))}{stored_name(file.path)}")
        for fragment in snapshot.contents.fragments()
        for file in fragment.files
    ]
    found = beside(snapshot)
    named += [(root, path) for root, paths in found.deletions.items() for path in paths]
    named += [(root, f"_indices/{uuid}") for root, uuid in found.indexes]
    there = each(location, partial(_is_there, location), named)
    return [f"{root.uri}/{path}" for (root, path), exists in zip(named, there, strict=True) if not exists]


def _is_there(location: DatasetLocation, named: tuple[Root, str]) -> bool:
    root, path = named
    return files.exists(DatasetLocation(root.uri, location.options), path)


def _blobs(location: DatasetLocation, root: Root, fragments: Mapping[str, int]) -> Iterator[FileRow]:
    directory = data_directory(root)
    for path, size in listed_below(location, root, directory):
        stem, slash, _ = path.removeprefix(directory).rpartition("/")
        while slash and stem not in fragments:
            stem, slash, _ = stem.rpartition("/")
        if slash:
            yield FileRow(BLOB, f"{root.uri}/{path}", size, fragment_id=fragments[stem])


def listed_below(location: DatasetLocation, root: Root, directory: str) -> Iterator[tuple[str, int | None]]:
    """(path below the root, bytes) of the files in a directory, which is given with a slash at its end."""
    place = DatasetLocation(root.uri, location.options)
    part = KeyRange.below(directory[:-1]) if directory else KeyRange(None, None)
    for batch in list_range(place, part):
        yield from zip(batch["path"].to_pylist(), batch["size"].to_pylist(), strict=True)
