"""A stream read in this process, as Spark drives it: offsets go through JSON, and any batch may be run again."""

from __future__ import annotations

import json
from typing import Any

from lance_spark.streams.source import StreamSource, stream_feed, stream_read, stream_schema
from lance_spark.streams.source_rules import StreamOffset, StreamPlace, parse_offset, unbegun
from lance_spark.streams.source_tasks import divide, read_task

Row = dict[str, Any]


class Query:
    """A query with its checkpoint: offsets that were planned, and those that were committed."""

    def __init__(self, uri: str, **options: object) -> None:
        self.given = {"path": uri, **{name: str(value) for name, value in options.items()}}
        self.planned: list[dict[str, Any]] = []
        self.batches: list[list[Row]] = []
        """Rows of each batch, which a batch that is run again replaces."""
        self.restart()

    def restart(self, **options: object) -> Query:
        """Another process, which knows the checkpoint only."""
        self.given |= {name: str(value) for name, value in options.items()}
        self.stream = stream_read(self.given)
        self.schema = stream_schema(self.stream)
        self.source = StreamSource(self.stream, self.schema, stream_feed(self.stream))
        return self

    def plan(self) -> bool:
        """Whether there is a further batch; its end is in the checkpoint then."""
        start = self.planned[-1] if self.planned else unbegun()
        end = self.source.latest(parse_offset(start), self.stream.limits).to_json()
        if end == start:
            return False
        self.planned.append(json.loads(json.dumps(end)))
        return True

    def run(self, number: int = -1) -> list[Row]:
        """The rows of a planned batch."""
        number %= len(self.planned)
        start = self.planned[number - 1] if number else unbegun()
        parts = self.source.parts(parse_offset(start), self._end(number))
        tasks = divide(parts, self.stream.read, self.schema, 2)
        rows = [row for task in tasks for batch in read_task(task, self.schema) for row in batch.to_pylist()]
        self.batches[number:] = [rows]
        return rows

    def commit(self, number: int = -1) -> None:
        self.source.commit(self._end(number))

    def drain(self) -> list[Row]:
        """All batches until nothing is new, and all rows so far."""
        while self.plan():
            self.run()
            self.commit()
        return self.rows

    @property
    def rows(self) -> list[Row]:
        return [row for batch in self.batches for row in batch]

    @property
    def place(self) -> StreamPlace:
        return self._end(-1).next

    def _end(self, number: int) -> StreamOffset:
        end = parse_offset(self.planned[number])
        assert end is not None
        return end


def ids(rows: list[Row]) -> list[int]:
    return sorted(row["id"] for row in rows)
