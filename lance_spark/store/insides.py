"""Looks inside of single files: whether they can be opened, and hold as many rows as a version says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from lance_spark.checkup import codes
from lance_spark.checkup.compare import Inside
from lance_spark.errors import CorruptData, LanceSparkError, NotFound, StorageFailure
from lance_spark.layout import file_kinds
from lance_spark.location import DatasetLocation
from lance_spark.store import files
from lance_spark.store.deletions import parse_deletions
from lance_spark.store.failures import translated
from lance_spark.store.filesystem import open_filesystem, reachable, whole_path
from lance_spark.store.parallel import each

_MAGIC = b"LANC"
_LEGACY = ((0, 1), (0, 2))
"""Versions in the footers of files of the first format, which have no reader of their own any more."""
_FOOTER = 8
_MISSING = {file_kinds.DELETION: codes.DELETION_MISSING, file_kinds.INDEX: codes.INDEX_MISSING}
_DAMAGED = {file_kinds.DELETION: codes.DELETION_DAMAGED, file_kinds.INDEX: codes.INDEX_DAMAGED}
_IS_OPENED = (".lance", ".idx")


@dataclass(frozen=True)
class LookInside:
    """Looks inside of files of a dataset; runs on executors."""

    location: DatasetLocation

    def __call__(self, insides: list[Inside]) -> Sequence[tuple[str, str] | None]:
        """For each file what is wrong with it, as a code and a detail; None for a sound one."""
        return each(self.location, partial(_look, self.location), insides)


def size_of(location: DatasetLocation, path: str) -> int | None:
    """Bytes of a file, by its path below the dataset or by its URI; None if it is not there."""
    place, below = _place(location, path)
    with reachable(place):
        filesystem = open_filesystem(place)
        filesystem.invalidate_cache()
        try:
            return int(filesystem.info(whole_path(place, below))["size"] or 0)
        except (FileNotFoundError, NotADirectoryError):
            return None


def _look(location: DatasetLocation, inside: Inside) -> tuple[str, str] | None:
    try:
        if inside.kind == file_kinds.DELETION:
            return _deletions(location, inside)
        if inside.kind == file_kinds.INDEX:
            return _index(location, inside)
        return _data(location, inside) if inside.path.endswith(".lance") else None
    except NotFound as problem:
        return _MISSING.get(inside.kind, codes.DATA_MISSING), problem.message
    except StorageFailure as problem:
        return codes.FILE_UNREACHABLE, problem.message
    except CorruptData as problem:
        return _DAMAGED.get(inside.kind, codes.DATA_DAMAGED), problem.message


def _deletions(location: DatasetLocation, inside: Inside) -> tuple[str, str] | None:
    content = files.read(*_place(location, inside.path))
    if content is None:
        raise NotFound("It is gone.")
    offsets = parse_deletions(inside.path, content)
    if inside.deleted is not None and len(offsets) != inside.deleted:
        return codes.DELETION_COUNT, f"{len(offsets):,} rows instead of {inside.deleted:,}"
    if inside.rows and len(offsets) and offsets[-1].as_py() >= inside.rows:
        return codes.DELETION_COUNT, f"row {offsets[-1].as_py():,} of {inside.rows:,} rows"
    return None


def _index(location: DatasetLocation, inside: Inside) -> tuple[str, str] | None:
    if not inside.path.endswith(_IS_OPENED):
        return None
    tail = _tail(location, inside.path)
    return None if tail.endswith(_MAGIC) else (codes.INDEX_DAMAGED, "it does not end as an index file does")


def _data(location: DatasetLocation, inside: Inside) -> tuple[str, str] | None:
    tail = _tail(location, inside.path)
    if not tail.endswith(_MAGIC):
        return codes.DATA_DAMAGED, "it does not end as a data file does"
    if (int.from_bytes(tail[:2], "little"), int.from_bytes(tail[2:4], "little")) in _LEGACY:
        return None
    from lance.file import LanceFileReader

    place, below = _place(location, inside.path)
    uri = f"{place.uri}/{below}" if below else place.uri
    try:
        with translated(place, "reading a footer"):
            rows = LanceFileReader(uri, storage_options=place.storage_options).num_rows()
    except (NotFound, StorageFailure, CorruptData):
        raise
    except LanceSparkError as problem:  # what else pylance says of bytes that it does not understand
        return codes.DATA_DAMAGED, problem.message
    if inside.rows and rows != inside.rows:
        return codes.ROW_COUNT, f"{rows:,} rows instead of {inside.rows:,}"
    return None


def _tail(location: DatasetLocation, path: str) -> bytes:
    place, below = _place(location, path)
    with reachable(place):
        try:
            return bytes(open_filesystem(place).tail(whole_path(place, below), _FOOTER))
        except (FileNotFoundError, NotADirectoryError):
            raise NotFound("It is gone.") from None


def _place(location: DatasetLocation, path: str) -> tuple[DatasetLocation, str]:
    """Where a file is, as the root of a store's directory and a path below it."""
    return (DatasetLocation(path, location.options), "") if "://" in path or path.startswith("/") else (location, path)
