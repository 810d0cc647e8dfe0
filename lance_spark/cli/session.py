"""What every verb starts from: the dataset, the current branch, the workspace if there is one."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from lance_spark.actions.expressions import resolve_expression
from lance_spark.actions.sync.write_guards import ORIGIN, check_own
from lance_spark.actions.target import dataset_at, located
from lance_spark.actions.workspace import find_here
from lance_spark.cli.call import CommandCall
from lance_spark.errors import InvalidOption, NotFound, Refused
from lance_spark.location import DatasetLocation, is_uri
from lance_spark.refs.expressions import HEAD
from lance_spark.refs.model import PinnedVersion
from lance_spark.refs.names import MAIN, branch_or_none
from lance_spark.workspace.model import check_uri
from lance_spark.workspace.place import OpenWorkspace, PlainDataset


@dataclass(frozen=True)
class Session(CommandCall):
    """One call of ``lance-git``. The workspace and the dataset are looked up when a verb first asks for them."""

    dataset: str | None = None
    """``--dataset``, or a URI after ``-C``: a URI or path; then workspaces are ignored."""
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)
    """``--storage``. Values may be secrets; they are never stored."""
    moved: bool = False
    """Whether ``-C`` named another directory than the current one of the user's shell."""

    @cached_property
    def _here(self) -> OpenWorkspace | PlainDataset:
        """What the directory belongs to, without ``--dataset``. Raises NotFound if it belongs to nothing."""
        here = find_here(os.curdir)
        if here is None:
            raise NotFound(
                "There is no workspace here, nor in a directory above, and this is no dataset's directory.",
                hint="Go to a dataset's directory, or name a dataset: lance-git -C s3://bucket/flights.lance log. "
                "lance-git init and lance-git clone make a workspace.",
            )
        if isinstance(here, OpenWorkspace):
            check_finished(here)
        return here

    @property
    def has_workspace(self) -> bool:
        """Whether there is a workspace, with a current branch that can change, and with remotes. Raises as location."""
        return self.dataset is None and isinstance(self._here, OpenWorkspace)

    @property
    def workspace(self) -> OpenWorkspace:
        """The workspace of this directory. Raises NotFound without one, InvalidOption beside ``--dataset``."""
        if self.dataset is not None:
            check_uri(self.dataset)  # the hint has it in clear
            raise InvalidOption(
                "This needs a workspace, and a dataset named by --dataset or by -C URI has none.",
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
        """The command that makes a workspace for a dataset without one, to begin a sentence with."""
        plain = located(self._here_uri if self.dataset is None else self.dataset).uri
        if not self.moved and plain == os.path.realpath(os.curdir):
            return "lance-git init . makes a workspace here"
        return f"lance-git init {shlex.quote(plain)} makes a workspace for it"

    @property
    def _here_uri(self) -> str:
        return self._here.dataset_uri if isinstance(self._here, OpenWorkspace) else self._here.uri

    @cached_property
    def location(self) -> DatasetLocation:
        """The dataset. Raises NotFound if none was named; no request is sent to the store yet."""
        return self.at(self._here_uri if self.dataset is None else self.dataset)

    @property
    def branch(self) -> str | None:
        """The current branch, None for main.

        Without a workspace it is main, or the branch whose directory, ``tree/<branch>``, the user is in.
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
        """The current branch, to write to. Raises Refused for one that follows a remote's."""
        check_own(self.location, self.branch)
        return self.branch

    def at(self, uri: str) -> DatasetLocation:
        """Another dataset, opened with the same storage options."""
        check_uri(uri)
        return dataset_at(uri, self.storage)

    def resolve(self, ref: str | None) -> PinnedVersion:
        """The version that a ref names; without a ref that of HEAD."""
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
