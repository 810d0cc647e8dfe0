"""Notes for streams below the directory of a branch: small files, of which each cleanup makes one.

A note is never changed. A cleanup writes one with all that the earlier ones say and is still needed, and then deletes
those. So a crash, and two cleanups at once, leave more notes than needed, and none too few.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import NamedTuple
from uuid import uuid4

from lance_spark.layout.names import STREAMS, branch_root, last_noted, stream_note_path
from lance_spark.location import DatasetLocation
from lance_spark.refs.model import PinnedVersion
from lance_spark.store import files, refs, small_files
from lance_spark.store.parallel import each
from lance_spark.store.version_reader import contents_of, find_manifest, read_transactions
from lance_spark.streams.names import QUERY
from lance_spark.streams.notes import Noted, decode_note, encode_note, joined, noted, updated

_LOOKS = 5


class Notes(NamedTuple):
    """What is noted of a branch."""

    paths: tuple[str, ...]
    """Of the notes that were understood, relative to the dataset."""
    versions: dict[int, Noted]


def read_notes(location: DatasetLocation, branch: str | None) -> Notes:
    """What cleanups noted of versions of a branch that are gone. To be asked after the branch's versions were listed.

    Then a version that is not in the list was noted before, if a cleanup of ours took it.
    """
    identity = _identity(location, branch)
    return Notes((), {}) if identity is None else _read(location, branch, identity)


def leave_note(location: DatasetLocation, branch: str | None, above: int, going: Collection[int]) -> None:
    """Note what versions say that are about to be deleted. ``above`` is where the tag of the first query is.

    A version that does not say who made it is not noted, nor is one that somebody else just deleted.
    """
    identity = _identity(location, branch)  # first: what is read then is of this branch, or of a later one
    if identity is None:
        return
    before = _read(location, branch, identity)
    # What the versions after them added is told by comparison with them.
    after = _of_versions(location, branch, {version + 1 for version in going} - set(going))
    found = {version: one for version, one in after.items() if one.added is not None} | _of_versions(
        location, branch, going
    )
    said = updated({version: one for version, one in before.versions.items() if version > above}, found)
    if said and (said != before.versions or len(before.paths) > 1):
        directory, _, name = stream_note_path(branch, max(said), uuid4().hex).rpartition("/")
        place = DatasetLocation(f"{location.uri}/{directory}", location.options)
        small_files.write_file(place, name, encode_note(identity, said))
        files.delete(location, before.paths)


def _identity(location: DatasetLocation, branch: str | None) -> str | None:
    """Tells a branch from others of the same name; None if it is gone."""
    if branch is None:
        return ""
    entry = refs.read_branch(location, branch)
    return None if entry is None else entry.identity


def _read(location: DatasetLocation, branch: str | None, identity: str) -> Notes:
    directory = f"{branch_root(branch)}{STREAMS}"
    found: dict[str, bytes | None] = {}
    for _ in range(_LOOKS):
        names = [name for name in files.list_names(location, directory) if last_noted(name) is not None]
        paths = [f"{directory}/{name}" for name in names]
        found = dict(zip(paths, each(location, partial(files.read, location), paths), strict=True))
        if None not in found.values():
            break  # otherwise a cleanup just put notes together
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
    """The fragments that a version added; None if it cannot be told, as the version before it is gone."""
    found = []
    for number in (version - 1, version):
        pin = PinnedVersion(branch, number)
        content = find_manifest(location, pin)
        if content is None:
            return None
        found.append({fragment.id for fragment in contents_of(location, pin, content).fragments()})
    return found[1] - found[0]
