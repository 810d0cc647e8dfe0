"""Versions that say which batches are in, and change no row."""

from __future__ import annotations

from lance_spark.actions.attempts import attempts, overtaken
from lance_spark.errors import Conflict
from lance_spark.location import DatasetLocation
from lance_spark.refs.model import PinnedVersion
from lance_spark.store.datasets import pin_latest
from lance_spark.store.stream_sink import commit_note
from lance_spark.streams.sink import Batch


def mark(location: DatasetLocation, batch: Batch) -> PinnedVersion:
    """Commit a version that says that a batch is in. Raises Conflict."""
    for _ in attempts():
        try:
            return commit_note(location, pin_latest(location, batch.branch), batch.properties)
        except Conflict:
            continue
    raise overtaken(batch.branch)
