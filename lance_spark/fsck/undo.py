"""Undoes a repair: all of it, or nothing if later changes are built on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from lance_spark.core.location import DatasetLocation
from lance_spark.core.records.repair_record import (
    PREFIX,
    Kept,
    LeaveOut,
    MendIndexes,
    Quarantine,
    RepairRecord,
    RestoreRef,
    Step,
)
from lance_spark.core.refs import MAIN, PinnedVersion
from lance_spark.errors import Conflict, Refused
from lance_spark.format.versions import RESTORE
from lance_spark.fsck import quarantine
from lance_spark.fsck.file_contents import RESTORED, versions_after
from lance_spark.fsck.repair_rules import (
    DONE,
    Outcome,
    RepairResult,
)
from lance_spark.refs.ref_rules import check_delete_branch
from lance_spark.refs.refs import delete_branch
from lance_spark.storage import datasets, refs
from lance_spark.storage.brought import recorded
from lance_spark.storage.commits import (
    check_nothing_missing,
    check_unprotected,
)

# Later changes of other processes are kept: the whole undo is refused then, so nothing is half undone.


@dataclass(frozen=True)
class _Undo:
    step: Step
    act: Callable[[], object]


def undo(location: DatasetLocation, name: str) -> RepairResult:
    """Undo a repair by the id of its record, or the ``last`` one, even an interrupted one.

    Restores files byte for byte. A branch that received versions gets one more, equal to the one before the repair. A
    branch that the repair created is deleted. Raises NotFound for an unknown record, and Refused if another process
    changed something since; then nothing was undone. After a crash, run it again.
    """
    record = quarantine.load_record(location, name)
    undoing = _Undoing(location, record)
    # Versions first: with a damaged manifest or ref back in place, pylance could not open what it commits to.
    undos = undoing.look_at_versions()
    undos += [undoing.look(step) for step in reversed(record.steps) if not isinstance(step, MendIndexes | LeaveOut)]
    for one in undos:
        if one is not None:
            one.act()
    quarantine.forget_record(location, record)
    taken = {id(one.step) for one in undos if one is not None}
    outcomes = (Outcome(str(step), DONE, "" if id(step) in taken else "it was never done") for step in record.steps)
    return RepairResult(record.id, tuple(outcomes), undone=True)


class _Undoing:
    def __init__(self, location: DatasetLocation, record: RepairRecord) -> None:
        self._location, self._record = location, record

    def look(self, step: Step) -> _Undo | None:
        """How to undo a step about files; None if there is nothing to do."""
        if isinstance(step, RestoreRef):
            return self._ref(step)
        if isinstance(step, Quarantine):
            return self._moved(step)
        return None

    def _ref(self, step: RestoreRef) -> _Undo | None:
        now = quarantine.look_at_file(self._location, step.path)
        if now == step.before:
            return None
        if now is None or now != quarantine.digest_of(step.path, step.content.encode()):
            raise self._refused(f"{step.path} was changed since")
        if step.before is None:
            return _Undo(step, partial(quarantine.remove, self._location, step.path))
        (kept,) = self._record.kept_by(step)
        self._check_copy(kept)
        return _Undo(step, partial(self._put_back, [kept]))

    def _moved(self, step: Quarantine) -> _Undo | None:
        back: list[Kept] = []
        for kept in self._record.kept_by(step):
            there = quarantine.look_at_file(self._location, kept.file.path)
            if there is not None and there != kept.file:
                raise self._refused(f"{kept.file.path} is now another file")
            if there is None:
                self._check_copy(kept)
                back.append(kept)
        return _Undo(step, partial(self._put_back, back)) if back else None

    def _put_back(self, back: Sequence[Kept]) -> None:
        for kept in reversed(back):
            quarantine.put_back(self._location, kept)

    def _check_copy(self, kept: Kept) -> None:
        copy = quarantine.look_at_file(self._location, kept.to)
        if copy is None or copy.sha256 != kept.file.sha256:
            raise self._refused(f"{kept.to}, the copy of {kept.file.path}, is gone or damaged")

    def look_at_versions(self) -> list[_Undo | None]:
        """How to undo commits, branch by branch."""
        before: dict[str | None, tuple[int, Step]] = {}
        made: list[_Undo | None] = []
        for step in self._record.steps:
            if isinstance(step, LeaveOut) and step.onto is not None and step.onto.startswith(PREFIX):
                made.append(self._made_branch(step))
            elif isinstance(step, LeaveOut | MendIndexes):
                branch = step.onto if isinstance(step, LeaveOut) else step.branch
                before.setdefault(branch, (step.version, step))
        return made + [self._versions(branch, version, step) for branch, (version, step) in before.items()]

    def _made_branch(self, step: LeaveOut) -> _Undo | None:
        name = str(step.onto)
        branch = refs.read_branch(self._location, name)
        if branch is None:
            return None
        others = [one for one, by in versions_after(self._location, name, branch.parent_version).items() if not by]
        if others:
            raise self._refused(f"branch '{name}' was written to since")
        check_delete_branch(refs.read_refs(self._location), name)
        return _Undo(step, partial(delete_branch, self._location, name))

    def _versions(self, branch: str | None, version: int, step: Step) -> _Undo | None:
        made = versions_after(self._location, branch, version)
        if self._record.id not in made.values() or made[max(made)] == RESTORED:
            return None  # a crash interrupted the repair before it, or an undo after it
        if set(made.values()) != {self._record.id}:
            raise self._refused(f"'{branch or MAIN}' has newer versions by others")
        head = datasets.pin_version(self._location, branch, max(made))
        before = datasets.pin_version(self._location, branch, version)
        rows = any(isinstance(one, LeaveOut) and one.onto == branch for one in self._record.steps)
        if rows:
            check_unprotected(self._location, branch)
        return _Undo(step, partial(self._restore, before, head, rows))

    def _restore(self, before: PinnedVersion, head: PinnedVersion, rows: bool) -> None:
        check_nothing_missing(self._location, head)
        if rows:
            check_unprotected(self._location, before.branch)
        restored = recorded(self._location, head, RESTORE, partial(datasets.restore, self._location, before))
        if restored != head.version + 1:
            raise Conflict(
                f"'{before.branch or MAIN}' was restored as {restored}, but another process committed first.",
                hint="Nothing is lost: check the version before it.",
            )

    def _refused(self, why: str) -> Refused:
        return Refused(
            f"Repair {self._record.id} cannot be undone: {why}. Nothing was changed.",
            hint=f"The files that it moved away are in {self._location.uri}/{self._record.directory}.",
        )
