"""What a command works on in the current directory: a workspace, or a dataset without one."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lance_spark.location import is_uri

if TYPE_CHECKING:
    from lance_spark.workspace.model import Workspace


@dataclass(frozen=True)
class OpenWorkspace:
    """A workspace and where it is."""

    directory: str
    """Absolute path of the directory that holds ``.lance-git``."""
    workspace: Workspace

    @property
    def dataset_uri(self) -> str:
        """URI or absolute path of the dataset."""
        return absolute(self.workspace.dataset, self.directory)

    def remote_uri(self, name: str) -> str:
        """URI or absolute path of one of the workspace's remotes."""
        return absolute(self.workspace.remotes[name].uri, self.directory)


@dataclass(frozen=True)
class PlainDataset:
    """A dataset on a local disk that was found by its directory, not by a workspace."""

    uri: str
    """Real path of the dataset's root."""
    branch: str | None = None
    """The branch whose directory it was found from, by its name; None outside of ``tree/``."""


def absolute(uri: str, directory: str) -> str:
    """A path relative to a directory; URIs and absolute paths as they are."""
    return uri if is_uri(uri) else posixpath.join(directory, uri)
