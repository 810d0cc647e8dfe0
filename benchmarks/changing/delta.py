"""Delta Lake, where its JARs are given: a shallow clone for each round, with deletion vectors or without."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.changing.data import Tables, remove

SETTINGS = {
    # For one machine; by default Delta cuts the state of its log into 50 tasks, which takes seconds on two cores.
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
_numbers = count()


@dataclass(frozen=True)
class DeltaPlace:
    """Where clones of the table are."""

    spark: SparkSession
    tables: Tables
    vectors: bool
    """Whether deletions write deletion vectors, in place of whole files."""

    @property
    def home(self) -> str:
        return str(self.tables.directory / "delta")

    @contextmanager
    def copy(self) -> Iterator[str]:
        """The path of a clone, which is gone afterwards."""
        source, path = f"{self.home}/flights", f"{self.home}/round-{next(_numbers)}"
        if not Path(source).exists():
            self.spark.read.parquet(self.tables.parquet).write.format("delta").save(source)
        on = str(self.vectors).lower()
        self.spark.sql(
            f"CREATE TABLE delta.`{path}` SHALLOW CLONE delta.`{source}` "
            f"TBLPROPERTIES (delta.enableDeletionVectors = {on})"
        )
        try:
            yield path
        finally:
            remove(path)

    def check(self, uri: str) -> None:
        """Delta looks after itself."""
