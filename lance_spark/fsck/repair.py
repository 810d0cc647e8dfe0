"""Plans a repair and carries it out. Each step looks again first: a dataset that changes is not a corrupt one.

In: the findings of a check. Out: restored refs, quarantined manifests, mended indexes, and versions without unreadable
fragments. A record of all steps is written before the first one, so an interrupted repair can be undone, or continued
by another one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from itertools import islice
from typing import NamedTuple
from urllib.parse import unquote
from uuid import uuid4

from lance_spark import hints
from lance_spark.core import layout
from lance_spark.core.location import DatasetLocation
from lance_spark.core.records import finding_codes, repair_record
from lance_spark.core.ref_files import BRANCHES, parse_branch, ref_file, ref_name
from lance_spark.core.refs import MAIN, PinnedVersion
from lance_spark.core.texts import moment_at
from lance_spark.engine.local import Engine
from lance_spark.errors import AlreadyExists, Conflict, CorruptData, NotFound, PermissionDenied, Refused, StorageFailure
from lance_spark.format.contents import Fragment, IndexRecord, decode_indexes
from lance_spark.format.transactions import MESSAGE
from lance_spark.format.versions import Root, Snapshot, Trace, read_trace
from lance_spark.fsck import finding_rules, quarantine, repair_rules
from lance_spark.fsck.file_contents import leave_out, look_inside, size_of
from lance_spark.fsck.fsck import Examined, examine, first_origin
from lance_spark.fsck.option_rules import FsckOptions, RepairOptions
from lance_spark.fsck.report import FsckReport
from lance_spark.indexes.index_segments import commit_indexes
from lance_spark.refs.refs import create_branch_at
from lance_spark.storage import commits, files
from lance_spark.storage.datasets import pin_latest
from lance_spark.storage.followers import check_mergeable, check_writable
from lance_spark.storage.listing import list_paths
from lance_spark.storage.small_files import write_below
from lance_spark.storage.versions import contents_of, read_manifest, read_snapshot, read_transaction, snapshot_of
from lance_spark.survey.chain_rules import Chain, VersionFile
from lance_spark.survey.survey import DamagedRef, lenient_survey


def fsck_and_repair(
    location: DatasetLocation, options: FsckOptions, repair: RepairOptions, engine: Engine, now_ns: int
) -> FsckReport:
    """Check a dataset, plan a repair, and carry it out unless it is a dry run. Raises like ``fsck``.

    Raises Refused if something could not be examined; then nothing was changed. Raises StorageFailure if the store
    stops answering; the error names the record.
    """
    examined = examine(location, options, engine, now_ns)
    facts = _Facts(location, examined).all()
    plan = repair_rules.plan_repair(location.uri, examined.report.findings, facts, repair.on_main)
    result = None if repair.dry_run else execute(location, plan, now_ns)
    return examined.report.with_repair(plan, result)


def execute(location: DatasetLocation, plan: repair_rules.RepairPlan, now_ns: int) -> repair_rules.RepairResult:
    """Carry out a plan. Skips whatever has changed since the plan was made.

    Raises Refused for a plan that stopped, StorageFailure.
    """
    if plan.stopped:
        raise Refused(f"Nothing was repaired: {plan.stopped}.", hint="Fix that, then run it again.")
    if not plan.steps:
        return repair_rules.RepairResult("", ())
    now = moment_at(now_ns)
    record = repair_record.RepairRecord(
        id=f"{now:%Y%m%dT%H%M%S.%f}-{uuid4().hex[:8]}",
        dataset=location.uri,
        made=now.isoformat(),
        software=f"lance-spark {import_module('lance_spark').__version__}",
        steps=plan.steps,
    )
    with commits.unchanged():
        quarantine.write_record(location, record)
    context = StepContext(location, record)
    outcomes = []
    for number in range(len(plan.steps)):
        try:
            outcomes.append(_outcome(context, number))
        except StorageFailure as problem:
            stopped = f"The repair {record.id} stopped at step {number + 1} of {len(plan.steps)}: {problem.message}"
            hint = hints.of("Run it again to continue, or undo it: ", hints.undo_repair(record.id), ".")
            if isinstance(problem, PermissionDenied):
                raise problem.reworded(stopped, hint) from None
            raise type(problem)(stopped, hint=hint) from None
    if not any(outcome.state == repair_rules.DONE for outcome in outcomes) and not quarantine.holds_the_only_copy(
        location, record
    ):
        quarantine.forget_record(location, record)
        return repair_rules.RepairResult("", tuple(outcomes))
    return repair_rules.RepairResult(record.id, tuple(outcomes))


def _outcome(context: StepContext, number: int) -> repair_rules.Outcome:
    step = context.record.steps[number]
    try:
        carry_out(context, step)
    except (Conflict, NotFound, AlreadyExists) as problem:
        return repair_rules.Outcome(str(step), "passed over", problem.message)
    except (Refused, CorruptData) as problem:
        return repair_rules.Outcome(str(step), "not possible", problem.message)
    return repair_rules.Outcome(str(step), repair_rules.DONE)


# --- Evidence for a repair


class _Facts:
    def __init__(self, location: DatasetLocation, examined: Examined) -> None:
        self._location, self._examined, self._survey = location, examined, examined.survey
        self._findings = examined.report.findings
        self._chains = {chain.branch: chain for _, chain in self._survey.owned() if chain.has_ref}

    def all(self) -> repair_rules.RepairFacts:
        refs = RefFacts(self._location, self._examined)
        restored = refs.refs()
        return repair_rules.RepairFacts(
            refs=restored,
            lost_refs=refs.lost(),
            tags={tag.name: tag.branch or MAIN for tag in self._survey.refs.tags.values()},
            manifests=dict(self._manifests()),
            twins={one.path: self._twins(one.path) for one in self._of(finding_codes.VERSION_TWICE)},
            empty={one.path: self._empty(one.path) for one in self._of(finding_codes.BRANCH_EMPTY)},
            lines=tuple(
                self._lines({path for path, found in restored.items() if isinstance(found, repair_record.RestoreRef)})
            ),
            branches=frozenset(self._survey.refs.branches),
        )

    def _of(self, *wanted: str) -> list:  # type: ignore[type-arg]
        return [finding for finding in self._findings if finding.code in wanted]

    def _manifests(self) -> Iterator[tuple[str, repair_rules.ManifestFact]]:
        bad = {finding.path for finding in self._of(*finding_codes.MANIFEST_CODES)}
        for chain in self._chains.values() if bad else ():
            paths = {chain.path(version): version for version in chain.versions}
            for path in sorted(bad & paths.keys()):
                file = quarantine.look_at_file(self._location, path)
                newest = paths[path] == chain.versions[-1]
                hint = f"{path.rpartition('/')[0]}/latest_version_hint.json"
                hinted = quarantine.look_at_file(self._location, hint) if newest and self._location.is_local else None
                if file is not None:
                    yield path, repair_rules.ManifestFact(file, chain.branch, newest, hinted, len(paths.keys() - bad))

    def _twins(self, root: str) -> tuple[repair_record.Digest, ...] | str:
        chain = next((one for one in self._chains.values() if (one.root or MAIN) == root), None)
        return "" if chain is None else twins_of(self._location, chain)

    def _empty(self, name: str) -> repair_record.Digest | str:
        refs = self._survey.refs
        if any(tag.branch == name for tag in refs.tags.values()):
            return "a tag names it: restore its directory, or delete the tag and the branch"
        if any(branch.parent_branch == name for branch in refs.branches.values()):
            return "a branch was created from it: restore its directory"
        if not is_empty_branch(self._location, name):
            return "its directory has files but no version: restore its manifests, or delete the branch"
        file = quarantine.look_at_file(self._location, ref_file(BRANCHES, name))
        return "" if file is None else file

    def _lines(self, restored: set[str]) -> Iterator[repair_rules.LineFacts]:
        found = [
            one
            for one in self._findings
            if one.code in repair_rules.INDEX_CODES or one.code in repair_rules.FRAGMENT_CODES
        ]
        hit = {ref for finding in found for ref in finding.refs}
        bad = {finding.path for finding in found}
        for branch, chain in sorted(self._chains.items(), key=lambda item: item[0] or ""):
            if (branch or MAIN) in hit and chain.versions:
                line = _NewestVersion.read(self._location, PinnedVersion(branch, chain.versions[-1].version))
                will_be = branch is not None and ref_file(BRANCHES, branch) in restored
                facts = None if line is None else line.facts(bad, "" if will_be else _closed(self._location, branch))
                if facts is not None and (facts.fragments or facts.segments):
                    yield replace(facts, protected=not will_be and _is_protected(self._location, branch))


class _NewestVersion(NamedTuple):
    location: DatasetLocation
    snapshot: Snapshot
    indexes: Sequence[IndexRecord]

    @classmethod
    def read(cls, location: DatasetLocation, pin: PinnedVersion) -> _NewestVersion | None:
        """The version; None if it is unreadable or gone."""
        try:
            content = read_manifest(location, pin)
            return cls(
                location, snapshot_of(location, pin, contents_of(location, pin, content)), decode_indexes(content)
            )
        except (CorruptData, NotFound, Refused):
            return None

    def facts(self, bad: set[str], closed: str) -> repair_rules.LineFacts:
        pin, contents = self.snapshot.pin, self.snapshot.contents
        fragments = {}
        for fragment in contents.fragments():
            files = tuple(file for file in self._files(fragment, contents.counts_rows) if file.path in bad)
            if files:
                fragments[fragment.id] = files
        return repair_rules.LineFacts(
            pin.branch, pin.version, fragments, contents.fragment_count, tuple(self._segments(bad)), closed
        )

    def _files(self, fragment: Fragment, counts_rows: bool) -> Iterator[repair_record.SuspectFile]:
        rows = fragment.physical_rows if counts_rows else 0
        for file in fragment.files:
            root = self.snapshot.root_of(file)
            prefix = "data/" if root.is_dataset else ""
            path = self._path(
                root,
                layout.data_key(prefix + layout.stored_name(file.path)) if prefix else layout.stored_name(file.path),
            )
            yield repair_record.SuspectFile(path, layout.DATA, file.size, rows)
        if fragment.deletion is not None:
            root = self.snapshot.root_of(fragment.deletion)
            path = self._path(root, fragment.deletion.path_for(fragment.id))
            yield repair_record.SuspectFile(path, layout.DELETION, 0, rows, fragment.deletion.rows)

    def _path(self, root: Root, below: str) -> str:
        """The path as in findings: relative to the dataset, or a URI elsewhere."""
        own = self.location.uri
        if root.uri == own:
            return below
        if not root.uri.startswith(f"{own}/"):
            return f"{root.uri}/{below}"
        inner = root.uri[len(own) + 1 :]
        return f"{unquote(inner) if '://' in own else inner}/{below}"

    def _segments(self, bad: set[str]) -> Iterator[repair_rules.SegmentFact]:
        for index in self.indexes:
            root = self.snapshot.bases.get(index.base_id)
            if root is None or index.is_internal:  # pylance needs its internal indexes
                continue
            inside = directory_of(root, index.uuid)[len(root.uri) + 1 :]
            directory = self._path(root, inside)
            for path in sorted(path for path in bad if path == directory or path.startswith(f"{directory}/")):
                found, base = self._other_place(index)
                yield repair_rules.SegmentFact(index.uuid, index.name, path, found, base)

    def _other_place(self, index: IndexRecord) -> tuple[bool, int | None]:
        for base, root in self.snapshot.bases.items():
            if base != index.base_id and is_sound_segment(self.location, root, index):
                return True, base
        return False, None


def _closed(location: DatasetLocation, branch: str | None) -> str:
    """Why nothing may be committed to a branch; "" if it may."""
    try:
        check_mergeable(location, branch)
    except (Refused, NotFound, CorruptData) as problem:
        return problem.message
    return ""


def _is_protected(location: DatasetLocation, branch: str | None) -> bool:
    try:
        commits.check_unprotected(location, branch)
    except (Refused, CorruptData):
        return True
    return False


def twins_of(location: DatasetLocation, chain: Chain) -> tuple[repair_record.Digest, ...] | str:
    """Manifests that also exist under another name, byte for byte: those with the less common naming."""
    by_version: dict[int, list[VersionFile]] = {}
    for file in chain.versions:
        by_version.setdefault(file.version, []).append(file)
    single = [layout.sorts_newest_first(files[0].name) for files in by_version.values() if len(files) == 1]
    keeps_newer = sum(single) * 2 >= len(single)
    moved = []
    for named in by_version.values():
        if len(named) == 1:
            continue
        digests = {one.name: quarantine.look_at_file(location, chain.path(one)) for one in named}
        if (
            len({(one.size, one.sha256) for one in digests.values() if one is not None}) != 1
            or None in digests.values()
        ):
            return "the two manifests differ: keep the right one"
        newer, older = layout.manifest_names(named[0].version)
        digest = digests.get(older if keeps_newer else newer)
        if digest is None:
            return "the manifests have unknown names"
        moved.append(digest)
    return tuple(moved)


def is_empty_branch(location: DatasetLocation, name: str) -> bool:
    """Whether the directory of a branch is completely empty."""
    return next(iter(list_paths(location, layout.KeyRange.below(f"tree/{name}"))), None) is None


# --- Evidence to restore refs
# The remains of their files, first versions, branches created from them, and merges.

_NEWEST = 1_000
"""Number of the newest versions of each branch whose merges are examined."""


class RefFacts:
    def __init__(self, location: DatasetLocation, examined: Examined) -> None:
        self._location, self._survey, self._examined = location, examined.survey, examined
        self._chains = {chain.branch: chain for _, chain in self._survey.owned()}

    def refs(self) -> dict[str, repair_record.RestoreRef | str]:
        """By path: the restored file for each damaged, wrong or lost ref file, or why it cannot be restored."""
        found: dict[str, repair_record.RestoreRef | str] = {
            file.path: self._damaged(file) for file in self._examined.damaged
        }
        for finding in self._examined.report.findings:
            if finding.code == finding_codes.REF_WRONG:
                content = files.read(self._location, finding.path) or b""
                found[finding.path] = self._branch(finding.refs[0], content, finding_codes.REF_WRONG)
        for branch, path in self.lost().items():
            found[path] = self._branch(branch, b"", finding_codes.NO_REF)
        return found

    def lost(self) -> dict[str, str]:
        """Path of the ref file by branch, for branches without one that tags or other branches still name.

        No tool deletes such a branch before those. Any other branch without a ref may be being created or deleted.
        """
        refs = self._survey.refs
        named = {tag.branch for tag in refs.tags.values()} | {one.parent_branch for one in refs.branches.values()}
        return {
            chain.branch: ref_file(BRANCHES, chain.branch)
            for chain in self._chains.values()
            if chain.branch is not None and not chain.has_ref and chain.versions and chain.branch in named
        }

    def _damaged(self, file: DamagedRef) -> repair_record.RestoreRef | str:
        if file.branch is not None:
            return self._branch(file.branch, file.content, finding_codes.REF_DAMAGED)
        before = quarantine.digest_of(file.path, file.content)
        if file.tag is None:
            uri = finding_rules.clone_uri(file.content)
            if uri is None:
                return "the file no longer shows which clone it records"
            return repair_record.RestoreRef(file.path, json.dumps({"uri": uri}), "what is left of the file", before)
        versions = {
            (chain.branch, one.version): one.size
            for chain in self._chains.values()
            for one in chain.versions
            if chain.has_ref
        }
        target = finding_rules.tagged(file.content)
        restored = finding_rules.restored_tag(
            finding_rules.TagEvidence(file.content, frozenset(versions)), versions.get(target, 0) if target else 0
        )
        if isinstance(restored, str):
            return restored
        return repair_record.RestoreRef(file.path, restored.content, restored.says, before)

    def _branch(self, name: str, remains: bytes, why: str) -> repair_record.RestoreRef | str:
        path = ref_file(BRANCHES, name)
        chain = self._chains.get(name)
        if chain is None or not chain.versions:
            return "the branch has no versions"
        evidence = self._evidence(chain, remains)
        own = finding_rules.mapping(remains)
        if own and evidence.identities and own[-1][1] not in evidence.identities:
            return "its identity differs from the one that branches and merges record, and it is unknown which is right"
        restored = finding_rules.restored_branch(evidence, uuid4().hex)
        if isinstance(restored, str):
            return restored
        try:
            parse_branch(name, restored.content.encode())
        except CorruptData as problem:
            return problem.message
        before = quarantine.digest_of(path, remains) if remains or why != finding_codes.NO_REF else None
        return repair_record.RestoreRef(path, restored.content, restored.says, before, why)

    def _evidence(self, chain: Chain, remains: bytes) -> finding_rules.BranchEvidence:
        first = first_origin(self._survey, chain)
        children = [one for one in self._survey.refs.branches.values() if one.parent_branch == chain.branch]
        mappings = [finding_rules.mapping(self._ref(child.name)) for child in children]
        from_children = {known[-2][1] for known in mappings if len(known) > 1}
        identities = from_children or set(self._merged(chain))
        return finding_rules.BranchEvidence(
            remains=remains,
            first=first,
            first_ns=chain.versions[0].modified_ns,
            size=self._size(first) or chain.versions[0].size,
            ancestors=self._ancestors(first, mappings),
            identities=tuple(sorted(identities)),
        )

    def _size(self, first: finding_rules.Origin | None) -> int:
        parent = self._chains.get(first.parent) if first else None
        return next((one.size for one in parent.versions if one.version == first.version), 0) if parent and first else 0

    def _ancestors(
        self, first: finding_rules.Origin | None, mappings: list[tuple[tuple[int, str], ...]]
    ) -> tuple[tuple[int, str], ...] | None:
        known = next((one[:-2] for one in mappings if len(one) > 1), None)
        if known is not None or first is None or first.parent is None:
            return known or ()
        return finding_rules.mapping(self._ref(first.parent)) if first.parent in self._survey.refs.branches else None

    def _ref(self, name: str) -> bytes:
        return files.read(self._location, ref_file(BRANCHES, name)) or b""

    def _merged(self, chain: Chain) -> Iterator[str]:
        """Identities of the branch in merges into other branches since it was created."""
        for other in self._chains.values():
            if other.branch == chain.branch or not other.has_ref:
                continue
            since = (
                one.version for one in reversed(other.versions) if one.modified_ns >= chain.versions[0].modified_ns
            )
            read = partial(_trace, self._location, other.branch)
            for trace in files.each(self._location, read, list(islice(since, _NEWEST))):
                if trace is not None and trace.source.branch == chain.branch and trace.source_id:
                    yield trace.source_id


def _trace(location: DatasetLocation, branch: str | None, version: int) -> Trace | None:
    try:
        transaction = read_transaction(location, PinnedVersion(branch, version))
    except CorruptData:
        return None
    return None if transaction is None else read_trace(transaction.properties)


# --- Checking whether a file is still bad
# A store that does not answer proves nothing.


def is_bad(location: DatasetLocation, file: repair_record.SuspectFile) -> bool:
    """Whether a file is missing, has the wrong size, or contradicts its version. Raises StorageFailure."""
    size = size_of(location, file.path)
    if not size or (file.size and size != file.size):
        return True
    (seen,) = look_inside(location, [finding_rules.Inside(file.path, file.kind, file.rows, file.deleted)])
    if seen is not None and seen[0] == finding_codes.FILE_UNREACHABLE:
        raise StorageFailure(f"{file.path} could not be read: {seen[1]}", hint="Check network and credentials.")
    return seen is not None


def directory_of(root: Root, uuid: str) -> str:
    return f"{root.uri}/_indices/{uuid}" if root.is_dataset else f"{root.uri}/{uuid}"


def is_sound_segment(location: DatasetLocation, root: Root, index: IndexRecord) -> bool:
    """Whether all files of a segment exist in a place and are intact at their ends. Raises StorageFailure."""
    directory = directory_of(root, index.uuid)
    for path, size in index.needed:
        if not path:
            if not files.list_names(DatasetLocation(directory, location.options), ""):
                return False
        elif is_bad(location, repair_record.SuspectFile(f"{directory}/{path}", layout.INDEX, size, 0)):
            return False
    return True


# --- The steps of a repair
# Each looks again, then does one thing that can be undone.


@dataclass(frozen=True)
class StepContext:
    location: DatasetLocation
    record: repair_record.RepairRecord
    made: dict[str | None, int] = field(default_factory=dict)
    """The newest version that this repair committed to each branch."""

    def properties(self, step: repair_record.Step) -> dict[str, str]:
        """The transaction properties of its versions."""
        return {repair_record.PROPERTY: self.record.id, MESSAGE: f"Repair: {step}"}

    def head(self, branch: str | None, version: int) -> PinnedVersion:
        """The newest version of a branch. Raises Conflict if it is neither the planned one nor from this repair."""
        head = pin_latest(self.location, branch)
        if head.version not in (version, self.made.get(branch)):
            raise Conflict(f"'{branch or MAIN}' now has version {head.version}: check it again.", hint="Run it again.")
        return head


def carry_out(context: StepContext, step: repair_record.Step) -> None:
    """Do one step. Raises Conflict, NotFound or AlreadyExists if its target has changed; Refused; StorageFailure."""
    if isinstance(step, repair_record.RestoreRef):
        _restore(context, step)
    elif isinstance(step, repair_record.Quarantine):
        _quarantine(context, step)
    elif isinstance(step, repair_record.MendIndexes):
        _mend(context, step)
    else:
        _leave_out(context, step)


def _restore(context: StepContext, step: repair_record.RestoreRef) -> None:
    if quarantine.look_at_file(context.location, step.path) != step.before:
        raise Conflict(f"{step.path} was changed after the check.")
    if step.before is None:
        _check_lost(context.location, ref_name(step.path) or "")
    for kept in context.record.kept_by(step):
        quarantine.keep(context.location, kept)
    write_below(context.location, step.path, step.content.encode())


def _check_lost(location: DatasetLocation, name: str) -> None:
    """Raise Conflict unless a branch without a ref file is still needed: it may have been deleted for good."""
    survey, _ = lenient_survey(location)
    needed = {tag.branch for tag in survey.refs.tags.values()}
    needed |= {branch.parent_branch for branch in survey.refs.branches.values()}
    if name not in needed or not any(chain.branch == name and chain.versions for _, chain in survey.owned()):
        raise Conflict(f"Branch '{name}' is no longer needed: it was deleted meanwhile.")


def _quarantine(context: StepContext, step: repair_record.Quarantine) -> None:
    location = context.location
    if step.why == finding_codes.BRANCH_EMPTY:
        name = ref_name(step.path) or ""
        if not is_empty_branch(location, name):
            raise Conflict(f"Branch '{name}' now has files.")
    elif step.why == finding_codes.VERSION_TWICE:
        _check_twins(location, step)
    else:
        _check_manifest(location, step)
    quarantine.take_away(location, context.record.kept_by(step))


def _check_twins(location: DatasetLocation, step: repair_record.Quarantine) -> None:
    for file in step.files:
        directory, _, name = file.path.rpartition("/")
        read = layout.read_manifest_name(name)
        others = [other for other in layout.manifest_names(read.version) if other != name] if read else []
        twin = quarantine.look_at_file(location, f"{directory}/{others[0]}") if others else None
        if twin is None or twin.sha256 != file.sha256:
            raise Conflict(f"{file.path} no longer has an identical twin.")


def _check_manifest(location: DatasetLocation, step: repair_record.Quarantine) -> None:
    name = step.path.rpartition("/")[2]
    read = layout.read_manifest_name(name)
    known = [
        layout.read_manifest_name(other) for other in files.list_names(location, layout.versions_directory(step.branch))
    ]
    newest = max((other.version for other in known if other is not None and not other.detached), default=0)
    if read is None or (newest == read.version) != step.newest:
        raise Conflict(f"'{step.branch or MAIN}' now has other versions: check it again.")
    survey, _ = lenient_survey(location)
    named = [tag for tag in survey.refs.tags.values() if (tag.branch, tag.version) == (step.branch, read.version)]
    if named:
        raise Conflict(f"Tag '{named[0].name}' now names {step.path}.")


def _mend(context: StepContext, step: repair_record.MendIndexes) -> None:
    location = context.location
    check_mergeable(location, step.branch)
    head = context.head(step.branch, step.version)
    snapshot = read_snapshot(location, head)
    records = {index.uuid: index for index in decode_indexes(read_manifest(location, head))}
    wanted = {**dict(step.moved), **dict.fromkeys(step.dropped)}
    if not wanted.keys() <= records.keys():
        raise Conflict(f"An index of '{step.path}' was changed after the check.")
    for uuid in wanted:
        if is_sound_segment(location, snapshot.bases[records[uuid].base_id], records[uuid]):
            raise Conflict(f"Index '{records[uuid].name}' of '{step.path}' now has its files.")
    for uuid, base in step.moved:
        if not is_sound_segment(location, snapshot.bases[base], records[uuid]):
            raise Conflict(f"Index '{records[uuid].name}' is no longer in that place.")
    new = [records[uuid]._replace(base_id=base) for uuid, base in step.moved]
    gone = [records[uuid] for uuid in wanted]
    made = commit_indexes(location, head, new, gone, context.properties(step))
    context.made[step.branch] = made.version


def _leave_out(context: StepContext, step: repair_record.LeaveOut) -> None:
    location = context.location
    head = context.head(step.branch, step.version)
    for file in step.files:
        if not is_bad(location, file):
            raise Conflict(f"{file.path} is now readable: check it again.")
    if step.makes_branch:
        create_branch_at(location, step.path, head)
        head = pin_latest(location, step.onto)
    else:
        check_writable(location, step.onto)
    made = leave_out(location, head, step.fragments, context.properties(step))
    context.made[step.onto] = made.version
