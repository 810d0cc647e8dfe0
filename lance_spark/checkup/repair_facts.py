"""What has to be looked at to plan a repair, as values. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lance_spark.checkup.repair_steps import Digest, RestoreRef, SuspectFile


@dataclass(frozen=True)
class SegmentFact:
    """A segment of an index of a newest version, one of whose files is bad."""

    uuid: str
    name: str
    path: str
    """Of the file, as the finding has it."""
    found: bool = False
    """Whether all of its files are right in another place that the version knows."""
    base: int | None = None
    """That place."""


@dataclass(frozen=True)
class LineFacts:
    """The newest version of a branch that findings hit."""

    branch: str | None
    version: int
    fragments: Mapping[int, tuple[SuspectFile, ...]] = field(default_factory=dict)
    """Fragments with bad files, and those files."""
    count: int = 0
    """How many fragments the version has."""
    segments: tuple[SegmentFact, ...] = ()
    closed: str = ""
    """Why nothing may be committed to the branch; "" if it may."""
    protected: bool = False
    """Whether it takes merges and upkeep only: indexes may be mended, but no rows be left out."""


@dataclass(frozen=True)
class ManifestFact:
    """A manifest that cannot be used."""

    file: Digest
    branch: str | None
    newest: bool
    hint: Digest | None = None
    """The note on disk that names the newest version: it goes along."""
    others: int = 0
    """How many sound versions the branch has."""


@dataclass(frozen=True)
class RepairFacts:
    """What was looked at to plan a repair."""

    refs: Mapping[str, RestoreRef | str] = field(default_factory=dict)
    """By path of the ref file: what restores it, or why nothing does."""
    lost_refs: Mapping[str, str] = field(default_factory=dict)
    """Name of a branch without a ref file that others name, to the path of that file."""
    tags: Mapping[str, str] = field(default_factory=dict)
    """Branch (``main`` too) that each tag is on."""
    manifests: Mapping[str, ManifestFact] = field(default_factory=dict)
    twins: Mapping[str, tuple[Digest, ...] | str] = field(default_factory=dict)
    """By branch: manifests that are there under another name as well; or why that is not so."""
    empty: Mapping[str, Digest | str] = field(default_factory=dict)
    """By branch without versions: its ref file if nothing at all is left of it; or why that is not so."""
    lines: tuple[LineFacts, ...] = ()
    branches: frozenset[str] = frozenset()
