"""Everything at once on one dataset: appends, deletes, compactions, branches, merges, tags and cleanups.

Each worker is a process of its own. It says in its log what it was told; the test compares that with what is there.
"""

from __future__ import annotations

import hashlib
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import lance
import pyarrow as pa

from lance_spark.cleanup.retention_rules import CleanupPolicy
from lance_spark.core.location import DatasetLocation
from lance_spark.errors import Conflict, LanceSparkError
from lance_spark.storage.datasets import locate
from support.storm_log import OK, REFUSED, UNKNOWN, Entry, Log

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])
LATE = 0.5
"""Seconds between a look at the jobs under way and the plan that rests on it, at the most."""
PATIENCE = 60
"""Seconds after the end in which a worker may still do for the first time what it is there for."""
ENOUGH = 2_000
"""Rows from which the deleter deletes more at a time."""
BEGAN, SINCE = 0, 1
CONFLICTS = ("commit conflict", "concurrent transaction", "too much write contention", "too many concurrent writers")
"""What pylance says when another process was first."""
TAGS = ("t0", "t1", "t2")


class Place(NamedTuple):
    """The dataset, and where the workers leave their logs and say what they are about to do."""

    uri: str
    storage: dict[str, str]
    notes: str
    seed: int
    seconds: float
    pause: float
    """The longest that an appender rests, in seconds."""
    margin: float = 1.0
    """Seconds that a cleanup's window is longer than the longest job under way: more than LATE, and than the unit in
    which the store tells times."""

    @property
    def location(self) -> DatasetLocation:
        return locate(self.uri, self.storage)


def opened(place: Place, branch: str | None = None, version: int | None = None) -> lance.LanceDataset:
    return lance.dataset(place.location.branch_uri(branch), version=version, storage_options=place.storage)


def table_of(ids: Sequence[int]) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "v": pa.array([value_of(key) for key in ids], pa.int64())})


def value_of(key: int) -> int:
    """What stands beside an id: rows that were put together from two would show."""
    return key * 7919 % 1_000_003


def digest(ids: Sequence[int]) -> str:
    return hashlib.sha256(repr(sorted(ids)).encode()).hexdigest()


def make(place: Place, stable: bool) -> None:
    """The dataset, with some rows from worker 0."""
    began = time.time()
    os.makedirs(Path(place.notes, "jobs"))
    rows = list(range(50))
    lance.write_dataset(table_of(rows), place.uri, storage_options=place.storage, enable_stable_row_ids=stable)
    Log(place.notes, "maker").add("create", OK, began, added=rows)


@dataclass
class Worker:
    """A process: its log, its chances, its ids, and when it ends."""

    place: Place
    name: str
    number: int

    def __post_init__(self) -> None:
        self.log = Log(self.place.notes, self.name)
        self.chance = random.Random(f"{self.place.seed} {self.name}")
        self.end = time.time() + self.place.seconds
        self._next = self.number * 1_000_000_000

    def fresh(self, most: int) -> list[int]:
        """Ids that no row has had."""
        count = self.chance.randint(1, most)
        self._next += count
        return list(range(self._next - count, self._next))

    def goes_on(self, done: bool) -> bool:
        """Until the end; longer where the worker has not been able to do what the run is for."""
        return time.time() < (self.end if done else self.end + PATIENCE)

    def rest(self, longest: float) -> None:
        time.sleep(self.chance.uniform(0, longest))

    def hesitate(self) -> None:
        """Let the version that was opened get older, at times by many commits."""
        self.rest(self.chance.choice([0.01, 0.05, 0.3]))

    @contextmanager
    def job(self) -> Iterator[None]:
        """Say since when versions are needed: since this job began, or one that was under way at that moment.

        (A version shows up a moment after the time that stands in it. So one that this job does not see when it begins
        may be older than the job, but not older than the job that commits it.)
        """
        began = time.time_ns()
        since = min([began, *under_way(self.place, BEGAN)])
        note = Path(self.place.notes, "jobs", self.name)
        new = note.with_suffix(".new")
        new.write_text(f"{began} {since}")
        new.rename(note)
        try:
            yield
        finally:
            note.unlink()

    def attempt(self, action: str, run: Callable[[], Mapping[str, Any]], **rows: Sequence[int]) -> Entry:
        """Do it, and write down what came of it."""
        began = time.time()
        try:
            facts = run()
        except (OSError, RuntimeError, ValueError, LanceSparkError) as problem:
            outcome = REFUSED if is_conflict(problem) else UNKNOWN
            return self.log.add(action, outcome, began, error=f"{type(problem).__name__}: {problem}", **rows)
        return self.log.add(action, OK, began, facts=dict(facts), **rows)


def is_conflict(problem: Exception) -> bool:
    """Whether another process was first, and nothing happened."""
    if isinstance(problem, LanceSparkError):
        return isinstance(problem, Conflict)
    return isinstance(problem, (OSError, RuntimeError)) and any(words in str(problem).lower() for words in CONFLICTS)


def under_way(place: Place, moment: int) -> list[int]:
    """Of each job under way, when it began (BEGAN) or since when it needs versions (SINCE), in nanoseconds."""
    moments = []
    for note in Path(place.notes, "jobs").iterdir():
        if note.suffix != ".new":
            try:
                moments.append(int(note.read_text().split()[moment]))
            except FileNotFoundError:
                continue  # the job has ended
    return moments


def policy(**given: Any) -> CleanupPolicy:
    """As short a history as there can be."""
    return CleanupPolicy(older_than=timedelta(0), retain_versions=1, error_if_tagged_old_versions=False, **given)
