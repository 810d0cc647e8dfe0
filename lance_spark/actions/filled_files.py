"""The files of a backfill: which fragments want one, which are there, and what becomes of them."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from lance_spark.actions.denied import left_after
from lance_spark.backfill.keys import call_key, field_ids, fragment_key, same_sources
from lance_spark.backfill.model import (
    BackfillProgress,
    BackfillResult,
    ComputedColumns,
    FilledFile,
    FillOrder,
    RecordPlace,
)
from lance_spark.backfill.options import NULL, BackfillOptions
from lance_spark.errors import (
    Conflict,
    CorruptData,
    LanceSparkError,
    NotFound,
    PermissionDenied,
    Refused,
    StorageFailure,
    may_have_happened,
)
from lance_spark.location import DatasetLocation
from lance_spark.manifest.contents import Contents, Fragment
from lance_spark.merge.snapshot import same_deletion
from lance_spark.refs.model import PinnedVersion
from lance_spark.store import column_records, version_reader
from lance_spark.store.column_files import check_whole
from lance_spark.store.column_fill_commit import discard_filled
from lance_spark.store.datasets import pin_latest
from lance_spark.store.deletions import deleted_offsets
from lance_spark.store.own_commits import own_properties

_LOG = logging.getLogger("lance_spark.columns")
_GROUP = 64
"""Fragments that are computed by one job: what can be told, and in the incremental way committed, in between."""


class _Made(NamedTuple):
    file: FilledFile
    fragment: Fragment
    """The fragment as it was when its values were computed."""
    pin: PinnedVersion
    resumed: bool


class FilledFiles:
    """Files of one call. A file serves as long as its fragment has the rows that it was made for."""

    def __init__(
        self, location: DatasetLocation, branch: str | None, values: ComputedColumns, options: BackfillOptions
    ) -> None:
        self._location = location
        self._branch = branch
        self._values = values
        self._options = options
        self._made: dict[int, _Made] = {}
        self.properties = own_properties(options.message)
        """Of all commits of this call."""
        self._unused: list[FilledFile] = []
        self._offered: set[str] = set()
        self._first: frozenset[int] | None = None
        self._inputs: Mapping[str, tuple[int, ...]] | None = None
        known = options.resume is not False and (values.identity is not None or options.tag)
        self._call = call_key(values.identity or "", values.schema, options.tag) if known else None

    def look(self) -> tuple[PinnedVersion, Contents]:
        """The newest version. Raises Conflict if a column that the values are computed from is another one by now."""
        head = pin_latest(self._location, self._branch)
        contents = version_reader.read_contents(self._location, head)
        inputs = field_ids(contents.fields, self._values.inputs)
        if self._inputs is None:
            self._inputs = inputs
        if inputs != self._inputs:
            changed = sorted(name for name in self._inputs if inputs.get(name) != self._inputs[name])
            raise Conflict(f"Column '{changed[0]}' was altered or dropped since the job started.", hint="Run it again.")
        return head, contents

    def overtaken(self, head: PinnedVersion) -> bool:
        """Whether others committed while values were computed."""
        return pin_latest(self._location, self._branch) != head

    def wanted(self, contents: Contents) -> list[Fragment]:
        """The fragments of a version that are to get values.

        With new_rows="null" those that were there at first. If one of them is gone, its rows may be in any new one.
        """
        fragments = [fragment for fragment in contents.fragments() if fragment.rows]
        if any(fragment.has_overlays for fragment in fragments):
            raise Refused("The table has data overlays, which pylance calls experimental.", hint="Compact it first.")
        ids = frozenset(fragment.id for fragment in fragments)
        if self._first is None:
            self._first = ids
        if self._options.new_rows == NULL and self._first <= ids:
            return [fragment for fragment in fragments if fragment.id in self._first]
        return fragments

    def group_size(self, wanted: int) -> int:
        """How many fragments are computed by one job."""
        if self._options.incremental:
            return max(1, self._values.parallelism)
        return wanted if self._values.at_once or wanted <= _GROUP else max(_GROUP, 4 * self._values.parallelism)

    def of(
        self, head: PinnedVersion, contents: Contents, wanted: Sequence[Fragment], before: int = 0, after: int = 0
    ) -> dict[int, FilledFile]:
        """The files of fragments of a version; those that are not there yet are computed.

        Of an incremental call ``before`` fragments are committed already, and ``after`` are left.
        """
        self._resume(head, wanted)
        fits = {fragment.id for fragment in wanted if self._fits(head, contents, fragment)}
        rest = [fragment for fragment in wanted if fragment.id not in fits]
        total = before + len(wanted) + after
        self._tell(before + len(fits), total)
        size = max(1, self.group_size(len(rest)))
        for first in range(0, len(rest), size):
            group = rest[first : first + size]
            known = {fragment.id: fragment for fragment in group}
            for file in self._computed(head, group):
                self._put(_Made(file, known[file.fragment], head, resumed=False))
            self._tell(before + len(fits) + first + len(group), total)
        return {fragment.id: self._made[fragment.id].file for fragment in wanted}

    def done(self, made: PinnedVersion, filled: Mapping[int, FilledFile]) -> BackfillResult:
        """The result, after the commit.

        Files that were not needed are deleted, unless there are records of them: another call may be using them.
        """
        with suppress(StorageFailure):
            if self._call is None:
                self._discard(self._unused)
            else:
                column_records.forget_records(self._location, self._branch, self._call)
        files = filled.values()
        resumed = sum(self._made[fragment].resumed for fragment in filled)
        rows, size = sum(file.rows for file in files), sum(file.bytes for file in files)
        return BackfillResult(made, tuple(self._values.schema.names), len(filled), resumed, rows, size)

    @contextmanager
    def kept_for_later(self) -> Iterator[None]:
        """After a failure the next call of the same kind uses the files; if it cannot know them, they are deleted.

        Not after a failure of the store: the commit may have happened although it seemed to fail.
        """
        try:
            yield
        except LanceSparkError as failure:
            if self._call is None and isinstance(failure, PermissionDenied) and failure.before_commit:
                files = [*self._unused, *(made.file for made in self._made.values())]
                raise failure.saying(left_after(lambda: self._discard(files), "files of columns")) from None
            if self._call is None and not may_have_happened(failure):
                with suppress(StorageFailure):
                    self._discard([*self._unused, *(made.file for made in self._made.values())])
            raise

    def offer(self, filled: Mapping[int, FilledFile]) -> Mapping[int, FilledFile]:
        """The files, as they go into a commit. From now on they are never deleted here.

        A commit whose answer was lost may end as a conflict with itself: its files are those of a version. A cleanup
        knows which ones are not.
        """
        self._offered.update(file.file for file in filled.values())
        return filled

    def _discard(self, files: Sequence[FilledFile]) -> None:
        unused = [file for file in files if file.file not in self._offered]
        discard_filled(self._location, self._branch, unused)

    def _computed(self, head: PinnedVersion, group: Sequence[Fragment]) -> Sequence[FilledFile]:
        ids = [fragment.id for fragment in group]
        files = self._values.compute(head, ids, FillOrder(self._place(group), self._options.incremental))
        if sorted(file.fragment for file in files) != sorted(ids):
            missing = sorted({*ids}.difference(file.fragment for file in files))
            raise CorruptData(f"There is not one file for each fragment; missing are {missing}.", hint="Run it again.")
        rows = {fragment.id: fragment.physical_rows for fragment in group}
        for file in files:
            if rows[file.fragment] != file.rows:
                raise CorruptData(f"The file for fragment {file.fragment} has {file.rows} rows.", hint="Run it again.")
        return files

    def _place(self, fragments: Sequence[Fragment]) -> RecordPlace | None:
        if self._call is None:
            return None
        return RecordPlace(self._call, {each.id: fragment_key(each, self._input_ids) for each in fragments})

    @property
    def _input_ids(self) -> frozenset[int]:
        return frozenset(key for ids in (self._inputs or {}).values() for key in ids)

    def _resume(self, head: PinnedVersion, wanted: Sequence[Fragment]) -> None:
        """Take over what an earlier call finished, after a look at each file."""
        unknown = [fragment for fragment in wanted if fragment.id not in self._made]
        place = self._place(unknown)
        if place is None or not unknown:
            return
        found = column_records.read_records(self._location, self._branch, place)
        for fragment in unknown:
            file = found.get(fragment.id)
            if file is not None and file.rows == fragment.physical_rows and self._is_whole(file):
                self._put(_Made(file, fragment, head, resumed=True))

    def _is_whole(self, file: FilledFile) -> bool:
        try:
            check_whole(self._location, self._branch, file)
        except (CorruptData, NotFound):
            return False
        return True

    def _put(self, made: _Made) -> None:
        before = self._made.get(made.file.fragment)
        if before is not None:
            self._unused.append(before.file)
        self._made[made.file.fragment] = made

    def _fits(self, head: PinnedVersion, contents: Contents, now: Fragment) -> bool:
        """Whether the file of a fragment has a value for each row that is there now."""
        made = self._made.get(now.id)
        if made is None or not same_sources(made.fragment, now, self._input_ids):
            return False
        if made.fragment.deletion is None or same_deletion(made.fragment, now):
            return True
        if now.deletion is None:
            return False
        try:
            before = version_reader.read_snapshot(self._location, made.pin)
            then = deleted_offsets(self._location, before, made.fragment)
        except NotFound:
            return False
        snapshot = version_reader.snapshot_of(self._location, head, contents)
        return {*then.to_pylist()} <= {*deleted_offsets(self._location, snapshot, now).to_pylist()}

    def _tell(self, done: int, total: int) -> None:
        files = [made.file for made in self._made.values()]
        rows, size = sum(file.rows for file in files), sum(file.bytes for file in files)
        progress = BackfillProgress.of(self._values.schema.names, done, total, rows, size)
        _LOG.info("%s", progress)
        if self._options.progress is not None:
            self._options.progress(progress)
