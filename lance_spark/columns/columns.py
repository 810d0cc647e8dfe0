"""Changing columns on any branch: add, drop, rename, alter and fill them, each as one version or not at all.

Steps, or computations of values, come in. Values go into files first; one commit makes them visible.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa

from lance_spark import errors
from lance_spark.columns import column_files, fill_rules
from lance_spark.columns.column_files import CastFile, CastItem
from lance_spark.columns.fill_rules import BackfillOptions, BackfillResult, ComputedColumns, FilledFile, RecordPlace
from lance_spark.core.location import DatasetLocation
from lance_spark.core.refs import MAIN, PinnedVersion
from lance_spark.core.show import ShownInOneLine
from lance_spark.engine.local import Engine, rewriting
from lance_spark.format.blob_references import is_reference
from lance_spark.format.contents import Contents, Field, Fragment
from lance_spark.format.evolution import (
    AddColumn,
    AlterColumn,
    ColumnChange,
    DropColumn,
    Evolution,
    RenameColumn,
    Widened,
    comment_of,
    lost_structs,
    plan_evolution,
    shown,
)
from lance_spark.format.kept_types import kept_of
from lance_spark.format.schema import share_of_row
from lance_spark.format.storable import check_new_types
from lance_spark.format.versions import same_deletion, write_computed
from lance_spark.layout.declaring import check_unnamed
from lance_spark.scan.fragment_reads import deleted_offsets
from lance_spark.storage import versions
from lance_spark.storage.commits import attempts, commit_once, overtaken, own_properties, undone_on_failure
from lance_spark.storage.copying import flattened
from lance_spark.storage.datasets import open_pinned, pin_latest
from lance_spark.storage.followers import check_writable
from lance_spark.write.constraints import check_free
from lance_spark.write.data_files import storage_schema

OPERATION = "alter columns"
FIRST_FORMATS = frozenset({"", "0.1"})


@dataclass(frozen=True, repr=False)
class AlterResult(ShownInOneLine):
    version: PinnedVersion
    """The new version; the newest one if there was nothing to do."""
    plan: Evolution

    @property
    def _changed(self) -> str:
        return ", ".join(shown(step.path) for step in self.plan.steps)

    def __str__(self) -> str:
        return f"{self.version.branch or MAIN}@{self.version.version}: changed {self._changed or 'nothing'}"

    def _facts(self) -> tuple[tuple[str, str], ...]:
        return ("version", str(self.version)), ("columns", self._changed or "nothing to change")


def alter_columns(
    location: DatasetLocation,
    branch: str | None,
    changes: Sequence[ColumnChange],
    engine: Engine,
    message: str | None = None,
) -> AlterResult:
    """Apply changes to a branch (None for main), all of them in one version.

    Only a wider type reads and writes values: those of that column, fragment by fragment on the engine. Concurrent
    commits are kept, since the changes are planned again on top of them; a column that was dropped or added in between
    then raises an error. If columns are only added, concurrent appends continue; otherwise they fail with a conflict.
    Raises the errors of :func:`lance_spark.format.evolution.plan_evolution`, and Conflict; then nothing was changed.
    """
    check_writable(location, branch)
    casting = CastFiles(location, branch, engine)
    with undone_on_failure(casting.delete, "files of columns"):
        for left in attempts():
            head = pin_latest(location, branch)
            plan = plan_evolution(open_pinned(location, head).schema, changes)
            if not plan.steps:
                return AlterResult(head, plan)
            _check_layout(location, head, changes)
            contents = versions.read_contents(location, head)
            check_format(contents, plan)
            schema = column_files.planned_schema(location, head, contents, plan)
            files = casting.files(head, contents, plan, flattened(schema) if plan.drops_fields else ())
            column_files.check_written_files(location, branch, [cast.file for cast in files.values()])
            try:
                made = column_files.commit_columns(location, head, schema, plan, files, message)
            except errors.Conflict:
                if not left:
                    raise
                continue
            casting.keep(files)
            return AlterResult(made, plan)
        raise overtaken(branch)


def _check_layout(location: DatasetLocation, head: PinnedVersion, changes: Sequence[ColumnChange]) -> None:
    """Raise Refused for dropping, renaming or retyping a column that the table's layout or a constraint names."""
    for change in changes:
        if len(change.path) > 1:
            continue
        doing = "drop" if isinstance(change, DropColumn) else "rename" if isinstance(change, RenameColumn) else None
        if isinstance(change, AlterColumn) and change.type is not None:
            doing = "change the type of"
        if doing is not None:
            check_unnamed(location, head, frozenset(change.path), doing)
            check_free(location, head, change.path, f"{doing} column '{change.path[0]}'")


