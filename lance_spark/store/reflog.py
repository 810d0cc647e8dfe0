"""Stores the records of changed refs, one small file each."""

from __future__ import annotations

from functools import partial

from lance_spark.location import DatasetLocation
from lance_spark.refs.reflog import LOG, RefChange, decode, encode
from lance_spark.store import files
from lance_spark.store.parallel import each

_SUFFIX = ".json"


def write_change(location: DatasetLocation, change: RefChange) -> None:
    """Write a record, or write it again; it is safe on the disk when this returns."""
    from lance_spark.store.small_files import write_file  # pulls in pyarrow, for which commands do not wait

    write_file(DatasetLocation(f"{location.uri}/{LOG}", location.options), f"{change.id}{_SUFFIX}", encode(change))


def read_change(location: DatasetLocation, name: str) -> RefChange | None:
    """One record; None if it is gone. Raises CorruptData."""
    content = files.read(location, f"{LOG}/{name}{_SUFFIX}")
    return None if content is None else decode(name, content)


def read_changes(location: DatasetLocation) -> tuple[RefChange, ...]:
    """All records, the oldest first. Raises CorruptData."""
    names = [name.removesuffix(_SUFFIX) for name in files.list_names(location, LOG) if name.endswith(_SUFFIX)]
    found = each(location, partial(read_change, location), sorted(names))
    return tuple(change for change in found if change is not None)


def remove_change(location: DatasetLocation, change: RefChange) -> None:
    """Remove a record; nothing happens if it is gone."""
    files.delete(location, [f"{LOG}/{change.id}{_SUFFIX}"])
