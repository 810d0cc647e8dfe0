"""Reads what a branch records about a streaming query, moves its tag, and commits its notes and removals."""

from __future__ import annotations

from collections.abc import Mapping

from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.errors import LanceSparkError, NotFound
from lance_spark.format.stream_notes import CHECKPOINT_FILE, Noted, parse_query_id
from lance_spark.storage import files, refs
from lance_spark.storage.commits import commit_on
from lance_spark.storage.datasets import check_absolute, locate
from lance_spark.storage.versions import find_manifest, newest_first, read_transactions, transaction_of
from lance_spark.streams.sink_rules import Batch, BranchLook, Watermark
from lance_spark.survey.noted_versions import read_notes


def look_for(location: DatasetLocation, batch: Batch, newest: int, before: BranchLook | None = None) -> BranchLook:
    """What is known about a batch's query: its tag, and the branch's versions after it, up to the newest one.

    What the look ``before`` read is not read again: beside other writers, each attempt would take longer than the one
    before it.
    """
    tag = refs.read_tag(location, batch.tag)
    if tag is None:
        return BranchLook(None, {}, newest)
    pin = PinnedVersion(tag.branch, tag.version)
    manifest = find_manifest(location, pin)
    transaction = None if manifest is None else transaction_of(location, tag.branch, manifest)
    mark = Watermark(tag.branch, tag.version, manifest is not None, transaction)
    if tag.branch != batch.branch:
        return BranchLook(mark, {}, newest)
    versions = [version for version, _ in newest_first(location, batch.branch, above=tag.version)]
    seen = before.newer if before is not None and before.mark == mark else {}
    read = {**seen, **read_transactions(location, batch.branch, [each for each in versions if each not in seen])}
    newer = {version: read[version] for version in versions if version in read}
    newest = max([newest, *versions])
    noted: dict[int, Noted] = {}
    if len(newer) < newest - tag.version:
        noted = read_notes(location, batch.branch).versions
        gone = [version for version in noted if tag.version < version <= newest and version not in newer]
        newer |= {version: noted[version].transaction(version) for version in gone}
    return BranchLook(mark, newer, newest, noted)


def put_tag(location: DatasetLocation, batch: Batch, version: int, back: bool = False) -> None:
    """Point the query's tag, existing or not, at a version of the branch.

    It goes ``back`` only by hand: a paused driver would otherwise take the protection of a later batch.
    """
    tag, pin = refs.read_tag(location, batch.tag), PinnedVersion(batch.branch, version)
    if tag is None:
        refs.create_tag(location, batch.tag, pin)
    elif tag.branch != batch.branch or tag.version < version or (back and tag.version > version):
        refs.move_tag(location, batch.tag, pin)


def commit_note(location: DatasetLocation, head: PinnedVersion, properties: Mapping[str, str]) -> PinnedVersion:
    """Commit a version with a record and no row changes."""
    import lance

    return commit_on(location, head, lance.LanceOperation.Append([]), properties)


def commit_removal(
    location: DatasetLocation, head: PinnedVersion, fragments: list[int], properties: Mapping[str, str]
) -> PinnedVersion:
    """Commit a version without some whole fragments. Raises Conflict for a concurrent change of them."""
    import lance

    return commit_on(location, head, lance.LanceOperation.Delete([], fragments, "_rowid is null"), properties)


# --- The id of a query from its checkpoint
# The checkpoint may be in another store than the dataset.


def read_query_id(checkpoint: str, storage: Mapping[str, str]) -> str:
    """The id that Spark gave to the query of a checkpoint; ``storage`` are the storage options of the dataset.

    Raises NotFound, CorruptData, StorageFailure or InvalidOption, with the hint to give an id of your own.
    """
    try:
        check_absolute(checkpoint)
        content = files.read(locate(checkpoint, storage), CHECKPOINT_FILE)
    except LanceSparkError as problem:
        raise type(problem)(problem.message, hint=_way_on(problem.hint)) from None
    if content is None:
        raise NotFound(f"The checkpoint {checkpoint} has no query id.", hint=_way_on(None))
    return parse_query_id(content, checkpoint)


def _way_on(hint: str | None) -> str:
    own = (
        "The option must name the query's own checkpoint, the same as for writeStream. If this process cannot read it, "
        "give the stream an id of your own, which stays the same as long as the checkpoint does: "
        "option('query_id', 'orders')."
    )
    return f"{hint} {own}" if hint else own
