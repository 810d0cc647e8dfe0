"""Cleanup plans: making one, storing it, and deleting what it lists, now or later.

In: a dataset and a policy. Out: a plan that can be printed, stored and applied, and a report of every file's fate.
Planning surveys the dataset, judges versions, marks the files they name, lists the store, and decides. It deletes and
writes nothing.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark import hints
from lance_spark.cleanup import reference_rules, retention_rules, stored_plans
from lance_spark.cleanup import sweep_rules as sweep
from lance_spark.cleanup.plan_rules import PlanFacts, from_document, to_document
from lance_spark.cleanup.reference_rules import ANYWHERE, MARKS, ChainSpan, KeyResolver
from lance_spark.cleanup.report import CleanupReport
from lance_spark.cleanup.retention_rules import CleanupPolicy, RunClock
from lance_spark.cleanup.sweep_rules import CANDIDATES, FILES
from lance_spark.core.layout import BLOB, INDEX, MANIFEST, KeyRange, Roots, branch_root, clip, tile
from lance_spark.core.location import DatasetLocation, is_within
from lance_spark.core.records.reflog import kept_branches
from lance_spark.core.ref_names import branch_or_none
from lance_spark.core.refs import MAIN
from lance_spark.core.show import Card, Shown
from lance_spark.core.texts import counted, moment_at
from lance_spark.core.words import ASKED_OF_PLANS, OF_PLANS
from lance_spark.engine.local import Engine, Frame, Runner, Work
from lance_spark.errors import CorruptData, InvalidOption, NotFound, Refused, StorageFull
from lance_spark.storage import files
from lance_spark.storage.brought import keep_columns
from lance_spark.storage.commits import unchanged
from lance_spark.storage.datasets import locate
from lance_spark.storage.deleting import BATCH, Pace, delete_batch, remove_empty_directories
from lance_spark.storage.files import each
from lance_spark.storage.listing import linked_directories, list_range
from lance_spark.storage.others import check_ours
from lance_spark.storage.versions import read_manifests
from lance_spark.survey.chain_rules import (
    Chain,
    Survey,
    VersionFile,
    first_sink,
    first_sinks,
    going_after,
    join,
    manifest_at,
)
from lance_spark.survey.identity import read_identity
from lance_spark.survey.noted_versions import leave_note
from lance_spark.survey.survey import check_gone, confirm_newest, survey, take_survey


@dataclass(frozen=True, repr=False)
class CleanupPlan(Shown):
    """What a cleanup would delete, decided at one moment. Prints as the report of a dry run."""

    _words, _asked = OF_PLANS, ASKED_OF_PLANS

    facts: PlanFacts
    runner: Runner
    now_ns: int
    """When the plan was made or opened, in nanoseconds since the epoch. Its commit window is checked against this."""
    decided: Frame | None = None
    """DECIDED; None for a plan read from a directory."""
    directory: DatasetLocation | None = None
    """Where the candidates are stored, if anywhere."""
    parts: tuple[str, ...] = ()
    shown: Callable[[Frame], Frame] | None = None
    """Converts candidates to what users see, if not the runner's own frame."""

    @property
    def location(self) -> DatasetLocation:
        return self.facts.survey.location

    def candidates(self) -> Frame:
        """The files to delete as CANDIDATES: a DataFrame if there is a session, otherwise an Arrow table."""
        candidates = self._candidates()
        return candidates if self.shown is None else self.shown(candidates)

    def _candidates(self) -> Frame:
        if self.directory is not None:
            return self.runner.flat_map(
                "read the plan", self.parts, partial(_read_candidates, self.directory), CANDIDATES
            )
        return self.runner.map("show the candidates", self.decided, self._to_candidates(), CANDIDATES)

    def _to_candidates(self) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        return partial(sweep.to_candidates, root=self.location.uri, branches=self.facts.survey.branch_names)

    def store(self, place: DatasetLocation | str) -> CleanupPlan:
        """The same plan, stored in a directory: candidates as Parquet, then the document that makes them a plan."""
        directory = locate(place, self.location.storage_options) if isinstance(place, str) else place
        if self.directory is not None:
            copy = partial(_copy_part, self.directory, directory)
            written = self.runner.flat_map("record the plan", self.parts, copy, stored_plans.WRITTEN)
        else:
            save = partial(_save, directory, self._to_candidates())
            written = self.runner.map("store the plan", self.decided, save, stored_plans.WRITTEN)
        parts = tuple(self.runner.collect("store the plan", written)["part"].to_pylist())
        stored_plans.write_document(directory, to_document(self.facts, parts))
        return replace(self, directory=directory, parts=parts)

    def report(self) -> CleanupReport:
        return CleanupReport(
            plan_id=self.facts.id,
            dataset=self.location.uri,
            executed=False,
            planned=self.facts.sums.to_pylist(),
            versions=retention_rules.version_counts(self.facts.survey, self.facts.verdicts, self.facts.branches),
            warnings=self.facts.warnings,
            ran_on=self.runner.name,
        )

    def apply(self, max_deletes_per_second: float | None = None) -> CleanupReport:
        """Delete the candidates, except those that became live since; the report shows the fate of every file.

        Safe to repeat: files that are already gone count as gone. Files that could not be deleted are in the report.
        Then a record stays below ``_cleanup`` of the dataset, or of the branch that is cleaned alone, and the next run
        finishes from it. Raises like ``plan_cleanup`` if the dataset cannot be surveyed again.

        The plan is recorded first, then what streams and merges still need to know about removed versions. Then
        manifests are deleted, then files: after a crash in between, every version that is still listed has all of its
        files. The record keeps what the missing manifests proved, for the next run.
        """
        try:
            return self._apply(max_deletes_per_second)
        finally:
            self.runner.release()

    def _apply(self, max_deletes_per_second: float | None) -> CleanupReport:
        recheck = Recheck(self.facts, self.now_ns)
        now = recheck.look()  # an unreadable store stops the run before anything is written
        unfinished = stored_plans.unfinished(self.location, self.facts.survey.branches) if self.facts.finishes else {}
        # Other records stay: this plan did not know what they prove, and without them their files would wait for days.
        finished = [stored[:2] for name, stored in unfinished.items() if name in self.facts.finishes]
        record = stored_plans.record(self.location, self.facts.id, self.facts.home)
        with unchanged():
            parts = self._recorded(record)
        note_what_goes(self.facts, now)
        if parts is None:
            outcomes = sweep.add_up(self._delete_unrecorded(recheck, max_deletes_per_second))
        else:
            outcomes = sweep.add_up(self._delete(record, parts, recheck, max_deletes_per_second))
        if sweep.FAILED not in outcomes["outcome"].to_pylist():
            if parts is not None:
                tidy_up(self.location, record, parts, outcomes["kind"].to_pylist(), self.runner)
                finished.append((record, parts))
            for directory, names in finished:
                stored_plans.forget(directory, names)
        return replace(self.report(), executed=True, outcomes=outcomes.to_pylist())

    def _recorded(self, record: DatasetLocation) -> tuple[str, ...] | None:
        """The parts of the stored record; None on a full disk, where only deleting makes room for one."""
        try:
            return self.store(record).parts
        except StorageFull:
            files.delete(record, [""])
            return None

    def _delete_unrecorded(self, recheck: Recheck, per_second: float | None) -> pa.Table:
        """OUTCOMES of all candidates, from memory.

        As safe as with a record, since manifests go first: what a crash leaves is named by no version, and waits for
        ``unverified_age``.
        """
        candidates = self.runner.collect("collect the candidates", self._candidates())
        manifests = sweep.is_manifest(candidates)
        first = Deletion(self.location, recheck, per_second)
        outcomes = [*first.of(sweep.in_deletion_order(candidates.filter(manifests)))]
        then = Deletion(self.location, Recheck(self.facts, self.now_ns, manifests_are_done=True), per_second)
        rest = candidates.filter(pc.invert(manifests))
        outcomes += then.of(rest)
        remove_empty_directories(self.location, nested_directories(rest))
        return pa.Table.from_batches(outcomes, sweep.OUTCOMES)

    def _delete(
        self, record: DatasetLocation, parts: Sequence[str], recheck: Recheck, per_second: float | None
    ) -> pa.Table:
        """OUTCOMES of all candidates in a record."""
        files = [part for part in parts if not stored_plans.holds_manifests(part)]
        manifests = [part for part in parts if stored_plans.holds_manifests(part)]
        tables = each(record, partial(stored_plans.read_part, record), manifests)
        rows = pa.concat_tables([CANDIDATES.empty_table(), *(table for table in tables if table is not None)])
        deletion = Deletion(self.location, recheck, per_second)
        outcomes = pa.Table.from_batches(deletion.of(sweep.in_deletion_order(rows)), sweep.OUTCOMES)
        share = None if per_second is None else per_second / max(1, min(self.runner.parallelism, len(files)))
        recheck = Recheck(self.facts, self.now_ns, manifests_are_done=True)
        deletion = Deletion(self.location, recheck, share)
        deleted = self.runner.flat_map("delete files", files, partial(_delete_part, deletion, record), sweep.OUTCOMES)
        return pa.concat_tables([outcomes, self.runner.collect("delete files", deleted).cast(sweep.OUTCOMES)])

    def __str__(self) -> str:
        return str(self.report())

    def _card(self) -> Card:
        stored = () if self.directory is None else (f"stored in {self.directory.uri}",)
        card = self.report()._card()
        return replace(card, what=type(self).__name__, notes=(*card.notes, *stored))


