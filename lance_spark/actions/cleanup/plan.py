"""Planning a cleanup: survey, judge, mark, list, decide. Nothing is deleted; nothing is written but a stored plan."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.actions.cleanup.runner import Frame, Runner
from lance_spark.actions.cleanup.stages import Inspect, Leftovers, ListFiles, SaveCandidates
from lance_spark.cleanup.candidates import CANDIDATES, SUMS, sum_up, to_candidates, total
from lance_spark.cleanup.decide import DECIDED, FILES, MISSING, Judgement, decide
from lance_spark.cleanup.document import PlanFacts, from_document, to_document
from lance_spark.cleanup.keep import (
    CLOCK_MARGIN,
    Ages,
    Moment,
    Verdict,
    check_evidence,
    judge,
    positions_of_unknown_age,
)
from lance_spark.cleanup.marks import MARKS, Run, cut_runs
from lance_spark.cleanup.policy import CleanupPolicy
from lance_spark.cleanup.ranges import tile
from lance_spark.cleanup.report import CleanupReport, sums_rows
from lance_spark.cleanup.survey import Survey
from lance_spark.errors import CorruptData, InvalidOption, NotFound, Refused
from lance_spark.location import DatasetLocation
from lance_spark.store import files, plans
from lance_spark.store.survey import survey
from lance_spark.store.uri import locate


@dataclass(frozen=True)
class CleanupPlan:
    """What a cleanup would delete, as it was decided at one moment. Printing it shows the report of a dry run."""

    facts: PlanFacts
    runner: Runner
    decided: Frame | None = None
    """DECIDED; None for a plan that was read from a directory."""
    directory: DatasetLocation | None = None
    """Where the candidates are stored, if they are."""
    parts: tuple[str, ...] = ()

    @property
    def location(self) -> DatasetLocation:
        """The dataset."""
        return self.facts.survey.location

    def candidates(self) -> Frame:
        """The files to delete as CANDIDATES: a DataFrame on Spark, an Arrow table without."""
        if self.directory is not None:
            return self.runner.flat_map(
                "read the plan", self.parts, partial(_read_candidates, self.directory), CANDIDATES
            )
        return self.runner.map(
            "show the candidates",
            self.decided,
            partial(to_candidates, root=self.location.uri, branches=branch_names(self.facts.survey)),
            CANDIDATES,
        )

    def store(self, directory: DatasetLocation) -> CleanupPlan:
        """The same plan, stored in a directory: candidates as Parquet, then the document that makes them a plan."""
        if self.directory is not None:
            parts = tuple(self._copied_to(directory))
        else:
            save = SaveCandidates(directory, self.location.uri, branch_names(self.facts.survey))
            written = self.runner.map("store the plan", self.decided, save, plans.WRITTEN)
            parts = tuple(self.runner.collect("store the plan", written)["part"].to_pylist())
        plans.write_document(directory, to_document(self.facts, parts))
        return replace(self, directory=directory, parts=parts)

    def _copied_to(self, directory: DatasetLocation) -> list[str]:
        assert self.directory is not None
        copy = partial(_copy_part, self.directory, directory)
        written = self.runner.flat_map("record the plan", self.parts, copy, plans.WRITTEN)
        names: list[str] = self.runner.collect("record the plan", written)["part"].to_pylist()
        return names

    def report(self) -> CleanupReport:
        """The report of a dry run."""
        return CleanupReport(
            plan_id=self.facts.id,
            dataset=self.location.uri,
            executed=False,
            planned=sums_rows(self.facts.sums),
            versions=version_counts(self.facts.survey, self.facts.verdicts),
            warnings=warnings(self.facts.survey),
        )

    def __str__(self) -> str:
        return str(self.report())


def plan_cleanup(
    location: DatasetLocation, policy: CleanupPolicy, runner: Runner, inventory: Frame | None = None
) -> CleanupPlan:
    """Decide what a cleanup would delete. ``inventory`` is a frame of LISTING to use instead of listing the store.

    Raises Refused, CorruptData, NotFound or StorageFailure where evidence is missing or cannot be understood, and
    Refused for tags on versions that would go; see CleanupPolicy.
    """
    moment = Moment(time.time_ns())
    seen = survey(location, policy.clones, policy.clones_from)
    check_evidence(seen)
    marking = _Marking(seen, policy, runner)
    verdicts = tuple(judge(seen, policy, moment, marking.ages(moment)))
    marking.mark_the_rest(verdicts, moment)
    judgement = _judgement(seen, policy, moment, verdicts, whole=inventory is None)
    decided = _decided(seen, runner, judgement, marking.marks(), inventory)
    sums = _sums(runner, seen, decided)
    _check_complete(seen, sums)
    facts = PlanFacts(
        id=f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime(moment.now_ns / 1e9))}-{uuid4().hex[:8]}",
        created_ns=moment.now_ns,
        policy=_described(policy),
        survey=seen,
        verdicts=verdicts,
        sums=sums,
        clones=policy.clones,
        clones_from=policy.clones_from,
    )
    return CleanupPlan(facts, runner, decided)


def open_plan(location: DatasetLocation, directory: DatasetLocation, runner: Runner) -> CleanupPlan:
    """A plan that was stored. Raises NotFound, CorruptData, and InvalidOption for the plan of another dataset."""
    document = plans.read_document(directory)
    if document.get("dataset") != location.uri:
        raise InvalidOption(
            f"The plan in {directory.uri} is for {document.get('dataset')}, not for {location.uri}.",
            hint="Give the dataset the plan was made for.",
        )
    facts, parts = from_document(document, location)
    return CleanupPlan(facts, runner, directory=directory, parts=tuple(parts))


class _Marking:
    """Reads manifests in two steps: those whose age is not known, then the rest of those that are needed."""

    def __init__(self, seen: Survey, policy: CleanupPolicy, runner: Runner) -> None:
        self._seen, self._policy, self._runner = seen, policy, runner
        self._frames: list[Frame] = []
        self._read: dict[int, set[int]] = {}
        self._known_bases = {locate(uri, seen.location.storage_options).uri for uri in policy.known_bases}

    def ages(self, moment: Moment) -> Ages:
        """Commit times of the versions whose age decides."""
        return self._mark("read manifests", positions_of_unknown_age(self._seen, self._policy, moment))

    def mark_the_rest(self, verdicts: Sequence[Verdict], moment: Moment) -> None:
        """Mark what all kept versions name, and removed ones that may name a file too young to go without a proof.

        A file is older than every manifest that names it. So a removed manifest that is old enough itself names only
        files that go anyway, and is not read.
        """
        young = None if self._policy.delete_unverified else moment.before(self._policy.unverified_age + CLOCK_MARGIN)
        wanted: dict[int, list[int]] = {}
        for index, (chain, verdict) in enumerate(zip(self._seen.chains, verdicts, strict=True)):
            known = self._read.get(index, set())
            found = [
                position
                for position, (manifest, kept) in enumerate(zip(chain.files, verdict.kept, strict=True))
                if position not in known and (kept or (young is not None and manifest.modified_ns >= young))
            ]
            if found:
                wanted[index] = found
        self._mark("mark files", wanted)

    def marks(self) -> Frame:
        """All marks, with the evidence that unfinished runs left."""
        left = [
            (directory, part)
            for directory in plans.records(self._seen.location)
            for part in plans.read_document(directory).get("parts", ())
        ]
        frames = list(self._frames)
        if left or not frames:
            frames.append(self._runner.flat_map("read unfinished plans", left, _leftovers, MARKS))
        return self._runner.union(frames)

    def _mark(self, stage: str, positions: dict[int, list[int]]) -> dict[int, dict[int, int]]:
        runs: list[Run] = cut_runs(self._seen, positions, 2 * self._runner.parallelism)
        if not runs:
            return {}
        frame = self._runner.keep(self._runner.flat_map(stage, runs, Inspect(self._seen), MARKS))
        about = self._runner.map(stage, frame, _about_versions, MARKS)
        found = self._runner.collect(stage, about)
        self._check_bases(found)
        self._frames.append(frame)
        for chain, read in positions.items():
            self._read.setdefault(chain, set()).update(read)
        times: dict[int, dict[int, int]] = {}
        for chain, position, stamp in zip(*(found[name].to_pylist() for name in _TIMES), strict=True):
            if stamp is not None:
                times.setdefault(chain, {})[position] = stamp
        return times

    def _check_bases(self, found: pa.Table) -> None:
        """Raise Refused for a base path that leads nowhere: then files may be needed that no mark protects."""
        foreign = {base for base in pc.unique(found["foreign"]).to_pylist() if base is not None}
        for base in sorted(foreign):
            try:
                place = locate(base, self._seen.location.storage_options)
            except InvalidOption as problem:
                raise _unknown_base(base, problem.message) from None
            if place.uri in self._known_bases:
                continue
            if not files.exists(place):
                raise _unknown_base(base, "nothing is there")


_TIMES = ("chain", "first", "timestamp_ns")


def _unknown_base(base: str, why: str) -> Refused:
    return Refused(
        f"A version has files in the base path '{base}', but {why}.",
        hint="Nothing was deleted. If the dataset was moved, this is where it was; if you know the base and nothing "
        "there belongs to this dataset, name it with --known-base.",
    )


def _about_versions(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.filter(pc.is_null(batch["key"]))


def _leftovers(item: tuple[DatasetLocation, str]) -> Iterator[pa.RecordBatch]:
    directory, part = item
    return Leftovers(directory)(part)


def _read_candidates(directory: DatasetLocation, part: str) -> Iterator[pa.RecordBatch]:
    table = plans.read_part(directory, part)
    if table is None:
        raise NotFound(f"The part {part} of the cleanup plan in {directory.uri} is gone.", hint="Make the plan again.")
    yield from table.to_batches()


def _copy_part(source: DatasetLocation, target: DatasetLocation, part: str) -> Iterator[pa.RecordBatch]:
    return plans.write_part(target, _read_candidates(source, part))


def _judgement(
    seen: Survey, policy: CleanupPolicy, moment: Moment, verdicts: tuple[Verdict, ...], whole: bool
) -> Judgement:
    return Judgement(
        verdicts=verdicts,
        latest={index: len(chain.versions) - 1 for index, chain in seen.owned() if chain.versions},
        removed_manifests=frozenset(removed_paths(seen, verdicts)),
        started_ns=moment.now_ns,
        unverified_before_ns=None if policy.delete_unverified else moment.before(policy.unverified_age),
        whole_listing=whole,
    )


def removed_paths(seen: Survey, verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Paths of the manifests that go, by chain and then ascending by version."""
    for index, chain in seen.owned():
        yield from (chain.path(chain.files[position]) for position in verdicts[index].removed)


