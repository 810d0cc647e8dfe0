"""What every verb starts from: the dataset, the current branch, the workspace if there is one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from lance_spark.actions.expressions import resolve_expression
from lance_spark.actions.place import dataset_at
from lance_spark.actions.remotes.naming import ORIGIN, check_own
from lance_spark.cli.call import Call
from lance_spark.errors import InvalidOption, NotFound, Refused
from lance_spark.location import DatasetLocation
from lance_spark.refs.expressions import HEAD
from lance_spark.refs.model import PinnedVersion
from lance_spark.refs.names import MAIN, branch_or_none
from lance_spark.store.workspace import OpenWorkspace, find_workspace
from lance_spark.workspace.model import check_uri


@dataclass(frozen=True)
class Session(Call):
    """One call of ``lance-git``. The workspace and the dataset are looked up when a verb first asks for them."""

    dataset: str | None = None
    """``--dataset``: a URI or path; then the workspace does not count."""
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)
    """``--storage``. Values may be secrets; they are never stored."""

    @cached_property
    def workspace(self) -> OpenWorkspace:
        """The workspace of this directory. Raises NotFound without one, InvalidOption beside ``--dataset``."""
        if self.dataset is not None:
            raise InvalidOption(
                "This needs a workspace, and --dataset works without one.", hint="Leave --dataset out, or use -C DIR."
            )
        found = find_workspace(os.curdir)
        if found is None:
            raise NotFound(
                "There is no workspace here, nor in a directory above.",
                hint="Make one with lance-git init or clone, go to one with -C DIR, or name a dataset with "
                "--dataset URI.",
            )
        if found.workspace.cloning is not None:
            raise Refused(
                f"The clone in {found.directory} is not finished.",
                hint=f"Finish it: lance-git clone {_source(found)} {_target(found)}",
            )
        return found

    @cached_property
    def location(self) -> DatasetLocation:
        """The dataset. Raises NotFound without a workspace; nothing is asked of the store yet."""
        uri = self.workspace.dataset_uri if self.dataset is None else self.dataset
        return self.at(uri)

    @property
    def branch(self) -> str | None:
        """The current branch, None for main. Without a workspace that is main."""
        return branch_or_none(MAIN if self.dataset is not None else self.workspace.workspace.branch)

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
        """The version a ref names; HEAD where none was given."""
        return resolve_expression(self.location, HEAD if ref is None else ref, self.branch)


def _source(found: OpenWorkspace) -> str:
    return found.remote_uri(ORIGIN) if ORIGIN in found.workspace.remotes else "SRC"


def _target(found: OpenWorkspace) -> str:
    dataset = os.path.normpath(found.dataset_uri) if "://" not in found.dataset_uri else found.dataset_uri
    return found.directory if dataset == found.directory else dataset
