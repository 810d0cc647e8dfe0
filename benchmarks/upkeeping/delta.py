"""Delta Lake, where its JARs are given: a shallow clone for each round."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.changing.data import remove
from benchmarks.merging.measure import Run
from benchmarks.peers import OURS
from benchmarks.upkeeping.data import Kept

_numbers = count()


@dataclass(frozen=True)
class DeltaPlace:
    """The rows of a table in as many files of Delta's."""

    spark: SparkSession
    table: Kept
    files: int

    @property
    def home(self) -> str:
        return str(self.table.home_path / "delta")

    @contextmanager
    def copy(self) -> Iterator[str]:
        """The path of a clone, which is gone afterwards."""
        source, path = f"{self.home}/flights", f"{self.home}/round-{next(_numbers)}"
        if not Path(source).exists():
            rows = self.spark.read.format(OURS).load(self.table.pristine)
            rows.repartition(self.files).write.format("delta").save(source)
        self.spark.sql(f"CREATE TABLE delta.`{path}` SHALLOW CLONE delta.`{source}`")
        try:
            yield path
        finally:
            remove(path)

    def check(self, uri: str) -> None:
        """Raise AssertionError unless all rows are there."""
        found = self.spark.read.format("delta").load(uri).count()
        if found != self.table.rows:
            raise AssertionError(f"the table has {found} rows, not {self.table.rows}")


def statement(spark: SparkSession, text: str) -> Run:
    """Runs SQL."""

    def run() -> None:
        spark.sql(text).collect()

    return run
