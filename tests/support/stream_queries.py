"""A streaming query into a branch in this process, as Spark drives it."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa

from lance_spark.actions.streams.sink import StreamJob, commit_stream, plan_stream
from lance_spark.refs.model import PinnedVersion
from lance_spark.store.writing import write_rows
from support.local_datasets import numbers


class Killed(BaseException):
    """The process is gone."""


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


def kill(*_: Any, **__: Any) -> NoReturn:
    raise Killed
