"""Writing a table of a catalog. One that is not there is declared, written and committed, or withdrawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa

from lance_spark.actions.catalog.declaring import confirm, declare_table, withdraw
from lance_spark.actions.catalog.lookup import Found, find_table, located, table_exists
from lance_spark.actions.catalog.opening import catalog_of
from lance_spark.actions.target import take_target
from lance_spark.actions.write import finish, give_up, new_schema, plan_write_to
from lance_spark.catalog.changes import refusal
from lance_spark.catalog.directory import RESERVED, VERSIONS
from lance_spark.catalog.model import Catalog, Declaration
from lance_spark.catalog.names import Identifier, identify_table
from lance_spark.errors import AlreadyExists, Conflict, LanceSparkError, NotFound, StorageFailure
from lance_spark.location import DatasetLocation
from lance_spark.options.write import WriteOptions, parse_write_options
from lance_spark.store import files
from lance_spark.store.catalog import markers
from lance_spark.write.plan import WritePlan


@dataclass(frozen=True)
class Claim:
    """A table without data, which a job gives its first."""

    catalog: Catalog
    declaration: Declaration
    mine: bool
    """Whether this job declared it, so that a failed job takes the name back."""


@dataclass(frozen=True)
class WriteJob:
    """A write, and the table that it makes in a catalog."""

    plan: WritePlan
    claim: Claim | None = None
    """None for a write to a path, and to a table that has data."""


def plan_job(options: Mapping[str, str], frame: pa.Schema, overwrite: bool) -> WriteJob:
    """Check everything that can be checked before a task starts, then declare the table if it is new.

    ``frame`` is the DataFrame's schema in Arrow types. Raises as :func:`lance_spark.actions.write.plan_write`, and
    NotFound for a missing namespace; then nothing was changed.
    """
    target = take_target(options, "save")
    parsed, place = parse_write_options(target.options), target.place
    if isinstance(place, DatasetLocation):
        return WriteJob(plan_write_to(place, parsed, frame, overwrite))
    catalog, identifier = catalog_of(place), identify_table(place.name)
    doing = f"write table '{identifier}'"
    try:
        found = find_table(catalog, identifier, doing)
    except NotFound as missing:
        if parsed.branch is not None:
            raise NotFound(
                missing.message, hint=missing.hint or "Write the table first; a new one has main alone."
            ) from None
        return _new_table(catalog, identifier, parsed, frame)
    location = located(catalog, found)
    if parsed.create_table:
        raise _exists(identifier, location)
    plan = plan_write_to(location, parsed, frame, overwrite)
    return WriteJob(plan, _joined(catalog, found, location) if plan.start is None else None)


def _exists(identifier: Identifier, location: DatasetLocation) -> LanceSparkError:
    hint = "Append to it or overwrite it; these are modes."
    if not files.list_names(location, VERSIONS):
        hint = "It has no data: a job is writing it, or was killed at that. Append to it, or drop it."
    return refusal(AlreadyExists, f"create table '{identifier}'", "there is a table of that name already", hint)


def _new_table(catalog: Catalog, identifier: Identifier, options: WriteOptions, frame: pa.Schema) -> WriteJob:
    schema = new_schema(frame, options)
    try:
        declaration = declare_table(catalog, identifier)
    except AlreadyExists as taken:
        if not options.create_table and table_exists(catalog, identifier):
            raise Conflict(taken.message, hint="Run it again: it will write to that table.") from None
        raise
    plan = WritePlan(declaration.location, options, "create", schema, None)
    return WriteJob(plan, Claim(catalog, declaration, mine=True))


def _joined(catalog: Catalog, found: Found, location: DatasetLocation) -> Claim | None:
    """A claim on what somebody else declared; None where it could not be told from another one of that name."""
    holder = markers.content_of(location, RESERVED)
    if holder is None or found.path is None or (found.entry is None and catalog.reads_manifest):
        return None
    declaration = Declaration(found.identifier, location, found.path, holder.decode(errors="replace"))
    return Claim(catalog, declaration, mine=False)


def finish_job(job: WriteJob, fragments: Sequence[str]) -> int | None:
    """Commit what all tasks wrote, as :func:`lance_spark.actions.write.finish`; a new table is there from now on.

    Raises Conflict for a table that was dropped or renamed while it was written; then it leaves nothing behind.
    """
    if job.claim is None:
        return finish(job.plan, fragments)
    try:
        confirm(job.claim.catalog, job.claim.declaration)
    except LanceSparkError:
        with suppress(LanceSparkError):
            give_up_job(job, fragments)
        raise
    try:
        version = finish(job.plan, fragments)
    except BaseException:
        with suppress(LanceSparkError):
            _take_back(job.claim)
        raise
    # The rows are committed. Said to have failed, because the store did not answer now, they would be written twice.
    with suppress(StorageFailure):
        confirm(job.claim.catalog, job.claim.declaration)
    return version


def give_up_job(job: WriteJob, fragments: Sequence[str]) -> None:
    """Leave dataset and catalog as they were before a job that did not reach its commit."""
    try:
        give_up(job.plan, fragments)
    finally:
        if job.claim is not None:
            _take_back(job.claim)


def _take_back(claim: Claim) -> None:
    if claim.mine:
        withdraw(claim.catalog, claim.declaration)
