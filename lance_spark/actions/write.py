"""Writing: options, the version to start from, a plan, fragments, one commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from lance_spark.actions.branches import create_branch_at
from lance_spark.actions.resolve import resolve
from lance_spark.actions.sync.write_guards import check_writable
from lance_spark.actions.target import take_target
from lance_spark.errors import AlreadyExists, Conflict, LanceSparkError, NotFound
from lance_spark.location import DatasetLocation
from lance_spark.options.write import WriteOptions, parse_write_options
from lance_spark.refs.model import PinnedVersion
from lance_spark.store import write_commit, writing
from lance_spark.store.datasets import find_latest, pin_latest
from lance_spark.store.dropping import drop_branch
from lance_spark.write.plan import Mode, WritePlan, WriteTarget, append_schema, check_names, check_replaces


def plan_write(options: Mapping[str, str], frame: pa.Schema, overwrite: bool) -> WritePlan:
    """Check everything that can be checked before a task starts, then create the branch if that was asked for.

    ``frame`` is the DataFrame's schema in Arrow types. Raises InvalidOption, Refused, NotFound, AlreadyExists or
    SchemaMismatch; then nothing was changed.
    """
    target = take_target(options, "save")
    assert isinstance(target.place, DatasetLocation)
    return plan_write_to(target.place, parse_write_options(target.options), frame, overwrite)


def plan_write_to(location: DatasetLocation, parsed: WriteOptions, frame: pa.Schema, overwrite: bool) -> WritePlan:
    """The same for a dataset that was looked up already."""
    start = _start(location, parsed)
    if start is None:
        return WritePlan(location, parsed, "create", new_schema(frame, parsed), None)
    if parsed.create_table:
        raise AlreadyExists(
            f"There is a dataset at {location.uri} already.", hint="Leave create_table out to write to it."
        )
    check_names(frame, new=overwrite)
    target = writing.read_target(location, start)
    check_replaces(target, parsed)
    mode: Mode = "overwrite" if overwrite else "append"
    plan = WritePlan(location, parsed, mode, _stored_schema(target, frame, mode), start)
    return plan if parsed.create_from is None else _with_new_branch(plan, start)


def new_schema(frame: pa.Schema, options: WriteOptions) -> pa.Schema:
    """The schema of a dataset that is made for a DataFrame. Raises SchemaMismatch."""
    check_names(frame, new=True)
    return writing.storage_schema(frame, options.files.data_storage_version)


def finish(plan: WritePlan, fragments: Sequence[str]) -> int | None:
    """Commit what all tasks wrote as one version and return its number; None when there was nothing to append.

    A conflict is certain not to have committed, so its files and a branch made for it are removed here. After any
    other error that is not certain: a request that timed out may have arrived. Then the files stay for cleanup to
    find, because deleting committed files would lose data.
    """
    if plan.mode == "append" and not fragments:
        return None
    try:
        return write_commit.commit(plan, fragments)
    except Conflict as conflict:
        try:
            give_up(plan, fragments)
        except LanceSparkError as failure:
            raise Conflict(
                f"{conflict.message} Cleaning up after it failed: {failure.message}", conflict.hint
            ) from failure
        raise


def give_up(plan: WritePlan, fragments: Sequence[str]) -> None:
    """Leave the dataset as it was before a job that did not reach its commit."""
    write_commit.discard(plan, fragments)
    branch = plan.options.branch
    # A branch that somebody has committed to meanwhile is theirs as well by now.
    if plan.created_branch and branch is not None and find_latest(plan.location, branch) == plan.start:
        drop_branch(plan.location, branch)


def _start(location: DatasetLocation, options: WriteOptions) -> PinnedVersion | None:
    """The version the job starts from; None when there is no dataset yet and one may be created."""
    if options.create_from is not None:
        return resolve(location, options.create_from)
    if options.branch is None:
        return find_latest(location, None)
    try:
        check_writable(location, options.branch)
    except NotFound as missing:
        raise NotFound(
            missing.message, hint=f"{missing.hint or ''} To make a new branch, add option('create_branch', 'true')."
        ) from None
    return pin_latest(location, options.branch)


def _stored_schema(target: WriteTarget, frame: pa.Schema, mode: Mode) -> pa.Schema:
    if mode == "overwrite":
        return writing.storage_schema(frame, target.data_storage_version)
    return append_schema(target.schema, frame)


def _with_new_branch(plan: WritePlan, source: PinnedVersion) -> WritePlan:
    branch = str(plan.options.branch)
    create_branch_at(plan.location, branch, source)
    return replace(plan, created_branch=True, start=pin_latest(plan.location, branch))
