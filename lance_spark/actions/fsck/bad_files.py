"""Whether a file that a version names is still bad. A store that does not answer proves nothing."""

from __future__ import annotations

from lance_spark.checkup import codes
from lance_spark.checkup.compare import Inside
from lance_spark.checkup.repair_steps import SuspectFile
from lance_spark.errors import StorageFailure
from lance_spark.layout import file_kinds
from lance_spark.location import DatasetLocation
from lance_spark.manifest.indexes import IndexRecord
from lance_spark.merge.snapshot import Root
from lance_spark.store import files
from lance_spark.store.insides import LookInside, size_of


def is_bad(location: DatasetLocation, file: SuspectFile) -> bool:
    """Whether a file is missing, has another size, or cannot be what a version says. Raises StorageFailure."""
    size = size_of(location, file.path)
    if not size or (file.size and size != file.size):
        return True
    (seen,) = LookInside(location)([Inside(file.path, file.kind, file.rows, file.deleted)])
    if seen is not None and seen[0] == codes.FILE_UNREACHABLE:
        raise StorageFailure(f"{file.path} could not be read: {seen[1]}", hint="Check network and credentials.")
    return seen is not None


def directory_of(root: Root, uuid: str) -> str:
    """URI of the directory of a segment of an index."""
    return f"{root.uri}/_indices/{uuid}" if root.is_dataset else f"{root.uri}/{uuid}"


def is_sound_segment(location: DatasetLocation, root: Root, index: IndexRecord) -> bool:
    """Whether all files of a segment are in a place, and end as they should. Raises StorageFailure."""
    directory = directory_of(root, index.uuid)
    for path, size in index.needed:
        if not path:
            if not files.list_names(DatasetLocation(directory, location.options), ""):
                return False
        elif is_bad(location, SuspectFile(f"{directory}/{path}", file_kinds.INDEX, size, 0)):
            return False
    return True