def _decided(seen: Survey, runner: Runner, judgement: Judgement, marks: Frame, inventory: Frame | None) -> Frame:
    chains = {chain.root: index for index, chain in seen.owned()}
    lister = ListFiles(seen.location, chains)
    if inventory is None:
        listed = runner.flat_map("list files", tile(list(chains), runner.parallelism), lister, FILES)
    else:
        listed = runner.map("read the inventory", inventory, lister.batches, FILES)
    return runner.keep(runner.match("decide", (listed, marks), partial(decide, judgement=judgement), DECIDED))


def _sums(runner: Runner, seen: Survey, decided: Frame) -> pa.Table:
    summed = runner.map("sum up", decided, partial(sum_up, branches=branch_names(seen)), SUMS)
    return total(runner.collect("sum up", summed).cast(SUMS))


def _check_complete(seen: Survey, sums: pa.Table) -> None:
    lost = sums.filter(pc.equal(sums["action"], MISSING)).to_pylist()
    if lost:
        count = sum(row["files"] for row in lost)
        raise CorruptData(
            f"{count} files that the latest version of '{lost[0]['branch']}' names are not in the listing of "
            f"{seen.location.uri}, such as {lost[0]['example']}.",
            hint="Nothing was deleted. The listing is not complete, or the dataset is damaged.",
        )


def branch_names(seen: Survey) -> tuple[str, ...]:
    """The branch of every chain."""
    return tuple(chain.name for chain in seen.chains)


def version_counts(seen: Survey, verdicts: Sequence[Verdict]) -> dict[str, dict[str, int]]:
    """By branch of the dataset: how many versions go, and why the others stay."""
    return {
        chain.name: {"removed": len(verdicts[index].removed), **verdicts[index].reasons}
        for index, chain in seen.owned()
    }


def warnings(seen: Survey) -> list[str]:
    """What a user should know about the dataset."""
    found = [
        f"tree/{chain.branch} has versions but no ref: a branch in the making, or what is left of a deleted one. Kept."
        for _, chain in seen.owned()
        if not chain.has_ref
    ]
    uris = {location.uri for location in seen.repositories}
    for tag, uri in seen.recorded_clones.items():
        if locate(uri).uri not in uris:
            found.append(
                f"The clone at {uri} is gone; what tag '{tag}' protects for it can go once you delete the tag."
            )
    return found


def _described(policy: CleanupPolicy) -> dict[str, Any]:
    return {name: str(value) for name, value in vars(policy).items() if value not in (None, (), {}, False)}