def check_format(contents: Contents, plan: Evolution) -> None:
    """Raise Refused for new columns in files of the first format, each of which must hold every column.

    Raise SchemaMismatch for new columns that files of the table's format cannot hold.
    """
    check_new_types(plan.new_fields, contents.storage_version)
    if contents.storage_version in FIRST_FORMATS and contents.fragment_count and plan.adds:
        raise refused_first_format("add")


def refused_first_format(verb: str) -> errors.Refused:
    """The error for a column that cannot be added, or updated, on its own."""
    return errors.Refused(
        f"Cannot {verb} a column: the data files have format 0.1, where every file has every column.",
        hint="Write the rows to a new table, which gets a newer format.",
    )


class CastFiles:
    """Files with columns in their new types. Files written for one attempt are reused by the next."""

    def __init__(self, location: DatasetLocation, branch: str | None, engine: Engine) -> None:
        self._location, self._branch, self._engine = location, branch, engine
        self._made: dict[tuple[object, ...], CastFile] = {}

    def files(
        self, head: PinnedVersion, contents: Contents, plan: Evolution, after: Sequence[Field] = ()
    ) -> Mapping[int, CastFile]:
        """The files that fragments of a version need; missing ones are written.

        ``after`` has the columns after the plan with their ids, if it drops fields of structs.
        """
        wanted = {}
        lost: dict[frozenset[int], tuple[Widened, ...]] = {}
        for fragment in contents.fragments():
            columns = plan.casts
            if after:
                stored = frozenset(key for file in fragment.files for key in file.fields)
                if stored not in lost:
                    lost[stored] = lost_structs(contents.fields, after, plan.schema, stored)
                columns += lost[stored]
            if columns:
                wanted[fragment.id] = (fragment, columns)
        keys = {number: (number, found[0].files, found[1]) for number, found in wanted.items()}
        missing = [found for number, found in wanted.items() if keys[number] not in self._made]
        for row in self._write(head, plan, missing):
            number = row["fragment"]
            self._made[keys[number]] = CastFile(row["file"], row["ids"], wanted[number][1])
        return {fragment: self._made[key] for fragment, key in keys.items()}

    def _write(
        self, head: PinnedVersion, plan: Evolution, wanted: Sequence[tuple[Fragment, tuple[Widened, ...]]]
    ) -> list[dict[str, Any]]:
        if not wanted:
            return []
        share = share_of_row(plan.schema, [cast.type for cast in wanted[0][1]])
        work = rewriting((fragment.size for fragment, _ in wanted), share)
        runner = self._engine.for_work(OPERATION, work)
        items = [CastItem(self._location, head, fragment.id, columns) for fragment, columns in wanted]
        written = runner.flat_map("write columns", items, column_files.cast_fragment, column_files.CAST_FILES)
        rows: list[dict[str, Any]] = runner.collect("write columns", written).to_pylist()
        return rows

    def keep(self, files: Mapping[int, CastFile]) -> None:
        """Delete the files of fragments that no longer exist; the others are committed."""
        used = {cast.file for cast in files.values()}
        with suppress(errors.StorageFailure):  # the result is more useful
            unused = [cast.file for cast in self._made.values() if cast.file not in used]
            column_files.discard_files(self._location, self._branch, unused)

    def delete(self) -> None:
        """Delete all files. Raises StorageFailure."""
        column_files.discard_files(self._location, self._branch, [cast.file for cast in self._made.values()])


# --- Columns with values on any branch: new ones, and other values for existing ones
# Values are first computed, fragment by fragment, into files that no version references. One commit shows them all.


def check_new_columns(location: DatasetLocation, pin: PinnedVersion, values: ComputedColumns) -> Evolution:
    """The new columns as steps. Raises AlreadyExists, InvalidName and Refused like ``alter_columns``.

    Raises SchemaMismatch for references of blobs in a table whose files store none.
    """
    dataset = open_pinned(location, pin)
    stored: Sequence[pa.Field] = list(values.schema)
    if any(map(is_reference, stored)):
        stored = list(storage_schema(values.schema, str(dataset.data_storage_version)))
    return plan_evolution(dataset.schema, [_step(field) for field in stored])


