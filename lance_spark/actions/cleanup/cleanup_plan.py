"""A cleanup that was planned: a value that can be printed, stored and carried out, now or later."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from lance_spark.actions.cleanup.apply import apply_plan
from lance_spark.actions.cleanup.tasks import SaveCandidates
from lance_spark.cleanup.candidates import CANDIDATES, to_candidates
from lance_spark.cleanup.document import PlanFacts, to_document
from lance_spark.cleanup.report import CleanupReport
from lance_spark.cleanup.retention import version_counts
from lance_spark.errors import NotFound
from lance_spark.location import DatasetLocation
from lance_spark.runner.interface import Frame, Runner
from lance_spark.show.card import Card, Shown
from lance_spark.store import plans
from lance_spark.store.uri import locate


@dataclass(frozen=True, repr=False)
class CleanupPlan(Shown):
    """What a cleanup would delete, as it was decided at one moment. Printing it shows the report of a dry run."""

    facts: PlanFacts
    runner: Runner
    decided: Frame | None = None
    """DECIDED; None for a plan that was read from a directory."""
    directory: DatasetLocation | None = None
    """Where the candidates are stored, if they are."""
    parts: tuple[str, ...] = ()
    shown: Callable[[Frame], Frame] | None = None
    """What candidates are shown as, where that is not what the runner has."""

    @property
    def location(self) -> DatasetLocation:
        """The dataset."""
        return self.facts.survey.location

    def candidates(self) -> Frame:
        """The files to delete as CANDIDATES: a DataFrame where there is a session, else an Arrow table."""
        found = self._candidates()
        return found if self.shown is None else self.shown(found)

    def _candidates(self) -> Frame:
        if self.directory is not None:
            return self.runner.flat_map(
                "read the plan", self.parts, partial(_read_candidates, self.directory), CANDIDATES
            )
        return self.runner.map(
            "show the candidates",
            self.decided,
            partial(to_candidates, root=self.location.uri, branches=self.facts.survey.branch_names),
            CANDIDATES,
        )

    def store(self, place: DatasetLocation | str) -> CleanupPlan:
        """The same plan, stored in a directory: candidates as Parquet, then the document that makes them a plan."""
        directory = locate(place, self.location.storage_options) if isinstance(place, str) else place
        if self.directory is not None:
            parts = tuple(self._copied_to(directory))
        else:
            save = SaveCandidates(directory, self.location.uri, self.facts.survey.branch_names)
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
            planned=self.facts.sums.to_pylist(),
            versions=version_counts(self.facts.survey, self.facts.verdicts),
            warnings=self.facts.warnings,
            ran_on=self.runner.name,
        )

    def apply(self, max_deletes_per_second: float | None = None) -> CleanupReport:
        """Delete the candidates, but those that became live since; see ``apply_plan``."""
        return apply_plan(self, max_deletes_per_second)

    def __str__(self) -> str:
        """The report of a dry run."""
        return str(self.report())

    def _card(self) -> Card:
        stored = () if self.directory is None else (f"stored in {self.directory.uri}",)
        found = self.report()._card()
        return replace(found, what=type(self).__name__, notes=(*found.notes, *stored))


def _read_candidates(directory: DatasetLocation, part: str) -> Iterator[pa.RecordBatch]:
    table = plans.read_part(directory, part)
    if table is None:
        raise NotFound(f"The part {part} of the cleanup plan in {directory.uri} is gone.", hint="Make the plan again.")
    yield from table.to_batches()


def _copy_part(source: DatasetLocation, target: DatasetLocation, part: str) -> Iterator[pa.RecordBatch]:
    return plans.write_part(target, _read_candidates(source, part))
