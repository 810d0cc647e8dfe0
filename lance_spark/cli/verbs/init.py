"""``lance-git init``: a new dataset, and a workspace for it."""

from __future__ import annotations

import os

import click

from lance_spark.actions.place import dataset_at
from lance_spark.cli.command import dry_run_option, verb
from lance_spark.cli.session import Session
from lance_spark.errors import AlreadyExists, InvalidOption
from lance_spark.location import DatasetLocation
from lance_spark.store.uri import locate
from lance_spark.store.workspace import create_workspace, open_workspace, remove_workspace
from lance_spark.workspace.model import CONFIG, Workspace, check_uri


@verb("init")
@click.argument("uri")
@click.argument("directory", metavar="[DIR]", required=False)
@click.option("--from", "source", metavar="FILE", help="Take the columns of a Parquet, Arrow, CSV or Lance table.")
@dry_run_option
@click.pass_obj
def command(session: Session, uri: str, directory: str | None, source: str | None, dry_run: bool) -> None:
    """Create a dataset, and a workspace for it.

    The dataset is made at URI, without rows, the workspace in DIR. That is by default the dataset's own directory,
    or ./NAME for a dataset on an object store. Without --from the dataset has no columns yet; the first overwrite
    brings them.
    """
    from lance_spark.actions.init import init_dataset, plan_init

    if session.dataset is not None:
        raise InvalidOption("init takes the dataset as its argument, not as --dataset.")
    check_uri(uri)
    location = dataset_at(uri, session.storage)
    place = os.path.realpath(directory or _default_directory(location))
    schema = plan_init(location, None if source is None else locate(source, session.storage))
    workspace = Workspace("." if place == location.uri else location.uri)
    existed = _check_free(place, location)
    if not dry_run:
        if not existed:
            create_workspace(place, workspace)
        try:
            # The workspace is first: should this end in between, the same call goes on from there.
            init_dataset(location, schema)
        except BaseException:
            if not existed:
                remove_workspace(place)
            raise
    verb_text = "would be created" if dry_run else "created"
    session.output.show(
        {
            "action": "init",
            "dataset": location.uri,
            "columns": list(schema.names),
            "workspace": place,
            "dry_run": dry_run,
        },
        f"Dataset {location.uri} {verb_text} with {_columns(schema.names)}; workspace in {place}.",
    )


def _default_directory(location: DatasetLocation) -> str:
    if location.is_local:
        return location.uri
    return os.path.join(os.curdir, location.uri.rstrip("/").rpartition("/")[2].removesuffix(".lance"))


def _check_free(place: str, location: DatasetLocation) -> bool:
    """Whether the directory has a workspace for this very dataset, which an interrupted call left.

    Raises AlreadyExists for another one's.
    """
    found = open_workspace(place)
    if found is None:
        return False
    if locate(found.dataset_uri).uri != location.uri:
        raise AlreadyExists(
            f"There is a workspace in {place} already, for {found.dataset_uri}.",
            hint=f"Choose another directory, or remove {CONFIG} there.",
        )
    return True


def _columns(names: list[str]) -> str:
    return f"the columns {', '.join(names)}" if names else "no columns yet"