def _step(field: pa.Field) -> AddColumn:
    return AddColumn((field.name,), field.type, comment=comment_of(field), kept=kept_of(field))


def add_filled_columns(
    location: DatasetLocation, branch: str | None, values: ComputedColumns, options: BackfillOptions
) -> BackfillResult:
    """Add columns and their values to a branch (None for main) in one version: half-filled columns are never visible.

    Concurrent commits are kept: fragments that they added, rewrote or changed are also computed, before the
    commit is retried. Raises Conflict if others commit faster than that, or change the input of the
    computation; then nothing was changed, and the next call uses the computed files. Raises the errors of
    :func:`check_new_columns`, and SchemaMismatch for values that do not fit.
    """
    check_writable(location, branch)
    files = FilledFiles(location, branch, values, options)
    with files.kept_for_later():
        for left in attempts():
            head, contents = files.look()
            plan = check_new_columns(location, head, values)
            check_format(contents, plan)
            filled = files.of(head, contents, files.wanted(contents))
            if left and files.overtaken(head):
                continue
            commit = partial(
                column_files.commit_added, location, head, contents, plan, files.offer(filled), files.properties
            )
            made = commit_once(location, head, files.properties, left, commit)
            if made is not None:
                return files.done(made, filled)
    raise overtaken(branch)


def fill_columns_by_groups(
    location: DatasetLocation, branch: str | None, values: ComputedColumns, options: BackfillOptions, engine: Engine
) -> BackfillResult:
    """Add columns without values, then the values in groups of fragments; each group is a version.

    Existing columns of these names and types are filled in fragments that have no values for them: that is how a call
    resumes after a kill. Raises the errors of :func:`add_filled_columns`; committed groups stay.
    """
    check_writable(location, branch)
    files = FilledFiles(location, branch, values, options)
    lacking = [_step(field) for field in _other_columns(location, pin_latest(location, branch), values)]
    if lacking:
        alter_columns(location, branch, lacking, engine, options.message)
    names = values.schema.names
    filled: dict[int, FilledFile] = {}
    made = pin_latest(location, branch)
    with files.kept_for_later():
        for left in attempts():
            progressed = False
            while True:
                head, contents = files.look()
                _check_same_types(location, head, values)
                wanted = _lacking(location, head, contents, files.wanted(contents), names)
                if not wanted:
                    return files.done(made, filled)
                size = files.group_size(len(wanted))
                group = files.offer(files.of(head, contents, wanted[:size], len(filled), len(wanted[size:])))
                try:
                    made = column_files.commit_replaced(location, head, names, group, files.properties)
                except errors.Conflict:
                    break
                filled |= group
                progressed = True
            if not left and not progressed:
                break
    raise overtaken(branch)


def update_filled_columns(
    location: DatasetLocation, branch: str | None, values: ComputedColumns, options: BackfillOptions
) -> BackfillResult:
    """Give all rows of a branch other values for columns, in one version: each fragment gets a new file for them.

    Indexes on the columns stay but no longer cover the fragments, so that they find no old value. Raises the errors of
    :func:`add_filled_columns`.
    """
    check_writable(location, branch)
    files = FilledFiles(location, branch, values, options)
    with files.kept_for_later():
        for left in attempts():
            head, contents = files.look()
            _check_same_types(location, head, values)
            if contents.storage_version in FIRST_FORMATS and contents.fragment_count:
                raise refused_first_format("update")
            filled = files.of(head, contents, files.wanted(contents))
            if left and files.overtaken(head):
                continue  # pylance would combine this with an append, whose rows would keep their values
            if not filled:
                return files.done(head, filled)
            names, offered = values.schema.names, files.offer(filled)
            commit = partial(column_files.commit_replaced, location, head, names, offered, files.properties)
            made = commit_once(location, head, files.properties, left, commit)
            if made is not None:
                return files.done(made, filled)
    raise overtaken(branch)


def _lacking(
    location: DatasetLocation, head: PinnedVersion, contents: Contents, fragments: Sequence[Fragment], names: list[str]
) -> list[Fragment]:
    """The fragments without values for the columns, or with nulls that others wrote.

    A file that has other columns besides these is not one of ours: a compaction or an update of rows ran before they
    had their values, and wrote nulls into it.
    """
    ids = {key for found in fill_rules.field_ids(contents.fields, names).values() for key in found}
    mixed = [
        fragment.id
        for fragment in fragments
        if any(not ids.isdisjoint(file.fields) and {*file.fields} - ids - {-2} for file in fragment.files)
    ]
    nulls = column_files.with_nulls(location, head, mixed, names)
    return [
        fragment
        for fragment in fragments
        if fragment.id in nulls or all(ids.isdisjoint(file.fields) for file in fragment.files)
    ]


