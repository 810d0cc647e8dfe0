"""``lance-git clone``: a new dataset that follows another one, and a workspace for it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from lance_spark.cli.program import options_of, verb
from lance_spark.cli.session import Session
from lance_spark.core.declared import typed_at
from lance_spark.core.location import DatasetLocation
from lance_spark.core.ref_expressions import HEAD
from lance_spark.core.refs import MAIN, PinnedVersion
from lance_spark.core.show import plain_text
from lance_spark.core.texts import counted, readable
from lance_spark.core.workspace import OpenWorkspace, RemoteEntry, Workspace
from lance_spark.errors import AlreadyExists, InvalidOption, LanceSparkError, NotFound
from lance_spark.remotes.fetch_rules import CloneOptions
from lance_spark.storage import resolving
from lance_spark.storage.datasets import locate_typed
from lance_spark.storage.followers import ORIGIN
from lance_spark.workspace.workspace_files import (
    alone_in,
    finish_clone,
    is_free,
    new_workspace,
    open_workspace,
    remove_with_content,
)

if TYPE_CHECKING:
    from lance_spark.remotes.clone import CloneResult

_ELSEWHERE = "Name another directory: lance-git clone SRC DIR."
_SHOWN = 8
"""Number of branches that are listed."""


@dataclass(frozen=True)
class ClonePaths:
    """The places of the source, of the clone, and of the workspace."""

    source: DatasetLocation
    target: DatasetLocation
    workspace: str

    @property
    def is_one_directory(self) -> bool:
        """Whether the workspace is in the dataset's directory."""
        return self.workspace == self.target.uri


@verb("clone")
@click.argument("source", metavar="SRC")
@click.argument("directory", metavar="[DIR]", required=False)
@click.option("--ref", metavar="REF", help="Start at this branch, tag or version of SRC.  [default: main]")
@options_of(CloneOptions)
@click.pass_obj
def command(session: Session, /, source: str, directory: str | None, ref: str | None, **given: Any) -> None:
    """Create a dataset that follows another one.

    The clone has main as it is at SRC now, and follows the branches of SRC as origin/BRANCH. Only metadata is copied:
    files stay at SRC, where tags protect them from every cleanup. DIR is a directory, by default ./NAME, or a URI on an
    object store; then the workspace is in ./NAME.
    """
    if session.dataset is not None:
        raise InvalidOption("clone takes the dataset as its argument, not as --dataset.")
    places = _places(session, source, directory)
    options = typed_at("shell", CloneOptions, given)
    with contextlib.nullcontext() if options.dry_run else alone_in(places.workspace):
        _run(session, places, ref, options)


def _run(session: Session, places: ClonePaths, ref: str | None, options: CloneOptions) -> None:
    from lance_spark.remotes.clone import clone
    from lance_spark.remotes.fetch import Remote

    begun = _check_free(places)
    expression = HEAD if ref is None else ref
    pin = _pin(places.source, expression, begun)
    remote = Remote(ORIGIN, places.source)
    if options.dry_run:
        result = clone(remote, pin, places.target, session.engine, options)
    else:
        with _workspace(places, pin, begun):
            result = clone(remote, pin, places.target, session.engine, options)
        finish_clone(places.workspace, result.branch)
    data = {**result.as_record(), "workspace": places.workspace}
    session.output.show(data, "\n".join(_lines(result, places)))


def _places(session: Session, source: str, directory: str | None) -> ClonePaths:
    there = session.at(source)
    name = there.uri.rstrip("/").rpartition("/")[2].removesuffix(".lance")
    target = session.at(directory or os.path.join(os.curdir, name))
    if target.is_local:
        return ClonePaths(there, target, target.uri)
    own = target.uri.rstrip("/").rpartition("/")[2].removesuffix(".lance")
    return ClonePaths(there, target, os.path.realpath(own))


