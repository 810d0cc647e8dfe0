"""Removes what a failed clone left at its source: no clone will read those versions."""

from __future__ import annotations

from lance_spark.errors import NotFound
from lance_spark.location import DatasetLocation
from lance_spark.refs.parse import TAGS
from lance_spark.store import clones, refs


def release(source: DatasetLocation, target: DatasetLocation) -> None:
    """Delete the tags and the record that protect versions for a clone at ``target``. Raises StorageFailure.

    Only for a clone that no longer exists: a cleanup of the source would delete the files that the clone reads.
    """
    name = clones.record_name(target)
    for tag in refs.list_ref_names(source, TAGS):
        if tag == name or tag.startswith(f"{name}-"):
            try:
                refs.delete_tag(source, tag)
            except NotFound:
                continue  # gone already
    clones.delete_record(source, target)
