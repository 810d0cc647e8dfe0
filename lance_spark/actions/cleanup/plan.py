"""Planning a cleanup: survey, judge, mark, list, decide. Nothing is deleted, and nothing is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.actions.cleanup.cleanup_plan import CleanupPlan
from lance_spark.actions.cleanup.evidence import confirm_newest, take_survey
from lance_spark.actions.cleanup.extent import about_files, about_rows, work_of_sums, work_of_survey
from lance_spark.actions.cleanup.mark import Marking
from lance_spark.cleanup.candidates import SUMS, add_up, sum_up
from lance_spark.cleanup.document import PlanFacts, from_document
from lance_spark.cleanup.evidence import manifest_at
from lance_spark.cleanup.inventory import to_listing
from lance_spark.cleanup.policy import CleanupPolicy
from lance_spark.cleanup.retention import (
    RunClock,
    Verdict,
    branches_in_quarantine,
    chosen_chains,
    judge,
    removed_paths,
)
from lance_spark.cleanup.stream_tags import first_sinks
from lance_spark.cleanup.survey import Chain, Survey, join
from lance_spark.cleanup.sweep import DECIDED, FILES, MISSING, Judgement, decide, to_files
from lance_spark.errors import CorruptData, InvalidOption
from lance_spark.layout.file_kinds import MANIFEST, Roots
from lance_spark.layout.key_ranges import KeyRange, clip, tile
from lance_spark.location import DatasetLocation
from lance_spark.refs.names import MAIN
from lance_spark.refs.reflog import kept_branches
from lance_spark.runner.interface import Engine, Frame, Runner
from lance_spark.show.moments import moment_at
from lance_spark.store import plans
from lance_spark.store.listing import list_range
from lance_spark.store.uri import locate

_ROWS_OF_A_REQUEST, _ROWS_OF_A_WALK = 4_000, 20_000
"""Files below which listing them side by side costs more than it saves."""
OPERATION = "cleanup"


def plan_cleanup(
    location: DatasetLocation, policy: CleanupPolicy, engine: Engine, now_ns: int, inventory: Frame | None = None
) -> CleanupPlan:
    """Decide what a cleanup would delete.

    ``now_ns`` is the time, nanoseconds since the epoch, by which ages are counted. ``inventory`` is a frame with the
    columns path, size and last_modified to use instead of listing the store; manifests are listed in any case.
    Raises Refused, CorruptData, NotFound or StorageFailure where evidence is missing or cannot be understood, and
    Refused for tags on versions that would go; see CleanupPolicy.
    """
    clock = RunClock(now_ns)
    survey = take_survey(location, policy.clones, policy.clones_from)
    chosen = chosen_chains(survey, policy)
    runner = engine.for_work(OPERATION, work_of_survey(survey, policy, clock))
    marking = Marking(survey, policy, runner)
    verdicts = tuple(judge(survey, policy, clock, marking.ages(clock)))
    marking.mark_the_rest(verdicts, clock)
    judgement = _judgement(survey, policy, clock, verdicts, whole=inventory is None)
    lister = ListFiles.of(survey, chosen)
    files = _list(survey, runner, lister) if inventory is None else _inventoried(survey, runner, inventory, lister)
    deciding = partial(decide, judgement=judgement)
    decided = runner.keep(runner.match("decide", (files, marking.marks()), deciding, DECIDED, about_rows(survey)))
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
    """A plan that was stored. Raises NotFound, CorruptData, and InvalidOption for the plan of another dataset.

    ``now_ns`` is the time, nanoseconds since the epoch, against which the commit window is held again.
    """
    document = plans.read_document(directory)
    if document.get("dataset") != location.uri:
        raise InvalidOption(
            f"The plan in {directory.uri} is for {document.get('dataset')}, not for {location.uri}.",
            hint="Give the dataset the plan was made for.",
        )
    facts, parts = from_document(document, location)
    runner = engine.for_work(OPERATION, work_of_sums(facts.sums))
    return CleanupPlan(facts, runner, now_ns, directory=directory, parts=tuple(parts))


def _judgement(
    survey: Survey, policy: CleanupPolicy, clock: RunClock, verdicts: tuple[Verdict, ...], whole: bool
) -> Judgement:
    unverified = None if policy.delete_unverified else clock.before(policy.unverified_age)
    if branches_in_quarantine(survey, clock.now_ns, policy.undo_window):
        unverified = 0  # a manifest that was moved away may name any of them
    return Judgement(
        verdicts=verdicts,
        # What a deleted branch left may lack files; it says nothing about the listing.
        latest={
            index: len(chain.versions) - 1
            for index, chain in survey.owned()
            if chain.has_ref and policy.takes(chain.branch)
        },
        removed_manifests=frozenset(removed_paths(survey, verdicts)),
        started_ns=clock.now_ns,
        unverified_before_ns=unverified,
        sinks=first_sinks(survey),
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
    """FILES of an inventory, and of all manifests: an inventory may be older than a version that goes."""
    directories = [join(chain.root, "_versions") for _, chain in survey.owned()]
    ranges = [KeyRange(f"{directory}/", f"{directory}0") for directory in directories]
    files = runner.map("read the inventory", inventory, lister.inventory, FILES)
    return runner.union([files, runner.flat_map("list manifests", ranges, lister.manifests, FILES)])


@dataclass(frozen=True)
class ListFiles:
    """Lists one range of keys and tells what each file is; runs on executors."""

    location: DatasetLocation
    chains: Mapping[str, int]
    """Index of each chain of the dataset by its root."""
    wanted: frozenset[str] | None = None
    """Roots of the chains whose files are wanted; None for all."""

    @classmethod
    def of(cls, survey: Survey, chosen: Mapping[int, Chain] | None = None) -> ListFiles:
        """For the chains of a dataset; only files of the chosen ones come out."""
        chains = {chain.root: index for index, chain in survey.owned()}
        wanted = None if chosen is None else frozenset(chain.root for chain in chosen.values())
        return cls(survey.location, chains, None if wanted == chains.keys() else wanted)

    def __call__(self, part: KeyRange) -> Iterator[pa.RecordBatch]:
        """FILES of one range."""
        return self._files(list_range(self.location, part))

    def manifests(self, part: KeyRange) -> Iterator[pa.RecordBatch]:
        """FILES of the manifests in one range."""
        return (batch.filter(pc.equal(batch["kind"], MANIFEST)) for batch in self(part))

    def inventory(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """FILES from batches of an inventory, except for manifests."""
        listings = (listing for batch in batches for listing in to_listing(batch, self.location.uri).to_batches())
        return (batch.filter(pc.not_equal(batch["kind"], MANIFEST)) for batch in self._files(listings))

    def _files(self, listing: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        roots = Roots(self.chains)
        files = (to_files(batch, roots, self.chains) for batch in listing if batch.num_rows)
        if self.wanted is None:
            return files
        chosen = pa.array([self.chains[root] for root in sorted(self.wanted)], pa.int32())
        return (batch.filter(pc.is_in(batch["chain"], value_set=chosen)) for batch in files)


def _sums(runner: Runner, survey: Survey, decided: Frame) -> pa.Table:
    sums = runner.map("sum up", decided, partial(sum_up, branches=survey.branch_names), SUMS)
    return add_up(runner.collect("sum up", sums).cast(SUMS))


def _checked(survey: Survey, policy: CleanupPolicy, sums: pa.Table) -> pa.Table:
    """The sums without files of branches and versions that went while their files were listed.

    Raises CorruptData for files that the listing lacks although the version that names them is still the newest one,
    Conflict if the version is there and is no longer the newest.
    """
    is_lost = pc.equal(sums["action"], MISSING)
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
        raise CorruptData(
            f"{count} files that the latest version of '{lost[0]['branch']}' names are not in the listing of "
            f"{survey.location.uri}, such as {lost[0]['example']}.",
            hint="Nothing was deleted. The listing is not complete, or the dataset is damaged.",
        )
    return sums.filter(pc.invert(is_lost))


def _warnings(survey: Survey, policy: CleanupPolicy, now_ns: int) -> Iterator[str]:
    """What a user should know about the dataset, and about the policy."""
    deleted = {change.name for change in kept_branches(survey.changes)}
    for _, chain in survey.owned():
        if not chain.has_ref and chain.name in deleted:
            yield (
                f"Branch '{chain.name}' was deleted and can be restored. Kept: lance-git expire-refs --execute takes "
                "its files in time."
            )
        elif not chain.has_ref:
            yield (
                f"tree/{chain.branch} has versions but no ref: a branch in the making, or what is left of a deleted "
                "one. Kept."
            )
    uris = {location.uri for location in survey.repositories}
    for tag, uri in survey.recorded_clones.items():
        if locate(uri).uri not in uris:
            yield f"The clone at {uri} is gone; what tag '{tag}' protects for it can go once you delete the tag."
    for branch in sorted(branch or MAIN for branch in branches_in_quarantine(survey, now_ns, policy.undo_window)):
        yield (
            f"A repair moved a manifest of '{branch}' away. Until the undo window ends, all versions of the branch "
            "stay, and all files that no version names: the manifest may need them."
        )
    if not policy.commit_window:
        yield (
            "The commit window is 0, so versions that a job under way may need are not kept: safe only while nobody "
            "else commits."
        )
