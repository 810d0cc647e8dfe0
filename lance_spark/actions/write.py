"""Writing: options, the version to start from, a plan; then the job: begin, fragments, one commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import pyarrow as pa

from lance_spark import hints
from lance_spark.actions.branches import check_new, create_branch_at
from lance_spark.actions.denied import left_after
from lance_spark.actions.resolve import resolve
from lance_spark.actions.sync.write_guards import check_writable
from lance_spark.actions.target import Target, take_target
from lance_spark.errors import (
    AlreadyExists,
    Conflict,
    InvalidOption,
    LanceSparkError,
    NotFound,
    PermissionDenied,
    StorageFailure,
)
from lance_spark.location import DatasetLocation
from lance_spark.options.write import WriteOptions, cannot_change, parse_write_options
from lance_spark.refs.model import PinnedVersion, RefSpec
from lance_spark.store import write_commit, writing
from lance_spark.store.datasets import find_latest, pin_latest
from lance_spark.store.dropping import drop_branch
from lance_spark.write.evolving import plan_merged
from lance_spark.write.plan import (
    Claim,
    Mode,
    WriteJob,
    WritePlan,
    append_schema,
    check_names,
    check_replaces,
    same_schema,
)


def plan_write(options: Mapping[str, str], frame: pa.Schema, overwrite: bool) -> WritePlan:
    """Check everything that can be checked before the job begins. Changes nothing.

    ``frame`` is the DataFrame's schema in Arrow types. Raises InvalidOption, Refused, NotFound, AlreadyExists, Conflict
    or SchemaMismatch.
    """
    target = take_target(options, "save")
    parsed, place = parse_write_options(target.options), target.place
    if isinstance(place, DatasetLocation):
        if target.typed:
            place, parsed = _at_ref(target, parsed)
        return _plan(place, parsed, frame, overwrite)
    from lance_spark.actions.catalog.writing import claim_table  # a write to a path does not wait for catalogs

    claim = claim_table(place, parsed)
    return _plan(claim.location, parsed, frame, overwrite, claim)


def _at_ref(target: Target, options: WriteOptions) -> tuple[DatasetLocation, WriteOptions]:
    """The dataset of a path with ``@`` and, if that names a branch, the options of a write to it.

    Raises InvalidOption for a branch there and in the options, Refused for a tag or a version.
    """
    from lance_spark.actions.path_refs import settle

    settled = settle(target)
    spec = settled.spec
    if spec is None:
        return settled.location, options
    if spec != RefSpec(branch=spec.branch):
        raise cannot_change("a version" if spec.tag is None else "a tag")
    return settled.location, replace(options, branch=spec.branch)


def _plan(
    location: DatasetLocation, options: WriteOptions, frame: pa.Schema, overwrite: bool, claim: Claim | None = None
) -> WritePlan:
    start = _start(location, options)
    if start is None:
        check_names(frame, new=True)
        schema = writing.storage_schema(frame, options.files.data_storage_version)
        return WritePlan(location, options, "create", schema, None, claim)
    if options.create_table:
        raise AlreadyExists(
            f"There is a dataset at {location.uri} already.", hint="Leave create_table out to write to it."
        )
    check_names(frame, new=overwrite)
    target = writing.read_target(location, start)
    check_replaces(target, options)
    mode: Mode = "overwrite" if overwrite else "append"
    evolution = None
    if not overwrite:
        evolution = plan_merged(target.schema, frame) if options.merge_schema else None
        if evolution is not None:
            from lance_spark.actions.evolving_append import check_evolution  # few writes wait for what it imports

            check_evolution(location, start, target.data_storage_version, evolution)
        stored = append_schema(target.schema if evolution is None else evolution.schema, frame)
    elif options.merge_schema:
        raise InvalidOption(
            "Option 'merge_schema' is for appends.",
            hint="An overwrite takes the DataFrame's columns, or with overwrite_schema=false keeps the dataset's.",
        )
    elif options.overwrite_schema:
        stored = writing.storage_schema(frame, target.data_storage_version)
    else:
        stored = same_schema(target.schema, frame)
    return WritePlan(location, options, mode, stored, start, evolution=evolution)


def _start(location: DatasetLocation, options: WriteOptions) -> PinnedVersion | None:
    """The version the job starts from; None when there is no dataset yet and one may be created."""
    if options.create_from is not None:
        start = resolve(location, options.create_from)
        try:
            check_new(location, str(options.branch))
        except AlreadyExists as there:
            hint = hints.of("Leave create_branch out to write to it. ", there.hint or "")
            raise AlreadyExists(there.message, hint=hint) from None
        return start
    if options.branch is None:
        newest = find_latest(location, None)
        if newest is not None:
            check_writable(location, None)
        return newest
    try:
        check_writable(location, options.branch)
    except NotFound as missing:
        raise NotFound(
            missing.message,
            hint=hints.of(missing.hint or "", " To make a new branch: ", hints.write_new_branch(options.branch), "."),
        ) from None
    return pin_latest(location, options.branch)


def begin(plan: WritePlan) -> WriteJob:
    """Execute the first step of a plan: create the branch, or declare the table, where either is new.

    Executors write to what is there from now on, and of several jobs that create the same one, the others are told
    here, before they write. Raises AlreadyExists, Conflict, NotFound; then nothing was changed.
    """
    if plan.claim is not None:
        return WriteJob(plan, None, plan.claim.take())
    if plan.start is None or not plan.creates_branch:
        return WriteJob(plan, plan.start)
    branch = str(plan.options.branch)
    create_branch_at(plan.location, branch, plan.start)
    return WriteJob(plan, pin_latest(plan.location, branch))


def finish(job: WriteJob, fragments: Sequence[str]) -> int | None:
    """Commit what all tasks wrote as one version and return its number; None when there was nothing to append.

    Raises Conflict where another process committed what cannot be combined, or dropped or renamed a new table in the
    meantime; then the job leaves nothing behind. After any other error it is not certain that nothing was committed: a
    request that timed out may have arrived. Then the files stay for cleanup to find, because deleting committed files
    would lose data.
    """
    claim = job.claim
    if claim is None:
        return _commit(job, fragments)
    try:
        claim.confirm()
    except LanceSparkError:
        with suppress(LanceSparkError):
            give_up(job, fragments)
        raise
    try:
        version = _commit(job, fragments)
    except BaseException:
        with suppress(LanceSparkError):
            claim.withdraw()
        raise
    # The rows are committed. Reported as a failure, because the store did not answer now, they would be written twice.
    with suppress(StorageFailure):
        claim.confirm()
    return version


def _commit(job: WriteJob, fragments: Sequence[str]) -> int | None:
    evolves = job.plan.evolution is not None
    if job.plan.mode == "append" and not fragments and not evolves:
        return None
    try:
        if evolves:
            from lance_spark.actions.evolving_append import append_evolved

            return append_evolved(job, fragments)
        return write_commit.commit(job, fragments)
    except Conflict as conflict:
        try:
            _discard(job, fragments)
        except LanceSparkError as failure:
            raise Conflict(
                f"{conflict.message} Cleaning up after it failed: {failure.message}", conflict.hint
            ) from failure
        raise
    except PermissionDenied as denied:
        if not denied.before_commit:
            raise
        raise denied.saying(left_after(lambda: _discard(job, fragments), "files that were written")) from None


def give_up(job: WriteJob, fragments: Sequence[str]) -> None:
    """Leave dataset and catalog as they were before a job that did not reach its commit."""
    try:
        _discard(job, fragments)
    finally:
        if job.claim is not None:
            job.claim.withdraw()


def _discard(job: WriteJob, fragments: Sequence[str]) -> None:
    plan, branch = job.plan, job.plan.options.branch
    write_commit.discard(plan, fragments)
    # A branch that another process has committed to in the meantime is not this job's alone any more.
    if plan.creates_branch and branch is not None and find_latest(plan.location, branch) == job.start:
        drop_branch(plan.location, branch)