def _save(
    directory: DatasetLocation,
    to_candidates: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    decided: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    return stored_plans.write_parts(directory, to_candidates(decided))


def _copy_part(source: DatasetLocation, target: DatasetLocation, part: str) -> Iterator[pa.RecordBatch]:
    return stored_plans.write_parts(target, _read_candidates(source, part))


def _read_candidates(directory: DatasetLocation, part: str) -> Iterator[pa.RecordBatch]:
    table = stored_plans.read_part(directory, part)
    if table is None:
        raise NotFound(f"Part {part} of the cleanup plan in {directory.uri} is gone.", hint="Make the plan again.")
    yield from table.to_batches()


# --- Planning: survey, judge, mark, list, decide; deletes and writes nothing

_ROWS_OF_A_REQUEST, _ROWS_OF_A_WALK = 4_000, 20_000
"""Number of files below which parallel listing costs more than it saves."""
OPERATION = "cleanup"


def plan_cleanup(
    location: DatasetLocation, policy: CleanupPolicy, engine: Engine, now_ns: int, inventory: Frame | None = None
) -> CleanupPlan:
    """Decide what a cleanup would delete.

    ``now_ns`` is the time that ages are measured from, in nanoseconds since the epoch. ``inventory`` is a frame with
    the columns path, size and last_modified to use instead of listing the store; manifests are always listed. Raises
    Refused, CorruptData, NotFound or StorageFailure for missing or unreadable evidence, and Refused for tags on
    versions that would be removed; see CleanupPolicy.
    """
    check_ours(location, "clean it up")
    clock = RunClock(now_ns)
    survey = take_survey(location, policy.clones, policy.clones_from)
    chosen = retention_rules.chosen_chains(survey, policy)
    runner = engine.for_work(OPERATION, work_of_survey(survey, policy, clock))
    marking = Marking(survey, policy, runner)
    verdicts = tuple(retention_rules.judge(survey, policy, clock, marking.ages(clock)))
    marking.mark_the_rest(verdicts, clock)
    judgement = _judgement(survey, policy, clock, verdicts, whole=inventory is None)
    lister = ListFiles.of(survey, chosen)
    files = _list(survey, runner, lister) if inventory is None else _inventoried(survey, runner, inventory, lister)
    decide = partial(sweep.decide, judgement=judgement)
    decided = runner.keep(runner.match("decide", (files, marking.marks()), decide, sweep.DECIDED, about_rows(survey)))
    facts = PlanFacts(
        id=f"{moment_at(now_ns):%Y%m%dT%H%M%S}-{uuid4().hex[:8]}",
        created_ns=now_ns,
        policy={name: str(value) for name, value in vars(policy).items() if value not in (None, (), {})},
        survey=survey,
        verdicts=verdicts,
        sums=_checked(survey, policy, _sums(runner, survey, decided)),
        clones=policy.clones,
        clones_from=policy.clones_from,
        warnings=tuple(_warnings(survey, policy, now_ns)),
        finishes=marking.finishes,
        commit_window=policy.commit_window,
        branches=tuple(chain.name for chain in chosen.values()) if policy.only_branches else (),
    )
    return CleanupPlan(facts, runner, now_ns, decided)


def open_plan(location: DatasetLocation, directory: DatasetLocation, engine: Engine, now_ns: int) -> CleanupPlan:
    """Open a stored plan. Raises NotFound, CorruptData, and InvalidOption for the plan of another dataset.

    ``now_ns`` is the time that the commit window is checked against again, in nanoseconds since the epoch.
    """
    document = stored_plans.read_document(directory)
    if document.get("dataset") != location.uri:
        raise InvalidOption(
            f"The plan in {directory.uri} is for {document.get('dataset')}, not for {location.uri}.",
            hint="Give the dataset that the plan was made for.",
        )
    facts, parts = from_document(document, location)
    work = work_of_sums(facts.sums)
    return CleanupPlan(facts, engine.for_work(OPERATION, work), now_ns, directory=directory, parts=tuple(parts))


def _judgement(
    survey: Survey, policy: CleanupPolicy, clock: RunClock, verdicts: tuple[retention_rules.Verdict, ...], whole: bool
) -> sweep.Judgement:
    unverified = None if policy.delete_unverified else clock.before(policy.unverified_age)
    if retention_rules.branches_in_quarantine(survey, clock.now_ns, policy.undo_window):
        unverified = 0  # a quarantined manifest may name any of them
    return sweep.Judgement(
        verdicts=verdicts,
        # The remains of a deleted branch may lack files without the listing being incomplete.
        latest={
            index: len(chain.versions) - 1
            for index, chain in survey.owned()
            if chain.has_ref and policy.takes(chain.branch)
        },
        removed_manifests=frozenset(retention_rules.removed_paths(survey, verdicts)),
        started_ns=clock.now_ns,
        unverified_before_ns=unverified,
        sinks=first_sinks(survey),
        bases={
            index: retention_rules.oldest_base(survey, chain, verdicts[index])
            for index, chain in survey.owned()
            if chain.has_ref
        },
        whole_listing=whole,
        listed_roots=tuple(chain.root for chain in survey.chains) if policy.only_branches else None,
    )


def list_all(survey: Survey, runner: Runner) -> Frame:
    """FILES of all files of the dataset."""
    return _list(survey, runner, ListFiles.of(survey))


def _list(survey: Survey, runner: Runner, lister: ListFiles) -> Frame:
    roots = [chain.root for _, chain in survey.owned()]
    worth = _ROWS_OF_A_WALK if survey.location.is_local else _ROWS_OF_A_REQUEST
    # Each range costs a request, or a walk through the directories.
    splits = min(runner.parallelism, 1 + about_files(survey) // worth)
    ranges = tile(roots, splits)
    if lister.wanted is not None and "" not in lister.wanted:
        ranges = clip(ranges, sorted(lister.wanted))
    return runner.flat_map("list files", ranges, lister, FILES)


def _inventoried(survey: Survey, runner: Runner, inventory: Frame, lister: ListFiles) -> Frame:
    """FILES of an inventory and of all manifests: the inventory may be older than a version to remove."""
    directories = [join(chain.root, "_versions") for _, chain in survey.owned()]
    ranges = [KeyRange(f"{directory}/", f"{directory}0") for directory in directories]
    files = runner.map("read the inventory", inventory, lister.inventory, FILES)
    return runner.union([files, runner.flat_map("list manifests", ranges, lister.manifests, FILES)])


@dataclass(frozen=True)
class ListFiles:
    """Lists one range of keys and classifies each file; runs on executors."""

    location: DatasetLocation
    chains: Mapping[str, int]
    """Index of each chain of the dataset by its root."""
    wanted: frozenset[str] | None = None
    """Roots of the chains whose files are wanted; None for all."""

    @classmethod
    def of(cls, survey: Survey, chosen: Mapping[int, Chain] | None = None) -> ListFiles:
        """A lister for the chains of a dataset; yields only files of the chosen ones."""
        chains = {chain.root: index for index, chain in survey.owned()}
        wanted = None if chosen is None else frozenset(chain.root for chain in chosen.values())
        return cls(survey.location, chains, None if wanted == chains.keys() else wanted)

    def __call__(self, part: KeyRange) -> Iterator[pa.RecordBatch]:
        return self._files(list_range(self.location, part))

    def manifests(self, part: KeyRange) -> Iterator[pa.RecordBatch]:
        return (batch.filter(pc.equal(batch["kind"], MANIFEST)) for batch in self(part))

    def inventory(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """FILES from batches of an inventory, without manifests."""
        listings = (listing for batch in batches for listing in sweep.to_listing(batch, self.location.uri).to_batches())
        return (batch.filter(pc.not_equal(batch["kind"], MANIFEST)) for batch in self._files(listings))

    def _files(self, listing: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        roots = Roots(self.chains)
        files = (sweep.to_files(batch, roots, self.chains) for batch in listing if batch.num_rows)
        if self.wanted is None:
            return files
        chosen = pa.array([self.chains[root] for root in sorted(self.wanted)], pa.int32())
        return (batch.filter(pc.is_in(batch["chain"], value_set=chosen)) for batch in files)


def _sums(runner: Runner, survey: Survey, decided: Frame) -> pa.Table:
    sums = runner.map("sum up", decided, partial(sweep.sum_up, branches=survey.branch_names), sweep.SUMS)
    return sweep.add_up(runner.collect("sum up", sums).cast(sweep.SUMS))


def _checked(survey: Survey, policy: CleanupPolicy, sums: pa.Table) -> pa.Table:
    """The sums without files of branches and versions that were removed while their files were listed.

    Raises CorruptData if the listing lacks files of a version that is still the newest one, and Conflict if that
    version exists and is no longer the newest.
    """
    is_lost = pc.equal(sums["action"], sweep.MISSING)
    lost = sums.filter(is_lost).to_pylist()
    if lost:
        branches = {row["branch"] for row in lost}
        latest = [
            manifest_at(survey, chain, len(chain.versions) - 1)
            for _, chain in survey.owned()
            if chain.has_ref and chain.name in branches
        ]
        roots = {manifest.root for manifest in confirm_newest(survey, policy.clones, policy.clones_from, latest)}
        names = {chain.name for _, chain in survey.owned() if chain.root in roots}
        lost = [row for row in lost if row["branch"] in names]
    if lost:
        count = sum(row["files"] for row in lost)
        linked = linked_directories(survey.location, map(branch_root, survey.branches))
        if linked:
            raise Refused(
                f"{linked[0]} of {survey.location.uri} is a symbolic link, and what is behind it may belong to another "
                "dataset, too. Nothing was deleted.",
                hint=f"Move the directory back, or mount it there: mount --bind TARGET {linked[0]}.",
            )
        raise CorruptData(
            f"{counted(count, 'file')} that the latest version of '{lost[0]['branch']}' names "
            f"{'is' if count == 1 else 'are'} missing from the listing of {survey.location.uri}, "
            f"such as {lost[0]['example']}.",
            hint="Nothing was deleted. The listing is incomplete, or the dataset is damaged.",
        )
    return sums.filter(pc.invert(is_lost))


def _warnings(survey: Survey, policy: CleanupPolicy, now_ns: int) -> Iterator[str]:
    """What a user should know about the dataset and the policy."""
    deleted = {change.name for change in kept_branches(survey.changes)}
    for _, chain in survey.owned():
        if not chain.has_ref and chain.name in deleted:
            yield (
                f"Branch '{chain.name}' was deleted and can be restored, so it was kept. lance-git expire-refs "
                "--execute removes its files in time."
            )
        elif not chain.has_ref:
            yield (
                f"tree/{chain.branch} has versions but no ref: a branch being created, or the remains of a deleted "
                "one. It was kept."
            )
    uris = {location.uri for location in survey.repositories}
    for tag, uri in survey.recorded_clones.items():
        if locate(uri).uri not in uris:
            yield f"The clone at {uri} is gone; delete tag '{tag}' with force to release all that is kept for it."
    for branch in sorted(
        branch or MAIN for branch in retention_rules.branches_in_quarantine(survey, now_ns, policy.undo_window)
    ):
        yield (
            f"A repair quarantined a manifest of '{branch}'. Until the undo window ends, all versions of the branch "
            "stay, and all files that no version names: the manifest may need them."
        )
    if not policy.commit_window:
        yield (
            "The commit window is 0, so versions that a running job may need are not kept: safe only while no other "
            "process commits."
        )
    yield from retention_rules.unused_rules(survey, policy)


# --- Estimating the work of a cleanup before its first stage
# Pure.

_BYTES_PER_FILE = 60
"""Minimum size of a file's entry in a manifest."""


def work_of_survey(survey: Survey, policy: CleanupPolicy, clock: RunClock) -> Work:
    """The work of planning and of carrying the plan out; at most, all files are removed.

    Versions whose age only their manifest shows count as kept: every manifest that is read is counted.
    """
    return _work(_manifests_to_read(survey, policy, clock), survey)


def work_of_all(survey: Survey) -> Work:
    """The work of reading every manifest and listing every file."""
    return _work((manifest for chain in survey.chains for manifest in chain.files), survey)


def _work(to_read: Iterable[VersionFile], survey: Survey) -> Work:
    sizes = [manifest.size for manifest in to_read]
    return Work(manifests=len(sizes), manifest_bytes=sum(sizes), files=about_rows(survey))


def work_of_sums(sums: pa.Table) -> Work:
    """The work of carrying out a plan with these SUMS."""
    return Work(files=sum(row["files"] for row in sums.to_pylist() if row["action"] == sweep.DELETE))


def about_rows(survey: Survey) -> int:
    """The approximate number of files and marks, estimated from the sizes of the latest manifests."""
    return 2 * (_named(survey) + sum(2 * len(chain.files) for _, chain in survey.owned()))


def about_files(survey: Survey) -> int:
    """The approximate number of files: those of the latest versions, plus three for every version."""
    return _named(survey) + sum(3 * len(chain.files) for _, chain in survey.owned())


def _named(survey: Survey) -> int:
    return sum(chain.versions[-1].size // _BYTES_PER_FILE for _, chain in survey.owned() if chain.versions)


def _manifests_to_read(survey: Survey, policy: CleanupPolicy, clock: RunClock) -> Iterator[VersionFile]:
    """The manifests that Marking reads, or more: of unknown age, kept, or needed to prove young files unused."""
    unknown = retention_rules.positions_of_unknown_age(survey, policy, clock)
    # Only the plan knows all ages, and so whether tags forbid the cleanup.
    verdicts = retention_rules.judge(survey, replace(policy, error_if_tagged_old_versions=False, tags={}), clock, {})
    since = retention_rules.proofs_since(policy, clock)
    for index, (chain, verdict) in enumerate(zip(survey.chains, verdicts, strict=True)):
        asked = frozenset(unknown.get(index, ()))
        for position, (manifest, kept) in enumerate(zip(chain.files, verdict.kept, strict=True)):
            if kept or position in asked or manifest.modified_ns >= since:
                yield manifest


# --- Marking: reading manifests into frames of marks

_TIMES, _READS_FROM = ("chain", "first", "timestamp_ns"), ["chain", "first", "last", "foreign"]


class Marking:
    """Reads manifests in two steps: those of unknown age, then the rest of those that are needed."""

    def __init__(self, survey: Survey, policy: CleanupPolicy, runner: Runner, lenient: bool = False) -> None:
        """``lenient`` is for callers that delete nothing: base paths that lead nowhere are collected, not refused."""
        self._survey, self._policy, self._runner, self._lenient = survey, policy, runner, lenient
        self.lost_bases: dict[str, str] = {}
        """Base paths that lead nowhere, and the reason."""
        self._frames: list[Frame] = []
        self._read: dict[int, set[int]] = {}
        self._foreign: list[dict[str, Any]] = []  # which versions read from base paths outside of all repositories
        self.finishes: tuple[str, ...] = ()
        """Names of the unfinished plans whose evidence is among the marks."""
        self._known_bases = {locate(uri, survey.location.storage_options).uri for uri in policy.known_bases}
        # Versions of a clone that was moved name its former place, where nothing was of the dataset being cleaned.
        known = each(survey.location, read_identity, survey.repositories[1:])
        self._known_bases |= {uri for clone in known if clone is not None for uri in clone.former}

    def ages(self, clock: RunClock) -> retention_rules.Ages:
        """Commit times of the versions that age decides about, except those that are gone by now."""
        return self._mark("read manifests", retention_rules.positions_of_unknown_age(self._survey, self._policy, clock))

    def mark_the_rest(self, verdicts: Sequence[retention_rules.Verdict], clock: RunClock) -> None:
        """Mark the files of all kept versions, and of removed ones that may prove a young file unused."""
        since = retention_rules.proofs_since(self._policy, clock)
        positions: dict[int, list[int]] = {}
        for index, (chain, verdict) in enumerate(zip(self._survey.chains, verdicts, strict=True)):
            known = self._read.get(index, set())
            unread = [
                position
                for position, (manifest, kept) in enumerate(zip(chain.files, verdict.kept, strict=True))
                if position not in known and (kept or manifest.modified_ns >= since)
            ]
            if unread:
                positions[index] = unread
        self._mark("mark files", positions)
        self._check_bases(verdicts)

    def marks(self) -> Frame:
        """All marks, including the evidence of unfinished runs."""
        unfinished = stored_plans.unfinished(self._survey.location, self._survey.branches)
        self.finishes = tuple(name for name, plan in unfinished.items() if self._takes_all(plan.branches))
        parts = [(plan.directory, part) for plan in unfinished.values() for part in plan.parts]
        frames = list(self._frames)
        if parts or not frames:
            frames.append(self._runner.flat_map("read unfinished plans", parts, _leftovers, MARKS))
        return self._runner.union(frames)

    def _takes_all(self, branches: Sequence[str]) -> bool:
        """Whether a run with this policy deletes everything that a plan for some branches (none for all) would."""
        if not self._policy.only_branches:
            return True
        return bool(branches) and all(self._policy.takes(branch_or_none(branch)) for branch in branches)

    def _mark(self, stage: str, positions: dict[int, list[int]]) -> dict[int, dict[int, int]]:
        spans = reference_rules.cut_spans(self._survey, positions, 2 * self._runner.parallelism, self._read)
        if not spans:
            return {}
        frame = self._runner.keep(self._runner.flat_map(stage, spans, MarkSpan(self._survey), MARKS))
        about = self._runner.collect(stage, self._runner.map(stage, frame, _about_versions, MARKS))
        self._foreign += about.filter(pc.is_valid(about["foreign"])).select(_READS_FROM).to_pylist()
        self._frames.append(frame)
        for chain, read in positions.items():
            self._read.setdefault(chain, set()).update(read)
        times: dict[int, dict[int, int]] = {}
        for chain, position, stamp in zip(*(about[name].to_pylist() for name in _TIMES), strict=True):
            if stamp is not None:
                times.setdefault(chain, {})[position] = stamp
        self._check_gone(positions, times)
        return times

    def _check_gone(self, asked: Mapping[int, Sequence[int]], read: Mapping[int, Collection[int]]) -> None:
        """Check that missing manifests went with their branch or another cleanup, so that they protect nothing."""
        gone = [
            manifest_at(self._survey, self._survey.chains[index], at)
            for index, positions in asked.items()
            for at in positions
            if at not in read.get(index, ())
        ]
        check_gone(self._survey, self._policy.clones, self._policy.clones_from, gone)

    def _check_bases(self, verdicts: Sequence[retention_rules.Verdict]) -> None:
        """Raise Refused for a base path that leads nowhere if a kept version reads from it."""
        reads = ((row["foreign"], verdicts[row["chain"]].kept[row["first"] : row["last"] + 1]) for row in self._foreign)
        for base in sorted({base for base, kept in reads if any(kept)}):
            if (why := self._why_lost(base)) is None:
                continue
            if not self._lenient:
                raise _unknown_base(base, why)
            self.lost_bases[base] = why

    def _why_lost(self, base: str) -> str | None:
        """Why a base path leads nowhere; None if it leads somewhere or is known."""
        try:
            directory = locate(base, self._survey.location.storage_options)
        except InvalidOption as problem:
            return problem.message
        return None if self._is_known(directory.uri) or files.exists(directory) else "nothing is there"

    def _is_known(self, uri: str) -> bool:
        """Whether the user named the directory or one above it: branches are below their dataset."""
        return any(is_within(uri, known) for known in self._known_bases)


def _unknown_base(base: str, why: str) -> Refused:
    return Refused(
        f"A version has files in the base path '{base}', but {why}.",
        hint=hints.of(
            "Nothing was deleted. If the dataset was moved, this is its former place: relocate first (",
            hints.RELOCATE,
            "). Versions from before the move name it still. If you know the base and nothing there belongs to this "
            "dataset, name it: ",
            hints.known_base(base),
            ".",
        ),
    )


@dataclass(frozen=True)
class MarkSpan:
    """Reads spans of versions and marks the files they name; runs on executors."""

    survey: Survey

    def __call__(self, span: ChainSpan) -> Iterator[pa.RecordBatch]:
        """MARKS of one span. A missing manifest has no marks: the caller finds out why it is missing.

        Raises CorruptData for an unreadable manifest.
        """
        chain = self.survey.chains[span.chain]
        repository = self.survey.repositories[chain.repository]
        paths = [chain.path(chain.files[position]) for position in span.positions]
        contents = zip(span.positions, read_manifests(repository, paths), strict=True)
        present = ((position, content) for position, content in contents if content is not None)
        yield from reference_rules.mark_span(chain, span.chain, present, KeyResolver(self.survey, os.path.realpath))


def _leftovers(stored: tuple[DatasetLocation, str]) -> Iterator[pa.RecordBatch]:
    """MARKS from one stored part (directory, name): files that an unfinished run proved old."""
    candidates = stored_plans.read_part(*stored)
    if candidates is None:
        return
    for batch in candidates.filter(candidates["verified"]).to_batches():
        yield reference_rules.leftover_marks(batch["key"], batch["local"])


def _about_versions(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.filter(pc.is_null(batch["key"]))


# --- Deleting a recorded plan: manifests, then files, then empty directories
# Refs and manifests are read again before each batch. Files that became live since the mark stay.

_NESTED = frozenset({INDEX, BLOB})
"""Kinds of files with directories of their own."""
_DIRECTORIES = pa.schema([("directory", pa.string())])


class Recheck:
    """Looks again before each batch for files that became live; reads each new manifest only once.

    Threads share one instance. A copy in another process starts with nothing read.
    """

    def __init__(
        self, facts: PlanFacts, now_ns: int, manifests_are_done: bool = False, rest: float | None = None
    ) -> None:
        """``manifests_are_done`` means that a manifest that is still listed keeps its files; see ``newly_live``.

        ``rest`` is how long one look is valid, in seconds. None means as long as the look took: then a dataset with
        very many versions spends at most half of the time looking, and any other one looks before every batch.
        """
        self._given = facts, now_ns, manifests_are_done, rest
        self._window_ns = RunClock(now_ns).before(facts.commit_window) if facts.commit_window else None
        self._lock = threading.Lock()
        self._keys_by_span: dict[object, frozenset[str]] = {}
        self._good_until = float("-inf")
        self._live: frozenset[str] = frozenset()
        self._seen = facts.survey

    def __reduce__(self) -> tuple[type[Recheck], tuple[PlanFacts, int, bool, float | None]]:
        return Recheck, self._given

    def live_keys(self) -> frozenset[str]:
        """Keys of files named by versions that are new since the mark, or were to be removed."""
        rest = self._given[-1]
        with self._lock:
            began = time.monotonic()
            if began >= self._good_until:
                self._look_again()
                now = time.monotonic()
                self._good_until = now + (now - began if rest is None else rest)
            return self._live

    def look(self) -> Survey:
        """The dataset as it is now, from a look that is still valid."""
        self.live_keys()
        return self._seen

    def _look_again(self) -> None:
        facts, _, manifests_are_done, _ = self._given
        now = survey(facts.survey.location, facts.clones, facts.clones_from)
        for span in sweep.newly_live(facts.survey, now, facts.verdicts, manifests_are_done, self._window_ns):
            known = now.chains[span.chain], span.positions
            if known not in self._keys_by_span:
                self._keys_by_span[known] = _keys_of(now, span, facts)
        self._live = frozenset().union(*self._keys_by_span.values())
        self._seen = now


def _keys_of(now: Survey, span: ChainSpan, facts: PlanFacts) -> frozenset[str]:
    """The files that the versions of a span name, and their own manifests, as keys; see KeyResolver."""
    chain = now.chains[span.chain]
    marks = pa.Table.from_batches(MarkSpan(now)(span), MARKS)
    read = frozenset(marks.filter(pc.is_valid(marks["timestamp_ns"]))["first"].to_pylist())
    gone = [manifest_at(now, chain, at) for at in span.positions if at not in read]
    check_gone(now, facts.clones, facts.clones_from, gone)
    own = () if chain.repository else (chain.path(chain.files[at]) for at in span.positions)
    return frozenset([*pc.drop_null(marks["key"]).to_pylist(), *own])


@dataclass(frozen=True)
class Deletion:
    """Deletes candidates in batches at a limited rate, after a look before each batch. It is sent to executors."""

    location: DatasetLocation
    recheck: Recheck
    per_second: float | None

    def of(self, candidates: pa.Table) -> Iterator[pa.RecordBatch]:
        """OUTCOMES of the candidates, in their order. Manifests go oldest first: no version hint points into a gap."""
        pace = Pace(self.per_second)
        for rows in candidates.combine_chunks().to_batches(max_chunksize=BATCH):
            time.sleep(pace.wait(time.monotonic(), rows.num_rows))
            yield self._delete(rows, self.recheck.live_keys())
        # Pay for the batch before the next part begins, or the first batch of every part would be free.
        time.sleep(pace.wait(time.monotonic(), 0))

    def _delete(self, rows: pa.RecordBatch, live: frozenset[str]) -> pa.RecordBatch:
        columns = (rows[name].to_pylist() for name in ("file", "key", "local"))
        ready = [
            file for file, key, local in zip(*columns, strict=True) if key not in live and ANYWHERE + local not in live
        ]
        deleted = delete_batch(self.location, ready)
        return sweep.outcome_rows(rows, deleted.deleted, deleted.gone, dict(deleted.failed), deleted.denied)


def _delete_part(deletion: Deletion, record: DatasetLocation, part: str) -> Iterator[pa.RecordBatch]:
    """OUTCOMES of the files of one part; none if another run has finished the plan."""
    rows = stored_plans.read_part(record, part)
    if rows is not None:
        yield from deletion.of(rows)


def tidy_up(
    location: DatasetLocation, record: DatasetLocation, parts: Sequence[str], kinds: Iterable[str], runner: Runner
) -> None:
    """Remove directories of indexes and blobs that deletion left empty, on local disks.

    ``kinds`` are the kinds of the deleted files.
    """
    if not location.is_local or _NESTED.isdisjoint(kinds):
        return
    emptied = runner.flat_map("tidy up", parts, partial(_directories, record), _DIRECTORIES)
    remove_empty_directories(location, runner.collect("tidy up", emptied)["directory"].to_pylist())


def _directories(record: DatasetLocation, part: str) -> Iterator[pa.RecordBatch]:
    candidates = stored_plans.read_part(record, part)
    if candidates is None:
        return  # another run has finished this one's work, and tidied up
    yield pa.record_batch([pa.array(nested_directories(candidates), pa.string())], _DIRECTORIES)


def nested_directories(candidates: pa.Table) -> list[str]:
    """The directories of indexes and blobs among the candidates, sorted."""
    nested = candidates.filter(pc.is_in(candidates["kind"], value_set=pa.array(sorted(_NESTED))))
    named = zip(nested["file"].to_pylist(), nested["key"].to_pylist(), strict=True)
    return sorted({directory for file, key in named for directory in _above(file, key)})


def _above(file: str, key: str) -> Iterator[str]:
    """The directory of a file and its parents, up to the index's directory, which is the key."""
    directory = file.rpartition("/")[0]
    yield directory
    while directory.startswith(f"{key}/"):
        directory = directory.rpartition("/")[0]
        yield directory


# --- Notes for streams about versions to be deleted


def note_what_goes(facts: PlanFacts, now: Survey) -> None:
    """Record what only the removed versions tell: to streams their batches, to merges what they did to columns.

    Makes no request if no stream is behind, and no version is left with which a merge could compare. ``now`` has the
    refs at the start of deletion: a plan may be days old. A query that starts later starts with the newest version,
    which stays.
    """
    location = facts.survey.location
    for index, chain in facts.survey.owned():
        removed = facts.verdicts[index].removed
        sink = first_sink(now.refs, chain.branch)
        going = [] if sink is None else [*going_after(chain, removed, sink)]
        if sink is not None and going:
            leave_note(location, chain.branch, sink, going)
        base = retention_rules.oldest_base(now, chain, facts.verdicts[index])
        going = [*going_after(chain, removed, base)]
        if chain.has_ref and going:
            with suppress(StorageFull):  # only deleting makes room; a merge counts as unknown what is not recorded
                keep_columns(location, chain.branch, going, base)
