"""Tasks that fail, are tried again or are run twice at a time: python attempts.py URI MARKS. Prints one line of JSON.

Functions that run on executors are nested, so that they travel by value.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession


def tried_again(marks: str):
    """Fails the first attempt of every task half-way, after a batch was handed to the writer."""

    def run(batches):
        from pyspark import TaskContext

        context = TaskContext.get()
        for number, batch in enumerate(batches):
            if number == 1 and context.attemptNumber() == 0:
                raise RuntimeError("first attempt")
            yield batch
        open(f"{marks}/again-{context.partitionId()}-{context.attemptNumber()}", "w").close()

    return run


def run_twice(marks: str):
    """Keeps the first attempt of one task waiting until another attempt of it has delivered its rows."""

    def run(batches):
        import os
        import time

        from pyspark import TaskContext

        context = TaskContext.get()
        yield from batches
        if context.partitionId() == 1 and context.attemptNumber() == 0:
            for _ in range(300):
                if any(name.startswith("twice-1-") for name in os.listdir(marks)):
                    break
                time.sleep(0.1)
            time.sleep(1)
        open(f"{marks}/twice-{context.partitionId()}-{context.attemptNumber()}", "w").close()

    return run


def main(uri: str, marks: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
    numbers = spark.range(0, 1000, 1, 4).selectExpr("id")
    numbers.mapInArrow(tried_again(marks), "id bigint").write.format("lance").mode("append").save(uri)
    if spark.conf.get("spark.speculation", "false") == "true":
        more = spark.range(1000, 2000, 1, 4)
        more.mapInArrow(run_twice(marks), "id bigint").write.format("lance").mode("append").save(uri)
    sys.stdout.write(json.dumps({"rows": spark.read.format("lance").load(uri).count()}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
