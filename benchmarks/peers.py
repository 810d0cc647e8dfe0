"""What is measured: lance_spark, the floor, Spark's Parquet, pylance in one process, and the JVM connector."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import pyspark
from pyspark.sql import DataFrame, SparkSession

import lance_spark
from benchmarks.floor import NAME as FLOOR
from benchmarks.floor import Floor, save_batch

OURS = "lance_py"
"""Our format name here: the JVM connector answers to ``lance``."""
JVM_BUNDLES = ("4.0", "4.1", "4.2")
JVM_VERSION = "0.7.1"
_DEFAULTS = Path(__file__).parent.parent / "conf" / "spark-defaults.conf"


def jvm_package() -> str:
    """The JVM connector's bundle that fits this Spark best."""
    minor = ".".join(pyspark.__version__.split(".")[:2])
    return f"org.lance:lance-spark-bundle-{minor if minor in JVM_BUNDLES else JVM_BUNDLES[-1]}_2.13:{JVM_VERSION}"


def why_no_jvm(package: str, uri: str) -> str | None:
    """Try the JVM connector in a process of its own, where a failure harms nothing; None when it reads a dataset."""
    command = [sys.executable, "-m", "benchmarks.peers", package, uri]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    except subprocess.TimeoutExpired:
        return "no answer within 300 seconds"
    if done.returncode == 0:
        return None
    lines = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
    telling = [line for line in lines if "unresolved dependency" in line or "Exception" in line or "Error" in line]
    return f"{package}: {(telling or lines or ['no output'])[0][:200]}"


def session(
    packages: Sequence[str] = (), jars: Sequence[str] = (), settings: Mapping[str, str] | None = None
) -> SparkSession:
    """A local session on all cores, with the settings that the jobs run with; jars by coordinates, or as files."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    defaults = dict(line.split() for line in _DEFAULTS.read_text().splitlines() if line and not line.startswith("#"))
    chosen: dict[str, bool | float | int | str | None] = {
        **defaults,
        **(settings or {}),
        "spark.driver.memory": "6g",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": str(os.cpu_count()),
    }
    if packages:
        chosen["spark.jars.packages"] = ",".join(packages)
    if jars:
        chosen["spark.jars"] = ",".join(jars)
    builder = SparkSession.builder.master("local[*]").appName("lance_spark benchmarks")
    spark = builder.config(map=chosen).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    lance_spark.register(spark, OURS)
    spark.dataSource.register(Floor)
    return spark


@dataclass(frozen=True)
class Peers:
    """Ways to the same rows. ``has_jvm`` tells whether the JVM connector was loaded."""

    spark: SparkSession
    has_jvm: bool

    def ours(self, uri: str, **options: Any) -> DataFrame:
        return self.spark.read.format(OURS).options(**options).load(uri)

    def parquet(self, path: str) -> DataFrame:
        return self.spark.read.parquet(path)

    def jvm(self, uri: str, **options: Any) -> DataFrame:
        return self.spark.read.format("lance").options(**options).load(uri)

    def floor(self, uri: str, scratch: Path, **options: Any) -> Callable[[], DataFrame]:
        """Ready-made batches with the shape, number and partitions of what we hand over for the same options."""
        frame = self.ours(uri, **options)
        table = frame.limit(batch_rows(uri)).toArrow().combine_chunks()
        settings = {
            "path": save_batch(table.to_batches()[0], scratch / f"{Path(uri).stem}-{len(options)}.arrow"),
            "schema": frame.schema.json(),
            "rows": lance.dataset(uri).count_rows(filter=options.get("filter")),
            "partitions": frame.rdd.getNumPartitions(),
        }
        return lambda: self.spark.read.format(FLOOR).options(**settings).load()


def batch_rows(uri: str) -> int:
    """Rows of the batches that lance_spark hands over for all columns of a table."""
    from lance_spark.format.schema import row_width
    from lance_spark.scan.partition_rules import batch_rows as rows_of_width

    return rows_of_width(row_width(lance.dataset(uri).schema))


if __name__ == "__main__":
    session([sys.argv[1]]).read.format("lance").load(sys.argv[2]).limit(1).collect()
