"""The steps of a repair, and the record that undoes it, as plain values. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TypeAlias

from lance_spark.core.layout import QUARANTINE
from lance_spark.core.records import finding_codes
from lance_spark.core.records.stored_json import UNREADABLE, decode_json, read_as
from lance_spark.core.refs import MAIN
from lance_spark.core.texts import counted
from lance_spark.errors import CorruptData

PREFIX = "repair/"
"""Prefix of the branches where a repair commits versions without the unreadable parts."""


@dataclass(frozen=True)
class SuspectFile:
    """A file that the newest version of a branch names, with the facts that the version records."""

    path: str
    """The path as a finding reports it."""
    kind: str
    size: int
    """Bytes; 0 for unknown."""
    rows: int
    """Of the fragment; 0 for unknown."""
    deleted: int | None = None
    """How many rows a deletion file deletes."""


@dataclass(frozen=True)
class Digest:
    path: str
    """Relative to the dataset."""
    size: int
    sha256: str


@dataclass(frozen=True)
class RestoreRef:
    """Rewrite the ref file of a branch or tag; the existing file is kept."""

    path: str
    content: str
    says: str
    before: Digest | None
    """The damaged file; None if there is none."""
    why: str = finding_codes.REF_DAMAGED
    kind: str = "restore-ref"

    def __str__(self) -> str:
        return f"write {self.path} again, from {self.says}"


@dataclass(frozen=True)
class Quarantine:
    """Move away files that block others from being used."""

    files: tuple[Digest, ...]
    says: str
    why: str
    branch: str | None = None
    newest: bool = False
    """Whether this makes an older version the newest one of the branch."""
    kind: str = "quarantine"

    @property
    def path(self) -> str:
        return self.files[0].path

    def __str__(self) -> str:
        return f"move {self.path} to the quarantine: {self.says}"


@dataclass(frozen=True)
class MendIndexes:
    """Commit a version whose index segments point to their actual place, or are dropped."""

    branch: str | None
    version: int
    moved: tuple[tuple[str, int | None], ...] = ()
    """Segment, and the base that holds its files; None for the branch itself."""
    dropped: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    why: str = finding_codes.INDEX_MISSING
    kind: str = "mend-indexes"

    @property
    def path(self) -> str:
        return self.branch or MAIN

    def __str__(self) -> str:
        done = [f"register {counted(len(self.moved), 'segment')} where the files are"] if self.moved else []
        done += [f"drop {counted(len(self.dropped), 'segment')}"] if self.dropped else []
        return f"{' and '.join(done)} of {', '.join(self.names)} on '{self.path}'; no row changes"


@dataclass(frozen=True)
class LeaveOut:
    """Commit a version without the unreadable fragments."""

    branch: str | None
    """The branch whose newest version is the source."""
    version: int
    onto: str | None
    """The target branch: a new branch, or the branch itself."""
    fragments: tuple[int, ...]
    files: tuple[SuspectFile, ...]
    rows: int
    """How many rows are lost, including deleted ones."""
    why: str = finding_codes.DATA_MISSING
    kind: str = "leave-out"

    @property
    def path(self) -> str:
        """The branch that gets the version."""
        return self.onto or MAIN

    @property
    def makes_branch(self) -> bool:
        return self.onto != self.branch

    def __str__(self) -> str:
        where = f"make branch '{self.path}' from" if self.makes_branch else "commit a version of"
        return (
            f"{where} '{self.branch or MAIN}' without {counted(len(self.fragments), 'fragment')} that cannot be read: "
            f"{self.rows:,} rows are not in it"
        )


Step: TypeAlias = RestoreRef | Quarantine | MendIndexes | LeaveOut


# --- The record of a repair, written before any change so that the repair can be undone

RECORD = "record.json"
PROPERTY = "lance_spark.repair"
"""Property of the versions that a repair commits: the id of the repair's record."""
_FORMAT = 1


@dataclass(frozen=True)
class Kept:
    """A file that a repair moves or replaces, and the place of its copy."""

    file: Digest
    to: str
    """Relative to the dataset."""
    why: str
    """Code of the finding."""


@dataclass(frozen=True)
class RepairRecord:
    id: str
    dataset: str
    made: str
    """When, as ISO 8601 in UTC."""
    software: str
    """Name and version of the program that made it."""
    steps: tuple[Step, ...]

    @property
    def directory(self) -> str:
        return f"{QUARANTINE}/{self.id}"

    @property
    def path(self) -> str:
        return f"{self.directory}/{RECORD}"

    def kept(self) -> Iterator[Kept]:
        """All files that the repair moves or replaces."""
        files = ((file, step.why) for step in self.steps for file in moved_by(step))
        for number, (file, why) in enumerate(files):
            yield Kept(file, f"{self.directory}/{number}-{file.path.rpartition('/')[2]}", why)

    def kept_by(self, step: Step) -> list[Kept]:
        paths = {file.path for file in moved_by(step)}
        return [kept for kept in self.kept() if kept.file.path in paths]

    def to_json(self) -> str:
        files = [{**asdict(kept.file), "to": kept.to, "why": kept.why} for kept in self.kept()]
        named = {name: getattr(self, name) for name in ("id", "dataset", "made", "software")}
        steps = [{**asdict(step), "says": str(step)} for step in self.steps]
        return json.dumps({"format": _FORMAT, **named, "files": files, "steps": steps}, indent=2)


def moved_by(step: Step) -> Sequence[Digest]:
    if isinstance(step, Quarantine):
        return step.files
    return (step.before,) if isinstance(step, RestoreRef) and step.before is not None else ()


def read_record(content: bytes) -> RepairRecord:
    """A stored record. Raises CorruptData."""
    try:
        said = decode_json(content)
        if said["format"] != _FORMAT:
            raise CorruptData(
                f"The record of a repair has the unknown format {said['format']}.",
                hint="Use the newer version that wrote it.",
            )
        steps = [{**step, "says": ""} for step in said["steps"]]  # there it is the sentence of the step
        return read_as(RepairRecord, {**said, "steps": steps}, lenient=True)
    except UNREADABLE as problem:
        raise CorruptData(
            f"The record of a repair cannot be understood: {problem}.", hint="The files beside it are untouched."
        ) from None
