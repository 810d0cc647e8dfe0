"""Branches, tags and versions as plain values, and the choice of a version. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import TypeVar

from lance_spark.core.lifetimes import Lifetime, read_lifetime
from lance_spark.core.show import Card, Shown
from lance_spark.core.texts import moment
from lance_spark.core.words import OF_A_BRANCH, OF_A_TAG
from lance_spark.errors import NotFound

MAIN = "main"
"""Name of the main branch in all input and output; internally, and in pylance, it is None."""


_Ref = TypeVar("_Ref")

ROOT = "lance_spark.root"
"""Key in the metadata of a branch that shares nothing with its source: its first own version replaced the whole
table."""


@dataclass(frozen=True, repr=False)
class Branch(Shown):
    _words = OF_A_BRANCH
    name: str
    parent_branch: str | None
    """Branch that it was created from; None for main."""
    parent_version: int
    created_at: datetime
    """Time of creation, UTC, whole seconds."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    identity: str = ""
    """Distinguishes the branch from a later one of the same name, and from main, which has no identity. If an older
    writer did not record it, it is derived from the name and the time of creation."""
    discarded: str | None = field(default=None, compare=False)
    """Of a branch just created: the newest version of a deleted one of its name, which can no longer be restored."""

    @property
    def lifetime(self) -> Lifetime:
        return read_lifetime(self.metadata)

    @property
    def fork(self) -> PinnedVersion | None:
        """The version that it descends from; None for a branch that shares nothing with its source."""
        return None if ROOT in self.metadata else PinnedVersion(self.parent_branch, self.parent_version)

    @property
    def row(self) -> tuple[str, str, str]:
        """Its row in a table of branches: name, source version, time of creation."""
        return self.name, f"{self.parent_branch or MAIN}@{self.parent_version}", moment(self.created_at)

    def _card(self) -> Card:
        name, origin, created = self.row
        discarded = "" if self.discarded is None else f"a deleted branch of its name, at {self.discarded}"
        facts = (("made from", origin), ("made", created), ("lifetime", str(self.lifetime)), ("discarded", discarded))
        return Card(type(self).__name__, name, f"from {origin}, made {created}", facts)


@dataclass(frozen=True, repr=False)
class Tag(Shown):
    _words = OF_A_TAG
    name: str
    branch: str | None
    """Branch of the tagged version; None for main."""
    version: int
    created_at: datetime | None = None
    """Time of creation, UTC; None if an older writer did not record it."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    changed_at: datetime | None = None
    """When it was last placed, UTC; None if that is not recorded, or cannot be parsed."""

    @property
    def lifetime(self) -> Lifetime:
        return read_lifetime(self.metadata)

    @property
    def target(self) -> PinnedVersion:
        return PinnedVersion(self.branch, self.version)

    @property
    def row(self) -> tuple[str, str, str]:
        """Its row in a table of tags: name, version, time of creation."""
        return self.name, f"{self.branch or MAIN}@{self.version}", moment(self.created_at) if self.created_at else ""

    def _card(self) -> Card:
        name, version, created = self.row
        made = f", made {created}" if created else ""
        facts = (("version", version), ("made", created), ("lifetime", str(self.lifetime)))
        return Card(type(self).__name__, name, f"at {version}{made}", facts)


def _grouped(refs: Iterable[_Ref], branch_of: Callable[[_Ref], str | None]) -> dict[str | None, list[_Ref]]:
    found: dict[str | None, list[_Ref]] = {}
    for ref in refs:
        found.setdefault(branch_of(ref), []).append(ref)
    return found


@dataclass(frozen=True)
class RefTable:
    """All refs of a dataset as seen at one moment."""

    branches: Mapping[str, Branch]
    tags: Mapping[str, Tag]
    main: Lifetime = field(default_factory=Lifetime)
    """Main's settings, if they were looked up."""

    # What is asked for each branch is found once for all: a search through all refs for each of ten thousand branches
    # takes minutes.

    @cached_property
    def tags_on(self) -> Mapping[str | None, Sequence[Tag]]:
        """The tags by the branch of their versions, None for main; a branch without any is absent."""
        return _grouped(self.tags.values(), lambda tag: tag.branch)

    @cached_property
    def created_from(self) -> Mapping[str | None, Sequence[Branch]]:
        """The branches by their parent, None for main; a branch that is nobody's parent is absent."""
        return _grouped(self.branches.values(), lambda branch: branch.parent_branch)

    @cached_property
    def _names(self) -> list[str]:
        return sorted(self.branches)

    def branches_below(self, name: str) -> list[str]:
        """The branches whose names begin with a name and a slash, sorted."""
        first = bisect_left(self._names, f"{name}/")
        return self._names[first : bisect_left(self._names, f"{name}0", first)]  # "0" comes right after the slash


@dataclass(frozen=True)
class RefSpec:
    """The user's choice of a ref. At most one of ``tag`` and the other three is set; the parser checks that."""

    branch: str | None = None
    tag: str | None = None
    version: int | None = None
    as_of: datetime | None = None
    begins: Beginning | None = None
    """For a branch that does not exist before its first change; None for all others."""

    @property
    def is_branch(self) -> bool:
        """Whether it means the newest version of a branch."""
        return self == RefSpec(branch=self.branch, begins=self.begins)


@dataclass(frozen=True)
class Beginning:
    """Where a table's branch begins, which is created by the first change on a branch of the lake."""

    version: int
    """Main's version that is read before; 0 for main's newest one."""
    catalog: str
    """The catalog's root."""
    lake_branch: str
    lake_id: str
    """Distinguishes that branch of the lake from an earlier one of its name."""
    table: tuple[str, ...]
    """The parts of the table's name there."""


@dataclass(frozen=True)
class PinnedVersion:
    """One immutable version, which every executor opens."""

    branch: str | None
    """None for main."""
    version: int
    stamp: int | None = None
    """Commit time in nanoseconds since the epoch, as in the manifest. It distinguishes this version from one of the
    same number in a dataset that was deleted and recreated at the same place. None if unknown."""

    @property
    def reference(self) -> tuple[str, int]:
        """(branch, version) in pylance's form."""
        return self.branch or MAIN, self.version

    def __str__(self) -> str:
        """``branch@version``."""
        return f"{self.branch or MAIN}@{self.version}"


@dataclass(frozen=True)
class VersionInfo:
    version: int
    timestamp: datetime
    """Commit time from the manifest, UTC."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """pylance's summary, e.g. ``total_rows`` and ``total_data_files``, as text."""


# --- Choosing a version, and suggesting the nearest ones


def newest_at(versions: Sequence[VersionInfo], moment: datetime, branch: str | None) -> int:
    """Number of the newest version committed at or before the moment.

    The highest number wins, not the latest timestamp: writers' clocks differ, but numbers always ascend.
    Raises NotFound if every version is younger.
    """
    candidates = [info.version for info in versions if info.timestamp <= moment]
    if not candidates:
        oldest = min((info.timestamp for info in versions), default=None)
        raise NotFound(
            f"Branch '{branch or MAIN}' has no version at or before {moment.isoformat()}.",
            hint=f"Its oldest version is from {oldest.isoformat()}." if oldest else None,
        )
    return max(candidates)
