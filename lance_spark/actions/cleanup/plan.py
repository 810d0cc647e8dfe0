"""Planning a cleanup: survey, judge, mark, list, decide. Nothing is deleted; nothing is written but a stored plan."""

from __future__ import annotations

import time
from functools import partial
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.actions.cleanup.marking import Marking
from lance_spark.actions.cleanup.planned import CleanupPlan
from lance_spark.actions.cleanup.stages import ListFiles, manifest_gone
from lance_spark.cleanup.candidates import SUMS, sum_up
from lance_spark.cleanup.decide import DECIDED, FILES, MISSING, Judgement, decide
from lance_spark.cleanup.document import PlanFacts, from_document
from lance_spark.cleanup.keep import Ages, Moment, Verdict, check_evidence, judge, removed_paths
from lance_spark.cleanup.policy import CleanupPolicy
from lance_spark.cleanup.ranges import tile
from lance_spark.cleanup.sums import add_up
from lance_spark.cleanup.survey import Survey
from lance_spark.errors import CorruptData, InvalidOption
from lance_spark.location import DatasetLocation
from lance_spark.runner.interface import Frame, Runner
from lance_spark.store import plans
from lance_spark.store.datasets import open_latest
from lance_spark.store.survey import survey
from lance_spark.store.uri import locate

_SURVEYS = 5
"""How often to look before the run gives way to other cleanups."""
_ROWS_OF_A_REQUEST, _ROWS_OF_A_WALK = 1_000, 20_000
"""Files below which listing them side by side costs more than it saves."""
_BYTES_PER_FILE = 60
"""What a file takes in a manifest, at the least."""


def plan_cleanup(
    location: DatasetLocation, policy: CleanupPolicy, runner: Runner, inventory: Frame | None = None
) -> CleanupPlan:
    """Decide what a cleanup would delete.

    ``inventory`` is a frame with the columns path, size and last_modified to use instead of listing the store.
    Raises Refused, CorruptData, NotFound or StorageFailure where evidence is missing or cannot be understood, and
    Refused for tags on versions that would go; see CleanupPolicy.
    """
    moment = Moment(time.time_ns())
    seen, marking, ages = _with_ages(location, policy, runner, moment)
    verdicts = tuple(judge(seen, policy, moment, ages))
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
        warnings=_warnings(seen),
        finishes=marking.finishes,
    )
    return CleanupPlan(facts, runner, decided)


def _with_ages(
    location: DatasetLocation, policy: CleanupPolicy, runner: Runner, moment: Moment
) -> tuple[Survey, Marking, Ages]:
    """The repository and the ages of its versions; looked at again where another cleanup took manifests meanwhile."""
    attempts = 0
    while True:
        attempts += 1
        seen = survey(location, policy.clones, policy.clones_from)
        if not any(chain.versions for _, chain in seen.owned()):
            open_latest(location)  # tells "there is no dataset" from a listing that shows none
        check_evidence(seen)
        marking = Marking(seen, policy, runner)
        ages = marking.ages(moment)
        gone = marking.lacks(ages)
        if not gone:
            return seen, marking, ages
        if attempts == _SURVEYS:
            raise manifest_gone(location, gone[0])


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
        runner.match("decide", (listed, marks), partial(decide, judgement=judgement), DECIDED, _rows(seen))
    )


def _splits(seen: Survey, runner: Runner) -> int:
    """Into how many large ranges to cut the listing: each costs a request, or a walk through the directories."""
    worth = _ROWS_OF_A_WALK if seen.location.is_local else _ROWS_OF_A_REQUEST
    return min(runner.parallelism, 1 + _rows(seen) // worth)


def _rows(seen: Survey) -> int:
    """About how many files and marks there are, told by the sizes of the latest manifests."""
    named = sum(chain.versions[-1].size // _BYTES_PER_FILE for _, chain in seen.owned() if chain.versions)
    return 2 * (named + sum(2 * len(chain.files) for _, chain in seen.owned()))


def _sums(runner: Runner, seen: Survey, decided: Frame) -> pa.Table:
    summed = runner.map("sum up", decided, partial(sum_up, branches=seen.branch_names), SUMS)
    return add_up(runner.collect("sum up", summed).cast(SUMS))


def _check_complete(seen: Survey, sums: pa.Table) -> None:
    lost = sums.filter(pc.equal(sums["action"], MISSING)).to_pylist()
    if lost:
        count = sum(row["files"] for row in lost)
        raise CorruptData(
            f"{count} files that the latest version of '{lost[0]['branch']}' names are not in the listing of "
            f"{seen.location.uri}, such as {lost[0]['example']}.",
            hint="Nothing was deleted. The listing is not complete, or the dataset is damaged.",
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
