"""Deleting what a recorded plan lists: manifests, then files, then the directories that are left empty.

Refs and manifests are read again before each batch. Whatever became live since the mark stays.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.actions.cleanup.evidence import check_gone
from lance_spark.actions.cleanup.mark import MarkSpan
from lance_spark.cleanup.candidates import CANDIDATES, OUTCOMES, in_deletion_order, outcome_rows
from lance_spark.cleanup.changes_since_mark import newly_live
from lance_spark.cleanup.document import PlanFacts
from lance_spark.cleanup.evidence import manifest_at
from lance_spark.cleanup.pace import Pace
from lance_spark.cleanup.references import ANYWHERE, MARKS, ChainSpan
from lance_spark.cleanup.retention import RunClock
from lance_spark.cleanup.survey import Survey
from lance_spark.layout.file_kinds import BLOB, INDEX
from lance_spark.location import DatasetLocation
from lance_spark.runner.interface import Runner
from lance_spark.store import plans
from lance_spark.store.deleting import BATCH, delete_batch, remove_empty_directories
from lance_spark.store.parallel import each
from lance_spark.store.survey import survey

_NESTED = frozenset({INDEX, BLOB})
"""Kinds of files that have directories of their own."""
_DIRECTORIES = pa.schema([("directory", pa.string())])


class Recheck:
    """Looks again, before each batch, for whatever became live; reads each new manifest only once.

    Threads share one. A copy in another process begins again with nothing read.
    """

    def __init__(
        self, facts: PlanFacts, now_ns: int, manifests_are_done: bool = False, rest: float | None = None
    ) -> None:
        """``manifests_are_done`` says that a manifest which is still listed keeps its files; see ``newly_live``.

        ``rest`` are the seconds for which one look is good. None is as long as the look took: then a dataset with very
        many versions spends at most half of the time on looking, and any other one looks before every batch.
        """
        self._given = facts, now_ns, manifests_are_done, rest
        self._window_ns = RunClock(now_ns).before(facts.commit_window) if facts.commit_window else None
        self._lock = threading.Lock()
        self._keys_by_span: dict[object, frozenset[str]] = {}
        self._good_until = float("-inf")
        self._live: frozenset[str] = frozenset()
        self._seen = facts.survey

    def __reduce__(self) -> tuple[type[Recheck], tuple[PlanFacts, int, bool, float | None]]:
        return Recheck, self._given

    def live_keys(self) -> frozenset[str]:
        """Keys of files that a version names which was not there at the mark, or was to be removed."""
        rest = self._given[-1]
        with self._lock:
            began = time.monotonic()
            if began >= self._good_until:
                self._look_again()
                now = time.monotonic()
                self._good_until = now + (now - began if rest is None else rest)
            return self._live

    def look(self) -> Survey:
        """The dataset as it is now, by a look that is good."""
        self.live_keys()
        return self._seen

    def _look_again(self) -> None:
        facts, _, manifests_are_done, _ = self._given
        now = survey(facts.survey.location, facts.clones, facts.clones_from)
        for span in newly_live(facts.survey, now, facts.verdicts, manifests_are_done, self._window_ns):
            known = now.chains[span.chain], span.positions
            if known not in self._keys_by_span:
                self._keys_by_span[known] = _keys_of(now, span, facts)
        self._live = frozenset().union(*self._keys_by_span.values())
        self._seen = now


def _keys_of(now: Survey, span: ChainSpan, facts: PlanFacts) -> frozenset[str]:
    """What the versions of a span name, and their own manifests, as keys; see ``cleanup.references.KeyResolver``."""
    chain = now.chains[span.chain]
    marks = pa.Table.from_batches(MarkSpan(now)(span), MARKS)
    read = frozenset(marks.filter(pc.is_valid(marks["timestamp_ns"]))["first"].to_pylist())
    gone = [manifest_at(now, chain, at) for at in span.positions if at not in read]
    check_gone(now, facts.clones, facts.clones_from, gone)
    own = () if chain.repository else (chain.path(chain.files[at]) for at in span.positions)
    return frozenset([*pc.drop_null(marks["key"]).to_pylist(), *own])


@dataclass(frozen=True)
class Deletion:
    """Deletes candidates in batches at a limited speed, and looks again before each batch. It crosses to executors."""

    location: DatasetLocation
    record: DatasetLocation
    recheck: Recheck
    per_second: float | None

    def manifests(self, parts: Iterable[str]) -> pa.Table:
        """OUTCOMES of the manifests in the parts, oldest version first: no version hint ever points into a hole."""
        tables = each(self.record, partial(plans.read_part, self.record), parts)
        rows = pa.concat_tables([CANDIDATES.empty_table(), *(table for table in tables if table is not None)])
        return pa.Table.from_batches(self._batches(in_deletion_order(rows)), OUTCOMES)

    def __call__(self, part: str) -> Iterator[pa.RecordBatch]:
        """OUTCOMES of the files of one part; none if another run has finished the plan meanwhile."""
        rows = plans.read_part(self.record, part)
        if rows is not None:
            yield from self._batches(rows)

    def _batches(self, candidates: pa.Table) -> Iterator[pa.RecordBatch]:
        pace = Pace(self.per_second)
        for rows in candidates.combine_chunks().to_batches(max_chunksize=BATCH):
            time.sleep(pace.wait(time.monotonic(), rows.num_rows))
            yield self._delete(rows, self.recheck.live_keys())
        # Paid for before the next part begins, or the first batch of every part would be free.
        time.sleep(pace.wait(time.monotonic(), 0))

    def _delete(self, rows: pa.RecordBatch, live: frozenset[str]) -> pa.RecordBatch:
        columns = (rows[name].to_pylist() for name in ("file", "key", "local"))
        ready = [
            file for file, key, local in zip(*columns, strict=True) if key not in live and ANYWHERE + local not in live
        ]
        deleted = delete_batch(self.location, ready)
        return outcome_rows(rows, deleted.deleted, deleted.gone, dict(deleted.failed))


def tidy_up(
    location: DatasetLocation, record: DatasetLocation, parts: Sequence[str], kinds: Iterable[str], runner: Runner
) -> None:
    """Remove directories that deletion left empty: those of indexes and of blobs, on local disks.

    ``kinds`` are the kinds of the files that were deleted.
    """
    if not location.is_local or _NESTED.isdisjoint(kinds):
        return
    emptied = runner.flat_map("tidy up", parts, partial(_directories, record), _DIRECTORIES)
    remove_empty_directories(location, runner.collect("tidy up", emptied)["directory"].to_pylist())


def _directories(record: DatasetLocation, part: str) -> Iterator[pa.RecordBatch]:
    candidates = plans.read_part(record, part)
    if candidates is None:
        return  # another run has finished this one's work, and tidied up
    nested = candidates.filter(pc.is_in(candidates["kind"], value_set=pa.array(sorted(_NESTED))))
    named = zip(nested["file"].to_pylist(), nested["key"].to_pylist(), strict=True)
    directories = {directory for file, key in named for directory in _above(file, key)}
    yield pa.record_batch([pa.array(sorted(directories), pa.string())], _DIRECTORIES)


def _above(file: str, key: str) -> Iterator[str]:
    """The directory of a file, and those above it up to the index's, whose directory is its key."""
    directory = file.rpartition("/")[0]
    yield directory
    while directory.startswith(f"{key}/"):
        directory = directory.rpartition("/")[0]
        yield directory
