"""A job of its own that shows all there is to show: plans, reprs, errors. What it prints and logs is searched.

python secret_job.py URI        storage options as JSON on standard input; none means the environment
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

from pyspark.sql import SparkSession
from pyspark.sql.functions import col

from lance_spark import LanceTable


def main(uri: str, storage: dict[str, str]) -> None:
    spark = SparkSession.builder.getOrCreate()
    options = {f"storage.{key}": value for key, value in storage.items()}
    spark.range(10).write.format("lance").mode("append").options(**options).save(uri)
    spark.range(10, 14).write.format("lance").mode("overwrite").options(
        **options, branch="b", create_branch="true", commit_message="to b"
    ).save(uri)
    table = LanceTable.for_path(uri, storage, spark=spark)
    frame = spark.read.format("lance").options(**options, branch="b").load(uri)
    frame.explain("extended")
    frame.where(col("id") > 11).explain("formatted")
    table.to_df(filter="id > 3").explain(True)
    frame.createOrReplaceTempView("v")
    spark.sql("DESCRIBE EXTENDED v").show(100, False)
    spark.sql("EXPLAIN EXTENDED SELECT count(*) FROM v").show(truncate=False)
    for thing in (table, table.location, table.branches, frame, frame.schema, table.branches.list(), table.versions()):
        print(repr(thing), str(thing))
    table.versions().show(truncate=False)
    print("rows", frame.count(), table.count_rows(), table.count_rows("id < 5"))
    attempts: tuple[Callable[[], object], ...] = (
        lambda: spark.read.format("lance").options(**options).load(uri + "x"),
        lambda: spark.read.format("lance").options(**options, filter="no such").load(uri).count(),
        lambda: (
            spark.range(3)
            .withColumnRenamed("id", "k")
            .write.format("lance")
            .mode("append")
            .options(**options)
            .save(uri)
        ),
        lambda: table.branches.create("b"),
        lambda: LanceTable.for_path(uri + "/denied", storage, spark=spark),
    )
    for attempt in attempts:
        try:
            attempt()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is shown
            print(f"{type(error).__name__}: {error!r} {error}", file=sys.stderr)
        else:
            print("no error")
    spark.stop()


main(sys.argv[1], json.load(sys.stdin))
