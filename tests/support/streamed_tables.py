"""The tables of queries that are killed: what is read and written, what others do, what is there in the end."""

from __future__ import annotations

import json
import os
import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.parquet as pq

from lance_spark.cleanup.cleanup import plan_cleanup
from lance_spark.cleanup.retention_rules import CleanupPolicy
from lance_spark.engine.local import LocalRunner
from lance_spark.format.stream_notes import BATCH, TAKEN_BACK
from lance_spark.storage.datasets import locate
from lance_spark.streams.query_records import look_for
from lance_spark.streams.sink_rules import Batch, last_batch
from support.cleanup_datasets import now_ns, place
from support.feeds import replayed, values

BATCHES = 4
COLUMNS = ("id", "v")
_POLICY = CleanupPolicy(older_than=timedelta(0), commit_window=timedelta(0), error_if_tagged_old_versions=False)


def rows(ids: range, v: int = 0) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "v": pa.array([v] * len(ids), pa.int64())})


class StreamedTable(ABC):
    """A dataset, and a query with its checkpoint. Whether others commit to it, or clean it up, the seed says."""

    kind: str
    tag: str
    branch: str | None = None

    def __init__(self, directory: Path, uri: str, storage: Mapping[str, str] | None, seed: int) -> None:
        self.directory, self.uri, self.storage = directory, uri, dict(storage or {})
        self.chance = random.Random(seed)
        self.cleans = self.chance.random() < 0.4
        (directory / "source").mkdir(parents=True)
        self._burst_at = 0

    def job(self) -> dict[str, Any]:
        """What ``stream_job.py`` takes, at the beginning of a run."""
        self._burst_at = self.noted("offsets") + 1
        self._forget_half_a_note()
        return {
            "kind": self.kind,
            "uri": self.uri,
            "storage": self.storage,
            "source": str(self.directory / "source"),
            "checkpoint": str(self.directory / "checkpoint"),
            "out": str(self.directory / "out"),
            "options": self.options(),
        }

    @abstractmethod
    def options(self) -> dict[str, str]:
        """Those of the sink or the source."""

    def check(self, died: Sequence[str]) -> None:
        """Compare every row with what has to be there. ``died`` is for the message."""
        told = f"query {self.directory.name} died: {'; then '.join(died)}"
        self._check(told)

    @abstractmethod
    def _check(self, told: str) -> None:
        """Every row, and what the dataset says of batches."""

    @abstractmethod
    def others(self) -> None:
        """What others do between two runs of the query."""

    @abstractmethod
    def burst(self) -> None:
        """Commits of others while the query runs."""

    def meanwhile(self) -> None:
        """What others do when a run has begun with its first batch, once."""
        if self.noted("offsets") >= self._burst_at:
            self._burst_at = 1 << 60
            self.burst()

    def noted(self, what: str) -> int:
        """How many batches Spark noted in a directory of the checkpoint. It keeps the notes of the last ones only."""
        names = [path.name for path in (self.directory / "checkpoint" / what).glob("*")]
        return 1 + max((int(name) for name in names if name.isdecimal()), default=-1)

    def _forget_half_a_note(self) -> None:
        """Spark refuses a checkpoint if it died while it noted the first batch: "should be empty on batch 0"."""
        if not self.noted("offsets"):
            for path in (self.directory / "checkpoint" / "offsets").glob("*"):
                path.unlink()

    @property
    def finished(self) -> bool:
        """Whether all is read, and Spark noted that."""
        return self.noted("commits") >= BATCHES

    def dataset(self) -> lance.LanceDataset:
        """The branch as pylance has it."""
        return lance.dataset(place(self.uri, self.branch), storage_options=self.storage or None)

    def exists(self) -> bool:
        try:
            self.dataset()
        except ValueError:
            return False
        return True

    def give(self, number: int, lines: Sequence[Mapping[str, int]]) -> None:
        """One more file of the source. Spark takes them in the order of their times."""
        path = self.directory / "source" / f"{number}.json"
        path.write_text("\n".join(map(json.dumps, lines)))
        os.utime(path, (1_700_000_000 + number,) * 2)

    def append(self, table: pa.Table, **arguments: Any) -> None:
        uri = place(self.uri, self.branch)
        lance.write_dataset(table, uri, mode="append", storage_options=self.storage or None, **arguments)

    def clean(self) -> None:
        """What nobody needs any more goes at once, also what the query has yet to look at."""
        location = locate(self.uri, self.storage)
        assert plan_cleanup(location, _POLICY, LocalRunner(2), now_ns()).apply().complete

    def tags(self) -> dict[str, Any]:
        dataset = lance.dataset(self.uri, storage_options=self.storage or None)
        return {name: entry for name, entry in dataset.tags.list().items() if name.startswith(self.tag)}

    def _check_batches(self, told: str) -> None:
        """The tag is at the last batch's version, and no version of the branch has a batch that another one has.

        If the driver died before it moved the tag there, and others committed since, the tag stays: drivers die twice.
        Spark's source of files may remember files of a batch that Spark had not noted when it died: the next batch then
        has these files and its own, and the query has fewer batches.
        """
        every = [str(number) for number in range(self.noted("commits"))]
        ((name, tag),) = self.tags().items()
        dataset = self.dataset()
        versions = sorted(entry["version"] for entry in dataset.versions())
        said = {number: dataset.read_transaction(number).transaction_properties for number in versions}
        batches = [said[number][BATCH] for number in versions if BATCH in said[number]]
        told = f"{told}; its tag is at version {tag['version']} of {said}"
        assert (tag["branch"], tag["version"] in versions) == (self.branch, True), told
        query = name.removeprefix(self.tag)
        look = look_for(locate(self.uri, self.storage), Batch(self.uri, self.branch, query, 0), versions[-1])
        assert last_batch(look, query) == int(every[-1]), told  # a cleanup may have noted it, and taken the version
        if any(TAKEN_BACK in properties for properties in said.values()):
            return  # what a driver added that was killed, and yet went on
        if self.cleans:
            assert batches == sorted({*batches} & {*every}, key=int), told
        else:
            assert batches == every, told
            last = next(number for number in versions if said[number].get(BATCH) == every[-1])
            before = every[-3:-1] if last < versions[-1] else []
            assert said[tag["version"]][BATCH] in (every[-1], *before), told


