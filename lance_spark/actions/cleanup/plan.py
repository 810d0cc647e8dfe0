"""Planning a cleanup: survey, judge, mark, list, decide. Nothing is deleted; nothing is written but a stored plan."""

from __future__ import annotations

import time
from functools import partial
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.actions.cleanup.cleanup_plan import CleanupPlan
from lance_spark.actions.cleanup.evidence import look, without_excuse
from lance_spark.actions.cleanup.extent import about_files, about_rows, work_of_sums, work_of_survey
from lance_spark.actions.cleanup.mark import Marking
from lance_spark.actions.cleanup.tasks import ListFiles
from lance_spark.cleanup.candidates import SUMS, sum_up
from lance_spark.cleanup.document import PlanFacts, from_document
from lance_spark.cleanup.evidence import manifest_at
from lance_spark.cleanup.policy import CleanupPolicy
from lance_spark.cleanup.retention import Moment, Verdict, judge, removed_paths
from lance_spark.cleanup.sums import add_up
from lance_spark.cleanup.survey import Survey
from lance_spark.cleanup.sweep import DECIDED, FILES, MISSING, Judgement, decide
from lance_spark.errors import CorruptData, InvalidOption
from lance_spark.layout.key_ranges import tile
from lance_spark.location import DatasetLocation
from lance_spark.runner.interface import Engine, Frame, Runner
from lance_spark.store import plans
from lance_spark.store.uri import locate

_ROWS_OF_A_REQUEST, _ROWS_OF_A_WALK = 4_000, 20_000
"""Files below which listing them side by side costs more than it saves."""
OPERATION = "cleanup"


def plan_cleanup(
    location: DatasetLocation, policy: CleanupPolicy, engine: Engine, inventory: Frame | None = None
) -> CleanupPlan:
    """Decide what a cleanup would delete.

    ``inventory`` is a frame with the columns path, size and last_modified to use instead of listing the store.
    Raises Refused, CorruptData, NotFound or StorageFailure where evidence is missing or cannot be understood, and
    Refused for tags on versions that would go; see CleanupPolicy.
    """
    moment = Moment(time.time_ns())
    seen = look(location, policy.clones, policy.clones_from)
    runner = engine.for_work(OPERATION, work_of_survey(seen, policy, moment))
    marking = Marking(seen, policy, runner)
    verdicts = tuple(judge(seen, policy, moment, marking.ages(moment)))
    marking.mark_the_rest(verdicts, moment)
    judgement = _judgement(seen, policy, moment, verdicts, whole=inventory is None)
    decided = _decided(seen, runner, judgement, marking.marks(), inventory)
    sums = _checked(seen, policy, _sums(runner, seen, decided))
    facts = PlanFacts(
        id=f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime(moment.now_ns / 1e9))}-{uuid4().hex[:8]}",
        created_ns=moment.now_ns,
        policy=_described(policy),
        survey=seen,
        verdicts=verdicts,
        sums=sums,
        clones=policy.clones,
        clones_from=policy.clones_from,
        warnings=(*_warnings(seen), *_warnings_of(policy)),
        finishes=marking.finishes,
        commit_window=policy.commit_window,
    )
    return CleanupPlan(facts, runner, decided)


def open_plan(location: DatasetLocation, directory: DatasetLocation, engine: Engine) -> CleanupPlan:
    """A plan that was stored. Raises NotFound, CorruptData, and InvalidOption for the plan of another dataset."""
    document = plans.read_document(directory)
    if document.get("dataset") != location.uri:
        raise InvalidOption(
            f"The plan in {directory.uri} is for {document.get('dataset')}, not for {location.uri}.",
            hint="Give the dataset the plan was made for.",
        )
    facts, parts = from_document(document, location)
    runner = engine.for_work(OPERATION, work_of_sums(facts.sums))
    return CleanupPlan(facts, runner, directory=directory, parts=tuple(parts))


def _judgement(
    seen: Survey, policy: CleanupPolicy, moment: Moment, verdicts: tuple[Verdict, ...], whole: bool
) -> Judgement:
    return Judgement(
        verdicts=verdicts,
        # What a deleted branch left may lack files; it says nothing about the listing.
        latest={index: len(chain.versions) - 1 for index, chain in seen.owned() if chain.has_ref},
        removed_manifests=frozenset(removed_paths(seen, verdicts)),
        started_ns=moment.now_ns,
        unverified_before_ns=None if policy.delete_unverified else moment.before(policy.unverified_age),
        whole_listing=whole,
    )


def _decided(seen: Survey, runner: Runner, judgement: Judgement, marks: Frame, inventory: Frame | None) -> Frame:
    chains = {chain.root: index for index, chain in seen.owned()}
    lister = ListFiles(seen.location, chains)
    if inventory is None:
        listed = runner.flat_map("list files", tile(list(chains), _splits(seen, runner)), lister, FILES)
    else:
        listed = runner.map("read the inventory", inventory, lister.inventory, FILES)
    return runner.keep(
        runner.match("decide", (listed, marks), partial(decide, judgement=judgement), DECIDED, about_rows(seen))
    )


def _splits(seen: Survey, runner: Runner) -> int:
    """Into how many large ranges to cut the listing: each costs a request, or a walk through the directories."""
    worth = _ROWS_OF_A_WALK if seen.location.is_local else _ROWS_OF_A_REQUEST
    return min(runner.parallelism, 1 + about_files(seen) // worth)


def _sums(runner: Runner, seen: Survey, decided: Frame) -> pa.Table:
    summed = runner.map("sum up", decided, partial(sum_up, branches=seen.branch_names), SUMS)
    return add_up(runner.collect("sum up", summed).cast(SUMS))


def _checked(seen: Survey, policy: CleanupPolicy, sums: pa.Table) -> pa.Table:
    """The sums without files of branches and versions that went while their files were listed.

    Raises CorruptData for files that the listing lacks although the version that names them is the newest one still,
    Conflict where it is there and no longer the newest.
    """
    is_lost = pc.equal(sums["action"], MISSING)
    lost = sums.filter(is_lost).to_pylist()
    if lost:
        branches = {row["branch"] for row in lost}
        latest = [
            manifest_at(seen, chain, len(chain.versions) - 1)
            for _, chain in seen.owned()
            if chain.has_ref and chain.name in branches
        ]
        roots = {manifest.root for manifest in without_excuse(seen, policy.clones, policy.clones_from, latest)}
        there = {chain.name for _, chain in seen.owned() if chain.root in roots}
        lost = [row for row in lost if row["branch"] in there]
    if lost:
        count = sum(row["files"] for row in lost)
        raise CorruptData(
            f"{count} files that the latest version of '{lost[0]['branch']}' names are not in the listing of "
            f"{seen.location.uri}, such as {lost[0]['example']}.",
            hint="Nothing was deleted. The listing is not complete, or the dataset is damaged.",
        )
    return sums.filter(pc.invert(is_lost))


def _warnings_of(policy: CleanupPolicy) -> tuple[str, ...]:
    """What a user should know about the policy."""
    if policy.commit_window:
        return ()
    return (
        "The commit window is 0, so versions that a job under way may need are not kept: safe only while nobody else "
        "commits.",
    )


def _warnings(seen: Survey) -> tuple[str, ...]:
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
    return tuple(found)


def _described(policy: CleanupPolicy) -> dict[str, Any]:
    return {name: str(value) for name, value in vars(policy).items() if value not in (None, (), {})}
