"""What a branch says about a streaming query, and the commits of its batches."""

from __future__ import annotations

from collections.abc import Mapping

from lance_spark.location import DatasetLocation
from lance_spark.refs.model import PinnedVersion
from lance_spark.store import refs
from lance_spark.store.commits import commit_on
from lance_spark.store.stream_notes import read_notes
from lance_spark.store.version_listing import has_version, newest_first
from lance_spark.store.version_reader import find_manifest, read_transactions, transaction_of
from lance_spark.streams.notes import Noted
from lance_spark.streams.sink import Batch, BranchLook, Watermark


def look_for(location: DatasetLocation, batch: Batch, newest: int) -> BranchLook:
    """What is known of a batch's query: its tag, and the versions of the branch after it, up to the newest one."""
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
    newer = read_transactions(location, batch.branch, versions)
    newest = max([newest, *versions])
    noted: dict[int, Noted] = {}
    if len(newer) < newest - tag.version:
        noted = read_notes(location, batch.branch).versions
        gone = [version for version in noted if tag.version < version <= newest and version not in newer]
        newer |= {version: noted[version].transaction(version) for version in gone}
    return BranchLook(mark, newer, newest, noted)


def put_tag(location: DatasetLocation, batch: Batch, version: int, back: bool = False) -> None:
    """Point the query's tag at a version of the branch, whether or not there is a tag.

    It goes ``back`` only by hand: a driver that was paused would take from a later batch what keeps it.
    """
    tag, pin = refs.read_tag(location, batch.tag), PinnedVersion(batch.branch, version)
    if tag is None:
        refs.create_tag(location, batch.tag, pin)
    elif tag.branch != batch.branch or tag.version < version or (back and tag.version > version):
        refs.move_tag(location, batch.tag, pin)


def put_tag_if_there(location: DatasetLocation, batch: Batch, mark: Watermark, version: int) -> None:
    """As put_tag, to a version of before: a cleanup may take it at any moment, as long as the tag is elsewhere.

    Then the tag stays at the watermark, and what the version said is in a note. A tag that points at nothing would
    stop the query, and every cleanup.
    """
    pin = PinnedVersion(batch.branch, version)
    if version <= mark.version or not has_version(location, pin):
        return
    put_tag(location, batch, version)
    if not has_version(location, pin):
        put_tag(location, batch, mark.version, back=True)


def commit_note(location: DatasetLocation, head: PinnedVersion, properties: Mapping[str, str]) -> PinnedVersion:
    """Commit a version that says something and changes no row."""
    import lance

    return commit_on(location, head, lance.LanceOperation.Append([]), properties)


def commit_removal(
    location: DatasetLocation, head: PinnedVersion, fragments: list[int], properties: Mapping[str, str]
) -> PinnedVersion:
    """Commit a version without some whole fragments. Raises Conflict if others changed these meanwhile."""
    import lance

    return commit_on(location, head, lance.LanceOperation.Delete([], fragments, "_rowid is null"), properties)