def _check_free(places: ClonePaths) -> OpenWorkspace | None:
    """The workspace of this clone if the clone is unfinished. Raises AlreadyExists for anything else."""
    if places.source.uri == places.target.uri:
        raise AlreadyExists(f"{places.source.uri} is the dataset itself.", hint=_ELSEWHERE)
    begun = open_workspace(places.workspace)
    if begun is None:
        if not is_free(places.workspace):
            raise AlreadyExists(f"{places.workspace} is not empty.", hint=_ELSEWHERE)
        return None
    origin = begun.remote_uri(ORIGIN) if ORIGIN in begun.workspace.remotes else ""
    same = bool(origin) and locate_typed(origin).uri == places.source.uri
    dataset = locate_typed(begun.dataset_uri).uri
    if not same or dataset != places.target.uri:
        raise AlreadyExists(f"{places.workspace} already has a workspace for {dataset}.", hint=_ELSEWHERE)
    if begun.workspace.cloning is None:
        raise AlreadyExists(
            f"{places.workspace} already has a clone of {places.source.uri}.",
            hint=f"Update it: lance-git -C {places.workspace} pull",
        )
    return begun


def _pin(source: DatasetLocation, ref: str, begun: OpenWorkspace | None) -> PinnedVersion:
    """The version to clone: that of the unfinished clone, or the one that the ref names now.

    Otherwise the clone would be half one version and half the next.
    """
    pin = resolving.resolve_expression(source, ref, None)
    before = None if begun is None else begun.workspace.cloning
    if before is None:
        return pin
    branch = before.rpartition("@")[0] or MAIN
    if branch != (pin.branch or MAIN):
        raise AlreadyExists(
            f"A clone of {before} was begun here, but {ref} is {pin}.",
            hint=f"Finish it first with --ref {branch}, or remove the directory.",
        )
    try:
        return resolving.resolve_expression(source, before, None)
    except NotFound:
        return pin  # cleaned up meanwhile


@contextlib.contextmanager
def _workspace(places: ClonePaths, pin: PinnedVersion, begun: OpenWorkspace | None) -> Iterator[None]:
    """Write the workspace first, so that the same call finishes an interrupted clone.

    A clone that failed or was cancelled removes what it created.
    """
    if begun is not None:
        yield
        return
    dataset = "." if places.is_one_directory else places.target.uri
    remotes = {ORIGIN: RemoteEntry(ORIGIN, places.source.uri)}
    workspace = Workspace(dataset, pin.branch or MAIN, remotes, str(pin))
    undo = partial(_undo, places) if places.is_one_directory else None
    with new_workspace(places.workspace, workspace, undo):
        yield


def _undo(places: ClonePaths) -> None:
    from lance_spark.survey.identity import read_identity

    own = None
    with contextlib.suppress(LanceSparkError):
        own = read_identity(places.target)
    remove_with_content(places.workspace)
    if own is not None:
        _release(places.source, own.name)


def _release(source: DatasetLocation, name: str) -> None:
    from lance_spark.survey.clone_records import release

    # The error that ended the clone is the one to report; at worst, a few tags stay at the source.
    with contextlib.suppress(LanceSparkError):
        release(source, name)


def _lines(result: CloneResult, places: ClonePaths) -> Iterator[str]:
    from lance_spark.remotes.report import note_lines

    files = f"{counted(result.files, 'file')}, {readable(result.bytes)}"
    yield f"{'Would clone' if result.dry_run else 'Cloned'} {result.source} into {result.target}."
    copied = "would be copied" if result.dry_run else "are copied"
    where = f"Its {files}, {copied if result.deep else 'stay there'}."
    yield f"  On branch {result.branch}, at its {result.source_version}: {counted(result.rows, 'row')}. {where}"
    if result.fetched is not None:
        names = [branch.into for branch in result.fetched.branches]
        shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else "")
        yield f"  Its branches are followed by {shown}."
    if not places.is_one_directory:
        yield f"  Workspace in {places.workspace}."
    yield from (plain_text([line]) for line in note_lines(result.notes))
