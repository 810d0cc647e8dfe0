"""The metadata tables ``branches``, ``tags`` and ``versions``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from lance_spark.metadata.batches import MOMENT, TEXTS, in_batches, pairs
from lance_spark.refs.model import Branch, Tag, VersionInfo
from lance_spark.refs.names import MAIN

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
    """BRANCHES: all branches but main, by name."""
    ordered = sorted(branches, key=lambda branch: branch.name)
    return in_batches(
        (
            (found.name, found.parent_branch or MAIN, found.parent_version, found.created_at, pairs(found.metadata))
            for found in ordered
        ),
        BRANCHES,
    )


def tag_rows(tags: Iterable[Tag]) -> Iterator[pa.RecordBatch]:
    """TAGS, by name; the time is null where an older writer did not record it."""
    ordered = sorted(tags, key=lambda tag: tag.name)
    return in_batches(
        (
            (found.name, found.branch or MAIN, found.version, found.created_at, pairs(found.metadata))
            for found in ordered
        ),
        TAGS,
    )


def version_rows(versions: Iterable[VersionInfo], newest: int) -> Iterator[pa.RecordBatch]:
    """VERSIONS of one branch up to one of them, oldest first."""
    return in_batches(
        ((found.version, found.timestamp, pairs(found.metadata)) for found in versions if found.version <= newest),
        VERSIONS,
    )
