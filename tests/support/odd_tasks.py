"""Tasks of a native scan that go wrong, or take their time, in the middle: put in place of ``planning.ScanTask``."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from lance_spark.errors import CorruptData
from lance_spark.native.tasks import ScanTask
from lance_spark.scan.partition_rules import ScanPartition


@dataclass(frozen=True)
class _Odd(ScanTask):
    def rows(self, part: ScanPartition) -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(super().rows(part)):
            yield batch
            if number == 1:
                self.surprise()

    def surprise(self) -> None:
        """After two batches."""
        raise NotImplementedError


class FailingTask(_Odd):
    def surprise(self) -> None:
        raise CorruptData("The third batch cannot be read.", hint="Take another one.")


class BrokenTask(_Odd):
    def surprise(self) -> None:
        raise ConnectionResetError("the store has gone away")


class DyingTask(_Odd):
    def surprise(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


class SlowTask(_Odd):
    def surprise(self) -> None:
        time.sleep(120)


class EmptyTask(ScanTask):
    """Batches without rows between those with rows."""

    def rows(self, part: ScanPartition) -> Iterator[pa.RecordBatch]:
        for batch in super().rows(part):
            yield batch.slice(0, 0)
            yield batch
        yield pa.RecordBatch.from_pylist([], self.output)


class UnreachableTask(ScanTask):
    """Fails before it has sent anything."""

    def rows(self, part: ScanPartition) -> Iterator[pa.RecordBatch]:  # noqa: ARG002 - as ScanTask has it
        raise CorruptData("The first batch cannot be read.", hint="Take another one.")
