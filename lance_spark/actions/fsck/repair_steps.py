"""The steps of a repair. Each looks again, and then does one thing that can be taken back."""

from __future__ import annotations

from dataclasses import dataclass, field

from lance_spark.actions.branches import create_branch_at
from lance_spark.actions.fsck.bad_files import is_bad, is_sound_segment
from lance_spark.actions.fsck.facts import is_empty_branch
from lance_spark.actions.sync.write_guards import check_mergeable, check_writable
from lance_spark.checkup import codes
from lance_spark.checkup.record import PROPERTY, RepairRecord
from lance_spark.checkup.repair_steps import LeaveOut, MendIndexes, Quarantine, RestoreRef, Step
from lance_spark.errors import Conflict
from lance_spark.layout.names import manifest_names, read_manifest_name, versions_directory
from lance_spark.location import DatasetLocation
from lance_spark.manifest.indexes import decode_indexes
from lance_spark.manifest.transactions import MESSAGE
from lance_spark.refs.model import PinnedVersion
from lance_spark.refs.names import MAIN
from lance_spark.refs.parse import ref_name
from lance_spark.store import files
from lance_spark.store.datasets import pin_latest
from lance_spark.store.index_commit import commit_indexes
from lance_spark.store.quarantine import keep, look_at_file, take_away, write_below
from lance_spark.store.repair_commit import leave_out
from lance_spark.store.survey import lenient_survey
from lance_spark.store.version_reader import read_manifest, read_snapshot


@dataclass(frozen=True)
class StepContext:
    """A repair that is under way."""

    location: DatasetLocation
    record: RepairRecord
    made: dict[str | None, int] = field(default_factory=dict)
    """The newest version that this repair committed to each branch."""

    def properties(self, step: Step) -> dict[str, str]:
        """What its versions say."""
        return {PROPERTY: self.record.id, MESSAGE: f"Repair: {step}"}

    def head(self, branch: str | None, version: int) -> PinnedVersion:
        """The newest version of a branch. Raises Conflict if it is neither the planned one nor of this repair."""
        head = pin_latest(self.location, branch)
        if head.version not in (version, self.made.get(branch)):
            raise Conflict(
                f"'{branch or MAIN}' has version {head.version} by now: check it again.", hint="Run it again."
            )
        return head


def carry_out(context: StepContext, step: Step) -> None:
    """Do one step. Raises Conflict, NotFound, AlreadyExists if it does not look as it did; Refused; StorageFailure."""
    if isinstance(step, RestoreRef):
        _restore(context, step)
    elif isinstance(step, Quarantine):
        _quarantine(context, step)
    elif isinstance(step, MendIndexes):
        _mend(context, step)
    else:
        _leave_out(context, step)


def _restore(context: StepContext, step: RestoreRef) -> None:
    if look_at_file(context.location, step.path) != step.before:
        raise Conflict(f"{step.path} was changed meanwhile.")
    if step.before is None:
        _check_lost(context.location, _branch_of(step.path))
    for kept in context.record.kept_by(step):
        keep(context.location, kept)
    write_below(context.location, step.path, step.content.encode())


def _check_lost(location: DatasetLocation, name: str) -> None:
    """Raise Conflict unless a branch without a ref file is still needed: it may have been deleted for good."""
    survey, _ = lenient_survey(location)
    needed = {tag.branch for tag in survey.refs.tags.values()}
    needed |= {branch.parent_branch for branch in survey.refs.branches.values()}
    if name not in needed or not any(chain.branch == name and chain.versions for _, chain in survey.owned()):
        raise Conflict(f"Branch '{name}' is not needed any more: it was deleted meanwhile.")


def _quarantine(context: StepContext, step: Quarantine) -> None:
    location = context.location
    if step.why == codes.BRANCH_EMPTY:
        name = _branch_of(step.path)
        if not is_empty_branch(location, name):
            raise Conflict(f"Branch '{name}' has files by now.")
    elif step.why == codes.VERSION_TWICE:
        _check_twins(location, step)
    else:
        _check_manifest(location, step)
    take_away(location, context.record.kept_by(step))


def _branch_of(path: str) -> str:
    """The branch of a ref file."""
    return ref_name(path) or ""


def _check_twins(location: DatasetLocation, step: Quarantine) -> None:
    for file in step.files:
        directory, _, name = file.path.rpartition("/")
        read = read_manifest_name(name)
        others = [other for other in manifest_names(read.version) if other != name] if read else []
        twin = look_at_file(location, f"{directory}/{others[0]}") if others else None
        if twin is None or twin.sha256 != file.sha256:
            raise Conflict(f"{file.path} has no other manifest like it any more.")


def _check_manifest(location: DatasetLocation, step: Quarantine) -> None:
    name = step.path.rpartition("/")[2]
    read = read_manifest_name(name)
    known = [read_manifest_name(other) for other in files.list_names(location, versions_directory(step.branch))]
    newest = max((other.version for other in known if other is not None and not other.detached), default=0)
    if read is None or (newest == read.version) != step.newest:
        raise Conflict(f"'{step.branch or MAIN}' has other versions by now: check it again.")
    survey, _ = lenient_survey(location)
    named = [tag for tag in survey.refs.tags.values() if (tag.branch, tag.version) == (step.branch, read.version)]
    if named:
        raise Conflict(f"Tag '{named[0].name}' names {step.path} by now.")


def _mend(context: StepContext, step: MendIndexes) -> None:
    location = context.location
    check_mergeable(location, step.branch)
    head = context.head(step.branch, step.version)
    snapshot = read_snapshot(location, head)
    records = {index.uuid: index for index in decode_indexes(read_manifest(location, head))}
    wanted = {**dict(step.moved), **dict.fromkeys(step.dropped)}
    if not wanted.keys() <= records.keys():
        raise Conflict(f"An index of '{step.path}' was changed meanwhile.")
    for uuid in wanted:
        if is_sound_segment(location, snapshot.bases[records[uuid].base_id], records[uuid]):
            raise Conflict(f"Index '{records[uuid].name}' of '{step.path}' has its files by now.")
    for uuid, base in step.moved:
        if not is_sound_segment(location, snapshot.bases[base], records[uuid]):
            raise Conflict(f"Index '{records[uuid].name}' is not in that place any more.")
    new = [records[uuid]._replace(base_id=base) for uuid, base in step.moved]
    gone = [records[uuid] for uuid in wanted]
    made = commit_indexes(location, head, new, gone, context.properties(step))
    context.made[step.branch] = made.version


def _leave_out(context: StepContext, step: LeaveOut) -> None:
    location = context.location
    head = context.head(step.branch, step.version)
    for file in step.files:
        if not is_bad(location, file):
            raise Conflict(f"{file.path} can be read by now: check it again.")
    if step.makes_branch:
        create_branch_at(location, step.path, head)
        head = pin_latest(location, step.onto)
    else:
        check_writable(location, step.onto)
    made = leave_out(location, head, step.fragments, context.properties(step))
    context.made[step.onto] = made.version