def _check_same_types(location: DatasetLocation, head: PinnedVersion, values: ComputedColumns) -> None:
    for field in _other_columns(location, head, values):
        raise _altered(field.name)


def _other_columns(location: DatasetLocation, pin: PinnedVersion, values: ComputedColumns) -> list[pa.Field]:
    """The columns that a version lacks, or has with another type."""
    schema = open_pinned(location, pin).schema
    types = {field.name: field.type for field in schema}
    return [field for field in values.schema if types.get(field.name) != field.type]


def _altered(column: str) -> errors.Conflict:
    return errors.Conflict(f"Column '{column}' was altered or dropped since the job started.", hint="Run it again.")


# --- The files of a backfill, by fragment

_LOG = logging.getLogger("lance_spark.columns")
_GROUP = 64
"""How many fragments one job computes. Between jobs, progress is reported and incremental calls commit."""


class _Made(NamedTuple):
    file: FilledFile
    fragment: Fragment
    """The fragment as it was when its values were computed."""
    pin: PinnedVersion
    resumed: bool


class FilledFiles:
    """Files of one call. A file is valid as long as its fragment has the rows for which it was made."""

    def __init__(
        self, location: DatasetLocation, branch: str | None, values: ComputedColumns, options: BackfillOptions
    ) -> None:
        self._location, self._branch = location, branch
        self._values, self._options = values, options
        self._made: dict[int, _Made] = {}
        computed = write_computed(dict.fromkeys(values.schema.names, values.reads))
        self.properties = {**own_properties(options.message), **computed}
        """Describes all commits of this call."""
        self._unused: list[FilledFile] = []
        self._offered: set[str] = set()
        self._first: frozenset[int] | None = None
        self._inputs: Mapping[str, tuple[int, ...]] | None = None
        known = options.resume is not False and (values.identity is not None or options.tag)
        self._call = fill_rules.call_key(values.identity or "", values.schema, options.tag) if known else None

    def look(self) -> tuple[PinnedVersion, Contents]:
        """The newest version. Raises Conflict if an input column of the values was altered or dropped.

        Raises Refused for a column that a constraint names: values come by column, and not by row.
        """
        head = pin_latest(self._location, self._branch)
        names = self._values.schema.names
        check_free(self._location, head, names, f"write values of column '{', '.join(names)}'")
        contents = versions.read_contents(self._location, head)
        inputs = fill_rules.field_ids(contents.fields, self._values.inputs)
        if self._inputs is None:
            self._inputs = inputs
        if inputs != self._inputs:
            changed = sorted(name for name in self._inputs if inputs.get(name) != self._inputs[name])
            raise _altered(changed[0])
        return head, contents

    def overtaken(self, head: PinnedVersion) -> bool:
        """Whether others committed while values were computed."""
        return pin_latest(self._location, self._branch) != head

    def wanted(self, contents: Contents) -> list[Fragment]:
        """The fragments of a version that are to get values.

        With new_rows="null", only those that existed at the start. If one is gone, any new one may have its rows.
        """
        fragments = [fragment for fragment in contents.fragments() if fragment.rows]
        if any(fragment.has_overlays for fragment in fragments):
            raise errors.Refused(
                "The table has data overlays, which are experimental in pylance.", hint="Compact it first."
            )
        ids = frozenset(fragment.id for fragment in fragments)
        if self._first is None:
            self._first = ids
        if self._options.new_rows == fill_rules.NULL and self._first <= ids:
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
        """The files of fragments of a version; missing ones are computed.

        In an incremental call, ``before`` fragments are already committed, and ``after`` are left.
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

        Unneeded files are deleted, unless they are recorded: another call may be using them.
        """
        with suppress(errors.StorageFailure):
            if self._call is None:
                self._discard(self._unused)
            else:
                column_files.forget_records(self._location, self._branch, self._call)
        files = filled.values()
        resumed = sum(self._made[fragment].resumed for fragment in filled)
        rows, size = sum(file.rows for file in files), sum(file.bytes for file in files)
        return BackfillResult(made, tuple(self._values.schema.names), len(filled), resumed, rows, size)

    def kept_for_later(self) -> AbstractContextManager[None]:
        """After a failure, keep the files for the next call of the same kind; if it cannot identify them, delete them.

        After a failure of the store they stay: the commit may have succeeded despite its error.
        """
        if self._call is not None:
            return nullcontext()

        def undo() -> None:
            self._discard([*self._unused, *(made.file for made in self._made.values())])

        return undone_on_failure(undo, "files of columns")

    def offer(self, filled: Mapping[int, FilledFile]) -> Mapping[int, FilledFile]:
        """The files, ready for a commit, if they are all there. From here on they are never deleted by this call.

        A commit whose response was lost can end as a conflict with itself; then a version references its files. A
        cleanup can tell which ones are unreferenced. Raises Conflict for files that a cleanup deleted meanwhile.
        """
        offered = [file.file for file in filled.values()]
        column_files.check_written_files(self._location, self._branch, offered)
        self._offered.update(offered)
        return filled

    def _discard(self, files: Sequence[FilledFile]) -> None:
        unused = [file.file for file in files if file.file not in self._offered]
        column_files.discard_files(self._location, self._branch, unused)

    def _computed(self, head: PinnedVersion, group: Sequence[Fragment]) -> Sequence[FilledFile]:
        ids = [fragment.id for fragment in group]
        files = self._values.compute(head, ids, fill_rules.FillOrder(self._place(group), self._options.incremental))
        if sorted(file.fragment for file in files) != sorted(ids):
            missing = sorted({*ids}.difference(file.fragment for file in files))
            raise errors.CorruptData(f"Expected one file for each fragment; missing: {missing}.", hint="Run it again.")
        rows = {fragment.id: fragment.physical_rows for fragment in group}
        for file in files:
            if rows[file.fragment] != file.rows:
                raise errors.CorruptData(
                    f"The file for fragment {file.fragment} has {file.rows} rows.", hint="Run it again."
                )
        return files

    def _place(self, fragments: Sequence[Fragment]) -> RecordPlace | None:
        if self._call is None:
            return None
        return RecordPlace(self._call, {each.id: fill_rules.fragment_key(each, self._input_ids) for each in fragments})

    @property
    def _input_ids(self) -> frozenset[int]:
        return frozenset(key for ids in (self._inputs or {}).values() for key in ids)

    def _resume(self, head: PinnedVersion, wanted: Sequence[Fragment]) -> None:
        """Take over the files that an earlier call finished, after checking each one."""
        unknown = [fragment for fragment in wanted if fragment.id not in self._made]
        place = self._place(unknown)
        if place is None or not unknown:
            return
        found = column_files.read_records(self._location, self._branch, place)
        for fragment in unknown:
            file = found.get(fragment.id)
            if file is not None and file.rows == fragment.physical_rows:
                with suppress(errors.CorruptData, errors.NotFound):  # a broken file is computed again
                    column_files.check_whole(self._location, self._branch, file)
                    self._put(_Made(file, fragment, head, resumed=True))

    def _put(self, made: _Made) -> None:
        before = self._made.get(made.file.fragment)
        if before is not None:
            self._unused.append(before.file)
        self._made[made.file.fragment] = made

    def _fits(self, head: PinnedVersion, contents: Contents, now: Fragment) -> bool:
        """Whether a fragment's file has a value for each of its current rows."""
        made = self._made.get(now.id)
        if made is None or not fill_rules.same_sources(made.fragment, now, self._input_ids):
            return False
        if made.fragment.deletion is None or same_deletion(made.fragment, now):
            return True
        if now.deletion is None:
            return False
        try:
            before = versions.read_snapshot(self._location, made.pin)
            then = deleted_offsets(self._location, before, made.fragment)
        except errors.NotFound:
            return False
        snapshot = versions.snapshot_of(self._location, head, contents)
        return {*then.to_pylist()} <= {*deleted_offsets(self._location, snapshot, now).to_pylist()}

    def _tell(self, done: int, total: int) -> None:
        files = [made.file for made in self._made.values()]
        rows, size = sum(file.rows for file in files), sum(file.bytes for file in files)
        names = tuple(self._values.schema.names)
        progress = fill_rules.BackfillProgress(", ".join(names), done, total, rows, size, names)
        _LOG.info("%s", progress)
        if self._options.progress is not None:
            self._options.progress(progress)
