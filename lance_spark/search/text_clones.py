"""Text search in rows that no index covers: in a private clone of the version, whose index is complete.

By itself, pylance 14.0.2 compares such rows word by word: without an index, in other words than an index has (case and
endings count), and beside an index, with other counts of documents and words than those by which the index scores its
own rows. So rows and order depended on how much was indexed. Here, a task builds what an index lacks for itself, in a
directory of its own, and searches the whole.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from lance_spark.core.layout import VERSIONS, manifest_names
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.errors import NotFound
from lance_spark.format.manifest import private_manifest
from lance_spark.indexes.index_segments import SegmentOrder, build_segment, commit_segments, unpack
from lance_spark.search.search_rules import TEXT_KIND, TextGap
from lance_spark.storage import files
from lance_spark.storage.datasets import open_own
from lance_spark.storage.versions import read_manifest, read_snapshot

if TYPE_CHECKING:
    import lance


@contextmanager
def with_complete_indexes(
    location: DatasetLocation, pin: PinnedVersion, gaps: Sequence[TextGap]
) -> Iterator[lance.LanceDataset]:
    """The version with text indexes that cover all rows. Nothing is written to the dataset."""
    with tempfile.TemporaryDirectory(prefix="lance-spark-search-") as directory:
        clone = DatasetLocation(directory, location.options)
        _clone(location, pin, directory, {uuid for gap in gaps for uuid in gap.without})
        built = []
        head = PinnedVersion(None, pin.version)
        for gap in gaps:
            order = SegmentOrder(clone, head, gap.column, TEXT_KIND, gap.name, gap.settings)
            (batch,) = build_segment(order, gap.fragments)
            built.append(unpack(batch.column(0)[0].as_py()))
        yield open_own(clone, commit_segments(clone, head, built, ()))


def _clone(location: DatasetLocation, pin: PinnedVersion, directory: str, without: set[str]) -> None:
    bases = read_snapshot(location, pin).bases
    private = private_manifest(read_manifest(location, pin), {key: root.uri for key, root in bases.items()}, without)
    manifest = Path(directory, VERSIONS, manifest_names(pin.version)[0])
    contents = {manifest: private.content}
    for path in private.files:
        content = files.read(DatasetLocation(location.branch_uri(pin.branch), location.options), path)
        if content is None:
            raise NotFound(f"The file {path} of version {pin} of {location.uri} is missing.")
        contents[Path(directory, path)] = content
    for target, content in contents.items():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
