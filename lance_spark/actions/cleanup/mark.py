"""Marking: which manifests are read, and when. What they name comes back as frames of marks."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.actions.cleanup.evidence import check_gone
from lance_spark.actions.cleanup.tasks import Inspect, leftovers
from lance_spark.cleanup.evidence import manifest_at
from lance_spark.cleanup.policy import CleanupPolicy
from lance_spark.cleanup.references import MARKS, Run, cut_runs
from lance_spark.cleanup.retention import Ages, Moment, Verdict, positions_of_unknown_age, proofs_since
from lance_spark.cleanup.survey import Survey
from lance_spark.errors import InvalidOption, Refused
from lance_spark.location import is_within
from lance_spark.runner.interface import Frame, Runner
from lance_spark.store import files, plans
from lance_spark.store.uri import locate

_TIMES = ("chain", "first", "timestamp_ns")


class Marking:
    """Reads manifests in two steps: those whose age is not known, then the rest of those that are needed."""

    def __init__(self, seen: Survey, policy: CleanupPolicy, runner: Runner) -> None:
        self._seen, self._policy, self._runner = seen, policy, runner
        self._frames: list[Frame] = []
        self._read: dict[int, set[int]] = {}
        self.finishes: tuple[str, ...] = ()
        """Names of the unfinished plans whose evidence is among the marks."""
        self._known_bases = {locate(uri, seen.location.storage_options).uri for uri in policy.known_bases}

    def ages(self, moment: Moment) -> Ages:
        """Commit times of the versions whose age decides, but of those that are gone by now."""
        return self._mark("read manifests", positions_of_unknown_age(self._seen, self._policy, moment))

    def mark_the_rest(self, verdicts: Sequence[Verdict], moment: Moment) -> None:
        """Mark what all kept versions name, and removed ones that may name a file too young to go without a proof."""
        since = proofs_since(self._policy, moment)
        wanted: dict[int, list[int]] = {}
        for index, (chain, verdict) in enumerate(zip(self._seen.chains, verdicts, strict=True)):
            known = self._read.get(index, set())
            found = [
                position
                for position, (manifest, kept) in enumerate(zip(chain.files, verdict.kept, strict=True))
                if position not in known and (kept or manifest.modified_ns >= since)
            ]
            if found:
                wanted[index] = found
        self._mark("mark files", wanted)

    def marks(self) -> Frame:
        """All marks, with the evidence that unfinished runs left."""
        unfinished = plans.unfinished(self._seen.location)
        self.finishes = tuple(unfinished)
        left = [(directory, part) for directory, parts in unfinished.values() for part in parts]
        frames = list(self._frames)
        if left or not frames:
            frames.append(self._runner.flat_map("read unfinished plans", left, leftovers, MARKS))
        return self._runner.union(frames)

    def _mark(self, stage: str, positions: dict[int, list[int]]) -> dict[int, dict[int, int]]:
        runs: list[Run] = cut_runs(self._seen, positions, 2 * self._runner.parallelism, self._read)
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
        self._check_gone(positions, times)
        return times

    def _check_gone(self, asked: Mapping[int, Sequence[int]], read: Mapping[int, Collection[int]]) -> None:
        """A manifest that went with its branch, or with another cleanup, protects nothing any more."""
        gone = [
            manifest_at(self._seen, self._seen.chains[index], at)
            for index, positions in asked.items()
            for at in positions
            if at not in read.get(index, ())
        ]
        check_gone(self._seen, self._policy.clones, self._policy.clones_from, gone)

    def _check_bases(self, found: pa.Table) -> None:
        """Raise Refused for a base path that leads nowhere: then files may be needed that no mark protects."""
        foreign = {base for base in pc.unique(found["foreign"]).to_pylist() if base is not None}
        for base in sorted(foreign):
            try:
                place = locate(base, self._seen.location.storage_options)
            except InvalidOption as problem:
                raise _unknown_base(base, problem.message) from None
            if self._is_known(place.uri):
                continue
            if not files.exists(place):
                raise _unknown_base(base, "nothing is there")

    def _is_known(self, uri: str) -> bool:
        """Whether the user named the place, or one above it: branches are below their dataset."""
        return any(is_within(uri, known) for known in self._known_bases)


def _unknown_base(base: str, why: str) -> Refused:
    return Refused(
        f"A version has files in the base path '{base}', but {why}.",
        hint="Nothing was deleted. If the dataset was moved, this is where it was; if you know the base and nothing "
        "there belongs to this dataset, name it with --known-base.",
    )


def _about_versions(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.filter(pc.is_null(batch["key"]))
