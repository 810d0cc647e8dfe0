"""Records of clones beside their source: written, and released with the tags that protect what a clone reads."""

from __future__ import annotations

import json
from contextlib import suppress
from hashlib import sha256

from lance_spark.core.location import DatasetLocation
from lance_spark.core.ref_files import TAGS
from lance_spark.core.refs import PinnedVersion
from lance_spark.errors import NotFound
from lance_spark.storage import files, refs, small_files
from lance_spark.survey.survey import CLONES, RECORD


def write_record(source: DatasetLocation, name: str, target: DatasetLocation, pin: PinnedVersion | None = None) -> None:
    """Record the place of a clone in its source; ``pin`` is the version that it began with."""
    content: dict[str, object] = {"uri": target.uri}
    if pin is not None:
        content |= {"branch": pin.branch, "version": pin.version}
    # Atomically: half of a record would stop a cleanup.
    small_files.write_below(source, f"{CLONES}/{name}{RECORD}", json.dumps(content).encode())


def is_recorded(source: DatasetLocation, name: str) -> bool:
    return files.read(source, f"{CLONES}/{name}{RECORD}") is not None


def delete_record(source: DatasetLocation, name: str) -> None:
    """Remove the record of a clone that failed, or is gone."""
    files.delete(source, [f"{CLONES}/{name}{RECORD}"])


def former_name(target: DatasetLocation) -> str:
    """The name under which earlier releases recorded any clone in that place."""
    return f"clone-{sha256(target.uri.encode()).hexdigest()[:16]}"


def is_of_clone(tag: str, name: str) -> bool:
    """Whether a tag was made for the clone of that name."""
    return tag == name or tag.startswith(f"{name}-")


def release(source: DatasetLocation, name: str) -> None:
    """Delete the tags and the record that protect versions for a clone. Raises StorageFailure.

    Only for a clone that no longer exists: a cleanup of the source would delete the files that the clone reads. The
    record goes last: with it, this can be repeated.
    """
    for tag in refs.list_ref_names(source, TAGS):
        if is_of_clone(tag, name):
            with suppress(NotFound):  # already gone
                refs.delete_tag(source, tag)
    delete_record(source, name)
