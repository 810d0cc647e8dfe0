"""Measures what each ref of a dataset costs: survey, mark, list, attribute. Changes nothing."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lance_spark.cleanup.cleanup import Marking, about_rows, list_all, work_of_all
from lance_spark.cleanup.rules import CleanupPolicy, RunClock, Verdict
from lance_spark.core.location import DatasetLocation
from lance_spark.disk_usage.report import StorageReport
from lance_spark.disk_usage.rules import ATTRIBUTED, Costs, Holders, attribute, holders_of, portions
from lance_spark.engine.local import Engine
from lance_spark.survey.rules import Survey
from lance_spark.survey.survey import take_survey


def storage(location: DatasetLocation, policy: CleanupPolicy, engine: Engine) -> StorageReport:
    """What a dataset takes, by ref and by kind of file.

    Only ``clones``, ``clones_from`` and ``known_bases`` of ``policy`` count. Concurrent writes may be missing from the
    report, or be counted as named by no version. Raises CorruptData, NotFound, Conflict and StorageFailure if the
    dataset cannot be read.
    """
    survey = take_survey(location, policy.clones, policy.clones_from)
    runner = engine.for_work("storage", work_of_all(survey))
    marking = Marking(survey, policy, runner, lenient=True)
    everything = tuple(Verdict((True,) * len(chain.files), {}) for chain in survey.chains)
    marking.mark_the_rest(everything, RunClock(0))
    holders = holders_of(survey)
    sums = runner.match(
        "attribute files",
        (list_all(survey, runner), marking.marks()),
        Attribute(holders, tuple(chain.root for chain in survey.chains)),
        ATTRIBUTED,
        about_rows(survey),
    )
    costs = Costs(survey, holders, portions(runner.collect("attribute files", sums)))
    report = StorageReport(
        dataset=location.uri,
        refs=costs.refs(),
        kinds=costs.by_kind(),
        warnings=tuple(_warnings(survey, marking)),
        ran_on=runner.name,
        costs=costs,
        holders=holders.all,
    )
    runner.release()
    return report


@dataclass(frozen=True)
class Attribute:
    """Attributes files to the holders that need them; runs on executors."""

    holders: Holders
    roots: tuple[str, ...]

    def __call__(self, files: pa.Table, marks: pa.Table) -> pa.Table:
        """ATTRIBUTED of one group."""
        return attribute(files, marks, self.holders, self.roots)


def _warnings(survey: Survey, marking: Marking) -> list[str]:
    found = [
        f"A version reads files from the base path '{base}', but {why}. If the path leads here under another name, "
        "every file with a name that it needs is counted."
        for base, why in sorted(marking.lost_bases.items())
    ]
    uris = {location.uri for location in survey.repositories}
    found += [
        f"Tag '{tag}' protects a clone at {uri}, which is gone or cannot be read from here."
        for tag, uri in sorted(survey.recorded_clones.items())
        if uri not in uris
    ]
    return found
