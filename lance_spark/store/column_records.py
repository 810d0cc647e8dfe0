"""Records of files that a backfill finished: with them the same call, made again after a kill, goes on.

They lie in ``_backfill`` below the branch, a directory for each call. A cleanup takes them for what jobs leave behind:
those that are old go, as do the files they name, which no version knows.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from lance_spark.backfill.model import FilledFile, RecordPlace
from lance_spark.layout.names import BACKFILL
from lance_spark.location import DatasetLocation
from lance_spark.store import files, small_files

_SUFFIX = ".json"
USED_FOR = 3 * 24 * 3600
"""Seconds for which a record counts. Cleanups delete files that no version names only after more days than that."""


def write_record(location: DatasetLocation, branch: str | None, place: RecordPlace, written: FilledFile) -> None:
    """Note down a file that was checked."""
    content = {**written._asdict(), "written": time.time()}
    small_files.write_file(
        _directory(location, branch, place.call), place.keys[written.fragment] + _SUFFIX, _json(content)
    )


def read_records(location: DatasetLocation, branch: str | None, place: RecordPlace) -> Mapping[int, FilledFile]:
    """The files of fragments that an earlier call finished; what cannot be read counts as not finished."""
    directory = _directory(location, branch, place.call)
    there = frozenset(files.list_names(directory, ""))
    names = {key: name + _SUFFIX for key, name in place.keys.items() if name + _SUFFIX in there}
    found = {}
    for fragment, content in zip(names, files.read_many(directory, list(names.values())), strict=True):
        record = None if content is None else _read(content)
        if record is not None and record.fragment == fragment:
            found[fragment] = record
    return found


def forget_records(location: DatasetLocation, branch: str | None, call: str) -> None:
    """Remove the records of a call: its files are committed, or will not be used."""
    files.delete(DatasetLocation(location.branch_uri(branch), location.options), [f"{BACKFILL}/{call}"])


def _directory(location: DatasetLocation, branch: str | None, call: str) -> DatasetLocation:
    return DatasetLocation(f"{location.branch_uri(branch)}/{BACKFILL}/{call}", location.options)


def _json(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content).encode()


def _read(content: bytes) -> FilledFile | None:
    try:
        record = json.loads(content)
        age = time.time() - record.pop("written")
        return FilledFile(**record) if age < USED_FOR else None
    except (ValueError, TypeError, KeyError):
        return None
