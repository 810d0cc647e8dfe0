"""The pieces of a cleanup that run side by side, on executors or in threads. Each takes plain values that pickle."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.actions.cleanup.evidence import check_gone
from lance_spark.cleanup.candidates import is_manifest, to_candidates
from lance_spark.cleanup.changes_since_mark import News
from lance_spark.cleanup.evidence import Manifest, manifest_at
from lance_spark.cleanup.inventory import to_listing
from lance_spark.cleanup.outcome import Outcome, outcome_rows
from lance_spark.cleanup.pace import Pace
from lance_spark.cleanup.references import ANYWHERE, MARKS, Places, Run, inspect, leftover_marks
from lance_spark.cleanup.retention import Verdict
from lance_spark.cleanup.survey import Survey
from lance_spark.cleanup.sweep import to_files
from lance_spark.layout.file_kinds import Roots
from lance_spark.layout.key_ranges import KeyRange
from lance_spark.location import DatasetLocation
from lance_spark.store import plans
from lance_spark.store.deleting import BATCH, delete_batch
from lance_spark.store.listing import list_range
from lance_spark.store.manifests import read_manifests


@dataclass(frozen=True)
class Inspect:
    """Reads runs of versions and marks what they name."""

    survey: Survey

    def __call__(self, run: Run) -> Iterator[pa.RecordBatch]:
        """MARKS of one run. A manifest that is gone has none: whoever asked looks into that.

        Raises CorruptData for a manifest that cannot be understood.
        """
        chain = self.survey.chains[run.chain]
        repository = self.survey.repositories[chain.repository]
        paths = [chain.path(chain.files[position]) for position in run.positions]
        contents = zip(run.positions, read_manifests(repository, paths), strict=True)
        places = Places(self.survey, os.path.realpath)
        present = ((position, content) for position, content in contents if content is not None)
        yield from inspect(chain, run.chain, present, places)


@dataclass(frozen=True)
class ListFiles:
    """Lists one range of keys and tells what each file is."""

    location: DatasetLocation
    chains: Mapping[str, int]
    """Index of each chain of the dataset by its root."""

    def __call__(self, part: KeyRange) -> Iterator[pa.RecordBatch]:
        """FILES of one range."""
        return self.batches(list_range(self.location, part))

    def inventory(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """FILES from batches of an inventory."""
        return self.batches(listed for batch in batches for listed in to_listing(batch, self.location.uri).to_batches())

    def batches(self, listing: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """FILES from batches of LISTING."""
        roots = Roots(self.chains)
        for batch in listing:
            if batch.num_rows:
                yield to_files(batch, roots, self.chains)


@dataclass(frozen=True)
class SaveCandidates:
    """Stores what was decided to go, as one file for each partition."""

    directory: DatasetLocation
    root: str
    branches: tuple[str, ...]

    def __call__(self, decided: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """WRITTEN, from batches of DECIDED."""
        return plans.write_part(self.directory, to_candidates(decided, self.root, self.branches))


def leftovers(item: tuple[DatasetLocation, str]) -> Iterator[pa.RecordBatch]:
    """MARKS from one stored part (directory, name): files a run that did not finish had proved to be old."""
    candidates = plans.read_part(*item)
    if candidates is None:
        return
    for batch in candidates.filter(candidates["verified"]).to_batches():
        yield leftover_marks(batch["key"], batch["local"])


@dataclass(frozen=True)
class Live:
    """What manifests that are news name, as keys; see ``cleanup.references.Places``."""

    keys: frozenset[str]
    gone: tuple[Manifest, ...] = ()
    """Manifests that were listed and could not be found when they were read."""


def read_live(survey: Survey, item: News) -> Live:
    """Read the manifests that are news."""
    chain, index = item.chain, survey.chains.index(item.chain)
    own = frozenset(chain.path(chain.files[position]) for position in item.positions)
    table = pa.Table.from_batches(Inspect(survey)(Run(index, item.positions)), MARKS)
    read = _read_positions(table)
    gone = tuple(manifest_at(survey, chain, at) for at in item.positions if at not in read)
    keys = frozenset(pc.drop_null(table["key"]).to_pylist())
    return Live(keys | own if chain.repository == 0 else keys, gone)


def _read_positions(marks: pa.Table) -> set[int]:
    """The positions of the versions of one chain that were read."""
    return set(marks.filter(pc.is_valid(marks["timestamp_ns"]))["first"].to_pylist())


class Watch:
    """Looks again whether anything became live, before each batch; reads a manifest that is news only once.

    Threads share one; carried to another process, it begins anew.
    """

    def __init__(self, look: Look) -> None:
        self._look = look
        self._lock = threading.Lock()
        self._read: dict[object, frozenset[str]] = {}
        self._good_until = float("-inf")
        self._live: frozenset[str] = frozenset()

    def __reduce__(self) -> tuple[type[Watch], tuple[Look]]:
        return Watch, (self._look,)

    def live(self) -> frozenset[str]:
        """Keys that a version names which was not there, or was to be removed, at the mark."""
        with self._lock:
            began = time.monotonic()
            if began >= self._good_until:
                self._look_again()
                now = time.monotonic()
                self._good_until = now + (now - began if self._look.rest is None else self._look.rest)
            return self._live

    def _look_again(self) -> None:
        survey, found = self._look.news()
        for item in found:
            known = (item.chain, item.positions)
            if known not in self._read:
                live = read_live(survey, item)
                check_gone(survey, self._look.clones, self._look.clones_from, live.gone)
                self._read[known] = live.keys
        self._live = frozenset().union(*self._read.values())


@dataclass(frozen=True)
class Look:
    """What it takes to look at the world again."""

    survey: Survey
    """As it was at the mark."""
    verdicts: tuple[Verdict, ...]
    clones: tuple[str, ...] = ()
    clones_from: tuple[str, ...] = ()
    rest: float | None = None
    """Seconds for which one look is good; None for as long as it took. So a dataset with very many versions spends at
    most half of its time on looking, and any other looks before every batch."""
    listed_is_live: bool = False
    """Whether manifests have had their turn, so that one that is still listed keeps its files; see ``news``."""
    window_ns: int | None = None
    """When the commit window begins, nanoseconds since the epoch; None if there is none."""

    def news(self) -> tuple[Survey, list[News]]:
        """The repository as it is now, and what became live in it."""
        from lance_spark.cleanup.changes_since_mark import news
        from lance_spark.store.survey import survey

        now = survey(self.survey.location, self.clones, self.clones_from)
        return now, news(self.survey, now, self.verdicts, self.listed_is_live, self.window_ns)


@dataclass(frozen=True)
class DeleteFiles:
    """Deletes the files of one stored part, looking again before each batch."""

    directory: DatasetLocation
    location: DatasetLocation
    watch: Watch
    per_second: float | None

    def __call__(self, part: str) -> Iterator[pa.RecordBatch]:
        """OUTCOMES of one part."""
        candidates = plans.read_part(self.directory, part)
        if candidates is None:
            return
        pace = Pace(self.per_second)
        files = candidates.filter(pc.invert(is_manifest(candidates))).combine_chunks()
        for rows in files.to_batches(max_chunksize=BATCH):
            time.sleep(pace.wait(time.monotonic(), rows.num_rows))
            yield delete_rows(self.location, rows, self.watch.live())
        # Paid for before the next part begins, or the first batch of every part would be free.
        time.sleep(pace.wait(time.monotonic(), 0))


def delete_rows(location: DatasetLocation, rows: pa.RecordBatch, live: frozenset[str]) -> pa.RecordBatch:
    """Delete candidates but those that became live; what became of each, as OUTCOMES."""
    spared = {
        file
        for file, key, local in zip(*(rows[name].to_pylist() for name in ("file", "key", "local")), strict=True)
        if key in live or ANYWHERE + local in live
    }
    deleted = delete_batch(location, [file for file in rows["file"].to_pylist() if file not in spared])
    return outcome_rows(rows, Outcome(frozenset(deleted.deleted), frozenset(deleted.gone), dict(deleted.failed)))
