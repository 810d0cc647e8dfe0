"""Branches, tags and versions as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from lance_spark.refs.lifetime import Lifetime, read_lifetime
from lance_spark.refs.names import MAIN
from lance_spark.show.card import Card, Shown
from lance_spark.show.words import moment

ROOT = "lance_spark.root"
"""Key in the metadata of a branch that shares nothing with the one it was created from: its first own version replaced
the whole table."""


@dataclass(frozen=True, repr=False)
class Branch(Shown):
    """One branch, as its ref file describes it."""

    name: str
    parent_branch: str | None
    """Branch it was created from; None for main."""
    parent_version: int
    created_at: datetime
    """Time of creation, UTC, whole seconds."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    identity: str = ""
    """Tells the branch from a later one of the same name, and from main, which has no identity. If an older writer did
    not record it, it is made from the name and the time of creation."""

    @property
    def lifetime(self) -> Lifetime:
        """How long it lives, who owns it, whether it is protected."""
        return read_lifetime(self.metadata)

    @property
    def fork(self) -> PinnedVersion | None:
        """The version that it descends from; None for a branch that shares nothing with the one it was created from."""
        return None if ROOT in self.metadata else PinnedVersion(self.parent_branch, self.parent_version)

    @property
    def row(self) -> tuple[str, str, str]:
        """Its row in a table of branches: name, the version it was made from, when."""
        return self.name, f"{self.parent_branch or MAIN}@{self.parent_version}", moment(self.created_at)

    def _card(self) -> Card:
        name, origin, created = self.row
        facts = (("made from", origin), ("made", created), ("lifetime", str(self.lifetime)))
        return Card(type(self).__name__, name, f"from {origin}, made {created}", facts)


@dataclass(frozen=True, repr=False)
class Tag(Shown):
    """One tag, as its ref file describes it."""

    name: str
    branch: str | None
    """Branch of the tagged version; None for main."""
    version: int
    created_at: datetime | None = None
    """Time of creation, UTC; None where an older writer did not record it."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    changed_at: datetime | None = None
    """When it was put where it is, UTC; None where that is not recorded, or cannot be understood."""

    @property
    def lifetime(self) -> Lifetime:
        """How long it lives, and who owns it."""
        return read_lifetime(self.metadata)

    @property
    def target(self) -> PinnedVersion:
        """The tagged version."""
        return PinnedVersion(self.branch, self.version)

    @property
    def row(self) -> tuple[str, str, str]:
        """Its row in a table of tags: name, version, when it was made."""
        return self.name, f"{self.branch or MAIN}@{self.version}", moment(self.created_at) if self.created_at else ""

    def _card(self) -> Card:
        name, version, created = self.row
        made = f", made {created}" if created else ""
        facts = (("version", version), ("made", created), ("lifetime", str(self.lifetime)))
        return Card(type(self).__name__, name, f"at {version}{made}", facts)


@dataclass(frozen=True)
class RefTable:
    """All refs of a dataset as seen at one moment."""

    branches: Mapping[str, Branch]
    tags: Mapping[str, Tag]
    main: Lifetime = field(default_factory=Lifetime)
    """What is said of main, where that was looked up."""


@dataclass(frozen=True)
class RefSpec:
    """What the user asked for. At most one of ``tag`` and the other three is set; checked where it is parsed."""

    branch: str | None = None
    tag: str | None = None
    version: int | None = None
    as_of: datetime | None = None


@dataclass(frozen=True)
class PinnedVersion:
    """One immutable version: what every executor opens."""

    branch: str | None
    """None for main."""
    version: int
    stamp: int | None = None
    """Commit time in nanoseconds since the epoch, as in the manifest. It tells this version from one of the same
    number in a dataset that was deleted and created again at the same place. None if it is not known."""

    @property
    def reference(self) -> tuple[str, int]:
        """(branch, version) as pylance takes it."""
        return self.branch or MAIN, self.version

    def __str__(self) -> str:
        """``branch@version``."""
        return f"{self.branch or MAIN}@{self.version}"


@dataclass(frozen=True)
class VersionInfo:
    """One version in a branch's history."""

    version: int
    timestamp: datetime
    """Commit time from the manifest, UTC."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """pylance's summary, e.g. ``total_rows`` and ``total_data_files``, as text."""
