"""``lance-git init``: creates a workspace for a dataset, and the dataset if it does not exist."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from lance_spark.cli.program import dry_run_option, verb
from lance_spark.cli.session import Session, check_finished
from lance_spark.core.location import DatasetLocation
from lance_spark.core.workspace import CONFIG, OpenWorkspace, Workspace, check_uri
from lance_spark.errors import AlreadyExists, InvalidOption, PermissionDenied
from lance_spark.storage.datasets import locate_typed
from lance_spark.workspace.workspace_files import find_here, is_for, new_workspace, open_workspace

if TYPE_CHECKING:
    from lance_spark.workspace.init import InitPlan


@verb("init")
@click.argument("uri")
@click.argument("directory", metavar="[DIR]", required=False)
@click.option("--from", "source", metavar="FILE", help="Take the columns of a Parquet, Arrow, CSV or Lance table.")
@dry_run_option
@click.pass_obj
def command(session: Session, uri: str, directory: str | None, source: str | None, dry_run: bool) -> None:
    """Create a workspace for a new or existing dataset.

    An existing dataset at URI stays as it is. Otherwise, a dataset without rows is created, with the columns of --from
    or, until the first overwrite, without columns. The workspace is created in DIR, by default the dataset's own
    directory, or ./NAME for a dataset on an object store. A repeated init creates nothing twice.
    """
    from lance_spark.workspace.init import init_dataset, init_location, plan_init

    if session.dataset is not None:
        raise InvalidOption("init takes the dataset as its argument, not as --dataset or -C URI.")
    check_uri(uri)
    location = init_location(uri, session.storage)
    place = _default_place(location) if directory is None else os.path.realpath(directory)
    plan = plan_init(location, None if source is None else locate_typed(source, session.storage))
    existed = _check_free(place, location)
    if not dry_run:
        with contextlib.nullcontext() if existed else _workspace(place, location):
            init_dataset(location, plan)
    session.did(
        "init",
        dry_run,
        _said(location, place, plan, existed, "would be created" if dry_run else "created"),
        dataset=location.uri,
        columns=list(plan.columns),
        workspace=place,
        dataset_created=plan.create is not None,
        workspace_created=not existed,
    )


def _default_place(location: DatasetLocation) -> str:
    """The workspace of the current directory, if it is for this dataset: a repeated call creates no second one."""
    here = find_here(os.curdir)
    if isinstance(here, OpenWorkspace) and is_for(here, location.uri):
        return here.directory
    if location.is_local:
        return location.uri
    return os.path.realpath(location.uri.rstrip("/").rpartition("/")[2].removesuffix(".lance"))


def _check_free(place: str, location: DatasetLocation) -> bool:
    """Whether the directory has a workspace for this dataset.

    Raises AlreadyExists for the workspace of another dataset, Refused for that of an unfinished clone.
    """
    workspace = open_workspace(place)
    if workspace is None:
        return False
    if not is_for(workspace, location.uri):
        raise AlreadyExists(
            f"{place} already has a workspace, for {workspace.dataset_uri}.",
            hint=f"Choose another directory, or remove {CONFIG} there.",
        )
    check_finished(workspace)
    return True


@contextlib.contextmanager
def _workspace(place: str, location: DatasetLocation) -> Iterator[None]:
    """Create a workspace; if this place is not writable, suggest another one."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(new_workspace(place, Workspace("." if place == location.uri else location.uri)))
        except PermissionDenied as problem:
            hint = f"Put the workspace into a directory of your own: lance-git init {location.uri} DIR."
            raise PermissionDenied(problem.message, hint=hint) from None
        yield


def _said(location: DatasetLocation, place: str, plan: InitPlan, existed: bool, made: str) -> str:
    if plan.create is not None:
        columns = f"the columns {', '.join(plan.columns)}" if plan.columns else "no columns yet"
        return f"Dataset {location.uri} {made} with {columns}; workspace in {place}."
    if existed:
        return f"Dataset {location.uri} and its workspace in {place} already exist."
    return f"Dataset {location.uri} already exists and stays as it is; workspace {made} in {place}."
