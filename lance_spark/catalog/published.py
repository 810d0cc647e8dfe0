"""Reading the last complete publish: what a later publish changes is read at main's version before it.

A reader remembers the last publish that was complete when it was taken. Of a table, main's newest version comes first,
and then the list of the publishes that are later: a version with a publish's changes is younger than its journal, so
the list has every publish that the version could contain. Where a later one has changed it, the version before that
counts. A publish that was taken back between the two looks has left its changes in the version that was found first,
and an outcome that says nothing of them: then the versions themselves tell, as for one that is unfinished.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import lru_cache
from itertools import islice

from lance_spark.catalog import publish_rules
from lance_spark.catalog.entry_rules import refusal
from lance_spark.catalog.journal import DIRECTORY, read_journal, read_outcome
from lance_spark.catalog.lake_rules import LakePublished
from lance_spark.catalog.name_rules import MANIFEST, Catalog
from lance_spark.catalog.publish_rules import Journal, PublishOutcome, journal_name
from lance_spark.core.layout import KeyRange
from lance_spark.core.location import DatasetLocation
from lance_spark.errors import Conflict, CorruptData, NotFound
from lance_spark.format.transactions import MESSAGE
from lance_spark.format.versions import ACTION, PUBLISH, PUBLISH_ID
from lance_spark.storage.datasets import pin_version
from lance_spark.storage.listing import list_paths
from lance_spark.storage.versions import newest_first, read_transactions

_FILES = 3
"""Of each publish, at most."""


def at_published(catalog: Catalog) -> Catalog:
    """The catalog as of its last complete publish. One listing; on S3 one request."""
    return replace(catalog, ref=last_complete(catalog))


def last_complete(catalog: Catalog) -> LakePublished:
    whole = replace(catalog, ref=None)
    listed = list_paths(whole.manifest, KeyRange.below(DIRECTORY))
    names = map(_name, islice(listed, _FILES) if whole.root.uri.startswith("s3://") else listed)
    sequence, now = publish_rules.last_complete(names), datetime.now(timezone.utc)
    # The id keeps what a process has read for one reader apart from another lake that is created here later.
    return LakePublished("", secrets.token_hex(4), now, ready=True, sequence=sequence)


def version_seen(
    manifest: DatasetLocation, reader: LakePublished, path: str, location: DatasetLocation, newest: int
) -> int:
    """The version of main that a reader sees of a table in ``path``, or of ``__manifest``.

    ``newest`` is main's newest version, looked up before. Raises NotFound if versions that could tell were cleaned up.
    """
    return versions_seen(manifest, reader, {path: (location, newest)})[path]


def versions_seen(
    manifest: DatasetLocation, reader: LakePublished, newest: Mapping[str, tuple[DatasetLocation, int]]
) -> dict[str, int]:
    """:func:`version_seen` of several tables, by path. One listing, if there is no later publish."""
    names = map(_name, list_paths(manifest, _later_than(reader.sequence)))
    befores: dict[str, list[int | None]] = {path: [] for path in newest}
    for sequence, is_done in publish_rules.later_publishes(names, reader.sequence).items():
        journal = _journal(manifest, reader, sequence)
        outcome = _outcome(manifest, reader, sequence) if is_done else None
        for path in befores.keys() & {MANIFEST, *journal.written}:
            befores[path].append(_before(journal, outcome, path, newest[path]))
    return {path: publish_rules.version_seen(newest[path][1], found) for path, found in befores.items()}


def _before(
    journal: Journal, outcome: PublishOutcome | None, path: str, newest: tuple[DatasetLocation, int]
) -> int | None:
    """The version before a later publish; None if ``newest`` has nothing of it."""
    since = publish_rules.since(journal, path)
    if since is None:
        return None
    if outcome is not None and publish_rules.tells_all(outcome, path, newest[1]):
        return publish_rules.before(outcome, path)
    return _before_mark(newest[0], since, newest[1], _mark_of(journal, path))


@dataclass(frozen=True)
class Moment:
    """Main of a whole catalog as of its last complete publish, for what keeps the versions of that moment.

    With the newest versions alone, a tag that is made while a publisher is dead between two tables would have one of
    them with the publish and one without, for ever.
    """

    manifest: DatasetLocation
    reader: LakePublished
    doing: str

    @classmethod
    def of(cls, catalog: Catalog, doing: str) -> Moment:
        """The last one. Take it before any version is looked up."""
        return cls(replace(catalog, ref=None).manifest, last_complete(catalog), doing)

    def versions(self, newest: Mapping[str, tuple[DatasetLocation, int]]) -> dict[str, int]:
        """Those of :func:`versions_seen`. Raises Conflict if a cleanup removed what could tell."""
        try:
            found = versions_seen(self.manifest, self.reader, newest)
            for path, version in found.items():
                if version < newest[path][1]:
                    pin_version(newest[path][0], None, version)
        except NotFound:
            why = "a publish has ended since, and a cleanup removed the versions before it"
            raise refusal(Conflict, self.doing, why, hint="Run it again.") from None
        return found

    def version(self, path: str, location: DatasetLocation, newest: int) -> int:
        """That of one table, or of ``__manifest``."""
        return self.versions({path: (location, newest)})[path]


def cleaned_up(location: DatasetLocation) -> NotFound:
    """The error for a version from before a publish that is gone."""
    return NotFound(
        f"The version of {location.uri} from before a later publish was cleaned up.",
        hint="Take the last complete publish again: lake.checkout(published=True).",
    )


def _later_than(sequence: int) -> KeyRange:
    return KeyRange(f"{DIRECTORY}/", f"{DIRECTORY}/{journal_name(sequence + 1)}")


def _name(path: str) -> str:
    return path.rpartition("/")[2]


@lru_cache(256)
def _journal(manifest: DatasetLocation, _reader: LakePublished, sequence: int) -> Journal:
    return read_journal(manifest, sequence)


@lru_cache(256)
def _outcome(manifest: DatasetLocation, _reader: LakePublished, sequence: int) -> PublishOutcome:
    found = read_outcome(manifest, sequence)
    if found is None:
        raise CorruptData(f"The outcome of publish {sequence} in {manifest.uri} was listed, but cannot be found.")
    return found


def _mark_of(journal: Journal, path: str) -> Callable[[Mapping[str, str]], bool]:
    """Whether the properties of a version say that the publish made it."""
    if path == MANIFEST:
        return lambda properties: properties.get(MESSAGE) == journal.forwards
    return lambda properties: properties.get(PUBLISH_ID) == journal.id and properties.get(ACTION) == PUBLISH


def _before_mark(
    location: DatasetLocation, since: int, newest: int, is_marked: Callable[[Mapping[str, str]], bool]
) -> int | None:
    """The version before the one that an unfinished publish made; None if it made none up to ``newest``."""
    versions = [version for version, _ in newest_first(location, None, newest, above=since)]
    found = read_transactions(location, None, versions)
    if not {*range(since + 1, newest + 1)} <= found.keys():
        raise cleaned_up(location)
    marked = (each for each, done in found.items() if done is not None and is_marked(done.properties))
    return next((version - 1 for version in sorted(marked)), None)
