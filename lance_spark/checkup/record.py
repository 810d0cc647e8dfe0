"""What a repair writes down before it changes anything, so that it can be taken back. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from lance_spark.checkup.repair_steps import Digest, LeaveOut, MendIndexes, Quarantine, RestoreRef, Step, SuspectFile
from lance_spark.errors import CorruptData
from lance_spark.layout.names import QUARANTINE

RECORD = "record.json"
PROPERTY = "lance_spark.repair"
"""Property of the versions that a repair commits: the id of its record."""
_FORMAT = 1


@dataclass(frozen=True)
class Kept:
    """A file that a repair moves or replaces, and where it keeps it."""

    file: Digest
    to: str
    """Relative to the dataset."""
    why: str
    """Code of the finding."""


@dataclass(frozen=True)
class RepairRecord:
    """One repair."""

    id: str
    dataset: str
    made: str
    """When, as ISO 8601 in UTC."""
    software: str
    """Name and version of what made it."""
    steps: tuple[Step, ...]

    @property
    def directory(self) -> str:
        """Where it is, relative to the dataset."""
        return f"{QUARANTINE}/{self.id}"

    @property
    def path(self) -> str:
        """The file itself."""
        return f"{self.directory}/{RECORD}"

    def kept(self) -> Iterator[Kept]:
        """All files that it moves or replaces."""
        files = ((file, step.why) for step in self.steps for file in moved_by(step))
        for number, (file, why) in enumerate(files):
            yield Kept(file, f"{self.directory}/{number}-{file.path.rpartition('/')[2]}", why)

    def kept_by(self, step: Step) -> list[Kept]:
        """Those of one step."""
        paths = {file.path for file in moved_by(step)}
        return [kept for kept in self.kept() if kept.file.path in paths]

    def to_json(self) -> str:
        """As it is stored."""
        files = [{**asdict(kept.file), "to": kept.to, "why": kept.why} for kept in self.kept()]
        named = {name: getattr(self, name) for name in ("id", "dataset", "made", "software")}
        steps = [{**asdict(step), "says": str(step)} for step in self.steps]
        return json.dumps({"format": _FORMAT, **named, "files": files, "steps": steps}, indent=2)


def moved_by(step: Step) -> Sequence[Digest]:
    """The files that a step moves or replaces."""
    if isinstance(step, Quarantine):
        return step.files
    return (step.before,) if isinstance(step, RestoreRef) and step.before is not None else ()


def read_record(content: bytes) -> RepairRecord:
    """A record as it was stored. Raises CorruptData."""
    try:
        said = json.loads(content)
        if said["format"] != _FORMAT:
            raise CorruptData(
                f"The record of a repair has the format {said['format']}.", hint="Use the newer version that wrote it."
            )
        steps = tuple(_step(step) for step in said["steps"])
        return RepairRecord(said["id"], said["dataset"], said["made"], said["software"], steps)
    except (ValueError, KeyError, TypeError) as problem:
        raise CorruptData(
            f"The record of a repair cannot be understood: {problem}.", hint="The files beside it are untouched."
        ) from None


def _step(said: dict[str, Any]) -> Step:
    kind = said["kind"]
    if kind == RestoreRef.kind:
        before = None if said["before"] is None else Digest(**said["before"])
        return RestoreRef(said["path"], said["content"], "", before, said["why"])
    if kind == Quarantine.kind:
        files = tuple(Digest(**file) for file in said["files"])
        return Quarantine(files, "", said["why"], said["branch"], said["newest"])
    if kind == MendIndexes.kind:
        moved = tuple((uuid, base) for uuid, base in said["moved"])
        return MendIndexes(said["branch"], said["version"], moved, tuple(said["dropped"]), tuple(said["names"]))
    if kind != LeaveOut.kind:
        raise ValueError(f"there is no step '{kind}'")
    files_left = tuple(SuspectFile(**file) for file in said["files"])
    fragments = tuple(said["fragments"])
    return LeaveOut(said["branch"], said["version"], said["onto"], fragments, files_left, said["rows"], said["why"])
