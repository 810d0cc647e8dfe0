"""A streaming query into a branch in this process, as Spark drives it."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import lance
import pyarrow as pa

from lance_spark.core.refs import PinnedVersion
from lance_spark.storage import refs
from lance_spark.streams.sink import StreamJob, commit_stream, plan_stream
from lance_spark.write import data_files
from lance_spark.write.data_files import write_rows
from support.killed import killed_at
from support.local_datasets import numbers


class Query:
    """A streaming query as Spark runs it: each batch has a plan, tasks, and a commit by another object."""

    def __init__(self, uri: str, checkpoint: Path, **options: str) -> None:
        self.uri = uri
        self.options = {"path": uri, "checkpointLocation": str(checkpoint), **options}
        checkpoint.mkdir(exist_ok=True)
        if not (checkpoint / "metadata").exists():
            (checkpoint / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))
        self.id = options.get("query_id") or json.loads((checkpoint / "metadata").read_text())["id"]
        self.tag = f"stream-{self.id}"

    def plan(self, schema: pa.Schema | None = None, overwrite: bool = False) -> StreamJob:
        return plan_stream(self.options, schema or numbers(1).schema, overwrite)

    def write(self, *tables: pa.Table, overwrite: bool = False) -> tuple[StreamJob, list[str]]:
        stream = self.plan(tables[0].schema, overwrite)
        return stream, [one for table in tables for one in write_rows(stream.job, table.to_batches())]

    def batch(self, number: int, *tables: pa.Table, overwrite: bool = False) -> PinnedVersion | None:
        tables = tables or (numbers(10, 10 * number),)
        stream, fragments = self.write(*tables, overwrite=overwrite)
        return commit_stream(stream, fragments, number)


KILLED = {
    "before the commit": (data_files, "commit_checked", "before"),
    "between commit and tag": (refs, "move_tag", "before"),
    "between the tag and Spark's note": (refs, "move_tag", "after"),
    "at the first tag": (refs, "create_tag", "after"),
}


def die(query: Query, number: int, moment: str) -> None:
    """A driver that dies at a moment of a batch."""
    where, name, when = KILLED[moment]
    with killed_at(where, name, after=when == "after"):
        query.batch(number)


def on(uri: str, branch: str | None) -> lance.LanceDataset:
    """A branch as pylance has it."""
    dataset = lance.dataset(uri)
    return dataset if branch is None else dataset.checkout_version((branch, None))


def others(uri: str, count: int, branch: str | None = None, first: int = 1000) -> list[int]:
    """Commits of others, of several kinds. Returns the rows that they add."""
    dataset = on(uri, branch)
    for number in range(count):
        dataset = lance.write_dataset(numbers(1, first + number), dataset, mode="append")
        if number % 40 == 7:
            dataset.delete(f"id = {first + number}")
            dataset.optimize.compact_files()
    return [first + number for number in range(count) if number % 40 != 7]
