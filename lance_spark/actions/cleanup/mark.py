"""Marking: which manifests are read, and when. The files that they name come back as frames of marks."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark import hints
from lance_spark.actions.cleanup.evidence import check_gone
from lance_spark.cleanup.evidence import manifest_at
from lance_spark.cleanup.policy import CleanupPolicy
from lance_spark.cleanup.references import MARKS, ChainSpan, KeyResolver, cut_spans, leftover_marks, mark_span
from lance_spark.cleanup.retention import Ages, RunClock, Verdict, positions_of_unknown_age, proofs_since
from lance_spark.cleanup.survey import Survey
from lance_spark.errors import InvalidOption, Refused
from lance_spark.location import DatasetLocation, is_within
from lance_spark.refs.names import branch_or_none
from lance_spark.runner.interface import Frame, Runner
from lance_spark.store import files, plans
from lance_spark.store.uri import locate
from lance_spark.store.version_reader import read_manifests

_TIMES = ("chain", "first", "timestamp_ns")


class Marking:
    """Reads manifests in two steps: those whose age is not known, then the rest of those that are needed."""

    def __init__(self, survey: Survey, policy: CleanupPolicy, runner: Runner, lenient: bool = False) -> None:
        """``lenient`` is for those who delete nothing: base paths that lead nowhere are noted down, not refused."""
        self._survey, self._policy, self._runner, self._lenient = survey, policy, runner, lenient
        self.lost_bases: dict[str, str] = {}
        """Base paths that lead nowhere, and why."""
        self._frames: list[Frame] = []
        self._read: dict[int, set[int]] = {}
        self.finishes: tuple[str, ...] = ()
        """Names of the unfinished plans whose evidence is among the marks."""
        self._known_bases = {locate(uri, survey.location.storage_options).uri for uri in policy.known_bases}

    def ages(self, clock: RunClock) -> Ages:
        """Commit times of the versions whose age decides, except for those that have gone."""
        return self._mark("read manifests", positions_of_unknown_age(self._survey, self._policy, clock))

    def mark_the_rest(self, verdicts: Sequence[Verdict], clock: RunClock) -> None:
        """Mark the files of all kept versions, and of removed ones that may name a file too young to go unproved."""
        since = proofs_since(self._policy, clock)
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

    def marks(self) -> Frame:
        """All marks, with the evidence that unfinished runs left."""
        unfinished = plans.unfinished(self._survey.location, self._survey.branches)
        self.finishes = tuple(name for name, plan in unfinished.items() if self._takes_all(plan.branches))
        parts = [(plan.directory, part) for plan in unfinished.values() for part in plan.parts]
        frames = list(self._frames)
        if parts or not frames:
            frames.append(self._runner.flat_map("read unfinished plans", parts, _leftovers, MARKS))
        return self._runner.union(frames)

    def _takes_all(self, branches: Sequence[str]) -> bool:
        """Whether a run with this policy deletes all that a plan for some branches (or for all, if none) would."""
        if not self._policy.only_branches:
            return True
        return bool(branches) and all(self._policy.takes(branch_or_none(branch)) for branch in branches)

    def _mark(self, stage: str, positions: dict[int, list[int]]) -> dict[int, dict[int, int]]:
        spans = cut_spans(self._survey, positions, 2 * self._runner.parallelism, self._read)
        if not spans:
            return {}
        frame = self._runner.keep(self._runner.flat_map(stage, spans, MarkSpan(self._survey), MARKS))
        about = self._runner.collect(stage, self._runner.map(stage, frame, _about_versions, MARKS))
        self._check_bases(about)
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
        """A manifest that went with its branch, or with another cleanup, protects nothing any more."""
        gone = [
            manifest_at(self._survey, self._survey.chains[index], at)
            for index, positions in asked.items()
            for at in positions
            if at not in read.get(index, ())
        ]
        check_gone(self._survey, self._policy.clones, self._policy.clones_from, gone)

    def _check_bases(self, marks: pa.Table) -> None:
        """Raise Refused for a base path that leads nowhere: then files may be needed that no mark protects."""
        for base in sorted(pc.unique(pc.drop_null(marks["foreign"])).to_pylist()):
            why = self._why_lost(base)
            if why is None:
                continue
            if not self._lenient:
                raise _unknown_base(base, why)
            self.lost_bases[base] = why

    def _why_lost(self, base: str) -> str | None:
        """Why a base path leads nowhere; None if it leads somewhere, or need not."""
        try:
            directory = locate(base, self._survey.location.storage_options)
        except InvalidOption as problem:
            return problem.message
        return None if self._is_known(directory.uri) or files.exists(directory) else "nothing is there"

    def _is_known(self, uri: str) -> bool:
        """Whether the user named the directory, or one above it: branches are below their dataset."""
        return any(is_within(uri, known) for known in self._known_bases)


def _unknown_base(base: str, why: str) -> Refused:
    return Refused(
        f"A version has files in the base path '{base}', but {why}.",
        hint=hints.of(
            "Nothing was deleted. If the dataset was moved, this is where it was; if you know the base and nothing "
            "there belongs to this dataset, name it: ",
            hints.KNOWN_BASE,
            ".",
        ),
    )


@dataclass(frozen=True)
class MarkSpan:
    """Reads spans of versions and marks the files that they name; runs on executors."""

    survey: Survey

    def __call__(self, span: ChainSpan) -> Iterator[pa.RecordBatch]:
        """MARKS of one span. A manifest that is gone has none: the caller finds out why it is gone.

        Raises CorruptData for a manifest that cannot be understood.
        """
        chain = self.survey.chains[span.chain]
        repository = self.survey.repositories[chain.repository]
        paths = [chain.path(chain.files[position]) for position in span.positions]
        contents = zip(span.positions, read_manifests(repository, paths), strict=True)
        present = ((position, content) for position, content in contents if content is not None)
        yield from mark_span(chain, span.chain, present, KeyResolver(self.survey, os.path.realpath))


def _leftovers(stored: tuple[DatasetLocation, str]) -> Iterator[pa.RecordBatch]:
    """MARKS from one stored part (directory, name): files that an unfinished run had proved to be old."""
    candidates = plans.read_part(*stored)
    if candidates is None:
        return
    for batch in candidates.filter(candidates["verified"]).to_batches():
        yield leftover_marks(batch["key"], batch["local"])


def _about_versions(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.filter(pc.is_null(batch["key"]))
