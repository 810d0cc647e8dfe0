"""Columns with values on any branch: new ones, and other values for those that are there.

Values are computed first, fragment by fragment, into files that no version knows. One commit shows them all.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from lance_spark.actions.attempts import attempts, commit_once, overtaken
from lance_spark.actions.columns import FIRST_FORMATS, alter_columns, check_format
from lance_spark.actions.filled_files import FilledFiles
from lance_spark.actions.sync.write_guards import check_writable
from lance_spark.backfill.keys import field_ids
from lance_spark.backfill.model import BackfillResult, ComputedColumns, FilledFile
from lance_spark.backfill.options import BackfillOptions
from lance_spark.errors import Conflict, Refused
from lance_spark.location import DatasetLocation
from lance_spark.manifest.contents import Contents, Fragment
from lance_spark.refs.model import PinnedVersion
from lance_spark.runner.interface import Engine
from lance_spark.schema.column_changes import AddColumn, comment_of
from lance_spark.schema.evolution import Evolution, plan_evolution
from lance_spark.store.column_fill_commit import commit_added, commit_replaced
from lance_spark.store.column_nulls import with_nulls
from lance_spark.store.datasets import open_pinned, pin_latest


def check_new_columns(location: DatasetLocation, pin: PinnedVersion, values: ComputedColumns) -> Evolution:
    """The new columns as steps. Raises AlreadyExists, InvalidName, Refused as ``alter_columns`` would."""
    steps = [AddColumn((field.name,), field.type, comment=comment_of(field)) for field in values.schema]
    return plan_evolution(open_pinned(location, pin).schema, steps)


def add_filled_columns(
    location: DatasetLocation, branch: str | None, values: ComputedColumns, options: BackfillOptions
) -> BackfillResult:
    """Add columns and their values to a branch (None for main) in one version: nobody sees them half full.

    Commits made meanwhile are kept: fragments that were added, rewritten or changed since are computed, too, before
    the commit is tried again. Raises Conflict if others commit faster than that, or change what the values are
    computed from; then nothing was changed, and what was computed is used by the next call. Raises as
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
            commit = partial(commit_added, location, head, contents, plan, files.offer(filled), files.properties)
            made = commit_once(location, head, files.properties, left, commit)
            if made is not None:
                return files.done(made, filled)
    raise overtaken(branch)


def fill_columns_by_groups(
    location: DatasetLocation, branch: str | None, values: ComputedColumns, options: BackfillOptions, engine: Engine
) -> BackfillResult:
    """Add columns without values, and then the values, group by group of fragments, each group a version.

    Columns of these names and types that are there already are filled where a fragment has no values for them: that is
    how a killed call goes on. Raises as :func:`add_filled_columns`; groups that are committed stay.
    """
    check_writable(location, branch)
    files = FilledFiles(location, branch, values, options)
    _add_empty(location, branch, values, engine, options.message)
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
                group = files.of(head, contents, wanted[:size], len(filled), len(wanted[size:]))
                try:
                    made = commit_replaced(location, head, names, files.offer(group), files.properties)
                except Conflict:
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

    Indexes on the columns stay, and forget the fragments, so that no old value is found. Raises as
    :func:`add_filled_columns`.
    """
    check_writable(location, branch)
    files = FilledFiles(location, branch, values, options)
    with files.kept_for_later():
        for left in attempts():
            head, contents = files.look()
            _check_same_types(location, head, values)
            if contents.storage_version in FIRST_FORMATS and contents.fragment_count:
                raise Refused(
                    "Cannot update a column: the data files are of format 0.1, where every file has every column.",
                    hint="Write the rows to a new table, which gets a newer format.",
                )
            filled = files.of(head, contents, files.wanted(contents))
            if left and files.overtaken(head):
                continue  # pylance would combine an append, and its rows would keep their values
            if not filled:
                return files.done(head, filled)
            names, offered = values.schema.names, files.offer(filled)
            commit = partial(commit_replaced, location, head, names, offered, files.properties)
            made = commit_once(location, head, files.properties, left, commit)
            if made is not None:
                return files.done(made, filled)
    raise overtaken(branch)


def _add_empty(
    location: DatasetLocation, branch: str | None, values: ComputedColumns, engine: Engine, message: str | None
) -> None:
    schema = open_pinned(location, pin_latest(location, branch)).schema
    wanted = []
    for field in values.schema:
        at = schema.get_field_index(field.name)
        if at < 0 or schema.field(at).type != field.type:
            wanted.append(AddColumn((field.name,), field.type, comment=comment_of(field)))
    if wanted:
        alter_columns(location, branch, wanted, engine, message)


def _lacking(
    location: DatasetLocation, head: PinnedVersion, contents: Contents, fragments: Sequence[Fragment], names: list[str]
) -> list[Fragment]:
    """The fragments without values for the columns, or with nulls that others made.

    A file that has the columns and others as well is not one of ours: whoever compacted or updated rows before they had
    their values wrote nulls into it.
    """
    ids = {key for found in field_ids(contents.fields, names).values() for key in found}
    mixed = [
        fragment.id
        for fragment in fragments
        if any(not ids.isdisjoint(file.fields) and {*file.fields} - ids - {-2} for file in fragment.files)
    ]
    nulls = with_nulls(location, head, mixed, names)
    return [
        fragment
        for fragment in fragments
        if fragment.id in nulls or all(ids.isdisjoint(file.fields) for file in fragment.files)
    ]


def _check_same_types(location: DatasetLocation, head: PinnedVersion, values: ComputedColumns) -> None:
    schema: Any = open_pinned(location, head).schema
    for field in values.schema:
        at = schema.get_field_index(field.name)
        if at < 0 or schema.field(at).type != field.type:
            raise Conflict(f"Column '{field.name}' was altered or dropped since the job started.", hint="Run it again.")
