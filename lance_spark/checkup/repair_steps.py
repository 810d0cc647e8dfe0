"""The steps of a repair, as values. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from lance_spark.checkup import codes
from lance_spark.refs.names import MAIN
from lance_spark.show.words import counted

PREFIX = "repair/"
"""How the branches are called on which a repair commits versions without what cannot be read."""


@dataclass(frozen=True)
class SuspectFile:
    """A file that the newest version of a branch names, and what the version says of it."""

    path: str
    """As a finding has it."""
    kind: str
    size: int
    """Bytes; 0 for unknown."""
    rows: int
    """Of the fragment; 0 for unknown."""
    deleted: int | None = None
    """How many rows a deletion file deletes."""


@dataclass(frozen=True)
class Digest:
    """A file as it was when the plan was made."""

    path: str
    """Relative to the dataset."""
    size: int
    sha256: str


@dataclass(frozen=True)
class RestoreRef:
    """Write the ref file of a branch or tag again; what is there of it is kept."""

    path: str
    content: str
    says: str
    before: Digest | None
    """The damaged file; None if there is none."""
    why: str = codes.REF_DAMAGED
    kind: str = "restore-ref"

    def __str__(self) -> str:
        """The step in words."""
        return f"write {self.path} again, from {self.says}"


@dataclass(frozen=True)
class Quarantine:
    """Move files away that keep others from being used."""

    files: tuple[Digest, ...]
    says: str
    why: str
    branch: str | None = None
    newest: bool = False
    """Whether that makes an older version the newest one of the branch."""
    kind: str = "quarantine"

    @property
    def path(self) -> str:
        """The first file."""
        return self.files[0].path

    def __str__(self) -> str:
        """The step in words."""
        return f"move {self.path} to the quarantine: {self.says}"


@dataclass(frozen=True)
class MendIndexes:
    """Commit a version in which segments of indexes are found where their files are, or are not named any more."""

    branch: str | None
    version: int
    moved: tuple[tuple[str, int | None], ...] = ()
    """Segment, and the base that has its files; None for the branch itself."""
    dropped: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    why: str = codes.INDEX_MISSING
    kind: str = "mend-indexes"

    @property
    def path(self) -> str:
        """The branch."""
        return self.branch or MAIN

    def __str__(self) -> str:
        """The step in words."""
        done = [f"register {counted(len(self.moved), 'segment')} where the files are"] if self.moved else []
        done += [f"drop {counted(len(self.dropped), 'segment')}"] if self.dropped else []
        return f"{' and '.join(done)} of {', '.join(self.names)} on '{self.path}'; no row changes"


@dataclass(frozen=True)
class LeaveOut:
    """Commit a version without the fragments that cannot be read."""

    branch: str | None
    """Whose newest version is taken."""
    version: int
    onto: str | None
    """Where it is committed: a new branch, or the branch itself."""
    fragments: tuple[int, ...]
    files: tuple[SuspectFile, ...]
    rows: int
    """How many rows are lost, deleted ones among them."""
    why: str = codes.DATA_MISSING
    kind: str = "leave-out"

    @property
    def path(self) -> str:
        """The branch that the version is committed to."""
        return self.onto or MAIN

    @property
    def makes_branch(self) -> bool:
        """Whether the branch is made for it."""
        return self.onto != self.branch

    def __str__(self) -> str:
        """The step in words."""
        where = f"make branch '{self.path}' from" if self.makes_branch else "commit a version of"
        return (
            f"{where} '{self.branch or MAIN}' without {counted(len(self.fragments), 'fragment')} that cannot be read: "
            f"{self.rows:,} rows are not in it"
        )


Step: TypeAlias = RestoreRef | Quarantine | MendIndexes | LeaveOut
