"""A cleanup that was planned: a value that can be printed, stored and carried out, now or later."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from lance_spark.actions.cleanup.delete import Deletion, Recheck, tidy_up
from lance_spark.actions.cleanup.noting import note_for_streams
from lance_spark.actions.denied import unchanged
from lance_spark.cleanup.candidates import CANDIDATES, FAILED, OUTCOMES, add_up, to_candidates
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
    now_ns: int
    """When the plan was made or opened, nanoseconds since the epoch. Its commit window is held against that time."""
    decided: Frame | None = None
    """DECIDED; None for a plan that was read from a directory."""
    directory: DatasetLocation | None = None
    """Where the candidates are stored, if they are."""
    parts: tuple[str, ...] = ()
    shown: Callable[[Frame], Frame] | None = None
    """What candidates are shown as, if not as the runner's own frame."""

    @property
    def location(self) -> DatasetLocation:
        """The dataset."""
        return self.facts.survey.location

    def candidates(self) -> Frame:
        """The files to delete as CANDIDATES: a DataFrame where there is a session, else an Arrow table."""
        candidates = self._candidates()
        return candidates if self.shown is None else self.shown(candidates)

    def _candidates(self) -> Frame:
        if self.directory is not None:
            read = partial(_read_candidates, self.directory)
            return self.runner.flat_map("read the plan", self.parts, read, CANDIDATES)
        return self.runner.map("show the candidates", self.decided, self._to_candidates(), CANDIDATES)

    def _to_candidates(self) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        return partial(to_candidates, root=self.location.uri, branches=self.facts.survey.branch_names)

    def store(self, place: DatasetLocation | str) -> CleanupPlan:
        """The same plan, stored in a directory: candidates as Parquet, then the document that makes them a plan."""
        directory = locate(place, self.location.storage_options) if isinstance(place, str) else place
        if self.directory is not None:
            copy = partial(_copy_part, self.directory, directory)
            written = self.runner.flat_map("record the plan", self.parts, copy, plans.WRITTEN)
        else:
            save = partial(_save, directory, self._to_candidates())
            written = self.runner.map("store the plan", self.decided, save, plans.WRITTEN)
        parts = tuple(self.runner.collect("store the plan", written)["part"].to_pylist())
        plans.write_document(directory, to_document(self.facts, parts))
        return replace(self, directory=directory, parts=parts)

    def report(self) -> CleanupReport:
        """The report of a dry run."""
        return CleanupReport(
            plan_id=self.facts.id,
            dataset=self.location.uri,
            executed=False,
            planned=self.facts.sums.to_pylist(),
            versions=version_counts(self.facts.survey, self.facts.verdicts, self.facts.branches),
            warnings=self.facts.warnings,
            ran_on=self.runner.name,
        )

    def apply(self, max_deletes_per_second: float | None = None) -> CleanupReport:
        """Delete the candidates, except for those that became live since; the report says what became of every file.

        Safe to repeat: files that are gone already count as gone. Files that could not be deleted are in the report.
        Then a record stays below the dataset's ``_cleanup``, or below that of the branch which alone is cleaned, with
        which the next run finishes. Raises as ``plan_cleanup`` if the dataset cannot be looked at again.

        The plan is recorded first, then what streams have yet to learn of versions that go. Then manifests go,
        and then files: if the run ends in between, every version that is still listed has all of its files. What the
        missing manifests proved is in the record, for the next run.
        """
        recheck = Recheck(self.facts, self.now_ns)
        now = recheck.look()  # a store that cannot be looked at stops the run before anything is written
        unfinished = plans.unfinished(self.location, self.facts.survey.branches) if self.facts.finishes else {}
        # Other records stay: what they prove was not known to this plan, and would wait for days without them.
        finished = [stored[:2] for name, stored in unfinished.items() if name in self.facts.finishes]
        record = plans.record(self.location, self.facts.id, self.facts.home)
        with unchanged():
            parts = self.store(record).parts
        note_for_streams(self.facts, now)
        outcomes = add_up(self._delete(record, parts, recheck, max_deletes_per_second))
        if FAILED not in outcomes["outcome"].to_pylist():
            tidy_up(self.location, record, parts, outcomes["kind"].to_pylist(), self.runner)
            for directory, names in [*finished, (record, parts)]:
                plans.forget(directory, names)
        return replace(self.report(), executed=True, outcomes=outcomes.to_pylist())

    def _delete(
        self, record: DatasetLocation, parts: Sequence[str], recheck: Recheck, per_second: float | None
    ) -> pa.Table:
        """OUTCOMES of all candidates in a record."""
        files = [part for part in parts if not plans.holds_manifests(part)]
        deletion = Deletion(self.location, record, recheck, per_second)
        outcomes = deletion.manifests(part for part in parts if plans.holds_manifests(part))
        share = None if per_second is None else per_second / max(1, min(self.runner.parallelism, len(files)))
        recheck = Recheck(self.facts, self.now_ns, manifests_are_done=True)
        deletion = Deletion(self.location, record, recheck, share)
        deleted = self.runner.flat_map("delete files", files, deletion, OUTCOMES)
        return pa.concat_tables([outcomes, self.runner.collect("delete files", deleted).cast(OUTCOMES)])

    def __str__(self) -> str:
        """The report of a dry run."""
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
    return plans.write_parts(directory, to_candidates(decided))


def _copy_part(source: DatasetLocation, target: DatasetLocation, part: str) -> Iterator[pa.RecordBatch]:
    return plans.write_parts(target, _read_candidates(source, part))


def _read_candidates(directory: DatasetLocation, part: str) -> Iterator[pa.RecordBatch]:
    table = plans.read_part(directory, part)
    if table is None:
        raise NotFound(f"The part {part} of the cleanup plan in {directory.uri} is gone.", hint="Make the plan again.")
    yield from table.to_batches()
