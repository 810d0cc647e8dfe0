"""The tag of a stream that reads: no cleanup takes the version that it points at, and ours none of those after it."""

from __future__ import annotations

from lance_spark.errors import AlreadyExists, NotFound, StorageFailure
from lance_spark.location import DatasetLocation
from lance_spark.options.stream_read import StreamReadOptions
from lance_spark.refs.model import PinnedVersion
from lance_spark.store import refs
from lance_spark.store.stream_checkpoints import read_query_id
from lance_spark.store.version_listing import has_version
from lance_spark.streams.names import source_tag


def tag_of(location: DatasetLocation, options: StreamReadOptions, branch: str | None) -> str | None:
    """The name of the tag of a stream of a branch; None where nothing tells streams apart.

    Raises InvalidOption for an id that no tag can have, NotFound, CorruptData or StorageFailure for a checkpoint that
    holds none.
    """
    if options.query_id is not None:
        return source_tag(options.query_id, branch)
    if options.checkpoint is not None:
        return source_tag(read_query_id(options.checkpoint, location.storage_options), branch)
    return None


def hold(location: DatasetLocation, name: str, pins: tuple[PinnedVersion, ...]) -> bool:
    """Point the tag at the last of these places of a version that is there; whether it points there now.

    A store that cannot be written to is no reason to stop: the tag then keeps more than it has to, or nothing, and a
    version that is gone is noticed when it is read.
    """
    pin = next((each for each in reversed(pins) if has_version(location, each)), None)
    if pin is None:
        return False
    try:
        known = refs.read_tag(location, name)
        if known is not None and (known.branch, known.version) == (pin.branch, pin.version):
            return True
        tags = refs.TagWriter(location)
        try:
            tags.move(name, pin) if known is not None else tags.create(name, pin)
        except (AlreadyExists, NotFound):
            return False
    except StorageFailure:
        return False
    if has_version(location, pin):
        return True
    tags.delete(name)  # a cleanup just took the version: the next one would stop at a tag that points at nothing
    return False
