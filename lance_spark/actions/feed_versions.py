"""Reads the versions on the way of a change feed, in pairs of neighbours, and refuses where one of them is gone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from typing import NamedTuple

from lance_spark import hints
from lance_spark.errors import NotFound
from lance_spark.feed.path import FeedPath
from lance_spark.feed.pieces import begins_copy, changes_no_rows
from lance_spark.location import DatasetLocation
from lance_spark.manifest.contents import Contents
from lance_spark.manifest.transactions import Transaction
from lance_spark.merge.snapshot import Snapshot
from lance_spark.merge.steps import VersionSpan
from lance_spark.refs.model import PinnedVersion
from lance_spark.refs.names import MAIN
from lance_spark.store.parallel import THREADS, each
from lance_spark.store.version_listing import version_numbers
from lance_spark.store.version_reader import contents_of, find_manifest, snapshot_of, transaction_of

_HELD = 32 * 2**20
"""Bytes of manifests that are read ahead."""


class FeedStep(NamedTuple):
    """A version that may have changed rows, and the one that it was made from."""

    before: Snapshot
    after: Snapshot
    transaction: Transaction | None


class _ReadVersion(NamedTuple):
    pin: PinnedVersion
    content: bytes
    transaction: Transaction | None


class VersionsOfPath:
    """The versions on a way. Decoded manifests are kept no longer than for two neighbours."""

    def __init__(self, location: DatasetLocation, path: FeedPath) -> None:
        self.path = path
        self._location = location

    @cached_property
    def common(self) -> Snapshot:
        """The version that both ends have in common. Raises NotFound where it, and every copy of it, is gone."""
        spans = (*self.path.forward[:1], *self.path.back[:1])
        copies = [PinnedVersion(span.branch, span.after) for span in spans]
        return self._snapshot(self._first_of(self.path.common, *copies))

    def steps(self, forward: bool) -> Iterator[FeedStep]:
        """The steps on from the common version, newest first, or those that lead back to it, oldest first.

        Without those that are known to change no rows. Raises NotFound for a version that is gone: what it changed
        cannot be told.
        """
        spans = self.path.forward if forward else self.path.back
        before = [self.path.common, *(PinnedVersion(span.branch, span.until) for span in spans)]
        parts = list(zip(before, spans, strict=False))
        for previous, span in reversed(parts) if forward else parts:
            yield from self._steps(previous, span, forward)

    def _steps(self, previous: PinnedVersion, span: VersionSpan, newest_first: bool) -> Iterator[FeedStep]:
        known: dict[PinnedVersion, Snapshot] = {}
        last: _ReadVersion | None = None
        for here in self._versions(previous, span, newest_first):
            older, newer = (here, last) if newest_first else (last, here)
            if older is not None and newer is not None and not changes_no_rows(newer.transaction):
                known = {each.pin: known.get(each.pin) or self._snapshot(each) for each in (older, newer)}
                yield FeedStep(known[older.pin], known[newer.pin], newer.transaction)
            last = here

    def _versions(self, previous: PinnedVersion, span: VersionSpan, newest_first: bool) -> Iterator[_ReadVersion]:
        """The versions of a span and the one before it, without those that only begin a copied one."""
        # The first version of a branch is a copy of the one it was made from, with all files at the same places.
        begin = PinnedVersion(span.branch, span.after)
        numbers: Sequence[int] = range(span.after + 1, span.until + 1)
        if not newest_first:
            yield self._first_of(begin, previous)
        for pin, content in self._manifests(span.branch, numbers[::-1] if newest_first else numbers):
            if content is None:
                raise self._gone(pin, span.until)
            found = self._found(pin, content)
            if pin.version == span.until or not begins_copy(found.transaction):
                yield found
        if newest_first:
            yield self._first_of(begin, previous)

    def _manifests(self, branch: str | None, numbers: Sequence[int]) -> Iterator[tuple[PinnedVersion, bytes | None]]:
        """Several are requested at once, fewer of a table with many fragments: its manifests take megabytes."""
        at_once = 2
        while numbers:
            pins = [PinnedVersion(branch, number) for number in numbers[:at_once]]
            contents = each(self._location, partial(find_manifest, self._location), pins)
            yield from zip(pins, contents, strict=True)
            numbers = numbers[at_once:]
            at_once = max(1, min(THREADS, _HELD // max(len(content or b" ") for content in contents)))

    def _first_of(self, *pins: PinnedVersion) -> _ReadVersion:
        """The first version that is there, of several that are the same one."""
        for pin in pins:
            content = find_manifest(self._location, pin)
            if content is not None:
                return self._found(pin, content)
        raise self._gone(pins[-1], pins[-1].version)

    def _found(self, pin: PinnedVersion, content: bytes) -> _ReadVersion:
        return _ReadVersion(pin, content, transaction_of(self._location, pin.branch, content))

    def _snapshot(self, found: _ReadVersion) -> Snapshot:
        contents: Contents = contents_of(self._location, found.pin, found.content)
        stamped = PinnedVersion(found.pin.branch, found.pin.version, contents.head.timestamp_ns)
        return snapshot_of(self._location, stamped, contents)

    def _gone(self, pin: PinnedVersion, until: int) -> NotFound:
        known = {*version_numbers(self._location, pin.branch)}
        oldest = until
        while oldest - 1 in known:
            oldest -= 1
        name = pin.branch or MAIN
        since = f"Changes since {name}@{oldest} can be told. " if oldest in known else ""
        return NotFound(
            f"Version {pin.version} of '{name}' is gone: what it changed cannot be told.",
            hint=hints.of(
                f"{since}A tag keeps a version, but not those after it; a cleanup policy does. ",
                hints.DIFF,
                " compares two versions whatever was between them.",
            ),
        )
