"""Notes for streams below the directory of a branch: small files, one for each cleanup."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import NamedTuple
from uuid import uuid4

from lance_spark.core import layout
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import PinnedVersion
from lance_spark.format.stream_notes import QUERY, Noted, decode_note, encode_note, joined, noted, updated
from lance_spark.storage import files, refs, small_files
from lance_spark.storage.files import each
from lance_spark.storage.versions import contents_of, find_manifest, read_transactions

# A note is never changed. A cleanup writes one with everything in the earlier ones that is still needed, and then
# deletes those. So a crash, or two cleanups at once, leave more notes than needed, never too few.

_LOOKS = 5


class Notes(NamedTuple):
    paths: tuple[str, ...]
    """Paths of the readable notes, relative to the dataset."""
    versions: dict[int, Noted]


def read_notes(location: DatasetLocation, branch: str | None) -> Notes:
    """The cleanups' notes on deleted versions of a branch. Call this after listing the branch's versions.

    Then every version missing from the list because of a cleanup of this package has already been noted.
    """
    identity = _identity(location, branch)
    return Notes((), {}) if identity is None else _read(location, branch, identity)


def leave_note(location: DatasetLocation, branch: str | None, above: int, going: Collection[int]) -> None:
    """Note the facts of versions about to be deleted. ``above`` is the version with the first query's tag.

    A version that does not record its maker is not noted, nor is one that another process just deleted.
    """
    identity = _identity(location, branch)  # first: all later reads are then of this branch, or of a later one
    if identity is None:
        return
    before = _read(location, branch, identity)
    # What the versions after them added is found by comparison with them.
    after = _of_versions(location, branch, {version + 1 for version in going} - set(going))
    found = {version: one for version, one in after.items() if one.added is not None} | _of_versions(
        location, branch, going
    )
    said = updated({version: one for version, one in before.versions.items() if version > above}, found)
    if said and (said != before.versions or len(before.paths) > 1):
        path = layout.stream_note_path(branch, max(said), uuid4().hex)
        small_files.write_below(location, path, encode_note(identity, said))
        files.delete(location, before.paths)


def _identity(location: DatasetLocation, branch: str | None) -> str | None:
    """Distinguishes the branch from others of the same name; None if it is gone."""
    if branch is None:
        return ""
    entry = refs.read_branch(location, branch)
    return None if entry is None else entry.identity


def _read(location: DatasetLocation, branch: str | None, identity: str) -> Notes:
    directory = f"{layout.branch_root(branch)}{layout.STREAMS}"
    found: dict[str, bytes | None] = {}
    last: list[str] | None = None
    for _ in range(_LOOKS):
        # A cleanup may combine notes meanwhile, and a listing of a directory that changes may miss the old and the new.
        names = [name for name in files.list_names(location, directory) if layout.last_noted(name) is not None]
        if names == last:
            break
        new = [path for name in names if found.get(path := f"{directory}/{name}") is None]
        found |= dict(zip(new, each(location, partial(files.read, location), new), strict=True))
        last = names
    decoded = {
        path: versions
        for path, content in found.items()
        if content is not None and (versions := decode_note(content, identity)) is not None
    }
    return Notes(tuple(decoded), joined(decoded.values()))


def _of_versions(location: DatasetLocation, branch: str | None, versions: Collection[int]) -> dict[int, Noted]:
    said = {}
    for version, transaction in read_transactions(location, branch, versions).items():
        if transaction is not None:
            added = _added(location, branch, version) if QUERY in transaction.properties else None
            said[version] = noted(transaction, added)
    return said


def _added(location: DatasetLocation, branch: str | None, version: int) -> Collection[int] | None:
    """The fragments that a version added; None if unknown, because the previous version is gone."""
    found = []
    for number in (version - 1, version):
        pin = PinnedVersion(branch, number)
        content = find_manifest(location, pin)
        if content is None:
            return None
        found.append({fragment.id for fragment in contents_of(location, pin, content).fragments()})
    return found[1] - found[0]
