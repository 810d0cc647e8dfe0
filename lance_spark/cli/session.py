"""The session of a ``lance-git`` verb: the dataset, the current branch, the workspace if any, and the remotes."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lance_spark.cli.program import NO_PLACE, CommandCall
from lance_spark.core.lifetimes import SETTINGS, TAG_SETTINGS, Lifetime
from lance_spark.core.location import DatasetLocation, is_uri
from lance_spark.core.ref_expressions import HEAD, explicit_spelling
from lance_spark.core.ref_names import branch_or_none
from lance_spark.core.refs import MAIN, PinnedVersion
from lance_spark.core.workspace import OpenWorkspace, PlainDataset, check_uri
from lance_spark.errors import InvalidOption, NotFound, Refused
from lance_spark.storage.datasets import locate_typed
from lance_spark.storage.followers import ORIGIN, check_own, known_remotes
from lance_spark.storage.refs import read_branch, read_refs, read_tag
from lance_spark.storage.resolving import dataset_at, resolve_expression
from lance_spark.workspace.workspace_files import find_here

if TYPE_CHECKING:
    from lance_spark.remotes.fetch import Remote


@dataclass(frozen=True)
class Session(CommandCall):
    """One call of ``lance-git``. The workspace and dataset are looked up when a verb first needs them."""

    dataset: str | None = None
    """``--dataset``, or a URI after ``-C``: a URI or path. Workspaces are then ignored."""
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)
    """``--storage``. Values may be secrets; they are never stored."""
    moved: bool = False
    """Whether ``-C`` named a directory other than the current one of the user's shell."""

    @cached_property
    def _here(self) -> OpenWorkspace | PlainDataset:
        """The workspace or dataset of the directory, without ``--dataset``. Raises NotFound if there is none."""
        here = find_here(os.curdir)
        if here is None:
            raise NotFound(
                NO_PLACE,
                hint="Go to a dataset's directory, or name a dataset: lance-git -C s3://bucket/flights.lance log. "
                "lance-git init and lance-git clone create a workspace.",
            )
        if isinstance(here, OpenWorkspace):
            check_finished(here)
        return here

    @property
    def has_workspace(self) -> bool:
        """Whether there is a workspace, with remotes and a changeable current branch. Raises like :attr:`location`."""
        return self.dataset is None and isinstance(self._here, OpenWorkspace)

    @property
    def workspace(self) -> OpenWorkspace:
        """The workspace of this directory. Raises NotFound without one, InvalidOption with ``--dataset``."""
        if self.dataset is not None:
            check_uri(self.dataset)  # the hint shows it unmasked
            raise InvalidOption(
                "This needs a workspace, which a dataset named by --dataset or -C URI does not have.",
                hint=f"Go to one with -C DIR; {self.how_to_init}.",
            )
        if isinstance(self._here, PlainDataset):
            raise NotFound(
                f"This needs a workspace. There is no workspace here, only the dataset {self._here.uri}.",
                hint=f"{self.how_to_init}.",
            )
        return self._here

    @property
    def how_to_init(self) -> str:
        """The start of a sentence: the command that creates a workspace for a dataset without one."""
        plain = locate_typed(self._here_uri if self.dataset is None else self.dataset).uri
        if not self.moved and plain == os.path.realpath(os.curdir):
            return "lance-git init . creates a workspace here"
        return f"lance-git init {shlex.quote(plain)} creates a workspace for it"

    @property
    def _here_uri(self) -> str:
        return self._here.dataset_uri if isinstance(self._here, OpenWorkspace) else self._here.uri

    @cached_property
    def location(self) -> DatasetLocation:
        """The dataset. Raises NotFound if none was named; sends no request to the store yet."""
        return self.at(self._here_uri if self.dataset is None else self.dataset)

    @property
    def branch(self) -> str | None:
        """The current branch, None for main.

        Without a workspace, it is main or, in a branch's directory ``tree/<branch>``, that branch.
        """
        if self.dataset is not None:
            return None
        here = self._here
        return branch_or_none(here.workspace.branch) if isinstance(here, OpenWorkspace) else here.branch

    def how_to_switch(self, to: str = MAIN) -> str:
        """The command that makes another branch the current one."""
        if self.dataset is not None or self.has_workspace:
            return f"lance-git switch {to}"
        return f"cd {shlex.quote(self.location.branch_uri(branch_or_none(to)))}"

    @property
    def own_branch(self) -> str | None:
        """The current branch for writing. Raises Refused for one that follows a remote's."""
        check_own(self.location, self.branch)
        return self.branch

    def at(self, uri: str) -> DatasetLocation:
        """Another dataset, with the same storage options."""
        check_uri(uri)
        return dataset_at(uri, self.storage)

    def resolve(self, ref: str | None) -> PinnedVersion:
        """The version that a ref names; without a ref, that of HEAD."""
        return resolve_expression(self.location, HEAD if ref is None else ref, self.branch)


