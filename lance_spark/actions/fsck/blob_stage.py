"""Looks for the files with blobs beside data files. No manifest names them, so rows have to be read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.checkup.blobs import blob_files, blob_problems
from lance_spark.checkup.compare import SUSPECTS
from lance_spark.cleanup.survey import Chain, Survey
from lance_spark.errors import LanceSparkError
from lance_spark.layout.names import stored_name
from lance_spark.location import DatasetLocation
from lance_spark.manifest.contents import DataFile
from lance_spark.merge.snapshot import Root, Snapshot
from lance_spark.metadata.files import data_directory
from lance_spark.refs.model import PinnedVersion
from lance_spark.schema.blobs import BLOB_EXTENSION
from lance_spark.store.beside import listed_below
from lance_spark.store.blob_descriptions import read_descriptions
from lance_spark.store.version_reader import read_snapshot

_AT_ONCE = 2**20
"""Bytes of a manifest whose fragments one task looks at: some thousands of fragments."""
_EXTENSION = "ARROW:extension:name"


@dataclass(frozen=True)
class BlobItem:
    """A part of the fragments of a version that a ref needs."""

    location: DatasetLocation
    pin: PinnedVersion
    main: PinnedVersion | None
    """The newest version of main, whose files another item looks for; None for main itself."""
    part: int
    parts: int


def blob_items(survey: Survey) -> Iterator[BlobItem]:
    """The newest version of each branch, and the versions with a tag."""
    tagged = {(tag.branch, tag.version) for tag in survey.refs.tags.values()}
    main = next((chain for _, chain in survey.owned() if chain.branch is None and chain.versions), None)
    newest = None if main is None else PinnedVersion(None, main.versions[-1].version)
    for _, chain in survey.owned():
        if chain.has_ref and chain.versions:
            yield from _items(survey, chain, tagged, newest)


def _items(
    survey: Survey, chain: Chain, tagged: set[tuple[str | None, int]], main: PinnedVersion | None
) -> Iterator[BlobItem]:
    for file in chain.versions:
        if file is chain.versions[-1] or (chain.branch, file.version) in tagged:
            pin = PinnedVersion(chain.branch, file.version)
            parts = 1 + file.size // _AT_ONCE
            for part in range(parts):
                yield BlobItem(survey.location, pin, None if pin == main else main, part, parts)


def look_for_blobs(item: BlobItem) -> Iterator[pa.RecordBatch]:
    """SUSPECTS without chains, for each file with blobs that is not as the rows say.

    What cannot be read, as a data file or a manifest is gone, is found by another stage.
    """
    try:
        snapshot = read_snapshot(item.location, item.pin)
        fields = _blob_fields(snapshot)
        known = _files_of(item.location, item.main) if item.main is not None and fields else frozenset()
    except LanceSparkError:
        return
    fragments = list(snapshot.contents.fragments())[item.part :: item.parts] if fields else []
    rows = [
        row
        for fragment in fragments
        for file in fragment.files
        if file.path not in known and (names := [fields[one] for one in file.fields if one in fields])
        for row in _beside(item, snapshot, fragment.id, file, names)
    ]
    yield pa.RecordBatch.from_pylist(rows, SUSPECTS)


def _blob_fields(snapshot: Snapshot) -> dict[int, str]:
    """Columns whose large values lie beside data files, by the ids of their fields."""
    return {
        field.id: field.name
        for field in snapshot.contents.fields
        if field.parent_id < 0 and dict(field.metadata).get(_EXTENSION) == BLOB_EXTENSION.encode()
    }


def _files_of(location: DatasetLocation, pin: PinnedVersion) -> frozenset[str]:
    """Names of the data files of a version; they begin with random digits."""
    contents = read_snapshot(location, pin).contents
    return frozenset(file.path for fragment in contents.fragments() for file in fragment.files)


def _beside(
    item: BlobItem, snapshot: Snapshot, fragment: int, file: DataFile, names: list[str]
) -> Iterator[dict[str, Any]]:
    try:
        wanted = blob_files(read_descriptions(item.location, item.pin, fragment, names))
    except LanceSparkError:
        return
    root = snapshot.root_of(file)
    directory = f"{data_directory(root)}{stored_name(file.path).removesuffix('.lance')}/"
    listed = {path[len(directory) :]: size or 0 for path, size in listed_below(item.location, root, directory)}
    nothing = dict.fromkeys(SUSPECTS.names)
    for problem in blob_problems(wanted, listed):
        path = _relative(item.location, root, directory + problem.name)
        about = {"code": problem.code, "path": path, "expected": problem.expected, "rows": problem.rows}
        yield {**nothing, **about, "detail": problem.detail, "files": 1, "bytes": 0}


def _relative(location: DatasetLocation, root: Root, path: str) -> str:
    """As other findings name a file: below the dataset, or by its URI."""
    whole = f"{root.uri}/{path}"
    return whole[len(location.uri) + 1 :] if whole.startswith(f"{location.uri}/") else whole


@dataclass(frozen=True)
class Naming:
    """Finds the versions that name data files."""

    keys: frozenset[str]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of NEEDED about them."""
        for batch in batches:
            yield batch.filter(pc.is_in(batch["key"], pa.array(sorted(self.keys), pa.string())))


def data_file_of(path: str) -> str:
    """The data file that a file with blobs lies beside."""
    return f"{path.rpartition('/')[0]}.lance"
