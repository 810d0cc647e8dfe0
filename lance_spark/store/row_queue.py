"""Rows of batches of any size, taken any number at a time."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa


class RowQueue:
    """Rows of batches, which are asked for when they are needed."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = iter(batches)
        self._left: pa.Table | None = None

    def take(self, count: int) -> pa.Table:
        """The next rows; fewer at the end."""
        while self._left is None or self._left.num_rows < count:
            batch = next(self._batches, None)
            if batch is None:
                break
            more = pa.Table.from_batches([batch])
            self._left = more if self._left is None else pa.concat_tables([self._left, more])
        if self._left is None:
            return pa.table({})
        taken, self._left = self._left.slice(0, count), self._left.slice(count)
        return taken
