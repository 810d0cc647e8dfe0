"""Plans repairs from findings: steps that can all be undone, and findings beyond repair. Pure.

Nothing is looked at again here. Carrying out a step does that first, as the plan may be outdated by then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from lance_spark.core.records import finding_codes, repair_record
from lance_spark.core.refs import MAIN
from lance_spark.core.show import Card, Grid, Shown
from lance_spark.core.texts import counted, few
from lance_spark.fsck.finding_rules import CheckFinding

INDEX_CODES = frozenset({finding_codes.INDEX_MISSING, finding_codes.INDEX_SIZE_WRONG, finding_codes.INDEX_DAMAGED})
FRAGMENT_CODES = frozenset(
    {
        finding_codes.DATA_MISSING,
        finding_codes.DELETION_MISSING,
        finding_codes.OTHER_MISSING,
        finding_codes.SIZE_WRONG,
        finding_codes.DATA_DAMAGED,
        finding_codes.DELETION_DAMAGED,
        finding_codes.ROW_COUNT,
        finding_codes.DELETION_COUNT,
    }
)
_MOST = 5
_WRITE_AGAIN = "restore an older version, or overwrite the table with its rows from elsewhere, then clean up"
"""What to do where a branch without the lost rows would have none."""


@dataclass(frozen=True)
class Beyond:
    """A finding that no step repairs, or only partly."""

    finding: CheckFinding
    why: str


@dataclass(frozen=True, repr=False)
class RepairPlan(Shown):
    """The steps of a repair. Making a plan changes nothing."""

    dataset: str
    steps: tuple[repair_record.Step, ...] = ()
    beyond: tuple[Beyond, ...] = ()
    stopped: str = ""
    """Why nothing may be done; "" if it may."""

    def summary(self) -> str:
        told = f"{counted(len(self.steps), 'step')}, {counted(len(self.beyond), 'finding')} beyond repair"
        return f"nothing can be done: {self.stopped}" if self.stopped else told

    def grids(self) -> tuple[Grid, ...]:
        steps = tuple((str(number), step.kind, step.why, str(step)) for number, step in enumerate(self.steps, start=1))
        rows = tuple((one.finding.code, one.finding.path, one.why) for one in self.beyond)
        return (
            Grid(("", "step", "for", "what is done"), steps, title="Repair"),
            Grid(("finding", "path", "what can be done"), rows, title="Beyond repair"),
        )

    def __str__(self) -> str:
        return "\n\n".join(part for part in (*(grid.text() for grid in self.grids()), self.summary()) if part)

    def _card(self) -> Card:
        return Card(type(self).__name__, self.dataset, self.summary(), grids=self.grids())


def plan_repair(dataset: str, findings: Sequence[CheckFinding], facts: RepairFacts, on_main: bool) -> RepairPlan:
    """Plan the repair of findings. ``on_main``: versions of the branches themselves may be added or removed."""
    planner = _Planner(findings, facts, on_main)
    steps = tuple(planner.steps())
    stopped = _stopped(findings)
    return RepairPlan(dataset, steps, tuple(planner.beyond(steps)), stopped)


def _stopped(findings: Iterable[CheckFinding]) -> str:
    unknown = [finding.path for finding in findings if finding.severity == finding_codes.UNREACHABLE]
    if unknown:
        return f"{few(unknown, 3)} could not be examined, so nothing is repaired"
    many = [finding.path for finding in findings if finding.files > 1 and finding.severity == finding_codes.ERROR]
    if many:
        return f"{few(many, 3)} and too many others are damaged to repair one by one: restore them from a backup"
    return ""


class _Planner:
    def __init__(self, findings: Sequence[CheckFinding], facts: RepairFacts, on_main: bool) -> None:
        self._findings, self._facts, self._on_main = findings, facts, on_main

    def steps(self) -> Iterator[repair_record.Step]:
        """Refs first: without them a branch may seem lost. Versions last: they are made from what is sound."""
        yield from (step for step in self._facts.refs.values() if isinstance(step, repair_record.RestoreRef))
        for finding in self._findings:
            yield from self._quarantined(finding)
        for line in self._facts.lines:
            if line.segments and not line.closed:
                yield _mended(line)
        for line in self._facts.lines:
            step = self._left_out(line)
            if step is not None:
                yield step

    def _quarantined(self, finding: CheckFinding) -> Iterator[repair_record.Quarantine]:
        facts = self._facts
        if finding.code in finding_codes.MANIFEST_CODES:
            fact = facts.manifests.get(finding.path)
            if fact is not None and not _why_manifest_stays(finding, fact, self._on_main):
                files = (fact.file, *([fact.hint] if fact.hint and fact.newest else []))
                says = "the version before becomes the newest" if fact.newest else "no ref needs the version"
                yield repair_record.Quarantine(files, says, finding.code, fact.branch, fact.newest)
        elif finding.code == finding_codes.VERSION_TWICE:
            twins = facts.twins.get(finding.path, "")
            if twins and not isinstance(twins, str):
                yield repair_record.Quarantine(twins, "the same manifest exists under its other name", finding.code)
        elif finding.code == finding_codes.BRANCH_EMPTY:
            ref = facts.empty.get(finding.path, "")
            if isinstance(ref, repair_record.Digest):
                yield repair_record.Quarantine((ref,), "nothing is left of the branch", finding.code)

    def _left_out(self, line: LineFacts) -> repair_record.LeaveOut | None:
        if not line.fragments or len(line.fragments) == line.count or self._where(line) is None:
            return None
        files = tuple(file for each in line.fragments.values() for file in each)
        rows = sum(max((file.rows for file in each), default=0) for each in line.fragments.values())
        onto, mended = self._where(line), bool(line.segments) and not line.closed  # by an earlier step, as one version
        why = next((one.code for one in self._findings if one.path == files[0].path), finding_codes.DATA_MISSING)
        branch = None if onto == MAIN else onto
        return repair_record.LeaveOut(
            line.branch, line.version + mended, branch, tuple(sorted(line.fragments)), files, rows, why
        )

    def _where(self, line: LineFacts) -> str | None:
        """The branch to commit to; None if it already exists."""
        name = line.branch or MAIN
        if name.startswith(repair_record.PREFIX) or (self._on_main and not line.closed and not line.protected):
            return name
        made = self._made(line)
        return None if made in self._facts.branches else made

    def _made(self, line: LineFacts) -> str:
        """The branch for a version: the version with mended indexes, if any."""
        return f"{repair_record.PREFIX}{line.branch or MAIN}-{line.version + (bool(line.segments) and not line.closed)}"

    def beyond(self, steps: Sequence[repair_record.Step]) -> Iterator[Beyond]:
        """The findings that the steps leave, with the reason."""
        restored = {step.path for step in steps if isinstance(step, repair_record.RestoreRef)}
        moved = {file.path for step in steps if isinstance(step, repair_record.Quarantine) for file in step.files}
        for finding in self._findings:
            why = self._why(finding, restored, moved)
            if why:
                yield Beyond(finding, why)

    def _why(self, finding: CheckFinding, restored: set[str], moved: set[str]) -> str:
        facts, code = self._facts, finding.code
        if code in INDEX_CODES or code in FRAGMENT_CODES:
            return self._why_of_version(finding)
        if code in finding_codes.MANIFEST_CODES:
            fact = facts.manifests.get(finding.path)
            return "" if finding.path in moved else _why_manifest_stays(finding, fact, self._on_main)
        if code in (finding_codes.REF_DAMAGED, finding_codes.REF_WRONG):
            reason = facts.refs.get(finding.path, finding.do)
            return "" if finding.path in restored else f"{reason}: restore it from a backup"
        if code in (finding_codes.NO_REF, finding_codes.TAG_DANGLING):
            branch = (
                finding.path.removeprefix("tree/")
                if code == finding_codes.NO_REF
                else facts.tags.get(finding.path, MAIN)
            )
            return "" if facts.lost_refs.get(branch) in restored else finding.do
        if code == finding_codes.VERSION_TWICE:
            found = facts.twins.get(finding.path, "")
            return (found or finding.do) if isinstance(found, str) else ""
        if code == finding_codes.BRANCH_EMPTY:
            ref = facts.empty.get(finding.path, "")
            return (ref or finding.do) if isinstance(ref, str) else ""
        return finding.do

    def _why_of_version(self, finding: CheckFinding) -> str:
        """Steps change newest versions only; other versions that name the file cannot change."""
        helped, reasons = set(), []
        for line in self._facts.lines:
            name = line.branch or MAIN
            if any(segment.path == finding.path for segment in line.segments):
                helped.add(name)
                reasons += [f"'{name}': {line.closed}"] if line.closed else []
            bad = [file.path for each in line.fragments.values() for file in each]
            if finding.path in bad:
                helped.add(name)
                if len(line.fragments) == line.count:
                    reasons.append(f"'{name}': no fragment is readable; {_WRITE_AGAIN}")
                elif self._where(line) is None:
                    reasons.append(f"'{self._made(line)}' already is a branch without it")
                elif finding.code in FRAGMENT_CODES and (self._where(line) or "") != name:
                    otherwise = "it is protected" if line.protected else "or repair with on_main (shell: --on-main)"
                    reasons.append(f"'{name}' itself stays unchanged: merge the new branch; {otherwise}")
        others = [ref for ref in finding.refs if ref not in helped]
        if others:
            reasons.append(f"still named by {few(others, _MOST)}: {finding.do}")
        return "; ".join(reasons) if reasons or helped else finding.do


def _mended(line: LineFacts) -> repair_record.MendIndexes:
    by_id = {segment.uuid: segment for segment in line.segments}
    return repair_record.MendIndexes(
        branch=line.branch,
        version=line.version,
        moved=tuple(sorted((one.uuid, one.base) for one in by_id.values() if one.found)),
        dropped=tuple(sorted(one.uuid for one in by_id.values() if not one.found)),
        names=tuple(sorted({one.name for one in by_id.values()})),
    )


def _why_manifest_stays(finding: CheckFinding, fact: ManifestFact | None, on_main: bool) -> str:
    """Why a manifest may not be quarantined; "" if it may."""
    if fact is None:
        return finding.do
    named = [ref for ref in finding.refs if not ref.startswith("old versions of ") and ref != (fact.branch or MAIN)]
    if named:
        return f"named by {few(named, _MOST)}: {finding.do}"
    if not fact.others:
        return f"it is the only version of its branch: {finding.do}"
    if fact.newest and not on_main:
        return "it is the newest version: with on_main (shell: --on-main), the version before it becomes the newest"
    return ""


# --- The evidence for a plan


@dataclass(frozen=True)
class SegmentFact:
    """An index segment of a newest version with a bad file."""

    uuid: str
    name: str
    path: str
    """Path of the file, as in the finding."""
    found: bool = False
    """Whether all its files are intact in another place that the version knows."""
    base: int | None = None
    """That place."""


@dataclass(frozen=True)
class LineFacts:
    """The newest version of a branch with findings."""

    branch: str | None
    version: int
    fragments: Mapping[int, tuple[repair_record.SuspectFile, ...]] = field(default_factory=dict)
    """Fragments with bad files, and those files."""
    count: int = 0
    """Number of fragments in the version."""
    segments: tuple[SegmentFact, ...] = ()
    closed: str = ""
    """Why nothing may be committed to the branch; "" if it may."""
    protected: bool = False
    """Whether it takes only merges and upkeep: indexes may be mended, but no rows left out."""


@dataclass(frozen=True)
class ManifestFact:
    file: repair_record.Digest
    branch: str | None
    newest: bool
    hint: repair_record.Digest | None = None
    """The file on disk that names the newest version: it is quarantined along with the manifest."""
    others: int = 0
    """Number of sound versions of the branch."""


@dataclass(frozen=True)
class RepairFacts:
    refs: Mapping[str, repair_record.RestoreRef | str] = field(default_factory=dict)
    """By path of the ref file: what restores it, or why it cannot be restored."""
    lost_refs: Mapping[str, str] = field(default_factory=dict)
    """Path of the missing ref file, by name of a branch that others name."""
    tags: Mapping[str, str] = field(default_factory=dict)
    """The branch (or ``main``) that each tag is on."""
    manifests: Mapping[str, ManifestFact] = field(default_factory=dict)
    twins: Mapping[str, tuple[repair_record.Digest, ...] | str] = field(default_factory=dict)
    """By branch: manifests that also exist under another name, or why that is not so."""
    empty: Mapping[str, repair_record.Digest | str] = field(default_factory=dict)
    """By branch without versions: its ref file if nothing else is left of it, or why that is not so."""
    lines: tuple[LineFacts, ...] = ()
    branches: frozenset[str] = frozenset()


# --- The result of a repair, or of undoing it

DONE = "done"
"""Otherwise "passed over", as its target has changed since the plan was made, or "not possible"."""


@dataclass(frozen=True)
class Outcome:
    step: str
    state: str
    why: str = ""


@dataclass(frozen=True, repr=False)
class RepairResult(Shown):
    record: str
    """Its id, for undoing it; "" if nothing was done."""
    outcomes: tuple[Outcome, ...]
    undone: bool = False

    @property
    def complete(self) -> bool:
        return all(outcome.state == DONE for outcome in self.outcomes)

    def to_record(self) -> dict[str, Any]:
        return {**asdict(self), "complete": self.complete}

    def summary(self) -> str:
        done = sum(outcome.state == DONE for outcome in self.outcomes)
        told = f"{done} of {counted(len(self.outcomes), 'step')} {'undone' if self.undone else 'done'}"
        return f"{told}; to undo it: --undo {self.record}" if self.record and not self.undone else told

    def grid(self) -> Grid:
        rows = tuple((outcome.state, outcome.step, outcome.why) for outcome in self.outcomes)
        return Grid(("", "step", "why not"), rows, title="Undone" if self.undone else "Repaired")

    def __str__(self) -> str:
        return "\n\n".join(part for part in (self.grid().text(), self.summary()) if part)

    def _card(self) -> Card:
        return Card(type(self).__name__, self.record, self.summary(), grids=(self.grid(),))
