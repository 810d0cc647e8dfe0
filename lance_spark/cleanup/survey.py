"""What a repository looked like at one moment: its chains of versions and its refs, as plain values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from lance_spark.location import DatasetLocation
from lance_spark.refs.model import RefTable
from lance_spark.refs.names import MAIN
from lance_spark.refs.reflog import RefChange


class VersionFile(NamedTuple):
    """One manifest, as a listing shows it. A tuple: there may be very many, and they are compared again and again."""

    version: int
    name: str
    """File name in ``_versions``."""
    size: int
    """Bytes."""
    modified_ns: int
    """Last-modified time, nanoseconds since the epoch, by the store's clock."""


@dataclass(frozen=True)
class Chain:
    """One root with versions: main, a branch, or a branch's directory whose ref is gone."""

    repository: int
    """0 for the dataset that is cleaned, others for clones: index into ``Survey.repositories``."""
    root: str
    """Relative to the repository: "" for main, ``tree/<branch>`` for a branch."""
    branch: str | None
    """None for main."""
    has_ref: bool
    """False for a directory below ``tree/`` without a ref: a branch in the making, or what a deleted one left."""
    versions: tuple[VersionFile, ...]
    """Ascending by version."""
    detached: tuple[VersionFile, ...] = ()
    noted: int = field(default=0, compare=False)
    """The newest version that was noted down before the manifests were listed, or 0. pylance does so on local disks."""

    @property
    def files(self) -> tuple[VersionFile, ...]:
        """All manifests; the index of a manifest is its *position*, which marks refer to."""
        return self.versions + self.detached

    @property
    def name(self) -> str:
        """The branch's name as users know it."""
        return self.branch or MAIN

    def path(self, manifest: VersionFile) -> str:
        """Path of a manifest relative to the repository."""
        return join(self.root, f"_versions/{manifest.name}")


class Quarantined(NamedTuple):
    """A manifest that a repair moved away, and that can be put back: nobody can tell which files it names."""

    branch: str | None
    """None for main."""
    at_ns: int
    """When, nanoseconds since the epoch."""


@dataclass(frozen=True)
class Survey:
    """The dataset that is cleaned, and the clones of it, before anything else is read."""

    repositories: tuple[DatasetLocation, ...]
    chains: tuple[Chain, ...]
    refs: RefTable
    """Of the dataset that is cleaned."""
    recorded_clones: Mapping[str, str] = field(default_factory=dict)
    """Tag that protects a cloned version, to the clone's URI."""
    changes: tuple[RefChange, ...] = ()
    """Changes of refs that are recorded: what they need to be taken back stays for a while."""
    quarantined: tuple[Quarantined, ...] = ()
    """So do files that manifests in the quarantine may name."""

    @property
    def location(self) -> DatasetLocation:
        """The dataset that is cleaned."""
        return self.repositories[0]

    @property
    def branch_names(self) -> tuple[str, ...]:
        """The branch of every chain, as users know it."""
        return tuple(chain.name for chain in self.chains)

    @property
    def branches(self) -> tuple[str | None, ...]:
        """Main, which is None, and the other branches of the dataset that have a ref."""
        return tuple(chain.branch for _, chain in self.owned() if chain.has_ref)

    def owned(self) -> Iterator[tuple[int, Chain]]:
        """The chains of the dataset itself with their index; files are deleted only there."""
        return ((index, chain) for index, chain in enumerate(self.chains) if chain.repository == 0)


def join(root: str, path: str) -> str:
    """A path below a root; the root may be ""."""
    return f"{root}/{path}" if root else path