def check_finished(workspace: OpenWorkspace) -> None:
    """Raise Refused for the workspace of an unfinished clone."""
    if workspace.workspace.cloning is not None:
        raise Refused(
            f"The clone in {workspace.directory} is not finished.",
            hint=f"Finish it: lance-git clone {_source(workspace)} {_target(workspace)}",
        )


def _source(workspace: OpenWorkspace) -> str:
    return workspace.remote_uri(ORIGIN) if ORIGIN in workspace.workspace.remotes else "SRC"


def _target(workspace: OpenWorkspace) -> str:
    dataset = workspace.dataset_uri if is_uri(workspace.dataset_uri) else os.path.normpath(workspace.dataset_uri)
    return workspace.directory if dataset == workspace.directory else dataset


# --- Settings for the lifetime of a ref, as ``branch`` and ``tag`` take them


def settings_of(given: Mapping[str, Any], tag: bool = False) -> dict[str, Any]:
    """The settings among the given options."""
    return {name: given[name] for name in (TAG_SETTINGS if tag else SETTINGS) if given.get(name) is not None}


def check_altered(settings: Mapping[str, Any], unset: tuple[str, ...]) -> None:
    """Raise InvalidOption if ``--alter`` has no setting."""
    if not settings and not unset:
        raise InvalidOption(
            "There is nothing to alter.", hint="Give --expire-after 30d, --owner TEXT or --unset SETTING."
        )


def note_both(session: Session, name: str) -> None:
    """Say that a name is that of a branch and of a tag from now on, and how each is written; nothing else."""
    if read_branch(session.location, name) is not None and read_tag(session.location, name) is not None:
        heads, tags = explicit_spelling("branch", name), explicit_spelling("tag", name)
        session.output.note(f"'{name}' is both a branch and a tag now: write {heads} or {tags} from now on.")


def told(lifetime: Lifetime) -> str:
    """The settings in words for the end of a sentence; "" if nothing is set."""
    return f": {lifetime}" if str(lifetime) else ""


# --- Finding the remote

FORGOTTEN = (
    "Its common versions with your branches are forgotten: after the next fetch, no pull or push can combine them."
)
"""The loss that comes with deleting a branch that follows a remote's."""


def find_remote(session: Session, typed: str | None) -> Remote:
    """The remote with a name or URI; by default origin, or the only remote.

    Without a workspace, the remotes are those that branches of the dataset follow. Raises NotFound, InvalidOption.
    """
    from lance_spark.remotes.fetch import Remote  # slow imports, which a short answer does not need

    known = known_here(session)
    name = _default(session, known) if typed is None else typed
    if name in known:
        return Remote(name, session.at(known[name]))
    if not _is_place(name):
        raise _absent(session, name, known)
    location = session.at(name)
    for other, uri in known.items():
        if session.at(uri).uri == location.uri:
            return Remote(other, location)
    raise _unknown_place(session, name, known)


def known_here(session: Session) -> Mapping[str, str]:
    """URIs of the remotes by name: the workspace's or, without one, those that branches of the dataset follow."""
    if not session.has_workspace:
        return known_remotes(read_refs(session.location))
    return {name: session.workspace.remote_uri(name) for name in session.workspace.workspace.remotes}


def _default(session: Session, known: Mapping[str, str]) -> str:
    if ORIGIN in known:
        return ORIGIN
    if len(known) > 1:
        raise InvalidOption("There is more than one remote.", hint=f"Name one of {', '.join(sorted(known))}.")
    if not known:
        raise NotFound("There is no remote.", hint=_how_to_add(session))
    return next(iter(known))


def _absent(session: Session, name: str, known: Mapping[str, str]) -> NotFound:
    if not known:
        return NotFound(f"There is no remote '{name}'.", hint=_how_to_add(session))
    branches = read_refs(session.location).branches
    if name == MAIN or any(branch in branches for branch in (name, *(f"{remote}/{name}" for remote in known))):
        first = ORIGIN if ORIGIN in known else min(known)
        return NotFound(f"There is no remote '{name}', only a branch.", hint=f"Name the remote first: {first} {name}.")
    return NotFound(f"There is no remote '{name}'.", hint=f"Remotes here: {', '.join(sorted(known))}.")


def _unknown_place(session: Session, name: str, known: Mapping[str, str]) -> NotFound:
    remote, _, branch = name.partition("/")
    if remote in known:
        return NotFound(f"There is no remote '{name}'.", hint=f"Put a space between the two: {remote} {branch}.")
    return NotFound(f"No remote of this dataset is at '{name}'.", hint=_how_to_add(session))


def _how_to_add(session: Session) -> str:
    if session.has_workspace:
        return "Add one with: lance-git remote add NAME URI."
    how = session.how_to_init if session.dataset is None else "leave --dataset out where there is one"
    return f"Without a workspace, only places that were fetched from are known; {how}."


def _is_place(text: str) -> bool:
    return "/" in text or text.startswith(".")
