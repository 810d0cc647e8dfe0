"""Commits written files as one version, through pylance, or deletes them; runs on the driver."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from lance_spark.errors import AlreadyExists, Conflict, NotFound
from lance_spark.location import DatasetLocation
from lance_spark.manifest.transactions import MESSAGE
from lance_spark.refs.model import PinnedVersion
from lance_spark.store import files
from lance_spark.store.commits import check_nothing_missing, check_still_there
from lance_spark.store.creating import create_dataset
from lance_spark.store.datasets import open_latest, open_pinned
from lance_spark.store.failures import translated
from lance_spark.store.protection import check_unprotected
from lance_spark.write.plan import WriteJob, WritePlan

if TYPE_CHECKING:
    from lance.schema import LanceField


def commit(job: WriteJob, fragments: Sequence[str]) -> int:
    """Commit all fragments as one version and return its number.

    pylance's rules decide whether the commit can be combined with commits made since the job started. If not, it
    raises Conflict, and nothing was committed. After any other error the commit may or may not have happened.
    """
    check(job)
    return commit_checked(job, fragments)


def check(job: WriteJob) -> None:
    """Raise Conflict where commits since the job started leave no place for what it wrote."""
    plan = job.plan
    if job.start is None:
        return
    check_still_there(plan.location, job.start)
    if plan.mode == "append":
        _check_same_columns(plan, job.start)
    else:
        check_nothing_missing(plan.location, job.start)
    check_unprotected(plan.location, job.start.branch)


def commit_checked(job: WriteJob, fragments: Sequence[str]) -> int:
    """As commit, for a caller that has checked the job."""
    import lance
    from lance.dataset import Transaction
    from lance.fragment import FragmentMetadata

    plan = job.plan
    metadata = [FragmentMetadata.from_json(fragment) for fragment in fragments]
    operation = (
        lance.LanceOperation.Append(metadata)
        if plan.mode == "append"
        else lance.LanceOperation.Overwrite(plan.schema, metadata)
    )
    what: dict[str, Any] = {"operation": operation, "commit_message": plan.options.commit_message}
    arguments: dict[str, Any] = {"max_retries": 0}
    if job.start is not None:
        arguments = {"read_version": job.start.version}
        if job.properties:
            said = {**job.properties, **({MESSAGE: plan.options.commit_message} if plan.options.commit_message else {})}
            what = {"operation": Transaction(job.start.version, operation, transaction_properties=said)}
            arguments = {"max_retries": 0}
    try:
        with translated(plan.location, "committing"):
            if plan.mode == "create" and not metadata and plan.options.files.data_storage_version is not None:
                return _create_empty(plan)
            dataset = lance.LanceDataset.commit(
                plan.location.branch_uri(plan.options.branch),
                **what,
                storage_options=plan.location.storage_options,
                enable_stable_row_ids=plan.options.enable_stable_row_ids,
                **arguments,
            )
    except (AlreadyExists, NotFound) as error:
        if plan.mode != "create":
            raise
        # The loser of a race to create a dataset gets "already exists", or that version 0 was not found.
        raise Conflict(
            f"Another job created the dataset at {plan.location.uri} first.", hint="Run it again."
        ) from error
    return int(dataset.version)


def _check_same_columns(plan: WritePlan, start: PinnedVersion) -> None:
    """Raise Conflict when a column that was written has been altered or dropped since the job started.

    pylance combines an append with a concurrent change of a column's type, and then the appended values read as
    null: the files name the field by its old id.
    """
    before = open_pinned(plan.location, start).lance_schema
    now = {field.name(): field for field in open_latest(plan.location, start.branch).lance_schema.fields()}
    for field in before.fields():
        name = field.name()
        if plan.schema.get_field_index(name) >= 0 and (name not in now or _ids(now[name]) != _ids(field)):
            raise Conflict(
                f"Column '{name}' of {plan.location.uri} was altered or dropped since the job started.",
                hint="Run it again.",
            )


def _ids(field: LanceField) -> tuple[Any, ...]:
    """A field's id and name, with those of the fields inside it."""
    return (field.id(), field.name(), tuple(_ids(child) for child in field.children()))


def _create_empty(plan: WritePlan) -> int:
    """A dataset without rows in a chosen file format, which a commit can only take from its fragments."""
    return create_dataset(
        plan.location,
        plan.schema,
        data_storage_version=plan.options.files.data_storage_version,
        enable_stable_row_ids=bool(plan.options.enable_stable_row_ids),
        commit_message=plan.options.commit_message,
    )


def discard(plan: WritePlan, fragments: Iterable[str]) -> None:
    """Delete the files of fragments that were never committed, with their blob sidecars."""
    root = DatasetLocation(plan.location.branch_uri(plan.options.branch), plan.location.options)
    for fragment in fragments:
        for file in json.loads(fragment)["files"]:
            if file.get("base_id") is None:
                path = f"data/{file['path']}"
                files.delete(root, (path, path.removesuffix(".lance")))
