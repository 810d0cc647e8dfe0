"""Carrying out a plan: record it, look again, delete manifests, then files, then what is left empty.

Manifests go first: should the run end in between, every version that is still listed has all of its files. What
their absence leaves without a proof is in the record, from which the next run takes it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.actions.cleanup.tasks import DeleteFiles, Look, Watch, delete_rows
from lance_spark.cleanup.candidates import CANDIDATES
from lance_spark.cleanup.outcome import FAILED, OUTCOMES
from lance_spark.cleanup.pace import Pace
from lance_spark.cleanup.report import CleanupReport
from lance_spark.cleanup.retention import Moment, version_counts
from lance_spark.cleanup.sums import add_up
from lance_spark.cleanup.sweep import OLD_VERSION
from lance_spark.layout.file_kinds import BLOB, INDEX, MANIFEST
from lance_spark.location import DatasetLocation
from lance_spark.store import plans
from lance_spark.store.deleting import BATCH, remove_empty_directories

if TYPE_CHECKING:
    from lance_spark.actions.cleanup.cleanup_plan import CleanupPlan

_NESTED = frozenset({INDEX, BLOB})
"""Kinds of files that have directories of their own."""
DIRECTORIES = pa.schema([("directory", pa.string())])


def apply_plan(plan: CleanupPlan, max_deletes_per_second: float | None = None) -> CleanupReport:
    """Delete what the plan says, but what became live since; returns what became of every file.

    Safe to repeat: what is gone already counts as gone. Files that could not be deleted are in the report; a record
    below the dataset's ``_cleanup`` then stays, with which the next run finishes. Raises as ``plan_cleanup`` when the
    world cannot be looked at again.
    """
    facts = plan.facts
    window = Moment(time.time_ns()).before(facts.commit_window) if facts.commit_window else None
    look = Look(facts.survey, facts.verdicts, facts.clones, facts.clones_from, window_ns=window)
    watch = Watch(look)
    watch.live()  # a store that cannot be looked at stops the run before anything is written
    # Others are left alone: what they prove was not known to this plan, and would wait for days without them.
    finished = [found for name, found in _unfinished(plan).items() if name in facts.finishes]
    recorded = plan.store(plans.record(plan.location, plan.facts.id))
    assert recorded.directory is not None
    outcomes = [_delete_manifests(recorded, watch, max_deletes_per_second)]
    side_by_side = max(1, min(plan.runner.parallelism, len(recorded.parts)))
    share = None if max_deletes_per_second is None else max_deletes_per_second / side_by_side
    delete = DeleteFiles(recorded.directory, plan.location, Watch(replace(look, listed_is_live=True)), share)
    found = plan.runner.flat_map("delete files", recorded.parts, delete, OUTCOMES)
    outcomes.append(plan.runner.collect("delete files", found).cast(OUTCOMES))
    total = add_up(pa.concat_tables(outcomes))
    if FAILED not in total["outcome"].to_pylist():
        if plan.location.is_local and not _NESTED.isdisjoint(total["kind"].to_pylist()):
            _tidy(recorded)
        for directory, parts in finished:
            plans.forget(directory, parts)
        plans.forget(recorded.directory, recorded.parts)
    return CleanupReport(
        plan_id=plan.facts.id,
        dataset=plan.location.uri,
        executed=True,
        planned=plan.facts.sums.to_pylist(),
        outcomes=total.to_pylist(),
        versions=version_counts(plan.facts.survey, plan.facts.verdicts),
        warnings=plan.facts.warnings,
        ran_on=plan.runner.name,
    )


def _unfinished(plan: CleanupPlan) -> Mapping[str, tuple[DatasetLocation, tuple[str, ...]]]:
    return plans.unfinished(plan.location) if plan.facts.finishes else {}


def _delete_manifests(plan: CleanupPlan, watch: Watch, per_second: float | None) -> pa.Table:
    """Delete the manifests of versions that go, oldest first, so that no version hint ever points into a hole."""
    pace = Pace(per_second)
    outcomes = [OUTCOMES.empty_table()]
    rows = _manifest_rows(plan)
    while taken := list(islice(rows, BATCH)):
        batch = pa.RecordBatch.from_pylist(taken, CANDIDATES)
        time.sleep(pace.wait(time.monotonic(), batch.num_rows))
        deleted = delete_rows(plan.location, batch, watch.live())
        outcomes.append(pa.Table.from_batches([deleted]))
    time.sleep(pace.wait(time.monotonic(), 0))
    return pa.concat_tables(outcomes)


def _manifest_rows(plan: CleanupPlan) -> Iterator[Mapping[str, object]]:
    survey = plan.facts.survey
    for index, chain in survey.owned():
        for position in plan.facts.verdicts[index].removed:
            manifest = chain.files[position]
            path = chain.path(manifest)
            yield {
                "path": f"{plan.location.uri}/{path}",
                "kind": MANIFEST,
                "size": manifest.size,
                "branch": chain.name,
                "reason": OLD_VERSION,
                "verified": True,
                "file": path,
                "key": path,
                "local": path,
            }


def _tidy(plan: CleanupPlan) -> None:
    """Remove directories that deletion left empty: those of indexes and of blobs, on local disks."""
    assert plan.directory is not None
    emptied = plan.runner.flat_map("tidy up", plan.parts, partial(_directories, plan.directory), DIRECTORIES)
    remove_empty_directories(plan.location, plan.runner.collect("tidy up", emptied)["directory"].to_pylist())


def _directories(record: DatasetLocation, part: str) -> Iterator[pa.RecordBatch]:
    candidates = plans.read_part(record, part)
    if candidates is None:
        return  # another run has finished this one's work, and tidied up
    nested = candidates.filter(pc.is_in(candidates["kind"], value_set=pa.array(sorted(_NESTED))))
    named = zip(nested["file"].to_pylist(), nested["key"].to_pylist(), strict=True)
    found = {directory for file, key in named for directory in _above(file, key)}
    yield pa.record_batch([pa.array(sorted(found), pa.string())], DIRECTORIES)


def _above(file: str, key: str) -> Iterator[str]:
    """The directory of a file, and those above it up to the index's, whose directory is its key."""
    directory = file.rpartition("/")[0]
    yield directory
    while directory.startswith(f"{key}/"):
        directory = directory.rpartition("/")[0]
        yield directory
