"""Stores cleanup plans: the candidates as Parquet, then a document that makes them a plan.

A part counts only if the document lists it. So what a failed or repeated task wrote is never read.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv, parquet

from lance_spark import hints
from lance_spark.cleanup.sweep_rules import CANDIDATES, is_manifest
from lance_spark.core.layout import branch_root
from lance_spark.core.location import DatasetLocation
from lance_spark.core.records.stored_json import decode_json
from lance_spark.errors import CorruptData, InvalidOption, NotFound
from lance_spark.storage import files, small_files
from lance_spark.storage.deleting import BATCH, delete_batch
from lance_spark.storage.files import each

RECORDS = "_cleanup"
"""Directory for plans that are being executed, below the root of the dataset, or of a branch that is cleaned alone;
pylance never looks there."""
_DOCUMENT = "_plan.json"
"""The leading underscore makes Spark ignore the file when it reads the directory as Parquet."""
WRITTEN = pa.schema([("part", pa.string())])
_MANIFESTS, _FILES = "manifests", "candidates"
"""Prefixes of the names of parts."""


def write_parts(directory: DatasetLocation, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Store CANDIDATES durably, manifests and files in separate parts; yields their names as WRITTEN."""
    table = pa.Table.from_batches(batches, CANDIDATES)
    manifests = is_manifest(table)
    for kind, rows in ((_MANIFESTS, table.filter(manifests)), (_FILES, table.filter(pc.invert(manifests)))):
        if rows.num_rows:
            content = io.BytesIO()
            pq.write_table(rows, content, compression="zstd")
            name = f"{kind}-{uuid4().hex}.parquet"
            small_files.write_file(directory, name, content.getvalue())
            yield pa.record_batch([pa.array([name])], WRITTEN)


def holds_manifests(part: str) -> bool:
    """Whether a part holds manifests, which are deleted first, rather than files."""
    return part.startswith(f"{_MANIFESTS}-")


def read_part(directory: DatasetLocation, name: str) -> pa.Table | None:
    """The candidates of one part; None if the part is gone because another run finished the plan."""
    content = files.read(directory, name)
    return None if content is None else pq.read_table(io.BytesIO(content), schema=CANDIDATES)


def write_document(directory: DatasetLocation, document: Mapping[str, Any]) -> None:
    """Store the document that makes the parts a plan."""
    small_files.write_file(directory, _DOCUMENT, json.dumps(document).encode())


def read_document(directory: DatasetLocation) -> dict[str, Any]:
    """The document of a stored plan. Raises NotFound if there is none, CorruptData for an unreadable one."""
    document = _document(directory)
    if document is None:
        raise NotFound(f"{directory.uri} has no cleanup plan.", hint=hints.of("Make one: ", hints.STORE_PLAN, "."))
    return document


def _document(directory: DatasetLocation) -> dict[str, Any] | None:
    content = files.read(directory, _DOCUMENT)
    if content is None:
        return None
    try:
        document = decode_json(content)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise CorruptData(f"{directory.uri}/{_DOCUMENT} cannot be read.", hint="Make the plan again.")
    return document


class Unfinished(NamedTuple):
    """A plan whose execution began but did not finish."""

    directory: DatasetLocation
    parts: tuple[str, ...]
    branches: tuple[str, ...]
    """The branches that it cleans; empty for the whole dataset."""


def unfinished(location: DatasetLocation, branches: Sequence[str | None]) -> dict[str, Unfinished]:
    """Plans that began and did not finish, by name, from the records below the directories of these branches.

    None is main, whose directory holds the records of cleanups of the whole dataset. Raises CorruptData for an
    unreadable document.
    """
    listed = each(location, lambda branch: files.list_names(location, branch_root(branch) + RECORDS), branches)
    records = {}
    for branch, names in zip(branches, listed, strict=True):
        for name in names:
            directory = record(location, name, branch)
            document = _document(directory)
            if document is not None:
                parts, cleaned = document.get("parts", ()), document.get("branches", ())
                key = name if branch is None else f"{branch_root(branch)}{RECORDS}/{name}"
                records[key] = Unfinished(directory, tuple(parts), tuple(cleaned))
    return records


def record(location: DatasetLocation, name: str, branch: str | None = None) -> DatasetLocation:
    """The directory that records a plan during its execution, below that of a branch (None for main)."""
    below = location if branch is None else DatasetLocation(location.branch_uri(branch), location.options)
    return DatasetLocation(f"{below.uri}/{RECORDS}/{name}", location.options)


def forget(directory: DatasetLocation, parts: Sequence[str]) -> None:
    """Remove a record: the document last, so that a crash leaves a record that still lists its parts."""
    if directory.is_local:
        files.delete(directory, [*parts, _DOCUMENT, ""])
        return
    ends = [delete_batch(directory, parts[first : first + BATCH]) for first in range(0, len(parts), BATCH)]
    if not any(end.failed for end in ends):
        delete_batch(directory, [_DOCUMENT])


# --- Reading an inventory file without Spark


def read_inventory(path: str) -> pa.Table:
    """A Parquet or CSV file as a table. Raises InvalidOption for an unreadable one."""
    try:
        table: pa.Table = csv.read_csv(path) if path.endswith((".csv", ".csv.gz")) else parquet.read_table(path)
    except (OSError, pa.ArrowInvalid) as problem:
        raise InvalidOption(f"The inventory {path} cannot be read: {problem}") from None
    return table
