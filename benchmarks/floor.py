"""The floor: a Python data source that only hands over ready-made batches. No Python reader can be faster."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

NAME = "benchmark_floor"


class Floor(DataSource):
    """Options: ``path`` to one Arrow batch, ``schema`` (Spark's JSON), ``rows`` in all, ``partitions``."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        import json

        return StructType.fromJson(json.loads(self.options["schema"]))

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - Spark's signature
        return FloorReader(self.options["path"], int(self.options["rows"]), int(self.options["partitions"]))


class FloorReader(DataSourceReader):
    def __init__(self, path: str, rows: int, partitions: int) -> None:
        self._path, self._rows, self._partitions = path, rows, partitions

    def partitions(self) -> list[InputPartition]:
        bounds = [self._rows * part // self._partitions for part in range(self._partitions + 1)]
        return [InputPartition(last - first) for first, last in pairwise(bounds)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with pa.ipc.open_file(pa.memory_map(self._path)) as file:
            batch = file.get_batch(0)
        left = partition.value
        while left > 0:
            yield batch if left >= batch.num_rows else batch.slice(0, left)
            left -= batch.num_rows


def save_batch(batch: pa.RecordBatch, path: Path) -> str:
    """Keep the batch that the floor hands over again and again."""
    with pa.ipc.new_file(str(path), batch.schema) as file:
        file.write_batch(batch)
    return str(path)
