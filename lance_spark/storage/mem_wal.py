"""Rows that wait in pylance's write-ahead log, beside a branch, and the refusal of verbs that would pass them over."""

from __future__ import annotations

from lance_spark import hints
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import MAIN, PinnedVersion
from lance_spark.errors import CorruptData, Refused
from lance_spark.format.contents import decode_indexes
from lance_spark.format.mem_wal import DIRECTORY, Waiting, compacted, entry_number, waiting_of
from lance_spark.hints import Hint
from lance_spark.storage import files
from lance_spark.storage.versions import VersionCache, find_manifest


def waiting_rows(location: DatasetLocation, pin: PinnedVersion, known: VersionCache | None = None) -> Waiting:
    """What waits beside a branch, as of one of its versions; nothing if that has no write-ahead log.

    ``known`` has the version's manifest, or keeps it. Raises StorageFailure, CorruptData.
    """
    # A listing that finds nothing costs less than a manifest, which may have megabytes.
    root = DatasetLocation(location.branch_uri(pin.branch), location.options)
    if known is None and not files.entries(root, DIRECTORY):
        return Waiting()
    manifest = find_manifest(location, pin) if known is None else known.manifest(location, pin)
    done = None if manifest is None else compacted(decode_indexes(manifest))
    return Waiting() if done is None else _waiting(location, pin.branch, done)


def waiting_beside(location: DatasetLocation, branch: str | None, pin: PinnedVersion | None) -> tuple[Waiting, bool]:
    """The same even if the version has no write-ahead log any more, as after an overwrite, and whether it has one."""
    root = DatasetLocation(location.branch_uri(branch), location.options)
    if not files.entries(root, DIRECTORY):
        return Waiting(), True
    manifest = None if pin is None else find_manifest(location, pin)
    done = None if manifest is None else compacted(decode_indexes(manifest))
    return _waiting(location, branch, done or {}), done is not None


def check_nothing_waits(
    location: DatasetLocation, pin: PinnedVersion, what: str, known: VersionCache | None = None
) -> None:
    """Raise Refused if rows wait beside the branch of a version; ``what`` says what would be without them.

    ``known`` as for :func:`waiting_rows`.
    """
    found = waiting_rows(location, pin, known)
    if found:
        raise Refused(
            f"{found.beside(repr(pin.branch or MAIN))}: {what}. Nothing was changed.",
            hint=hints.of(hints.COMPACT_WAL, " brings them into the table."),
        )


def note_of_waiting(location: DatasetLocation, pin: PinnedVersion, known: VersionCache | None = None) -> Hint | None:
    """What a look at a version says of rows that wait beside its branch; None without any, or if the log is damaged.

    ``known`` may have the version's manifest, which says whether there is a log at all.
    """
    try:
        found = waiting_rows(location, pin, known if known is not None and known.holds(location, pin) else None)
    except CorruptData:
        return None  # fsck has the finding
    return told_of_waiting(found, pin.branch or MAIN) if found else None


def told_of_waiting(found: Waiting, where: str) -> Hint:
    """One sentence: what waits beside a branch, and what brings it in."""
    return hints.of(f"{found.beside(repr(where))}: ", hints.COMPACT_WAL, " brings them into the table.")


def _waiting(location: DatasetLocation, branch: str | None, done: dict[str, int]) -> Waiting:
    root = DatasetLocation(location.branch_uri(branch), location.options)
    found = Waiting()
    for shard, is_directory in sorted(files.entries(root, DIRECTORY)):
        if not is_directory:
            continue
        at = f"{DIRECTORY}/{shard}"
        numbers = {entry_number(name): name for name, _ in files.entries(root, f"{at}/manifest")}
        newest = max((number for number in numbers if number is not None), default=None)
        content = None if newest is None else files.read(root, f"{at}/manifest/{numbers[newest]}")
        logged = [entry_number(name) for name, _ in files.entries(root, f"{at}/wal")]
        one = waiting_of(shard, content or b"", [each for each in logged if each is not None], done)
        found = Waiting(found.tables + one.tables, found.logged + one.logged)
    return found