class Sunk(StreamedTable):
    """Rows of JSON files are appended: to a branch that the query makes, or to a dataset that it makes."""

    kind, tag = "sink", "stream-"

    def __init__(self, directory: Path, uri: str, storage: Mapping[str, str] | None, seed: int) -> None:
        super().__init__(directory, uri, storage, seed)
        self.foreign = 0
        for number in range(2 * BATCHES):
            self.give(number, [{"id": 3 * number + row, "v": number} for row in range(3)])
        if self.chance.random() < 0.7:
            lance.write_dataset(rows(range(1000, 1003)), uri, storage_options=self.storage or None)
            self.branch = "ingest"

    def options(self) -> dict[str, str]:
        where = {} if self.branch is None else {"branch": self.branch, "create_branch": "true"}
        return {"optimize_every": "2", **where}

    def others(self) -> None:
        if self.chance.random() < 0.7:
            self.burst()

    def burst(self) -> None:
        if not self.exists():
            return
        for _ in range(self.chance.randint(1, 12) if self.cleans else 1):
            self.foreign += 1
            self.append(rows(range(-self.foreign, 1 - self.foreign)))
        if self.cleans:
            self.clean()

    def _check(self, told: str) -> None:
        own, foreign = range(2 * BATCHES * 3), range(-self.foreign, 0)
        expected = Counter({(number, number // 3): 1 for number in own}) + Counter((number, 0) for number in foreign)
        if self.branch is not None:
            expected += Counter((number, 0) for number in range(1000, 1003))
            assert lance.dataset(self.uri, storage_options=self.storage or None).count_rows() == 3, told
        found = self.dataset().to_table().to_pylist()
        assert Counter((row["id"], row["v"]) for row in found) == expected, told
        self._check_batches(told)


class Upserted(StreamedTable):
    """Rows of JSON files are upserted. Each batch has keys of every batch, and keys of its own.

    Others change rows of batches that are in: they would be changed back by a batch that is in twice.
    """

    kind, tag, branch = "upsert", "stream-", "ingest"

    def __init__(self, directory: Path, uri: str, storage: Mapping[str, str] | None, seed: int) -> None:
        super().__init__(directory, uri, storage, seed)
        self.expected = {0: BATCHES - 1, 1: BATCHES - 1, 2: -5, 3: -5}
        for batch in range(BATCHES):
            own = range(100 + 10 * batch, 104 + 10 * batch)
            self.expected |= dict.fromkeys(own, batch)
            for file, keys in enumerate(((0, *own[:2]), (1, *own[2:]))):
                self.give(2 * batch + file, [{"id": key, "v": batch} for key in keys])
        stored = {"storage_options": self.storage or None}
        lance.write_dataset(rows(range(4), -5), uri, max_rows_per_file=2, **stored).create_branch("ingest", **stored)

    def options(self) -> dict[str, str]:
        return {"branch": "ingest", "optimize_every": "2"}

    def burst(self) -> None:
        """Nothing: they change rows of batches that are in."""

    def others(self) -> None:
        for batch in range(BATCHES):
            key = 100 + 10 * batch
            if self.expected[key] != -1 and self.dataset().count_rows(f"id = {key}"):
                self.dataset().update({"v": "-1"}, where=f"id = {key}")
                self.expected[key] = -1
        if self.cleans:
            self.clean()

    def _check(self, told: str) -> None:
        found = self.dataset().to_table().to_pylist()
        assert sorted((row["id"], row["v"]) for row in found) == sorted(self.expected.items()), told
        self._check_batches(told)


class Followed(StreamedTable):
    """A branch to which others commit: its rows, or its changes, from its first version or its newest one."""

    kind, tag = "source", "reader-"

    def __init__(self, directory: Path, uri: str, storage: Mapping[str, str] | None, seed: int) -> None:
        super().__init__(directory, uri, storage, seed)
        self.changes = self.chance.random() < 0.5
        self.snapshot = self.chance.random() < 0.35
        self.count = 0
        for number in range(3):
            self._grow()
            if not number and self.chance.random() < 0.5:
                dataset = lance.dataset(uri, storage_options=self.storage or None)
                dataset.create_branch("exp", storage_options=self.storage or None)
                self.branch = "exp"

    def options(self) -> dict[str, str]:
        branch = {} if self.branch is None else {"branch": self.branch}
        start = {} if self.snapshot else {"starting_version": "1"}
        return {"max_files_per_trigger": "1", "changes": str(self.changes).lower(), **branch, **start}

    @property
    def finished(self) -> bool:
        batches = self.noted("offsets")
        if not batches or self.noted("commits") < batches:
            return False
        end = (self.directory / "checkpoint" / "offsets" / str(batches - 1)).read_text().splitlines()[-1]
        return bool(json.loads(end)["version"] > self.dataset().version)

    def others(self) -> None:
        for step in self.chance.sample(["append", "compact", "delete", "update"], 2):
            if step == "append":
                self._grow()
            elif step == "compact":
                self.dataset().optimize.compact_files()
            elif self.changes and step == "delete":
                self.dataset().delete(f"id = {self.chance.randrange(self.count)}")
            elif self.changes:
                self.dataset().update({"v": str(self.chance.randrange(9))}, where=f"id > {self.count - 3}")
        if self.cleans and self.tags():
            self.clean()

    def burst(self) -> None:
        for _ in range(2):
            self._grow()

    def _check(self, told: str) -> None:
        found: list[dict[str, Any]] = []
        for path in sorted((self.directory / "out").rglob("*.parquet")):
            found += pq.read_table(path).to_pylist()
        expected = Counter(values(row, COLUMNS) for row in self.dataset().to_table().to_pylist())
        if self.changes:
            assert replayed(Counter(), found, COLUMNS) == expected, told
        else:
            assert Counter(values(row, COLUMNS) for row in found) == expected, told
            assert len(found) == self.count, told
        (tag,) = self.tags().values()
        assert tag["version"] <= self.dataset().version, told

    def _grow(self) -> None:
        self.append(rows(range(self.count, self.count + 2), self.count % 3))
        self.count += 2


def streamed_tables(
    kind: str, group: int, directory: Path, root: str, storage: Mapping[str, str] | None = None
) -> list[StreamedTable]:
    """The five tables of a group, each by a seed of its own: 50 in ten groups."""
    seeds = range(5 * group, 5 * group + 5)
    return [KINDS[kind](directory / str(seed), f"{root}/{seed}.lance", storage, seed) for seed in seeds]


KINDS: dict[str, type[StreamedTable]] = {"sink": Sunk, "upsert": Upserted, "source": Followed}
